//! The thread that opens files and reads their symbols. Every request is answered, even if there is
//! no name; if there are line tables, a second answer follows from
//! [`line_worker`](super::line_worker). Each file is parsed once, as long as its symbols fit into
//! the cache. Malicious files cost bounded time and memory.
//!
//! The thread also returns the code of a function: first without source lines and then, if there
//! are line tables, with them.
//!
//! Both threads, `symbols` and `lines`, catch panics of parsers.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::SystemTime;

use crossbeam_channel::{Receiver, SendError, Sender, bounded, never, select, unbounded};

use super::assembly::{self, Code, LineState, Target};
use super::awaited_files::AwaitedFiles;
use super::budget::MAX_STACK_BYTES;
use super::demangle::Demangler;
use super::disassembly;
use super::download::DebuginfodClient;
use super::dwarf;
use super::error::{Error, catch_panic};
use super::kallsyms;
use super::line_worker::{self, CodeJob, LineJob, LineTask, without_line};
pub use super::messages::{CodeReply, CodeRequest, ResolvedLine, SymbolReply, SymbolRequest, SymbolState};
use super::object;
use super::plt::GotSlots;
use super::resolved::KnownSymbol;
use super::sanitize::sanitize;
use super::table::{self, SymbolTable};
use crate::profile::module::{ModuleFile, ModuleId};

/// Maximum number of addresses in one answer, so that the first names do not wait for the last.
const MAX_FRAMES: usize = 1_024;
/// Maximum memory for symbol tables. The one in use may take more; the others are then dropped.
const KEPT_BYTES: u64 = table::MAX_BYTES;
/// Maximum number of cached files, usable or not.
const MAX_KNOWN: usize = 4_096;
/// Maximum number of attempts to use a file, each when another process maps it.
const MAX_TRIES: u32 = 8;

/// Starts the worker. It ends when `requests` is closed. Outstanding second answers are still sent;
/// after the last one `replies` is closed.
///
/// # Errors
/// If the system cannot start a thread.
pub fn spawn(requests: Receiver<SymbolRequest>, replies: Sender<SymbolReply>) -> io::Result<JoinHandle<()>> {
    let ((_, nothing), (codes, _)) = (bounded(0), bounded(0));
    spawn_for_code(requests, replies, nothing, codes, SymbolOptions::default())
}

/// Options of the worker.
#[derive(Clone, Debug)]
pub struct SymbolOptions {
    /// The client that downloads debug files, if the user allows that.
    pub servers: Option<DebuginfodClient>,
    /// The memory for debug information, in bytes. One file may take more while it is read.
    pub memory_bytes: u64,
    /// Whether files are read. If not, every answer is that there is no name.
    pub reads_files: bool,
}

impl Default for SymbolOptions {
    fn default() -> Self {
        SymbolOptions { servers: None, memory_bytes: DEFAULT_MEMORY_BYTES, reads_files: true }
    }
}

/// Memory for debug information by default.
pub const DEFAULT_MEMORY_BYTES: u64 = 300 << 20;

/// Starts a worker that also returns code. It ends when both `requests` and `asked` are closed.
///
/// # Errors
/// If the system cannot start a thread.
pub fn spawn_for_code(
    requests: Receiver<SymbolRequest>,
    replies: Sender<SymbolReply>,
    asked: Receiver<CodeRequest>,
    codes: Sender<CodeReply>,
    options: SymbolOptions,
) -> io::Result<JoinHandle<()>> {
    // The queue is bounded by the number of frames in the session.
    let (tasks, waiting) = unbounded();
    let (answers, more_codes) = (replies.clone(), codes.clone());
    // The thread is not joined: it may be reading a file of gigabytes when its results are no
    // longer needed.
    let memory_bytes = options.memory_bytes;
    let second = Builder::new().name("lines".to_owned()).stack_size(2 * MAX_STACK_BYTES);
    second.spawn(move || line_worker::run(&waiting, &answers, &more_codes, memory_bytes))?;
    let first = Builder::new().name("symbols".to_owned()).stack_size(MAX_STACK_BYTES);
    first.spawn(move || run(requests, asked, &tasks, (&replies, &codes), options))
}

fn run(
    mut requests: Receiver<SymbolRequest>,
    mut asked: Receiver<CodeRequest>,
    tasks: &Sender<LineTask>,
    (replies, codes): (&Sender<SymbolReply>, &Sender<CodeReply>),
    options: SymbolOptions,
) {
    let mut files = SymbolCache { known: HashMap::new(), now: 0, reads_files: options.reads_files };
    let mut awaited = AwaitedFiles::new(options.servers);
    let mut ended = awaited.ended.clone();
    let mut open = 2;
    while open > 0 {
        select! {
            recv(requests) -> request => match request {
                Ok(request) => {
                    let known = files.find(request.module, (&request.file, request.pid, request.recorded_at), tasks);
                    if answer(request, known, &mut awaited, tasks, replies).is_none() {
                        return;
                    }
                }
                Err(_) => {
                    // Who asks for no more names does not wait for a download, either.
                    for request in awaited.give_up() {
                        let known = files.find(request.module, (&request.file, request.pid, request.recorded_at), tasks);
                        if answer(request, known, &mut awaited, tasks, replies).is_none() {
                            return;
                        }
                    }
                    (requests, open) = (never(), open - 1);
                }
            },
            recv(ended) -> module => {
                let Ok(module) = module else {
                    ended = never();
                    continue;
                };
                let waiting = awaited.take(module);
                waiting.first().into_iter().for_each(|request| files.forget(request.module));
                for request in waiting {
                    let known = files.find(request.module, (&request.file, request.pid, request.recorded_at), tasks);
                    if answer(request, known, &mut awaited, tasks, replies).is_none() {
                        return;
                    }
                }
            }
            recv(asked) -> request => match request {
                Ok(request) => {
                    let known = files.find(request.module, (&request.file, request.pid, None), tasks);
                    // Names may still be wanted if code is not.
                    let _ = answer_code(request, known, tasks, codes);
                }
                Err(_) => (asked, open) = (never(), open - 1),
            },
        }
    }
}

/// Sends the code of a function. Returns `None` if the receiver is gone.
fn answer_code(
    request: CodeRequest,
    known: &Result<ModuleSymbols, String>,
    tasks: &Sender<LineTask>,
    codes: &Sender<CodeReply>,
) -> Option<()> {
    let code = match known {
        Ok(symbols) => catch_panic(|| symbols.code(&request))
            .unwrap_or(Err(Error::Malformed { path: request.file.path.clone(), what: "its code cannot be read" }))
            .map_err(|error| error.to_string()),
        Err(why) => Err(why.clone()),
    };
    let CodeRequest { module, file, pid, address } = request;
    let code = match code {
        Ok(code) if code.lines == LineState::Reading => {
            let reply = CodeReply { module, address, code: Ok(Arc::new(code.clone())) };
            codes.send(reply).ok()?;
            return tasks.send(LineTask::Code(CodeJob { code, file, pid, address })).ok();
        }
        other => other.map(Arc::new),
    };
    codes.send(CodeReply { module, address, code }).ok()
}

/// Sends the names from the symbol table, which are provisional while a debug file is downloaded.
/// Returns `None` if the receiver is gone.
fn answer(
    request: SymbolRequest,
    known: &Result<ModuleSymbols, String>,
    awaited: &mut AwaitedFiles,
    tasks: &Sender<LineTask>,
    replies: &Sender<SymbolReply>,
) -> Option<()> {
    let symbols = match known {
        Ok(symbols) => symbols,
        Err(why) => {
            let SymbolRequest { module, addresses, .. } = request;
            let frames = addresses.into_iter().map(|(id, _)| (id, Vec::new())).collect();
            return replies.send(SymbolReply { module, state: SymbolState::Missing(why.clone()), frames }).ok();
        }
    };
    let is_awaited = !symbols.has_lines && awaited.is_awaited(&request, &symbols.build_id);
    let state = if symbols.table.is_full() { SymbolState::Symbols } else { SymbolState::Exports };
    let mut request = request;
    // Neighbors are in the same unit, whose tables are then in the processor's caches.
    request.addresses.sort_unstable_by_key(|&(_, address)| address);
    let module = request.module;
    for addresses in request.addresses.chunks(MAX_FRAMES) {
        let named = addresses.iter().map(|&(id, address)| (id, address, symbols.symbol(address)));
        let named: Vec<_> = named.collect();
        let resolved =
            |symbol: &Option<KnownSymbol>| symbol.iter().map(|symbol| without_line(symbol.label())).collect();
        let frames = named.iter().map(|(id, _, symbol)| (*id, resolved(symbol))).collect();
        let reply_state = if symbols.has_lines || is_awaited { SymbolState::Reading } else { state.clone() };
        replies.send(SymbolReply { module, state: reply_state, frames }).ok()?;
        if symbols.has_lines && !is_awaited {
            // The other thread finds their lines while this one names the next.
            let (file, pid, state) = (request.file.clone(), request.pid, state.clone());
            let sent = tasks.send(LineTask::Names(LineJob { module, file, pid, state, frames: named }));
            if let Err(SendError(LineTask::Names(job))) = sent {
                replies.send(job.without_lines()).ok()?;
            }
        }
    }
    if is_awaited {
        awaited.keep(request);
    }
    Some(())
}

/// The symbols of a file.
struct ModuleSymbols {
    table: SymbolTable,
    names: Demangler,
    has_lines: bool,
    build_id: Box<[u8]>,
}

impl ModuleSymbols {
    fn symbol(&self, address: u64) -> Option<KnownSymbol> {
        let Some(raw) = self.table.name(address) else { return self.variable(address) };
        let name = self.names.name(raw);
        let mut others: Vec<String> = self.table.others(address).map(|raw| self.names.name(raw).full).collect();
        others.retain(|other| *other != name.full);
        others.sort_unstable();
        others.dedup();
        Some(KnownSymbol { name, raw: raw.into(), others: others.len() })
    }

    /// The variable at an address, with the offset in it.
    fn variable(&self, address: u64) -> Option<KnownSymbol> {
        let (raw, offset) = self.table.variable(address)?;
        let mut name = self.names.name(raw);
        if offset > 0 {
            name.full.push_str(&format!("+{offset:#x}"));
            name.short.push_str(&format!("+{offset:#x}"));
        }
        Some(KnownSymbol { name, raw: raw.into(), others: 0 })
    }

    /// Returns the code of the function that contains an address, without lines.
    fn code(&self, request: &CodeRequest) -> Result<Code, Error> {
        let CodeRequest { module, file, pid, address } = request;
        let unbounded = || Error::Nameless { path: file.path.clone(), address: *address };
        let (start, end, raw) = self.table.function(*address).ok_or_else(unbounded)?;
        // If the function is too long, the code starts at the address.
        let pages = (address - start) / assembly::MAX_BYTES;
        let from = if pages == 0 { start } else { *address };
        let name = self.names.name(raw);
        let elf = object::open(file, *pid)?;
        let bytes = elf.code(from, end.min(from.saturating_add(assembly::MAX_BYTES)))?;
        let slots = GotSlots::read(&elf);
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
        let instructions = disassembly::disassemble(elf.machine, &bytes, from, called);
        Ok(Code {
            module: *module,
            path: sanitize(&file.path.to_string_lossy()).into(),
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

    /// Reads the symbols of a file. Once it is known that there are line tables, calls `prepare`.
    fn read(
        file: &ModuleFile,
        (pid, recorded_at): (u32, Option<SystemTime>),
        prepare: impl FnOnce(),
    ) -> Result<ModuleSymbols, Error> {
        if kallsyms::is_kernel(file) {
            let table = kallsyms::read(file)?;
            return Ok(ModuleSymbols {
                table,
                names: Demangler::default(),
                has_lines: false,
                build_id: Box::default(),
            });
        }
        let elf = object::open(file, pid)?;
        let is_newer = elf.modified().zip(recorded_at).is_some_and(|(modified, recorded)| modified > recorded);
        if file.build_id.is_empty() && is_newer {
            return Err(Error::Newer { path: file.path.clone() });
        }
        let is_whole = elf.section(b".symtab").is_some() && dwarf::is_in(&elf);
        let debug = if is_whole { None } else { object::debug_file(&elf, file, pid) };
        let has_lines = dwarf::is_in(&elf) || debug.as_ref().is_some_and(dwarf::is_in);
        if has_lines {
            prepare();
        }
        let debug = object::symbol_file(&elf, debug);
        let table = SymbolTable::read(&elf, debug.as_ref(), &file.name()).map_err(|error| error.about(&file.path))?;
        Ok(ModuleSymbols { table, names: Demangler::default(), has_lines, build_id: elf.build_id() })
    }
}

/// The cached symbols of files.
struct SymbolCache {
    known: HashMap<ModuleId, CachedSymbols>,
    /// Counts requests.
    now: u64,
    reads_files: bool,
}

struct CachedSymbols {
    symbols: Result<ModuleSymbols, String>,
    pid: u32,
    recorded_at: Option<SystemTime>,
    tries: u32,
    used_at: u64,
}

impl SymbolCache {
    /// Returns the symbols of a file as process `pid` sees it, and reads them if necessary. If the
    /// file has no build id, it must not have changed since it was recorded. The thread behind
    /// `tasks` reads line tables meanwhile.
    fn find(
        &mut self,
        module: ModuleId,
        (file, pid, recorded_at): (&ModuleFile, u32, Option<SystemTime>),
        tasks: &Sender<LineTask>,
    ) -> &Result<ModuleSymbols, String> {
        self.now += 1;
        let earlier = self.known.remove(&module);
        let (known, is_new) = match earlier {
            Some(known) if known.symbols.is_ok() || known.pid == pid || known.tries >= MAX_TRIES => (known, false),
            earlier => {
                // Without that thread there are no lines.
                let prepare = || drop(tasks.send(LineTask::Prepare(module, file.clone(), pid)));
                let recorded_at = recorded_at.or(earlier.as_ref().and_then(|earlier| earlier.recorded_at));
                let read = || {
                    catch_panic(|| ModuleSymbols::read(file, (pid, recorded_at), prepare)).unwrap_or_else(|| {
                        Err(Error::Malformed { path: file.path.clone(), what: "its tables contradict each other" })
                    })
                };
                let symbols = match self.reads_files {
                    true => read().map_err(|error| error.to_string()),
                    false => Err("the files of this machine are not read".to_owned()),
                };
                let tries = earlier.map_or(1, |earlier| earlier.tries + 1);
                (CachedSymbols { symbols, pid, recorded_at, tries, used_at: 0 }, true)
            }
        };
        if is_new {
            self.make_room(known.memory_bytes());
        }
        &self.known.entry(module).insert_entry(CachedSymbols { used_at: self.now, ..known }).into_mut().symbols
    }

    /// Has a file read again when it is used next.
    fn forget(&mut self, module: ModuleId) {
        self.known.remove(&module);
    }

    /// Drops the least recently used files until there is room.
    fn make_room(&mut self, bytes: u64) {
        let mut used: u64 = bytes + self.known.values().map(CachedSymbols::memory_bytes).sum::<u64>();
        while used > KEPT_BYTES || self.known.len() >= MAX_KNOWN {
            let Some((&oldest, _)) = self.known.iter().min_by_key(|(_, known)| known.used_at) else { return };
            used -= self.known.remove(&oldest).map_or(0, |known| known.memory_bytes());
        }
    }
}

impl CachedSymbols {
    fn memory_bytes(&self) -> u64 {
        self.symbols.as_ref().map_or(0, |symbols| symbols.table.memory_bytes())
    }
}
