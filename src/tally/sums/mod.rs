//! Sums of a query that are kept up to date from one answer to the next.

pub(crate) mod batch;
pub(crate) mod incremental;
pub(crate) mod row_sums;
