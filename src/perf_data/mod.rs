//! Recordings of Linux's `perf record` (perf.data), from a file or a stream.
//!
//! ```text
//! records   the file's records, unpacked and in order of time   header, unpack, fields
//!    │
//! import    processes, threads, code, losses ───► stack         frames of a sample
//!    │                        └► address_space, code_files      files by build id or path
//!    ▼
//! event_recording   one recording per event, as sigtop's own ──► session plays it
//! ```
//!
//! So a file of perf has everything that a recording has: names, inlined calls, source, assembly,
//! history and threads. Addresses are named by the same threads as those of a live process, and
//! copied stacks (`--call-graph dwarf`) are unwound by the sampler's own unwinder.
//!
//! The format is that of `tools/perf/Documentation/perf.data-file-format.txt` and of
//! `perf_event_open(2)`. The crate `linux-perf-data` reads it, but panics on a long build id, takes
//! the sizes of sections on trust, reads values of counter groups in the wrong order, skips the
//! calls that the processor has recorded, and unpacks by a library in C alone. What is read here is
//! hostile: nothing panics, loops past its input, or allocates beyond it.

mod address_space;
mod attribute;
mod code_files;
mod event_recording;
mod fields;
mod header;
mod import;
mod kernel;
mod record;
mod records;
mod stack;
mod unpack;

pub use header::MAGIC;
pub use import::{ImportedEvent, ImportedFile, import};
