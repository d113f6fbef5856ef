//! Samples over time, and the part of the time that is shown.

pub mod draw;
pub mod state;
