//! The threads of a process that are looked at in a tick.
//!
//! Looking at a thread costs about a microsecond, so threads that sleep for long take turns. The
//! CPU time of the process shows whether all time is accounted for; only what is missing makes the
//! sampler search for the threads that used it.

use std::collections::HashSet;

use super::{MAX_NEW_THREADS, WatchedProcess};
use crate::attach::proc;

/// Number of ticks for which a thread that has run is looked at in each tick.
const ACTIVE_TICKS: u64 = 16;
/// Number of threads from which on a process is a crowd: what a tick does for all of them is
/// limited.
const CROWD: usize = 256;
/// Maximum number of threads of a crowd that are looked at in a tick because they run.
const CROWD_RUNNING: usize = 256;
/// The same of those that sleep and have run, at some 30 µs each, most of it to open a file of
/// `/proc` and to walk the stack; and while some have no sample yet.
const CROWD_SLEEPING: usize = 12;
const CROWD_FIRST: usize = 96;
/// Missing CPU time for which sleeping threads are searched, ns.
const GAP_NS: u64 = 50_000;
/// The part of the sleeping threads that is searched in one tick.
const SEARCH_PARTS: usize = 10;
/// Number of searches of all threads after which missing CPU time is given up.
const SEARCHES: usize = 4;

impl WatchedProcess {
    /// Returns whether it has so many threads that what a tick does for them is limited.
    pub(in crate::sampler) fn is_crowd(&self) -> bool {
        self.threads.len() > CROWD
    }

    /// Returns whether it has, or had, as many: while it ends, they become fewer.
    pub(in crate::sampler) fn was_crowd(&self) -> bool {
        self.most_threads > CROWD
    }

    /// Returns the threads to look at in this tick: those that run, or have run lately. Of a crowd,
    /// those that sleep are looked at once after they have run, and wait for their turn.
    pub(in crate::sampler) fn active_threads(&mut self, tick: u64) -> Vec<u32> {
        let is_crowd = self.is_crowd();
        let threads = &mut self.threads;
        self.active.retain(|tid| {
            let Some(thread) = threads.get_mut(tid) else { return false };
            let is_recent = match is_crowd {
                true => !thread.is_stack_known,
                false => thread.ran_at + ACTIVE_TICKS > tick,
            };
            thread.is_active = !thread.is_asleep || is_recent;
            thread.is_active
        });
        if !is_crowd {
            return self.active.clone();
        }
        let is_asleep = |tid: &u32| threads.get(tid).is_some_and(|thread| thread.is_asleep);
        let (mut sleeping, mut running): (Vec<u32>, Vec<u32>) = self.active.iter().partition(|tid| is_asleep(tid));
        let turns = if self.unsampled > 0 { CROWD_FIRST } else { CROWD_SLEEPING }.min(sleeping.len());
        let runs = CROWD_RUNNING.min(running.len());
        let chosen = [&running[..runs], &sleeping[..turns]].concat();
        running.rotate_left(runs);
        sleeping.rotate_left(turns);
        self.active = [running, sleeping].concat();
        chosen
    }

    /// Returns the children of threads that run, or have run lately.
    pub(in crate::sampler) fn children_of_active_threads(&self) -> Vec<u32> {
        self.active.iter().filter_map(|&tid| proc::children_of_thread(self.pid, tid).ok()).flatten().collect()
    }

    /// Returns sleeping threads to look at once the active ones were looked at: `count` of them in
    /// turn, and more while CPU time is missing. Those of a crowd all have their turn by the wall
    /// clock, within a second.
    pub(in crate::sampler) fn sleeping_threads(&mut self, count: usize, period_ns: u64) -> Vec<u32> {
        let all_in_turn = count > 0 && self.is_crowd();
        let per_tick = (self.threads.len() as u64 * period_ns).div_ceil(1_000_000_000) as usize;
        let count = if all_in_turn { count.max(per_tick) } else { count };
        self.is_searching = !self.has_events() && !all_in_turn && self.missing_ns() > GAP_NS;
        let all = self.threads.len();
        let part = if self.is_searching { all.div_ceil(SEARCH_PARTS).max(SEARCH_PARTS) } else { 0 };
        if !self.is_searching {
            self.searched = 0;
        } else if self.searched > SEARCHES * all.max(SEARCH_PARTS) {
            // Threads that have ended have used it.
            self.give_up(self.missing_ns());
            self.searched = 0;
        } else {
            self.searched += part;
        }
        let wanted = count.max(part).min(all.saturating_sub(self.active.len()));
        if wanted == 0 {
            return Vec::new();
        }
        let active: HashSet<u32> = self.active.iter().copied().collect();
        let (before, after) = (self.threads.range(..self.next_sleeper), self.threads.range(self.next_sleeper..));
        let in_turn = after.chain(before).map(|(&tid, _)| tid).filter(|tid| !active.contains(tid));
        let chosen: Vec<u32> = in_turn.take(wanted).collect();
        self.next_sleeper = chosen.last().map_or(0, |tid| tid.wrapping_add(1));
        chosen
    }

    /// Returns the next threads to look at in turn, so that each is looked at once in a time, ns.
    pub(in crate::sampler) fn threads_in_turn(&mut self, period_ns: u64, within_ns: u64) -> Vec<u32> {
        let count = (self.threads.len() as u64 * period_ns).div_ceil(within_ns) as usize;
        let (before, after) = (self.threads.range(..self.next_in_turn), self.threads.range(self.next_in_turn..));
        let chosen: Vec<u32> = after.chain(before).map(|(&tid, _)| tid).take(count.min(MAX_NEW_THREADS)).collect();
        self.next_in_turn = chosen.last().map_or(0, |tid| tid.wrapping_add(1));
        chosen
    }

    /// Has a thread looked at in the next ticks.
    pub(in crate::sampler) fn activate(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && !std::mem::replace(&mut thread.is_active, true)
        {
            self.active.push(tid);
        }
    }
}
