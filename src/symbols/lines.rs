//! The second thread of names. It takes what the symbol tables said, reads debug information, and answers again with lines
//! and inlined calls. It is apart from the first because the debug information of one file can take seconds, and
//! the symbols of the next must not wait for it.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use super::assembly::{Code, LineState, Places};
use super::demangle::Name;
use super::dwarf::{self, Lines, MAX_BYTES, Sections};
use super::error::Error;
use super::object;
use super::worker::{CodeReply, Reply, ResolvedLine, SymbolState};
use crate::profile::module::{ModuleFile, ModuleId};
use crate::profile::stack::FrameId;

/// How long answers are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(100);
/// Files whose debug information is kept.
const MAX_FILES: usize = 256;

/// Addresses of one file that the symbol table has been asked for already.
pub(super) struct Job {
    pub(super) module: ModuleId,
    pub(super) file: ModuleFile,
    pub(super) pid: u32,
    /// What there is without lines.
    pub(super) state: SymbolState,
    pub(super) frames: Vec<(FrameId, u64, Option<Name>)>,
}

impl Job {
    /// The last word on all its frames, when there are no lines to be had.
    pub(super) fn without_lines(self) -> Reply {
        let frames = self.frames.into_iter().map(|(id, _, name)| (id, name.map(line).into_iter().collect()));
        Reply { module: self.module, state: self.state, frames: frames.collect() }
    }
}

/// Code that wants its lines.
pub(super) struct CodeJob {
    pub(super) code: Code,
    pub(super) file: ModuleFile,
    pub(super) pid: u32,
    /// The address that was asked about.
    pub(super) address: u64,
}

/// What is to be done.
pub(super) enum Task {
    /// Lines of addresses.
    Names(Job),
    /// Lines of instructions.
    Code(CodeJob),
}

impl Task {
    /// The file that is needed: which, where, and a process that maps it.
    fn file(&self) -> (ModuleId, &ModuleFile, u32) {
        match self {
            Task::Names(job) => (job.module, &job.file, job.pid),
            Task::Code(job) => (job.code.module, &job.file, job.pid),
        }
    }
}

/// A name without a line.
pub(super) fn line(name: Name) -> ResolvedLine {
    ResolvedLine { full: name.full, short: name.short, file: String::new(), line: 0, inlined: false }
}

/// Does tasks until their channel is closed, or nobody wants the answers.
pub(super) fn run(tasks: &Receiver<Task>, replies: &Sender<Reply>, codes: &Sender<CodeReply>) {
    let mut next = tasks.recv().ok();
    while next.is_some() {
        next = fill_shelf(next, tasks, replies, codes);
    }
}

/// Does tasks until one needs a file for which there is no room; returns that one. What was read is kept till then and
/// goes all at once.
fn fill_shelf(
    mut next: Option<Task>,
    tasks: &Receiver<Task>,
    replies: &Sender<Reply>,
    codes: &Sender<CodeReply>,
) -> Option<Task> {
    let shelf = Shelf::default();
    let mut files: HashMap<ModuleId, Option<Lines<'_>>> = HashMap::new();
    while let Some(task) = next {
        let (module, file, pid) = task.file();
        let lines = match files.entry(module) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => match caught(|| shelf.read(file, pid)) {
                Some(Err(Full)) => return Some(task),
                read => {
                    let sections = read.and_then(Result::ok).flatten();
                    new.insert(sections.and_then(|sections| caught(|| Lines::new(sections).ok()).flatten()))
                }
            },
        };
        match task {
            Task::Names(job) => answer(job, lines, replies)?,
            Task::Code(job) => answer_code(job, lines, codes),
        }
        next = tasks.recv().ok();
    }
    None
}

/// Sends code with its lines. `lines` is gone when they fail.
fn answer_code(job: CodeJob, lines: &mut Option<Lines<'_>>, codes: &Sender<CodeReply>) {
    let CodeJob { mut code, address, .. } = job;
    let mut places = Places::default();
    let symbol = Name { full: code.full.to_string(), short: code.short.to_string(), is_mangled: true };
    for instruction in &mut code.instructions {
        let Some(known) = lines else { break };
        let found = caught(|| known.at(instruction.address, Some(&symbol)));
        if found.is_none() || known.is_exhausted() {
            *lines = None;
        }
        instruction.place = found.and_then(|found| places.id(found));
    }
    code.places = places.finish();
    code.lines = if code.places.is_empty() { LineState::Absent } else { LineState::Known };
    // Who does not listen to this may still listen to names.
    let _ = codes.send(CodeReply { module: code.module, address, code: Ok(Arc::new(code)) });
}

/// Sends everything about a job, in parts when it takes long. `lines` is gone when they fail. None when nobody listens.
fn answer(job: Job, lines: &mut Option<Lines<'_>>, replies: &Sender<Reply>) -> Option<()> {
    let Job { module, state, frames, .. } = job;
    let state_now = |lines: &Option<Lines<'_>>| if lines.is_some() { SymbolState::Lines } else { state.clone() };
    let mut gathered = Vec::new();
    let mut since = Instant::now();
    for (id, address, name) in frames {
        let found = match lines {
            Some(known) => caught(|| known.at(address, name.as_ref())),
            None => Some(Vec::new()),
        };
        if found.is_none() || lines.as_ref().is_some_and(Lines::is_exhausted) {
            *lines = None;
        }
        let found = found.filter(|found| !found.is_empty());
        gathered.push((id, found.unwrap_or_else(|| name.map(line).into_iter().collect())));
        if since.elapsed() >= GATHER {
            since = Instant::now();
            replies.send(Reply { module, state: state_now(lines), frames: std::mem::take(&mut gathered) }).ok()?;
        }
    }
    replies.send(Reply { module, state: state_now(lines), frames: gathered }).ok()
}

/// What `work` gives, unless it panics: parsers meet files that nobody thought of.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Debug information in memory. It stays in its place, so that parsers can point into it.
struct Shelf {
    places: Box<[OnceCell<Sections>]>,
}

/// There is no more room.
struct Full;

impl Default for Shelf {
    fn default() -> Self {
        Shelf { places: (0..MAX_FILES).map(|_| OnceCell::new()).collect() }
    }
}

impl Shelf {
    /// Reads the debug information of a file; none when there is none, or it is of no use.
    fn read(&self, file: &ModuleFile, pid: u32) -> Result<Option<&Sections>, Full> {
        let used: u64 = self.places.iter().map_while(OnceCell::get).map(Sections::memory_bytes).sum();
        let place = self.places.iter().find(|place| place.get().is_none()).ok_or(Full)?;
        let Ok(elf) = object::open(file, pid) else { return Ok(None) };
        let elf = if dwarf::is_in(&elf) { Some(elf) } else { object::debug_file(&elf, file, pid) };
        let Some(elf) = elf else { return Ok(None) };
        let shared = object::shared_debug_file(&elf, pid);
        match Sections::read(&elf, shared.as_ref(), MAX_BYTES.saturating_sub(used)) {
            Ok(sections) => Ok(Some(place.get_or_init(|| sections))),
            Err(Error::TooLarge { .. }) if used > 0 => Err(Full),
            Err(_) => Ok(None),
        }
    }
}
