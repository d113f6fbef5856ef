//! Pages of text over the panes: keys and terms, losses, an explanation of a name, a deep stack.

pub mod deepest;
pub mod draw;
pub mod explain;
pub mod lines;
pub mod pages;
