//! pprof's `profile.proto`. The schema is small and stable, so it is decoded and encoded by hand
//! while streaming: a profile of 100 MB would need as much memory again for generated message
//! types.

mod read;
pub(crate) mod wire;
mod write;

pub use read::read;
pub(super) use read::read_input;
pub use write::write;
