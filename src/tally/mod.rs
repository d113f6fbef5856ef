//! Live aggregation: pure functions from profile, names and query to what a pane shows. Caches make
//! repeated queries fast and never change an answer. Weights are nanoseconds.
//!
//! A [`query`] is answered in four layers. [`filter`] applies it to frames and threads, whose names
//! make [`rows`]. [`stacks`] derives facts about every stack from that, [`sums`] adds up samples
//! and keeps the sums up to date, and the views ([`top`], [`callers`], [`lines`], [`flame`],
//! [`threads`], [`trend`], [`timeline`], [`activity`]) build the answers. [`tallier`] connects the layers, and
//! [`diff`] compares answers with those of a baseline.

pub mod activity;
pub mod call_paths;
pub mod callers;
pub mod change;
pub mod diff;
pub mod filter;
pub mod flame;
mod idle;
pub mod lines;
pub mod measure;
pub mod memory_sum;
pub mod query;
#[cfg(test)]
pub(crate) mod random;
mod rows;
pub mod significance;
mod stacks;
mod sums;
pub mod tallier;
pub mod text;
pub mod threads;
pub mod timeline;
pub mod top;
pub mod trend;
