//! Explains the names of a file: which tables they come from, where debug information was searched,
//! what was found, and what would give better names. It opens the same files as
//! [`worker`](super::worker), in the same order.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::debug_packages;
use super::download::DebuginfodClient;
use super::dwarf;
use super::elf::Elf;
use super::error::{Error, catch_panic, hex};
use super::object::{self, DebugFileCandidate, DebugFileSearch};
use super::sanitize::sanitize;
use super::table::SymbolTable;
use crate::process::maps::{MapsEntry, entries};
use crate::profile::module::ModuleFile;

/// Maximum number of files of one process.
const MAX_FILES: usize = 4_096;

/// The source of function names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// The file's own symbol table (`.symtab`).
    Own,
    /// The symbol table of its debug file.
    Debug,
    /// The symbol table that it holds packed (`.gnu_debugdata`).
    Packed,
    /// Its exports only (`.dynsym`).
    Exports,
    /// There is none.
    Nothing,
}

/// The source of lines and inlined calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineSource {
    /// The file itself.
    Own,
    /// Its debug file.
    Debug,
    /// There are tables that are not read, for this reason.
    Unreadable(String),
    /// There is none.
    Nothing,
}

/// The explanation for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The path as the process sees it.
    pub path: String,
    /// The path at which it was opened, or a sentence that says why it was not.
    pub opened: Result<String, String>,
    /// The build id, hexadecimal; empty if there is none.
    pub build_id: String,
    /// The number of functions with a name.
    pub functions: usize,
    /// The source of their names.
    pub names: NameSource,
    /// The source of lines.
    pub lines: LineSource,
    /// The debug file that was used.
    pub debug_file: Option<String>,
    /// The paths where a debug file was searched, and what was found; empty if none is needed.
    pub looked: Vec<(String, String)>,
    /// Remedies that would give better names; empty if there are none.
    pub remedies: Vec<String>,
}

/// Explains the names of a file as process `pid` sees it. `servers` is the client that downloads
/// debug files, if the user allows that; it is not asked here.
pub fn explain(file: &ModuleFile, pid: u32, servers: Option<&DebuginfodClient>) -> Explanation {
    let path = sanitize(&file.path.to_string_lossy());
    let damaged = || Error::Malformed { path: file.path.clone(), what: "its tables contradict each other" };
    match catch_panic(|| examine(file, pid, servers)).unwrap_or_else(|| Err(damaged())) {
        Ok(inquiry) => inquiry,
        Err(error) => Explanation {
            path,
            opened: Err(error.to_string()),
            build_id: hex(&file.build_id),
            functions: 0,
            names: NameSource::Nothing,
            lines: LineSource::Nothing,
            debug_file: None,
            looked: Vec::new(),
            // The error names the remedy.
            remedies: Vec::new(),
        },
    }
}

/// Downloads the debug file of a file that lacks lines, and waits for it. [`explain`] says what
/// came of it.
pub fn download(file: &ModuleFile, pid: u32, servers: &DebuginfodClient) {
    let needed = catch_panic(|| {
        let elf = object::open(file, pid).ok()?;
        let has_lines =
            dwarf::is_in(&elf) || object::debug_file(&elf, file, pid).is_some_and(|debug| dwarf::is_in(&debug));
        Some(elf.build_id()).filter(|build_id| !has_lines && !build_id.is_empty())
    });
    if let Some(build_id) = needed.flatten().filter(|_| file.path != Path::new("[vdso]")) {
        // The client remembers a failure.
        let _ = servers.fetch(&build_id, &file.name(), pid);
    }
}

fn examine(file: &ModuleFile, pid: u32, servers: Option<&DebuginfodClient>) -> Result<Explanation, Error> {
    let elf = object::open(file, pid)?;
    let own = (elf.section(b".symtab").is_some(), dwarf::is_in(&elf));
    let (mut debug, mut looked) = (None, Vec::new());
    if own != (true, true) {
        let separate = DebugFileSearch::new(&elf, file, pid);
        for place in &separate.places {
            let words = match separate.check_candidate(place) {
                DebugFileCandidate::Match(found) => {
                    debug = Some(found);
                    "it is there".to_owned()
                }
                DebugFileCandidate::Missing => "nothing".to_owned(),
                DebugFileCandidate::Mismatch(why) => why,
            };
            let shown = shown(place, pid);
            let seen = (shown, words);
            if !looked.contains(&seen) {
                looked.push(seen);
            }
            if debug.is_some() {
                break;
            }
        }
    }
    if debug.is_none() {
        let failure = servers.and_then(|servers| servers.failure(&elf.build_id()));
        looked.extend(failure.map(|why| ("debuginfod".to_owned(), why)));
    }
    let readable = |elf: &Elf, source| match dwarf::has_line_tables(elf) {
        Ok(true) => source,
        Ok(false) => LineSource::Nothing,
        Err(error) => LineSource::Unreadable(error.about(&elf.path).to_string()),
    };
    let lines = match &debug {
        _ if own.1 => readable(&elf, LineSource::Own),
        Some(debug) if dwarf::is_in(debug) => readable(debug, LineSource::Debug),
        _ => LineSource::Nothing,
    };
    let debug_file = debug.as_ref().map(|debug| shown(&debug.path, pid));
    let has_symbols = debug.as_ref().is_some_and(|debug| debug.section(b".symtab").is_some());
    let symbols = object::symbol_file(&elf, debug);
    let table = SymbolTable::read(&elf, symbols.as_ref(), &file.name()).map_err(|error| error.about(&file.path))?;
    let names = match () {
        () if own.0 => NameSource::Own,
        () if has_symbols => NameSource::Debug,
        () if table.is_full() => NameSource::Packed,
        () if table.functions() > 0 => NameSource::Exports,
        () => NameSource::Nothing,
    };
    let build_id = hex(&elf.build_id());
    let remedies = remedies((&file.path, pid), &build_id, (&names, &lines), servers.is_some());
    Ok(Explanation {
        path: sanitize(&file.path.to_string_lossy()),
        opened: Ok(shown(&elf.path, pid)),
        build_id,
        functions: table.functions(),
        names,
        lines,
        debug_file,
        looked,
        remedies,
    })
}

/// Returns a path as the process sees it. Most processes have the same root as sigtop.
fn shown(path: &Path, pid: u32) -> String {
    match path.strip_prefix(format!("/proc/{pid}/root")) {
        Ok(inside) => sanitize(&Path::new("/").join(inside).to_string_lossy()),
        Err(_) => sanitize(&path.to_string_lossy()),
    }
}

fn remedies(
    (path, pid): (&Path, u32),
    build_id: &str,
    (names, lines): (&NameSource, &LineSource),
    has_servers: bool,
) -> Vec<String> {
    if path == Path::new("[vdso]") || *lines != LineSource::Nothing && *names != NameSource::Exports {
        return Vec::new();
    }
    let mut remedies = Vec::new();
    let advice = match other_root(pid) {
        Some((root, link)) => debug_packages::install_advice(&below(path, &link), build_id, &root)
            .map(|advice| format!("inside its container or chroot: {advice}")),
        None => debug_packages::install_advice(path, build_id, Path::new("/")),
    };
    match advice {
        Some(advice) => {
            remedies.push(advice);
            if !build_id.is_empty() && !has_servers {
                remedies
                    .push("or, where a debuginfod server has it: sigtop --debuginfod, which downloads it".to_owned());
            }
        }
        None => {
            if matches!(names, NameSource::Exports | NameSource::Nothing) {
                remedies.push("its own functions: build it without -s, and leave out strip".to_owned());
            }
            if *lines == LineSource::Nothing {
                remedies.push("source lines and inlined calls: build it with -g (Rust: debug = 1)".to_owned());
            }
        }
    }
    remedies
}

/// Returns the root directory of a process, and the path that the kernel shows for it, if it is
/// another one than sigtop's.
fn other_root(pid: u32) -> Option<(PathBuf, PathBuf)> {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    (identity(&root)? != identity(Path::new("/"))?).then_some(())?;
    let link = std::fs::read_link(&root).ok()?;
    Some((root, link))
}

/// Returns a path as a process sees it whose root directory is `root`.
fn below(path: &Path, root: &Path) -> PathBuf {
    Path::new("/").join(path.strip_prefix(root).unwrap_or(path))
}

impl Explanation {
    /// Whether there are no better names.
    pub fn is_whole(&self) -> bool {
        matches!(self.names, NameSource::Own | NameSource::Debug | NameSource::Packed)
            && matches!(self.lines, LineSource::Own | LineSource::Debug)
    }

    /// The findings as lines: a heading and a text.
    pub fn findings(&self) -> Vec<(&'static str, String)> {
        let mut findings = Vec::new();
        let opened = match &self.opened {
            Ok(_) => None,
            Err(why) => Some(("names", format!("none: {why}"))),
        };
        if !self.build_id.is_empty() {
            findings.push(("build id", self.build_id.clone()));
        }
        if let Some(opened) = opened {
            findings.push(opened);
            return findings;
        }
        if let Ok(opened) = &self.opened
            && *opened != self.path
        {
            findings.push(("opened as", opened.clone()));
        }
        let functions = match self.functions {
            1 => "1 function".to_owned(),
            functions => format!("{functions} functions"),
        };
        findings.push((
            "names",
            match self.names {
                NameSource::Own => format!("its own symbol table, {functions}"),
                NameSource::Debug => format!("the symbol table of its debug file, {functions}"),
                NameSource::Packed => format!("its packed symbol table (.gnu_debugdata), {functions}"),
                NameSource::Exports => format!("only what it exports, {functions}; it was stripped"),
                NameSource::Nothing => "none: it was stripped and exports nothing".to_owned(),
            },
        ));
        findings.push((
            "lines",
            match &self.lines {
                LineSource::Own => "its own line tables".to_owned(),
                LineSource::Debug => "the line tables of its debug file".to_owned(),
                LineSource::Unreadable(why) => format!("none: {why}"),
                LineSource::Nothing => "none: it has no line tables".to_owned(),
            },
        ));
        if let Some(debug_file) = &self.debug_file {
            findings.push(("debug file", debug_file.clone()));
        } else if !self.looked.is_empty() {
            findings.push(("debug file", "none was found".to_owned()));
            findings.extend(self.looked.iter().map(|(place, what)| ("", format!("{place}: {what}"))));
        }
        let heads = ["to do"].into_iter().chain(std::iter::repeat(""));
        findings.extend(heads.zip(self.remedies.iter().cloned()));
        findings
    }
}

/// Returns the files whose code a process has mapped: its executable first, then by path.
///
/// # Errors
/// The maps of the process cannot be read.
pub fn files_of(pid: u32) -> std::io::Result<Vec<ModuleFile>> {
    let maps = object::read_maps(Path::new(&format!("/proc/{pid}")))?;
    let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let mut files: BTreeMap<(bool, PathBuf), ModuleFile> = BTreeMap::new();
    for file in entries(&maps).filter_map(mapped_code) {
        if files.len() < MAX_FILES {
            files.entry((file.path != executable, file.path.clone())).or_insert(file);
        }
    }
    Ok(files.into_values().collect())
}

/// Returns the file of a mapping, if that is code.
fn mapped_code(MapsEntry { executable, inode, path, .. }: MapsEntry<'_>) -> Option<ModuleFile> {
    let path = (executable && (path.starts_with(b"/") || path == b"[vdso]")).then(|| OsStr::from_bytes(path))?;
    Some(ModuleFile { path: path.into(), build_id: [].into(), device: 0, inode })
}

#[cfg(test)]
mod tests {
    use super::super::built_program::BuiltProgram;
    use super::*;

    #[test]
    fn code_mappings_are_parsed() {
        let path = |line: &str| {
            let file = entries(line.as_bytes()).find_map(mapped_code)?;
            Some((file.path.to_string_lossy().into_owned(), file.inode))
        };
        let code = "7f00-7f10 r-xp 00002000 fe:01 1234                       /opt/a b (deleted)";
        assert_eq!(path(code), Some(("/opt/a b (deleted)".to_owned(), 1234)));
        assert_eq!(path("7f00-7f10 r--p 00002000 fe:01 1234    /opt/a"), None);
        assert_eq!(path("7f00-7f10 r-xp 00000000 00:00 0    [vdso]"), Some(("[vdso]".to_owned(), 0)));
        for line in ["", " ", "7f00-7f10 r-xp", "7f00-7f10 r-xp 0 0 0 ", "7f00-7f10 rwxp 00000000 00:00 0    [heap]"] {
            assert_eq!(path(line), None, "{line}");
        }
    }

    #[test]
    fn the_test_binary_has_names() {
        let files = files_of(std::process::id()).unwrap();
        let own = explain(&files[0], std::process::id(), None);
        assert_eq!(own.names, NameSource::Own);
        assert!(own.functions > 100, "{own:?}");
        assert!(files.iter().any(|file| file.path == Path::new("[vdso]")));
    }

    #[test]
    fn a_program_with_debug_information_lacks_nothing() {
        let program = BuiltProgram::build("explained");
        let file = ModuleFile { path: program.0.clone(), build_id: [].into(), device: 0, inode: 0 };
        let own = explain(&file, std::process::id(), None);
        assert_eq!((&own.names, &own.lines, own.is_whole()), (&NameSource::Own, &LineSource::Own, true));
        assert!(own.functions > 0 && own.remedies.is_empty() && own.looked.is_empty(), "{own:?}");
    }

    #[test]
    fn packages_are_those_of_the_processs_root() {
        let seen = |path: &str, root: &str| below(Path::new(path), Path::new(root)).display().to_string();
        assert_eq!(seen("/srv/debian/usr/bin/ruby", "/srv/debian"), "/usr/bin/ruby", "in a chroot");
        assert_eq!(seen("/usr/bin/ruby", "/"), "/usr/bin/ruby", "in another mount namespace");
        assert_eq!(seen("/usr/bin/ruby", "/srv/debian"), "/usr/bin/ruby", "it was mapped before the chroot");
        assert_eq!(other_root(std::process::id()), None);
        assert_eq!(other_root(0), None, "a recording has no process");
    }

    #[test]
    fn unusable_files_are_explained() {
        let file = |path: &str| ModuleFile { path: path.into(), build_id: [].into(), device: 0, inode: 0 };
        let gone = explain(&file("/nonexistent/a\x1b[2J"), std::process::id(), None);
        let findings = gone.findings();
        assert!(findings[0].1.contains("No such file") && !findings[0].1.contains('\x1b'), "{findings:?}");
        assert!(explain(&file("/etc/passwd"), 1, None).opened.unwrap_err().contains("ELF"));
    }
}
