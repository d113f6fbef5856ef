//! `sigtop check`: decides whether a new build is slower than a base, and by how much.
//!
//! ```text
//!  profiles ──► series    the values of every function in each unit: a run, a file or a block of time
//!    names  ──►   │       functions of both builds that are the same
//!                 ▼
//!              compare ──► verdict ──► print   text, Markdown, GitHub annotations, JSON
//! ```
//!
//! # Statistics
//!
//! Two numbers are compared: the share of a function in the total, or its value in a run.
//! Neighboring samples are alike, because a program works in bursts. So the variance is not that of
//! independent samples, but is estimated from units that are long enough to be independent: whole
//! runs or files, or blocks of time; see [`series`]. A difference is tested by Welch's t-test, and
//! by Fisher's exact test with as many samples as carry the same information, because the first is
//! wrong for small counts. The larger probability counts. Of all functions that are compared,
//! [`verdict`] accepts those that the procedure of Benjamini and Hochberg accepts.
//!
//! A check that finds nothing is fine only if it would have found what it looks for. Otherwise it
//! is inconclusive and says how many samples or runs would do; see [`power`].

pub mod compare;
pub mod names;
pub mod power;
pub mod print;
pub mod rules;
pub mod series;
mod significance;
#[cfg(test)]
mod simulation;
pub mod verdict;
