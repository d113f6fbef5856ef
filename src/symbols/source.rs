//! Source files: where they may be, and what is in them, as lines that can be shown. Paths come from debug information, which
//! may name anything: what is no regular file is not read, a large one not to its end, and nothing that a terminal obeys is
//! left in a line.
//!
//! A file is looked for below the directories given, each with as much of the end of the path as fits; then as the path
//! says, as the process sees it and as we do; then below the current directory, if the path has a part of that name.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use crossbeam_channel::{Receiver, Sender};
use nix::fcntl::OFlag;

use super::clean::clean;
use super::lines::caught;
use super::object;

/// Bytes of a file that are read.
const MAX_BYTES: u64 = 8 << 20;
/// Lines of a file that are kept.
const MAX_LINES: usize = 200_000;
/// Columns of a line that are kept.
const MAX_COLUMNS: usize = 500;
/// Columns between two stops of a tab.
const TAB: usize = 4;
/// Parts of a path that are looked at.
const MAX_PARTS: usize = 64;

/// A file that comes with the program: the end of its path, and its text.
pub type Embedded = (&'static str, &'static str);

/// Where sources are looked for.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Directories to look below first.
    pub directories: Vec<PathBuf>,
    /// The directory that sigtop was started in.
    pub current: Option<PathBuf>,
    /// Files that need not be found.
    pub embedded: &'static [Embedded],
}

/// A source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where it was found.
    pub path: String,
    /// Its lines, the first at 0, ready to be shown.
    pub lines: Box<[Box<str>]>,
    /// When it was last written, where that says something.
    pub modified: Option<SystemTime>,
    /// Whether there is more of it.
    pub is_cut: bool,
}

impl Source {
    /// Makes lines of a text.
    pub fn new(path: &str, text: &[u8], modified: Option<SystemTime>) -> Source {
        // What ends in a newline has no line behind it.
        let whole = text.strip_suffix(b"\n").unwrap_or(text);
        let mut lines: Vec<Box<str>> = whole.split(|&byte| byte == b'\n').take(MAX_LINES + 1).map(shown).collect();
        let is_cut = lines.len() > MAX_LINES;
        lines.truncate(MAX_LINES);
        Source { path: clean(path), lines: lines.into(), modified, is_cut }
    }

    /// A line, counted from 1.
    pub fn line(&self, number: u32) -> Option<&str> {
        self.lines.get((number as usize).checked_sub(1)?).map(|line| &**line)
    }

    /// Memory it takes, about.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines) + self.lines.iter().map(|line| line.len()).sum::<usize>()
    }
}

/// A line as it can be shown: no tabs, nothing that a terminal obeys, no end of it.
fn shown(line: &[u8]) -> Box<str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // A character has at most four bytes.
    let line = String::from_utf8_lossy(&line[..line.len().min(4 * MAX_COLUMNS)]);
    let mut text = String::with_capacity(line.len());
    let mut columns = 0;
    for c in line.chars() {
        if columns >= MAX_COLUMNS {
            text.push('…');
            break;
        }
        let stop = if c == '\t' { TAB - columns % TAB } else { 1 };
        columns += stop;
        match c {
            '\t' => text.extend(std::iter::repeat_n(' ', stop)),
            c => text.push(c),
        }
    }
    clean(text.trim_end()).into()
}

impl Sources {
    /// Looks for a file that debug information names, of a program that process `pid` runs, and reads it.
    ///
    /// # Errors
    /// It is nowhere: one sentence that names it and where else it may be put.
    pub fn open(&self, file: &str, pid: u32) -> Result<Source, String> {
        if file.is_empty() {
            return Err("the debug information does not say which source file it is".to_owned());
        }
        if let Some((_, text)) = self.embedded.iter().find(|(end, _)| Path::new(file).ends_with(end)) {
            return Ok(Source::new(file, text.as_bytes(), None));
        }
        let mut unreadable = None;
        // What the process has may be hidden from us as a whole: that says nothing about the file.
        let process = PathBuf::from(format!("/proc/{pid}"));
        for path in self.places(file, pid) {
            match read(&path) {
                Ok(source) => return Ok(Source { path: name(&path, pid), ..source }),
                Err(Some(cause)) if !path.starts_with(&process) => unreadable = unreadable.or(Some((path, cause))),
                Err(_) => {}
            }
        }
        Err(match unreadable {
            Some((path, cause)) => format!("{} cannot be read ({cause})", name(&path, pid)),
            None => format!("{} is not here: name the directory it is in with --source-path DIR", clean(file)),
        })
    }

    /// Paths that a file may have, the likeliest first.
    fn places(&self, file: &str, pid: u32) -> Vec<PathBuf> {
        let path = Path::new(file);
        let parts: Vec<Component<'_>> = path.components().collect();
        let names: Vec<&Path> = parts
            .iter()
            .filter(|part| matches!(part, Component::Normal(_)))
            .map(|part| Path::new(part.as_os_str()))
            .collect();
        let climbs = parts.contains(&Component::ParentDir);
        let names = &names[names.len().saturating_sub(MAX_PARTS)..];
        let end = |skip: usize| names[skip..].iter().collect::<PathBuf>();
        let mut places = Vec::new();
        for directory in &self.directories {
            places.extend((0..names.len()).map(|skip| directory.join(end(skip))));
        }
        if path.is_absolute() {
            places.extend(object::roots(pid).map(|root| object::under(&root, path)));
        } else {
            places.push(PathBuf::from(format!("/proc/{pid}/cwd")).join(path));
        }
        if let Some(current) = &self.current {
            if !path.is_absolute() {
                places.push(current.join(path));
            }
            let base = current.file_name().map(Path::new);
            let cut = names.iter().position(|name| Some(*name) == base).filter(|_| !climbs);
            places.extend(cut.map(|at| current.join(end(at + 1))));
        }
        places
    }
}

/// A path as a person would write it.
fn name(path: &Path, pid: u32) -> String {
    let ours = path.strip_prefix(format!("/proc/{pid}/root")).map(|path| Path::new("/").join(path));
    let ours = ours.or_else(|_| path.strip_prefix(format!("/proc/{pid}/cwd")).map(Path::to_owned));
    clean(&ours.as_deref().unwrap_or(path).to_string_lossy())
}

/// Reads a file. `None` if there is none, else why it cannot be read.
fn read(path: &Path) -> Result<Source, Option<String>> {
    // A pipe or a terminal in its place must not hold us up.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    let absent = |error: &std::io::Error| {
        matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
    };
    let cause = |error: std::io::Error| if absent(&error) { None } else { Some(error.to_string()) };
    let file = file.map_err(cause)?;
    let metadata = file.metadata().map_err(cause)?;
    if !metadata.is_file() {
        return Err(Some("it is no regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| Some(error.to_string()))?;
    let is_cut = bytes.len() as u64 > MAX_BYTES;
    bytes.truncate(MAX_BYTES as usize);
    let source = Source::new("", &bytes, metadata.modified().ok());
    Ok(Source { is_cut: source.is_cut || is_cut, ..source })
}

/// A file wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// As the debug information has it.
    pub file: String,
    /// A process that runs it.
    pub pid: u32,
}

/// The answer to one [`Request`].
#[derive(Clone, Debug)]
pub struct Reply {
    /// Which file.
    pub file: String,
    /// The file, or why there is none: one sentence.
    pub source: Result<Arc<Source>, String>,
}

/// Starts the thread that reads sources: a file system may take its time. It ends when `requests` is closed.
pub fn spawn(sources: Sources, requests: Receiver<Request>, replies: Sender<Reply>) -> JoinHandle<()> {
    let run = move || {
        for Request { file, pid } in requests {
            let read =
                caught(|| sources.open(&file, pid)).unwrap_or_else(|| Err(format!("{} is unreadable", clean(&file))));
            if replies.send(Reply { file, source: read.map(Arc::new) }).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("sources".to_owned()).spawn(run).expect("a thread can be started")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_fit_to_be_shown() {
        let long = [vec![b'x'; 1 << 20], b"\nlast".to_vec()].concat();
        let source = Source::new("a.c", &[b"\tint x;\r\na\tb\n\x1b[31m\xff\n".to_vec(), long].concat(), None);
        let lines: Vec<&str> = source.lines.iter().map(|line| &**line).collect();
        assert_eq!(lines[..3], ["    int x;", "a   b", "\u{fffd}[31m\u{fffd}"]);
        assert_eq!((lines[3].chars().count(), lines[4], lines.len()), (MAX_COLUMNS + 1, "last", 5));
        assert_eq!((source.line(0), source.line(2), source.line(6)), (None, Some("a   b"), None));
        assert!(!source.is_cut && Source::new("", &vec![b'\n'; MAX_LINES + 5], None).is_cut);
    }

    #[test]
    fn a_path_is_tried_in_many_places() {
        let sources = Sources {
            directories: vec!["/src".into()],
            current: Some("/home/me/app".into()),
            embedded: &[("src/demo.rs", "fn main() {}\n")],
        };
        let places = |file| {
            let places = sources.places(file, 1).into_iter();
            places.map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            places("/build/app/lib/x.rs"),
            [
                "/src/build/app/lib/x.rs",
                "/src/app/lib/x.rs",
                "/src/lib/x.rs",
                "/src/x.rs",
                "/proc/1/root/build/app/lib/x.rs",
                "/build/app/lib/x.rs",
                "/home/me/app/lib/x.rs"
            ]
        );
        assert_eq!(places("x.c"), ["/src/x.c", "/proc/1/cwd/x.c", "/home/me/app/x.c"]);
        assert!(places("/other/x.c").iter().all(|place| !place.starts_with("/home")));
        let demo = sources.open("/anywhere/src/demo.rs", 1).expect("it comes with the program");
        assert_eq!((demo.line(1), demo.modified), (Some("fn main() {}"), None));
        let error = sources.open("/nowhere/\x1b[2J.c", 1).unwrap_err();
        assert!(error.contains("--source-path") && !error.contains('\x1b'), "{error}");
    }

    #[test]
    fn pipes_and_devices_are_not_waited_for() {
        let directory = std::env::temp_dir().join(format!("sigtop-source-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let pipe = directory.join("pipe.c");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), Path::new("/dev/tty"), directory.as_path()] {
            let error = Sources::default().open(&path.to_string_lossy(), std::process::id()).unwrap_err();
            assert!(error.contains("cannot be read") || error.contains("is not here"), "{error}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
