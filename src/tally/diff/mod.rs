//! Differences from a baseline, as pprof's `-base` computes them. Values are signed; percentages
//! refer to the sum of both totals and have no sign; rows are sorted by the size of their
//! difference.

mod bursts;
mod callers;
mod flame;
mod lines;
mod significance_test;
mod threads;
mod top;

pub use bursts::{Burstiness, baseline_parts};
pub use callers::diff_callers;
pub use flame::diff_flames;
pub use lines::diff_lines;
pub use significance_test::{Periods, SignificanceTest};
pub use threads::diff_threads;
pub use top::diff_tables;
