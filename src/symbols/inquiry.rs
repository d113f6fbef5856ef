//! Why a file gives the names that it gives, and no better ones: which tables they come from, where debug information was
//! looked for, what was there, and what would help. It opens what [`worker`](super::worker) opens, in the same order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::clean::clean;
use super::dwarf;
use super::elf::Elf;
use super::error::{Error, hex};
use super::lines::caught;
use super::object::{self, Found, Separate};
use super::package;
use super::table::SymbolTable;
use crate::profile::module::ModuleFile;

/// Bytes of a process's maps that are looked through.
const MAX_MAPS_BYTES: u64 = 16 << 20;
/// Files of one process, at most.
const MAX_FILES: usize = 4_096;

/// Where the names of functions come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// The file's own symbol table (`.symtab`).
    Own,
    /// The symbol table of its debug file.
    Debug,
    /// Nothing but what it exports (`.dynsym`).
    Exports,
    /// Nowhere.
    Nothing,
}

/// Where source lines and inlined calls come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineSource {
    /// The file itself.
    Own,
    /// Its debug file.
    Debug,
    /// Nowhere.
    Nothing,
}

/// What was found out about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// As the process sees it.
    pub path: String,
    /// Where it was opened, or why it was not: one sentence.
    pub opened: Result<String, String>,
    /// Hexadecimal; empty where there is none.
    pub build_id: String,
    /// Functions with a name.
    pub functions: usize,
    /// Where their names come from.
    pub names: NameSource,
    /// Where lines come from.
    pub lines: LineSource,
    /// The debug file that was used.
    pub debug_file: Option<String>,
    /// Where a debug file was looked for, and what was there; empty where none is needed.
    pub looked: Vec<(String, String)>,
    /// What would give better names; empty where there are none.
    pub remedies: Vec<String>,
}

/// Inquires into a file, as process `pid` sees it.
pub fn inquire(file: &ModuleFile, pid: u32) -> Inquiry {
    let path = clean(&file.path.to_string_lossy());
    let damaged = || Error::Malformed { path: file.path.clone(), what: "its tables contradict each other" };
    match caught(|| found(file, pid)).unwrap_or_else(|| Err(damaged())) {
        Ok(inquiry) => inquiry,
        Err(error) => Inquiry {
            path,
            opened: Err(error.to_string()),
            build_id: hex(&file.build_id),
            functions: 0,
            names: NameSource::Nothing,
            lines: LineSource::Nothing,
            debug_file: None,
            looked: Vec::new(),
            // The sentence says it.
            remedies: Vec::new(),
        },
    }
}

fn found(file: &ModuleFile, pid: u32) -> Result<Inquiry, Error> {
    let elf = object::open(file, pid)?;
    let own = (elf.section(b".symtab").is_some(), dwarf::is_in(&elf));
    let (mut debug, mut looked) = (None, Vec::new());
    if own != (true, true) {
        let separate = Separate::of(&elf, file, pid);
        for place in &separate.places {
            let words = match separate.look(place) {
                Found::It(found) => {
                    debug = Some(found);
                    "it is there".to_owned()
                }
                Found::Nothing => "nothing".to_owned(),
                Found::Another(why) => why,
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
    let table = SymbolTable::read(&elf, debug.as_ref()).map_err(|error| error.about(&file.path))?;
    let has = |elf: &Elf, section: &[u8]| elf.section(section).is_some();
    let names = match () {
        () if own.0 => NameSource::Own,
        () if debug.as_ref().is_some_and(|debug| has(debug, b".symtab")) => NameSource::Debug,
        () if table.functions() > 0 => NameSource::Exports,
        () => NameSource::Nothing,
    };
    let lines = match () {
        () if own.1 => LineSource::Own,
        () if debug.as_ref().is_some_and(dwarf::is_in) => LineSource::Debug,
        () => LineSource::Nothing,
    };
    let build_id = hex(&elf.build_id());
    let remedies = remedies(&file.path, &build_id, &names, &lines);
    Ok(Inquiry {
        path: clean(&file.path.to_string_lossy()),
        opened: Ok(shown(&elf.path, pid)),
        build_id,
        functions: table.functions(),
        names,
        lines,
        debug_file: debug.map(|debug| shown(&debug.path, pid)),
        looked,
        remedies,
    })
}

/// A path as the process has it: its root is ours, most often.
fn shown(path: &Path, pid: u32) -> String {
    match path.strip_prefix(format!("/proc/{pid}/root")) {
        Ok(inside) => clean(&Path::new("/").join(inside).to_string_lossy()),
        Err(_) => clean(&path.to_string_lossy()),
    }
}

fn remedies(path: &Path, build_id: &str, names: &NameSource, lines: &LineSource) -> Vec<String> {
    if path == Path::new("[vdso]") || *lines != LineSource::Nothing && *names != NameSource::Exports {
        return Vec::new();
    }
    let mut remedies = Vec::new();
    match package::advice(path, build_id, Path::new("/")) {
        Some(advice) => {
            remedies.push(advice);
            if !build_id.is_empty() {
                remedies.push(format!(
                    "or, where a debuginfod server has it (sigtop asks none): debuginfod-find debuginfo {build_id}, and put \
                     it at {}",
                    place_of(build_id)
                ));
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

fn place_of(build_id: &str) -> String {
    let (first, rest) = build_id.split_at_checked(2).unwrap_or((build_id, ""));
    format!("/usr/lib/debug/.build-id/{first}/{rest}.debug")
}

impl Inquiry {
    /// Whether nothing better can be had.
    pub fn is_whole(&self) -> bool {
        matches!(self.names, NameSource::Own | NameSource::Debug) && self.lines != LineSource::Nothing
    }

    /// What it comes to: a heading for each finding, and words.
    pub fn findings(&self) -> Vec<(&'static str, String)> {
        let mut told = Vec::new();
        let opened = match &self.opened {
            Ok(_) => None,
            Err(why) => Some(("names", format!("none: {why}"))),
        };
        if !self.build_id.is_empty() {
            told.push(("build id", self.build_id.clone()));
        }
        if let Some(opened) = opened {
            told.push(opened);
            return told;
        }
        if let Ok(opened) = &self.opened
            && *opened != self.path
        {
            told.push(("opened as", opened.clone()));
        }
        let functions = match self.functions {
            1 => "1 function".to_owned(),
            functions => format!("{functions} functions"),
        };
        told.push((
            "names",
            match self.names {
                NameSource::Own => format!("its own symbol table, {functions}"),
                NameSource::Debug => format!("the symbol table of its debug file, {functions}"),
                NameSource::Exports => format!("only what it exports, {functions}; it was stripped"),
                NameSource::Nothing => "none: it was stripped and exports nothing".to_owned(),
            },
        ));
        told.push((
            "lines",
            match self.lines {
                LineSource::Own => "its own line tables".to_owned(),
                LineSource::Debug => "the line tables of its debug file".to_owned(),
                LineSource::Nothing => "none: it has no line tables".to_owned(),
            },
        ));
        if let Some(debug_file) = &self.debug_file {
            told.push(("debug file", debug_file.clone()));
        } else if !self.looked.is_empty() {
            told.push(("debug file", "none was found".to_owned()));
            told.extend(self.looked.iter().map(|(place, what)| ("", format!("{place}: {what}"))));
        }
        let heads = ["to do"].into_iter().chain(std::iter::repeat(""));
        told.extend(heads.zip(self.remedies.iter().cloned()));
        told
    }
}

/// The files with code that a process has mapped, its executable first, then by path.
///
/// # Errors
/// When its maps cannot be read.
pub fn files_of(pid: u32) -> std::io::Result<Vec<ModuleFile>> {
    let maps = BufReader::new(File::open(format!("/proc/{pid}/maps"))?.take(MAX_MAPS_BYTES));
    let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let mut files: BTreeMap<(bool, PathBuf), ModuleFile> = BTreeMap::new();
    for line in maps.split(b'\n') {
        let Some(file) = mapping(&line?) else { continue };
        if files.len() < MAX_FILES {
            files.entry((file.path != executable, file.path.clone())).or_insert(file);
        }
    }
    Ok(files.into_values().collect())
}

/// A line of maps, if it is of a file's code: `START-END r-xp OFFSET DEVICE INODE   PATH`.
fn mapping(line: &[u8]) -> Option<ModuleFile> {
    let mut rest = line;
    let mut field = || {
        let end = rest.iter().position(|&byte| byte == b' ')?;
        let field = std::str::from_utf8(&rest[..end]).ok()?;
        rest = &rest[end + 1..];
        Some(field)
    };
    let (_, access, _, _, inode) = (field()?, field()?, field()?, field()?, field()?);
    let path = rest.trim_ascii_start();
    if access.as_bytes().get(2) != Some(&b'x') || !(path.starts_with(b"/") || path == b"[vdso]") {
        return None;
    }
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
    Some(ModuleFile { path, build_id: [].into(), device: 0, inode: inode.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_as_the_kernel_writes_them() {
        let path =
            |line: &str| mapping(line.as_bytes()).map(|file| (file.path.to_string_lossy().into_owned(), file.inode));
        let code = "7f00-7f10 r-xp 00002000 fe:01 1234                       /opt/a b (deleted)";
        assert_eq!(path(code), Some(("/opt/a b (deleted)".to_owned(), 1234)));
        assert_eq!(path("7f00-7f10 r--p 00002000 fe:01 1234    /opt/a"), None);
        assert_eq!(path("7f00-7f10 r-xp 00000000 00:00 0    [vdso]"), Some(("[vdso]".to_owned(), 0)));
        for line in ["", " ", "7f00-7f10 r-xp", "7f00-7f10 r-xp 0 0 0 ", "7f00-7f10 rwxp 00000000 00:00 0    [heap]"] {
            assert_eq!(path(line), None, "{line}");
        }
    }

    #[test]
    fn this_very_test_is_a_file_with_names_and_lines() {
        let files = files_of(std::process::id()).unwrap();
        let own = inquire(&files[0], std::process::id());
        assert_eq!((&own.names, &own.lines, own.is_whole()), (&NameSource::Own, &LineSource::Own, true));
        assert!(own.functions > 100 && own.remedies.is_empty() && own.looked.is_empty(), "{own:?}");
        assert!(files.iter().any(|file| file.path == Path::new("[vdso]")));
    }

    #[test]
    fn what_is_no_file_is_said() {
        let file = |path: &str| ModuleFile { path: path.into(), build_id: [].into(), device: 0, inode: 0 };
        let gone = inquire(&file("/nonexistent/a\x1b[2J"), std::process::id());
        let told = gone.findings();
        assert!(told[0].1.contains("No such file") && !told[0].1.contains('\x1b'), "{told:?}");
        assert!(inquire(&file("/etc/passwd"), 1).opened.unwrap_err().contains("ELF"));
    }
}
