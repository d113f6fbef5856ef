//! The program: its command line, its config file, and one file for each subcommand.

pub mod args;
mod batch;
mod black_box;
mod check;
mod command_word;
pub mod config;
mod demo;
mod demo_target;
mod downloads;
mod dump;
mod env;
mod explain;
mod failure;
mod gather;
mod installed;
mod jit_maps;
mod leave;
mod mcp;
mod overview;
mod progress;
mod push;
mod record;
mod record_push;
mod replay;
mod report;
mod run;
mod save;
mod screen;
mod settings;
mod stacks;
mod start;
mod symbols;
mod trigger;
mod view;
mod watch;

pub use run::run;
