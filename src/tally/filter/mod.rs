//! Filters of a query, applied to frames and threads. Each regular expression is evaluated once for
//! each function or thread.

pub(crate) mod frame_filter;
pub mod thread_filter;
