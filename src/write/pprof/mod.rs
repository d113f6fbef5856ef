//! pprof's `profile.proto`, read and written. The schema is small and has not changed its fields in years; it is decoded here
//! as it comes, because a profile of 100 MB has no room beside itself for another one made of messages.

mod read;
mod wire;
mod write;

pub use read::read;
pub(super) use read::read_fed;
pub use write::write;
