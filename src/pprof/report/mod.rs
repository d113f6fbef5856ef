//! Reports on saved profiles that equal pprof's, character for character: [`generate`](fn@generate)
//! applies the options as pprof does and prints one [kind](ReportKind) of report.

mod callgrind;
mod disasm;
mod dot;
mod generate;
mod header;
mod json;
mod list;
mod method;
mod options;
mod printer;
mod raw;
mod source_files;
mod tags;
mod top;
mod top_proto;
mod traces;
mod tree;

pub use generate::{export, generate, prepare};
pub use options::{Granularity, ReportError, ReportKind, ReportOptions};
