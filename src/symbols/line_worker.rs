//! The thread that reads debug information. It gets the names from symbol tables and answers again
//! with source lines and inlined calls. It is a thread of its own because reading the debug
//! information of one file can take seconds, and the symbols of the next file must not wait.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use super::assembly::{Code, LineState, Places};
use super::demangle::Name;
use super::dwarf::{self, DebugSections, DwarfLines, MAX_BYTES};
use super::error::{Error, catch_panic};
use super::messages::{CodeReply, ResolvedLine, SymbolReply, SymbolState};
use super::object;
use crate::profile::module::{ModuleFile, ModuleId};
use crate::profile::stack::FrameId;

/// Time for which answers are collected before they are sent.
const GATHER: Duration = Duration::from_millis(100);
/// Maximum number of files whose debug information is kept.
const MAX_FILES: usize = 256;

/// Addresses of one file that were looked up in the symbol table.
pub(super) struct LineJob {
    pub(super) module: ModuleId,
    pub(super) file: ModuleFile,
    pub(super) pid: u32,
    /// The final state if there are no lines.
    pub(super) state: SymbolState,
    pub(super) frames: Vec<(FrameId, u64, Option<Name>)>,
}

impl LineJob {
    /// Returns the last answer for all frames if there are no lines.
    pub(super) fn without_lines(self) -> SymbolReply {
        let frames = self.frames.into_iter().map(|(id, _, name)| (id, name.map(without_line).into_iter().collect()));
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
    /// Find the lines of addresses.
    Names(LineJob),
    /// Find the lines of instructions.
    Code(CodeJob),
}

impl LineTask {
    /// The file that is needed, its path, and a process that maps it.
    fn file(&self) -> (ModuleId, &ModuleFile, u32) {
        match self {
            LineTask::Names(job) => (job.module, &job.file, job.pid),
            LineTask::Code(job) => (job.code.module, &job.file, job.pid),
        }
    }
}

/// Returns a resolved address that has a name but no line.
pub(super) fn without_line(name: Name) -> ResolvedLine {
    ResolvedLine { full: name.full, short: name.short, file: String::new(), line: 0, inlined: false }
}

/// Performs tasks until their channel is closed or the receiver of answers is gone.
pub(super) fn run(tasks: &Receiver<LineTask>, replies: &Sender<SymbolReply>, codes: &Sender<CodeReply>) {
    let mut next = tasks.recv().ok();
    while next.is_some() {
        next = run_until_full(next, tasks, replies, codes);
    }
}

/// Performs tasks until one needs a file that does not fit, and returns that task. Everything that
/// was read is kept until then and freed together.
fn run_until_full(
    mut next: Option<LineTask>,
    tasks: &Receiver<LineTask>,
    replies: &Sender<SymbolReply>,
    codes: &Sender<CodeReply>,
) -> Option<LineTask> {
    let arena = DebugInfoArena::default();
    let mut files: HashMap<ModuleId, Option<DwarfLines<'_>>> = HashMap::new();
    while let Some(task) = next {
        let (module, file, pid) = task.file();
        let lines = match files.entry(module) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => match catch_panic(|| arena.read(file, pid)) {
                Some(Err(ArenaFull)) => return Some(task),
                read => {
                    let sections = read.and_then(Result::ok).flatten();
                    new.insert(sections.and_then(|sections| catch_panic(|| DwarfLines::new(sections).ok()).flatten()))
                }
            },
        };
        match task {
            LineTask::Names(job) => answer(job, lines, replies)?,
            LineTask::Code(job) => answer_code(job, lines, codes),
        }
        next = tasks.recv().ok();
    }
    None
}

/// Sends code with its lines. Sets `lines` to `None` if reading them fails.
fn answer_code(job: CodeJob, lines: &mut Option<DwarfLines<'_>>, codes: &Sender<CodeReply>) {
    let CodeJob { mut code, address, .. } = job;
    let mut places = Places::default();
    let symbol = Name { full: code.full.to_string(), short: code.short.to_string(), is_mangled: true };
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
/// fails. Returns `None` if the receiver is gone.
fn answer(job: LineJob, lines: &mut Option<DwarfLines<'_>>, replies: &Sender<SymbolReply>) -> Option<()> {
    let LineJob { module, state, frames, .. } = job;
    let state_now = |lines: &Option<DwarfLines<'_>>| if lines.is_some() { SymbolState::Lines } else { state.clone() };
    let mut gathered = Vec::new();
    let mut since = Instant::now();
    for (id, address, name) in frames {
        let found = match lines {
            Some(known) => catch_panic(|| known.at(address, name.as_ref())),
            None => Some(Vec::new()),
        };
        if found.is_none() || lines.as_ref().is_some_and(DwarfLines::is_exhausted) {
            *lines = None;
        }
        let found = found.filter(|found| !found.is_empty());
        gathered.push((id, found.unwrap_or_else(|| name.map(without_line).into_iter().collect())));
        if since.elapsed() >= GATHER {
            since = Instant::now();
            replies
                .send(SymbolReply { module, state: state_now(lines), frames: std::mem::take(&mut gathered) })
                .ok()?;
        }
    }
    replies.send(SymbolReply { module, state: state_now(lines), frames: gathered }).ok()
}

/// Debug information in memory. It does not move, so that parsers can refer to it.
struct DebugInfoArena {
    places: Box<[OnceCell<DebugSections>]>,
}

/// The arena has no room for a file.
struct ArenaFull;

impl Default for DebugInfoArena {
    fn default() -> Self {
        DebugInfoArena { places: (0..MAX_FILES).map(|_| OnceCell::new()).collect() }
    }
}

impl DebugInfoArena {
    /// Reads the debug information of a file. Returns `None` if there is none or it is unusable.
    fn read(&self, file: &ModuleFile, pid: u32) -> Result<Option<&DebugSections>, ArenaFull> {
        let used: u64 = self.places.iter().map_while(OnceCell::get).map(DebugSections::memory_bytes).sum();
        let place = self.places.iter().find(|place| place.get().is_none()).ok_or(ArenaFull)?;
        let Ok(elf) = object::open(file, pid) else { return Ok(None) };
        let elf = if dwarf::is_in(&elf) { Some(elf) } else { object::debug_file(&elf, file, pid) };
        let Some(elf) = elf else { return Ok(None) };
        let shared = object::shared_debug_file(&elf, pid);
        match DebugSections::read(&elf, shared.as_ref(), (&file.path, pid), MAX_BYTES.saturating_sub(used)) {
            Ok(sections) => Ok(Some(place.get_or_init(|| sections))),
            Err(Error::TooLarge { .. }) if used > 0 => Err(ArenaFull),
            Err(_) => Ok(None),
        }
    }
}
