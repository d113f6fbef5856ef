//! Latency: which part of the wall-clock time in which a process ran each sample explains. It is
//! the weight divided by the number of the process's threads that ran at that moment, as in
//! `perf report --latency`. perf counts them by context switches; here the samples tell.
//!
//! Time is cut into slices of 10 ms. A sample says that its thread ran before it, for as long as it
//! weighs: some time since the thread's sample before, if that is not much longer ago. Threads that
//! take turns on one processor have half of that time each. In a slice of which all threads
//! together ran `n` times the length, `n` threads ran on average. The part of a weight that lies in
//! that slice is divided by `n`, if `n` is more than 1.
//!
//! ```text
//! slice       |         |         |         |    a's sample at the end of the second slice: 1 : 1
//! thread a    ----------a---------a---------a    at the end of the third: 1 : 2, like b's
//! thread b                        ----------b
//! ```
//!
//! Samples do not tell when within a slice a thread ran. Where threads often wait for a processor
//! they are taken to run one after the other, as far as there is time for that.
//!
//! So the latency is exact to what is not known of the threads that run in a slice: between the
//! number of those that run through it, and of all that run in it at all. A thread that begins or
//! ends there, or that has long ticks and short phases, may run beside one function or beside
//! another ([`Resolution`]).
//!
//! The sums depend on the samples in a slice and not on their order: a later one corrects what was
//! booked for the earlier ones. Slices are open for [`OPEN_SLICES`], longer than samples take to
//! arrive. What comes later still, and what a weight of more than [`MAX_SPREAD_NS`] has before, is
//! not divided.

use super::hash::IdMap;
use super::history::BUCKET_NS;
use super::ids::ThreadId;

/// Length of a slice, ns.
const SLICE_NS: u64 = 10_000_000;
/// Longest period of the kernel's ticks, by which the time of a sample may be late, ns; they are
/// usually 4 ms or less.
const TICK_NS: u64 = 4_000_000;
/// Number of slices of a period of the recent time: 5 s.
const RECENT_SLICES: u64 = 500;
/// Number of slices that later samples may change. The history keeps the buckets of that time open.
const OPEN_SLICES: u64 = 80;
/// The longest time before a sample over which its weight is spread, ns.
const MAX_SPREAD_NS: u64 = 40 * SLICE_NS;
/// Maximum number of parts of a slice. A thread has one there, or two; more are not divided.
const MAX_PARTS: usize = 4096;
/// Number of threads from which on those that have not run for a while are forgotten.
const MAX_RECENT: usize = 1024;

/// The part of a sample's weight that lies in a slice.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Index of the sample in the totals.
    index: u32,
    /// History bucket of the sample.
    bucket: u64,
    ns: u64,
    /// The latency that was booked for it, ns.
    booked_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Slice {
    parts: Vec<Part>,
    /// The time that threads ran in it, all together, ns.
    ran_ns: u64,
    /// The number of threads that ran in it, and of those that ran through it.
    threads: u32,
    running_threads: u32,
    /// Whether the latency of a part may differ from what was booked.
    is_stale: bool,
}

/// The last sample of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct LastRun {
    at_ns: u64,
    /// The time since which the thread runs without a pause, ns.
    since_ns: u64,
    /// Number of the last slice that it ran in.
    slice: u64,
    /// The part of its weight that exceeds the time since the sample before it, ns. The kernel
    /// tells the time of a tick in steps of up to 10 ms, so the next one is as much later.
    surplus_ns: u64,
}

/// The time before a sample in which its thread ran.
struct Run {
    start_ns: u64,
    /// The time that it ran since then, ns. It is 0 for all but the first of several samples of a
    /// thread that have one time.
    ran_ns: u64,
    /// The time since which the thread runs without a pause, ns.
    since_ns: u64,
    /// Number of the last slice that it ran in before.
    slice: u64,
}

/// The part of the latency that is not known.
#[derive(Clone, Copy, Debug, Default)]
struct Resolution {
    /// The part of the latency that may as well be another function's, ns.
    unknown_ns: f64,
    latency_ns: f64,
}

impl Resolution {
    fn add(&mut self, other: Resolution) {
        self.unknown_ns += other.unknown_ns;
        self.latency_ns += other.latency_ns;
    }
}

/// A change of the latency of samples in a history bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LatencyChange {
    pub(super) index: u32,
    pub(super) bucket: u64,
    /// It wraps around, so that a change may be negative.
    pub(super) ns: u64,
}

/// The recent time in which threads of a process ran.
#[derive(Clone, Debug)]
pub struct RunningTime {
    /// The open slices; that of number `n` is at `n` modulo their number.
    slices: Vec<Slice>,
    /// Number of the newest slice.
    newest: u64,
    /// The last sample of each thread.
    recent: IdMap<ThreadId, LastRun>,
    /// The changes by slices that are not open any more, and by undivided weights.
    due: Vec<LatencyChange>,
    /// The resolution of all closed slices, and of those of the recent time: in the period of
    /// [`RECENT_SLICES`] before, and in the current one.
    resolution: [Resolution; 3],
}

impl Default for RunningTime {
    fn default() -> RunningTime {
        RunningTime {
            slices: vec![Slice::default(); OPEN_SLICES as usize],
            newest: 0,
            recent: IdMap::default(),
            due: Vec::new(),
            resolution: [Resolution::default(); 3],
        }
    }
}

impl RunningTime {
    /// Adds a sample of a thread that ran for `ns` until `ran_ns`. It is counted at `at_ns`, under
    /// `index`.
    pub(super) fn add(&mut self, thread: ThreadId, (ran_ns, at_ns): (u64, u64), index: u32, ns: u64) {
        let bucket = at_ns / BUCKET_NS;
        self.open_until(ran_ns / SLICE_NS);
        let run = self.note_run(thread, ran_ns, ns);
        let (start_ns, length_ns) = (run.start_ns, u128::from(ran_ns - run.start_ns).max(1));
        let share = |of_ns: u64, part_ns: u64| (u128::from(of_ns) * u128::from(part_ns) / length_ns) as u64;
        let oldest = (self.newest + 1).saturating_sub(OPEN_SLICES);
        let (mut end_ns, mut left_ns) = (ran_ns, ns);
        while end_ns > start_ns {
            let number = (end_ns - 1) / SLICE_NS;
            let from_ns = start_ns.max(number * SLICE_NS);
            let slice = &mut self.slices[(number % OPEN_SLICES) as usize];
            if number < oldest || slice.parts.len() >= MAX_PARTS {
                break;
            }
            let part_ns = if from_ns == start_ns { left_ns } else { share(ns, end_ns - from_ns).min(left_ns) };
            slice.parts.push(Part { index, bucket, ns: part_ns, booked_ns: 0 });
            slice.ran_ns = slice.ran_ns.saturating_add(share(run.ran_ns, end_ns - from_ns));
            slice.threads += u32::from(number > run.slice);
            let ends = end_ns.is_multiple_of(SLICE_NS);
            slice.running_threads += u32::from(ends && run.since_ns <= number * SLICE_NS);
            slice.is_stale = true;
            (end_ns, left_ns) = (from_ns, left_ns - part_ns);
        }
        if left_ns > 0 {
            self.due.push(LatencyChange { index, bucket, ns: left_ns });
        }
    }

    /// Returns when a thread ran that now has a sample, and notes the sample.
    fn note_run(&mut self, thread: ThreadId, at_ns: u64, ns: u64) -> Run {
        if self.recent.len() >= MAX_RECENT && !self.recent.contains_key(&thread) {
            let since_ns = at_ns.saturating_sub(MAX_SPREAD_NS);
            self.recent.retain(|_, last| last.at_ns >= since_ns);
        }
        let last = self.recent.entry(thread).or_default();
        let start_ns = at_ns.saturating_sub(ns.min(MAX_SPREAD_NS));
        let slice = last.slice;
        last.slice = slice.max(at_ns.saturating_sub(1) / SLICE_NS);
        // Some of its weight may be from before a pause.
        let alone = Run { start_ns, ran_ns: at_ns - start_ns, since_ns: at_ns, slice };
        let longest_ns = ns.saturating_mul(2).saturating_add(SLICE_NS).min(MAX_SPREAD_NS);
        match at_ns.checked_sub(last.at_ns) {
            None => alone,
            Some(0) => Run { ran_ns: 0, ..alone },
            Some(since_ns) if since_ns <= longest_ns => {
                let used_ns = ns.saturating_add(last.surplus_ns);
                let (start_ns, ran_ns) = (last.at_ns, used_ns.min(since_ns));
                // The kernel's ticks and their times are up to a tick late.
                let is_paused = ran_ns + ns / 4 + TICK_NS < since_ns;
                let run_since_ns = if is_paused { at_ns } else { last.since_ns };
                let surplus_ns = (used_ns - ran_ns).min(SLICE_NS);
                *last = LastRun { at_ns, since_ns: run_since_ns, surplus_ns, ..*last };
                Run { start_ns, ran_ns, since_ns: run_since_ns, slice }
            }
            Some(_) => {
                *last = LastRun { at_ns, since_ns: at_ns, surplus_ns: 0, ..*last };
                alone
            }
        }
    }

    /// Makes a slice the newest, and closes those that are too old then.
    fn open_until(&mut self, number: u64) {
        if number <= self.newest {
            return;
        }
        for closed in number.saturating_sub(OPEN_SLICES).max(self.newest)..number {
            let slice = &mut self.slices[((closed + 1) % OPEN_SLICES) as usize];
            slice.settle(&mut self.due);
            let resolution = slice.resolution();
            let [total, before, current] = &mut self.resolution;
            [total, &mut *current].into_iter().for_each(|sum| sum.add(resolution));
            if (closed + 1).is_multiple_of(RECENT_SLICES) {
                (*before, *current) = (*current, Resolution::default());
            }
            slice.parts.clear();
            (slice.ran_ns, slice.threads, slice.running_threads) = (0, 0, 0);
        }
        self.newest = number;
    }

    /// The part of the latency that is not known, since the start or lately, and the latency, ns.
    pub(super) fn resolution(&self, is_total: bool) -> (f64, f64) {
        let [mut sum, before, current] = self.resolution;
        if !is_total {
            sum = before;
            sum.add(current);
        }
        self.slices.iter().for_each(|slice| sum.add(slice.resolution()));
        (sum.unknown_ns, sum.latency_ns)
    }

    /// Whether slices were closed since the last call of [`settle`](Self::settle).
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns the changes since the last call, those of open slices only if `all` are wanted.
    pub(super) fn settle(&mut self, all: bool) -> Vec<LatencyChange> {
        let RunningTime { slices, due, .. } = self;
        slices.iter_mut().filter(|_| all).for_each(|slice| slice.settle(due));
        let mut changes = std::mem::take(due);
        changes.sort_unstable_by_key(|change| (change.bucket, change.index));
        changes.dedup_by(|next, kept| {
            let is_same = (next.bucket, next.index) == (kept.bucket, kept.index);
            if is_same {
                kept.ns = kept.ns.wrapping_add(next.ns);
            }
            is_same
        });
        changes.retain(|change| change.ns != 0);
        changes
    }

    /// Replaces the index of each part by the one at its place in `indices`.
    pub(super) fn renumber(&mut self, indices: &[u32]) {
        let parts = self.slices.iter_mut().flat_map(|slice| &mut slice.parts);
        parts.for_each(|part| part.index = indices[part.index as usize]);
        self.due.iter_mut().for_each(|change| change.index = indices[change.index as usize]);
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.slices.iter().map(|slice| slice.parts.capacity() * size_of::<Part>() + size_of::<Slice>()).sum()
    }
}

impl Slice {
    /// Returns the resolution of its parts: each may be divided by the number of threads that ran
    /// through the slice, or by that of all that ran in it.
    fn resolution(&self) -> Resolution {
        let weights = self.parts.iter().map(|part| part.ns as f64).sum::<f64>();
        let (least, most) = (f64::from(self.running_threads.max(1)), f64::from(self.threads.max(1)));
        let unknown_ns = weights * (1.0 / least - 1.0 / most).max(0.0);
        Resolution { unknown_ns, latency_ns: weights * SLICE_NS as f64 / self.ran_ns.max(SLICE_NS) as f64 }
    }

    /// Appends the changes since the last call.
    fn settle(&mut self, changes: &mut Vec<LatencyChange>) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let ran_ns = self.ran_ns.max(SLICE_NS);
        for part in &mut self.parts {
            let latency_ns = (u128::from(part.ns) * u128::from(SLICE_NS) / u128::from(ran_ns)) as u64;
            let ns = latency_ns.wrapping_sub(std::mem::replace(&mut part.booked_ns, latency_ns));
            if ns != 0 {
                changes.push(LatencyChange { index: part.index, bucket: part.bucket, ns });
            }
        }
    }
}

#[cfg(test)]
mod tests;
