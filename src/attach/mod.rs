//! Gets the agent into a target: decides which programs can carry it, makes the library that is
//! preloaded, launches programs, finds running ones and wakes their agents.
//!
//! A launch uses the modules in this order: [`program`] finds the file that a command executes and
//! refuses what cannot be watched; [`library`] writes the agent's library; [`launch`] starts the
//! target. A running target is checked by [`find`], or chosen from the list that [`survey`] makes;
//! [`knock`] wakes its agent, and [`network_namespace`] gives the agent a socket that it can reach.
//! [`diagnose`] explains why a target sends no samples. [`proc`] reads `/proc` for all of them.
//! [`libprofiler`] puts the agent where programs look for gperftools' library.
//!
//! This folder ends where the agent connects: the sockets are in `link::listener`.

pub mod cpu_quota;
pub mod diagnose;
mod error;
pub mod find;
pub mod knock;
pub mod launch;
pub mod launch_gate;
pub mod libprofiler;
pub mod library;
pub mod network_namespace;
pub mod proc;
pub mod program;
mod quote;
pub mod rights;
pub mod sockets;
pub mod survey;
mod unix_peers;
pub mod watch_claim;

pub use error::{AttachError, Refusal};
pub use launch::inherit::{ignore_hangups, is_ignored};
pub use quote::command as quote_command;
