//! The `:` command line: its commands, and how a line is parsed, completed and edited.

pub mod colon_command;
pub mod command_line;
pub mod complete;
pub mod options;
pub mod parse;
pub mod table;
