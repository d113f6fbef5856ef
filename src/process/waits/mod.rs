//! Finds out what a sleeping thread waits for: the descriptor behind its system call, and the
//! thread that holds the lock it wants. Only the kernel and memory are asked; the thread is neither
//! stopped nor woken.
//!
//! [`SleepLocation`] is a line of the kernel about the thread. [`BlockingCall`] on it says why the
//! thread waits, as far as the call tells, and [`WaitReader`] asks a [`WaitSource`] for the rest.
//!
//! [`BlockingCall`]: crate::wire::BlockingCall

mod calls;
mod polled;
mod reader;
mod reason;
mod sleep_location;
mod source;

pub(crate) use reader::{SleeperWait, WaitReader};
#[cfg(feature = "viewer")]
pub use reason::WaitReason;
pub(crate) use sleep_location::SleepLocation;
pub(crate) use source::WaitSource;
