//! What is taken away: one file a format, and read back where it can be. The numbers are `tally`'s; here they only get their form.
//!
//! A live profile is made a [saved](live::saved) one, and [`formats`] says how it is written. [`report`] is what pprof prints.

pub mod binaries;
pub mod error;
mod feed;
pub mod fetch;
pub mod firefox;
pub mod folded;
pub mod formats;
pub mod inquiry;
mod json;
pub mod legacy;
pub mod live;
mod objdump;
mod perf;
mod periods;
pub mod pprof;
pub mod raw;
pub mod report;
pub mod speedscope;
pub mod svg;
pub mod text;
