//! The panes: one file each, one `draw` each, its layout drawn over it. They read the state and
//! write to the canvas.

mod bars;
pub mod callers;
pub mod card;
pub mod command;
pub mod context;
mod edited_line;
pub mod flame;
pub mod header;
pub mod help;
mod idle_row;
pub mod labels;
pub mod mode;
pub mod output;
pub mod panes;
pub mod picker;
pub mod prompt;
mod row_names;
pub mod save;
pub mod screen_state;
mod sentences;
pub mod source;
pub mod status;
pub mod threads;
pub mod timeline;
mod title;
pub mod top;
pub mod waiting;
