//! Sends the ring's records as samples: weighed, with a thread and a generation, and counted as
//! lost where the socket has no room.

use crate::agent::interpreter;
use crate::agent::os::socket::Socket;
use crate::agent::os::syscall;
use crate::agent::sampling::deferred::{DEFERRED, DeferredSamples};
use crate::agent::sampling::ring::RawSample;
use crate::agent::sampling::snapshots::SNAPSHOT;
use crate::agent::sampling::{counters, deepest};
use crate::agent::thread::{Agent, LAST_FLUSH_NS};
use crate::agent::timers::engine::crowd;
use crate::agent::timers::sleepers::{SleeperSample, WallTime};
use crate::agent::unwind::walk::{self, WalkCache};
use core::sync::atomic::Ordering;

use crate::wire::ring::{LEFT_OUT, STALE};
use crate::wire::{Allocation, Clock, LossCause, MAX_FRAMES, STACK_SLOTS, Sample, flag};

impl Agent {
    /// Sends the deferred samples and the records of the ring. Returns how many there were.
    pub(in crate::agent) fn drain(&mut self, socket: &mut Socket, now_ns: u64) -> usize {
        let mut frames = [0; MAX_FRAMES];
        self.allocations.collect(self.ring, socket.is_flushed());
        let mut count = self.drain_deferred(socket, now_ns, &mut frames);
        let ring = self.ring;
        let ticks = ring.count();
        let classic_ns = self.ticker.weigh_classic(ticks);
        let is_memory = |epoch: u32| counters::config(epoch).clock.is_memory();
        let memory = ring.unread(ticks).filter(|(epoch, ..)| is_memory(*epoch));
        let correction = self.allocations.correction(memory.map(|(_, bytes, detail)| (bytes, detail)));
        for _ in 0..ticks {
            let Some((taken, mut raw, stack)) = ring.take(&mut frames) else { break };
            if raw.weight_ns == 0 {
                raw.weight_ns = classic_ns;
            }
            if let Some(correction) = correction.filter(|_| is_memory(raw.epoch)) {
                (raw.weight_ns, raw.detail) = correction.apply(raw.weight_ns, raw.detail);
            }
            let was_sent = self.forward(socket, raw, stack, now_ns);
            ring.set_sent_as(taken, was_sent.then_some(self.sent));
            count += 1;
        }
        self.allocations.tell_freed(ring, |id, left| {
            let write = |socket: &mut Socket| socket.write(|w| w.write_freed(id, left)).is_ok();
            write(socket) || socket.flush().is_ok() && write(socket)
        });
        count
    }

    /// Sends everything up to now to a viewer that leaves.
    pub(super) fn send_last_samples(&mut self, socket: &mut Socket) {
        if self.requested.is_none() {
            return;
        }
        let now_ns = syscall::monotonic_ns();
        self.announce(socket);
        self.drain(socket, now_ns);
        self.send_deepest_stacks(socket);
        self.wall(socket, now_ns, true);
        self.write_account(socket, now_ns);
        if socket.flush_within(LAST_FLUSH_NS).is_ok() && socket.is_flushed() {
            crowd::publish_counted(0, 0);
            self.ring.release();
        }
    }

    /// Sends the stacks that are deeper than every earlier one of their thread.
    pub(super) fn send_deepest_stacks(&self, socket: &mut Socket) {
        // SAFETY: published ones live until this thread itself retires them.
        if let Some(snapshot) = unsafe { SNAPSHOT.load(Ordering::Acquire).as_ref() } {
            deepest::drain(snapshot, |stack| socket.write(|w| w.write_deepest_stack(stack)).is_ok());
        }
    }

    fn drain_deferred(&mut self, socket: &mut Socket, now_ns: u64, frames: &mut [u64; MAX_FRAMES]) -> usize {
        let deferred = DEFERRED.load(Ordering::Acquire);
        let snapshot = SNAPSHOT.load(Ordering::Acquire);
        if deferred.is_null() || snapshot.is_null() {
            return 0;
        }
        // SAFETY: published once and never freed; this thread itself retires snapshots.
        let (deferred, snapshot): (&DeferredSamples, _) = unsafe { (&*deferred, &*snapshot) };
        let mut count = 0;
        deferred.drain(|tick, mut stack| {
            let mut cache = WalkCache::boxed();
            let walk = walk::walk(snapshot, &mut cache, tick.registers, &mut stack, frames);
            let raw = RawSample {
                tid: tick.tid,
                flags: walk.flags | tick.flags,
                generation: snapshot.generation(),
                epoch: tick.epoch,
                weight_ns: tick.weight_ns,
                detail: tick.detail,
            };
            self.forward(socket, raw, &frames[..walk.depth], now_ns);
            count += 1;
        });
        count
    }

    /// Sends one record. Returns false if it was lost.
    fn forward(&mut self, socket: &mut Socket, raw: RawSample, stack: &[u64], now_ns: u64) -> bool {
        let clock = counters::config(raw.epoch).clock;
        let mut generation = raw.generation;
        if raw.flags & STALE != 0 {
            // The module was loaded after the handler's snapshot was taken; the present one knows
            // it.
            generation = self.publisher.modules.generation();
        }
        let tid = if raw.tid == 0 { syscall::getpid() } else { raw.tid };
        let flags = raw.flags & !STALE;
        let WallTime { ran_ns: weight_ns, delayed_ns, stopped_ns } = if clock.is_memory() {
            self.allocations.report(raw.weight_ns);
            WallTime { ran_ns: raw.weight_ns, ..WallTime::default() }
        } else {
            match self.ticker.weigh_ticks(tid, raw.weight_ns) {
                0 if clock == Clock::Real => self.ticker.settle(tid),
                weight_ns => WallTime { ran_ns: weight_ns + self.ticker.used_before(tid), ..WallTime::default() },
            }
        };
        if let Some(collector) = &mut self.collector {
            collector.add_sample(tid, clock, flags, weight_ns + delayed_ns + stopped_ns, stack);
        }
        let flags = flags & !LEFT_OUT;
        let (allocation, age_ms) = match raw.detail {
            detail if clock.is_memory() => (Allocation::unpack(detail), 0),
            0 => (Allocation::default(), 0),
            tick_ns => (Allocation::default(), (now_ns.saturating_sub(tick_ns) / 1_000_000) as u32),
        };
        let sample = Sample {
            tid,
            clock,
            flags,
            generation,
            monotonic_ns: now_ns,
            age_ms,
            weight_ns,
            allocation,
            slot: (tid as usize % STACK_SLOTS) as u8,
        };
        let mut named = [0; MAX_FRAMES];
        let stack = self.functions.name_frames(interpreter::published(), stack, &mut named, |function| {
            let write = |socket: &mut Socket| socket.write(|w| w.write_function(function)).is_ok();
            write(socket) || socket.flush().is_ok() && write(socket)
        });
        for (state, weight_ns) in [(flag::RUNNABLE, delayed_ns), (flag::STOPPED, stopped_ns)] {
            if weight_ns > 0 {
                counters::count_unhandled(1);
                self.send(socket, &Sample { flags: flags | state, weight_ns, ..sample.clone() }, stack);
            }
        }
        // The last message of this record: the ring counts on it.
        let was_sent = self.send(socket, &sample, stack);
        if was_sent && clock == Clock::Prof {
            self.balance.sampled(weight_ns);
        }
        was_sent
    }

    fn send(&mut self, socket: &mut Socket, sample: &Sample, stack: &[u64]) -> bool {
        let mut write = |socket: &mut Socket| socket.write(|w| w.write_sample(sample, stack, &mut self.memory)).is_ok();
        // Try again after the kernel has taken what it can.
        let written = write(socket) || socket.flush().is_ok() && write(socket);
        if written {
            self.sent += 1;
        } else {
            counters::count_lost_sample(LossCause::SocketFull, sample.clock, sample.weight_ns);
        }
        written
    }

    /// Counts a wall tick, and sends the samples of threads that sleep. Before an end, it is the
    /// `last` one.
    pub(crate) fn wall(&mut self, socket: &mut Socket, now_ns: u64, last: bool) {
        let Agent { ticker, memory, sent, collector, functions, .. } = self;
        let snapshot = SNAPSHOT.load(Ordering::Acquire);
        if snapshot.is_null() {
            return;
        }
        // SAFETY: this thread itself retires snapshots.
        let snapshot = unsafe { &*snapshot };
        ticker.wall_tick(now_ns, last, snapshot, &mut |SleeperSample {
                                                           thread,
                                                           weight_ns,
                                                           is_repeated,
                                                           is_stopped,
                                                       }| {
            let frames = &thread.last.frames;
            if let Some(collector) = collector {
                collector.add_sample(thread.tid, Clock::Real, thread.last.flags, weight_ns, frames);
            }
            if let Some(wait) = thread.wait.unsent()
                && socket.write(|w| w.write_wait(wait)).is_ok()
            {
                thread.wait.set_sent(true);
            }
            if !is_repeated {
                // Many threads may fall asleep between two ticks, and there are few mailboxes.
                deepest::drain(snapshot, |stack| socket.write(|w| w.write_deepest_stack(stack)).is_ok());
            }
            let state = match is_stopped {
                true => flag::STOPPED,
                false if thread.wait.is_known() => flag::WAITS,
                false => 0,
            };
            let repeat = if is_repeated { flag::REPEAT } else { 0 };
            let sample = Sample {
                tid: thread.tid,
                clock: Clock::Real,
                flags: thread.last.flags & !LEFT_OUT | state | repeat,
                generation: thread.last.generation,
                monotonic_ns: now_ns,
                age_ms: 0,
                weight_ns,
                allocation: Allocation::default(),
                slot: (thread.tid as usize % STACK_SLOTS) as u8,
            };
            let mut named = [0; MAX_FRAMES];
            let frames = functions.name_frames(interpreter::published(), frames, &mut named, |function| {
                socket.write(|w| w.write_function(function)).is_ok()
            });
            let mut write = |socket: &mut Socket| socket.write(|w| w.write_sample(&sample, frames, memory)).is_ok();
            if write(socket) || socket.flush().is_ok() && write(socket) {
                *sent += 1;
            } else {
                counters::count_lost_sample(LossCause::SocketFull, Clock::Real, weight_ns);
            }
        });
    }
}
