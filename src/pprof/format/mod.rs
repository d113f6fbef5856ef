//! File formats of profiles: the table of formats, and one module for each format that is read or
//! written without adding up a report.

pub mod firefox;
pub mod folded;
pub mod gperftools;
mod input;
mod labels;
mod perf_script;
mod periods;
pub mod proto;
mod read;
mod save_format;
pub mod speedscope;
pub mod svg;

pub use read::{read, read_with_warnings};
pub use save_format::SaveFormat;
