//! The second thread of names. It takes what the symbol tables said, reads debug information, and answers again with lines
//! and inlined calls. It is apart from the first because the debug information of one file can take seconds, and
//! the symbols of the next must not wait for it.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use super::demangle::Name;
use super::dwarf::{self, Lines, MAX_BYTES, Sections};
use super::error::Error;
use super::object;
use super::worker::{Reply, ResolvedLine, SymbolState};
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

/// A name without a line.
pub(super) fn line(name: Name) -> ResolvedLine {
    ResolvedLine { full: name.full, short: name.short, file: String::new(), line: 0, inlined: false }
}

/// Answers jobs until their channel is closed, or nobody wants the answers.
pub(super) fn run(jobs: &Receiver<Job>, replies: &Sender<Reply>) {
    let mut next = jobs.recv().ok();
    while next.is_some() {
        next = fill_shelf(next, jobs, replies);
    }
}

/// Answers jobs until one needs a file for which there is no room; returns that one. What was read is kept till then and
/// goes all at once.
fn fill_shelf(mut next: Option<Job>, jobs: &Receiver<Job>, replies: &Sender<Reply>) -> Option<Job> {
    let shelf = Shelf::default();
    let mut files: HashMap<ModuleId, Option<Lines<'_>>> = HashMap::new();
    while let Some(job) = next {
        let lines = match files.entry(job.module) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => match caught(|| shelf.read(&job)) {
                Some(Err(Full)) => return Some(job),
                read => {
                    let sections = read.and_then(Result::ok).flatten();
                    new.insert(sections.and_then(|sections| caught(|| Lines::new(sections).ok()).flatten()))
                }
            },
        };
        answer(job, lines, replies)?;
        next = jobs.recv().ok();
    }
    None
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
    /// Reads the debug information for a job; none when there is none, or it is of no use.
    fn read(&self, job: &Job) -> Result<Option<&Sections>, Full> {
        let used: u64 = self.places.iter().map_while(OnceCell::get).map(Sections::memory_bytes).sum();
        let place = self.places.iter().find(|place| place.get().is_none()).ok_or(Full)?;
        let Ok(elf) = object::open(&job.file, job.pid) else { return Ok(None) };
        let elf = if dwarf::is_in(&elf) { Some(elf) } else { object::debug_file(&elf, &job.file, job.pid) };
        let Some(elf) = elf else { return Ok(None) };
        let shared = object::shared_debug_file(&elf, job.pid);
        match Sections::read(&elf, shared.as_ref(), MAX_BYTES.saturating_sub(used)) {
            Ok(sections) => Ok(Some(place.get_or_init(|| sections))),
            Err(Error::TooLarge { .. }) if used > 0 => Err(Full),
            Err(_) => Ok(None),
        }
    }
}
