//! Reading the profile: totals and history by clock, freeze and baseline, processes, threads,
//! losses.

use super::apply::{Profile, StackQuality};
use super::by_clock::ByClock;
use super::change_log::ChangeLog;
use super::ids::RecordingId;
use super::loss::{Losses, Overflows};
use super::process::{Process, ProcessId};
use super::sample_times::{SampleTimes, TimedSample};
use super::stack::{Frame, FrameId};
use super::thread::{Thread, ThreadId, ThreadState};
use super::totals::{Span, ThreadStack, Totals, Weight};
use crate::wire::Clock;
use crate::wire::interpreter::Interpreter;

/// The totals and history that a query reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// The current ones, or those of the freeze while the profile is frozen.
    #[default]
    Current,
    /// Those of the baseline.
    Baseline,
}

impl Profile {
    /// Calls `each` with every key and weight of a clock in a span, over all processes. A key may
    /// occur more than once.
    pub fn visit(&self, clock: Clock, span: Span, each: impl FnMut(ThreadStack, Weight)) {
        self.visit_generation(Generation::Current, clock, span, each);
    }

    /// Like [`visit`](Self::visit), for the totals of a generation.
    pub fn visit_generation(
        &self,
        generation: Generation,
        clock: Clock,
        span: Span,
        mut each: impl FnMut(ThreadStack, Weight),
    ) {
        self.totals(generation, clock).for_each(|totals| totals.visit(span, &mut each));
    }

    /// Calls `each` with the bucket number, key and weight of every history entry in the buckets
    /// from `first` to `last`.
    pub fn visit_buckets(
        &self,
        generation: Generation,
        clock: Clock,
        (first, last): (u64, u64),
        mut each: impl FnMut(u64, ThreadStack, Weight),
    ) {
        self.totals(generation, clock).for_each(|totals| totals.visit_buckets(first, last, &mut each));
    }

    /// Calls `each` with the age, key and weight of every entry of a span. The age is counted in
    /// buckets before the last one of the span; it is 0 for the total.
    pub fn visit_with_age(
        &self,
        generation: Generation,
        clock: Clock,
        span: Span,
        mut each: impl FnMut(u64, ThreadStack, Weight),
    ) {
        match span.buckets() {
            None => self.visit_generation(generation, clock, span, |key, weight| each(0, key, weight)),
            Some((first, last)) => {
                self.visit_buckets(generation, clock, (first, last), |bucket, key, weight| {
                    each(last - bucket, key, weight);
                });
            }
        }
    }

    /// The numbers of the oldest and the newest bucket in the current history of a clock.
    pub fn history_range(&self, clock: Clock) -> Option<(u64, u64)> {
        let ranges = self.totals(Generation::Current, clock).filter_map(Totals::history_range);
        ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    fn totals(&self, generation: Generation, clock: Clock) -> impl Iterator<Item = &Totals> {
        let copies: &[ByClock<Totals>] = match (generation, &self.frozen) {
            (Generation::Baseline, _) => &self.baseline,
            (Generation::Current, Some(frozen)) => frozen,
            (Generation::Current, None) => &[],
        };
        let is_live = generation == Generation::Current && self.frozen.is_none();
        let copies = copies.iter().filter_map(move |totals| totals.get(clock));
        let live = self.processes.iter().filter(move |_| is_live);
        copies.chain(live.filter_map(move |process| process.totals(clock)))
    }

    /// The latest samples of a clock, if it ever ticked. Nothing is logged while the profile is
    /// frozen, and a baseline has no log.
    pub fn change_log(&self, generation: Generation, clock: Clock) -> Option<&ChangeLog> {
        self.change_logs.get(clock).filter(|_| generation == Generation::Current)
    }

    fn invalidate_change_logs(&mut self) {
        self.change_logs.values_mut().for_each(ChangeLog::invalidate);
    }

    /// The part of the latencies of a clock that is not known, since the start or lately, in
    /// thousandths; see [`RunningTime`](super::running_time::RunningTime).
    pub fn unknown_latency(&self, clock: Clock, is_total: bool) -> u64 {
        let totals = self.processes.iter().filter_map(|process| process.totals.get(clock));
        let sum = totals.map(|totals| totals.resolution(is_total));
        let (unknown_ns, latency_ns) = sum.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        if latency_ns > 0.0 { (unknown_ns / latency_ns * 1000.0) as u64 } else { 0 }
    }

    /// Keeps the time of every sample from now on.
    pub fn keep_sample_times(&mut self) {
        self.times.get_or_insert_default();
    }

    /// Every sample in the totals with its time, in order of arrival. It is `None` if times are not
    /// kept, or if there were too many samples.
    pub fn timed_samples(&self) -> Option<&[TimedSample]> {
        self.times.as_ref()?.all()
    }

    /// Lets all queries read a copy of the current totals until [`thaw`](Self::thaw). New samples
    /// are added to the live totals.
    pub fn freeze(&mut self) {
        self.settle_latency();
        self.frozen = Some(self.copy_totals());
        self.times.iter_mut().for_each(SampleTimes::freeze);
        self.invalidate_change_logs();
    }

    /// Lets queries read the live totals again.
    pub fn thaw(&mut self) {
        self.frozen = None;
        self.times.iter_mut().for_each(SampleTimes::thaw);
        self.invalidate_change_logs();
    }

    /// Copies the current totals, or those of the freeze, to the baseline.
    pub fn set_baseline(&mut self) {
        self.settle_latency();
        self.baseline = match &self.frozen {
            Some(frozen) => frozen.iter().map(|totals| totals.map(Totals::freeze)).collect(),
            None => self.copy_totals(),
        };
    }

    /// Drops the baseline.
    pub fn clear_baseline(&mut self) {
        self.baseline = Vec::new();
    }

    fn copy_totals(&self) -> Vec<ByClock<Totals>> {
        self.processes.iter().map(|process| process.totals.map(Totals::freeze)).collect()
    }

    /// Clears totals and history of a clock.
    pub fn reset(&mut self, clock: Clock) {
        self.frozen.iter_mut().flatten().for_each(|totals| totals.remove(clock));
        for process in &mut self.processes {
            process.totals.remove(clock);
            if clock == Clock::Live {
                process.live.clear();
            }
            process.cache.clear_samples();
        }
        self.times.iter_mut().for_each(|times| times.reset(clock));
        self.invalidate_change_logs();
    }

    /// Clears the history of a clock, so that its windows start again. The totals stay.
    pub fn clear_history(&mut self, clock: Clock) {
        for totals in self.processes.iter_mut().filter_map(|process| process.totals.get_mut(clock)) {
            totals.clear_history();
        }
        self.invalidate_change_logs();
    }

    /// The shortest period with which a clock was sampled, or `None` if no agent has said one. The
    /// rate may have been lowered during the run.
    pub fn shortest_period(&self, clock: Clock) -> Option<u64> {
        self.shortest_periods.get(clock).copied()
    }

    /// Every process image, in order of arrival.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The process with an id.
    pub fn process(&self, id: ProcessId) -> &Process {
        &self.processes[id.0 as usize]
    }

    /// Every thread, by id.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The thread with an id.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.0 as usize]
    }

    /// Sets the state of a thread, as read from `/proc`.
    pub fn set_thread_state(&mut self, id: ThreadId, state: ThreadState) {
        self.threads[id.0 as usize].state = state;
    }

    /// Sets the title of a process: its arguments, as read from `/proc` again. The samples from now
    /// on belong to it.
    pub fn set_title(&mut self, id: ProcessId, title: Vec<String>) {
        let process = &mut self.processes[id.0 as usize];
        if process.title_id.is_some() && process.title != title || title != process.argv {
            process.title_id = Some(self.titles.intern(&title));
        }
        process.title = title;
    }

    /// Number of times that a thread got a name. It grows with every new name.
    pub fn name_changes(&self) -> u64 {
        self.name_changes
    }

    /// The names of the recordings that are merged; none if this is a single one.
    pub fn recordings(&self) -> &[String] {
        &self.recordings
    }

    /// The name of the recording that a process comes from, if several are merged.
    pub fn recording_name(&self, process: &Process) -> Option<&str> {
        process.recording.map(|id| self.recordings[id.0 as usize].as_str())
    }

    /// Creates a frame for every thread, process and merged recording that has none, and for the
    /// title that a process had first, so that it can be shown at the root of its stacks.
    pub fn add_owner_frames(&mut self) {
        for thread in self.owner_frames.0..self.threads.len() {
            self.stacks.frame_id(Frame::Thread(ThreadId(thread as u32)));
        }
        for process in self.owner_frames.1..self.processes.len() {
            self.stacks.frame_id(Frame::Process(ProcessId(process as u32)));
            let first_title = self.titles.intern(&self.processes[process].argv);
            self.stacks.frame_id(Frame::Title(first_title));
            self.processes[process].first_title = Some(first_title);
        }
        for recording in 0..self.recordings.len() {
            self.stacks.frame_id(Frame::Recording(RecordingId(recording as u32)));
        }
        self.owner_frames = (self.threads.len(), self.processes.len());
    }

    /// The frame with an id.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.stacks.frame(id)
    }

    /// Numbers of samples by how complete their stacks are.
    pub fn stack_quality(&self) -> StackQuality {
        self.stack_quality
    }

    /// Counts of what did not fit the profile's limits.
    pub fn overflows(&self) -> Overflows {
        let totals = self.processes.iter().flat_map(|process| process.totals.values());
        let window = totals.map(Totals::overflows).sum();
        Overflows { modules: self.modules.overflows(), window, scripts: self.scripts.overflows(), ..self.overflows }
    }

    /// Losses and costs, summed over all processes.
    pub fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        self.processes.iter().for_each(|process| losses.add(&process.account));
        losses
    }

    /// The interpreters of all processes, one for each version, with the sums of their counters.
    pub fn interpreters(&self) -> Vec<Interpreter> {
        let mut all: Vec<Interpreter> = Vec::new();
        for found in self.processes.iter().filter_map(|process| process.interpreter) {
            let version = |one: &Interpreter| (one.major, one.minor, one.access);
            match all.iter_mut().find(|known| version(known) == version(&found)) {
                Some(known) => {
                    known.merged = known.merged.saturating_add(found.merged);
                    known.unnamed = known.unnamed.saturating_add(found.unnamed);
                    known.unmerged = known.unmerged.saturating_add(found.unmerged);
                }
                None => all.push(found),
            }
        }
        all.sort_by_key(|one| (one.major, one.minor));
        all
    }
}
