//! Reads `/proc`: state, owner, signals, CPU time and children of processes. Every value may be out
//! of date when it is read. Only a pid together with a start time identifies a process.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::wire::{BlockingCall, MAX_PATH, Schedule, link_of_program};

/// Maximum number of bytes read from a file in `/proc`: enough for the maps of 65 530 mappings with
/// long paths.
const MAX_FILE: u64 = 64 << 20;
/// Maximum number of threads whose lists of children are read.
const MAX_ASKED: usize = 64;
/// The bit of [`ProcStat::flags`] for a kernel thread (PF_KTHREAD).
const KERNEL_THREAD: u32 = 0x0020_0000;
/// Flag of threads that end.
const EXITING: u32 = 4;
/// The bit of SIGKILL among signals.
const SIGKILL: u64 = 1 << 8;
/// The bit for a thread of a process that runs in the kernel alone, for io_uring (PF_IO_WORKER).
const IO_WORKER: u32 = 0x10;

/// A line of `/proc/PID/stat` or `/proc/PID/task/TID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStat {
    /// The name: at most 15 bytes of any value.
    pub comm: String,
    /// The letter of the state: R, S, D, T, t, Z, X or I.
    pub state: u8,
    /// Parent's pid.
    pub parent: u32,
    flags: u32,
    /// User CPU time in clock ticks.
    pub user_ticks: u64,
    /// System CPU time in clock ticks.
    pub system_ticks: u64,
    /// CPU time of reaped children and their reaped descendants, in clock ticks.
    pub reaped_ticks: u64,
    /// Number of threads of the process that are not reaped.
    pub threads: u64,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// Address of the bottom of the stack, which an exec changes; 0 if it may not be read.
    pub stack_start: u64,
    /// Signals for this thread that it has not taken yet: bit n−1 is signal n, up to 31.
    pending: u64,
}

impl ProcStat {
    /// Reads the `stat` of a process.
    pub fn of(pid: u32) -> io::Result<ProcStat> {
        ProcStat::read(&format!("/proc/{pid}/stat"))
    }

    /// Reads that of one of its threads.
    pub fn of_thread(pid: u32, tid: u32) -> io::Result<ProcStat> {
        ProcStat::read(&format!("/proc/{pid}/task/{tid}/stat"))
    }

    fn read(path: &str) -> io::Result<ProcStat> {
        let line = contents(path)?;
        ProcStat::parse(&line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an unknown form of stat"))
    }

    /// Parses a line. The name may contain blanks and parentheses; it ends at the last parenthesis.
    pub(super) fn parse(line: &[u8]) -> Option<ProcStat> {
        let open = line.iter().position(|&byte| byte == b'(')?;
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let comm = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok(); // numbered as in proc(5)
        Some(ProcStat {
            comm,
            state: *fields.first()?.as_bytes().first()?,
            parent: number(4)? as u32,
            flags: number(9)? as u32,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            reaped_ticks: number(16)?.saturating_add(number(17)?),
            threads: number(20)?,
            start_ticks: number(22)?,
            stack_start: number(28).unwrap_or_default(),
            pending: number(31).unwrap_or_default(),
        })
    }

    /// Returns whether the thread has ended and was not reaped.
    pub fn is_ended_thread(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Returns whether the thread ends, or is about to with its whole process.
    pub fn is_ending(&self) -> bool {
        self.is_ended_thread() || self.flags & EXITING != 0 || self.pending & SIGKILL != 0
    }

    /// Returns whether the process has ended and was not reaped. Its first thread may have ended
    /// long before it.
    pub fn is_dead(&self) -> bool {
        self.is_ended_thread() && self.threads <= 1
    }

    /// Returns whether the first thread has ended and others live on.
    pub fn has_lost_first_thread(&self) -> bool {
        self.is_ended_thread() && self.threads > 1
    }

    /// Returns whether this is a kernel thread, which has no program.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Returns whether this thread of a process runs in the kernel alone, for io_uring.
    pub fn is_io_worker(&self) -> bool {
        self.flags & IO_WORKER != 0
    }
}

/// Returns whether `/proc` hides the processes of other users from this one (hidepid): the first
/// process of every namespace is there always.
pub fn hides_others() -> bool {
    !Path::new("/proc/1").exists() && Path::new("/proc/self").exists()
}

/// A process, and not a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    /// Its pid.
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub start_ticks: u64,
}

impl ProcessIdentity {
    /// The process that has this pid now.
    pub fn of(pid: u32) -> io::Result<ProcessIdentity> {
        Ok(ProcessIdentity { pid, start_ticks: ProcStat::of(pid)?.start_ticks })
    }

    /// Returns whether the process is still there, if only as a zombie.
    pub fn exists(self) -> bool {
        ProcessIdentity::of(self.pid).is_ok_and(|now| now == self)
    }
}

/// Fields of `/proc/PID/status` or `/proc/PID/task/TID/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcStatus {
    /// The pid of the process that the thread belongs to.
    pub process: u32,
    /// The thread that traces this one; 0 if none does.
    pub tracer: u32,
    /// The real, effective, saved and file-system user ids.
    pub users: [u32; 4],
    /// Signals with a handler: bit n−1 is signal n.
    pub caught: u64,
    /// Signals that this thread blocks: bit n−1 is signal n.
    pub blocked: u64,
    /// Whether the seccomp mode is other than 0.
    pub confined: bool,
    /// Number of seccomp filters; 0 where the kernel does not tell (before Linux 5.9).
    pub filters: u32,
    /// Number of times that it has left its CPU to wait for something.
    pub waits: u64,
}

impl ProcStatus {
    /// Reads the `status` of a process: that of its first thread, which may have ended before the
    /// others.
    pub fn of(pid: u32) -> io::Result<ProcStatus> {
        Ok(ProcStatus::parse(&contents(&format!("/proc/{pid}/status"))?))
    }

    /// Reads that of one of its threads.
    pub fn of_thread(pid: u32, tid: u32) -> io::Result<ProcStatus> {
        Ok(ProcStatus::parse(&contents(&format!("/proc/{pid}/task/{tid}/status"))?))
    }

    fn parse(text: &[u8]) -> ProcStatus {
        let mut status = ProcStatus::default();
        for line in String::from_utf8_lossy(text).lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match name {
                "Tgid" => status.process = value.parse().unwrap_or_default(),
                "TracerPid" => status.tracer = value.parse().unwrap_or_default(),
                "Uid" => {
                    for (place, user) in status.users.iter_mut().zip(value.split_whitespace()) {
                        *place = user.parse().unwrap_or(u32::MAX);
                    }
                }
                "SigCgt" => status.caught = u64::from_str_radix(value, 16).unwrap_or_default(),
                "SigBlk" => status.blocked = u64::from_str_radix(value, 16).unwrap_or_default(),
                "Seccomp" => status.confined = value != "0",
                "Seccomp_filters" => status.filters = value.parse().unwrap_or_default(),
                "voluntary_ctxt_switches" => status.waits = value.parse().unwrap_or_default(),
                _ => {}
            }
        }
        status
    }
}

/// Returns the pids of all processes.
pub fn processes() -> Vec<u32> {
    numbers("/proc")
}

/// Returns the tids of a process's threads.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// Returns a thread that shows the memory of its process in `/proc`: the first one, which has the
/// process's pid, or another one if that has ended.
pub fn thread_with_memory(pid: u32) -> u32 {
    let lives = |tid: &u32| ProcStat::of_thread(pid, *tid).is_ok_and(|stat| !stat.is_ended_thread());
    let others = || threads(pid).into_iter().find(lives);
    if lives(&pid) { pid } else { others().unwrap_or(pid) }
}

fn numbers(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the arguments of a process; none for a dead process and for a kernel thread.
pub fn command_line(pid: u32) -> Vec<OsString> {
    // Every thread is tried: the first has no memory to read once it has ended.
    let of_thread = |tid| contents(&format!("/proc/{pid}/task/{tid}/cmdline")).ok().filter(|bytes| !bytes.is_empty());
    let bytes = threads(pid).into_iter().find_map(of_thread).unwrap_or_default();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// Returns the path by which the process's program at `file` was started, if that is a link beside
/// the file. `argv` are its arguments, each ended by a NUL.
pub fn program_link(pid: u32, file: &[u8], argv: &[u8]) -> Option<Vec<u8>> {
    let mut path = vec![0; MAX_PATH];
    let length = link_of_program(file, argv, &mut path)?;
    path.truncate(length);
    let inode = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let inside = [format!("/proc/{pid}/root").as_bytes(), &path].concat();
    let is_same = inode(Path::new(OsStr::from_bytes(&inside)))? == inode(Path::new(&format!("/proc/{pid}/exe")))?;
    is_same.then_some(path)
}

/// Returns a command that starts such a process again. A program that has written a title over its
/// arguments (`postgres: checkpointer`) is named by its file, without arguments.
pub fn command_to_start_again(pid: u32) -> Vec<OsString> {
    let words = command_line(pid);
    let is_title = words.first().is_some_and(|word| {
        let is_file = Path::new(&format!("/proc/{pid}/cwd")).join(word).exists();
        word.as_encoded_bytes().contains(&b' ') && !is_file
    });
    let file = fs::read_link(format!("/proc/{pid}/exe")).ok().filter(|_| is_title);
    file.map_or(words, |file| vec![file.into_os_string()])
}

/// Returns the value of a variable in the environment that a process was started with; `None` if it
/// was not set, or the environment cannot be read.
pub fn environment(pid: u32, name: &str) -> Option<OsString> {
    let bytes = contents(&format!("/proc/{pid}/environ")).ok()?;
    let value = |entry: &[u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
    bytes.split(|&byte| byte == 0).find_map(value).map(OsString::from_vec)
}

/// Returns whether the loader of a process ignores its environment (AT_SECURE).
pub fn is_secure(pid: u32) -> bool {
    const AT_SECURE: u64 = 23;
    let bytes = contents(&format!("/proc/{pid}/auxv")).unwrap_or_default();
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    words.chunks_exact(2).any(|entry| entry[0] == AT_SECURE && entry[1] != 0)
}

/// Returns the name of a signal, or `signal NUMBER`.
pub fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}

/// Returns the scheduler's figures of the first thread of a process. `None` if they cannot be read.
pub fn schedule(pid: u32) -> Option<Schedule> {
    Schedule::parse(&contents(&format!("/proc/{pid}/schedstat")).ok()?)
}

/// Returns whether a thread sleeps in a system call that the kernel restarts after a handler with
/// `SA_RESTART`: by the call's number and, for a futex, without a time limit. See signal(7). False
/// for a running thread, and where `/proc/PID/task/TID/syscall` cannot be read.
pub fn sleeps_restartably(pid: u32, tid: u32) -> bool {
    contents(&format!("/proc/{pid}/task/{tid}/syscall")).is_ok_and(|line| BlockingCall::is_restartable(&line))
}

/// Returns the CPU time that a process has used so far, user and system, its ended threads
/// included, in ns.
pub fn cpu_ns(pid: u32) -> Option<u64> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid as i32)).ok()?;
    u64::try_from(clock.now().ok()?.num_nanoseconds()).ok()
}

/// The length of a clock tick of `/proc`, ns.
fn tick_ns() -> u64 {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|ticks| u64::try_from(ticks).ok());
    1_000_000_000 / ticks.unwrap_or(100).max(1)
}

/// Returns the time since a process started that did so at `start_ticks`, see
/// [`ProcStat::start_ticks`].
pub fn time_since(start_ticks: u64) -> Option<Duration> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).ok()?;
    now.checked_sub(Duration::from_nanos(start_ticks.saturating_mul(tick_ns())))
}

/// Returns the CPU time of a process and of its reaped descendants, in ns.
pub fn cpu_with_reaped_ns(pid: u32) -> Option<u64> {
    let tick_ns = tick_ns();
    let reaped_ns = ProcStat::of(pid).ok()?.reaped_ticks.saturating_mul(tick_ns);
    Some(cpu_ns(pid)?.saturating_add(reaped_ns))
}

/// Returns the living descendants of a process, each after its parent. A process that has lost its
/// parent is not found.
pub fn descendants(pid: u32) -> Vec<u32> {
    descendants_by(pid, children).unwrap_or_else(|| {
        let mut all = children_of_all();
        descendants_by(pid, |parent| Some(all.remove(&parent).unwrap_or_default())).unwrap_or_default()
    })
}

fn descendants_by(pid: u32, mut children: impl FnMut(u32) -> Option<Vec<u32>>) -> Option<Vec<u32>> {
    let (mut found, mut seen) = (vec![pid], HashSet::from([pid]));
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        // A reused pid must not make a cycle.
        found.extend(children(parent)?.into_iter().filter(|&child| seen.insert(child)));
        next += 1;
    }
    Some(found.split_off(1))
}

/// Returns the living children of a process as the kernel lists them. `None` where the kernel does
/// not, or where so many threads would have to be read that a scan of all processes is cheaper.
/// /proc/PID/task/TID/children
fn children(pid: u32) -> Option<Vec<u32>> {
    let threads = threads(pid);
    if threads.len() > MAX_ASKED {
        return None;
    }
    let mut found = Vec::new();
    for tid in threads {
        match children_of_thread(pid, tid) {
            Ok(children) => found.extend(children),
            Err(_) if !Path::new(&format!("/proc/{pid}/task/{tid}")).exists() => {}
            Err(_) => return None,
        }
    }
    found.retain(|&child| ProcStat::of(child).is_ok_and(|stat| !stat.is_dead()));
    found.sort_unstable();
    Some(found)
}

/// Returns whether `/proc` is mounted in the root directory of a process, as far as that can be
/// seen. The link `self` is not followed: from another pid namespace it leads nowhere.
pub fn sees_proc(pid: u32) -> bool {
    match fs::symlink_metadata(format!("/proc/{pid}/root/proc/self")) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Returns the children of one thread as the kernel lists them, also those that have ended.
///
/// # Errors
/// If the thread has ended, or the kernel keeps no such list.
pub fn children_of_thread(pid: u32, tid: u32) -> io::Result<Vec<u32>> {
    let list = contents(&format!("/proc/{pid}/task/{tid}/children"))?;
    let words = list.split(|&byte| byte == b' ');
    Ok(words.filter_map(|word| str::from_utf8(word).ok()?.parse().ok()).collect())
}

/// Returns the living children of every process, from a scan of all processes.
fn children_of_all() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for process in processes() {
        if let Ok(stat) = ProcStat::of(process)
            && !stat.is_dead()
        {
            children.entry(stat.parent).or_default().push(process);
        }
    }
    children
}

/// Returns whether `maps` has a line that `wanted` accepts. The file is read through any thread, as
/// the first thread's is empty once it has ended.
pub(super) fn maps_hold(pid: u32, wanted: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
    let mut outcome = Ok(false);
    for tid in threads(pid) {
        let file = match File::open(format!("/proc/{pid}/task/{tid}/maps")) {
            Ok(file) => file,
            Err(error) => {
                outcome = Err(error);
                continue;
            }
        };
        let mut lines = BufReader::new(file.take(MAX_FILE)).split(b'\n').map_while(Result::ok).peekable();
        if lines.peek().is_some() {
            return Ok(lines.any(|line| wanted(&line)));
        }
    }
    outcome
}

fn contents(path: &str) -> io::Result<Vec<u8>> {
    // Most files fit, so one read suffices.
    let mut bytes = Vec::with_capacity(1024);
    File::open(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let line = b"7 (a) R 9 (b) S 1 7 7 34816 7 4194304 107 0 0 0 11 22 0 0 20 0 1 0 3333 0 0";
        let stat = ProcStat::parse(line).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state, stat.parent), ("a) R 9 (b", b'S', 1));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.start_ticks), (11, 22, 3333));
        assert!(!stat.is_kernel_thread() && !stat.is_dead());
        let of = |state: &str, threads: &str| {
            ProcStat::parse(format!("7 (a) {state} 1 7 7 0 7 64 0 0 0 0 1 2 0 0 20 0 {threads} 0 3").as_bytes())
                .unwrap()
        };
        assert!(of("Z", "1").is_dead() && of("X", "0").is_dead());
        assert!(!of("Z", "2").is_dead() && of("Z", "2").is_ended_thread());
        let ends = |flags: u32, pending: u32| {
            let line = format!("7 (a) S 1 7 7 0 7 {flags} 0 0 0 0 1 2 0 0 20 0 9 0 3 0 0 0 0 0 0 0 0 {pending} 0");
            ProcStat::parse(line.as_bytes()).unwrap().is_ending()
        };
        assert_eq!(
            [ends(64, 0), ends(64 | EXITING, 0), ends(64, 1 << 8), ends(64, 1 << 9)],
            [false, true, true, false]
        );
        assert!(of("Z", "2").is_ending());
        for cut in 0..line.len() - 8 {
            assert_eq!(ProcStat::parse(&line[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_program_with_a_title_is_started_again_by_its_file() {
        use std::os::unix::process::CommandExt;
        let sleeper = |title: &str| {
            let mut command = std::process::Command::new("sleep");
            let child = command.arg0(title).arg("60").spawn().unwrap();
            // The kernel lets the parent go on before the arguments are in place.
            while command_line(child.id()).first().is_none_or(|name| name != title) {
                std::thread::yield_now();
            }
            child
        };
        let (mut titled, mut plain) = (sleeper("postgres: checkpointer "), sleeper("sleep"));
        let of_titled = command_to_start_again(titled.id());
        assert_eq!(of_titled, [fs::read_link(format!("/proc/{}/exe", titled.id())).unwrap().into_os_string()]);
        assert_eq!(command_to_start_again(plain.id()), ["sleep", "60"]);
        for child in [&mut titled, &mut plain] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn proc_agrees_with_this_process_about_itself() {
        let own = std::process::id();
        let (stat, status) = (ProcStat::of(own).unwrap(), ProcStatus::of(own).unwrap());
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert_eq!((status.process, status.users[1]), (own, nix::unistd::geteuid().as_raw()));
        assert!(threads(own).len() >= 2 && processes().contains(&own));
        assert!(command_line(own).into_iter().eq(std::env::args_os()));
        assert!(descendants(stat.parent).contains(&own));
        assert!(children(stat.parent).is_none_or(|children| children.contains(&own)));
        assert!(children_of_all()[&stat.parent].contains(&own));
        let before = cpu_ns(own).unwrap();
        while cpu_ns(own).unwrap() < before + 20_000_000 {
            std::hint::black_box(before);
        }
        let ticks = ProcStat::of(own).unwrap();
        assert!(ticks.user_ticks + ticks.system_ticks > 0);
        assert!(maps_hold(own, |line| line.ends_with(b"[stack]")).unwrap());
    }
}
