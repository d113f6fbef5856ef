//! Pages of text over the panes: keys and terms, losses, explanations of a name and of the time,
//! and stacks.

pub mod deepest;
pub mod draw;
pub mod explain;
pub mod holder;
pub mod lines;
pub mod pages;
pub mod summary;
