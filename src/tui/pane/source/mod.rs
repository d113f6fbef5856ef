//! Source and assembly of the selected function.

pub mod arrows;
pub mod assembly;
mod cells;
pub mod draw;
pub mod state;
