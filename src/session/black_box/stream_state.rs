//! The state that the messages up to a moment have left: the processes that are connected, with
//! their modules, threads and counters. Written as messages, it is the start of a recording that
//! begins at that moment.

use std::collections::{BTreeMap, HashMap};

use crate::link::recording::{Encoder, FileSymbols, RecordingEntry, SymbolStatus};
use crate::profile::process::ProcessId;
use crate::session::generated_code::{generated_code, generated_file};
use crate::wire::interpreter::{Interpreter, InterpreterFunction};
use crate::wire::{
    AgentCounters, Arrival, ConnectionEvent, DeepestStack, Engaged, Hello, LossCause, Message, Module, SourceId,
    StackFrame, Thread, Unload, Wait,
};

/// Maximum number of functions of an interpreter that are known of one process. The frames of
/// further ones are native frames.
const MAX_FUNCTIONS: usize = 1 << 17;
/// Maximum number of addresses whose generated code was replaced.
const MAX_REPLACED: usize = 1 << 19;
/// Maximum number of modules of one process that are no longer mapped. A late sample may refer to
/// the last ones.
const MAX_UNLOADED: usize = 64;

/// The state that messages have left.
#[derive(Clone, Default)]
pub(super) struct StreamState {
    sources: BTreeMap<SourceId, ConnectionRecord>,
    /// Number of processes that have introduced themselves: the index of the next one.
    processes: u32,
    /// The versions of generated code by process and address, where it was replaced.
    replaced: HashMap<(u32, u64), u16>,
    /// Number of processes in the recording that is written.
    written_processes: u32,
    /// The index of each process in the recording that is written.
    written: HashMap<u32, u32>,
    /// CPU time of the target, ns.
    pub(super) cpu_used_ns: u64,
    /// CPU time that was not sampled or counted, ns.
    pub(super) uncounted_ns: u64,
    /// CPU time that was reported as not sampled, ns.
    pub(super) unsampled_ns: u64,
}

/// The state of one connection.
#[derive(Clone)]
struct ConnectionRecord {
    pid: u32,
    /// The index of the process.
    process: u32,
    /// Its first message, and the time of arrival, ns.
    hello: (u64, Hello<Box<[u8]>>),
    modules: BTreeMap<u32, Module<Box<[u8]>>>,
    unloaded: Vec<(Module<Box<[u8]>>, Unload)>,
    threads: BTreeMap<u32, Thread<Box<[u8]>>>,
    waits: BTreeMap<u32, Wait<Box<[u8]>>>,
    deepest: BTreeMap<u32, DeepestStack<Box<[StackFrame]>>>,
    functions: BTreeMap<u32, InterpreterFunction<Box<[u8]>>>,
    /// The last counters, and the time of arrival, ns.
    counters: Option<(u64, AgentCounters)>,
    engaged: Option<Engaged>,
    interpreter: Option<Interpreter>,
}

impl ConnectionRecord {
    fn new(pid: u32, process: u32, hello: (u64, Hello<Box<[u8]>>)) -> ConnectionRecord {
        ConnectionRecord {
            pid,
            process,
            hello,
            modules: BTreeMap::new(),
            unloaded: Vec::new(),
            threads: BTreeMap::new(),
            waits: BTreeMap::new(),
            deepest: BTreeMap::new(),
            functions: BTreeMap::new(),
            counters: None,
            engaged: None,
            interpreter: None,
        }
    }

    fn apply(&mut self, at_ns: u64, message: Message) {
        match message {
            Message::Module(module) => drop(self.modules.insert(module.id, module)),
            Message::Unload(unload) => {
                if let Some(module) = self.modules.remove(&unload.id) {
                    self.unloaded.push((module, unload));
                    let excess = self.unloaded.len().saturating_sub(MAX_UNLOADED);
                    self.unloaded.drain(..excess);
                }
            }
            Message::Thread(thread) => drop(self.threads.insert(thread.tid, thread)),
            Message::ThreadEnd { tid } => {
                self.threads.remove(&tid);
                self.waits.remove(&tid);
                self.deepest.remove(&tid);
            }
            Message::Wait(wait) => drop(self.waits.insert(wait.tid, wait)),
            Message::DeepestStack(stack) => drop(self.deepest.insert(stack.tid, stack)),
            Message::Function(function) if self.functions.len() < MAX_FUNCTIONS => {
                self.functions.insert(function.id, function);
            }
            Message::Counters(counters) => self.counters = Some((at_ns, counters)),
            Message::Engaged(engaged) => self.engaged = Some(engaged),
            Message::Interpreter(interpreter) => self.interpreter = Some(interpreter),
            // The others leave no state.
            _ => {}
        }
    }

    /// The messages that leave this state. `since_ns` is the time of their arrival.
    fn messages(&self, since_ns: u64) -> Vec<Message> {
        // The clock of the target has gone on as that of the viewer has.
        let later = |(at_ns, monotonic_ns): (u64, u64)| monotonic_ns.saturating_add(since_ns.saturating_sub(at_ns));
        let (at_ns, hello) = self.hello.clone();
        let mut messages = vec![Message::Hello(Hello { monotonic_ns: later((at_ns, hello.monotonic_ns)), ..hello })];
        messages.extend(self.interpreter.map(|interpreter| Message::Interpreter(without_counts(interpreter))));
        messages.extend(self.functions.values().cloned().map(Message::Function));
        for (module, unload) in &self.unloaded {
            messages.extend([Message::Module(module.clone()), Message::Unload(unload.clone())]);
        }
        messages.extend(self.modules.values().cloned().map(Message::Module));
        messages.extend(self.threads.values().cloned().map(Message::Thread));
        messages.extend(self.engaged.clone().map(Message::Engaged));
        messages.extend(self.waits.values().cloned().map(Message::Wait));
        messages.extend(self.deepest.values().cloned().map(Message::DeepestStack));
        messages.extend(self.counters.as_ref().map(|(at_ns, counters)| {
            let monotonic_ns = later((*at_ns, counters.monotonic_ns));
            let AgentCounters { threads, timers, .. } = *counters;
            Message::Counters(AgentCounters { monotonic_ns, threads, timers, ..AgentCounters::default() })
        }));
        messages
    }
}

/// An interpreter of whose frames none are counted yet.
fn without_counts(interpreter: Interpreter) -> Interpreter {
    Interpreter { merged: 0, unnamed: 0, unmerged: 0, ..interpreter }
}

impl StreamState {
    /// Number of connections, and of all that is known of them.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        let of = |state: &ConnectionRecord| state.modules.len() + state.unloaded.len() + state.threads.len();
        (self.sources.len(), self.sources.values().map(of).sum::<usize>() + self.replaced.len())
    }

    /// Applies an entry.
    pub(super) fn apply(&mut self, entry: &RecordingEntry<'_>) {
        match entry {
            RecordingEntry::Event(arrival) => self.apply_event(arrival),
            RecordingEntry::Cpu(reading) => self.cpu_used_ns = reading.used_ns,
            RecordingEntry::Unsampled(reading) => {
                (self.uncounted_ns, self.unsampled_ns) = (reading.uncounted_ns, reading.ns);
            }
            RecordingEntry::Symbols(symbols) => {
                let Some((process, version)) = generated_code(&symbols.file) else { return };
                for (address, _) in &symbols.addresses {
                    if self.replaced.len() < MAX_REPLACED || self.replaced.contains_key(&(process.0, *address)) {
                        self.replaced.insert((process.0, *address), version);
                    }
                }
            }
            RecordingEntry::Sample(_)
            | RecordingEntry::Info(_)
            | RecordingEntry::Exited { .. }
            | RecordingEntry::Time(_)
            | RecordingEntry::Merged { .. }
            | RecordingEntry::End => {}
        }
    }

    fn apply_event(&mut self, arrival: &Arrival) {
        let Arrival { source, pid, at_ns, event } = arrival;
        match event {
            ConnectionEvent::Received(Message::Hello(hello)) => {
                let process = self.processes;
                self.processes += 1;
                self.sources.insert(*source, ConnectionRecord::new(*pid, process, (*at_ns, hello.clone())));
            }
            ConnectionEvent::Received(message) => {
                if let Some(state) = self.sources.get_mut(source) {
                    state.apply(*at_ns, message.clone());
                }
            }
            ConnectionEvent::Closed | ConnectionEvent::Aborted(_) => {
                if let Some(state) = self.sources.remove(source) {
                    self.replaced.retain(|(process, _), _| *process != state.process);
                }
            }
        }
    }

    /// Writes messages that leave this state, as if they arrived at `since_ns`.
    pub(super) fn write(&mut self, since_ns: u64, encoder: &mut Encoder) {
        let mut sources: Vec<(SourceId, &ConnectionRecord)> =
            self.sources.iter().map(|(id, state)| (*id, state)).collect();
        sources.sort_by_key(|(_, state)| state.process);
        for (source, state) in sources {
            self.written.insert(state.process, self.written_processes);
            self.written_processes += 1;
            for message in state.messages(since_ns) {
                let event = ConnectionEvent::Received(message);
                encoder.write_event(&Arrival { source, pid: state.pid, at_ns: since_ns, event });
            }
        }
        for ((process, address), version) in &self.replaced {
            let Some(&written) = self.written.get(process) else { continue };
            let file = generated_file(ProcessId(written), *version);
            let addresses = vec![(*address, Vec::new())];
            encoder.write_symbols(&FileSymbols { file, status: SymbolStatus::Reading, addresses });
        }
    }

    /// Gives a process that introduces itself in the written recording its number there. Its
    /// counters count from 0.
    pub(super) fn number_process(&mut self, source: SourceId) {
        self.sources.remove(&source);
        self.written.insert(self.processes, self.written_processes);
        self.processes += 1;
        self.written_processes += 1;
    }

    /// Makes counters count from the start of the written recording.
    pub(super) fn subtract_base(&self, source: SourceId, message: &mut Message) {
        let Some(base) = self.sources.get(&source) else { return };
        match (message, &base.counters, &base.interpreter) {
            (Message::Counters(counters), Some((_, base)), _) => subtract_counters(counters, base),
            (Message::Interpreter(interpreter), _, Some(base)) => {
                subtract(&mut interpreter.merged, base.merged);
                subtract(&mut interpreter.unnamed, base.unnamed);
                subtract(&mut interpreter.unmerged, base.unmerged);
            }
            _ => {}
        }
    }

    /// Names of generated code refer to a process by its index, which is another one in the written
    /// recording. Returns `None` if the process is not in it.
    pub(super) fn translate(&self, symbols: FileSymbols) -> Option<FileSymbols> {
        let Some((process, version)) = generated_code(&symbols.file) else { return Some(symbols) };
        let written = *self.written.get(&process.0)?;
        Some(FileSymbols { file: generated_file(ProcessId(written), version), ..symbols })
    }
}

fn subtract(value: &mut u64, base: u64) {
    *value = value.saturating_sub(base);
}

/// Subtracts what is cumulative. The numbers of threads and timers are not.
fn subtract_counters(counters: &mut AgentCounters, base: &AgentCounters) {
    for cause in LossCause::ALL.map(|cause| cause as usize) {
        subtract(&mut counters.lost_ticks[cause], base.lost_ticks[cause]);
        subtract(&mut counters.lost_ns[cause], base.lost_ns[cause]);
        subtract(&mut counters.lost_bytes[cause], base.lost_bytes[cause]);
    }
    subtract(&mut counters.ticks, base.ticks);
    subtract(&mut counters.sent, base.sent);
    subtract(&mut counters.agent_cpu_ns, base.agent_cpu_ns);
    subtract(&mut counters.handler_cpu_ns, base.handler_cpu_ns);
    subtract(&mut counters.process_cpu_ns, base.process_cpu_ns);
    subtract(&mut counters.foreign_signals, base.foreign_signals);
}
