//! Saved profiles, as google/pprof structures them: `profile` ← `graph` ← `report`, and one file
//! for each format.
//!
//! [`live`] turns a live profile into a [saved one](profile::SavedProfile), [`format`](mod@format)
//! reads and writes it, and [`report`] prints what pprof prints.

mod call_tree;
mod combine;
pub mod demangle;
pub mod error;
pub mod filter;
pub mod format;
pub mod graph;
mod json;
pub mod live;
pub mod live_top;
pub mod live_top_json;
pub mod merge;
pub mod node_tags;
pub mod nodes;
mod objdump;
pub mod own_code;
pub mod path;
pub mod profile;
pub mod prune;
pub mod raw_dump;
pub mod report;
pub mod samples;
mod sanitize;
pub mod symbolize;
pub mod tag_filter;
mod tag_frames;
pub mod trim;
pub mod units;
