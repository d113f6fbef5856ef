//! Caches disassembled code and source files of the functions that were shown, and decides which to
//! request. The threads of `symbols` read the files.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::profile::Profile;
use crate::profile::module::{ModuleFile, ModuleId};
use crate::symbols::Names;
use crate::symbols::assembly::Code;
use crate::symbols::source::{self, SourceFile};
use crate::symbols::worker::{CodeReply, CodeRequest, SymbolState};
use crate::tally::lines::{AddressWeight, RowLines};

/// Maximum number of copies of a function whose code is shown: out of line, in several modules, or
/// inlined into others.
pub const MAX_COPIES: usize = 8;
/// Maximum number of source files that are read for one function.
const MAX_FILES: usize = 32;
/// Memory limit for code, and for source files, in bytes. What the current function uses is kept.
const KEPT_BYTES: usize = 64 << 20;
/// Maximum number of files and addresses that are remembered as unavailable.
const MAX_REFUSED: usize = 4_096;

/// A source file, or the reason why it is unavailable.
pub type SourceResult = Result<Arc<SourceFile>, String>;

/// The lines and the code of one function, as far as they are available.
#[derive(Clone, Debug, Default)]
pub struct SourceListing {
    /// The weights of its lines and addresses.
    pub lines: RowLines,
    /// The available code, sorted by module and address.
    pub codes: Vec<Arc<Code>>,
    /// Reasons why other code is unavailable, one sentence each.
    pub refused: Vec<String>,
    /// Number of pending requests for code.
    pub waiting: usize,
    /// Weight of samples in copies beyond the first [`MAX_COPIES`], ns.
    pub beyond_ns: u64,
    /// The source files that were read, by their name in the debug information.
    pub sources: Vec<(String, SourceResult)>,
    /// The path of the module with most of the weight, and the state of its symbols.
    pub module: Option<(String, SymbolState)>,
}

impl SourceListing {
    /// The source file of this name, if it was read.
    pub fn source(&self, file: &str) -> Option<&SourceResult> {
        self.sources.iter().find(|(name, _)| name == file).map(|(_, found)| found)
    }
}

/// Code and source files that were read, and requests for more.
#[derive(Default)]
pub(super) struct CodeCache {
    codes: Vec<Arc<Code>>,
    refused: HashMap<(ModuleId, u64), String>,
    sources: HashMap<String, SourceResult>,
    asked: HashSet<(ModuleId, u64)>,
    asked_files: HashSet<String>,
    unasked: VecDeque<CodeRequest>,
    unasked_files: VecDeque<source::SourceRequest>,
    /// The full name of the current function. Its copies and files stay until it changes.
    full: String,
    copies: Vec<(ModuleId, u64)>,
    files: Vec<String>,
}

impl CodeCache {
    /// Returns the lines and the code of a function with these weights, and requests what is
    /// missing.
    pub(super) fn listing(&mut self, profile: &Profile, names: &Names, lines: RowLines) -> SourceListing {
        if self.full != lines.full {
            self.full.clone_from(&lines.full);
            (self.copies, self.files) = (Vec::new(), Vec::new());
            self.make_room();
        }
        let mut listing = SourceListing::default();
        let mut heaviest: Vec<_> = lines.addresses.iter().collect();
        heaviest.sort_by_key(|spot| std::cmp::Reverse((spot.cum_ns, spot.flat_ns)));
        let mut uncovered: Vec<&AddressWeight> = Vec::new();
        for spot in &heaviest {
            let key = (spot.module, spot.address);
            let known = self.codes.iter().find(|code| code.module == key.0 && (code.start..code.end).contains(&key.1));
            match (known, self.refused.get(&key)) {
                (Some(code), _) => {
                    let copy = (code.module, code.start);
                    if !self.copies.contains(&copy) {
                        if self.copies.len() < MAX_COPIES {
                            self.copies.push(copy);
                        } else {
                            listing.beyond_ns = listing.beyond_ns.saturating_add(spot.cum_ns);
                        }
                    }
                }
                (None, Some(why)) => {
                    if !listing.refused.contains(why) && listing.refused.len() < MAX_COPIES {
                        listing.refused.push(why.clone());
                    }
                }
                (None, None) => uncovered.push(spot),
            }
        }
        // One address is requested at a time, because the answer usually covers the others.
        let is_full = self.copies.len() == MAX_COPIES;
        if is_full {
            let rest_ns = uncovered.iter().fold(0, |sum: u64, spot| sum.saturating_add(spot.cum_ns));
            listing.beyond_ns = listing.beyond_ns.saturating_add(rest_ns);
        }
        if let Some(spot) = uncovered.first().filter(|_| !is_full) {
            listing.waiting = 1;
            if self.asked.insert((spot.module, spot.address)) {
                self.unasked.push_back(CodeRequest {
                    module: spot.module,
                    file: profile.modules.file(spot.module).clone(),
                    pid: profile.modules.last_mapped_by(spot.module),
                    address: spot.address,
                });
            }
        }
        listing.codes =
            self.codes.iter().filter(|code| self.copies.contains(&(code.module, code.start))).cloned().collect();
        listing.codes.sort_by_key(|code| (code.module, code.start));
        if let Some(spot) = heaviest.first() {
            let state = names.states().find(|(module, _)| *module == spot.module);
            let path = profile.modules.file(spot.module).path.to_string_lossy().into_owned();
            listing.module = state.map(|(_, state)| (path, state.clone()));
        }
        // A function without addresses is one of an interpreter.
        let interpreting = || profile.processes().iter().rev().find(|process| process.interpreter.is_some());
        let owner = match heaviest.first() {
            Some(spot) => (profile.modules.last_mapped_by(spot.module), Some(profile.modules.file(spot.module))),
            None => (interpreting().map_or(0, |process| process.pid), None),
        };
        self.want_files(&lines, &listing.codes, owner);
        listing.sources = self
            .files
            .iter()
            .filter_map(|file| self.sources.get(file).map(|found| (file.clone(), found.clone())))
            .collect();
        listing.lines = lines;
        listing
    }

    /// Requests source files. `owner` is a process and its file that names them.
    fn want_files(&mut self, lines: &RowLines, codes: &[Arc<Code>], owner: (u32, Option<&ModuleFile>)) {
        let (pid, module) = owner;
        let mut own: Vec<_> = lines.lines.iter().filter(|line| !line.file.is_empty()).collect();
        own.sort_by_key(|line| std::cmp::Reverse(line.cum_ns));
        let places = codes.iter().flat_map(|code| code.places.iter()).filter_map(|place| place.0.first());
        let named = own.iter().map(|line| line.file.as_str()).chain(places.map(|line| &*line.file));
        for file in named.filter(|file| !file.is_empty()) {
            if self.files.len() == MAX_FILES {
                return;
            }
            if self.files.iter().any(|known| known == file) {
                continue;
            }
            self.files.push(file.to_owned());
            if !self.sources.contains_key(file) && self.asked_files.insert(file.to_owned()) {
                let request = source::SourceRequest { file: file.to_owned(), pid, module: module.cloned() };
                self.unasked_files.push_back(request);
            }
        }
    }

    /// Adds code to the cache.
    pub(super) fn take_code(&mut self, reply: CodeReply) {
        self.asked.remove(&(reply.module, reply.address));
        match reply.code {
            Ok(code) => {
                // The same code may come again, with line numbers.
                self.codes.retain(|known| (known.module, known.start) != (code.module, code.start));
                self.codes.push(code);
            }
            Err(why) => {
                if self.refused.len() < MAX_REFUSED {
                    self.refused.insert((reply.module, reply.address), why);
                }
            }
        }
    }

    /// Adds a source file to the cache, or the reason why it is unavailable.
    pub(super) fn take_source(&mut self, reply: source::SourceReply) {
        self.asked_files.remove(&reply.file);
        if reply.source.is_ok() || self.sources.len() < MAX_REFUSED {
            self.sources.insert(reply.file, reply.source);
        }
    }

    /// Sends requests. One that is rejected is sent again next time.
    pub(super) fn ask(
        &mut self,
        mut code: impl FnMut(CodeRequest) -> Result<(), CodeRequest>,
        mut file: impl FnMut(source::SourceRequest) -> Result<(), source::SourceRequest>,
    ) {
        while let Some(request) = self.unasked.pop_front() {
            if let Err(request) = code(request) {
                self.unasked.push_front(request);
                break;
            }
        }
        while let Some(request) = self.unasked_files.pop_front() {
            if let Err(request) = file(request) {
                self.unasked_files.push_front(request);
                break;
            }
        }
    }

    /// Clears code and source files beyond the memory limit.
    fn make_room(&mut self) {
        if self.codes.iter().map(|code| code.memory_bytes()).sum::<usize>() > KEPT_BYTES {
            self.codes.clear();
        }
        let size = |found: &SourceResult| found.as_ref().map_or(0, |source| source.memory_bytes());
        if self.sources.values().map(size).sum::<usize>() > KEPT_BYTES {
            self.sources.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::scenario::{Scenario, scenario};
    use crate::tally::query::Query;
    use crate::tally::tallier::Tallier;

    /// A function that is inlined into `count` others, each with code and samples.
    fn inlined_into(count: usize) -> Scenario {
        let mut text = "process 7 ./a\n".to_owned();
        for host in 0..count {
            text += &format!("code host{host}\n|*host{host}@h.c:{};leaf@leaf.h:3 nop\n", host + 1);
        }
        for host in 0..count {
            let (line, samples) = (host + 1, count - host);
            text += &format!("at 1s prof 10ms main;host{host}@h.c:{line};leaf@leaf.h:3 (inline) x {samples}\n");
        }
        text += "at 1s prof 10ms main;bare";
        scenario(&text).expect("a scenario")
    }

    fn of(played: &Scenario, full: &str) -> RowLines {
        Tallier::default().lines(&played.profile, &played.names, &Query::default(), full)
    }

    /// Answers requests until there are none. Returns the listing and the numbers of requests.
    fn settle(code_cache: &mut CodeCache, played: &Scenario, full: &str) -> (SourceListing, usize, usize) {
        let (mut of_code, mut of_files) = (0, 0);
        loop {
            let listing = code_cache.listing(&played.profile, &played.names, of(played, full));
            let (mut codes, mut files) = (Vec::new(), Vec::new());
            let code = |request: CodeRequest| {
                codes.push(played.script.code(&request));
                Ok(())
            };
            let file = |request: source::SourceRequest| {
                files.push(played.script.source(&request));
                Ok(())
            };
            code_cache.ask(code, file);
            if codes.is_empty() && files.is_empty() {
                return (listing, of_code, of_files);
            }
            of_code += codes.len();
            of_files += files.len();
            codes.into_iter().for_each(|code| code_cache.take_code(code));
            files.into_iter().for_each(|file| code_cache.take_source(file));
        }
    }

    #[test]
    fn the_heaviest_copies_are_shown_and_the_others_counted() {
        let played = inlined_into(MAX_COPIES + 3);
        let mut code_cache = CodeCache::default();
        let (listing, asked, files) = settle(&mut code_cache, &played, "leaf");
        assert_eq!((listing.codes.len(), asked, files), (MAX_COPIES, MAX_COPIES, 1));
        assert!(listing.codes.iter().any(|code| &*code.short == "host0"));
        assert_eq!(listing.beyond_ns, (1 + 2 + 3) * 10_000_000);
        assert!(listing.codes.is_sorted_by_key(|code| code.start) && listing.waiting == 0);
        assert!(matches!(listing.source("leaf.h"), Some(Err(why)) if why.contains("--source-path")));
        // Cached code is not requested again, and stays when its samples have left the window.
        let none = RowLines { full: "leaf".to_owned(), ..RowLines::default() };
        let listing = code_cache.listing(&played.profile, &played.names, none);
        assert_eq!((listing.codes.len(), listing.sources.len()), (MAX_COPIES, 1));
        let (other, asked, _) = settle(&mut code_cache, &played, "host0");
        assert_eq!((other.codes.len(), asked), (1, 0));
    }

    #[test]
    fn what_has_no_code_says_why_once() {
        let played = inlined_into(1);
        let mut code_cache = CodeCache::default();
        let (listing, asked, _) = settle(&mut code_cache, &played, "bare");
        assert_eq!((listing.codes.len(), listing.refused.len(), asked), (0, 1, 1));
        assert!(listing.refused[0].contains("no symbol"), "{:?}", listing.refused);
        assert_eq!(settle(&mut code_cache, &played, "bare").1, 0);
        assert_eq!(listing.module.map(|(path, _)| path).as_deref(), Some("./a"));
    }
}
