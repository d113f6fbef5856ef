//! The recording of one event: what was sampled, as sigtop would have recorded it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::record::ThreadNumbers;
use crate::link::recording::{Encoder, RecordingInfo};
use crate::profile::module::ModuleFile;
use crate::sampler::unwind::ProcessModule;
use crate::wire::{
    AgentCounters, Arrival, Clock, ConnectionEvent, Hello, KERNEL_END, KERNEL_PATH, KERNEL_START, LossCause, MAX_COMM,
    Message, Module, Sample, SourceId, SpawnCause, Thread,
};

/// Maximum number of processes that are open at a time. When there are more, the oldest ends, and
/// begins again with its next sample.
const MAX_OPEN: usize = 2048;
/// The id of the module of the kernel.
const KERNEL_MODULE: u32 = u32::MAX;

/// The state of a process at the time of a sample.
pub(super) struct ProcessFacts<'a> {
    pub(super) parent: u32,
    /// The path of the program, or a name for it.
    pub(super) program: &'a [u8],
    /// Number of the image: it grows when the process executes another program.
    pub(super) image: u32,
}

/// A process that the recording knows.
struct OpenProcess {
    source: SourceId,
    image: u32,
    /// The names of threads.
    threads: HashMap<u32, Vec<u8>>,
    modules: HashSet<u32>,
}

/// A recording that grows.
pub(super) struct EventRecording {
    encoder: Encoder,
    open: HashMap<u32, OpenProcess>,
    /// Processes in the order in which they were opened.
    opened: VecDeque<(u32, SourceId)>,
    /// The process that has ended when no other was open. It stays open for losses that are known
    /// at the end, until another is opened.
    ended: Option<u32>,
    next_source: u32,
    blocks: Vec<Vec<u8>>,
    at_ns: u64,
    pub(super) samples: u64,
    pub(super) weight: u64,
}

impl EventRecording {
    pub(super) fn new(info: &RecordingInfo) -> EventRecording {
        EventRecording {
            encoder: Encoder::new(info),
            open: HashMap::new(),
            opened: VecDeque::new(),
            ended: None,
            next_source: 0,
            blocks: Vec::new(),
            at_ns: info.started_ns,
            samples: 0,
            weight: 0,
        }
    }

    fn write(&mut self, source: SourceId, pid: u32, event: ConnectionEvent) {
        self.encoder.write_event(&Arrival { source, pid, at_ns: self.at_ns, event });
        self.blocks.extend(self.encoder.take_blocks());
    }

    fn write_message(&mut self, source: SourceId, pid: u32, message: Message) {
        self.write(source, pid, ConnectionEvent::Received(message));
    }

    /// Introduces the process of a sample and its thread.
    pub(super) fn introduce(&mut self, thread: ThreadNumbers, at_ns: u64, name: &[u8], facts: &ProcessFacts<'_>) {
        let ThreadNumbers { pid, tid } = thread;
        self.at_ns = at_ns.max(self.at_ns);
        self.ended = self.ended.filter(|ended| *ended != pid);
        if self.open.get(&pid).is_some_and(|open| open.image != facts.image) {
            self.close(pid);
        }
        if !self.open.contains_key(&pid) {
            if self.open.len() == MAX_OPEN {
                self.close_oldest();
            }
            let source = SourceId(self.next_source);
            self.next_source = self.next_source.wrapping_add(1) & (u32::MAX >> 1);
            let hello = Hello {
                token: 0,
                pid,
                parent: facts.parent,
                start_ticks: 0,
                monotonic_ns: self.at_ns,
                cpu_ns: 0,
                spawn_cause: SpawnCause::External,
                executable: facts.program.into(),
                argv: facts.program.into(),
            };
            self.write_message(source, pid, Message::Hello(hello));
            self.opened.push_back((pid, source));
            let (threads, modules) = (HashMap::new(), HashSet::new());
            self.open.insert(pid, OpenProcess { source, image: facts.image, threads, modules });
            self.ended.take().into_iter().for_each(|ended| self.close(ended));
        }
        let Some(open) = self.open.get_mut(&pid) else { return };
        let name = &name[..name.len().min(MAX_COMM)];
        if open.threads.get(&tid).is_none_or(|known| known != name) {
            open.threads.insert(tid, name.to_vec());
            let source = open.source;
            self.write_message(source, pid, Message::Thread(Thread { tid, name: name.into() }));
        }
    }

    /// Introduces a module of an introduced process.
    pub(super) fn introduce_module(
        &mut self,
        pid: u32,
        id: u32,
        module: &ProcessModule,
        file: impl FnOnce() -> Option<ModuleFile>,
    ) {
        let Some(open) = self.open.get_mut(&pid).filter(|open| !open.modules.contains(&id)) else { return };
        open.modules.insert(id);
        let source = open.source;
        let (start, end, bias) = (module.start, module.end, module.bias);
        let identity = file().unwrap_or_else(|| ModuleFile { path: "[unknown]".into(), ..empty_file() });
        // Without a build id in the recording, the file that was found has one.
        let build_id = if module.build_id.is_empty() { identity.build_id } else { module.build_id.clone() };
        let (device, inode) = (identity.device, identity.inode);
        let path = identity.path.into_os_string().into_encoded_bytes().into();
        let module = Module { id, generation: 0, start, end, bias, device, inode, path, build_id };
        self.write_message(source, pid, Message::Module(module));
    }

    /// Introduces the kernel to an introduced process.
    pub(super) fn introduce_kernel(&mut self, pid: u32, build_id: &[u8]) {
        let Some(open) = self.open.get_mut(&pid).filter(|open| !open.modules.contains(&KERNEL_MODULE)) else { return };
        open.modules.insert(KERNEL_MODULE);
        let source = open.source;
        let module = Module {
            id: KERNEL_MODULE,
            generation: 0,
            start: KERNEL_START,
            end: KERNEL_END,
            bias: 0,
            device: 0,
            inode: 0,
            path: KERNEL_PATH.into(),
            build_id: build_id.into(),
        };
        self.write_message(source, pid, Message::Module(module));
    }

    /// Adds a sample of an introduced thread.
    pub(super) fn add_sample(&mut self, thread: ThreadNumbers, flags: u32, weight: u64, frames: &[u64]) {
        let Some(source) = self.open.get(&thread.pid).map(|open| open.source) else { return };
        let sample = Sample {
            tid: thread.tid,
            clock: Clock::Prof,
            flags,
            generation: 0,
            monotonic_ns: self.at_ns,
            weight_ns: weight,
            allocation: Default::default(),
            age_ms: 0,
            slot: 0,
        };
        self.write_message(source, thread.pid, Message::Sample(sample, frames.into()));
        self.samples += 1;
        self.weight = self.weight.saturating_add(weight);
    }

    /// Notes the end of a thread.
    pub(super) fn end_thread(&mut self, thread: ThreadNumbers, at_ns: u64) {
        let Some(open) = self.open.get_mut(&thread.pid) else { return };
        if open.threads.remove(&thread.tid).is_some() {
            let source = open.source;
            self.at_ns = at_ns.max(self.at_ns);
            self.write_message(source, thread.pid, Message::ThreadEnd { tid: thread.tid });
        }
    }

    /// Notes the end of a process.
    pub(super) fn end_process(&mut self, pid: u32) {
        if self.open.len() == 1 && self.open.contains_key(&pid) {
            self.ended = Some(pid);
        } else {
            self.close(pid);
        }
    }

    fn close(&mut self, pid: u32) {
        if let Some(open) = self.open.remove(&pid) {
            self.opened.retain(|(_, source)| *source != open.source);
            self.write(open.source, pid, ConnectionEvent::Closed);
        }
    }

    fn close_oldest(&mut self) {
        if let Some((pid, _)) = self.opened.front().copied() {
            self.close(pid);
        }
    }

    /// Returns the bytes of the recording. Lost samples are of no known process: the first has
    /// them.
    pub(super) fn finish(mut self, lost: &[(LossCause, u64)]) -> Vec<u8> {
        let sum = lost.iter().fold(0, |sum: u64, (_, samples)| sum.saturating_add(*samples));
        if sum > 0
            && let Some((pid, source)) = self.opened.front().copied()
        {
            let mean = self.weight / self.samples.max(1);
            let mut counters = AgentCounters { monotonic_ns: self.at_ns, sent: self.samples, ..Default::default() };
            counters.ticks = self.samples.saturating_add(sum);
            for &(cause, samples) in lost {
                counters.lost_ticks[cause as usize] = samples;
                counters.add_lost_weight(cause, Clock::Prof, samples.saturating_mul(mean));
            }
            self.write_message(source, pid, Message::Counters(counters));
        }
        self.encoder.write_time(self.at_ns);
        let end = self.encoder.finish(&[]);
        self.blocks.extend(self.encoder.take_blocks());
        self.blocks.into_iter().chain(end).flatten().collect()
    }
}

fn empty_file() -> ModuleFile {
    ModuleFile { path: Default::default(), build_id: Default::default(), device: 0, inode: 0 }
}
