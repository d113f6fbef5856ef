//! Sampling without a stop: the kernel takes the samples (`perf_event_open(2)`).
//!
//! An event is a timer that counts the CPU time of one thread on one CPU. When it expires, the
//! kernel writes a record into the ring of that CPU: the registers of the thread's user code, a
//! copy of its stack, and the functions of the kernel if the user may know them. No thread is
//! stopped, no system call ends early, and a debugger may trace the thread.
//!
//! ```text
//!  thread 1 ──► event on CPU 0 ──┐
//!           ──► event on CPU 1 ──┼─┐        records
//!  thread 2 ──► event on CPU 0 ──┴─┼─► ring of CPU 0 ──┐
//!           ──► event on CPU 1 ────┴─► ring of CPU 1 ──┴─► Rings::peek
//! ```
//!
//! # Two events of a thread
//!
//! A thread that is known has *own* events with the period of the viewer on average. Their first
//! period is random, so that each instant of a thread has the same chance to be sampled. Another
//! one is drawn after every few samples, so that no program keeps step with them.
//!
//! It also has *birth* events, which the kernel copies to each thread and process that it makes
//! (`inherit`), so that these are known from their first instant: by records of their births, ends,
//! names and programs. As long as births are rare, these events never expire, and a new thread gets
//! own events as soon as it is known. When births are frequent, such a thread may have ended by
//! then. Birth events then have a random period that is drawn again after each birth, and their
//! samples weigh what makes each instant of a short thread count as much as any other
//! ([`estimator`]). When births are rare again, the threads that are still there get own events
//! ([`settle`]), up to a limit: the kernel goes through all events that share a ring with each
//! record and at the end of each thread.
//!
//! The periods of own events are even numbers, those of birth events odd ones: a record tells its
//! period, and so whose it is.
//!
//! [`settle`]: Events::settle

mod attributes;
mod births;
mod estimator;
mod events;
mod kernel_sampler;
mod own;
mod record;
mod record_bytes;
mod ring;
mod rings;
#[cfg(test)]
mod tests;

pub(super) use attributes::check_access;
pub(super) use events::{Events, OpenError, WatchedTid};
pub(super) use kernel_sampler::KernelSampler;
pub(super) use record::{Record, SampleRecord, ThreadNumbers};
#[cfg(test)]
use rings::Rings;
