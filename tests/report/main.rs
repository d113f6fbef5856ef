//! Compares saved profiles and reports on them with pprof's.

mod call_tree;
mod check;
mod disasm;
mod exports;
mod goldens;
mod hostile;
mod imports;
mod json;
mod live_top;
mod making;
mod merged;
mod own_code;
mod perf_data;
mod perf_file;
#[path = "../../src/property.rs"]
mod property;
mod readers;
mod rounds;
mod screen;
#[path = "../harness/skips.rs"]
mod skips;
