//! The link between agent and viewer.
//!
//! [`wire`] defines the messages; it and [`varint`] are shared with the agent. The viewer's end is
//! a [`listener`]: its thread runs `event_loop`, which accepts agents at `sockets` and serves one
//! `connection` each. A [`recording`] is the received messages in a file; [`atomic_file`] writes
//! files so that they are complete or absent. [`gperftools`] is the other format that an agent
//! writes.

#[cfg(feature = "viewer")]
pub mod atomic_file;
#[cfg(feature = "viewer")]
mod connection;
#[cfg(feature = "viewer")]
mod event_loop;
pub mod gperftools;
#[cfg(feature = "viewer")]
pub mod listener;
#[cfg(feature = "viewer")]
pub mod recording;
#[cfg(feature = "viewer")]
mod sockets;
pub mod varint;
pub mod wire;
