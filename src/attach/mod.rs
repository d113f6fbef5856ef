//! How the agent gets into a target: which programs can carry it, the file that is preloaded, launching, finding, knocking.
//!
//! A launch goes through the files in this order: [`program`] finds what would run and refuses what cannot be watched (with
//! [`elf`] for its bytes and `wrapper` for commands like sudo), [`library`] makes a file of the agent, [`launch`] starts the
//! target, with a `keeper` (and its `packet`s, and a `backlog`) when it gets a terminal of its own. A running target is
//! checked by [`find`], or chosen from all of them, which [`survey`] lists; [`knock`] wakes its agent; [`proc`] reads what
//! they need of `/proc`. [`stand_in`] puts the agent where programs look for gperftools' library. This folder ends where the agent connects: the sockets are `link::receive`'s.

pub mod backlog;
pub mod elf;
mod error;
pub mod find;
mod image;
mod inherit;
mod keeper;
pub mod knock;
pub mod launch;
pub mod library;
mod packet;
pub mod proc;
pub mod program;
mod pty;
mod quote;
pub mod silent;
pub mod stand_in;
pub mod survey;
mod wrapper;

pub use error::{AttachError, Refusal};
pub use inherit::ignore_hangups;
