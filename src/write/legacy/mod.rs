//! gperftools' CPU profiles: words of the machine that made them, then its memory map as text. They hold addresses alone; who
//! reads one needs the files that were mapped.

mod maps;
mod read;
mod write;

pub(super) use read::{is_legacy, read};
pub use write::{check, write};
