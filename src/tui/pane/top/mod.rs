//! The functions that take most time, as a table.

pub mod columns;
mod diff;
pub mod draw;
mod own_code;
mod owners;
pub mod state;
mod trunk;
mod waits;
