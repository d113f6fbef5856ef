//! Finds running processes that can be watched: those that carry the agent, and those that the
//! kernel lets this user trace. Explains for any other pid why it cannot be watched. The mapping of
//! its library is all that shows the agent: an unwatched one has no thread,
//! no socket and no file.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::geteuid;

use super::error::AttachError;
use super::error::Refusal;
use super::proc::{ProcStat, ProcStatus, command_line, maps_hold, processes, sees_proc};
use super::program::elf;
use super::{library, quote, rights};

/// Polling interval where the kernel cannot report the end of a process (before 5.3).
const LOOK: Duration = Duration::from_millis(100);

/// The way in which a running process is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMethod {
    /// The process carries the agent, which is woken.
    Agent,
    /// The process is sampled from outside.
    External,
}

impl WatchMethod {
    /// A label of one or two words.
    pub fn label(self) -> &'static str {
        match self {
            WatchMethod::Agent => "agent",
            WatchMethod::External => "from outside",
        }
    }
}

/// A running process that can be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachableProcess {
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Its arguments.
    pub command_line: Vec<OsString>,
    /// Its effective user.
    pub uid: u32,
    /// Start time in clock ticks since boot. It distinguishes the process from a later one with the
    /// same pid.
    pub start_ticks: u64,
    /// Whether the process has restricted its system calls (seccomp). Its agent cannot be woken
    /// safely then.
    pub confined: bool,
    /// The way in which the process is watched.
    pub method: WatchMethod,
}

/// Returns all processes that can be watched, by pid.
pub fn attachable_processes() -> Vec<AttachableProcess> {
    processes().into_iter().filter_map(|pid| check(pid).ok()).collect()
}

/// Checks that a process may be sampled from outside, whether or not it carries the agent.
///
/// # Errors
/// As for [`check`].
pub fn check_external(pid: u32) -> Result<AttachableProcess, AttachError> {
    let process = check(pid)?;
    may_trace(pid)?;
    Ok(AttachableProcess { method: WatchMethod::External, ..process })
}

/// Checks that the kernel lets this user trace a process.
fn may_trace(pid: u32) -> Result<(), AttachError> {
    rights::check(pid).map_err(|cause| AttachError::NotWatchable { pid, refusal: Refusal::NotTraceable, cause })
}

/// Checks that a process may be watched: through the agent if it carries it, otherwise from
/// outside.
///
/// # Errors
/// One sentence each for: no such process, a thread, a zombie, a kernel thread, another user's
/// process, a 32-bit program, one that may not be inspected or traced.
pub fn check(pid: u32) -> Result<AttachableProcess, AttachError> {
    let gone = |_: io::Error| AttachError::NoProcess { pid };
    let refuse = |refusal, cause: String| Err(AttachError::NotWatchable { pid, refusal, cause });
    let (stat, status) = (ProcStat::of(pid).map_err(gone)?, ProcStatus::of(pid).map_err(gone)?);
    if status.process != pid {
        return refuse(
            Refusal::Thread,
            format!("is a thread of process {0}; watch that: sigtop --pid {0}", status.process),
        );
    }
    if stat.is_dead() {
        return refuse(
            Refusal::Ended,
            format!("({}) has ended; its parent has not asked for its status yet", quote::name(&stat.comm)),
        );
    }
    if stat.is_kernel_thread() {
        return refuse(
            Refusal::Kernel,
            format!("({}) is a kernel thread; perf can profile it", quote::name(&stat.comm)),
        );
    }
    let user = geteuid();
    if !user.is_root() && status.users != [user.as_raw(); 4] {
        return refuse(
            Refusal::OtherUser,
            format!("belongs to user {}; run: sudo sigtop --pid {pid}", status.users[1]),
        );
    }
    let command_line = command_line(pid);
    let method = match maps_hold(pid, is_agent) {
        // A confined agent cannot be woken safely, and one without /proc finds no threads.
        Ok(true) if !status.confined && sees_proc(pid) => WatchMethod::Agent,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(AttachError::NoProcess { pid }),
        _ => WatchMethod::External,
    };
    if method == WatchMethod::External {
        if elf::is_32_bit(pid) {
            return refuse(Refusal::Bits32, rights::NOT_64_BIT.to_owned());
        }
        may_trace(pid)?;
    }
    Ok(AttachableProcess {
        pid,
        comm: stat.comm,
        command_line,
        uid: status.users[1],
        start_ticks: stat.start_ticks,
        confined: status.confined,
        method,
    })
}

/// Returns whether a line of `maps` names an agent's library, of this version or another.
pub(crate) fn is_agent(line: &[u8]) -> bool {
    let line = line.strip_suffix(b" (deleted)").unwrap_or(line);
    let name = line.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    // A library in memory is shown as `/memfd:NAME (deleted)`.
    let name = name.strip_prefix(b"memfd:").unwrap_or(name);
    line.contains(&b'/') && name.starts_with(library::PREFIX.as_bytes()) && name.ends_with(b".so")
}

/// Waits for the end of a process that is not a child of this one.
#[derive(Debug)]
pub struct ExitWatcher {
    pid: u32,
    start_ticks: u64,
    /// The pidfd of the process; kernels before 5.3 have none.
    handle: Option<OwnedFd>,
}

impl ExitWatcher {
    /// Watches the process that had this pid and start time. If the pid belongs to a later process
    /// now, the watched one counts as ended.
    pub fn new(pid: u32, start_ticks: u64) -> ExitWatcher {
        // SAFETY: pidfd_open takes two integers. The descriptor that it returns is new, owned by
        // nothing else, and closed on exec.
        let handle = unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
            (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))
        };
        ExitWatcher { pid, start_ticks, handle }
    }

    /// Waits at most this long for the process to end. Returns whether it has ended.
    pub fn wait(&self, at_most: Duration) -> bool {
        // Checked after the handle was opened: if the process lives now, the handle is its own.
        if self.has_ended() {
            return true;
        }
        let until = Instant::now() + at_most;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match &self.handle {
                Some(handle) => {
                    let mut sources = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
                    match poll(&mut sources, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                        Ok(count) if count > 0 => return true,
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(_) => thread::sleep(left.min(LOOK)),
                    }
                }
                None => thread::sleep(left.min(LOOK)),
            }
            if left.is_zero() || self.handle.is_none() && self.has_ended() {
                return self.has_ended();
            }
        }
    }

    /// Returns whether the process has ended, without waiting.
    pub fn has_ended(&self) -> bool {
        !ProcStat::of(self.pid).is_ok_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_dead())
    }

    /// Returns a descriptor for [`poll`] that becomes readable when the process ends; `None` where
    /// only [`wait`](Self::wait) can tell.
    pub fn descriptor(&self) -> Option<i32> {
        self.handle.as_ref().map(AsRawFd::as_raw_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_known_by_its_mapping() {
        let line = |path: &str| is_agent(format!("7f0000-7f1000 r-xp 0 fe:00 12   {path}").as_bytes());
        assert!(line("/run/user/7/sigtop/libsigtop-agent-00ff.so"));
        assert!(line("/tmp/a b/libsigtop-agent-00ff.so (deleted)"));
        assert!(line("/memfd:libsigtop-agent-00ff.so (deleted)"));
        assert!(!line("/tmp/libsigtop-agent-00ff.so.txt"));
        assert!(!line("/tmp/libsigtop-agent-00ff.so/libc.so.6"));
        assert!(!line("libsigtop-agent-00ff.so"));
        assert!(!line(""));
    }

    #[test]
    fn each_refusal_is_one_sentence() {
        let said = |pid| check(pid).unwrap_err().to_string();
        assert_eq!(said(u32::MAX), "there is no process 4294967295");
        let own = std::process::id();
        assert_eq!(check(own).unwrap().method, WatchMethod::External);
        let tid = nix::unistd::gettid().as_raw() as u32;
        assert_eq!(said(tid), format!("process {tid} is a thread of process {own}; watch that: sigtop --pid {own}"));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let watch = ExitWatcher::new(child.id(), ProcStat::of(child.id()).unwrap().start_ticks);
        assert!(watch.wait(Duration::from_secs(20)));
        assert!(said(child.id()).contains(") has ended;"), "{}", said(child.id()));
        child.wait().unwrap();
        if ProcStat::of(2).is_ok_and(|stat| stat.is_kernel_thread()) {
            assert_eq!(said(2), "process 2 (kthreadd) is a kernel thread; perf can profile it");
        }
    }

    /// Regression test: a 32-bit program was sampled from outside. Its `epoll_wait` has a number
    /// that is not known as a call to make again, so that it failed with EINTR.
    #[test]
    fn a_32_bit_program_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let word = |value: u32| value.to_le_bytes();
        let half = |value: u16| value.to_le_bytes();
        // A header, one segment with everything, and code: pause(2), again and again.
        let (base, code) = (0x0804_8000, [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7]);
        let length = 52 + 32 + code.len() as u32;
        let mut file = b"\x7fELF\x01\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([half(2), half(3)].concat());
        file.extend([1, base + 84, 52, 0, 0].map(word).concat());
        file.extend([52, 32, 1, 0, 0, 0].map(half).concat());
        file.extend([1, 0, base, base, length, length, 5, 4096].map(word).concat());
        file.extend(code);
        let path = std::env::temp_dir().join(format!("sigtop-32-bit-{}", std::process::id()));
        std::fs::write(&path, file).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let child = std::process::Command::new(&path).spawn();
        std::fs::remove_file(&path).unwrap();
        // A kernel may know 64-bit programs alone.
        let Ok(mut child) = child else { return };
        let pid = child.id();
        assert_eq!(
            check(pid).unwrap_err().to_string(),
            format!("process {pid} is a 32-bit program, and sigtop samples 64-bit ones")
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_pid_used_again_counts_as_ended() {
        let own = std::process::id();
        let start_ticks = ProcStat::of(own).unwrap().start_ticks;
        assert!(!ExitWatcher::new(own, start_ticks).wait(Duration::ZERO));
        assert!(ExitWatcher::new(own, start_ticks - 1).wait(Duration::from_secs(20)));
    }
}
