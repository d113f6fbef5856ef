//! What is known: processes, threads, modules, stacks, and books of what they weighed. One door in: [`Profile::apply`].
//! It knows no names and asks no questions; those are `symbols` and `tally`.

mod clocks;
pub(crate) mod hash;
pub mod journal;
pub mod loss;
pub mod module;
mod past;
pub mod process;
mod sample_times;
pub mod stack;
pub mod thread;
pub mod window;

use std::collections::VecDeque;
use std::hint::black_box;

pub use crate::link::wire::Clock;

use crate::link::wire::{
    Arrival, Event, FRAMES_LEFT_OUT, FrameAddress, Hello, MAX_FRAMES, Message, Sample, SourceId, flag,
};
use clocks::Clocks;
use hash::{IdMap, Secrets};
use journal::{Entered, Journal};
use loss::{Losses, Overflows};
use module::{Mappings, ModuleTable};
use process::{Identity, Located, Process, ProcessId, Seen};
use sample_times::SampleTimes;
pub use sample_times::TimedSample;
use stack::{Frame, FrameId, StackId, StackTable};
use thread::{State, Thread, ThreadId};
use window::{BUCKET_NS, BUCKETS, Book, Key, Span, Weight};

/// Process images kept, at most, each with its command line; a long build starts some 10 000.
const MAX_PROCESSES: usize = 65_536;
/// Threads kept by name and books of their own, at most. What further ones do is their process's "other threads".
const MAX_THREADS: usize = 131_072;
/// Name of these.
const OTHER_THREADS: &str = "[other threads]";

/// Which books are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Era {
    /// Those of now, or as they were frozen.
    #[default]
    Now,
    /// Those of the baseline.
    Baseline,
}

/// Everything received in a session.
#[derive(Default)]
pub struct Profile {
    /// Frames and stacks of all processes.
    pub stacks: StackTable,
    /// Files of all processes.
    pub modules: ModuleTable,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    /// How often a thread got another name.
    renames: u64,
    /// Threads and processes that have a frame.
    labelled: (usize, usize),
    sources: IdMap<SourceId, ProcessId>,
    /// Disconnected processes whose samples may still lie in a window, and when they left, in that order.
    leaving: VecDeque<(ProcessId, u64)>,
    /// Samples whose stack was cut short, and all.
    truncated: (u64, u64),
    /// Samples of which nothing but the leaf could be read; they are among those cut short.
    unreadable: u64,
    /// The books as they were when they were frozen, by process; while they are, questions are answered from these.
    frozen: Option<Vec<Clocks<Book>>>,
    /// The books as they were at another time, to be compared with.
    baseline: Vec<Clocks<Book>>,
    /// What was entered into the books lately.
    journals: Clocks<Journal>,
    /// The time of every sample, where it is asked for.
    times: Option<SampleTimes>,
    overflows: Overflows,
    marks: Marks,
}

/// What stands for the stack of a sample: a hash of all its frames, whose secret no target knows. Of a million stacks, two have the same
/// in one of 30 million sessions.
#[derive(Default)]
pub struct Marks(Secrets);

impl Marks {
    /// That of a sample; 0 of anything else.
    pub fn of(&self, arrival: &Arrival) -> u64 {
        match &arrival.event {
            Event::Said(Message::Sample(_, frames)) => self.0.digest(frames.iter().copied().take(MAX_FRAMES)),
            _ => 0,
        }
    }
}

impl Profile {
    /// Takes in what an agent said. Anything but a Hello from a source that never introduced itself is dropped by
    /// `link` already; here it is without effect.
    pub fn apply(&mut self, arrival: Arrival) {
        let mark = self.marks.of(&arrival);
        self.apply_marked(arrival, mark);
    }

    /// The same with its [mark](Marks), which is dear enough to be worked out once.
    pub fn apply_marked(&mut self, arrival: Arrival, mark: u64) {
        let Arrival { source, pid, at_ns, event } = arrival;
        self.forget_left(at_ns);
        match event {
            Event::Said(Message::Hello(hello)) => {
                self.disconnect(source, at_ns);
                self.introduce(source, pid, at_ns, &hello);
            }
            Event::Said(message) => {
                if let Some(&id) = self.sources.get(&source) {
                    self.hear(id, at_ns, message, mark);
                }
            }
            Event::Closed | Event::Cut(_) => self.disconnect(source, at_ns),
        }
    }

    /// Reads what [`apply`](Self::apply) will ask for, of many at once: where each sample was entered before is far away in memory, and
    /// reads that do not wait for each other wait together. Returns their [marks](Marks).
    pub fn look_ahead(&self, arrivals: &[Arrival]) -> Vec<u64> {
        let marks: Vec<u64> = arrivals.iter().map(|arrival| self.marks.of(arrival)).collect();
        let name = |(arrival, &mark): (&Arrival, &u64)| {
            let Event::Said(Message::Sample(sample, _)) = &arrival.event else { return None };
            let process = &self.processes[self.sources.get(&arrival.source)?.0 as usize];
            let thread = *process.threads.get(&sample.tid)?;
            let name = process.located.name(thread, sample.clock, is_cut(sample), Identity::Mark(mark));
            Some((process, sample.clock, name))
        };
        let names: Vec<_> = arrivals.iter().zip(&marks).filter_map(name).collect();
        let places: Vec<_> = names.iter().map(|&(process, _, name)| process.located.seen(name)).collect();
        let known = names.iter().zip(places).filter_map(|(&(process, clock, _), seen)| Some((process, clock, seen?)));
        let books = known.filter_map(|(process, clock, seen)| Some(process.books.get(clock)?.look_ahead(seen.place)));
        black_box(books.fold(0, |seen, ns| seen ^ ns));
        marks
    }

    fn introduce(&mut self, source: SourceId, pid: u32, at_ns: u64, hello: &Hello<Box<[u8]>>) {
        if self.processes.len() >= MAX_PROCESSES {
            self.overflows.processes += 1;
            return;
        }
        let same = |process: &&Process| process.pid == pid && process.start_ticks == hello.start_ticks;
        let process = Process {
            source,
            pid,
            own_pid: hello.pid,
            parent: hello.parent,
            since_ns: at_ns,
            start_ticks: hello.start_ticks,
            image: self.processes.iter().filter(same).count() as u32,
            executable: String::from_utf8_lossy(&hello.executable).into_owned(),
            argv: arguments(&hello.argv),
            clock_offset_ns: offset_ns(at_ns, hello.monotonic_ns),
            connected: true,
            account: Default::default(),
            earlier_account: Default::default(),
            engaged: None,
            mappings: Mappings::default(),
            located: Located::default(),
            threads: IdMap::default(),
            sampled_ns: 0,
            books: Clocks::default(),
        };
        self.sources.insert(source, ProcessId(self.processes.len() as u32));
        self.processes.push(process);
    }

    fn disconnect(&mut self, source: SourceId, at_ns: u64) {
        if let Some(id) = self.sources.remove(&source) {
            self.processes[id.0 as usize].disconnect();
            self.leaving.push_back((id, at_ns));
        }
    }

    /// Clears the windows of those that left before any window begins: nothing comes that would do it.
    fn forget_left(&mut self, now_ns: u64) {
        const LONGEST_NS: u64 = (BUCKETS as u64 + 1) * BUCKET_NS;
        while let Some(&(id, left_ns)) = self.leaving.front()
            && left_ns.saturating_add(LONGEST_NS) < now_ns
        {
            self.leaving.pop_front();
            self.processes[id.0 as usize].books.values_mut().for_each(|book| book.clear_window());
        }
    }

    fn hear(&mut self, id: ProcessId, at_ns: u64, message: Message, mark: u64) {
        let process = &mut self.processes[id.0 as usize];
        match message {
            Message::Module(module) => {
                process.located.clear();
                process.mappings.load(&module, &mut self.modules, process.pid);
            }
            Message::Unload(unload) => {
                process.located.clear();
                process.mappings.unload(&unload);
            }
            Message::Thread(said) => {
                let thread = self.thread_id(id, said.tid);
                let thread = &mut self.threads[thread.0 as usize];
                if thread.tid == said.tid {
                    thread.name = String::from_utf8_lossy(&said.name).into_owned();
                    self.renames += 1;
                }
            }
            Message::ThreadEnd { tid } => {
                if let Some(thread) = process.threads.remove(&tid) {
                    self.threads[thread.0 as usize].ended = true;
                }
            }
            Message::Sample(sample, frames) => self.sample(id, at_ns, &sample, Identity::Mark(mark), &frames),
            Message::Account(account) => {
                process.see(at_ns, account.monotonic_ns);
                process.earlier_account = std::mem::replace(&mut process.account, account);
            }
            Message::Engaged(engaged) => process.engaged = Some(engaged),
            Message::Hello(_) | Message::Busy { .. } => {}
        }
    }

    fn thread_id(&mut self, process: ProcessId, tid: u32) -> ThreadId {
        let known = &mut self.processes[process.0 as usize].threads;
        if let Some(&id) = known.get(&tid) {
            return id;
        }
        let full = self.threads.len() >= MAX_THREADS;
        let (tid, name) = if full { (0, OTHER_THREADS.to_owned()) } else { (tid, String::new()) };
        *known.entry(tid).or_insert_with(|| {
            self.threads.push(Thread { process, tid, name, ended: false, state: State::default() });
            ThreadId(self.threads.len() as u32 - 1)
        })
    }

    /// Takes in a sample of a recording. There a stack has a number, always the same one: what came before need not be looked
    /// up again. Its frames are [packed](FrameAddress::pack), leaf first.
    pub fn apply_numbered(&mut self, source: SourceId, at_ns: u64, sample: &Sample, number: u32, frames: &[u64]) {
        self.forget_left(at_ns);
        if let Some(&id) = self.sources.get(&source) {
            self.sample(id, at_ns, sample, Identity::Number(number), frames);
        }
    }

    fn sample(&mut self, id: ProcessId, arrived_ns: u64, sample: &Sample, identity: Identity, frames: &[u64]) {
        let mut cut = is_cut(sample);
        let thread = self.thread_id(id, sample.tid);
        self.overflows.threads += u64::from(self.threads[thread.0 as usize].tid != sample.tid);
        let process = &mut self.processes[id.0 as usize];
        process.located.turn_to(sample.generation);
        let name = process.located.name(thread, sample.clock, cut, identity);
        let seen = process.located.seen(name).unwrap_or_else(|| {
            // The agent sends no more frames, and the leaf side is what it keeps.
            let frames = &frames[..frames.len().min(MAX_FRAMES)];
            let (seen, full) = self.place((id, thread), sample.clock, frames, cut);
            // What had no room is counted each time.
            match full {
                false => self.processes[id.0 as usize].located.remember(name, seen),
                true => {
                    self.overflows.stacks += 1;
                    cut = true;
                }
            }
            seen
        });
        let process = &mut self.processes[id.0 as usize];
        process.see(arrived_ns, sample.monotonic_ns);
        if sample.clock == Clock::Prof {
            process.sampled_ns = process.sampled_ns.saturating_add(sample.weight_ns);
        }
        // Never later than it came, whatever the agent says: a sample of the future would push all others out.
        let at_ns = sample.monotonic_ns.saturating_add_signed(process.clock_offset_ns).min(arrived_ns);
        let book = process.books.of(sample.clock);
        let (weight, lost) = (Weight { ns: sample.weight_ns, samples: 1 }, book.overflows());
        book.enter(at_ns, seen.place, weight);
        if let Some(times) = &mut self.times {
            let (clock, key) = (sample.clock, (thread, seen.stack));
            times.push(TimedSample { at_ns, clock, key, weight_ns: sample.weight_ns });
        }
        if self.frozen.is_none() {
            let journal = self.journals.of(sample.clock);
            journal.enter(Entered { tick: at_ns / BUCKET_NS, key: (thread, seen.stack), weight });
            if book.overflows() != lost {
                journal.turn();
            }
        }
        self.truncated.0 += u64::from(cut);
        self.truncated.1 += 1;
        self.unreadable += u64::from(sample.flags & flag::UNREADABLE != 0);
    }

    /// Where a sample that was not seen before is entered, and whether something about it had no room.
    fn place(&mut self, (id, thread): (ProcessId, ThreadId), clock: Clock, frames: &[u64], cut: bool) -> (Seen, bool) {
        let process = &mut self.processes[id.0 as usize];
        let overflows = self.stacks.overflows();
        let mut stack = StackId::EMPTY;
        if cut {
            let mark = self.stacks.frame_id(Frame::Truncated);
            stack = self.stacks.push(stack, mark);
        }
        for &word in frames.iter().rev() {
            let frame = match word {
                FRAMES_LEFT_OUT => self.stacks.frame_id(Frame::LeftOut),
                _ => {
                    let address = FrameAddress::unpack(word).lookup();
                    process.located.frame(address, &process.mappings, &mut self.stacks)
                }
            };
            stack = self.stacks.push(stack, frame);
        }
        let book = process.books.of(clock);
        let mut full = self.stacks.overflows() != overflows;
        if !book.takes((thread, stack)) {
            let mark = self.stacks.frame_id(Frame::Truncated);
            stack = self.stacks.push(StackId::EMPTY, mark);
            full = true;
        }
        (Seen { stack, place: book.place((thread, stack)) }, full)
    }

    /// Calls `each` with every entry of a clock's books in a span, over all processes; a key may come more than once.
    pub fn visit(&self, clock: Clock, span: Span, each: impl FnMut(Key, Weight)) {
        self.visit_era(Era::Now, clock, span, each);
    }

    /// The same of the books of an era.
    pub fn visit_era(&self, era: Era, clock: Clock, span: Span, mut each: impl FnMut(Key, Weight)) {
        self.books(era, clock).for_each(|book| book.visit(span, &mut each));
    }

    /// Calls `each` with every entry of a clock's books in the ticks from `first` to `last`, and its tick.
    pub fn visit_ticks(
        &self,
        era: Era,
        clock: Clock,
        (first, last): (u64, u64),
        mut each: impl FnMut(u64, Key, Weight),
    ) {
        self.books(era, clock).for_each(|book| book.visit_ticks(first, last, &mut each));
    }

    /// Calls `each` with every entry of a span, and how many buckets before its last it was; 0 for what is in the total.
    pub fn visit_aged(&self, era: Era, clock: Clock, span: Span, mut each: impl FnMut(u64, Key, Weight)) {
        match span.ticks() {
            None => self.visit_era(era, clock, span, |key, weight| each(0, key, weight)),
            Some((first, last)) => {
                self.visit_ticks(era, clock, (first, last), |tick, key, weight| {
                    each(last - tick, key, weight);
                });
            }
        }
    }

    /// The oldest and the newest tick of a clock that are kept and have something.
    pub fn ends(&self, clock: Clock) -> Option<(u64, u64)> {
        let ends = self.books(Era::Now, clock).filter_map(Book::ends);
        ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    fn books(&self, era: Era, clock: Clock) -> impl Iterator<Item = &Book> {
        let kept: &[Clocks<Book>] = match (era, &self.frozen) {
            (Era::Baseline, _) => &self.baseline,
            (Era::Now, Some(books)) => books,
            (Era::Now, None) => &[],
        };
        let is_living = era == Era::Now && self.frozen.is_none();
        let frozen = kept.iter().filter_map(move |books| books.get(clock));
        let living = self.processes.iter().filter(move |_| is_living);
        frozen.chain(living.filter_map(move |process| process.book(clock)))
    }

    /// What was entered into a clock's books lately, if anything ever was. While they are frozen, nothing is, nor ever into a baseline.
    pub fn journal(&self, era: Era, clock: Clock) -> Option<&Journal> {
        self.journals.get(clock).filter(|_| era == Era::Now)
    }

    fn turn_journals(&mut self) {
        self.journals.values_mut().for_each(Journal::turn);
    }

    /// Keeps the time of every sample from now on.
    pub fn keep_sample_times(&mut self) {
        self.times.get_or_insert_default();
    }

    /// Every sample in the books with its time, in the order in which they came; `None` if times
    /// are not kept, or if there were too many.
    pub fn timed_samples(&self) -> Option<&[TimedSample]> {
        self.times.as_ref()?.all()
    }

    /// Keeps the books as they are now for every question until [`thaw`](Self::thaw); samples go on into the living ones.
    pub fn freeze(&mut self) {
        self.frozen = Some(self.processes.iter().map(|process| process.books.map(Book::frozen)).collect());
        self.times.iter_mut().for_each(SampleTimes::freeze);
        self.turn_journals();
    }

    /// Keeps the books that questions are answered from now as the baseline.
    pub fn mark_baseline(&mut self) {
        self.baseline = match &self.frozen {
            Some(books) => books.iter().map(|books| books.map(Book::frozen)).collect(),
            None => self.processes.iter().map(|process| process.books.map(Book::frozen)).collect(),
        };
    }

    /// Forgets the baseline.
    pub fn drop_baseline(&mut self) {
        self.baseline = Vec::new();
    }

    /// Answers from the living books again.
    pub fn thaw(&mut self) {
        self.frozen = None;
        self.times.iter_mut().for_each(SampleTimes::thaw);
        self.turn_journals();
    }

    /// Forgets what a clock's books hold, totals and window.
    pub fn reset(&mut self, clock: Clock) {
        let frozen = self.frozen.iter_mut().flatten();
        frozen.for_each(|books| books.remove(clock));
        for process in &mut self.processes {
            process.books.remove(clock);
            process.located.forget_seen();
        }
        self.times.iter_mut().for_each(|times| times.reset(clock));
        self.turn_journals();
    }

    /// Lets a clock's window start anew; its totals stay.
    pub fn clear_window(&mut self, clock: Clock) {
        for book in self.processes.iter_mut().filter_map(|process| process.books.get_mut(clock)) {
            book.clear_window();
        }
        self.turn_journals();
    }

    /// Every process image, in order of its Hello.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The process behind an id.
    pub fn process(&self, id: ProcessId) -> &Process {
        &self.processes[id.0 as usize]
    }

    /// The thread behind an id.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.0 as usize]
    }

    /// Somebody looked what a thread does.
    pub fn see_state(&mut self, id: ThreadId, state: State) {
        self.threads[id.0 as usize].state = state;
    }

    /// Gives every thread and every process a frame, by which it can lie at the root of its stacks.
    pub fn label(&mut self) {
        for thread in self.labelled.0..self.threads.len() {
            self.stacks.frame_id(Frame::Thread(ThreadId(thread as u32)));
        }
        for process in self.labelled.1..self.processes.len() {
            self.stacks.frame_id(Frame::Process(ProcessId(process as u32)));
        }
        self.labelled = (self.threads.len(), self.processes.len());
    }

    /// Every thread, by id.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Grows with every name that a thread gets.
    pub fn renames(&self) -> u64 {
        self.renames
    }

    /// The frame behind an id.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.stacks.frame(id)
    }

    /// Samples whose stack was cut short, of all samples.
    pub fn truncated(&self) -> (u64, u64) {
        self.truncated
    }

    /// Samples of which nothing but the leaf could be read; [`truncated`](Self::truncated) counts them too.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// What did not fit.
    pub fn overflows(&self) -> Overflows {
        let books = self.processes.iter().flat_map(|process| process.books.values());
        let window = books.map(|book| book.overflows()).sum();
        Overflows { modules: self.modules.overflows(), window, ..self.overflows }
    }

    /// Losses and costs, summed over processes.
    pub fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        self.processes.iter().for_each(|process| losses.add(&process.account));
        losses
    }
}

/// Whether a stack does not reach its root.
fn is_cut(sample: &Sample) -> bool {
    sample.flags & (flag::TRUNCATED | flag::UNREADABLE) != 0
}

/// How far the viewer's clock is before an agent's, as far as one message shows it.
fn offset_ns(arrived_ns: u64, monotonic_ns: u64) -> i64 {
    (arrived_ns as i64).wrapping_sub(monotonic_ns as i64)
}

fn arguments(argv: &[u8]) -> Vec<String> {
    let argv = argv.strip_suffix(&[0]).unwrap_or(argv);
    argv.split(|&byte| byte == 0).map(|argument| String::from_utf8_lossy(argument).into_owned()).collect()
}

#[cfg(test)]
mod tests;
