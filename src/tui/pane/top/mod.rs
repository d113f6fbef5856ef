//! The functions that take most time, as a table.

pub mod columns;
pub mod draw;
pub mod state;
