//! Wall ticks of a crowd: each thread rests by itself. One that has not run is looked at less and
//! less often, and its next sample stands for all the time since. Looks that cost more than reading
//! a clock have a budget of CPU time; a thread that has to wait for its look loses nothing.

use crate::agent::os::syscall;
use crate::agent::sampling::counters;
use crate::agent::timers::thread::Thread;
use crate::wire::ring::word;
use core::sync::atomic::Ordering;

/// The longest average time between two looks at a sleeping thread, ns: for each thread of the
/// crowd, and its limits.
const REST_PER_THREAD_NS: u64 = 200_000;
const LEAST_REST_NS: u64 = 40_000_000;
const LONGEST_REST_NS: u64 = 1_000_000_000;
/// Looks at threads that have run take at most this part of the time, and the first ones at each
/// thread, without which nothing of it is shown, this one.
const LOOKS_PART: u64 = 80;
const FIRST_LOOKS_PART: u64 = 4;
/// Maximum time of which they may take their part, ns.
const MAX_COLLECTED_NS: u64 = 100_000_000;

/// Returns the average time to the next look at a sleeping thread, ns, after so many of them in a
/// row since which it has not run.
pub(super) fn rest_ns(period_ns: u64, rests: u32, threads: usize) -> u64 {
    let longest_ns = (threads as u64 * REST_PER_THREAD_NS).clamp(LEAST_REST_NS, LONGEST_REST_NS);
    (period_ns << (2 * rests).min(20)).min(longest_ns).max(period_ns)
}

/// The CPU time that the looks of one tick may take: at those that were found asleep before, and at
/// others.
pub(super) struct LookBudget {
    /// The agent thread's CPU time before the first look, ns.
    begun_ns: Option<u64>,
    limits_ns: [u64; 2],
    /// The first threads for which it did not suffice. Later ones are not looked at.
    refused: [Option<u32>; 2],
}

impl LookBudget {
    /// Returns the budget of a tick, ns after the one before.
    pub(super) fn after(passed_ns: u64) -> LookBudget {
        let passed_ns = passed_ns.min(MAX_COLLECTED_NS);
        let limits_ns = [LOOKS_PART, FIRST_LOOKS_PART].map(|part| passed_ns / part);
        LookBudget { begun_ns: None, limits_ns, refused: [None; 2] }
    }

    /// Returns whether it may suffice for a look at a thread.
    pub(super) fn is_left(&self, thread: &Thread) -> bool {
        self.refused[usize::from(!thread.was_found())].is_none()
    }

    /// Returns whether it suffices for a look at a thread that is not known to sleep on.
    pub(super) fn allows(&mut self, thread: &Thread) -> bool {
        let kind = usize::from(!thread.was_found());
        let now_ns = syscall::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let is_allowed = now_ns - *self.begun_ns.get_or_insert(now_ns) < self.limits_ns[kind];
        if !is_allowed {
            self.refused[kind] = Some(thread.tid);
        }
        is_allowed
    }

    /// Returns the thread that the next tick looks at first, if this one has not looked at all.
    pub(super) fn next(&self) -> Option<u32> {
        let [asleep, other] = self.refused;
        asleep.or(other)
    }
}

/// Publishes up to when so many threads of a crowd were looked at, as the sum of the times, ns. If
/// the process is killed, the viewer counts the rest as lost.
pub(crate) fn publish_counted(threads: u64, counted_ns: u64) {
    counters::counter(word::WALL_COUNTED_NS).store(counted_ns, Ordering::Relaxed);
    counters::counter(word::WALL_THREADS).store(threads, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_of_a_crowd_is_looked_at_less_and_less_often() {
        let ms = |period_ms: u64, rests, threads| rest_ns(period_ms * 1_000_000, rests, threads) / 1_000_000;
        assert_eq!([0, 1, 2, 3, u32::MAX / 2].map(|rests| ms(10, rests, 300)), [10, 40, 60, 60, 60]);
        assert_eq!([0, 1, 2, 3, 4].map(|rests| ms(10, rests, 10_000)), [10, 40, 160, 640, 1_000]);
        assert_eq!([0, 9].map(|rests| ms(5_000, rests, 10_000)), [5_000, 5_000]);
    }

    #[test]
    fn looks_at_a_crowd_have_a_budget() {
        let mut thread = Thread::new(7);
        let mut none = LookBudget::after(0);
        assert!(none.is_left(&thread) && !none.allows(&thread) && !none.is_left(&thread));
        assert_eq!(none.next(), Some(7));
        thread.last.remember(0, 0, &[1]);
        assert!(none.is_left(&thread), "those that were found asleep have a budget of their own");
        let mut much = LookBudget::after(u64::MAX);
        assert!(much.allows(&thread) && much.is_left(&thread) && much.next().is_none());
        assert_eq!(much.limits_ns, [1_250_000, 25_000_000]);
    }
}
