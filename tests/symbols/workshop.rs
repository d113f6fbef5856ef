//! A directory in which tests build programs, and functions that run tools and the symbol worker on
//! them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use sigtop::profile::module::{ModuleFile, ModuleId};
use sigtop::profile::stack::FrameId;
use sigtop::symbols::worker::{self, ResolvedLine, SymbolReply, SymbolRequest, SymbolState};

/// A symbol that a file defines.
pub(crate) struct Symbol {
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) is_code: bool,
    pub(crate) name: String,
}

impl Symbol {
    pub(crate) fn addresses(&self) -> Range<u64> {
        self.start..self.start + self.size
    }
}

/// A directory that is removed when the test ends.
pub(crate) struct Workshop(PathBuf);

impl Workshop {
    pub(crate) fn new() -> Workshop {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("sigtop-symbols-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Workshop(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes `source` next to the program and compiles it.
    pub(crate) fn build(&self, compiler: &str, source: (&str, &str), arguments: &[&str], output: &str) -> PathBuf {
        std::fs::write(self.path(source.0), source.1).expect("a source file");
        let arguments: Vec<&str> = arguments.iter().copied().chain([source.0, "-o", output]).collect();
        self.run(compiler, &arguments);
        self.path(output)
    }

    /// Runs a tool in the directory and returns its output.
    pub(crate) fn run(&self, tool: &str, arguments: &[&str]) -> String {
        let output = Command::new(tool).args(arguments).current_dir(&self.0).output();
        let output = output.unwrap_or_else(|error| panic!("{tool}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool} {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the symbols that `nm` lists.
    pub(crate) fn nm(&self, arguments: &[&str]) -> Vec<Symbol> {
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("nm prints hexadecimal numbers");
        let listed = self.run("nm", &[&["-S", "--defined-only"], arguments].concat());
        let line = |line: &str| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (size, kind, name) = match fields[..] {
                [_, kind, name] => (0, kind, name),
                [_, size, kind, name] => (hex(size), kind, name),
                _ => panic!("nm: {line}"),
            };
            let is_code = matches!(kind.to_ascii_lowercase().as_str(), "t" | "w" | "i");
            Symbol { start: hex(fields[0]), size, is_code, name: name.split('@').next().unwrap().to_owned() }
        };
        listed.lines().map(line).collect()
    }

    /// Calls `look` with a file that is read by the crate `object`, so that a test needs no binutils.
    fn read<T>(&self, file: &str, look: impl FnOnce(&object::File) -> T) -> T {
        let bytes = std::fs::read(self.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        look(&object::File::parse(&*bytes).unwrap_or_else(|error| panic!("{file}: {error}")))
    }

    /// Returns the symbols of the full symbol table.
    pub(crate) fn symbols(&self, file: &str) -> Vec<Symbol> {
        let symbol = |symbol: object::Symbol| Symbol {
            start: symbol.address(),
            size: symbol.size(),
            is_code: symbol.kind() == SymbolKind::Text,
            name: symbol.name().expect("a name in UTF-8").to_owned(),
        };
        self.read(file, |elf| elf.symbols().filter(|symbol| symbol.is_definition()).map(symbol).collect())
    }

    /// Returns the path of the debug file that is installed for a file.
    pub(crate) fn installed_debug_file(&self, file: &str) -> Option<String> {
        let id = self.read(file, |elf| elf.build_id().expect("sound notes").map(<[u8]>::to_vec))?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
        Path::new(&path).exists().then_some(path)
    }

    /// Returns the symbols of both tables, without versions.
    pub(crate) fn all_symbols(&self, file: &str) -> Vec<Symbol> {
        let symbol = |symbol: object::Symbol| {
            let name = String::from_utf8_lossy(symbol.name_bytes().expect("a name")).into_owned();
            Symbol {
                start: symbol.address(),
                size: symbol.size(),
                is_code: symbol.kind() == SymbolKind::Text,
                name: name.split('@').next().unwrap_or_default().to_owned(),
            }
        };
        let is_there = |symbol: &object::Symbol| symbol.is_definition();
        self.read(file, |elf| elf.symbols().chain(elf.dynamic_symbols()).filter(is_there).map(symbol).collect())
    }

    /// Returns the symbol of this name.
    pub(crate) fn symbol(&self, file: &str, name: &str) -> Symbol {
        let symbol = self.symbols(file).into_iter().find(|symbol| symbol.name == name);
        symbol.unwrap_or_else(|| panic!("no {name} in {file}"))
    }

    /// Returns start and end of a section.
    pub(crate) fn section(&self, file: &str, name: &str) -> (u64, u64) {
        self.read(file, |elf| {
            let section = elf.section_by_name(name).unwrap_or_else(|| panic!("no {name} in {file}"));
            (section.address(), section.address() + section.size())
        })
    }

    /// Returns where in a file its headers and its tables are: all sections but code.
    pub(crate) fn tables(&self, file: &str) -> Vec<Range<usize>> {
        self.read(file, |elf| {
            let sections = elf.sections().filter(|section| section.kind() != object::SectionKind::Text);
            let ranges = sections.filter_map(|section| section.file_range());
            let ranges = ranges.map(|(start, size)| start as usize..(start + size) as usize);
            let ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
            // The headers of sections are behind them.
            let end = ranges.iter().map(|range| range.end).max().unwrap_or_default();
            ranges.into_iter().chain([0..64, end..end + 64 * elf.sections().count()]).collect()
        })
    }

    /// Copies a file, and makes one of its sections this large: holes follow its content.
    pub(crate) fn grow_section(&self, file: &str, output: &str, name: &str, size: u64) {
        let mut bytes = std::fs::read(self.path(file)).expect("a file");
        let index = self.read(file, |elf| elf.section_by_name(name).expect("a section").index().0);
        let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let header = word(&bytes, 0x28) as usize + 64 * index;
        let content =
            word(&bytes, header + 0x18) as usize..(word(&bytes, header + 0x18) + word(&bytes, header + 0x20)) as usize;
        let start = bytes.len().next_multiple_of(4096);
        let content = bytes[content].to_vec();
        bytes[header + 0x18..header + 0x20].copy_from_slice(&(start as u64).to_le_bytes());
        bytes[header + 0x20..header + 0x28].copy_from_slice(&size.to_le_bytes());
        bytes.resize(start, 0);
        bytes.extend(content);
        std::fs::write(self.path(output), bytes).expect("a file");
        let grown = std::fs::OpenOptions::new().write(true).open(self.path(output)).expect("a file");
        grown.set_len(start as u64 + size).expect("a sparse file");
    }

    pub(crate) fn build_id(&self, file: &str) -> Box<[u8]> {
        self.read(file, |elf| elf.build_id().expect("sound notes").expect("a build id").into())
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a file without a build id as a module of this process.
pub(crate) fn module(path: &Path) -> ModuleFile {
    ModuleFile { path: path.to_owned(), build_id: Box::default(), device: 0, inode: 0 }
}

/// The answers of a worker about addresses of one file.
pub(crate) struct Known {
    pub(crate) state: SymbolState,
    pub(crate) lines: BTreeMap<u64, Vec<ResolvedLine>>,
    /// The first answers, if there were two.
    pub(crate) first: BTreeMap<u64, Vec<ResolvedLine>>,
}

impl Known {
    /// Returns the short names at an address, innermost first.
    pub(crate) fn names(&self, address: u64) -> Vec<&str> {
        self.lines[&address].iter().map(|line| line.short.as_str()).collect()
    }
}

/// Starts a worker and asks it about every address.
pub(crate) fn ask(file: ModuleFile, pid: u32, addresses: impl IntoIterator<Item = u64>) -> Known {
    ask_recorded(file, pid, addresses, None)
}

/// Asks about addresses of a recording, which knew the file at this time.
pub(crate) fn ask_recorded(
    file: ModuleFile,
    pid: u32,
    addresses: impl IntoIterator<Item = u64>,
    recorded_at: Option<SystemTime>,
) -> Known {
    let addresses: Vec<(FrameId, u64)> = (0..).map(FrameId).zip(addresses).collect();
    let asked: BTreeMap<FrameId, u64> = addresses.iter().copied().collect();
    let (requests, for_worker) = crossbeam_channel::unbounded();
    let (from_worker, replies) = crossbeam_channel::unbounded();
    let worker = worker::spawn(for_worker, from_worker).unwrap();
    requests.send(SymbolRequest { module: ModuleId(7), file, pid, addresses, recorded_at }).unwrap();
    drop(requests);
    let mut known = Known { state: SymbolState::Reading, lines: BTreeMap::new(), first: BTreeMap::new() };
    for SymbolReply { module, state, frames } in replies {
        assert_eq!(module, ModuleId(7));
        let is_last = state != SymbolState::Reading;
        let lines = if is_last { &mut known.lines } else { &mut known.first };
        for (id, resolved) in frames {
            assert!(lines.insert(asked[&id], resolved).is_none(), "{id:?} was answered twice");
        }
        known.state = state;
    }
    worker.join().expect("the worker ends well");
    assert_eq!(known.lines.len(), asked.len(), "every address has a last answer");
    known
}

/// Asks about a file of this process.
pub(crate) fn ask_here(path: &Path, addresses: impl IntoIterator<Item = u64>) -> Known {
    ask(module(path), std::process::id(), addresses)
}
