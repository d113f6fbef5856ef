//! Processes and their threads.

pub mod draw;
pub mod state;
mod waits;
