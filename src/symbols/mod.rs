//! Symbolization: addresses to names. The [`worker`] opens files on a thread of its own, and
//! [`Names`] collects its answers. Until an address is resolved, and if no symbol covers it, a
//! frame is called `module+0x12ab`; it never takes a neighbor's name. [`assembly`] disassembles one
//! function, [`source`] reads source files, and [`explain`] says why a file has no better names.

pub mod assembly;
mod awaited_files;
mod budget;
#[cfg(test)]
mod built_program;
pub mod coverage;
mod cxx_scope;
#[cfg(any(test, feature = "testing"))]
pub mod damage;
mod debug_packages;
mod debuginfod;
mod declaration;
pub mod demangle;
mod disassembly;
pub mod download;
mod dropped_code;
mod dwarf;
mod eh_frame;
mod eh_frame_hdr;
mod elf;
pub mod error;
pub mod explain;
mod file_caches;
#[cfg(test)]
pub(crate) mod foreign_names;
mod function_parts;
pub mod jit;
mod kallsyms;
mod library;
mod line_worker;
pub mod listing;
mod machine;
mod messages;
mod mini_debug_info;
pub mod name_syntax;
mod nameless;
mod names;
mod object;
pub mod offsets;
mod other_languages;
pub mod own_code;
mod plt;
mod resolved;
pub mod sanitize;
#[cfg(any(test, feature = "testing"))]
pub mod scenario;
mod section;
pub mod simplify;
pub mod source;
mod split_dwarf;
mod table;
mod transfer;
mod unit_index;
mod unit_lines;
mod wait_names;
pub mod worker;

pub use kallsyms::kernel_symbol;
pub use library::is_library;
pub use names::{FrameLine, Function, FunctionId, INTERPRETED_CODE, Names, UNNAMED_CODE};
pub use object::find_file;
pub use wait_names::{ExplainedWait, WaitLabel};
