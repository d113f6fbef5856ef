//! The order in which wall ticks look at threads: those that run at every tick, and those that
//! sleep less and less often, each by itself. In a crowd, looks have a budget of CPU time. A look
//! at a thread that has run takes some 20 µs there, mostly to open a file of `/proc`; one at a
//! thread that has not takes less than 1 µs.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

/// The average time for which a sleeping thread is not looked at, ns, at most: where threads are
/// few, and in any crowd.
const LONGEST_REST_NS: u64 = 40_000_000;
const LONGEST_REST_IN_CROWD_NS: u64 = 1_000_000_000;
/// The same for each thread of a crowd, ns.
const REST_PER_THREAD_NS: u64 = 200_000;
/// Maximum time for which a budget is collected, ns.
const MAX_COLLECTED_NS: u64 = 100_000_000;

/// A kind of threads that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookKind {
    /// The last look found it running.
    Active,
    /// No look has found it yet.
    New,
    /// The last look found it asleep.
    Resting,
}

impl LookKind {
    pub(super) const ALL: [LookKind; 3] = [LookKind::Active, LookKind::New, LookKind::Resting];

    /// Returns the part of the time that looks at such threads take at most, in a crowd. The first
    /// look at each is no steady load, and without it nothing of the thread is shown.
    fn budget_part(self) -> u64 {
        match self {
            LookKind::Active | LookKind::Resting => 50,
            LookKind::New => 4,
        }
    }
}

/// Returns the average time to the next look at a thread, ns, after `rests` looks in a row since
/// which it has not run. `threads` is the number of threads.
pub(super) fn rest_ns(period_ns: u64, rests: u8, threads: usize) -> u64 {
    let longest_ns = (threads as u64 * REST_PER_THREAD_NS).clamp(LONGEST_REST_NS, LONGEST_REST_IN_CROWD_NS);
    (period_ns << rests.min(10)).min(longest_ns).max(period_ns)
}

/// Returns the longest time between two wall ticks, ns: new threads are noticed by them.
pub(super) fn longest_interval_ns(period_ns: u64) -> u64 {
    LONGEST_REST_NS.max(period_ns)
}

/// A look that is due at a time, ns, at a thread. It is void if the thread has another time noted.
pub(super) type Look = (u64, u32);

/// The looks to come.
#[derive(Default)]
pub(super) struct LookQueue {
    active: VecDeque<Look>,
    new: VecDeque<Look>,
    resting: BinaryHeap<Reverse<Look>>,
}

impl LookQueue {
    /// Adds a look.
    pub(super) fn push(&mut self, kind: LookKind, look: Look) {
        match kind {
            LookKind::Active => self.active.push_back(look),
            LookKind::New => self.new.push_back(look),
            LookKind::Resting => self.resting.push(Reverse(look)),
        }
    }

    /// Takes the next look that is due now.
    pub(super) fn pop(&mut self, kind: LookKind, now_ns: u64) -> Option<Look> {
        let fifo = match kind {
            LookKind::Active => &mut self.active,
            LookKind::New => &mut self.new,
            LookKind::Resting => {
                let Reverse(next) = self.resting.peek()?;
                return if next.0 <= now_ns { self.resting.pop().map(|look| look.0) } else { None };
            }
        };
        if fifo.front()?.0 <= now_ns { fifo.pop_front() } else { None }
    }

    /// Returns the time of the next look, ns.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let resting = self.resting.peek().map(|look| look.0.0);
        [&self.active, &self.new].into_iter().filter_map(|looks| looks.front().map(|look| look.0)).chain(resting).min()
    }
}

/// The CPU time that looks at threads of a crowd may take, ns, by their kind. It is negative after
/// they took more.
#[derive(Default)]
pub(super) struct LookBudget {
    left_ns: [i64; LookKind::ALL.len()],
}

impl LookBudget {
    /// Adds the budget of a time, ns.
    pub(super) fn collect(&mut self, passed_ns: u64) {
        for kind in LookKind::ALL {
            let left_ns = &mut self.left_ns[kind as usize];
            let part = |ns: u64| (ns / kind.budget_part()) as i64;
            *left_ns = (*left_ns + part(passed_ns.min(MAX_COLLECTED_NS))).min(part(MAX_COLLECTED_NS));
        }
    }

    /// Returns what looks may take now, ns.
    pub(super) fn left_ns(&self, kind: LookKind) -> i64 {
        self.left_ns[kind as usize]
    }

    /// Notes what they took, ns.
    pub(super) fn spend(&mut self, kind: LookKind, used_ns: u64) {
        let left_ns = &mut self.left_ns[kind as usize];
        *left_ns = left_ns.saturating_sub_unsigned(used_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_makes_looks_rarer_up_to_a_limit() {
        let ms = |period_ms: u64, rests, threads| rest_ns(period_ms * 1_000_000, rests, threads) / 1_000_000;
        assert_eq!([0, 1, 2, 3, 9, u8::MAX].map(|rests| ms(10, rests, 20)), [10, 20, 40, 40, 40, 40]);
        assert_eq!([0, 6, 7].map(|rests| ms(1, rests, 200)), [1, 40, 40]);
        assert_eq!([0, 5].map(|rests| ms(100, rests, 1)), [100, 100]);
        assert_eq!([3, 6, 9].map(|rests| ms(10, rests, 1_000)), [80, 200, 200]);
        assert_eq!([6, 7, 9].map(|rests| ms(10, rests, 10_000)), [640, 1_000, 1_000]);
    }

    #[test]
    fn looks_are_taken_when_they_are_due() {
        use LookKind::{Active, New, Resting};
        let mut queue = LookQueue::default();
        assert_eq!(queue.next_ns(), None);
        for (due_ns, tid) in [(700, 1), (300, 2), (500, 3)] {
            queue.push(Resting, (due_ns, tid));
        }
        queue.push(Active, (400, 4));
        assert_eq!(queue.next_ns(), Some(300));
        queue.push(New, (200, 5));
        assert_eq!(queue.next_ns(), Some(200));
        assert_eq!([399, 400].map(|now| queue.pop(Active, now)), [None, Some((400, 4))]);
        assert_eq!([199, 200, 200].map(|now| queue.pop(New, now)), [None, Some((200, 5)), None]);
        let resting = [299, 600, 600, 600].map(|now| queue.pop(Resting, now));
        assert_eq!(resting, [None, Some((300, 2)), Some((500, 3)), None]);
        assert_eq!(queue.next_ns(), Some(700));
    }

    #[test]
    fn looks_take_their_part_of_the_time_at_most() {
        const MS: u64 = 1_000_000;
        let mut budget = LookBudget::default();
        budget.collect(20 * MS);
        assert_eq!(LookKind::ALL.map(|kind| budget.left_ns(kind)), [400_000, 5_000_000, 400_000]);
        budget.spend(LookKind::Resting, 600_000);
        assert!(budget.left_ns(LookKind::Resting) < 0 && budget.left_ns(LookKind::Active) > 0);
        budget.collect(20 * MS);
        assert_eq!(budget.left_ns(LookKind::Resting), 200_000, "what was taken too much is made up for");
        budget.collect(u64::MAX);
        budget.collect(u64::MAX);
        assert_eq!(budget.left_ns(LookKind::Resting), 2_000_000, "a long sleep allows for no burst");
    }
}
