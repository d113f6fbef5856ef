//! What it means: pure functions from (Profile, Names, Query) to what a pane shows. What is kept between
//! answers never shows in them.
//!
//! A sample's stack goes through a [`sieve`] frame by frame, [`paths`] says what each stack then counts for, by
//! [`rows`] of one name, and [`table`], [`callers`], [`lines`] and [`flame`] tell. A [`tallier`] keeps what they share,
//! [`running`] sums take in what changed.

mod branches;
pub mod callers;
pub mod crowd;
pub mod diff;
mod entries;
pub mod flame;
mod grove;
pub mod lines;
pub mod measure;
mod paths;
pub mod query;
mod rows;
mod running;
mod runs;
pub mod saved;
mod sieve;
pub mod table;
pub mod tag;
pub mod tallier;
pub mod text;
pub mod threads;
mod ties;
pub mod timeline;
pub mod trend;
pub mod units;
mod weights;
