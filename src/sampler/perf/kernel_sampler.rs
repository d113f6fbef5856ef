//! The rings, the events that write to them, and a way to wait for both records and stops.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

use super::super::clock::monotonic_ns;
use super::super::ptrace;
use super::events::Events;
use super::rings::Rings;

/// The rings and the events of all threads.
pub(in super::super) struct KernelSampler {
    pub(in super::super) rings: Rings,
    pub(in super::super) events: Events,
    /// Processes that have begun and could not be watched, with the process that made each.
    pub(in super::super) missed: HashMap<u32, u32>,
    /// Readable when a traced thread has changed its state.
    stops: SignalFd,
}

impl KernelSampler {
    /// Prepares to sample. Returns `None` if the kernel does not let this user.
    pub(in super::super) fn new(period_ns: u64) -> Option<KernelSampler> {
        let rings = Rings::open().ok()?;
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGCHLD);
        let stops = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).ok()?;
        let events = Events::new(&rings, period_ns, monotonic_ns());
        Some(KernelSampler { rings, events, missed: HashMap::new(), stops })
    }

    /// Waits until there may be a record or a stop, at most this long.
    pub(in super::super) fn wait(&self, at_most: Duration) {
        let descriptors = self.rings.descriptors().chain([self.stops.as_fd()]);
        let mut polled: Vec<PollFd<'_>> =
            descriptors.map(|fd: BorrowedFd<'_>| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = ppoll(&mut polled, Some(TimeSpec::from_duration(at_most)), None);
        // Takes the signal, if there is one.
        ptrace::wait_for_event(Duration::ZERO);
    }
}
