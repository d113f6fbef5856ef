//! The limits of a session that are said once: memory, overhead, and an allocator that is not seen.

use std::fs::File;

use super::{SampleSource, SessionThread};
use crate::attach::program::elf;

/// Maximum number of programs that are searched at a time.
const MAX_SEARCHED: usize = 4;

impl SessionThread {
    /// Says once that the memory limit is reached.
    pub(super) fn announce_memory_limit(&mut self) {
        let profile = &self.model.profile;
        if !self.is_limit_announced && profile.has_reached_memory_limit() {
            self.is_limit_announced = true;
            self.warn(format!(
                "the memory limit of {} MB is reached: old history and callers of rare stacks are dropped (--memory)",
                profile.memory_limit() >> 20
            ));
        }
    }

    /// Says once if a program is linked with an allocator of its own, while memory is sampled.
    pub(super) fn announce_own_allocators(&mut self) {
        let is_live = matches!(self.feed, SampleSource::Live(_));
        if !is_live || !self.settings.clock.is_memory() || self.own_allocator.is_some() {
            return;
        }
        let processes = &self.model.profile.processes()[self.searched_processes..];
        let programs = processes.iter().filter(|process| process.connected).take(MAX_SEARCHED);
        let found = programs.filter_map(|process| {
            let file = File::open(format!("/proc/{}/exe", process.pid)).ok()?;
            Some((elf::own_allocator(&file).ok()??, process.executable.clone()))
        });
        let found = found.collect::<Vec<_>>().into_iter().next();
        self.searched_processes = self.model.profile.processes().len();
        if let Some((function, program)) = found {
            self.own_allocator = Some(function);
            self.scheduler.note_news();
            self.warn(format!(
                "{program} is linked with an allocator of its own ({function}): its allocations are not seen"
            ));
        }
    }

    /// Halves the sampling frequency if the handlers exceed their budget.
    pub(super) fn limit_overhead(&mut self, now_ns: u64) {
        if matches!(self.feed, SampleSource::Recording(_)) || self.settings.clock.is_memory() {
            return;
        }
        let losses = self.model.profile.losses();
        if let Some(lowered) = self.overhead_limiter.check(&losses, self.settings.period_ns, now_ns) {
            self.settings.period_ns = lowered.period_ns;
            self.halved_for = Some(lowered.budget);
            self.engage();
            self.warn(lowered.to_string());
        }
    }
}
