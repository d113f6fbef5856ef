//! Running processes that carry the agent, and for any other pid the sentence that says why it cannot be watched. The agent
//! shows itself by the mapping of its library alone: unwatched it has no thread, no socket, no file.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::geteuid;

use super::error::Refusal;
use super::proc::{Stat, Status, command_line, command_to_start_again, maps_hold, processes};
use super::{AttachError, library, quote};

/// How often a process is looked at where the kernel cannot tell of its end (before 5.3).
const LOOK: Duration = Duration::from_millis(100);

/// A process that carries the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Its arguments.
    pub command_line: Vec<OsString>,
    /// Its effective user.
    pub uid: u32,
    /// When it started, clock ticks since boot: tells it from a later process with this pid.
    pub start_ticks: u64,
    /// It has restricted its system calls (seccomp), and its agent cannot be woken safely.
    pub confined: bool,
}

/// All processes that carry the agent and that we may look into, by pid.
pub fn carriers() -> Vec<Carrier> {
    processes().into_iter().filter_map(|pid| check(pid).ok()).collect()
}

/// The carrier that a pid is.
///
/// # Errors
/// One sentence each: no such process, a thread, a zombie, a kernel thread, another user's, one that may not be looked into,
/// one without the agent.
pub fn check(pid: u32) -> Result<Carrier, AttachError> {
    let gone = |_: io::Error| AttachError::NoProcess { pid };
    let refuse = |refusal, cause: String| Err(AttachError::NotWatchable { pid, refusal, cause });
    let (stat, status) = (Stat::of(pid).map_err(gone)?, Status::of(pid).map_err(gone)?);
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
    match maps_hold(pid, is_agent) {
        Ok(true) => Ok(Carrier {
            pid,
            comm: stat.comm,
            command_line,
            uid: status.users[1],
            start_ticks: stat.start_ticks,
            confined: status.confined,
        }),
        Ok(false) if command_line.is_empty() => {
            Err(AttachError::WithoutAgent { pid, command: quote::command(&[stat.comm]) })
        }
        Ok(false) => Err(AttachError::WithoutAgent { pid, command: quote::command(&command_to_start_again(pid)) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(AttachError::NoProcess { pid }),
        // Whoever is root already, in a container perhaps, gains nothing by sudo.
        Err(error) if user.is_root() => {
            let why = "its own rights are wider than root's here, or a security module guards it";
            refuse(Refusal::Closed, format!("cannot be looked into ({error}): {why}"))
        }
        Err(error) => refuse(Refusal::Closed, format!("cannot be looked into ({error}); run: sudo sigtop --pid {pid}")),
    }
}

/// A line of maps whose file is an agent's, of this version or another.
pub(super) fn is_agent(line: &[u8]) -> bool {
    let line = line.strip_suffix(b" (deleted)").unwrap_or(line);
    let name = line.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    line.contains(&b'/') && name.starts_with(library::PREFIX.as_bytes()) && name.ends_with(b".so")
}

/// Waits for the end of a process that is not our child.
#[derive(Debug)]
pub struct Watch {
    pid: u32,
    start_ticks: u64,
    /// A pidfd; kernels before 5.3 have none.
    handle: Option<OwnedFd>,
}

impl Watch {
    /// Of the process that had this pid and start; if it is gone, it has ended, whoever has its pid now.
    pub fn new(pid: u32, start_ticks: u64) -> Watch {
        // SAFETY: pidfd_open takes two integers; a descriptor that it returns is new and ours, and closed on exec.
        let handle = unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
            (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))
        };
        Watch { pid, start_ticks, handle }
    }

    /// Waits for it to end, at most so long; says whether it has.
    pub fn wait(&self, at_most: Duration) -> bool {
        // Looked at after the handle was opened: if it is the one now, the handle is its.
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

    /// Says whether it has ended, without waiting.
    pub fn has_ended(&self) -> bool {
        !Stat::of(self.pid).is_ok_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_dead())
    }

    /// For [`poll`]: readable when it has ended. `None` where only [`wait`](Self::wait) can tell.
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
        let words: Vec<OsString> = std::env::args_os().collect();
        assert_eq!(
            said(own),
            format!(
                "process {own} was started without the agent; start it again with: sigtop -- {}",
                quote::command(&words)
            )
        );
        let tid = nix::unistd::gettid().as_raw() as u32;
        assert_eq!(said(tid), format!("process {tid} is a thread of process {own}; watch that: sigtop --pid {own}"));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let watch = Watch::new(child.id(), Stat::of(child.id()).unwrap().start_ticks);
        assert!(watch.wait(Duration::from_secs(20)));
        assert!(said(child.id()).contains(") has ended;"), "{}", said(child.id()));
        child.wait().unwrap();
        if Stat::of(2).is_ok_and(|stat| stat.is_kernel_thread()) {
            assert_eq!(said(2), "process 2 (kthreadd) is a kernel thread; perf can profile it");
        }
    }

    #[test]
    fn a_pid_used_again_counts_as_ended() {
        let own = std::process::id();
        let start_ticks = Stat::of(own).unwrap().start_ticks;
        assert!(!Watch::new(own, start_ticks).wait(Duration::ZERO));
        assert!(Watch::new(own, start_ticks - 1).wait(Duration::from_secs(20)));
    }
}
