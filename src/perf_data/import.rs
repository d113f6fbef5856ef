//! Follows the records of a file: which process had which code and which threads, and what was
//! sampled. Each event becomes a recording of its own, because its samples count something else.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::rc::Rc;

use super::address_space::{AddressSpace, CodeMapping};
use super::attribute::EventAttribute;
use super::code_files::CodeFiles;
use super::event_recording::{EventRecording, ProcessFacts};
use super::header::FileFacts;
use super::kernel::RecordedKernel;
use super::record::{CpuMode, MappingRecord, Record, SampleRecord, ThreadNumbers, ThrottleRecord};
use super::records::{PerfRecordReader, RawRecord};
use super::stack::StackBuilder;
use crate::link::recording::RecordingInfo;
use crate::wire::{Clock, Engine, FrameAddress, LossCause, MAX_COMM, is_kernel_address};

/// Maximum number of processes and of names of threads that are remembered.
const MAX_PROCESSES: usize = 1 << 20;
const MAX_THREADS: usize = 1 << 20;
/// Maximum number of counters that take no samples at one time.
const MAX_THROTTLED: usize = 1 << 16;
/// Maximum time for which the kernel takes no samples of a counter: it goes on at the next tick of
/// its own, of which there are at least 100 in a second. A thread that does not run has none.
const MAX_THROTTLED_NS: u64 = 10_000_000;
/// The pid of mappings of the kernel.
const KERNEL_PID: u32 = u32::MAX;
/// Paths of mappings that are no files begin so.
const NO_FILE: [&[u8]; 3] = [b"//anon", b"[", b"anon_inode:"];

/// The samples of one event, as a recording.
pub struct ImportedEvent {
    /// The event, as perf names it.
    pub name: String,
    /// Whether its weights are nanoseconds; otherwise they are counts.
    pub is_clock: bool,
    /// The recording.
    pub bytes: Vec<u8>,
}

/// The recordings of a file.
pub struct ImportedFile {
    /// Those events that have samples, in the order of the file.
    pub events: Vec<ImportedEvent>,
    /// Remarks for the user: predicates, without their subject.
    pub remarks: Vec<String>,
}

/// A process.
struct RecordedProcess {
    parent: u32,
    /// Shared with those that it has forked, until one of them maps something.
    space: Rc<RefCell<AddressSpace>>,
    /// Number of programs that it has executed.
    image: u32,
    threads: HashSet<u32>,
}

/// Numbers of what became no sample.
#[derive(Default)]
struct SkippedRecords {
    malformed: u64,
    of_unknown_events: u64,
    /// Times without samples of events of which the number of lost samples is not known.
    throttled: u64,
}

/// The losses of an event.
#[derive(Clone, Copy, Default)]
struct EventLosses {
    /// Records for which there was no room.
    records: u64,
    /// Samples that were not written.
    samples: u64,
    /// The time without samples, ns.
    throttled_ns: u64,
}

struct PerfImporter {
    files: CodeFiles,
    kernel: RecordedKernel,
    processes: HashMap<u32, RecordedProcess>,
    names: HashMap<u32, Vec<u8>>,
    stack: StackBuilder,
    recordings: Vec<Option<EventRecording>>,
    /// The losses of each event.
    lost: Vec<EventLosses>,
    /// The counters that take no samples, with the begin of that time, ns.
    throttled: HashMap<u64, u64>,
    skipped: SkippedRecords,
    /// The last value of each counter of a group, by its id.
    counters: HashMap<u64, u64>,
    /// The time of the first record, ns.
    started_ns: u64,
}

/// Reads a file of perf. `file` is the same file, if it is one and not a pipe.
///
/// # Errors
/// If it cannot be read or has no samples: a predicate that continues the file's name.
pub fn import(from: Box<dyn Read + Send + '_>, file: Option<File>) -> Result<ImportedFile, String> {
    let mut reader = PerfRecordReader::open(from, file)?;
    let files = CodeFiles::default();
    let mut importer = PerfImporter {
        files,
        kernel: RecordedKernel::default(),
        processes: HashMap::new(),
        names: HashMap::new(),
        stack: StackBuilder::default(),
        recordings: Vec::new(),
        lost: Vec::new(),
        throttled: HashMap::new(),
        skipped: SkippedRecords::default(),
        counters: HashMap::new(),
        started_ns: 0,
    };
    while let Some(record) = reader.next() {
        importer.follow(&record, &reader.facts);
    }
    let (fault, facts) = (reader.fault.take(), &reader.facts);
    importer.finish(facts, fault)
}

impl PerfImporter {
    fn follow(&mut self, raw: &RawRecord, facts: &FileFacts) {
        let default = EventAttribute::default();
        let attribute = facts.attributes.get(raw.event.unwrap_or(0)).unwrap_or(&default);
        if self.started_ns == 0 {
            self.started_ns = raw.time_ns;
        }
        match Record::decode((raw.kind, raw.misc), &raw.body, attribute, facts.order) {
            Record::Sample(sample) => match raw.event {
                Some(event) => self.add_sample(&sample, event, raw.time_ns, facts),
                None => self.skipped.of_unknown_events += 1,
            },
            Record::Mapped(record) => self.map(&record, facts),
            Record::Named { thread, name, is_exec } => self.name(thread, name, is_exec),
            Record::Started { thread, maker } => self.start(thread, maker),
            Record::Ended(thread) => self.end(thread, raw.time_ns),
            Record::Lost(records) => {
                self.lose(raw.event, |lost| lost.records = lost.records.saturating_add(records));
            }
            Record::LostSamples(samples) => {
                self.lose(raw.event, |lost| lost.samples = lost.samples.saturating_add(samples));
            }
            Record::Throttled(record) => self.throttle(record),
            Record::Unthrottled(record) => self.unthrottle(record, raw.event, facts),
            Record::Malformed => self.skipped.malformed += 1,
            Record::Other => {}
        }
    }

    fn throttle(&mut self, record: ThrottleRecord) {
        if self.throttled.len() < MAX_THROTTLED || self.throttled.contains_key(&record.counter) {
            self.throttled.insert(record.counter, record.at_ns);
        }
    }

    fn unthrottle(&mut self, record: ThrottleRecord, event: Option<usize>, facts: &FileFacts) {
        let Some(since_ns) = self.throttled.remove(&record.counter) else { return };
        let ns = record.at_ns.saturating_sub(since_ns).min(MAX_THROTTLED_NS);
        let event = facts.event_of(record.id).or(event);
        match facts.attributes.get(event.unwrap_or(0)).and_then(|attribute| attribute.samples_in(ns)) {
            Some(_) => self.lose(event, |lost| lost.throttled_ns = lost.throttled_ns.saturating_add(ns)),
            None => self.skipped.throttled += 1,
        }
    }

    fn lose(&mut self, event: Option<usize>, add: impl FnOnce(&mut EventLosses)) {
        let event = event.unwrap_or(0);
        if self.lost.len() <= event {
            self.lost.resize(event + 1, EventLosses::default());
        }
        add(&mut self.lost[event]);
    }

    fn process(&mut self, pid: u32) -> &mut RecordedProcess {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        let files = &self.files;
        self.processes.entry(pid).or_insert_with(|| {
            let space = Rc::new(RefCell::new(AddressSpace::new(files.clone())));
            RecordedProcess { parent: 0, space, image: 0, threads: HashSet::from([pid]) }
        })
    }

    fn name(&mut self, ThreadNumbers { pid, tid }: ThreadNumbers, name: &[u8], is_exec: bool) {
        let space = AddressSpace::new(self.files.clone());
        let process = self.process(pid);
        process.threads.insert(tid);
        if is_exec {
            process.image += 1;
            process.space = Rc::new(RefCell::new(space));
            process.threads = HashSet::from([tid]);
        }
        self.remember_name(tid, name[..name.len().min(MAX_COMM)].to_vec());
    }

    fn remember_name(&mut self, tid: u32, name: Vec<u8>) {
        if self.names.len() >= MAX_THREADS {
            self.names.clear();
        }
        self.names.insert(tid, name);
    }

    fn start(&mut self, thread: ThreadNumbers, maker: ThreadNumbers) {
        if let Some(name) = self.names.get(&maker.tid).cloned() {
            self.remember_name(thread.tid, name);
        }
        if thread.pid == maker.pid {
            self.process(thread.pid).threads.insert(thread.tid);
            return;
        }
        let space = self.process(maker.pid).space.clone();
        // A pid that is used again is another process.
        let image = self.processes.get(&thread.pid).map_or(0, |earlier| earlier.image + 1);
        let threads = HashSet::from([thread.tid]);
        self.process(thread.pid);
        self.processes.insert(thread.pid, RecordedProcess { parent: maker.pid, space, image, threads });
    }

    fn end(&mut self, thread: ThreadNumbers, at_ns: u64) {
        let Some(process) = self.processes.get_mut(&thread.pid) else { return };
        process.threads.remove(&thread.tid);
        let is_last = process.threads.is_empty();
        for recording in self.recordings.iter_mut().flatten() {
            recording.end_thread(thread, at_ns);
            if is_last {
                recording.end_process(thread.pid);
            }
        }
    }

    fn map(&mut self, record: &MappingRecord<'_>, facts: &FileFacts) {
        if record.pid == KERNEL_PID || record.mode == CpuMode::Kernel {
            if let Some(kernel) = RecordedKernel::find(facts, record) {
                self.kernel = kernel;
            }
            return;
        }
        if !record.is_executable {
            return;
        }
        let is_vdso = record.path == b"[vdso]";
        let has_file = is_vdso || !NO_FILE.iter().any(|start| record.path.starts_with(start));
        let recorded = Some(record.build_id).filter(|id| !id.is_empty());
        let build_id = recorded.unwrap_or_else(|| facts.build_id(record.path));
        let identity = (record.device, record.inode);
        let file = if has_file { self.files.number(record.path, build_id, identity) } else { 0 };
        let end = record.start.saturating_add(record.length);
        let mapping = CodeMapping { start: record.start, end, offset: record.offset, file, is_vdso };
        let process = self.process(record.pid);
        if Rc::strong_count(&process.space) > 1 {
            let own = process.space.borrow().fork();
            process.space = Rc::new(RefCell::new(own));
        }
        process.space.borrow_mut().map(mapping);
    }

    /// Adds a sample. One that has read a group of counters stands for what each of them has
    /// counted since the last.
    fn add_sample(&mut self, sample: &SampleRecord<'_>, event: usize, at_ns: u64, facts: &FileFacts) {
        let pid = sample.thread.pid;
        let Some(attribute) = facts.attributes.get(event) else { return };
        let process = self.process(pid);
        let (space, parent, image) = (process.space.clone(), process.parent, process.image);
        let mut space = space.borrow_mut();
        let flags = self.stack.build(sample, attribute, &self.kernel, &mut space);
        let program = space.program().and_then(|file| self.files.identity(file));
        let program = program.map(|file| file.path.into_os_string().into_encoded_bytes());
        let program = program.or_else(|| self.names.get(&pid).cloned()).unwrap_or_default();
        let process = ProcessFacts { parent, program: &program, image };
        let Some(counters) = sample.counters else {
            return self.record_sample(
                sample.thread,
                (event, sample.period),
                (at_ns, flags),
                (&process, &mut space),
                facts,
            );
        };
        for (id, value) in counters.values() {
            let Some(event) = facts.event_of(id) else {
                self.skipped.of_unknown_events += 1;
                continue;
            };
            let counted = value.wrapping_sub(self.counters.insert(id, value).unwrap_or(0));
            if counted > 0 {
                self.record_sample(sample.thread, (event, counted), (at_ns, flags), (&process, &mut space), facts);
            }
        }
    }

    /// Adds the stack that was built to the recording of an event.
    fn record_sample(
        &mut self,
        thread: ThreadNumbers,
        (event, weight): (usize, u64),
        (at_ns, flags): (u64, u32),
        (process, space): (&ProcessFacts<'_>, &mut AddressSpace),
        facts: &FileFacts,
    ) {
        let Some(attribute) = facts.attributes.get(event) else { return };
        if self.recordings.len() <= event {
            self.recordings.resize_with(event + 1, || None);
        }
        let (ThreadNumbers { pid, tid }, started_ns) = (thread, self.started_ns);
        let recording =
            self.recordings[event].get_or_insert_with(|| EventRecording::new(&info(facts, attribute, pid, started_ns)));
        let name = self.names.get(&tid).map_or(&[][..], Vec::as_slice);
        recording.introduce(thread, at_ns, name, process);
        for &frame in &self.stack.frames {
            let address = FrameAddress::unpack(frame).lookup();
            if is_kernel_address(address) {
                recording.introduce_kernel(pid, &self.kernel.build_id);
            } else if let Some((id, module)) = space.find(address) {
                let file = || self.files.identity(module.inode);
                recording.introduce_module(pid, *id, module, file);
            }
        }
        recording.add_sample(thread, flags, weight, &self.stack.frames);
    }

    fn finish(self, facts: &FileFacts, fault: Option<String>) -> Result<ImportedFile, String> {
        let PerfImporter { recordings, lost, skipped, .. } = self;
        let lost_of = |event: usize, attribute: &EventAttribute| {
            let lost = lost.get(event).copied().unwrap_or_default();
            let throttled = attribute.samples_in(lost.throttled_ns).unwrap_or(0);
            [(LossCause::RingFull, lost.records.max(lost.samples)), (LossCause::Unaccounted, throttled)]
        };
        let mut events = Vec::new();
        for (event, recording) in recordings.into_iter().enumerate() {
            if let (Some(recording), Some(attribute)) = (recording, facts.attributes.get(event)) {
                let bytes = recording.finish(&lost_of(event, attribute));
                events.push(ImportedEvent { name: attribute.name(), is_clock: attribute.is_clock(), bytes });
            }
        }
        let is_own = facts.machine.is_empty() || facts.machine == std::env::consts::ARCH;
        let counted = [
            (skipped.malformed, "malformed records that were skipped"),
            (skipped.of_unknown_events, "samples of events that it does not describe"),
            (skipped.throttled, "times without samples, as they cost too much: the number of lost ones is not known"),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let mut remarks: Vec<String> = fault.into_iter().collect();
        remarks.extend(counted.map(|(count, what)| format!("has {count} {what}")));
        if !is_own {
            remarks.push(format!("is of another machine ({}): its copied stacks are not unwound", facts.machine));
        }
        match events.is_empty() {
            true => Err(remarks.into_iter().next().unwrap_or_else(|| "has no samples".to_owned())),
            false => Ok(ImportedFile { events, remarks }),
        }
    }
}

/// Describes the recording of an event whose first sample is of process `pid`.
fn info(facts: &FileFacts, attribute: &EventAttribute, pid: u32, started_ns: u64) -> RecordingInfo {
    let (name, is_clock) = (attribute.name(), attribute.is_clock());
    let period_ns = match attribute.is_frequency {
        true if is_clock => 1_000_000_000 / attribute.period.max(1),
        false if is_clock => attribute.period,
        _ => 0,
    };
    RecordingInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: facts.command.join(" "),
        host: facts.host.clone(),
        names: false,
        launched: false,
        pid,
        clock: Clock::Prof,
        engine: Engine::Events,
        period_ns,
        started_ns,
        started_unix_ns: 0,
        origin: Some(format!("{name} in {}", if is_clock { "nanoseconds" } else { "count" })),
        kernel: if facts.release.is_empty() {
            String::new()
        } else {
            format!("Linux {} {}", facts.release, facts.machine)
        },
    }
}
