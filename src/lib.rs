//! sigtop: top for stacks. The folders, in alphabetical order, are the way of a sample.
//!
//! A tick of a timer interrupts a thread of the target; the handler in `agent` walks its stack into a ring, and the agent's
//! one thread writes it to a socket. [`attach`] is how the agent came there. [`link`] carries the sample between the two
//! processes. [`profile`] keeps it, in books by process and clock. [`symbols`] gives its addresses names. [`tally`] answers
//! questions about it, as pure functions. [`track`] runs all this for one watch, from launch to last word. [`tui`] shows it,
//! and [`write`](mod@write) puts it into text for those without a screen. The program around it, `verbs/` with `main.rs`, is what the words of
//! its command line do.
#![cfg_attr(sigtop_agent, no_std)]

extern crate alloc;

#[cfg(feature = "agent")]
pub mod agent;
pub mod link;

#[cfg(feature = "viewer")]
pub mod attach;
#[cfg(feature = "viewer")]
pub mod batch;
#[cfg(feature = "viewer")]
pub mod cli;
#[cfg(feature = "viewer")]
pub mod config;
#[cfg(feature = "viewer")]
pub mod demo;
#[cfg(feature = "viewer")]
pub mod profile;
#[cfg(feature = "viewer")]
pub mod record;
#[cfg(feature = "viewer")]
pub mod report;
#[cfg(feature = "viewer")]
pub mod symbols;
#[cfg(feature = "viewer")]
pub mod tally;
#[cfg(feature = "viewer")]
pub mod track;
#[cfg(feature = "viewer")]
pub mod tui;
#[cfg(feature = "viewer")]
pub mod write;
