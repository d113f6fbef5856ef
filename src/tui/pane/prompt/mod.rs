//! The line that asks for a pattern.

pub mod draw;
pub mod state;
