//! The events of all watched threads.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use super::attributes::{self, Inheritance, MAX_STACK, SampleContent};
use super::births::Births;
use super::estimator::{self, PeriodSequence};
use super::own::OwnEvents;
use super::record::{SampleRecord, ThreadNumbers};
use super::rings::Rings;

/// A thread to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct WatchedTid {
    pub(in super::super) thread: ThreadNumbers,
    /// Whether the processes that it makes are watched, too.
    pub(in super::super) has_children: bool,
}

/// The reason why a thread has no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum OpenError {
    /// The kernel does not let this user sample it.
    Refused,
    /// The thread has ended.
    Ended,
    /// There are too many threads for the limit of descriptors, or for the memory of the kernel.
    TooMany,
    /// The number of threads with events is at its limit ([`MAX_THREADS`]).
    Full,
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        match error.raw_os_error() {
            Some(libc::ESRCH) => OpenError::Ended,
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOSPC) => OpenError::TooMany,
            _ => OpenError::Refused,
        }
    }
}

/// Maximum number of threads with events of their own. When one of them ends, and with each record,
/// the kernel goes through the events of all that share a ring.
const MAX_THREADS: usize = 512;
/// Number of samples after which a thread that is sampled too often has been so for long.
const HOT: u32 = 100;

/// The events of all watched threads.
pub(in super::super) struct Events {
    content: SampleContent,
    /// The wanted period, ns.
    period_ns: u64,
    own: HashMap<u32, OwnEvents>,
    births: Births,
    /// Number of samples of inherited events, by thread and CPU.
    inherited: HashMap<(u32, u32), u32>,
    sequence: PeriodSequence,
    /// Whether the kernel knows events that only threads inherit (Linux 5.13).
    knows_threads: bool,
    /// Number of CPUs.
    cpus: usize,
}

impl Events {
    /// Creates the events of no thread. The seed makes the first periods.
    pub(in super::super) fn new(rings: &Rings, period_ns: u64, seed: u64) -> Events {
        Events {
            content: SampleContent::first(),
            period_ns: period_ns & !1,
            own: HashMap::new(),
            births: Births::default(),
            inherited: HashMap::new(),
            sequence: PeriodSequence::new(seed),
            knows_threads: true,
            cpus: rings.owners().len(),
        }
    }

    /// Whether samples have the kernel's functions. It is known once a thread is watched.
    pub(in super::super) fn sees_kernel(&self) -> bool {
        self.content.kernel
    }

    /// Samples a thread and those that it makes. Does nothing if it is sampled already.
    ///
    /// # Errors
    /// If it cannot be sampled.
    pub(in super::super) fn watch(&mut self, rings: &Rings, watched: WatchedTid) -> Result<(), OpenError> {
        if !self.births.knows(watched.thread.tid) {
            if self.is_full() {
                return Err(OpenError::Full);
            }
            let period = self.births.period(&mut self.sequence, self.period_ns);
            let events = self.open_births(rings, watched, period)?;
            self.births.add_root(watched.thread.tid, events);
        }
        if self.births.are_frequent() && self.births.has_inherited(watched.thread.tid) {
            return Ok(());
        }
        self.sample(rings, watched.thread)
    }

    /// Whether no further thread may have events, but for those that threads with events make.
    pub(in super::super) fn is_full(&self) -> bool {
        self.births.roots() >= MAX_THREADS
    }

    /// Gives the place of a thread to another one. Returns whether that has events now. A thread
    /// keeps its place if others have inherited its events.
    pub(in super::super) fn hand_over(&mut self, rings: &Rings, from: u32, to: WatchedTid) -> bool {
        if !self.births.remove_root(from) {
            return false;
        }
        self.own.remove(&from);
        self.watch(rings, to).is_ok()
    }

    /// Whether a thread has events.
    pub(in super::super) fn is_watched(&self, tid: u32) -> bool {
        self.births.knows(tid)
    }

    /// Number of CPUs.
    pub(in super::super) fn cpus(&self) -> usize {
        self.cpus
    }

    /// Opens own events for a thread that has birth events.
    fn sample(&mut self, rings: &Rings, thread: ThreadNumbers) -> Result<(), OpenError> {
        if self.own.contains_key(&thread.tid) {
            return Ok(());
        }
        let mut events = Vec::with_capacity(rings.owners().len());
        for (cpu, owner) in rings.owners() {
            let period_ns = self.sequence.draw_period(self.period_ns) & !1;
            match attributes::open_thread(thread.tid, cpu, (Inheritance::Own, period_ns), self.content, owner) {
                Ok(event) => events.push((cpu, period_ns, event)),
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.own.insert(thread.tid, OwnEvents::new(thread.pid, events));
        Ok(())
    }

    fn open_births(&mut self, rings: &Rings, watched: WatchedTid, period: u64) -> Result<Vec<OwnedFd>, OpenError> {
        let mut events = Vec::with_capacity(rings.owners().len());
        for (cpu, owner) in rings.owners() {
            loop {
                let inheritance =
                    if watched.has_children || !self.knows_threads { Inheritance::All } else { Inheritance::Threads };
                let opened =
                    attributes::open_thread(watched.thread.tid, cpu, (inheritance, period), self.content, owner);
                let error = match opened {
                    Ok(event) => {
                        events.push(event);
                        break;
                    }
                    Err(error) => error,
                };
                match error.raw_os_error() {
                    Some(libc::EINVAL) if inheritance == Inheritance::Threads => self.knows_threads = false,
                    Some(libc::EACCES | libc::EPERM) if self.content.kernel => self.content.kernel = false,
                    Some(libc::ENODEV) => break,
                    _ => return Err(error.into()),
                }
            }
        }
        Ok(events)
    }

    /// Notes that a thread was made by another one that is watched.
    pub(in super::super) fn note_birth(
        &mut self,
        rings: &Rings,
        thread: ThreadNumbers,
        maker: ThreadNumbers,
        now_ns: u64,
    ) {
        self.births.note((thread.tid, maker.tid), &mut self.sequence, self.period_ns, now_ns);
        if self.own.len() >= MAX_THREADS {
            self.births.take_for_frequent();
        }
        if !self.births.are_frequent() {
            // If it has ended, its time is in no sample.
            let _ = self.sample(rings, thread);
        }
    }

    /// Returns the weight of a sample that was written at a time, ns, or `None` if it does not
    /// count.
    pub(in super::super) fn weigh(&mut self, sample: &SampleRecord<'_>, at_ns: u64, now_ns: u64) -> Option<u64> {
        let tid = sample.thread.tid;
        let own = self.own.get_mut(&tid);
        if sample.period_ns.is_multiple_of(2) {
            let (period_ns, sequence) = (self.period_ns, &mut self.sequence);
            return Some(own.map_or(period_ns, |own| own.weigh((sample.cpu, at_ns), now_ns, period_ns, sequence)));
        }
        if own.is_some() {
            return None;
        }
        let k = self.inherited.entry((tid, sample.cpu)).or_default();
        *k += 1;
        if *k >= HOT && sample.period_ns < self.period_ns / 2 {
            self.births.note_hot();
        }
        Some(estimator::weight(sample.period_ns, *k, self.period_ns))
    }

    /// Forgets a thread that has ended.
    pub(in super::super) fn forget_thread(&mut self, tid: u32) {
        self.own.remove(&tid);
        self.births.forget(tid);
        self.births.remove_root(tid);
        self.inherited.retain(|&(of, _), _| of != tid);
    }

    /// Stops sampling a process. Its threads may still have inherited events, up to the next
    /// [`settle`](Self::settle).
    pub(in super::super) fn forget_process(&mut self, pid: u32) {
        self.own.retain(|_, own| own.pid != pid);
    }

    /// Whether [`settle`](Self::settle) is due.
    pub(in super::super) fn are_to_be_settled(&mut self, now_ns: u64) -> bool {
        self.births.are_to_be_settled(now_ns)
    }

    /// Whether this number of threads may have events of their own.
    pub(in super::super) fn has_room_for(&self, threads: usize) -> bool {
        threads <= MAX_THREADS
    }

    /// Gives each of these threads events of its own, in place of inherited ones. All other events
    /// end.
    pub(in super::super) fn settle(&mut self, rings: &Rings, threads: &[WatchedTid], now_ns: u64) {
        // Closing the old birth events ends those that were inherited from them.
        let old = std::mem::take(&mut self.births);
        self.births = old.renewed(now_ns);
        self.own.retain(|tid, _| threads.iter().any(|watched| watched.thread.tid == *tid));
        self.inherited.clear();
        for &watched in threads {
            let _ = self.watch(rings, watched);
        }
        drop(old);
    }

    /// Samples with another period from now on.
    pub(in super::super) fn set_period(&mut self, rings: &Rings, period_ns: u64, threads: &[WatchedTid], now_ns: u64) {
        if self.period_ns != period_ns & !1 {
            self.period_ns = period_ns & !1;
            self.reopen(rings, threads, now_ns);
        }
    }

    /// Copies as much of each stack as a record has room for, from now on. Returns whether that is
    /// more than before.
    pub(in super::super) fn copy_more(&mut self, rings: &Rings, threads: &[WatchedTid], now_ns: u64) -> bool {
        let is_more = self.content.stack_bytes < MAX_STACK;
        if is_more {
            self.content.stack_bytes = MAX_STACK;
            self.reopen(rings, threads, now_ns);
        }
        is_more
    }

    fn reopen(&mut self, rings: &Rings, threads: &[WatchedTid], now_ns: u64) {
        self.own.clear();
        self.settle(rings, threads, now_ns);
    }
}
