//! The totals of memory in use: a sample of an allocation is in them until the allocation is freed.

use super::apply::Profile;
use super::change_log::{ChangeLog, LoggedSample};
use super::process::{LiveAllocation, ProcessId};
use super::sampling_interval::SamplingIntervals;
use super::totals::{BUCKET_NS, ThreadStack, Weight};
use crate::wire::Clock;

/// Maximum number of allocations of a process whose end is awaited. An agent watches 65 536.
const MAX_LIVE: usize = 1 << 17;

impl Profile {
    /// Adds a sample of an allocation to those in use.
    pub(super) fn add_live(&mut self, process: ProcessId, at_ns: u64, id: u32, key: ThreadStack, weight: Weight) {
        // If the id is in use, an end was lost.
        self.free_live(process, id);
        let process = &mut self.processes[process.0 as usize];
        process.intervals.add(at_ns, weight);
        let totals = process.totals.get_or_default(Clock::Live);
        // Without an id, its end would not be known.
        if id == 0 || process.live.len() >= MAX_LIVE || !totals.has_room(key) {
            self.overflows.allocations += 1;
            self.overflows.allocated_bytes = self.overflows.allocated_bytes.saturating_add(weight.ns);
            return;
        }
        let index = totals.index(key);
        totals.add(at_ns, index, weight);
        let bucket = at_ns / BUCKET_NS;
        process.live.insert(id, LiveAllocation { key, bucket, weight, whole_ns: weight.ns });
        if self.frozen.is_none() {
            self.change_logs.get_or_default(Clock::Live).push(LoggedSample { bucket, key, weight });
        }
    }

    /// The largest mean number of bytes between two samples of memory, since the start or lately; 0
    /// if none is sampled.
    pub fn sampling_interval(&self, is_total: bool) -> u64 {
        let intervals = self.processes.iter().filter_map(|process| {
            let engaged = process.engaged.as_ref().filter(|engaged| engaged.clock.is_memory())?;
            Some(engaged.period_ns.max(process.intervals.mean(is_total)))
        });
        intervals.max().unwrap_or(0)
    }

    /// Sets the part of an allocation that is in use still, in units of 2^-32; 0 if it was freed.
    pub(super) fn shrink_live(&mut self, process: ProcessId, id: u32, left: u32) {
        let Some(live) = self.processes[process.0 as usize].live.get_mut(&id).filter(|_| left > 0) else {
            return self.free_live(process, id);
        };
        let ns = ((u128::from(live.whole_ns) * u128::from(left)) >> 32) as u64;
        let gone = Weight::new(live.weight.ns.saturating_sub(ns), 0);
        live.weight -= gone;
        let (key, bucket) = (live.key, live.bucket);
        self.remove_live(process, (key, bucket, gone));
    }

    /// Removes an allocation that was freed.
    fn free_live(&mut self, process: ProcessId, id: u32) {
        if let Some(freed) = self.processes[process.0 as usize].live.remove(&id) {
            self.remove_live(process, (freed.key, freed.bucket, freed.weight));
        }
    }

    fn remove_live(&mut self, process: ProcessId, (key, bucket, weight): (ThreadStack, u64, Weight)) {
        if let Some(totals) = self.processes[process.0 as usize].totals.get_mut(Clock::Live) {
            totals.remove(bucket, key, weight);
        }
        if self.frozen.is_none() {
            self.change_logs.get_mut(Clock::Live).into_iter().for_each(ChangeLog::invalidate);
        }
    }

    /// Starts anew with the allocations of a process, because those so far are not watched any
    /// more.
    pub(super) fn restart_live(&mut self, process: ProcessId) {
        let process = &mut self.processes[process.0 as usize];
        process.live.clear();
        process.intervals = SamplingIntervals::default();
        process.totals.remove(Clock::Live);
        self.change_logs.get_mut(Clock::Live).into_iter().for_each(ChangeLog::invalidate);
    }
}

#[cfg(test)]
mod tests {
    use super::super::totals::Span;
    use crate::wire::{
        AgentCounters, Allocation, Arrival, ConnectionEvent, Engaged, Engine, EngineState, FrameAddress, Hello,
        LossCause, Message, Sample, SourceId, SpawnCause,
    };

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn send(profile: &mut Profile, at_ns: u64, message: Message) {
        profile.apply(Arrival { source: SourceId(1), pid: 7, at_ns, event: ConnectionEvent::Received(message) });
    }

    fn begin(profile: &mut Profile) {
        let bytes = || Box::<[u8]>::from(b"a".as_slice());
        let (executable, argv, spawn_cause) = (bytes(), bytes(), SpawnCause::Tick);
        let (start_ticks, monotonic_ns, cpu_ns) = (0, SECOND, 0);
        let hello =
            Hello { token: 0, pid: 7, parent: 1, start_ticks, monotonic_ns, cpu_ns, spawn_cause, executable, argv };
        send(profile, SECOND, Message::Hello(hello));
    }

    fn allocate(profile: &mut Profile, at_ns: u64, (id, objects): (u32, u32), address: u64) {
        let sample = Sample {
            tid: 7,
            clock: Clock::Alloc,
            flags: 0,
            generation: 0,
            monotonic_ns: at_ns,
            weight_ns: 1000,
            allocation: Allocation { id, objects },
            age_ms: 0,
            slot: 0,
        };
        send(profile, at_ns, Message::Sample(sample, [FrameAddress::Instruction(address).pack()].into()));
    }

    /// Bytes and allocations of a clock in a span.
    fn sum(profile: &Profile, clock: Clock, span: Span) -> (u64, u64) {
        let mut all = Weight::default();
        profile.visit(clock, span, |_, weight| {
            assert_ne!(weight, Weight::default(), "what was freed is no row");
            all += weight;
        });
        (all.ns, all.count(clock))
    }

    #[test]
    fn an_allocation_is_in_use_until_it_is_freed_in_totals_and_history() {
        let mut profile = Profile::default();
        begin(&mut profile);
        for (at, id) in [(1, 1), (2, 2), (30, 3)] {
            allocate(&mut profile, at * SECOND, (id, 10 * id), 0x40_0000 + u64::from(id % 2));
        }
        allocate(&mut profile, 31 * SECOND, (0, 5), 0x40_0000);
        let last = |ns| Span::Last { ns, now_ns: 31 * SECOND };
        assert_eq!(sum(&profile, Clock::Alloc, Span::Total), (4000, 65));
        assert_eq!(sum(&profile, Clock::Live, Span::Total), (3000, 60), "the end of one is not known");
        let overflows = profile.overflows();
        assert_eq!((overflows.allocations, overflows.allocated_bytes), (1, 1000));
        send(&mut profile, 32 * SECOND, Message::Freed { id: 1, left: 0 });
        send(&mut profile, 32 * SECOND, Message::Freed { id: 1, left: 0 });
        send(&mut profile, 32 * SECOND, Message::Freed { id: 99, left: 7 });
        assert_eq!(sum(&profile, Clock::Live, Span::Total), (2000, 50));
        assert_eq!(sum(&profile, Clock::Live, last(60 * SECOND)), (2000, 50), "it has left a packed bucket");
        assert_eq!(sum(&profile, Clock::Live, last(2 * SECOND)), (1000, 30));
        send(&mut profile, 32 * SECOND, Message::Freed { id: 3, left: 0 });
        assert_eq!(sum(&profile, Clock::Live, last(2 * SECOND)), (0, 0));
        assert_eq!(sum(&profile, Clock::Alloc, Span::Total), (4000, 65), "it was allocated nevertheless");
    }

    #[test]
    fn a_mapping_in_use_shrinks_and_stays_one_allocation() {
        let mut profile = Profile::default();
        begin(&mut profile);
        allocate(&mut profile, SECOND, (1, 1), 0x40_0000);
        allocate(&mut profile, SECOND, (2, 1), 0x40_0000);
        let mut shrink = |left| {
            send(&mut profile, 2 * SECOND, Message::Freed { id: 1, left });
            [Clock::Alloc, Clock::Live].map(|clock| sum(&profile, clock, Span::Total))
        };
        assert_eq!(shrink(3 << 30), [(2000, 2), (1750, 2)]);
        assert_eq!(shrink(3 << 30), [(2000, 2), (1750, 2)], "the same once more");
        assert_eq!(shrink(u32::MAX), [(2000, 2), (1750, 2)], "it never grows");
        assert_eq!(shrink(1 << 30), [(2000, 2), (1250, 2)]);
        assert_eq!(shrink(0), [(2000, 2), (1000, 1)]);
    }

    /// The agent tells of the last losses of a clock after it has begun the next.
    #[test]
    fn lost_memory_is_bytes_and_no_time_whatever_clock_is_in_use() {
        let mut profile = Profile::default();
        begin(&mut profile);
        let mut lose = |clock, ns: u64, bytes: u64| {
            let (engine, state) = (Engine::Threads, EngineState::Running);
            let engaged = Engaged { clock, engine, state, period_ns: 1, signal: 0 };
            send(&mut profile, SECOND, Message::Engaged(engaged));
            let (lost_ns, lost_bytes) = ([ns; LossCause::ALL.len()], [bytes; LossCause::ALL.len()]);
            let counters = AgentCounters { lost_ns, lost_bytes, ..AgentCounters::default() };
            send(&mut profile, SECOND, Message::Counters(counters));
            [Clock::Prof, Clock::Live].map(|clock| profile.losses().lost_weight(clock)[1])
        };
        assert_eq!(lose(Clock::Prof, 5, 0), [5, 0]);
        assert_eq!(lose(Clock::Alloc, 8, 100), [8, 100]);
        assert_eq!(lose(Clock::Real, 9, 107), [9, 107]);
    }

    #[test]
    fn an_id_that_is_used_again_and_an_agent_that_begins_again_leave_nothing_behind() {
        let mut profile = Profile::default();
        begin(&mut profile);
        allocate(&mut profile, SECOND, (4, 1), 0x40_0000);
        allocate(&mut profile, SECOND, (4, 2), 0x40_0001);
        assert_eq!(sum(&profile, Clock::Live, Span::Total), (1000, 2));
        let (clock, engine, state) = (Clock::Alloc, Engine::Threads, EngineState::Running);
        send(&mut profile, 2 * SECOND, Message::Engaged(Engaged { clock, engine, state, period_ns: 1, signal: 0 }));
        assert_eq!(sum(&profile, Clock::Live, Span::Total), (0, 0));
        send(&mut profile, 2 * SECOND, Message::Freed { id: 4, left: 0 });
        allocate(&mut profile, 3 * SECOND, (4, 3), 0x40_0000);
        assert_eq!(sum(&profile, Clock::Live, Span::Total), (1000, 3));
    }
}
