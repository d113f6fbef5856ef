//! What `/proc` says of a process: state, owner, signals, CPU time, family. Everything here may be out of date when it is
//! read; a pid is one process only together with its start time.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::sys::time::TimeValLike;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// Bytes of a file in `/proc` that are read: maps of 65 530 mappings with long paths stay below.
const MAX_FILE: u64 = 64 << 20;
/// Threads of a process that are asked for their children.
const MAX_ASKED: usize = 64;
/// Of [`Stat::flags`]: a thread of the kernel (PF_KTHREAD).
const KERNEL_THREAD: u32 = 0x0020_0000;

/// A line of `/proc/PID/stat` or `/proc/PID/task/TID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name, at most 15 bytes of anything.
    pub comm: String,
    /// Letter of the state: R, S, D, T, t, Z, X, I.
    pub state: u8,
    /// Parent's pid.
    pub parent: u32,
    flags: u32,
    /// User CPU time, clock ticks.
    pub user_ticks: u64,
    /// System CPU time, clock ticks.
    pub system_ticks: u64,
    /// Threads of the process that are not reaped.
    pub threads: u64,
    /// When it started, clock ticks since boot.
    pub start_ticks: u64,
}

impl Stat {
    /// Of a process.
    pub fn of(pid: u32) -> io::Result<Stat> {
        Stat::read(&format!("/proc/{pid}/stat"))
    }

    /// Of one of its threads.
    pub fn of_thread(pid: u32, tid: u32) -> io::Result<Stat> {
        Stat::read(&format!("/proc/{pid}/task/{tid}/stat"))
    }

    fn read(path: &str) -> io::Result<Stat> {
        let line = contents(path)?;
        Stat::parse(&line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an unknown form of stat"))
    }

    /// The name may hold blanks and parentheses: it ends at the last one.
    pub(super) fn parse(line: &[u8]) -> Option<Stat> {
        let open = line.iter().position(|&byte| byte == b'(')?;
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let comm = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok(); // numbered as in proc(5)
        Some(Stat {
            comm,
            state: *fields.first()?.as_bytes().first()?,
            parent: number(4)? as u32,
            flags: number(9)? as u32,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            threads: number(20)?,
            start_ticks: number(22)?,
        })
    }

    /// This thread has ended, and nobody has asked how.
    pub fn is_ended_thread(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// The process has ended, and its parent has not asked how. Its first thread may have ended long before it.
    pub fn is_dead(&self) -> bool {
        self.is_ended_thread() && self.threads <= 1
    }

    /// It has no program.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }
}

/// Of `/proc/PID/status` or `/proc/PID/task/TID/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The process that a thread belongs to.
    pub process: u32,
    /// Real, effective, saved and file system user id.
    pub users: [u32; 4],
    /// Bit n−1: signal n has a handler.
    pub caught: u64,
    /// Bit n−1: signal n is blocked in this thread.
    pub blocked: u64,
    /// A seccomp mode other than 0.
    pub confined: bool,
}

impl Status {
    /// Of a process: of its first thread, which may have ended before the others.
    pub fn of(pid: u32) -> io::Result<Status> {
        Ok(Status::parse(&contents(&format!("/proc/{pid}/status"))?))
    }

    /// Of one of its threads.
    pub fn of_thread(pid: u32, tid: u32) -> io::Result<Status> {
        Ok(Status::parse(&contents(&format!("/proc/{pid}/task/{tid}/status"))?))
    }

    fn parse(text: &[u8]) -> Status {
        let mut status = Status::default();
        for line in String::from_utf8_lossy(text).lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match name {
                "Tgid" => status.process = value.parse().unwrap_or_default(),
                "Uid" => {
                    for (place, user) in status.users.iter_mut().zip(value.split_whitespace()) {
                        *place = user.parse().unwrap_or(u32::MAX);
                    }
                }
                "SigCgt" => status.caught = u64::from_str_radix(value, 16).unwrap_or_default(),
                "SigBlk" => status.blocked = u64::from_str_radix(value, 16).unwrap_or_default(),
                "Seccomp" => status.confined = value != "0",
                _ => {}
            }
        }
        status
    }
}

/// All processes.
pub fn processes() -> Vec<u32> {
    numbers("/proc")
}

/// The threads of a process.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

fn numbers(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The arguments of a process; none for a dead one and for the kernel's.
pub fn command_line(pid: u32) -> Vec<OsString> {
    // Asked of every thread: the first one has no memory to show once it has ended.
    let of_thread = |tid| contents(&format!("/proc/{pid}/task/{tid}/cmdline")).ok().filter(|bytes| !bytes.is_empty());
    let bytes = threads(pid).into_iter().find_map(of_thread).unwrap_or_default();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// The command that starts a process like this one again. A program that has written a title over
/// its arguments (`postgres: checkpointer`) is named by its file, and its arguments are not known.
pub fn command_to_start_again(pid: u32) -> Vec<OsString> {
    let words = command_line(pid);
    let is_title = words.first().is_some_and(|word| {
        let is_file = Path::new(&format!("/proc/{pid}/cwd")).join(word).exists();
        word.as_encoded_bytes().contains(&b' ') && !is_file
    });
    let file = fs::read_link(format!("/proc/{pid}/exe")).ok().filter(|_| is_title);
    file.map_or(words, |file| vec![file.into_os_string()])
}

/// How often the first thread of a process was put on a CPU: the third word of
/// `/proc/PID/schedstat`. `None` if it cannot be read.
pub fn times_scheduled(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// Whether a thread sleeps in a system call that the kernel makes again after a handler with
/// `SA_RESTART`, by its number and, for a futex, without a time limit. See signal(7). False for a
/// thread that runs, and where `/proc/PID/task/TID/syscall` cannot be read.
pub fn sleeps_restartably(pid: u32, tid: u32) -> bool {
    const FOREVER: &str = "0x0";
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
    let mut words = text.split_ascii_whitespace();
    let number = words.next().and_then(|number| number.parse::<i64>().ok());
    match number {
        Some(libc::SYS_futex) => words.nth(3) == Some(FOREVER),
        Some(number) => {
            [libc::SYS_wait4, libc::SYS_waitid, libc::SYS_flock, libc::SYS_open, libc::SYS_openat].contains(&number)
        }
        None => false,
    }
}

/// CPU time of a process so far, user and system, its ended threads included, ns.
pub fn cpu_ns(pid: u32) -> Option<u64> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid as i32)).ok()?;
    u64::try_from(clock.now().ok()?.num_nanoseconds()).ok()
}

/// The living children of a process, theirs, and so on, each after its parent. Whoever has lost its parent is not found.
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
        // A pid used again in the meantime cannot make a circle.
        found.extend(children(parent)?.into_iter().filter(|&child| seen.insert(child)));
        next += 1;
    }
    Some(found.split_off(1))
}

/// The living children of a process, as the kernel lists them; `None` where it does not, or where there are so many threads to be asked that
/// looking at all processes is less work. /proc/PID/task/TID/children
fn children(pid: u32) -> Option<Vec<u32>> {
    let threads = threads(pid);
    if threads.len() > MAX_ASKED {
        return None;
    }
    let mut found = Vec::new();
    for tid in threads {
        let task = format!("/proc/{pid}/task/{tid}");
        match contents(&format!("{task}/children")) {
            Ok(list) => {
                let words = list.split(|&byte| byte == b' ');
                found.extend(words.filter_map(|word| str::from_utf8(word).ok()?.parse::<u32>().ok()));
            }
            Err(_) if !Path::new(&task).exists() => {}
            Err(_) => return None,
        }
    }
    found.retain(|&child| Stat::of(child).is_ok_and(|stat| !stat.is_dead()));
    found.sort_unstable();
    Some(found)
}

/// The living children of every process, by a look at all.
fn children_of_all() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for process in processes() {
        if let Ok(stat) = Stat::of(process)
            && !stat.is_dead()
        {
            children.entry(stat.parent).or_default().push(process);
        }
    }
    children
}

/// Whether any thread's mappings hold a line that `wanted` accepts. The first thread's are empty once it has ended.
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
    // As long as most of them: each read less is a system call less.
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
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state, stat.parent), ("a) R 9 (b", b'S', 1));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.start_ticks), (11, 22, 3333));
        assert!(!stat.is_kernel_thread() && !stat.is_dead());
        let of = |state: &str, threads: &str| {
            Stat::parse(format!("7 (a) {state} 1 7 7 0 7 64 0 0 0 0 1 2 0 0 20 0 {threads} 0 3").as_bytes()).unwrap()
        };
        assert!(of("Z", "1").is_dead() && of("X", "0").is_dead());
        assert!(!of("Z", "2").is_dead() && of("Z", "2").is_ended_thread());
        for cut in 0..line.len() - 8 {
            assert_eq!(Stat::parse(&line[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_program_with_a_title_is_started_again_by_its_file() {
        use std::os::unix::process::CommandExt;
        let sleeper = |title: &str| {
            let mut command = std::process::Command::new("sleep");
            let child = command.arg0(title).arg("60").spawn().unwrap();
            // The kernel lets the parent go on before the arguments are in place.
            while command_line(child.id()).is_empty() {
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
    fn this_process_is_as_it_knows_itself() {
        let own = std::process::id();
        let (stat, status) = (Stat::of(own).unwrap(), Status::of(own).unwrap());
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
        let ticks = Stat::of(own).unwrap();
        assert!(ticks.user_ticks + ticks.system_ticks > 0);
        assert!(maps_hold(own, |line| line.ends_with(b"[stack]")).unwrap());
    }
}
