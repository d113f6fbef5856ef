//! Adds samples to the totals of their process: resolves their stacks, waits and times.

use super::Profile;
use crate::profile::change_log::LoggedSample;
use crate::profile::hash::IdMap;
use crate::profile::interpreter_view::{SampledFrame, choose_frames};
use crate::profile::kernel_frames::leave_out_kernel;
use crate::profile::process::{Process, ProcessId};
use crate::profile::sample_cache::{ReceivedStack, ResolvedSample, StackIdentity};
use crate::profile::sample_times::TimedSample;
use crate::profile::script::ScriptTable;
use crate::profile::stack::{Frame, FrameId, StackId, StackTable};
use crate::profile::thread::ThreadId;
use crate::profile::totals::{BUCKET_NS, Weight};
use crate::profile::waits::{WaitId, WaitTable};
use crate::wire::interpreter::{InterpreterFrame, is_interpreted};
use crate::wire::{Clock, FRAMES_LEFT_OUT, FrameAddress, MAX_FRAMES, Sample, SourceId, flag};

impl Profile {
    /// Adds a sample of a recording, in which every stack has a number. `frames` are
    /// [packed](FrameAddress::pack), leaf first.
    pub fn apply_recorded(&mut self, source: SourceId, at_ns: u64, sample: &Sample, number: u32, frames: &[u64]) {
        self.expire_disconnected(at_ns);
        if let Some(&id) = self.sources.get(&source) {
            let process = &self.processes[id.0 as usize];
            let stack = process.receive_stack(sample, StackIdentity::Number(number), frames);
            self.add_sample(id, at_ns, sample, stack);
        }
    }

    pub(super) fn add_sample(&mut self, id: ProcessId, arrived_ns: u64, sample: &Sample, stack: ReceivedStack<'_>) {
        let mut is_truncated = stack.is_truncated;
        let thread = self.thread_id(id, sample.tid);
        self.overflows.threads += u64::from(self.threads[thread.0 as usize].tid != sample.tid);
        let cache = &mut self.processes[id.0 as usize].cache;
        cache.select_generation(sample.generation);
        let key = cache.key(thread, sample.clock, &stack);
        let resolved = cache.find(key).unwrap_or_else(|| {
            self.stay_below_memory_limit();
            let (resolved, is_full) = self.resolve((id, thread), sample.clock, &stack);
            if is_full {
                // It is not cached, so that each of these samples is counted.
                self.overflows.stacks += 1;
                is_truncated = true;
            } else {
                self.processes[id.0 as usize].cache.insert(key, resolved);
            }
            resolved
        });
        let process = &mut self.processes[id.0 as usize];
        if let Some(current) = process.waits.get_mut(&sample.tid) {
            let [waits, sleeps_on] = [flag::WAITS, flag::REPEAT].map(|bit| sample.flags & bit != 0);
            current.since_ns = current.since_ns.filter(|_| sleeps_on).or(Some(arrived_ns)).filter(|_| waits);
            current.seen_ns = waits.then_some(arrived_ns);
            current.stack = Some(resolved.stack);
        }
        process.update_clock_offset(arrived_ns, sample.monotonic_ns);
        process.samples += 1;
        if sample.clock == Clock::Prof {
            process.sampled_ns = process.sampled_ns.saturating_add(sample.weight_ns);
        }
        // The agent's time is not trusted beyond the time of arrival: a sample of the future would
        // drop the whole history.
        let at_ns = sample.monotonic_ns.saturating_add_signed(process.clock_offset_ns).min(arrived_ns);
        let totals = process.totals.get_or_default(sample.clock);
        let objects = if sample.clock.is_memory() { sample.allocation.objects } else { 0 };
        let weight = Weight { latency_ns: objects.into(), ..Weight::new(sample.weight_ns, 1) };
        let overflows = totals.overflows();
        totals.add(at_ns, resolved.index, weight);
        let is_at_rest = sample.flags & (flag::WAITS | flag::REPEAT | flag::RUNNABLE | flag::STOPPED) != 0;
        let ran = !sample.clock.is_memory() && !is_at_rest;
        let tick_ns = at_ns.saturating_sub(u64::from(sample.age_ms) * 1_000_000);
        let is_due = ran && totals.add_running((tick_ns, at_ns), resolved.index, sample.weight_ns);
        let key = (thread, resolved.stack);
        if let Some(times) = &mut self.times {
            let (clock, weight_ns, bucket) = (sample.clock, sample.weight_ns, at_ns / BUCKET_NS);
            times.push(TimedSample { at_ns: tick_ns, bucket, clock, key, samples: 1, weight_ns });
        }
        if self.frozen.is_none() {
            let log = self.change_logs.get_or_default(sample.clock);
            log.push(LoggedSample { bucket: at_ns / BUCKET_NS, key, weight });
            if totals.overflows() != overflows {
                log.invalidate();
            }
        }
        if sample.clock == Clock::Alloc {
            self.add_live(id, at_ns, sample.allocation.id, key, weight);
        }
        if is_due {
            self.settle_process(id, false);
        }
        let quality = &mut self.stack_quality;
        quality.samples += 1;
        quality.truncated += u64::from(is_truncated);
        quality.unreadable += u64::from(sample.flags & flag::UNREADABLE != 0);
    }

    /// Brings the latencies of all samples up to date.
    pub fn settle_latency(&mut self) {
        for process in 0..self.processes.len() {
            if self.processes[process].connected {
                self.settle_process(ProcessId(process as u32), true);
            }
        }
    }

    /// Brings the latencies of a process up to date: `all`, or only those that no later sample
    /// changes.
    pub(in crate::profile) fn settle_process(&mut self, id: ProcessId, all: bool) {
        let Profile { processes, change_logs, frozen, .. } = self;
        for clock in Clock::ALL.into_iter().filter(|clock| !clock.is_memory()) {
            let Some(totals) = processes[id.0 as usize].totals.get_mut(clock) else { continue };
            let overflows = totals.overflows();
            let log = change_logs.get_or_default(clock);
            totals.settle(all, |bucket, key, weight| {
                if frozen.is_none() {
                    log.push(LoggedSample { bucket, key, weight });
                }
            });
            if totals.overflows() != overflows {
                log.invalidate();
            }
        }
    }

    /// Finds or creates the stack and the index in the totals of a sample that is not cached, and
    /// says whether a table was full.
    fn resolve(
        &mut self,
        (id, thread): (ProcessId, ThreadId),
        clock: Clock,
        received: &ReceivedStack<'_>,
    ) -> (ResolvedSample, bool) {
        let process = &mut self.processes[id.0 as usize];
        let overflows = self.stacks.overflows();
        let mut stack = StackId::EMPTY;
        if received.is_truncated {
            let truncated = self.stacks.frame_id(Frame::Truncated);
            stack = self.stacks.push(stack, truncated);
        }
        let frames = if self.leaves_out_kernel { leave_out_kernel(received.frames) } else { received.frames };
        if frames.iter().any(|&word| is_interpreted(word)) {
            let sampled = sampled_frames(process, id, &self.scripts, frames);
            for frame in choose_frames(self.interpreter_view, &sampled).into_iter().rev() {
                let frame = self.stacks.frame_id(frame);
                stack = self.stacks.push(stack, frame);
            }
        } else {
            for &word in frames.iter().rev() {
                let frame = match word {
                    FRAMES_LEFT_OUT => self.stacks.frame_id(Frame::LeftOut),
                    _ => process.frame(id, FrameAddress::unpack(word).lookup(), &mut self.stacks),
                };
                stack = self.stacks.push(stack, frame);
            }
        }
        if let Some(title) = received.title {
            stack = self.push_behind(stack, Frame::Title(title));
        }
        if let Some(wait) = received.wait {
            stack = self.push_wait(stack, wait);
        }
        let process = &mut self.processes[id.0 as usize];
        let totals = process.totals.get_or_default(clock);
        let mut is_full = self.stacks.overflows() != overflows;
        if !totals.has_room((thread, stack)) {
            let truncated = self.stacks.frame_id(Frame::Truncated);
            stack = self.stacks.push(StackId::EMPTY, truncated);
            is_full = true;
        }
        (ResolvedSample { stack, index: totals.index((thread, stack)) }, is_full)
    }

    /// Adds what the thread of a stack waits for, if there is room.
    fn push_wait(&mut self, stack: StackId, wait: WaitId) -> StackId {
        let wait = match self.waits.get(wait).wants_callers() {
            true => self.waits.intern_called(wait, self.stacks.leaf_first(self.stacks.code(stack))),
            false => wait,
        };
        self.push_behind(stack, Frame::Wait(wait))
    }

    /// Adds a frame that is no code behind the code of a stack, if there is room.
    fn push_behind(&mut self, stack: StackId, frame: Frame) -> StackId {
        let id = self.stacks.frame_id(frame);
        let overflows = self.stacks.overflows();
        let longer = self.stacks.push(stack, id);
        let has_room = self.stacks.overflows() == overflows && self.stacks.frame(id) == frame;
        if has_room { longer } else { stack }
    }
}

/// The frames of a stack with frames of an interpreter. If one of its functions is not known, they
/// are the native frames alone.
fn sampled_frames(process: &mut Process, id: ProcessId, scripts: &ScriptTable, words: &[u64]) -> Vec<SampledFrame> {
    let Process { cache, mappings, code_versions, scripts: functions, .. } = process;
    let script = |word| {
        let frame = InterpreterFrame::unpack(word)?;
        let function = *functions.get(&frame.function)?;
        Some(Frame::Script { function, line: scripts.function(function).line(frame.offset) })
    };
    let is_named = words.iter().all(|&word| !is_interpreted(word) || script(word).is_some());
    let shown = words.iter().filter(|&&word| is_named || !is_interpreted(word));
    let sampled = shown.map(|&word| match (script(word), word) {
        (Some(frame), _) => SampledFrame::Script(frame),
        (None, FRAMES_LEFT_OUT) => SampledFrame::Native(Frame::LeftOut),
        (None, _) => {
            let address = FrameAddress::unpack(word).lookup();
            let unmapped = |address| unmapped_frame(id, code_versions, address);
            SampledFrame::Native(cache.locate(address, mappings, unmapped))
        }
    });
    sampled.collect()
}

impl Process {
    /// The stack of a sample. An agent sends at most [`MAX_FRAMES`] frames; of more, the leaf side is
    /// kept.
    pub(in crate::profile) fn receive_stack<'a>(
        &self,
        sample: &Sample,
        identity: StackIdentity,
        frames: &'a [u64],
    ) -> ReceivedStack<'a> {
        let is_truncated = sample.flags & (flag::TRUNCATED | flag::UNREADABLE) != 0;
        let wait = match sample.flags {
            flags if flags & flag::WAITS != 0 => self.waits.get(&sample.tid).map(|current| current.wait),
            flags if flags & flag::THROTTLED != 0 => Some(WaitTable::THROTTLED),
            flags if flags & flag::RUNNABLE != 0 => Some(WaitTable::RUNNABLE),
            flags if flags & flag::STOPPED != 0 => Some(WaitTable::STOPPED),
            _ => None,
        };
        ReceivedStack {
            identity,
            frames: &frames[..frames.len().min(MAX_FRAMES)],
            is_truncated,
            wait,
            title: self.title_id,
        }
    }

    /// The frame of an address in the selected module generation. `id` is the id of this process.
    pub(in crate::profile) fn frame(&mut self, id: ProcessId, address: u64, stacks: &mut StackTable) -> FrameId {
        let Process { cache, mappings, code_versions, .. } = self;
        cache.frame(address, mappings, stacks, |address| unmapped_frame(id, code_versions, address))
    }
}

/// The frame of an address in no file.
fn unmapped_frame(process: ProcessId, code_versions: &IdMap<u64, u16>, address: u64) -> Frame {
    Frame::Unmapped { process, code_version: code_versions.get(&address).copied().unwrap_or_default(), address }
}
