//! The thread that opens files and knows their symbols. An answer comes for every request, if only to say that there is no
//! name; where there are line tables, a second one follows from [`lines`](super::lines). Each file is parsed once, as long
//! as there is room for what was found. Hostile files cost time and memory within limits, never the program.
//!
//! Both threads, `symbols` and `lines`, catch the panics of the parsers they call.

use std::collections::HashMap;
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender};

use super::demangle::{Demangler, Name};
use super::dwarf;
use super::error::Error;
use super::fuel::MAX_STACK_BYTES;
use super::lines::{self, Job, caught, line};
use super::object;
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
    // At most every frame of a session is in this queue, once.
    let (jobs, waiting) = crossbeam_channel::unbounded();
    let answers = replies.clone();
    // Nobody waits for this thread: it may be deep in a file of gigabytes when its work is not wanted any more.
    let second = Builder::new().name("lines".to_owned()).stack_size(2 * MAX_STACK_BYTES);
    second.spawn(move || lines::run(&waiting, &answers)).expect("a thread can be started");
    let first = Builder::new().name("symbols".to_owned()).stack_size(MAX_STACK_BYTES);
    first.spawn(move || run(&requests, &jobs, &replies)).expect("a thread can be started")
}

fn run(requests: &Receiver<Request>, jobs: &Sender<Job>, replies: &Sender<Reply>) {
    let mut files = Files::default();
    for request in requests {
        let known = files.find(&request);
        if answer(request, known, jobs, replies).is_none() {
            return;
        }
    }
}

/// Sends all that the symbol table says. None when nobody listens.
fn answer(
    request: Request,
    known: &Result<Symbols, String>,
    jobs: &Sender<Job>,
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
    match jobs.send(Job { module, file, pid, state, frames: later }) {
        Ok(()) => Some(()),
        Err(refused) => replies.send(refused.0.without_lines()).ok(),
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
    /// The symbols of the file that a request is about.
    fn find(&mut self, request: &Request) -> &Result<Symbols, String> {
        self.now += 1;
        let earlier = self.known.remove(&request.module);
        let (known, is_new) = match earlier {
            Some(known) if known.symbols.is_ok() || known.pid == request.pid || known.tries >= MAX_TRIES => {
                (known, false)
            }
            earlier => {
                let symbols = caught(|| Symbols::read(&request.file, request.pid)).unwrap_or_else(|| {
                    Err(Error::Malformed { path: request.file.path.clone(), what: "its tables contradict each other" })
                });
                let symbols = symbols.map_err(|error| error.to_string());
                let tries = earlier.map_or(1, |earlier| earlier.tries + 1);
                (Known { symbols, pid: request.pid, tries, used_at: 0 }, true)
            }
        };
        if is_new {
            self.make_room(known.memory_bytes());
        }
        &self.known.entry(request.module).insert_entry(Known { used_at: self.now, ..known }).into_mut().symbols
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
