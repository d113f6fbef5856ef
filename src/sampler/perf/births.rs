//! The events that new threads and processes inherit.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use super::attributes;
use super::estimator::PeriodSequence;

/// Period of birth events that never expire, ns.
pub(super) const NEVER_NS: u64 = 1_000_000_000_000_001;
/// Number of births in about a second above which they are frequent, and below which they are rare
/// again.
const FREQUENT: f64 = 4.0;
const RARE: f64 = 1.0;
/// Minimum time between two draws for the threads of one maker, for each CPU, ns.
const DRAW_NS: u64 = 50_000;
/// Minimum time between two times at which all threads get events of their own, ns: when births
/// have become rare, and while they are frequent.
const SETTLE_NS: u64 = 1_000_000_000;
const SETTLE_HOT_NS: u64 = 10_000_000_000;

/// The birth events of one thread, by CPU, and when their periods were drawn.
struct Root {
    events: Vec<OwnedFd>,
    drawn_ns: u64,
}

/// The birth events of all threads.
#[derive(Default)]
pub(super) struct Births {
    /// By the thread for which they were opened. It may have ended since; its descendants live on.
    roots: HashMap<u32, Root>,
    /// The thread from whose events a thread has inherited its own.
    root_of: HashMap<u32, u32>,
    /// Number of births in about the last second.
    rate: f64,
    rated_ns: u64,
    is_frequent: bool,
    /// Whether threads were born since all threads had their own events.
    has_new: bool,
    /// Whether one of these has been sampled many times, and more often than wanted.
    has_hot: bool,
    settled_ns: u64,
}

impl Births {
    pub(super) fn add_root(&mut self, tid: u32, events: Vec<OwnedFd>) {
        self.roots.insert(tid, Root { events, drawn_ns: 0 });
    }

    /// Number of threads for which birth events were opened.
    pub(super) fn roots(&self) -> usize {
        self.roots.len()
    }

    /// Closes the birth events of a thread, unless living threads have inherited them. Returns
    /// whether that was done.
    pub(super) fn remove_root(&mut self, tid: u32) -> bool {
        let has_heirs = || self.root_of.values().any(|&root| root == tid);
        self.roots.contains_key(&tid) && !has_heirs() && self.roots.remove(&tid).is_some()
    }

    /// Whether a thread has birth events: of its own, or inherited ones.
    pub(super) fn knows(&self, tid: u32) -> bool {
        self.roots.contains_key(&tid) || self.root_of.contains_key(&tid)
    }

    /// Whether a thread has inherited its birth events.
    pub(super) fn has_inherited(&self, tid: u32) -> bool {
        self.root_of.contains_key(&tid)
    }

    /// Whether births are frequent, so that new threads are sampled by what they inherit.
    pub(super) fn are_frequent(&self) -> bool {
        self.is_frequent
    }

    /// Notes a birth. Draws new periods for the next ones, if births are frequent.
    pub(super) fn note(
        &mut self,
        (tid, maker): (u32, u32),
        sequence: &mut PeriodSequence,
        wanted_ns: u64,
        now_ns: u64,
    ) {
        let root = self.root_of.get(&maker).copied().unwrap_or(maker);
        self.root_of.insert(tid, root);
        self.decay(now_ns);
        self.rate += 1.0;
        self.is_frequent |= self.rate > FREQUENT;
        self.has_new = true;
        if self.is_frequent {
            self.draw(root, sequence, wanted_ns, now_ns);
        }
    }

    fn decay(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.rated_ns, now_ns));
        self.rate *= (-(passed_ns as f64) / 1e9).exp();
    }

    fn draw(&mut self, root: u32, sequence: &mut PeriodSequence, wanted_ns: u64, now_ns: u64) {
        let Some(root) = self.roots.get_mut(&root) else { return };
        if now_ns.saturating_sub(root.drawn_ns) < DRAW_NS * root.events.len() as u64 {
            return;
        }
        root.drawn_ns = now_ns;
        for event in &root.events {
            let _ = attributes::set_period(event, sequence.draw_period(wanted_ns) | 1);
        }
    }

    /// Notes the end of a thread.
    pub(super) fn forget(&mut self, tid: u32) {
        self.root_of.remove(&tid);
    }

    /// Leaves new threads to what they inherit.
    pub(super) fn take_for_frequent(&mut self) {
        self.is_frequent = true;
    }

    /// Notes that a thread is sampled more often than wanted by what it has inherited.
    pub(super) fn note_hot(&mut self) {
        self.has_hot = true;
    }

    /// Whether threads of frequent births are to be given events of their own now.
    pub(super) fn are_to_be_settled(&mut self, now_ns: u64) -> bool {
        self.decay(now_ns);
        let since_ns = now_ns.saturating_sub(self.settled_ns);
        let is_over = self.rate < RARE && since_ns >= SETTLE_NS;
        self.has_new && self.is_frequent && (is_over || self.has_hot && since_ns >= SETTLE_HOT_NS)
    }

    /// The period of the birth events of a root that is opened now, ns.
    pub(super) fn period(&self, sequence: &mut PeriodSequence, wanted_ns: u64) -> u64 {
        if self.is_frequent { sequence.draw_period(wanted_ns) | 1 } else { NEVER_NS }
    }

    /// Returns what takes the place of these, in which each thread gets events of its own.
    pub(super) fn renewed(&self, now_ns: u64) -> Births {
        let is_frequent = self.is_frequent && self.rate >= RARE;
        let (rate, rated_ns) = (self.rate, self.rated_ns);
        Births { rate, rated_ns, is_frequent, settled_ns: now_ns, ..Births::default() }
    }
}
