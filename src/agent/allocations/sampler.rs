//! The agent thread's part of the clock of allocations: it turns it on and off, keeps modules that
//! are loaded later replaced, and tells which sampled allocations have ended.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use crate::agent::allocations::countdown::Spacing;
use crate::agent::allocations::exact_total::{ExactTotal, WeightCorrection};
use crate::agent::allocations::fork_child;
use crate::agent::allocations::got::{self, Wanted};
use crate::agent::allocations::poisson::MAX_INTERVALS;
use crate::agent::allocations::record::{EPOCH, INTERVAL, PER_SECOND};
use crate::agent::allocations::tables::{self, Tables, tables};
use crate::agent::os::syscall;
use crate::agent::sampling::counters;
use crate::agent::sampling::ring::Ring;
use crate::agent::state;
use crate::agent::unwind::modules::Modules;
use crate::wire::LossCause;

/// Number of attempts to put the real functions back.
const ATTEMPTS: u32 = 100;

/// Bytes of the samples that were lost before the agent thread saw them.
fn lost_bytes() -> u64 {
    let [.., lost] = counters::losses();
    let before = LossCause::ALL.into_iter().zip(lost).filter(|(cause, _)| *cause != LossCause::SocketFull);
    before.map(|(_, bytes)| bytes).fold(0, u64::wrapping_add)
}

/// The clock of allocations, as the agent thread knows it.
#[derive(Default)]
pub(crate) struct AllocationSampler {
    /// Mean bytes between two samples; 0 while the clock is off.
    interval: u64,
    /// Whether modules have to be looked at again.
    is_incomplete: bool,
    /// Ended allocations, and mappings that have shrunk, of which the viewer does not know yet: the
    /// id, and the part that is left.
    freed: Vec<(u32, u32)>,
    /// The mappings that have shrunk.
    shrunk: Vec<(u32, u32)>,
    /// Position of the ring behind the samples of those.
    freed_from: u64,
    /// Ended allocations that were announced to the viewer. The messages may not have left yet.
    announced: Vec<u32>,
    /// The counted bytes, and those that were reported.
    exact: ExactTotal,
}

impl AllocationSampler {
    /// Turns the clock on. Returns false if the process has no allocator whose functions could be
    /// replaced, or no memory for the tables.
    pub(crate) fn engage(&mut self, spacing: Spacing, epoch: u32, modules: &Modules, ring: &'static Ring) -> bool {
        let Some(tables) = tables::make() else { return false };
        let Spacing { interval, per_second } = spacing;
        INTERVAL.store(0, Ordering::SeqCst);
        tables.begin(ring);
        self.freed.clear();
        self.announced.clear();
        self.shrunk.clear();
        EPOCH.store(epoch, Ordering::Relaxed);
        PER_SECOND.store(per_second, Ordering::Relaxed);
        INTERVAL.store(interval, Ordering::Release);
        tables.restart();
        self.exact = ExactTotal::begin(tables.counted().wrapping_sub(lost_bytes()));
        self.interval = interval;
        state::REPLACED.store(true, Ordering::Relaxed);
        let outcome = got::change(modules, Wanted::Replacements);
        self.is_incomplete = outcome.is_incomplete;
        state::COUNTS_ALLOCATIONS.store(1, Ordering::Release);
        syscall::futex_wake(&state::COUNTS_ALLOCATIONS);
        outcome.replaced > 0 || outcome.is_incomplete
    }

    /// Turns the clock off, also after a fork in whose parent it was on.
    pub(crate) fn disengage(&mut self, modules: &Modules) {
        state::COUNTS_ALLOCATIONS.store(0, Ordering::Relaxed);
        let interval = INTERVAL.swap(0, Ordering::SeqCst);
        if let Some(tables) = tables() {
            fork_child::end(tables, interval);
        }
        self.interval = 0;
        self.freed.clear();
        if !state::REPLACED.load(Ordering::Relaxed) {
            return;
        }
        // Where a module is being unloaded or loaded, some replacements stay. They only jump on.
        let mut attempts = ATTEMPTS;
        while attempts > 0 && got::change(modules, Wanted::Real).is_incomplete {
            attempts -= 1;
            syscall::yield_now();
        }
        state::REPLACED.store(attempts == 0, Ordering::Relaxed);
        if let Some(tables) = tables() {
            tables.forget_filter();
        }
    }

    /// Replaces the functions in modules that were loaded since, if the modules have `changed` or
    /// some were not ready. Called about once a second, and when modules are read.
    pub(crate) fn keep_up(&mut self, modules: &Modules, changed: bool) {
        if self.interval == 0 {
            return;
        }
        if changed || self.is_incomplete {
            self.is_incomplete = got::change(modules, Wanted::Replacements).is_incomplete;
        }
        if let Some(tables) = tables() {
            let most = self.interval.saturating_mul(MAX_INTERVALS);
            tables.mend(i64::try_from(most).unwrap_or(i64::MAX - 1));
        }
    }

    /// Finds the allocations that have ended, before the samples up to now are taken from the ring.
    /// `is_flushed` says whether the messages about earlier ones have left.
    pub(crate) fn collect(&mut self, ring: &Ring, is_flushed: bool) {
        if let Some(tables) = tables().filter(|_| is_flushed) {
            self.announced.drain(..).for_each(|id| tables.give_back(id));
        }
        if self.interval > 0
            && self.freed.is_empty()
            && let Some(tables) = tables()
        {
            for (id, left) in tables.mappings.collect() {
                self.note_mapping(tables, id, left);
            }
            let freed = &mut self.freed;
            tables.collect_freed(|id| freed.push((id, 0)));
            self.freed_from = ring.positions().0;
        }
    }

    /// Returns the correction of the samples of memory that the ring has.
    pub(crate) fn correction(&self, samples: impl Iterator<Item = (u64, u64)>) -> Option<WeightCorrection> {
        let tables = tables().filter(|_| self.interval > 0)?;
        let is_last = state::EXITING.load(Ordering::Relaxed);
        Some(self.exact.correction(tables.counted(), lost_bytes(), is_last, samples))
    }

    /// Notes a sample that is sent, or lost on the way.
    pub(crate) fn report(&mut self, bytes: u64) {
        self.exact.report(bytes);
    }

    /// Notes the part of a mapping that is left.
    fn note_mapping(&mut self, tables: &Tables, id: u32, left: u32) {
        let known = self.shrunk.iter().position(|shrunk| shrunk.0 == id);
        if left == 0 {
            tables.end(id);
            known.map(|at| self.shrunk.swap_remove(at));
        } else if left < u32::MAX && known.is_none_or(|at| self.shrunk[at].1 != left) {
            known.map(|at| self.shrunk.swap_remove(at));
            self.shrunk.push((id, left));
            self.freed.push((id, left));
        }
    }

    /// Calls `tell` with the id of each of them and the part that is left, if their samples were
    /// taken from the ring. `tell` returns false if there is no room.
    pub(crate) fn tell_freed(&mut self, ring: &Ring, mut tell: impl FnMut(u32, u32) -> bool) {
        while ring.positions().1 >= self.freed_from
            && let Some(&(id, left)) = self.freed.last()
            && tell(id, left)
        {
            self.freed.pop();
            if left == 0 {
                self.announced.push(id);
            }
        }
    }

    /// Returns whether there are ended allocations that the viewer does not know.
    pub(crate) fn has_news(&self) -> bool {
        self.interval > 0 && (!self.freed.is_empty() || tables().is_some_and(Tables::has_freed))
    }
}
