//! The names of all frames of a profile.

use std::collections::{BTreeMap, HashMap};

use super::jit::worker::{GeneratingProcess, JitReply, JitRequest};
use super::kallsyms;
use super::messages::{ResolvedLine, SymbolReply, SymbolRequest, SymbolState};
use super::sanitize::sanitize;
use super::simplify::tidy;
use super::wait_names::{ExplainedWait, WaitNames};
use crate::profile::Profile;
use crate::profile::module::ModuleId;
use crate::profile::process::ProcessId;
use crate::profile::script::ScriptFunctionId;
use crate::profile::stack::{Frame, FrameId};
use crate::profile::thread::ThreadId;

/// The index of a function in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// A function, identified by its name, source file and module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The demangled name with template and generic arguments, without control characters.
    pub full: String,
    /// The name without parameters, template and generic arguments, crate hashes, and parts of the
    /// path that tell nothing.
    pub short: String,
    /// The source file as the debug information names it; empty if unknown.
    pub file: String,
    /// The path of the module; empty for code in no file.
    pub module: String,
}

impl Function {
    /// Whether it has a name, not only a place such as `libc.so.6+0x12ab`.
    pub fn has_name(&self) -> bool {
        let module = self.module.rsplit('/').next().unwrap_or_default();
        let place = self.full.strip_prefix(module).and_then(|rest| rest.strip_prefix("+0x"));
        self.full != UNNAMED_CODE
            && self.full != self.module
            && !place.is_some_and(|place| !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }
}

/// A function at a frame. A frame with inlined calls has several, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLine {
    /// The function.
    pub function: FunctionId,
    /// The source line; 0 if unknown.
    pub line: u32,
    /// Whether it is inlined into the next.
    pub inlined: bool,
}

/// The name of generated code that nothing names.
pub const UNNAMED_CODE: &str = "[JIT]";

/// The name that stands for the module of an interpreter's functions.
pub const INTERPRETED_CODE: &str = "[Python]";

/// The names of frames as far as they are known.
#[derive(Default)]
pub struct Names {
    functions: Vec<Function>,
    ids: HashMap<Function, FunctionId>,
    /// The lines by [`FrameId`].
    lines: Vec<FrameLines>,
    /// The number of requested frames without a last answer.
    pending: usize,
    /// Frames of generated code that [`take_jit_requests`](Self::take_jit_requests) returns next.
    generated: BTreeMap<ProcessId, Vec<(FrameId, u64, u16)>>,
    states: BTreeMap<ModuleId, SymbolState>,
    /// Counts changes. Results derived from names are valid as long as it stays the same.
    version: u64,
    /// The frames of threads, and the count of name changes up to which they are current.
    threads: Vec<(FrameId, ThreadId)>,
    waits: WaitNames,
    /// Waits whose reason a new name may tell.
    unexplained: Vec<FrameId>,
    renames: u64,
}

struct FrameLines {
    lines: Box<[FrameLine]>,
    /// Whether the name is final.
    settled: bool,
}

impl Names {
    /// Gives every new frame of `profile` a provisional name, and returns the requests for the
    /// worker.
    pub fn catch_up(&mut self, profile: &Profile) -> Vec<SymbolRequest> {
        let mut requests: HashMap<ModuleId, SymbolRequest> = HashMap::new();
        if self.renames != profile.name_changes() {
            self.renames = profile.name_changes();
            self.rename(profile);
        }
        self.explain_waits(profile);
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
                Frame::Recording(recording) => {
                    self.settle(id, label("source", &profile.recordings()[recording.0 as usize], 0));
                    continue;
                }
                Frame::Title(title) => {
                    self.settle(id, label("title", profile.titles.get(title), 0));
                    continue;
                }
                Frame::Wait(wait) => {
                    let data = self.waits.add(profile, id, wait);
                    self.rename_wait(profile, id);
                    if let Some((module, address)) = data {
                        request(&mut requests, profile, module).addresses.push((id, address));
                        self.lines[index].settled = false;
                        self.pending += 1;
                    }
                    continue;
                }
                Frame::Code { module, address } => {
                    let file = profile.modules.file(module);
                    request(&mut requests, profile, module).addresses.push((id, address));
                    self.pending += 1;
                    let name = match kallsyms::is_kernel(file) {
                        // A place in it tells nothing.
                        true => file.name(),
                        false => sanitize(&format!("{}+{address:#x}", file.name())),
                    };
                    (name, sanitize(&file.path.to_string_lossy()), false)
                }
                Frame::Unmapped { process, code_version, address } => {
                    self.generated.entry(process).or_default().push((id, address, code_version));
                    (UNNAMED_CODE.to_owned(), String::new(), true)
                }
                Frame::Script { function, line } => {
                    self.settle_line(id, script_function(profile, function), line);
                    continue;
                }
                Frame::Truncated => ("[truncated]".to_owned(), String::new(), true),
                Frame::LeftOut => ("[frames left out]".to_owned(), String::new(), true),
                Frame::MemoryLimit => ("[memory limit]".to_owned(), String::new(), true),
            };
            let function = self.function_id(Function { full: name.clone(), short: name, file: String::new(), module });
            let lines = [FrameLine { function, line: 0, inlined: false }].into();
            self.lines.push(FrameLines { lines, settled });
            self.version += 1;
        }
        requests.into_values().collect()
    }

    /// Returns the requests for new frames of generated code. Until the answer they count as
    /// pending.
    pub fn take_jit_requests(&mut self, profile: &Profile) -> Vec<JitRequest> {
        let requests = std::mem::take(&mut self.generated).into_iter().map(|(process, frames)| {
            for (id, ..) in &frames {
                self.lines[id.0 as usize].settled = false;
            }
            self.pending += frames.len();
            let image = profile.process(process);
            let identity = GeneratingProcess { pid: image.pid, own_pid: image.own_pid, start_ticks: image.start_ticks };
            JitRequest { process, identity, frames, is_last: false }
        });
        requests.collect()
    }

    /// Applies an answer to a request for generated code. A frame may be named in a later one.
    pub fn absorb_generated(&mut self, reply: JitReply) {
        for (id, resolved) in reply.frames {
            self.absorb_frame(id, resolved, true);
        }
    }

    /// Updates the names of threads.
    fn rename(&mut self, profile: &Profile) {
        for (frame, thread) in std::mem::take(&mut self.threads) {
            self.settle(frame, thread_label(profile, thread));
            self.threads.push((frame, thread));
        }
        let waits: Vec<FrameId> = self.waits.frames().collect();
        waits.into_iter().for_each(|frame| self.rename_wait(profile, frame));
    }

    /// Updates the names of waits whose callers have new names.
    pub fn explain_waits(&mut self, profile: &Profile) {
        for frame in std::mem::take(&mut self.unexplained) {
            self.rename_wait(profile, frame);
        }
    }

    /// Updates the name of a wait.
    fn rename_wait(&mut self, profile: &Profile, frame: FrameId) {
        let Names { waits, lines, functions, .. } = self;
        let label = waits.label(profile, frame, |caller| {
            let lines = lines.get(caller.0 as usize).map_or(&[][..], |entry| &entry.lines);
            lines.iter().map(|line| functions[line.function.0 as usize].full.as_str()).collect()
        });
        if let Some(short) = label {
            let (full, file) = (format!("wait:{short}"), "wait".to_owned());
            self.settle(frame, Function { full, short, file, module: String::new() });
        }
    }

    /// The wait that stands for all on a futex at an address in the data of a file.
    pub fn wait_at(&self, module: ModuleId, address: u64) -> Option<FrameId> {
        self.waits.at(module, address)
    }

    /// The wait that a frame stands for.
    pub fn wait<'a>(&'a self, profile: &'a Profile, frame: FrameId) -> Option<ExplainedWait<'a>> {
        self.waits.explain(profile, frame)
    }

    /// Sets the final name of a frame, which may be the next new one.
    fn settle(&mut self, frame: FrameId, function: Function) {
        self.settle_line(frame, function, 0);
    }

    /// Sets the final name of a frame and its line.
    fn settle_line(&mut self, frame: FrameId, function: Function, line: u32) {
        let function = self.function_id(function);
        let lines: Box<[FrameLine]> = [FrameLine { function, line, inlined: false }].into();
        match self.lines.get_mut(frame.0 as usize) {
            Some(known) if known.lines == lines => return,
            Some(known) => known.lines = lines,
            None => self.lines.push(FrameLines { lines, settled: true }),
        }
        self.version += 1;
    }

    /// Applies an answer of the worker. There may be two for a frame, the second with lines; until
    /// the last one it counts as pending. One without lines that comes after that changes
    /// nothing. A frame without a symbol keeps its provisional name.
    pub fn absorb(&mut self, reply: SymbolReply) {
        let is_last = reply.state != SymbolState::Reading;
        for (id, resolved) in reply.frames {
            self.absorb_frame(id, resolved, is_last);
        }
        // The state of a file with lines does not change while more lines are read.
        let is_news = is_last || !matches!(self.states.get(&reply.module), Some(state) if state.is_usable());
        if is_news && self.states.get(&reply.module) != Some(&reply.state) {
            self.states.insert(reply.module, reply.state);
            self.version += 1;
        }
    }

    fn absorb_frame(&mut self, id: FrameId, resolved: Vec<ResolvedLine>, is_last: bool) {
        let Some(entry) = self.lines.get_mut(id.0 as usize) else { return };
        if is_last && !entry.settled {
            entry.settled = true;
            self.pending -= 1;
            self.version += 1;
        }
        if resolved.is_empty() || !is_last && entry.settled {
            return;
        }
        if self.waits.contains(id) {
            // What has been resolved is the variable that has the futex.
            self.unexplained.extend(self.waits.name_variable(id, &tidy(&resolved[0].short)));
            return;
        }
        let module = self.function(self.lines[id.0 as usize].lines[0].function).module.clone();
        let lines = resolved.into_iter().map(|line| {
            let ResolvedLine { full, short, file, line, inlined } = line;
            // Names of generated code are as their compiler wrote them.
            let short = if module.is_empty() { short } else { tidy(&short) };
            let function = self.function_id(Function { full, short, file, module: module.clone() });
            FrameLine { function, line, inlined }
        });
        let lines: Box<[FrameLine]> = lines.collect();
        let entry = &mut self.lines[id.0 as usize];
        if entry.lines != lines {
            entry.lines = lines;
            self.version += 1;
            self.unexplained.extend(self.waits.called_by(id));
        }
    }

    /// The state of each requested file, by id.
    pub fn states(&self) -> impl Iterator<Item = (ModuleId, &SymbolState)> {
        self.states.iter().map(|(&id, state)| (id, state))
    }

    fn function_id(&mut self, function: Function) -> FunctionId {
        *self.ids.entry(function).or_insert_with_key(|function| {
            self.functions.push(function.clone());
            FunctionId(self.functions.len() as u32 - 1)
        })
    }

    /// The functions at a frame, innermost first; never empty for a frame that
    /// [`catch_up`](Self::catch_up) saw.
    pub fn lines(&self, frame: FrameId) -> &[FrameLine] {
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

    /// The number of pending frames, and of all frames.
    pub fn progress(&self) -> (usize, usize) {
        (self.pending, self.lines.len())
    }

    /// Counts changes.
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// The request for symbols of a module, among those of others.
fn request<'a>(
    requests: &'a mut HashMap<ModuleId, SymbolRequest>,
    profile: &Profile,
    module: ModuleId,
) -> &'a mut SymbolRequest {
    requests.entry(module).or_insert_with(|| SymbolRequest {
        module,
        file: profile.modules.file(module).clone(),
        pid: profile.modules.last_mapped_by(module),
        addresses: Vec::new(),
        recorded_at: None,
    })
}

/// A function of an interpreter. Its line tells apart functions of one name, such as `<lambda>`.
fn script_function(profile: &Profile, id: ScriptFunctionId) -> Function {
    let script = profile.scripts.function(id);
    let (name, file) = (sanitize(&script.name), sanitize(&script.file));
    if file.is_empty() {
        return Function { full: name.clone(), short: name, file, module: INTERPRETED_CODE.to_owned() };
    }
    let short_file = file.rsplit('/').next().unwrap_or_default();
    let short = format!("{name} ({short_file}:{})", script.first_line);
    let full = format!("{name} ({file}:{})", script.first_line);
    Function { full, short, file, module: INTERPRETED_CODE.to_owned() }
}

/// A thread as a function, as pprof does it: the file is the key of the label.
fn thread_label(profile: &Profile, id: ThreadId) -> Function {
    let thread = profile.thread(id);
    label("thread", &thread.name, thread.tid)
}

/// A process image as a function.
fn process_label(profile: &Profile, id: ProcessId) -> Function {
    let process = profile.process(id);
    label("process", process.name(), process.pid)
}

fn label(key: &str, name: &str, number: u32) -> Function {
    let short = match (sanitize(name), number) {
        (name, 0) => name,
        (name, number) if name.is_empty() => number.to_string(),
        (name, number) => format!("{name} {number}"),
    };
    Function { full: format!("{key}:{short}"), short, file: key.to_owned(), module: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::module::ModuleFile;

    /// A profile with two addresses in a file and one in none.
    fn profile(path: &str) -> (Profile, ModuleId) {
        let mut profile = Profile::default();
        let file = ModuleFile { path: path.into(), build_id: Box::default(), device: 1, inode: 2 };
        let module = profile.modules.id(file, 42);
        for frame in [
            Frame::Code { module, address: 0x12ab },
            Frame::Code { module, address: 0x40 },
            Frame::Unmapped { process: ProcessId(0), code_version: 0, address: 0x7f },
        ] {
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
    fn new_frames_have_a_provisional_name() {
        let (profile, module) = profile("/opt/app\x1b[2J");
        let mut names = Names::default();
        let requests = names.catch_up(&profile);
        assert_eq!((requests.len(), requests[0].module, requests[0].pid), (1, module, 42));
        assert_eq!(requests[0].addresses, [(FrameId(0), 0x12ab), (FrameId(1), 0x40)]);
        assert_eq!(names_at(&names, 0), ["app\u{fffd}[2J+0x12ab"]);
        assert_eq!(names_at(&names, 2), ["[JIT]"]);
        assert_eq!(names.function(names.lines(FrameId(0))[0].function).module, "/opt/app\u{fffd}[2J");
        assert_eq!(names.progress(), (2, 3));
        assert!(names.catch_up(&profile).is_empty(), "no frame is requested twice");
    }

    #[test]
    fn a_frame_is_pending_until_its_last_answer() {
        let (profile, module) = profile("/opt/app");
        let mut names = Names::default();
        names.catch_up(&profile);
        let first = vec![(FrameId(0), vec![line("outer", 0, false)]), (FrameId(1), Vec::new())];
        names.absorb(SymbolReply { module, state: SymbolState::Reading, frames: first });
        assert_eq!((names_at(&names, 0), names.progress()), (vec!["outer"], (2, 3)));
        assert_eq!(names.states().collect::<Vec<_>>(), [(module, &SymbolState::Reading)]);

        let version = names.version();
        let second = vec![(FrameId(0), vec![line("inner", 7, true), line("outer", 3, false)])];
        names.absorb(SymbolReply { module, state: SymbolState::Lines, frames: second.clone() });
        assert_eq!((names_at(&names, 0), names.progress()), (vec!["inner", "outer"], (1, 3)));
        assert!(names.version() > version);
        names.absorb(SymbolReply { module, state: SymbolState::Lines, frames: vec![(FrameId(1), Vec::new())] });
        assert_eq!((names_at(&names, 1), names.progress()), (vec!["app+0x40"], (0, 3)));

        // Regression test: names changed from run to run, as such an answer came last in some.
        let version = names.version();
        let late = vec![(FrameId(0), vec![line("outer", 0, false)])];
        names.absorb(SymbolReply { module, state: SymbolState::Reading, frames: late });
        assert_eq!((names_at(&names, 0), names.version()), (vec!["inner", "outer"], version));
        names.absorb(SymbolReply { module, state: SymbolState::Lines, frames: second });
        assert_eq!((names.progress(), names.version()), ((0, 3), version), "a repeated answer changes nothing");
        let stranger = vec![(FrameId(99), vec![line("stranger", 1, false)])];
        names.absorb(SymbolReply { module, state: SymbolState::Lines, frames: stranger });
        assert_eq!(names.progress(), (0, 3));
    }

    #[test]
    fn a_file_with_lines_keeps_its_state_while_more_is_read() {
        let (_, module) = profile("/opt/app");
        let mut names = Names::default();
        let mut state_after = |state: SymbolState| {
            names.absorb(SymbolReply { module, state, frames: Vec::new() });
            names.states().next().map(|(_, state)| state.clone())
        };
        let missing = SymbolState::Missing("it is gone".to_owned());
        assert_eq!(state_after(missing.clone()), Some(missing));
        assert_eq!(state_after(SymbolState::Reading), Some(SymbolState::Reading));
        assert_eq!(state_after(SymbolState::Lines), Some(SymbolState::Lines));
        assert_eq!(state_after(SymbolState::Reading), Some(SymbolState::Lines));
    }

    #[test]
    fn equal_names_in_two_files_are_two_functions() {
        let mut names = Names::default();
        let mut id = |file: &str| {
            let (full, short) = ("f()".to_owned(), "f".to_owned());
            names.function_id(Function { full, short, file: file.to_owned(), module: "app".to_owned() })
        };
        assert!(id("a.c") == id("a.c") && id("a.c") != id("b.c"));
    }
}
