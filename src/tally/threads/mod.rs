//! Processes and their threads, each with its weight and the function that has most of it.
//!
//! Frame filters choose samples here as in every view. Thread filters do not: a thread that they
//! drop keeps its row, marked as dropped, so that the user can select it instead.

mod build;
mod images;
mod loads;
mod order;
mod table;

pub(crate) use build::ThreadSources;
pub(crate) use order::sort;
pub use table::{
    DeepestRow, FoldedRows, FrameRequest, Load, LoadChange, ProcessRow, StackRow, ThreadRow, ThreadSort, ThreadTable,
    ThreadsQuery, WaitRow, WaitShare,
};
