//! The list of processes to choose from.

pub mod draw;
pub mod state;
