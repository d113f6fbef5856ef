//! The flame graph.

pub mod draw;
pub mod folds;
pub mod label;
pub mod rows;
pub mod state;
pub mod tiling;
