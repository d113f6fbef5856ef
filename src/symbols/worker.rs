//! The thread that opens files and knows their symbols. An answer comes for every request, if only to say that there is no
//! name; where there are line tables, a second one follows from [`lines`](super::lines). Each file is parsed once, as long
//! as there is room for what was found. Hostile files cost time and memory within limits, never the program.
//!
//! It also gives the code of a function, first as it lies in the file, then, where there are line tables, with its lines.
//!
//! Both threads, `symbols` and `lines`, catch the panics of the parsers they call.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, SendError, Sender, bounded, never, select, unbounded};

use super::assembly::{self, Code, LineState, Target};
use super::clean::clean;
use super::demangle::{Demangler, Name};
use super::dwarf;
use super::error::Error;
use super::fuel::MAX_STACK_BYTES;
use super::lines::{self, CodeJob, Job, Task, caught, line};
use super::object;
use super::plt::Slots;
use super::table::{self, SymbolTable};
use crate::profile::module::{ModuleFile, ModuleId};
use crate::profile::stack::FrameId;

/// Names wanted for addresses of one file.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which file.
    pub module: ModuleId,
    /// Where it is.
    pub file: ModuleFile,
    /// A process that maps it: the file is looked for as that process sees it, first.
    pub pid: u32,
    /// The file's own addresses.
    pub addresses: Vec<(FrameId, u64)>,
}

/// One function at one address, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedLine {
    /// See [`Function::full`](super::Function::full).
    pub full: String,
    /// See [`Function::short`](super::Function::short).
    pub short: String,
    /// Source file; empty when unknown.
    pub file: String,
    /// Source line; 0 when unknown.
    pub line: u32,
    /// Whether it was inlined into the next.
    pub inlined: bool,
}

/// What was found of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolState {
    /// Symbols so far. There are line tables, and a second answer follows for the same frames.
    Reading,
    /// Symbols and line tables.
    Lines,
    /// Symbols without line tables.
    Symbols,
    /// Nothing but what it exports.
    Exports,
    /// The file could not be used, and why: one sentence.
    Missing(String),
}

impl SymbolState {
    /// Whether it says what a file has to give, for good.
    pub fn is_usable(&self) -> bool {
        matches!(self, SymbolState::Lines | SymbolState::Symbols | SymbolState::Exports)
    }
}

/// The answer to one [`Request`], or a part of it.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Which file.
    pub module: ModuleId,
    /// What was found of it. With anything but [`SymbolState::Reading`] the answer is the last for its frames.
    pub state: SymbolState,
    /// Addresses of the request; an empty vector where there is no symbol. Over all replies each is there, once with a
    /// state that is the last.
    pub frames: Vec<(FrameId, Vec<ResolvedLine>)>,
}

/// Code wanted: that of the function around an address of one file.
#[derive(Clone, Debug)]
pub struct CodeRequest {
    /// Which file.
    pub module: ModuleId,
    /// Where it is.
    pub file: ModuleFile,
    /// A process that maps it.
    pub pid: u32,
    /// The file's own address.
    pub address: u64,
}

/// The answer to one [`CodeRequest`]. With [`LineState::Reading`] a second one follows.
#[derive(Clone, Debug)]
pub struct CodeReply {
    /// Which file.
    pub module: ModuleId,
    /// The address that was asked about.
    pub address: u64,
    /// The code, or why there is none: one sentence.
    pub code: Result<Arc<Code>, String>,
}

/// Addresses in one answer, so that the first names of many do not wait for the last.
const MAX_FRAMES: usize = 1_024;
/// Memory for symbol tables. The one in use may take more; the others then go.
const KEPT_BYTES: u64 = table::MAX_BYTES;
/// Files that are known by name, usable or not.
const MAX_KNOWN: usize = 4_096;
/// How often a file that could not be used is tried again when another process is seen to map it.
const MAX_TRIES: u32 = 8;

/// Starts the worker. It ends when `requests` is closed; second answers that are owed by then still come, and after the
/// last of them `replies` is closed.
pub fn spawn(requests: Receiver<Request>, replies: Sender<Reply>) -> JoinHandle<()> {
    let ((_, nothing), (codes, _)) = (bounded(0), bounded(0));
    spawn_for_code(requests, replies, nothing, codes)
}

/// Starts a worker that gives code too. It ends when both `requests` and `asked` are closed.
pub fn spawn_for_code(
    requests: Receiver<Request>,
    replies: Sender<Reply>,
    asked: Receiver<CodeRequest>,
    codes: Sender<CodeReply>,
) -> JoinHandle<()> {
    // At most every frame of a session is in this queue, once.
    let (tasks, waiting) = unbounded();
    let (answers, more_codes) = (replies.clone(), codes.clone());
    // Nobody waits for this thread: it may be deep in a file of gigabytes when its work is not wanted any more.
    let second = Builder::new().name("lines".to_owned()).stack_size(2 * MAX_STACK_BYTES);
    second.spawn(move || lines::run(&waiting, &answers, &more_codes)).expect("a thread can be started");
    let first = Builder::new().name("symbols".to_owned()).stack_size(MAX_STACK_BYTES);
    first.spawn(move || run(requests, asked, &tasks, (&replies, &codes))).expect("a thread can be started")
}

fn run(
    mut requests: Receiver<Request>,
    mut asked: Receiver<CodeRequest>,
    tasks: &Sender<Task>,
    (replies, codes): (&Sender<Reply>, &Sender<CodeReply>),
) {
    let mut files = Files::default();
    let mut open = 2;
    while open > 0 {
        select! {
            recv(requests) -> request => match request {
                Ok(request) => {
                    let known = files.find(request.module, &request.file, request.pid);
                    if answer(request, known, tasks, replies).is_none() {
                        return;
                    }
                }
                Err(_) => (requests, open) = (never(), open - 1),
            },
            recv(asked) -> request => match request {
                Ok(request) => {
                    let known = files.find(request.module, &request.file, request.pid);
                    // Who does not listen to this may still listen to names.
                    let _ = answer_code(request, known, tasks, codes);
                }
                Err(_) => (asked, open) = (never(), open - 1),
            },
        }
    }
}

/// Sends the code of a function. None when nobody listens.
fn answer_code(
    request: CodeRequest,
    known: &Result<Symbols, String>,
    tasks: &Sender<Task>,
    codes: &Sender<CodeReply>,
) -> Option<()> {
    let code = match known {
        Ok(symbols) => caught(|| symbols.code(&request))
            .unwrap_or(Err(Error::Malformed { path: request.file.path.clone(), what: "its code cannot be read" }))
            .map_err(|error| error.to_string()),
        Err(why) => Err(why.clone()),
    };
    let CodeRequest { module, file, pid, address } = request;
    let code = match code {
        Ok(code) if code.lines == LineState::Reading => {
            let reply = CodeReply { module, address, code: Ok(Arc::new(code.clone())) };
            codes.send(reply).ok()?;
            return tasks.send(Task::Code(CodeJob { code, file, pid, address })).ok();
        }
        other => other.map(Arc::new),
    };
    codes.send(CodeReply { module, address, code }).ok()
}

/// Sends all that the symbol table says. None when nobody listens.
fn answer(
    request: Request,
    known: &Result<Symbols, String>,
    tasks: &Sender<Task>,
    replies: &Sender<Reply>,
) -> Option<()> {
    let Request { module, file, pid, addresses } = request;
    let symbols = match known {
        Ok(symbols) => symbols,
        Err(why) => {
            let frames = addresses.into_iter().map(|(id, _)| (id, Vec::new())).collect();
            return replies.send(Reply { module, state: SymbolState::Missing(why.clone()), frames }).ok();
        }
    };
    let state = if symbols.table.is_full() { SymbolState::Symbols } else { SymbolState::Exports };
    let mut later = Vec::new();
    for addresses in addresses.chunks(MAX_FRAMES) {
        let named = addresses.iter().map(|&(id, address)| (id, address, symbols.name(address)));
        let named: Vec<_> = named.collect();
        let frames = named.iter().map(|(id, _, name)| (*id, name.clone().map(line).into_iter().collect())).collect();
        let state = if symbols.has_lines { SymbolState::Reading } else { state.clone() };
        replies.send(Reply { module, state, frames }).ok()?;
        later.extend(named);
    }
    if !symbols.has_lines {
        return Some(());
    }
    match tasks.send(Task::Names(Job { module, file, pid, state, frames: later })) {
        Err(SendError(Task::Names(job))) => replies.send(job.without_lines()).ok(),
        _ => Some(()),
    }
}

/// What is kept of a file.
struct Symbols {
    table: SymbolTable,
    names: Demangler,
    has_lines: bool,
}

impl Symbols {
    fn name(&self, address: u64) -> Option<Name> {
        self.table.name(address).map(|raw| self.names.name(raw))
    }

    /// The code around an address, without lines.
    fn code(&self, request: &CodeRequest) -> Result<Code, Error> {
        let CodeRequest { module, file, pid, address } = request;
        let unbounded = || Error::Nameless { path: file.path.clone(), address: *address };
        let (start, end, raw) = self.table.function(*address).ok_or_else(unbounded)?;
        // Of a function that is too long, the part around the address.
        let pages = (address - start) / assembly::MAX_BYTES;
        let from = if pages == 0 { start } else { *address };
        let name = self.names.name(raw);
        let elf = object::open(file, *pid)?;
        let bytes = elf.code(from, end.min(from.saturating_add(assembly::MAX_BYTES)))?;
        let slots = Slots::read(&elf);
        let function = |to| {
            let (start, _, raw) = self.table.function(to)?;
            let name = self.names.name(raw).short;
            Some(if start == to { name } else { format!("{name}+{:#x}", to - start) })
        };
        let called = |target| match target {
            Target::Address(to) => function(to),
            Target::Slot(slot) => {
                let slots = slots.as_ref()?;
                let imported = slots.name(slot).map(|raw| self.names.name(raw).short);
                imported.or_else(|| function(slots.address(slot)?))
            }
        };
        let instructions = assembly::disassemble(&bytes, from, called);
        Ok(Code {
            module: *module,
            path: clean(&file.path.to_string_lossy()).into(),
            full: name.full.as_str().into(),
            short: name.short.as_str().into(),
            start: from,
            end,
            instructions,
            places: Box::default(),
            lines: if self.has_lines { LineState::Reading } else { LineState::Absent },
            is_cut: from.saturating_add(bytes.len() as u64) < end,
            modified: elf.modified(),
        })
    }

    fn read(file: &ModuleFile, pid: u32) -> Result<Symbols, Error> {
        let elf = object::open(file, pid)?;
        let is_whole = elf.section(b".symtab").is_some() && dwarf::is_in(&elf);
        let debug = if is_whole { None } else { object::debug_file(&elf, file, pid) };
        let has_lines = dwarf::is_in(&elf) || debug.as_ref().is_some_and(dwarf::is_in);
        let table = SymbolTable::read(&elf, debug.as_ref()).map_err(|error| error.about(&file.path))?;
        Ok(Symbols { table, names: Demangler::default(), has_lines })
    }
}

/// The files known, as far as there is room.
#[derive(Default)]
struct Files {
    known: HashMap<ModuleId, Known>,
    /// Counts requests.
    now: u64,
}

struct Known {
    symbols: Result<Symbols, String>,
    pid: u32,
    tries: u32,
    used_at: u64,
}

impl Files {
    /// The symbols of a file, as process `pid` sees it.
    fn find(&mut self, module: ModuleId, file: &ModuleFile, pid: u32) -> &Result<Symbols, String> {
        self.now += 1;
        let earlier = self.known.remove(&module);
        let (known, is_new) = match earlier {
            Some(known) if known.symbols.is_ok() || known.pid == pid || known.tries >= MAX_TRIES => (known, false),
            earlier => {
                let symbols = caught(|| Symbols::read(file, pid)).unwrap_or_else(|| {
                    Err(Error::Malformed { path: file.path.clone(), what: "its tables contradict each other" })
                });
                let symbols = symbols.map_err(|error| error.to_string());
                let tries = earlier.map_or(1, |earlier| earlier.tries + 1);
                (Known { symbols, pid, tries, used_at: 0 }, true)
            }
        };
        if is_new {
            self.make_room(known.memory_bytes());
        }
        &self.known.entry(module).insert_entry(Known { used_at: self.now, ..known }).into_mut().symbols
    }

    /// Forgets what was not used for longest, until there is room.
    fn make_room(&mut self, bytes: u64) {
        let mut used: u64 = bytes + self.known.values().map(Known::memory_bytes).sum::<u64>();
        while used > KEPT_BYTES || self.known.len() >= MAX_KNOWN {
            let Some((&oldest, _)) = self.known.iter().min_by_key(|(_, known)| known.used_at) else { return };
            used -= self.known.remove(&oldest).map_or(0, |known| known.memory_bytes());
        }
    }
}

impl Known {
    fn memory_bytes(&self) -> u64 {
        self.symbols.as_ref().map_or(0, |symbols| symbols.table.memory_bytes())
    }
}
