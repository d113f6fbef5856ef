//! gperftools' CPU profiles: a header and records of machine words, followed by the memory map as
//! text. They hold addresses only, so reading one by name takes the files that were mapped.

mod maps;
mod read;
mod write;

pub(super) use read::{is_gperftools, read};
pub use write::{check, write};
