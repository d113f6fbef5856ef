//! The code and the source files of the function that is looked at: what to ask for, and what has come. It asks no files
//! itself; those who do are `symbols`' threads.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::profile::Profile;
use crate::profile::module::ModuleId;
use crate::symbols::Names;
use crate::symbols::assembly::Code;
use crate::symbols::source::{self, Source};
use crate::symbols::worker::{CodeReply, CodeRequest, SymbolState};
use crate::tally::lines::{AddressWeight, Lines};

/// Copies of a function (of its own, in several modules, inlined into others) whose code is shown.
pub const MAX_COPIES: usize = 8;
/// Source files of one function that are read.
const MAX_FILES: usize = 32;
/// Memory for code, and for source files. What is in use stays.
const KEPT_BYTES: usize = 64 << 20;
/// Files and addresses of which nothing is to be had that are remembered.
const MAX_REFUSED: usize = 4_096;

/// A source file, or why there is none.
pub type Found = Result<Arc<Source>, String>;

/// What is known of one function's lines and code.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Its weights.
    pub lines: Lines,
    /// Its code, as far as it has come, by module and address.
    pub codes: Vec<Arc<Code>>,
    /// Why other code is not there: sentences.
    pub refused: Vec<String>,
    /// Parts of it that have been asked for and have not come.
    pub waiting: usize,
    /// Weight of samples in copies beyond the first [`MAX_COPIES`], ns.
    pub beyond_ns: u64,
    /// Its source files, as far as they have come, by name as the debug information has it.
    pub sources: Vec<(String, Found)>,
    /// The file with most of its weight, and what was found of it.
    pub module: Option<(String, SymbolState)>,
}

impl Listing {
    /// The source file of this name, if it has come.
    pub fn source(&self, file: &str) -> Option<&Found> {
        self.sources.iter().find(|(name, _)| name == file).map(|(_, found)| found)
    }
}

/// Code and source files that have come, and those to ask for.
#[derive(Default)]
pub struct Shelf {
    codes: Vec<Arc<Code>>,
    refused: HashMap<(ModuleId, u64), String>,
    sources: HashMap<String, Found>,
    asked: HashSet<(ModuleId, u64)>,
    asked_files: HashSet<String>,
    unasked: VecDeque<CodeRequest>,
    unasked_files: VecDeque<source::Request>,
    /// The function of the last answer, and what was found for it: it stays while the function does.
    full: String,
    copies: Vec<(ModuleId, u64)>,
    files: Vec<String>,
}

impl Shelf {
    /// What is known of a function with these weights; what is not is asked for.
    pub fn listing(&mut self, profile: &Profile, names: &Names, lines: Lines) -> Listing {
        if self.full != lines.full {
            self.full.clone_from(&lines.full);
            (self.copies, self.files) = (Vec::new(), Vec::new());
            self.make_room();
        }
        let mut listing = Listing::default();
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
        // One at a time: its answer most often covers the others.
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
                    pid: profile.modules.seen_in(spot.module),
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
        let pid = heaviest.first().map_or(0, |spot| profile.modules.seen_in(spot.module));
        self.want_files(&lines, &listing.codes, pid);
        listing.sources = self
            .files
            .iter()
            .filter_map(|file| self.sources.get(file).map(|found| (file.clone(), found.clone())))
            .collect();
        listing.lines = lines;
        listing
    }

    fn want_files(&mut self, lines: &Lines, codes: &[Arc<Code>], pid: u32) {
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
                self.unasked_files.push_back(source::Request { file: file.to_owned(), pid });
            }
        }
    }

    /// Takes in code.
    pub fn take_code(&mut self, reply: CodeReply) {
        self.asked.remove(&(reply.module, reply.address));
        match reply.code {
            Ok(code) => {
                // The same again, with lines.
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

    /// Takes in a source file, or why there is none.
    pub fn take_source(&mut self, reply: source::Reply) {
        self.asked_files.remove(&reply.file);
        if reply.source.is_ok() || self.sources.len() < MAX_REFUSED {
            self.sources.insert(reply.file, reply.source);
        }
    }

    /// Hands out what to ask; what is not taken is offered again.
    pub fn ask(
        &mut self,
        mut code: impl FnMut(CodeRequest) -> Result<(), CodeRequest>,
        mut file: impl FnMut(source::Request) -> Result<(), source::Request>,
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

    /// Forgets what no function needs, when there is much of it.
    fn make_room(&mut self) {
        if self.codes.iter().map(|code| code.memory_bytes()).sum::<usize>() > KEPT_BYTES {
            self.codes.clear();
        }
        let size = |found: &Found| found.as_ref().map_or(0, |source| source.memory_bytes());
        if self.sources.values().map(size).sum::<usize>() > KEPT_BYTES {
            self.sources.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::scenario::{Scenario, scenario};
    use crate::tally::lines::lines;
    use crate::tally::query::Query;

    /// A function inlined into so many others, each with code, and samples in it.
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

    fn of(played: &Scenario, full: &str) -> Lines {
        lines(&played.profile, &played.names, &Query::default(), full)
    }

    /// Asks and answers until nothing is asked any more; gives how many requests that took.
    fn settle(shelf: &mut Shelf, played: &Scenario, full: &str) -> (Listing, usize, usize) {
        let (mut of_code, mut of_files) = (0, 0);
        loop {
            let listing = shelf.listing(&played.profile, &played.names, of(played, full));
            let (mut codes, mut files) = (Vec::new(), Vec::new());
            let code = |request: CodeRequest| {
                codes.push(played.script.code(&request));
                Ok(())
            };
            let file = |request: source::Request| {
                files.push(played.script.source(&request));
                Ok(())
            };
            shelf.ask(code, file);
            if codes.is_empty() && files.is_empty() {
                return (listing, of_code, of_files);
            }
            of_code += codes.len();
            of_files += files.len();
            codes.into_iter().for_each(|code| shelf.take_code(code));
            files.into_iter().for_each(|file| shelf.take_source(file));
        }
    }

    #[test]
    fn the_heaviest_copies_are_shown_and_the_others_counted() {
        let played = inlined_into(MAX_COPIES + 3);
        let mut shelf = Shelf::default();
        let (listing, asked, files) = settle(&mut shelf, &played, "leaf");
        assert_eq!((listing.codes.len(), asked, files), (MAX_COPIES, MAX_COPIES, 1));
        assert!(listing.codes.iter().any(|code| &*code.short == "host0"));
        assert_eq!(listing.beyond_ns, (1 + 2 + 3) * 10_000_000);
        assert!(listing.codes.is_sorted_by_key(|code| code.start) && listing.waiting == 0);
        assert!(matches!(listing.source("leaf.h"), Some(Err(why)) if why.contains("--source-path")));
        // What is known is not asked for again, and stays when its samples have left the window.
        let none = Lines { full: "leaf".to_owned(), ..Lines::default() };
        let listing = shelf.listing(&played.profile, &played.names, none);
        assert_eq!((listing.codes.len(), listing.sources.len()), (MAX_COPIES, 1));
        let (other, asked, _) = settle(&mut shelf, &played, "host0");
        assert_eq!((other.codes.len(), asked), (1, 0));
    }

    #[test]
    fn what_has_no_code_says_why_once() {
        let played = inlined_into(1);
        let mut shelf = Shelf::default();
        let (listing, asked, _) = settle(&mut shelf, &played, "bare");
        assert_eq!((listing.codes.len(), listing.refused.len(), asked), (0, 1, 1));
        assert!(listing.refused[0].contains("no symbol"), "{:?}", listing.refused);
        assert_eq!(settle(&mut shelf, &played, "bare").1, 0);
        assert_eq!(listing.module.map(|(path, _)| path).as_deref(), Some("./a"));
    }
}
