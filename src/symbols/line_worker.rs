//! The thread that reads debug information. It gets the names from symbol tables and answers again
//! with source lines and inlined calls. It is a thread of its own because reading the debug
//! information of one file can take seconds, and the symbols of the next file must not wait.
//!
//! Debug information is kept in memory up to a bound, then all of it is freed, and what is needed
//! is read again. Of a file the units of addresses are read, and the heads of the others. A packed
//! file that is larger than the bound is read nevertheless, alone. Large debug information is also
//! freed while no name is asked for; see [`DebugInfoArena::idle_time`]. What counts is what was
//! read of files, and an estimate of the tables that are built of it; nothing is mapped.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, Sender};

use super::assembly::{Code, LineState, Places};
use super::demangle::Name;
use super::dwarf::{self, DebugSections, DwarfLines, MAX_BYTES};
use super::error::{Error, catch_panic};
use super::messages::{CodeReply, ResolvedLine, SymbolReply, SymbolState};
use super::object;
use super::resolved::KnownSymbol;
use crate::profile::module::{ModuleFile, ModuleId};
use crate::profile::stack::FrameId;

/// Time for which answers are collected before they are sent.
const GATHER: Duration = Duration::from_millis(100);
/// Debug information that is freed while no name is asked for.
const LARGE_BYTES: u64 = 32 << 20;
/// Minimum and maximum time without a task after which it is freed.
const IDLE: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(60);
/// The same as a multiple of the time that reading took, so that reading it again and again takes
/// at most a twentieth of a CPU.
const IDLE_PER_READ: u32 = 20;
/// Maximum number of files whose debug information is kept.
const MAX_FILES: usize = 256;

/// Addresses of one file that were looked up in the symbol table.
pub(super) struct LineJob {
    pub(super) module: ModuleId,
    pub(super) file: ModuleFile,
    pub(super) pid: u32,
    /// The final state if there are no lines.
    pub(super) state: SymbolState,
    pub(super) frames: Vec<(FrameId, u64, Option<KnownSymbol>)>,
}

impl LineJob {
    /// Returns the last answer for all frames if there are no lines.
    pub(super) fn without_lines(self) -> SymbolReply {
        let line =
            |symbol: Option<KnownSymbol>| symbol.map(|symbol| without_line(symbol.label())).into_iter().collect();
        let frames = self.frames.into_iter().map(|(id, _, symbol)| (id, line(symbol)));
        SymbolReply { module: self.module, state: self.state, frames: frames.collect() }
    }
}

/// Code whose source lines are requested.
pub(super) struct CodeJob {
    pub(super) code: Code,
    pub(super) file: ModuleFile,
    pub(super) pid: u32,
    /// The requested address.
    pub(super) address: u64,
}

/// A task of the thread.
pub(super) enum LineTask {
    /// Read the debug information of a file, whose names will be asked for.
    Prepare(ModuleId, ModuleFile, u32),
    /// Find the lines of addresses.
    Names(LineJob),
    /// Find the lines of instructions.
    Code(CodeJob),
}

impl LineTask {
    /// The file that is needed, its path, and a process that maps it.
    fn file(&self) -> (ModuleId, &ModuleFile, u32) {
        match self {
            LineTask::Prepare(module, file, pid) => (*module, file, *pid),
            LineTask::Names(job) => (job.module, &job.file, job.pid),
            LineTask::Code(job) => (job.code.module, &job.file, job.pid),
        }
    }
}

/// Returns a resolved address that has a name but no line.
pub(super) fn without_line(name: Name) -> ResolvedLine {
    ResolvedLine { full: name.full, short: name.short, file: String::new(), line: 0, inlined: false }
}

/// Performs tasks until their channel is closed or the receiver of answers is gone. `memory_bytes`
/// is the bound for debug information.
pub(super) fn run(
    tasks: &Receiver<LineTask>,
    replies: &Sender<SymbolReply>,
    codes: &Sender<CodeReply>,
    memory_bytes: u64,
) {
    let mut next = tasks.recv().ok();
    while let Some(task) = next {
        let arena = DebugInfoArena::new(memory_bytes, LARGE_BYTES, IDLE);
        next = match run_in_arena(&arena, task, tasks, (replies, codes)) {
            ArenaEnd::Full(task) => Some(task),
            ArenaEnd::Idle => {
                drop(arena);
                tasks.recv().ok()
            }
            ArenaEnd::Closed => None,
        };
    }
}

/// The reason why everything that was read is freed.
enum ArenaEnd {
    /// The task needs a file for which there is no room.
    Full(LineTask),
    /// No task came for a while.
    Idle,
    /// No task will come, or nobody waits for answers.
    Closed,
}

/// Performs tasks. Everything that is read is kept until this returns.
fn run_in_arena(
    arena: &DebugInfoArena,
    first: LineTask,
    tasks: &Receiver<LineTask>,
    (replies, codes): (&Sender<SymbolReply>, &Sender<CodeReply>),
) -> ArenaEnd {
    let mut files: HashMap<ModuleId, Option<DwarfLines<'_>>> = HashMap::new();
    let mut task = first;
    loop {
        let (module, file, pid) = task.file();
        let lines = match files.entry(module) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => match catch_panic(|| arena.read(file, pid)) {
                Some(Err(ArenaFull)) => return ArenaEnd::Full(task),
                read => {
                    let sections = read.and_then(Result::ok).flatten();
                    let index = |sections| catch_panic(|| DwarfLines::new(sections).ok()).flatten();
                    let lines = new.insert(arena.measure(|| sections.and_then(index)));
                    arena.index_bytes.set(arena.used_bytes());
                    lines
                }
            },
        };
        match task {
            LineTask::Prepare(..) => {}
            LineTask::Names(job) => match answer(job, lines, || arena.is_full(), replies) {
                Ok(None) => {}
                Ok(Some(rest)) => return ArenaEnd::Full(LineTask::Names(rest)),
                Err(SendError(_)) => return ArenaEnd::Closed,
            },
            LineTask::Code(job) => answer_code(job, lines, codes),
        }
        let next = match arena.idle_time() {
            Some(idle) => tasks.recv_timeout(idle),
            None => tasks.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        task = match next {
            Ok(task) => task,
            Err(RecvTimeoutError::Timeout) => return ArenaEnd::Idle,
            Err(RecvTimeoutError::Disconnected) => return ArenaEnd::Closed,
        };
    }
}

/// Sends code with its lines. Sets `lines` to `None` if reading them fails.
fn answer_code(job: CodeJob, lines: &mut Option<DwarfLines<'_>>, codes: &Sender<CodeReply>) {
    let CodeJob { mut code, address, .. } = job;
    let mut places = Places::default();
    let name = Name { full: code.full.to_string(), short: code.short.to_string(), is_mangled: true };
    let symbol = KnownSymbol { raw: Box::default(), name, others: 0 };
    for instruction in &mut code.instructions {
        let Some(known) = lines else { break };
        let found = catch_panic(|| known.at(instruction.address, Some(&symbol)));
        if found.is_none() || known.is_exhausted() {
            *lines = None;
        }
        instruction.place = found.and_then(|found| places.id(found));
    }
    code.places = places.finish();
    code.lines = if code.places.is_empty() { LineState::Absent } else { LineState::Known };
    // Names may still be wanted if code is not.
    let _ = codes.send(CodeReply { module: code.module, address, code: Ok(Arc::new(code)) });
}

/// Sends the answers to a job, in parts if it takes long. Sets `lines` to `None` if reading them
/// fails. Returns the rest of the job if the memory is full, and an error if the receiver is gone.
fn answer(
    job: LineJob,
    lines: &mut Option<DwarfLines<'_>>,
    is_full: impl Fn() -> bool,
    replies: &Sender<SymbolReply>,
) -> Result<Option<LineJob>, SendError<SymbolReply>> {
    let LineJob { module, file, pid, state, frames } = job;
    let state_now = |lines: &Option<DwarfLines<'_>>| if lines.is_some() { SymbolState::Lines } else { state.clone() };
    let mut gathered = Vec::new();
    let mut since = Instant::now();
    let mut frames = frames.into_iter();
    while let Some((id, address, symbol)) = frames.next() {
        let found = match lines {
            Some(known) => catch_panic(|| known.at(address, symbol.as_ref())),
            None => Some(Vec::new()),
        };
        if found.is_none() || lines.as_ref().is_some_and(DwarfLines::is_exhausted) {
            *lines = None;
        }
        let found = found.filter(|found| !found.is_empty());
        gathered.push((
            id,
            found.unwrap_or_else(|| symbol.map(|symbol| without_line(symbol.label())).into_iter().collect()),
        ));
        let is_full = lines.is_some() && is_full();
        if is_full || since.elapsed() >= GATHER {
            since = Instant::now();
            let frames = std::mem::take(&mut gathered);
            replies.send(SymbolReply { module, state: state_now(lines), frames })?;
        }
        if is_full && frames.len() > 0 {
            return Ok(Some(LineJob { module, file, pid, state, frames: frames.collect() }));
        }
    }
    replies.send(SymbolReply { module, state: state_now(lines), frames: gathered })?;
    Ok(None)
}

/// Debug information in memory. It does not move, so that parsers can refer to it.
struct DebugInfoArena {
    places: Box<[OnceCell<DebugSections>]>,
    memory_bytes: u64,
    large_bytes: u64,
    idle: RangeInclusive<Duration>,
    /// The time that it took to read what is here.
    read_time: Cell<Duration>,
    /// The memory that was used when the last file had been indexed.
    index_bytes: Cell<u64>,
}

/// The arena has no room for a file.
struct ArenaFull;

impl DebugInfoArena {
    fn new(memory_bytes: u64, large_bytes: u64, idle: RangeInclusive<Duration>) -> DebugInfoArena {
        let places = (0..MAX_FILES).map(|_| OnceCell::new()).collect();
        let (read_time, index_bytes) = (Cell::default(), Cell::default());
        DebugInfoArena { places, memory_bytes, large_bytes, idle, read_time, index_bytes }
    }

    /// Whether all should be freed, and what is needed be read again. If the index alone takes
    /// more than the bound, it stays until as much again is used.
    fn is_full(&self) -> bool {
        self.used_bytes() > self.memory_bytes.max(self.index_bytes.get().saturating_mul(2))
    }

    /// The memory that debug information takes.
    fn used_bytes(&self) -> u64 {
        self.places.iter().map_while(OnceCell::get).map(DebugSections::memory_bytes).sum()
    }

    /// The time without a task after which everything is freed; `None` if it is small.
    fn idle_time(&self) -> Option<Duration> {
        let idle = (self.read_time.get() * IDLE_PER_READ).clamp(*self.idle.start(), *self.idle.end());
        (self.used_bytes() >= self.large_bytes).then_some(idle)
    }

    /// Runs a part of reading a file, and adds its time.
    fn measure<T>(&self, read: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = read();
        self.read_time.set(self.read_time.get() + started.elapsed());
        result
    }

    /// Reads the debug information of a file. Returns `None` if there is none or it is unusable.
    fn read(&self, file: &ModuleFile, pid: u32) -> Result<Option<&DebugSections>, ArenaFull> {
        let used = self.used_bytes();
        if used > 0 && used >= self.memory_bytes {
            return Err(ArenaFull);
        }
        let place = self.places.iter().find(|place| place.get().is_none()).ok_or(ArenaFull)?;
        let Ok(elf) = object::open(file, pid) else { return Ok(None) };
        let elf = if dwarf::is_in(&elf) { Some(elf) } else { object::debug_file(&elf, file, pid) };
        let Some(elf) = elf else { return Ok(None) };
        let shared = object::shared_debug_file(&elf, pid);
        // The packed sections of the first file may be larger than the bound.
        let room = if used == 0 { MAX_BYTES } else { self.memory_bytes.min(MAX_BYTES).saturating_sub(used) };
        match self.measure(|| DebugSections::open(&elf, shared.as_ref(), (&file.path, pid), room)) {
            Ok(sections) => Ok(Some(place.get_or_init(|| sections))),
            Err(Error::TooLarge { .. }) if used > 0 => Err(ArenaFull),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crossbeam_channel::unbounded;

    use super::super::built_program::BuiltProgram;
    use super::*;

    /// The names of one address of a program.
    fn task(program: &Path, module: u32) -> LineTask {
        let file = ModuleFile { path: program.to_owned(), build_id: Box::default(), device: 0, inode: 0 };
        let (module, pid, frames) = (ModuleId(module), std::process::id(), vec![(FrameId(0), 0, None)]);
        LineTask::Names(LineJob { module, file, pid, state: SymbolState::Symbols, frames })
    }

    /// Performs tasks for these modules, whose debug information is that of a program, and returns
    /// the reason of the end and the number of answers with lines.
    fn run(
        BuiltProgram(path): &BuiltProgram,
        modules: &[u32],
        arena: &DebugInfoArena,
        is_closed: bool,
    ) -> (ArenaEnd, usize) {
        let (send, tasks) = unbounded();
        let (replies, answers) = unbounded();
        let (codes, _) = unbounded();
        modules[1..].iter().for_each(|&module| send.send(task(path, module)).expect("open"));
        let open = (!is_closed).then_some(send);
        let end = run_in_arena(arena, task(path, modules[0]), &tasks, (&replies, &codes));
        drop(open);
        (end, answers.try_iter().filter(|answer| answer.state == SymbolState::Lines).count())
    }

    #[test]
    fn a_file_beyond_the_bound_is_read_alone() {
        let program = BuiltProgram::build("beyond");
        let arena = |memory_bytes| DebugInfoArena::new(memory_bytes, LARGE_BYTES, IDLE);
        let (end, answers) = run(&program, &[1, 1, 2], &arena(1), true);
        assert!(matches!(end, ArenaEnd::Full(LineTask::Names(job)) if job.module == ModuleId(2)));
        assert_eq!(answers, 2, "the file is larger than the bound");
        let (end, answers) = run(&program, &[1, 1, 2], &arena(MAX_BYTES), true);
        assert!(matches!(end, ArenaEnd::Closed) && answers == 3, "both fit");
    }

    #[test]
    fn large_debug_information_is_freed_while_no_name_is_asked_for() {
        let soon = Duration::from_millis(1);
        let program = BuiltProgram::build("freed");
        let (end, answers) = run(&program, &[1, 1], &DebugInfoArena::new(MAX_BYTES, 1, soon..=soon), false);
        assert!(matches!(end, ArenaEnd::Idle) && answers == 2);
        assert_eq!(DebugInfoArena::new(MAX_BYTES, 1, IDLE).idle_time(), None, "nothing is small");
        let slow = DebugInfoArena::new(MAX_BYTES, 0, IDLE);
        assert_eq!(slow.idle_time(), Some(Duration::from_secs(2)));
        slow.read_time.set(Duration::from_millis(500));
        assert_eq!(slow.idle_time(), Some(Duration::from_secs(10)));
    }
}
