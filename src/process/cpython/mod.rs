//! CPython as it is seen in the memory of a process: its structures by version, the frames of its
//! functions, and their places on a native stack.
//!
//! ```text
//! layout ──► frames ──► merge ──► functions
//! ```
//!
//! [`find`] finds the interpreter of a mapped file by its exported symbols, and [`layout`] has the
//! offsets of its structures. While a thread stands still, [`frames`] reads its list of frames.
//! [`merge`] puts them into the native stack as [`sighting`]s: addresses and hashes of code
//! objects. Later [`functions`] replaces these by numbers of functions, each of which it has
//! announced to the viewer with its name, its file and its lines. A stack that cannot be merged or
//! named keeps its native frames alone and is counted.
//!
//! Memory is read through a [`TargetMemory`](memory::TargetMemory). All that is read is hostile:
//! every address may be wrong, every list endless, and every length too large.

mod debug_offsets;
mod dynamic_symbols;
pub(crate) mod find;
pub(crate) mod frames;
pub(crate) mod functions;
mod layout;
pub(crate) mod memory;
pub(crate) mod merge;
mod sighting;
mod split_function;
#[cfg(test)]
mod tests;
