//! The line that asks for the name and the format of a file to save.

pub mod draw;
pub mod state;
