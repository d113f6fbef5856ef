//! Callers and callees of the selected function.

pub mod card;
pub mod draw;
mod excerpt;
pub mod state;
