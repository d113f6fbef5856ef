//! Wakes the agent of a running process with a wake signal ("knock"): a queued signal with a cookie
//! and the viewer's pid, sent to one thread that can take it. The signal is SIGURG, which a process
//! without the handler ignores by default. If the process uses SIGURG itself, the agent has a
//! handler for a real-time signal instead. The agent answers by connecting; the caller decides how
//! long to wait before it tries the next thread.

use nix::errno::Errno;

use super::error::AttachError;
use super::error::Refusal;
use super::proc::{ProcStat, ProcStatus, command_to_start_again, sleeps_restartably, threads};
use super::quote;
use crate::wire::{KNOCK_COOKIE, TICK_SIGNALS};

/// The siginfo of a queued signal: its head, its `_rt` part, and the rest of its 128 bytes.
#[repr(C)]
struct QueuedSiginfo {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<QueuedSiginfo>() == size_of::<libc::siginfo_t>());

/// A thread that can take a wake signal, and the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnockTarget {
    /// The thread's tid.
    pub tid: u32,
    /// The signal, one of [`TICK_SIGNALS`].
    pub signal: i32,
    /// Whether the signal may end a wait early.
    pub may_end_wait: bool,
}

/// Returns the threads of a process that can take a wake signal, best first: running threads, then
/// those in a system call that the kernel restarts, because the calls of other sleeping threads
/// would return early.
///
/// # Errors
/// [`AttachError::NoProcess`], or [`AttachError::NotWatchable`] if the agent's handler is gone, if
/// every thread blocks the signal, or if the process restricts its system calls, where an agent
/// that starts could end it.
pub fn knock_targets(pid: u32) -> Result<Vec<KnockTarget>, AttachError> {
    let refuse = |cause: &str| {
        let again = quote::command(&command_to_start_again(pid));
        Err(AttachError::NotWatchable {
            pid,
            refusal: Refusal::CannotWake,
            cause: format!("{cause}; start it again with: sigtop -- {again}"),
        })
    };
    let mut found: Vec<(u8, KnockTarget)> = Vec::new();
    let mut any = None;
    let mut signal = None;
    for tid in threads(pid) {
        let (Ok(stat), Ok(status)) = (ProcStat::of_thread(pid, tid), ProcStatus::of_thread(pid, tid)) else { continue };
        if stat.is_ended_thread() {
            continue;
        }
        let rank = match stat.state {
            b'R' => 0,
            b'S' if sleeps_restartably(pid, tid) => 1,
            b'S' => 2,
            _ => 3,
        };
        // The agent handles a real-time signal where the process uses SIGURG itself.
        let caught = |signal: &i32| status.caught & 1 << (signal - 1) != 0;
        signal = TICK_SIGNALS[1..].iter().chain(&TICK_SIGNALS[..1]).copied().find(caught);
        if let Some(signal) = signal.filter(|signal| status.blocked & 1 << (signal - 1) == 0) {
            found.push((rank, KnockTarget { tid, signal, may_end_wait: rank > 1 }));
        }
        any = Some(status);
    }
    let Some(status) = any else { return Err(AttachError::NoProcess { pid }) };
    if status.confined {
        return refuse("restricts its system calls (seccomp), so its agent cannot be woken safely");
    }
    let Some(signal) = signal else { return refuse("no longer has the agent's signal handler (SIGURG)") };
    if found.is_empty() {
        let name = if signal == libc::SIGURG { "SIGURG".to_owned() } else { format!("signal {signal}") };
        return refuse(&format!("blocks {name} in all its threads, so its agent cannot be woken"));
    }
    found.sort_unstable_by_key(|&(rank, target)| (rank, target.tid));
    Ok(found.into_iter().map(|(_, target)| target).collect())
}

/// Sends the wake signal to one thread of a process, on behalf of the viewer with this pid.
///
/// # Errors
/// [`AttachError::NoProcess`] if the thread has ended, [`AttachError::System`] if the kernel
/// refuses.
pub fn knock(pid: u32, KnockTarget { tid, signal, .. }: KnockTarget, viewer: u32) -> Result<(), AttachError> {
    let queued = QueuedSiginfo {
        signal,
        errno: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        pid: std::process::id() as i32,
        uid: nix::unistd::getuid().as_raw(),
        value: u64::from(KNOCK_COOKIE) << 32 | u64::from(viewer),
        rest: [0; 12],
    };
    // SAFETY: the pointer is to a complete siginfo (the size is asserted above) that lives through
    // the call and is only read.
    let done = unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, &queued) };
    match Errno::result(done) {
        Ok(_) => Ok(()),
        Err(Errno::ESRCH) => Err(AttachError::NoProcess { pid }),
        Err(error) => Err(AttachError::system("cannot send the agent a signal", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    static VALUE: AtomicU64 = AtomicU64::new(0);

    extern "C" fn note(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel passes a valid siginfo, and a queued signal has a value.
        VALUE.store(unsafe { (*info).si_value().sival_ptr } as u64, Ordering::Release);
    }

    #[test]
    fn a_knock_carries_the_cookie_and_the_viewer() {
        use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
        let (own, tid) = (std::process::id(), nix::unistd::gettid().as_raw() as u32);
        assert!(knock_targets(own).unwrap_err().to_string().contains("no longer has the agent's signal handler"));
        let action = SigAction::new(SigHandler::SigAction(note), SaFlags::SA_SIGINFO, SigSet::empty());
        // SAFETY: the handler only stores an atomic.
        unsafe { sigaction(Signal::SIGURG, &action) }.unwrap();
        let target = KnockTarget { tid, signal: libc::SIGURG, may_end_wait: false };
        assert!(knock_targets(own).unwrap().contains(&target), "a running thread");
        knock(own, target, 4711).unwrap();
        assert_eq!(VALUE.load(Ordering::Acquire), u64::from(KNOCK_COOKIE) << 32 | 4711);

        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGURG);
        blocked.thread_block().unwrap();
        assert!(!knock_targets(own).unwrap().contains(&target));
        blocked.thread_unblock().unwrap();
        assert!(matches!(
            knock(own, KnockTarget { tid: u32::MAX / 2, ..target }, 1),
            Err(AttachError::NoProcess { .. })
        ));
        assert!(matches!(knock_targets(u32::MAX), Err(AttachError::NoProcess { .. })));
    }
}
