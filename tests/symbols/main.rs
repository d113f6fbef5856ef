//! Names of real programs: compiled here, and compared with what binutils say about them.
#![cfg(feature = "viewer")]

mod code;
mod command;
mod files;
mod hostile;
mod names;
#[path = "../harness/skips.rs"]
mod skips;
mod sources;
mod workshop;
