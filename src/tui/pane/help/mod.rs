//! Pages of text over the panes: keys and terms, losses, an explanation of a name, and stacks.

pub mod deepest;
pub mod draw;
pub mod explain;
pub mod holder;
pub mod lines;
pub mod pages;
