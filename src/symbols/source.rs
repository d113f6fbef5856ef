//! Finds and reads source files, as lines that are safe to display. Paths come from debug
//! information and are not trusted: only regular files are read, up to a limit.
//!
//! A file is searched below the given directories, with every suffix of its path, the longest
//! first; then at its path, in the namespace of the process and in that of sigtop; then below the
//! current directory, if a component of the path has that directory's name; and then in the cache
//! of debuginfod, by the build id of the file whose debug information names it. If the user allows
//! it, debuginfod's servers are asked last.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use crossbeam_channel::{Receiver, Sender, unbounded};
use nix::fcntl::OFlag;

use super::debuginfod;
use super::download::DebuginfodClient;
use super::error::catch_panic;
use super::object;
use super::sanitize::sanitize;
use crate::profile::module::ModuleFile;

/// Maximum number of bytes read of a file.
const MAX_BYTES: u64 = 8 << 20;
/// Maximum number of lines of a file.
const MAX_LINES: usize = 200_000;
/// Maximum number of columns of a line.
const MAX_COLUMNS: usize = 500;
/// Columns between tab stops.
const TAB: usize = 4;
/// Maximum number of components of a path, from its end.
const MAX_PARTS: usize = 64;

/// A file that is part of sigtop: a suffix of its path, and its text.
pub type Embedded = (&'static str, &'static str);

/// The places where source files are searched.
#[derive(Clone, Debug, Default)]
pub struct SourceFinder {
    /// The directories to search first.
    pub directories: Vec<PathBuf>,
    /// The directory in which sigtop was started.
    pub current: Option<PathBuf>,
    /// The embedded files.
    pub embedded: &'static [Embedded],
}

/// A source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path at which it was found.
    pub path: String,
    /// Its lines, safe to display. Line 1 is at index 0.
    pub lines: Box<[Box<str>]>,
    /// The time of its last change, if known.
    pub modified: Option<SystemTime>,
    /// Whether it was truncated.
    pub is_cut: bool,
}

impl SourceFile {
    /// Splits a text into lines.
    pub fn new(path: &str, text: &[u8], modified: Option<SystemTime>) -> SourceFile {
        // A final newline does not begin another line.
        let whole = text.strip_suffix(b"\n").unwrap_or(text);
        let mut lines: Vec<Box<str>> = whole.split(|&byte| byte == b'\n').take(MAX_LINES + 1).map(shown).collect();
        let is_cut = lines.len() > MAX_LINES;
        lines.truncate(MAX_LINES);
        SourceFile { path: sanitize(path), lines: lines.into(), modified, is_cut }
    }

    /// The line with this number, from 1.
    pub fn line(&self, number: u32) -> Option<&str> {
        self.lines.get((number as usize).checked_sub(1)?).map(|line| &**line)
    }

    /// The memory it takes, approximately.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines) + self.lines.iter().map(|line| line.len()).sum::<usize>()
    }
}

/// Makes a line safe to display: expands tabs, replaces control characters, and removes the line
/// end.
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
    sanitize(text.trim_end()).into()
}

impl SourceFinder {
    /// Finds and reads a file that debug information of process `pid` names.
    ///
    /// # Errors
    /// One sentence that names the file and the remedy, if it was not found or cannot be read.
    pub fn open(&self, file: &str, pid: u32) -> Result<SourceFile, String> {
        if file.is_empty() {
            return Err("the debug information does not say which source file it is".to_owned());
        }
        if let Some((_, text)) = self.embedded.iter().find(|(end, _)| Path::new(file).ends_with(end)) {
            return Ok(SourceFile::new(file, text.as_bytes(), None));
        }
        let mut unreadable = None;
        // Errors below /proc/PID may concern the whole process, so they are not reported.
        let process = PathBuf::from(format!("/proc/{pid}"));
        for path in self.places(file, pid) {
            match read(&path) {
                Ok(source) => return Ok(SourceFile { path: name(&path, pid), ..source }),
                Err(Some(cause)) if !path.starts_with(&process) => unreadable = unreadable.or(Some((path, cause))),
                Err(_) => {}
            }
        }
        Err(match unreadable {
            Some((path, cause)) => format!("{} cannot be read ({cause})", name(&path, pid)),
            None => format!("{} is not here: name the directory it is in with --source-path DIR", sanitize(file)),
        })
    }

    /// Returns the candidate paths of a file, the likeliest first.
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

/// Returns a path as the user would write it.
fn name(path: &Path, pid: u32) -> String {
    let ours = path.strip_prefix(format!("/proc/{pid}/root")).map(|path| Path::new("/").join(path));
    let ours = ours.or_else(|_| path.strip_prefix(format!("/proc/{pid}/cwd")).map(Path::to_owned));
    sanitize(&ours.as_deref().unwrap_or(path).to_string_lossy())
}

/// Reads a file. The error is `None` if it does not exist, else the cause.
fn read(path: &Path) -> Result<SourceFile, Option<String>> {
    // Opening a pipe must not block, and a terminal must not become the controlling one.
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
    let source = SourceFile::new("", &bytes, metadata.modified().ok());
    Ok(SourceFile { is_cut: source.is_cut || is_cut, ..source })
}

/// A request for a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRequest {
    /// The path as the debug information names it.
    pub file: String,
    /// A process that runs the program.
    pub pid: u32,
    /// The file whose debug information names it.
    pub module: Option<ModuleFile>,
}

/// The answer to a [`SourceRequest`].
#[derive(Clone, Debug)]
pub struct SourceReply {
    /// The path of the request.
    pub file: String,
    /// The file, or a sentence that says why there is none.
    pub source: Result<Arc<SourceFile>, String>,
}

/// Starts the thread that reads source files, because file systems may be slow. It ends when
/// `requests` is closed. With a client, files that are not here are downloaded by a second thread,
/// and a second reply follows.
///
/// # Errors
/// If the system cannot start a thread.
pub fn spawn(
    sources: SourceFinder,
    servers: Option<DebuginfodClient>,
    requests: Receiver<SourceRequest>,
    replies: Sender<SourceReply>,
) -> io::Result<JoinHandle<()>> {
    let downloads = servers.and_then(|servers| spawn_downloads(servers, replies.clone()));
    let run = move || {
        for request in requests {
            let SourceRequest { file, pid, module } = request;
            let read = catch_panic(|| sources.open(&file, pid))
                .unwrap_or_else(|| Err(format!("{} is unreadable", sanitize(&file))));
            let source = read.or_else(|why| match missing(&file, module.as_ref(), pid) {
                None => Err(why),
                Some(missing) => match missing.read_cached() {
                    Some(source) => Ok(source),
                    None => Err(match &downloads {
                        Some(downloads) if downloads.send((missing, why.clone())).is_ok() => {
                            format!("{} is not here; a debuginfod server is asked for it", sanitize(&file))
                        }
                        _ => why,
                    }),
                },
            });
            if replies.send(SourceReply { file, source: source.map(Arc::new) }).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("sources".to_owned()).spawn(run)
}

/// Starts the thread that downloads source files. It ends with the channel that it returns.
fn spawn_downloads(servers: DebuginfodClient, replies: Sender<SourceReply>) -> Option<Sender<(MissingSource, String)>> {
    // Bounded by the number of files that are shown.
    let (jobs, received) = unbounded::<(MissingSource, String)>();
    let run = move || {
        for (missing, why) in received {
            let fetched = servers.fetch_source(&missing.build_id, &missing.file);
            let source = match fetched.map(|path| read(&path)) {
                Ok(Ok(source)) => Ok(Arc::new(SourceFile { path: sanitize(&missing.file), ..source })),
                Ok(Err(_)) => Err(why),
                Err(failure) => Err(format!("{why}; debuginfod: {failure}")),
            };
            if replies.send(SourceReply { file: missing.file, source }).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("source downloads".to_owned()).spawn(run).ok().map(|_| jobs)
}

/// A source file that is not on this machine, but that a debuginfod server may have.
struct MissingSource {
    file: String,
    build_id: Box<[u8]>,
}

/// Returns how debuginfod's servers know a source file; `None` if they do not.
fn missing(file: &str, module: Option<&ModuleFile>, pid: u32) -> Option<MissingSource> {
    let module = module.filter(|_| Path::new(file).is_absolute())?;
    let build_id = catch_panic(|| object::open(module, pid).ok().map(|elf| elf.build_id())).flatten()?;
    (!build_id.is_empty()).then(|| MissingSource { file: file.to_owned(), build_id })
}

impl MissingSource {
    /// Reads the file from the cache of debuginfod's clients.
    fn read_cached(&self) -> Option<SourceFile> {
        let source = debuginfod::cached_sources(&self.build_id, &self.file).find_map(|path| read(&path).ok())?;
        Some(SourceFile { path: sanitize(&self.file), ..source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_safe_to_display() {
        let long = [vec![b'x'; 1 << 20], b"\nlast".to_vec()].concat();
        let source = SourceFile::new("a.c", &[b"\tint x;\r\na\tb\n\x1b[31m\xff\n".to_vec(), long].concat(), None);
        let lines: Vec<&str> = source.lines.iter().map(|line| &**line).collect();
        assert_eq!(lines[..3], ["    int x;", "a   b", "\u{fffd}[31m\u{fffd}"]);
        assert_eq!((lines[3].chars().count(), lines[4], lines.len()), (MAX_COLUMNS + 1, "last", 5));
        assert_eq!((source.line(0), source.line(2), source.line(6)), (None, Some("a   b"), None));
        assert!(!source.is_cut && SourceFile::new("", &vec![b'\n'; MAX_LINES + 5], None).is_cut);
    }

    #[test]
    fn paths_are_searched_in_order() {
        let sources = SourceFinder {
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
    fn pipes_and_devices_do_not_block() {
        let directory = std::env::temp_dir().join(format!("sigtop-source-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let pipe = directory.join("pipe.c");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), Path::new("/dev/tty"), directory.as_path()] {
            let error = SourceFinder::default().open(&path.to_string_lossy(), std::process::id()).unwrap_err();
            assert!(error.contains("cannot be read") || error.contains("is not here"), "{error}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
