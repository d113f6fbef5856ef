//! Saved profiles, and reports of them, against pprof's own.

mod disasm;
mod exports;
mod fetching;
mod goldens;
mod hostile;
mod imports;
mod making;
mod rounds;
mod screen;
