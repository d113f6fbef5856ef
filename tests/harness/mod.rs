//! Shared by the end-to-end tests: programs to profile, a way to run the real binary around them,
//! and readers for its output. No file here imports the library: the binary is tested from outside.

pub(crate) mod chains;
pub(crate) mod children;
pub(crate) mod escapes;
pub(crate) mod inspect;
pub(crate) mod legacy;
pub(crate) mod outside;
pub(crate) mod quiet;
pub(crate) mod raw;
pub(crate) mod run;
pub(crate) mod skips;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod targets;
pub(crate) mod terminal;
