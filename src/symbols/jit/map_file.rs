//! A perf map or jitdump of a process: opened in its mount namespace, and read as it grows.
//!
//! Both lie where everybody may write, under a name that everybody can guess. So a file counts only
//! if it belongs to the owner of the process or to root, is no link, and was written since the
//! process started: an earlier process may have had the same pid.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::Mode;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, geteuid, sysconf};

use super::code_map::{CodeMap, CodePiece};
use super::jitdump::{self, FILE_HEAD, JitdumpReader};
use super::perf_map::{self, MAX_LINE_BYTES};
use crate::process::maps::entries;
use crate::symbols::object;
use crate::symbols::sanitize::MAX_NAME_BYTES;

/// Number of bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Maximum number of bytes that are read of one file.
const MAX_FILE_BYTES: u64 = 4 << 30;
/// Maximum size of a line table that is read.
const MAX_TABLE_BYTES: usize = 1 << 20;
/// Number of bytes before the position read to that are compared, to notice a file written anew.
const TAIL_BYTES: usize = 64;
/// Precision of the comparison of a file's time with the start of its process.
const TIME_PRECISION: Duration = Duration::from_secs(2);

/// A process that may generate code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratingProcess {
    /// The pid in the viewer's namespace.
    pub pid: u32,
    /// The pid in the process's own namespace, by which it names its files. A sampler outside of
    /// the namespace has only that of the viewer.
    pub own_pid: u32,
    /// The start time, in clock ticks since boot.
    pub start_ticks: u64,
}

impl GeneratingProcess {
    /// Returns the identity with the pid of the innermost namespace, which the kernel tells as long
    /// as the process lives.
    pub(super) fn in_own_namespace(self) -> GeneratingProcess {
        let innermost = |pids: &str| pids.split_whitespace().next_back()?.parse().ok();
        let own_pid = status_field(self.pid, "NSpid:").and_then(|pids| innermost(&pids));
        GeneratingProcess { own_pid: own_pid.filter(|_| self.own_pid == self.pid).unwrap_or(self.own_pid), ..self }
    }
}

/// The format of a file.
enum MapFormat {
    PerfMap,
    Jitdump(JitdumpReader),
}

/// An open file and the code that it lists so far.
pub(super) struct MapFile {
    file: File,
    format: MapFormat,
    map: CodeMap,
    position: u64,
    /// Number of bytes behind the position when it was last read.
    pub(super) unread_bytes: u64,
    /// The last bytes before the position.
    tail: Vec<u8>,
}

impl MapFile {
    /// Opens the perf map of a process, if there is one.
    pub(super) fn perf_map(process: &GeneratingProcess) -> Option<MapFile> {
        let file = open_trusted(process, Path::new(&format!("tmp/perf-{}.map", process.own_pid)))?;
        Some(MapFile::new(file, MapFormat::PerfMap, 0))
    }

    /// Opens the jitdump of a process, if there is one. A process that writes one maps it.
    pub(super) fn jitdump(process: &GeneratingProcess) -> Option<MapFile> {
        let path = mapped_jitdump(process)?;
        let file = open_trusted(process, path.strip_prefix("/").unwrap_or(&path))?;
        let mut head = [0; FILE_HEAD];
        file.read_exact_at(&mut head, 0).ok()?;
        let size = jitdump::check_head(&head, process.own_pid)?;
        Some(MapFile::new(file, MapFormat::Jitdump(JitdumpReader::default()), size as u64))
    }

    fn new(file: File, format: MapFormat, position: u64) -> MapFile {
        MapFile { file, format, map: CodeMap::default(), position, unread_bytes: 0, tail: Vec::new() }
    }

    /// Reads what was appended since the last call, as long as it is not `until`. Returns the
    /// addresses of new code.
    pub(super) fn read_more(&mut self, until: Instant) -> Vec<(u64, u64)> {
        let mut changed = Vec::new();
        let whole = self.file.metadata().map_or(0, |metadata| metadata.len());
        let length = whole.min(MAX_FILE_BYTES);
        if length == self.position {
            return changed;
        }
        if !self.continues() {
            // It was written anew.
            if let MapFormat::PerfMap = self.format {
                (self.map, self.position) = (CodeMap::default(), 0);
            }
        }
        let mut wanted = CHUNK_BYTES;
        while self.position < length && Instant::now() < until {
            let bytes = self.bytes_at(self.position, wanted.min((length - self.position) as usize));
            let used = match &mut self.format {
                MapFormat::PerfMap => Ok(perf_map::read(&bytes, self.position, &mut self.map, &mut changed)),
                MapFormat::Jitdump(reader) => reader.read(&bytes, self.position, &mut self.map, &mut changed),
            };
            match used {
                Ok(0) => break,
                Ok(used) => {
                    self.position += used as u64;
                    self.tail = bytes[used.saturating_sub(TAIL_BYTES)..used].to_vec();
                }
                // A record that is larger than a chunk, and complete.
                Err(needed) if needed > bytes.len() && needed as u64 <= length - self.position => wanted = needed,
                Err(_) => break,
            }
        }
        self.unread_bytes = whole.saturating_sub(self.position);
        changed
    }

    /// Whether there is more to read than the last time allowed.
    pub(super) fn has_more(&self) -> bool {
        self.unread_bytes > CHUNK_BYTES as u64 && self.position < MAX_FILE_BYTES
    }

    /// Whether the file still has the bytes that were read last.
    fn continues(&self) -> bool {
        let before = self.position.checked_sub(self.tail.len() as u64);
        before.is_some_and(|at| self.bytes_at(at, self.tail.len()) == self.tail)
    }

    /// The name and the source line of the code at an address: raw name, file, and line.
    pub(super) fn find(&self, address: u64) -> Option<GeneratedCode> {
        let piece = self.map.find(address)?;
        let (limit, end) = match self.format {
            MapFormat::PerfMap => (MAX_LINE_BYTES.min(MAX_NAME_BYTES), b'\n'),
            MapFormat::Jitdump(_) => (MAX_NAME_BYTES, 0),
        };
        let mut name = self.bytes_at(piece.name_at, limit);
        name.truncate(name.iter().position(|&byte| byte == end).unwrap_or(name.len()));
        let line = self.line(piece, address);
        Some(GeneratedCode { name: name.trim_ascii().to_vec(), line })
    }

    fn line(&self, piece: CodePiece, address: u64) -> Option<(Vec<u8>, u32)> {
        let table = self.bytes_at(piece.lines_at?, MAX_TABLE_BYTES);
        let (file, line) = jitdump::line(&table, address.wrapping_sub(piece.moved))?;
        Some((file.to_vec(), line))
    }

    /// Returns at most `count` bytes of the file; fewer at its end.
    fn bytes_at(&self, at: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let mut filled = 0;
        while filled < count {
            match self.file.read_at(&mut bytes[filled..], at + filled as u64) {
                Ok(0) | Err(_) => break,
                Ok(read) => filled += read,
            }
        }
        bytes.truncate(filled);
        bytes
    }
}

/// The code at an address, as a file describes it.
pub(super) struct GeneratedCode {
    /// The name as the compiler wrote it.
    pub(super) name: Vec<u8>,
    /// The source file and the line.
    pub(super) line: Option<(Vec<u8>, u32)>,
}

/// Returns the path of the jitdump that a process maps.
fn mapped_jitdump(process: &GeneratingProcess) -> Option<PathBuf> {
    let maps = object::read_maps(Path::new(&format!("/proc/{}", process.pid))).ok()?;
    let path = entries(&maps).map(|entry| entry.path).find(|path| is_jitdump(path, process.own_pid))?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

/// Whether the name of a file is that of the jitdump of a process: `jit-PID.dump`, and with the
/// number of the thread `jit-TID-PID.dump`, which Bun writes.
fn is_jitdump(path: &[u8], pid: u32) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let numbers = name.strip_prefix(b"jit-").and_then(|name| name.strip_suffix(b".dump"));
    let Some(numbers) = numbers.and_then(|numbers| std::str::from_utf8(numbers).ok()) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (thread, process) = numbers.rsplit_once('-').unwrap_or(("0", numbers));
    is_number(thread) && process == pid.to_string()
}

/// Opens a file below the root directory of a process, or of sigtop if the process is gone.
fn open_trusted(process: &GeneratingProcess, path: &Path) -> Option<File> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = open(&PathBuf::from(format!("/proc/{}/root", process.pid)), flags, Mode::empty());
    let root = root.or_else(|_| open("/", flags, Mode::empty())).ok()?;
    // Opening a pipe must not block, and a terminal must not become the controlling one.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    // A link in the process's tree leads into that tree.
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let file = match openat2(&root, path, how) {
        // Kernels before 5.6, and sandboxes that do not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => openat(&root, path, flags, Mode::empty()),
        file => file,
    };
    let file = File::from(file.ok()?);
    let metadata = file.metadata().ok()?;
    let is_owned = metadata.uid() == 0 || metadata.uid() == owner(process.pid);
    let modified = metadata.modified().ok()?;
    let is_current = started(process).is_none_or(|started| modified + TIME_PRECISION >= started);
    (metadata.is_file() && is_owned && is_current).then_some(file)
}

/// The effective user of a process, or of sigtop if the process is gone.
fn owner(pid: u32) -> u32 {
    let ids = status_field(pid, "Uid:");
    let effective = ids.and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    effective.unwrap_or_else(|| geteuid().as_raw())
}

/// Returns what follows a word at the start of a line of a process's status.
fn status_field(pid: u32, name: &str) -> Option<String> {
    let mut status = String::new();
    File::open(format!("/proc/{pid}/status")).ok()?.take(64 << 10).read_to_string(&mut status).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
}

/// The time at which a process started.
fn started(process: &GeneratingProcess) -> Option<SystemTime> {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok()??.max(1) as u64;
    let up = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let since_boot = Duration::from_millis(process.start_ticks.checked_mul(1000)? / ticks);
    UNIX_EPOCH.checked_add(now.checked_sub(up.checked_sub(since_boot)?)?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    /// This process, with a pid of its own for the names of files.
    fn process(number: u32) -> (GeneratingProcess, PathBuf) {
        let own_pid = 1_000_000_000 + std::process::id() * 16 + number;
        let path = PathBuf::from(format!("/tmp/perf-{own_pid}.map"));
        let _ = fs::remove_file(&path);
        (GeneratingProcess { pid: std::process::id(), own_pid, start_ticks: 0 }, path)
    }

    /// Bun writes one for each thread that generates code.
    #[test]
    fn jitdumps_have_the_pid_in_their_names() {
        for name in ["/tmp/jit-12.dump", "/home/a/jit-4711-12.dump"] {
            assert!(is_jitdump(name.as_bytes(), 12), "{name}");
        }
        for name in [
            "/tmp/jit-112.dump",
            "/tmp/jit-12-13.dump",
            "/tmp/jit-a-12.dump",
            "/tmp/jit--12.dump",
            "/tmp/jit-.dump",
            "/tmp/12.dump",
        ] {
            assert!(!is_jitdump(name.as_bytes(), 12), "{name}");
        }
    }

    #[test]
    fn a_process_in_no_other_namespace_has_one_pid() {
        let own = GeneratingProcess { pid: std::process::id(), own_pid: std::process::id(), start_ticks: 0 };
        assert_eq!(own.in_own_namespace(), own);
        let known = GeneratingProcess { own_pid: 7, ..own };
        assert_eq!(known.in_own_namespace(), known, "the agent tells it");
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Regression test: a map of 10 GB was read to its end before anything else.
    #[test]
    fn a_large_map_is_read_piece_by_piece() {
        let (process, path) = process(3);
        fs::write(&path, "1000 10 first\n").unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(10 << 30).unwrap();
        let mut file = MapFile::perf_map(&process).expect("our own file");
        assert_eq!((file.read_more(Instant::now()), file.has_more()), (Vec::new(), true), "no time is left");
        while file.position == 0 {
            file.read_more(Instant::now() + Duration::from_millis(1));
        }
        assert_eq!(name(&file, 0x1000).as_deref(), Some("first"));
        assert!(file.has_more() && file.unread_bytes == (10 << 30) - file.position);
        fs::remove_file(&path).unwrap();
    }

    fn name(file: &MapFile, address: u64) -> Option<String> {
        file.find(address).map(|code| String::from_utf8(code.name).expect("text"))
    }

    #[test]
    fn a_map_is_read_as_it_grows_and_anew_when_it_was_rewritten() {
        let (process, path) = process(0);
        assert!(MapFile::perf_map(&process).is_none());
        fs::write(&path, "1000 10 first\n2000 10 sec").unwrap();
        let mut file = MapFile::perf_map(&process).expect("our own file");
        assert_eq!(file.read_more(soon()), [(0x1000, 0x1010)]);
        assert_eq!(name(&file, 0x2000), None, "half a line");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"ond\n1000 8 third\n").unwrap();
        assert_eq!(file.read_more(soon()), [(0x2000, 0x2010), (0x1000, 0x1008)]);
        let names = [0x1000, 0x1008, 0x200f].map(|address| name(&file, address));
        assert_eq!(names, ["third", "first", "second"].map(|name| Some(name.to_owned())));
        assert_eq!(file.read_more(soon()), []);

        fs::write(&path, "5000 10 other, and long enough to go on where the first ended\n").unwrap();
        file.read_more(soon());
        assert_eq!((name(&file, 0x1000), name(&file, 0x2000)), (None, None));
        assert!(name(&file, 0x5000).expect("a name").starts_with("other"));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn links_strangers_and_leftovers_are_not_read() {
        let (link, path) = process(1);
        let aim = path.with_extension("aim");
        fs::write(&aim, "1000 10 aim\n").unwrap();
        std::os::unix::fs::symlink(&aim, &path).unwrap();
        assert!(MapFile::perf_map(&link).is_none(), "a link");
        fs::remove_file(&path).unwrap();

        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        assert!(MapFile::perf_map(&link).is_none(), "a pipe");
        fs::remove_file(&path).unwrap();

        fs::rename(&aim, &path).unwrap();
        // The file is older than a process that starts now, and younger than the machine's start.
        let up = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap());
        let modified = SystemTime::now() - up / 2;
        OpenOptions::new().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert!(MapFile::perf_map(&link).is_some());
        let now = GeneratingProcess { start_ticks: up.as_secs() * 100, ..link };
        assert!(MapFile::perf_map(&now).is_none(), "of an earlier process");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            assert!(MapFile::perf_map(&link).is_none(), "of another user");
        }
        fs::remove_file(&path).unwrap();
    }
}
