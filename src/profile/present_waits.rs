//! Present waits: how long they last, and whether threads wait for each other's locks. None of
//! those threads will ever run again.

use super::apply::Profile;
use super::process::Process;
use super::stack::FrameId;
use super::thread::ThreadId;
use super::waits::WaitReason;

/// Time after its last sample up to which a thread counts as still waiting, ns.
const RECENT_NS: u64 = 2_000_000_000;

impl Profile {
    /// The time since which a thread has been in its present wait, on the viewer's clock, ns; `None`
    /// if it does not wait, or if the display is frozen.
    pub fn waits_since(&self, id: ThreadId) -> Option<u64> {
        let thread = self.thread(id);
        let process = self.process(thread.process);
        let is_this = process.threads.get(&thread.tid) == Some(&id);
        process.waits.get(&thread.tid).filter(|_| is_this && self.frozen.is_none())?.since_ns
    }

    /// The threads of a deadlock at a time of the viewer's clock, each of which waits for a lock
    /// that the next one holds, and the last one for a lock of the first. Empty if there is none.
    /// `writer` returns the thread that holds what the frame of a wait stands for, if the names of
    /// its callers say that it is a lock.
    pub fn deadlock(&self, now_ns: u64, writer: impl Fn(FrameId) -> Option<ThreadId>) -> Vec<ThreadId> {
        let connected = self.processes.iter().filter(|process| process.connected);
        let mut cycles = connected.map(|process| self.cycle(process, now_ns, &writer));
        cycles.find(|cycle| !cycle.is_empty()).unwrap_or_default()
    }

    fn cycle(&self, process: &Process, now_ns: u64, writer: &impl Fn(FrameId) -> Option<ThreadId>) -> Vec<ThreadId> {
        let holder = |thread: ThreadId| {
            let current = process.waits.get(&self.thread(thread).tid)?;
            let wait = self.waits.get(current.wait);
            let is_recent = now_ns.saturating_sub(current.seen_ns?) < RECENT_NS;
            match wait.reason {
                _ if !is_recent => None,
                WaitReason::Lock => wait.holder,
                WaitReason::Futex => wait.holder.and(self.stacks.leaf_first(current.stack?).next()).and_then(writer),
                _ => None,
            }
        };
        let waiting = process.waits.keys().filter_map(|tid| process.threads.get(tid).copied());
        // Each thread waits for one other, so a path either ends or closes.
        let mut on_cycle = waiting.filter_map(|start| {
            let path = std::iter::successors(Some(start), |&thread| holder(thread));
            let closes = path.skip(1).take(process.waits.len()).position(|thread| thread == start)?;
            Some(std::iter::successors(Some(start), |&thread| holder(thread)).take(closes + 1).collect::<Vec<_>>())
        });
        // The one with the lowest number comes first, so that a deadlock always reads the same.
        let Some(mut cycle) = on_cycle.next() else { return Vec::new() };
        let first = (0..cycle.len()).min_by_key(|&index| cycle[index]).unwrap_or(0);
        cycle.rotate_left(first);
        cycle
    }
}
