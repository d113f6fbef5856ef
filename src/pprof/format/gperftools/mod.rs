//! gperftools' CPU profiles: a header and records of machine words, followed by the memory map as
//! text. They hold addresses only, so reading one by name takes the files that were mapped. Its
//! heap profiles, which Go and jemalloc write in a similar form, are text as a whole.

mod counts;
mod heap;
mod maps;
mod read;
mod stacks;
mod write;

pub(super) use counts::{has_counts, read as read_counts};
pub(super) use heap::{has_heap, is_heap, read as read_heap};
pub(super) use read::{is_gperftools, read};
pub use write::{check, write};
