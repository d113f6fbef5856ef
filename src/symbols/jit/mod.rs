//! Names of code that a program generates while it runs. Run-time compilers write them to a
//! [perf map](perf_map) or a [jitdump](jitdump), which grow with the code. [`worker`] reads both
//! as far as they are written, answers requests, and answers again when a name appears.
//!
//! Code may be replaced by other code at the same address. Of several entries for an address the
//! newest counts, for samples from then on: the worker gives the address a new version, and
//! earlier samples keep the name that they have.

mod code_map;
mod function_name;
mod jitdump;
mod map_file;
mod perf_map;
pub mod worker;
