//! A process image and its connection to the viewer, as the walker thread keeps it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::time::Duration;

use crossbeam_channel::Sender;

use super::frames::{add_kernel_frames, leave_out_agent, leave_out_call};
use crate::attach::{find, proc};
use crate::process::cpython::functions::FunctionTable;
use crate::process::cpython::merge;
use crate::process::waits::{SleeperWait, WaitReader};
use crate::sampler::clock::monotonic_ns;
use crate::sampler::connection::{ViewerAddress, ViewerConnection};
use crate::sampler::events::{
    ImageStart, SampledStack, SampledState, SamplerConfig, TracerCounters, UnwalkedSample, WalkerRequest,
};
use crate::sampler::interpreter::{FoundCPython, RemoteMemory, find_among};
use crate::sampler::maps::ProcessMaps;
use crate::sampler::thread_names::ThreadNames;
use crate::sampler::unwind::{ProcessModule, ProcessUnwinder, UnwindSource, WalkEnd};
use crate::sampler::waits::ProcessWaits;
use crate::wire::interpreter::FrameAccess;
use crate::wire::{
    AgentCounters, Allocation, BOOT_ID_FILE, Clock, Engaged, Engine, EngineState, FRAMES_LEFT_OUT, FrameAddress, Hello,
    KERNEL_END, KERNEL_PATH, KERNEL_START, LossCause, MAX_COMM, MAX_FRAMES, Module, Request, STACK_SLOTS, Sample,
    SpawnCause, StackMemory, Thread, Unload, flag, is_kernel_address, parse_boot_id, stack_memory,
};

/// Time between two readings of the memory map of a process that runs, ns.
const MAPS_NS: u64 = 1_000_000_000;
/// Time before the map is read again when a stack leads outside of it, ns.
const MISS_NS: u64 = 100_000_000;
/// The same while an image is young and loads its libraries, ns.
const YOUNG_MISS_NS: u64 = 2_000_000;
/// Time for which an image is young, ns.
const YOUNG_NS: u64 = 500_000_000;

/// Time between two looks at the arguments of a process that has none, and number of looks.
const ARGUMENT_PAUSE: Duration = Duration::from_micros(200);
const ARGUMENT_LOOKS: usize = 100;

/// The last stack of a thread.
#[derive(Default)]
struct LastStack {
    frames: Vec<u64>,
    flags: u32,
    /// Whether all its frames are the agent's, so that the thread is its, too.
    is_agents: bool,
    /// The wait of the thread there.
    wait: SleeperWait,
    /// Whether its process is stopped.
    is_stopped: bool,
}

/// A process image and its connection.
pub(super) struct Image {
    pid: u32,
    /// The process whose memory map is read: this one, or the one that made it.
    memory_of: u32,
    /// The program's file and the link beside it by which it was started.
    link: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) connection: ViewerConnection,
    unwinder: ProcessUnwinder,
    waits: WaitReader<ProcessWaits>,
    maps: ProcessMaps,
    maps_ns: u64,
    opened_ns: u64,
    /// Whether the process has mapped code since the map was read.
    pub(super) has_mapped: bool,
    /// The engine that samples it.
    engine: Engine,
    /// Whether the viewer knows the kernel's module.
    knows_kernel: bool,
    /// Whether samples have come since the map was read.
    is_map_used: bool,
    /// Modules that the viewer knows, with their ids.
    modules: Vec<(u32, ProcessModule)>,
    /// Addresses of the agent, if the process carries it.
    agent: Range<u64>,
    next_module: u32,
    generation: u32,
    threads: BTreeMap<u32, LastStack>,
    names: ThreadNames,
    pub(super) interpreter: Option<FoundCPython>,
    functions: FunctionTable<RemoteMemory>,
    /// Whether the tracer does not know the interpreter yet.
    pub(super) is_interpreter_news: bool,
    memory: Box<StackMemory>,
    sent: u64,
    /// The part of the sampler's CPU time that was reported with this image, ns.
    pub(super) sampler_cpu_ns: u64,
    /// Number and weight, ns, of samples that repeat a stack which is not known.
    lost: (u64, u64),
}

impl Image {
    /// Connects, and introduces the process.
    pub(super) fn open(viewer: &ViewerAddress, start: &ImageStart) -> std::io::Result<Image> {
        let mut connection = ViewerConnection::open(&viewer.path)?;
        // One that has ended already had the memory of its maker: it has executed no program.
        let has_memory = || ProcessMaps::read(start.pid, start.pid).is_ok_and(|maps| !maps.is_empty());
        let memory_of = start.maker.filter(|_| !has_memory()).unwrap_or(start.pid);
        let file = std::fs::read_link(format!("/proc/{memory_of}/exe")).unwrap_or_default();
        let file = file.into_os_string().into_encoded_bytes();
        let words = if start.maker.is_some() { proc::command_line(memory_of) } else { arguments(memory_of) };
        let argv: Vec<u8> = words.iter().flat_map(|word| [word.as_encoded_bytes(), b"\0"].concat()).collect();
        let link = proc::program_link(memory_of, &file, &argv);
        let hello = Hello {
            token: viewer.token,
            pid: start.pid,
            parent: start.parent,
            start_ticks: start.start_ticks,
            monotonic_ns: monotonic_ns(),
            cpu_ns: start.cpu_ns,
            spawn_cause: SpawnCause::External,
            executable: link.as_ref().unwrap_or(&file).clone(),
            argv,
        };
        connection.write(|w| w.write_hello(&hello))?;
        connection.flush()?;
        let memory = proc::thread_with_memory(memory_of);
        let mut image = Image {
            pid: start.pid,
            memory_of,
            link: link.map(|link| (file, link)),
            connection,
            unwinder: ProcessUnwinder::new(UnwindSource::Process(memory)),
            waits: ProcessWaits::reader(start.pid),
            maps: ProcessMaps::default(),
            maps_ns: 0,
            opened_ns: monotonic_ns(),
            has_mapped: false,
            engine: start.engine,
            knows_kernel: false,
            is_map_used: false,
            modules: Vec::new(),
            agent: 0..0,
            next_module: 0,
            generation: 0,
            threads: BTreeMap::new(),
            names: ThreadNames::default(),
            interpreter: None,
            functions: FunctionTable::new(RemoteMemory::new(memory)),
            is_interpreter_news: false,
            memory: stack_memory(),
            sent: 0,
            sampler_cpu_ns: 0,
            lost: (0, 0),
        };
        image.read_maps(memory)?;
        if let (true, Some(maker)) = (image.maps.is_empty(), start.maker) {
            // It has ended since.
            image.memory_of = maker;
            image.unwinder = ProcessUnwinder::new(UnwindSource::Process(proc::thread_with_memory(maker)));
            image.read_maps(maker)?;
        }
        Ok(image)
    }

    /// Sends what was written and reads requests. Returns false if the viewer wants no more.
    pub(super) fn exchange(&mut self, requests: &Sender<WalkerRequest>) -> std::io::Result<bool> {
        while let Some(request) = self.connection.request()? {
            match request {
                Request::Engage { clock, period_ns, .. } => {
                    let is_supported = clock != Clock::Virtual && !clock.is_memory();
                    let state = if is_supported { EngineState::Running } else { EngineState::Unsupported };
                    let engaged = Engaged { clock, engine: self.engine, state, period_ns, signal: 0 };
                    self.connection.write(|w| w.write_engaged(&engaged))?;
                    let _ = requests.send(WalkerRequest::Configure(SamplerConfig { clock, period_ns }));
                }
                Request::Leave => return Ok(false),
            }
        }
        self.connection.flush().map(|()| true)
    }

    /// Announces a thread, or its new name. `has_run` says that it has run since the last call.
    pub(super) fn name_thread(&mut self, tid: u32, has_run: bool) -> std::io::Result<()> {
        let Some(name) = self.names.update(self.pid, tid, has_run, monotonic_ns()) else { return Ok(()) };
        self.connection.write(|w| w.write_thread(&Thread { tid, name: name.as_bytes() }))
    }

    /// Forgets a thread, and announces its end.
    pub(super) fn end_thread(&mut self, tid: u32) -> std::io::Result<()> {
        self.threads.remove(&tid);
        self.names.forget(tid);
        self.connection.write(|w| w.write_thread_end(tid))
    }

    /// Announces the name that the kernel reports.
    pub(super) fn rename_thread(&mut self, tid: u32, name: &[u8]) -> std::io::Result<()> {
        let name = &name[..name.len().min(MAX_COMM)];
        self.names.note(tid, &String::from_utf8_lossy(name), monotonic_ns());
        self.connection.write(|w| w.write_thread(&Thread { tid, name }))
    }

    /// Reads the memory map, and announces modules that came or went.
    fn read_maps(&mut self, tid: u32) -> std::io::Result<()> {
        (self.maps_ns, self.is_map_used, self.has_mapped) = (monotonic_ns(), false, false);
        // The process may be ending.
        let tid = if self.memory_of == self.pid { tid } else { self.memory_of };
        let Ok(maps) = ProcessMaps::read(self.memory_of, tid) else { return Ok(()) };
        if maps.is_empty() || maps == self.maps {
            return Ok(());
        }
        self.maps = maps;
        let loaded = self.unwinder.refresh(&self.maps);
        let (kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.modules).into_iter().partition(|(_, module)| loaded.contains(module));
        self.modules = kept;
        let known = |module: &ProcessModule| self.modules.iter().any(|(_, known)| known == module);
        let fresh: Vec<ProcessModule> = loaded.iter().filter(|module| !known(module)).cloned().collect();
        if gone.is_empty() && fresh.is_empty() {
            return Ok(());
        }
        let is_gone = self.interpreter.as_ref().is_some_and(|found| !found.is_in(&self.modules));
        if is_gone || self.interpreter.is_none() {
            self.interpreter = find_among(self.pid, &self.maps, &fresh);
            self.is_interpreter_news |= is_gone || self.interpreter.is_some();
        }
        self.generation += 1;
        for (id, _) in gone {
            let unload = Unload { id, generation: self.generation };
            self.connection.write(|w| w.write_unload(&unload))?;
        }
        for module in fresh {
            let id = self.next_module;
            self.next_module += 1;
            let link = self.link.as_ref().filter(|(file, _)| file[..] == module.path[..]);
            let described = Module {
                id,
                generation: self.generation,
                start: module.start,
                end: module.end,
                bias: module.bias,
                device: module.device,
                inode: module.inode,
                path: link.map_or(&module.path[..], |(_, link)| &link[..]),
                build_id: &module.build_id,
            };
            self.connection.write(|w| w.write_module(&described))?;
            if find::is_agent(&module.path) {
                self.agent = module.start..module.end;
            }
            self.modules.push((id, module));
        }
        Ok(())
    }

    /// Walks the stack of a sample, if it has one of its own. Returns how the walk ended.
    pub(super) fn walk(&mut self, sample: &UnwalkedSample, frames: &mut Vec<u64>) -> WalkEnd {
        let (registers, stack, list) = match &sample.stack {
            SampledStack::Copied(registers, stack, list) => (registers, stack, list),
            SampledStack::Kernel => {
                let last = self.threads.entry(sample.tid).or_default();
                (last.flags, last.is_agents) = (0, false);
                last.frames.clear();
                last.frames.push(FrameAddress::Instruction(KERNEL_START).pack());
                return WalkEnd::Root;
            }
            SampledStack::Repeated => return WalkEnd::Truncated,
        };
        let mut end = self.unwinder.walk(registers, stack, frames);
        let is_asleep = matches!(sample.state, SampledState::Asleep(_));
        if self.is_map_stale(is_asleep) && self.read_maps(sample.tid).is_ok() {
            end = self.unwinder.walk(registers, stack, frames);
        }
        self.is_map_used = true;
        leave_out_agent(frames, &self.agent);
        let mut flags = match end {
            WalkEnd::Root => 0,
            WalkEnd::Truncated | WalkEnd::WantsMoreStack | WalkEnd::WantsStackAt(_) => flag::TRUNCATED,
        };
        if self.unwinder.crossed_signal() {
            flags |= flag::SIGNAL_FRAME;
        }
        if sample.state == SampledState::BeforeCall {
            leave_out_call(frames);
        }
        if let (Some(cpython), Some(list)) = (self.interpreter.as_ref().and_then(|it| it.cpython.as_ref()), list) {
            let mut merged = [0; MAX_FRAMES];
            merged[..frames.len()].copy_from_slice(frames);
            let is_whole = end == WalkEnd::Root && !frames.contains(&FRAMES_LEFT_OUT);
            if let Some(depth) =
                merge::merge(&mut merged, frames.len(), is_whole, list, |frame| cpython.loop_offset(frame))
            {
                frames.clear();
                frames.extend_from_slice(&merged[..depth]);
            }
        }
        let last = self.threads.entry(sample.tid).or_default();
        last.flags = flags;
        last.is_agents = frames.is_empty();
        add_kernel_frames(frames, &sample.kernel);
        std::mem::swap(&mut last.frames, frames);
        end
    }

    /// Returns whether the map is to be read again: once a second, or when a stack leads outside of
    /// what is known. The stack of a thread that `is_asleep` is kept, so while the process is young,
    /// it does not wait for that.
    fn is_map_stale(&mut self, is_asleep: bool) -> bool {
        let now_ns = monotonic_ns();
        let age_ns = now_ns.saturating_sub(self.maps_ns);
        let is_young = now_ns.saturating_sub(self.opened_ns) < YOUNG_NS;
        let miss_ns = match is_young {
            true if is_asleep => 0,
            true => YOUNG_MISS_NS,
            false => MISS_NS,
        };
        let is_missed = self.has_mapped || self.unwinder.wants_maps();
        age_ns >= MAPS_NS && self.is_map_used || age_ns >= miss_ns && is_missed
    }

    /// Sends what the thread of a sample waits for, if that is news.
    pub(super) fn send_wait(&mut self, raw: &UnwalkedSample) -> std::io::Result<()> {
        let Some(last) = self.threads.get_mut(&raw.tid) else { return Ok(()) };
        let is_asleep = matches!(raw.state, SampledState::Asleep(_));
        if !matches!(raw.stack, SampledStack::Repeated) {
            last.is_stopped = is_asleep && self.waits.source.is_stopped(raw.tid);
        }
        let (wait, threads) = (&mut last.wait, ProcessWaits::count_threads);
        match (&raw.stack, raw.state) {
            // What goes on after a stop is what was before it.
            _ if last.is_stopped => return Ok(()),
            (SampledStack::Copied(..), SampledState::Asleep(call)) => self.waits.read(wait, raw.tid, call, threads),
            (SampledStack::Copied(..) | SampledStack::Kernel, ..) => self.waits.read(wait, raw.tid, None, threads),
            // The lock may have been handed on.
            (SampledStack::Repeated, ..) => self.waits.read_holder(wait, threads),
        }
        if let Some(news) = wait.unsent() {
            self.connection.write(|w| w.write_wait(news))?;
            wait.set_sent(true);
        }
        Ok(())
    }

    pub(super) fn send_sample(&mut self, raw: &UnwalkedSample) -> std::io::Result<()> {
        if self.threads.get(&raw.tid).is_some_and(|last| last.is_agents) {
            return Ok(());
        }
        let Some(last) = self.threads.get(&raw.tid).filter(|last| !last.frames.is_empty()) else {
            (self.lost.0, self.lost.1) = (self.lost.0 + 1, self.lost.1.saturating_add(raw.weight_ns));
            return Ok(());
        };
        let state = match raw.state {
            SampledState::Runnable => flag::RUNNABLE,
            SampledState::Asleep(_) if last.is_stopped => flag::STOPPED,
            SampledState::Asleep(_) if last.wait.is_known() => flag::WAITS,
            SampledState::Asleep(_) | SampledState::Running | SampledState::BeforeCall => 0,
        };
        let repeat = if matches!(raw.stack, SampledStack::Repeated) { flag::REPEAT } else { 0 };
        let sample = Sample {
            tid: raw.tid,
            clock: raw.clock,
            flags: last.flags | repeat | state,
            generation: self.generation,
            monotonic_ns: raw.monotonic_ns,
            age_ms: 0,
            weight_ns: raw.weight_ns,
            allocation: Allocation::default(),
            slot: (raw.tid as usize % STACK_SLOTS) as u8,
        };
        let is_in_kernel = |frame: u64| is_kernel_address(FrameAddress::unpack(frame).lookup());
        if !self.knows_kernel && last.frames.first().is_some_and(|&frame| is_in_kernel(frame)) {
            self.knows_kernel = true;
            self.announce_kernel(sample.generation)?;
        }
        let Some(last) = self.threads.get(&raw.tid) else { return Ok(()) };
        let Image { connection, memory, functions, interpreter, .. } = self;
        let cpython = interpreter.as_ref().and_then(|found| found.cpython.as_ref());
        let mut named = [0; MAX_FRAMES];
        let frames = functions.name_frames(cpython, &last.frames, &mut named, |function| {
            connection.write(|w| w.write_function(function)).is_ok()
        });
        connection.write(|w| w.write_sample(&sample, frames, memory))?;
        self.sent += 1;
        Ok(())
    }

    /// Announces the module of the kernel's code.
    fn announce_kernel(&mut self, generation: u32) -> std::io::Result<()> {
        let module = Module {
            id: self.next_module,
            generation,
            start: KERNEL_START,
            end: KERNEL_END,
            bias: 0,
            device: 0,
            inode: 0,
            path: KERNEL_PATH,
            // In its place: addresses of the kernel change when it starts.
            build_id: &parse_boot_id(&std::fs::read_to_string(BOOT_ID_FILE).unwrap_or_default())[..],
        };
        self.next_module += 1;
        self.connection.write(|w| w.write_module(&module))
    }

    pub(super) fn send_counters(&mut self, counters: &TracerCounters) -> std::io::Result<()> {
        let (mut lost_ticks, mut lost_ns) = (counters.lost_ticks, counters.lost_ns);
        lost_ticks[LossCause::NotReady as usize] += self.lost.0;
        lost_ns[LossCause::NotReady as usize] += self.lost.1;
        let lost: u64 = lost_ticks.iter().sum();
        let agent = AgentCounters {
            monotonic_ns: monotonic_ns(),
            ticks: self.sent + lost,
            sent: self.sent,
            lost_ticks,
            lost_ns,
            lost_bytes: Default::default(),
            agent_cpu_ns: self.sampler_cpu_ns,
            handler_cpu_ns: counters.stopped_ns,
            process_cpu_ns: counters.process_cpu_ns,
            threads: counters.threads,
            timers: 0,
            foreign_signals: 0,
        };
        self.connection.write(|w| w.write_counters(&agent))?;
        if let Some(found) = &self.interpreter
            && let access = if found.cpython.is_some() { FrameAccess::All } else { FrameAccess::Nobody }
            && let Some(news) = self.functions.news(found.version, access)
        {
            self.connection.write(|w| w.write_interpreter(&news))?;
        }
        Ok(())
    }
}

/// Returns the arguments of a process. One that has just begun to execute a program may not have
/// them yet.
fn arguments(pid: u32) -> Vec<OsString> {
    for _ in 0..ARGUMENT_LOOKS {
        let words = proc::command_line(pid);
        if !words.is_empty() || proc::ProcStat::of(pid).map_or(true, |stat| stat.is_dead()) {
            return words;
        }
        std::thread::sleep(ARGUMENT_PAUSE);
    }
    Vec::new()
}
