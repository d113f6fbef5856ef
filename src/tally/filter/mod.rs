//! Filters of a query, applied to frames and threads. Each regular expression is evaluated once for
//! each function or thread.

pub(crate) mod frame_filter;
mod own_functions;
pub mod thread_filter;
