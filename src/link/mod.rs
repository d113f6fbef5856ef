//! The viewer's end of the [wire](crate::wire).
//!
//! Its thread is a [`listener`], which runs `event_loop`: it accepts agents at `sockets` and serves
//! one `connection` each. A [`recording`] is the received messages in a file; [`atomic_file`]
//! writes files so that they are complete or absent. A recorder is asked for a file at its
//! [`recorder_socket`].

pub mod atomic_file;
mod connection;
mod event_loop;
pub mod listener;
pub mod recorder_socket;
pub mod recording;
mod sockets;
