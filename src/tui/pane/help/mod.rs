//! Pages of text over the panes: keys and terms, losses, an explanation of a name.

pub mod draw;
pub mod explain;
pub mod lines;
pub mod pages;
