//! The panes: one file each, one `draw` each, its layout drawn over it. They read the state and
//! write to the canvas.

pub mod callers;
pub mod card;
pub mod command;
pub mod context;
pub mod flame;
pub mod header;
pub mod help;
pub mod labels;
pub mod mode;
pub mod output;
pub mod picker;
pub mod prompt;
pub mod save;
mod shared;
pub mod source;
pub mod status;
pub mod threads;
pub mod timeline;
pub mod top;
pub mod waiting;
