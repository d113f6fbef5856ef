//! Callers and callees of the selected function.

pub mod draw;
pub mod state;
