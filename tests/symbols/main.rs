//! Compiles programs and compares their names with the output of binutils.
#![cfg(feature = "viewer")]

mod aarch64_code;
mod code;
mod command;
mod debug_files;
mod downloads;
mod dropped;
mod files;
mod hostile;
mod names;
#[path = "../harness/skips.rs"]
mod skips;
mod sources;
mod truth;
mod workshop;
