//! Addresses to names. [`worker`] opens files on a thread of its own; [`Names`] is what is known so far, and grows as the
//! worker answers. Until then, and outside of any symbol, a frame is called `module+0x12ab`, never by a neighbour's name.
//! [`assembly`] is the code of one function, [`source`] the files it was made from.

pub mod assembly;
pub mod clean;
pub mod demangle;
mod dwarf;
mod elf;
pub mod error;
mod frames;
mod fuel;
pub mod inquiry;
mod lines;
pub mod listing;
mod object;
pub mod offsets;
mod package;
mod plt;
pub mod scenario;
mod scope;
mod simplify;
pub mod source;
mod table;
pub mod worker;

use std::collections::{BTreeMap, HashMap};

use clean::clean;
use worker::SymbolState;

use crate::profile::Profile;
use crate::profile::module::ModuleId;
use crate::profile::process::ProcessId;
use crate::profile::stack::{Frame, FrameId};
use crate::profile::thread::ThreadId;

/// Index of a function in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// A row's worth of identity: functions of one name in one file of one module are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Demangled, with template and generic arguments, free of control characters.
    pub full: String,
    /// Without arguments, template and generic arguments, crate hashes.
    pub short: String,
    /// Source file, as the debug information has it; empty when unknown.
    pub file: String,
    /// Path of the module; empty for code in no file.
    pub module: String,
}

/// One function at one frame. A frame with inlined calls has several, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which function.
    pub function: FunctionId,
    /// Source line; 0 when unknown.
    pub line: u32,
    /// Whether it was inlined into the next.
    pub inlined: bool,
}

/// Names of frames, as far as they are known.
#[derive(Default)]
pub struct Names {
    functions: Vec<Function>,
    ids: HashMap<Function, FunctionId>,
    /// By [`FrameId`].
    lines: Vec<Lines>,
    /// Frames asked for and not yet answered for good.
    pending: usize,
    states: BTreeMap<ModuleId, SymbolState>,
    /// Counts changes, so that answers made from these names can be kept until it moves.
    version: u64,
    /// Frames that are threads, and the renames that their names know of.
    threads: Vec<(FrameId, ThreadId)>,
    renames: u64,
}

struct Lines {
    lines: Box<[Line]>,
    /// Whether the worker has said its last word (or nobody can say any).
    settled: bool,
}

impl Names {
    /// Gives every frame of `profile` that has none yet a provisional name, and returns what to ask the worker.
    pub fn catch_up(&mut self, profile: &Profile) -> Vec<worker::Request> {
        let mut requests: HashMap<ModuleId, worker::Request> = HashMap::new();
        if self.renames != profile.renames() {
            self.renames = profile.renames();
            self.rename(profile);
        }
        for index in self.lines.len()..profile.stacks.frames().len() {
            let id = FrameId(index as u32);
            let (name, module, settled) = match profile.frame(id) {
                Frame::Thread(thread) => {
                    self.threads.push((id, thread));
                    self.settle(id, thread_label(profile, thread));
                    continue;
                }
                Frame::Process(process) => {
                    self.settle(id, process_label(profile, process));
                    continue;
                }
                Frame::Code { module, address } => {
                    let file = profile.modules.file(module);
                    let request = requests.entry(module).or_insert_with(|| worker::Request {
                        module,
                        file: file.clone(),
                        pid: profile.modules.seen_in(module),
                        addresses: Vec::new(),
                    });
                    request.addresses.push((id, address));
                    self.pending += 1;
                    let name = clean(&format!("{}+{address:#x}", file.name()));
                    (name, clean(&file.path.to_string_lossy()), false)
                }
                Frame::Unmapped(address) => (format!("{address:#x}"), String::new(), true),
                Frame::Truncated => ("[truncated]".to_owned(), String::new(), true),
                Frame::LeftOut => ("[frames left out]".to_owned(), String::new(), true),
            };
            let function = self.function_id(Function { full: name.clone(), short: name, file: String::new(), module });
            let lines = [Line { function, line: 0, inlined: false }].into();
            self.lines.push(Lines { lines, settled });
            self.version += 1;
        }
        requests.into_values().collect()
    }

    /// Gives threads their latest names.
    fn rename(&mut self, profile: &Profile) {
        for (frame, thread) in std::mem::take(&mut self.threads) {
            self.settle(frame, thread_label(profile, thread));
            self.threads.push((frame, thread));
        }
    }

    /// Gives a frame, known or the next, a name for good.
    fn settle(&mut self, frame: FrameId, function: Function) {
        let function = self.function_id(function);
        let lines: Box<[Line]> = [Line { function, line: 0, inlined: false }].into();
        match self.lines.get_mut(frame.0 as usize) {
            Some(known) if known.lines == lines => return,
            Some(known) => known.lines = lines,
            None => self.lines.push(Lines { lines, settled: true }),
        }
        self.version += 1;
    }

    /// Takes in an answer of the worker. There may be two for a frame, the second with lines: until the last it counts as
    /// pending. Frames that could not be named keep the name they have.
    pub fn absorb(&mut self, reply: worker::Reply) {
        let is_last = reply.state != SymbolState::Reading;
        for (id, resolved) in reply.frames {
            let Some(entry) = self.lines.get_mut(id.0 as usize) else { continue };
            if is_last && !entry.settled {
                entry.settled = true;
                self.pending -= 1;
                self.version += 1;
            }
            if resolved.is_empty() {
                continue;
            }
            let module = self.function(self.lines[id.0 as usize].lines[0].function).module.clone();
            let lines = resolved.into_iter().map(|line| {
                let worker::ResolvedLine { full, short, file, line, inlined } = line;
                let function = self.function_id(Function { full, short, file, module: module.clone() });
                Line { function, line, inlined }
            });
            let lines: Box<[Line]> = lines.collect();
            let entry = &mut self.lines[id.0 as usize];
            if entry.lines != lines {
                entry.lines = lines;
                self.version += 1;
            }
        }
        // A file whose lines are known has not lost them because more are being read.
        let is_news = is_last || !matches!(self.states.get(&reply.module), Some(state) if state.is_usable());
        if is_news && self.states.get(&reply.module) != Some(&reply.state) {
            self.states.insert(reply.module, reply.state);
            self.version += 1;
        }
    }

    /// What was found of each file that was asked for, by id.
    pub fn states(&self) -> impl Iterator<Item = (ModuleId, &SymbolState)> {
        self.states.iter().map(|(&id, state)| (id, state))
    }

    fn function_id(&mut self, function: Function) -> FunctionId {
        *self.ids.entry(function).or_insert_with_key(|function| {
            self.functions.push(function.clone());
            FunctionId(self.functions.len() as u32 - 1)
        })
    }

    /// The functions at a frame, innermost first; never empty for a frame that [`catch_up`](Self::catch_up) saw.
    pub fn lines(&self, frame: FrameId) -> &[Line] {
        self.lines.get(frame.0 as usize).map_or(&[], |entry| &entry.lines)
    }

    /// The function behind an id.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// Every function, by id.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Frames asked for and not answered for good yet, and all frames.
    pub fn progress(&self) -> (usize, usize) {
        (self.pending, self.lines.len())
    }

    /// Counts changes.
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// A thread as a function, in pprof's form: the file is the label's key.
fn thread_label(profile: &Profile, id: ThreadId) -> Function {
    let thread = profile.thread(id);
    label("thread", &thread.name, thread.tid)
}

/// The same of a process image.
fn process_label(profile: &Profile, id: ProcessId) -> Function {
    let process = profile.process(id);
    label("process", process.name(), process.pid)
}

fn label(key: &str, name: &str, number: u32) -> Function {
    let short = match (clean(name), number) {
        (name, 0) => name,
        (name, number) if name.is_empty() => number.to_string(),
        (name, number) => format!("{name} {number}"),
    };
    Function { full: format!("{key}:{short}"), short, file: key.to_owned(), module: String::new() }
}

#[cfg(test)]
mod tests {
    use super::worker::{Reply, ResolvedLine};
    use super::*;
    use crate::profile::module::ModuleFile;

    /// A profile with two addresses in a file and one in none.
    fn profile(path: &str) -> (Profile, ModuleId) {
        let mut profile = Profile::default();
        let file = ModuleFile { path: path.into(), build_id: Box::default(), device: 1, inode: 2 };
        let module = profile.modules.id(file, 42);
        for frame in
            [Frame::Code { module, address: 0x12ab }, Frame::Code { module, address: 0x40 }, Frame::Unmapped(0x7f)]
        {
            profile.stacks.frame_id(frame);
        }
        (profile, module)
    }

    fn line(name: &str, line: u32, inlined: bool) -> ResolvedLine {
        ResolvedLine { full: format!("{name}(int)"), short: name.to_owned(), file: String::new(), line, inlined }
    }

    fn names_at(names: &Names, frame: u32) -> Vec<&str> {
        names.lines(FrameId(frame)).iter().map(|line| names.function(line.function).short.as_str()).collect()
    }

    #[test]
    fn frames_have_a_provisional_name_at_once() {
        let (profile, module) = profile("/opt/app\x1b[2J");
        let mut names = Names::default();
        let requests = names.catch_up(&profile);
        assert_eq!((requests.len(), requests[0].module, requests[0].pid), (1, module, 42));
        assert_eq!(requests[0].addresses, [(FrameId(0), 0x12ab), (FrameId(1), 0x40)]);
        assert_eq!(names_at(&names, 0), ["app\u{fffd}[2J+0x12ab"]);
        assert_eq!(names_at(&names, 2), ["0x7f"]);
        assert_eq!(names.function(names.lines(FrameId(0))[0].function).module, "/opt/app\u{fffd}[2J");
        assert_eq!(names.progress(), (2, 3));
        assert!(names.catch_up(&profile).is_empty(), "nothing is asked for twice");
    }

    #[test]
    fn two_answers_for_a_frame_count_once() {
        let (profile, module) = profile("/opt/app");
        let mut names = Names::default();
        names.catch_up(&profile);
        let first = vec![(FrameId(0), vec![line("outer", 0, false)]), (FrameId(1), Vec::new())];
        names.absorb(Reply { module, state: SymbolState::Reading, frames: first });
        assert_eq!((names_at(&names, 0), names.progress()), (vec!["outer"], (2, 3)));
        assert_eq!(names.states().collect::<Vec<_>>(), [(module, &SymbolState::Reading)]);

        let version = names.version();
        let second = vec![(FrameId(0), vec![line("inner", 7, true), line("outer", 3, false)])];
        names.absorb(Reply { module, state: SymbolState::Lines, frames: second.clone() });
        assert_eq!((names_at(&names, 0), names.progress()), (vec!["inner", "outer"], (1, 3)));
        assert!(names.version() > version);
        names.absorb(Reply { module, state: SymbolState::Lines, frames: vec![(FrameId(1), Vec::new())] });
        assert_eq!((names_at(&names, 1), names.progress()), (vec!["app+0x40"], (0, 3)));

        let version = names.version();
        names.absorb(Reply { module, state: SymbolState::Lines, frames: second });
        assert_eq!((names.progress(), names.version()), ((0, 3), version), "the same again changes nothing");
        let stranger = vec![(FrameId(99), vec![line("stranger", 1, false)])];
        names.absorb(Reply { module, state: SymbolState::Lines, frames: stranger });
        assert_eq!(names.progress(), (0, 3));
    }

    #[test]
    fn what_is_known_of_a_file_is_not_lost_while_more_is_read() {
        let (_, module) = profile("/opt/app");
        let mut names = Names::default();
        let mut state_after = |state: SymbolState| {
            names.absorb(Reply { module, state, frames: Vec::new() });
            names.states().next().map(|(_, state)| state.clone())
        };
        let missing = SymbolState::Missing("it is gone".to_owned());
        assert_eq!(state_after(missing.clone()), Some(missing));
        assert_eq!(state_after(SymbolState::Reading), Some(SymbolState::Reading));
        assert_eq!(state_after(SymbolState::Lines), Some(SymbolState::Lines));
        assert_eq!(state_after(SymbolState::Reading), Some(SymbolState::Lines));
    }

    #[test]
    fn one_name_in_two_files_is_two_functions() {
        let mut names = Names::default();
        let mut id = |file: &str| {
            let (full, short) = ("f()".to_owned(), "f".to_owned());
            names.function_id(Function { full, short, file: file.to_owned(), module: "app".to_owned() })
        };
        assert!(id("a.c") == id("a.c") && id("a.c") != id("b.c"));
    }
}
