//! Wakes the agent of a running process: a queued signal with our cookie and the viewer's pid, to
//! one thread that can take it. It is SIGURG, which a process without the handler ignores by
//! default, unless the process uses that itself: then the agent has a handler for a real-time
//! signal. The agent answers by connecting; how long to wait before the next thread is tried is the
//! caller's choice.

use nix::errno::Errno;

use super::error::Refusal;
use super::proc::{Stat, Status, command_to_start_again, sleeps_restartably, threads};
use super::{AttachError, quote};
use crate::link::wire::{KNOCK_COOKIE, TICK_SIGNALS};

/// What the kernel takes for a queued signal: the head of a siginfo, its `_rt` part, and the rest of its 128 bytes.
#[repr(C)]
struct Queued {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());

/// A thread that would take a knock, and by which signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The thread.
    pub tid: u32,
    /// The signal, one of [`TICK_SIGNALS`].
    pub signal: i32,
}

/// The threads of a process that would take a knock, best first: running ones, and then those whose
/// system call is made again, as that of other sleepers ends early.
///
/// # Errors
/// [`AttachError::NoProcess`], or [`AttachError::NotWatchable`] if the agent's handler is gone, if every thread blocks the signal, or
/// if the process restricts its system calls, where an agent that comes to life could end it.
pub fn candidates(pid: u32) -> Result<Vec<Candidate>, AttachError> {
    let refuse = |cause: &str| {
        let again = quote::command(&command_to_start_again(pid));
        Err(AttachError::NotWatchable {
            pid,
            refusal: Refusal::Deaf,
            cause: format!("{cause}; start it again with: sigtop -- {again}"),
        })
    };
    let mut found: Vec<(u8, Candidate)> = Vec::new();
    let mut any = None;
    let mut signal = None;
    for tid in threads(pid) {
        let (Ok(stat), Ok(status)) = (Stat::of_thread(pid, tid), Status::of_thread(pid, tid)) else { continue };
        if stat.is_ended_thread() {
            continue;
        }
        let rank = match stat.state {
            b'R' => 0,
            b'S' if sleeps_restartably(pid, tid) => 1,
            b'S' => 2,
            _ => 3,
        };
        // A handler for a real-time signal is there when the process uses SIGURG itself.
        let caught = |signal: &i32| status.caught & 1 << (signal - 1) != 0;
        signal = TICK_SIGNALS[1..].iter().chain(&TICK_SIGNALS[..1]).copied().find(caught);
        if let Some(signal) = signal.filter(|signal| status.blocked & 1 << (signal - 1) == 0) {
            found.push((rank, Candidate { tid, signal }));
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
    found.sort_unstable_by_key(|&(rank, candidate)| (rank, candidate.tid));
    Ok(found.into_iter().map(|(_, candidate)| candidate).collect())
}

/// Knocks at one thread of a process, in the name of the viewer with this pid.
///
/// # Errors
/// [`AttachError::NoProcess`] if the thread is gone, [`AttachError::System`] if we may not.
pub fn knock(pid: u32, Candidate { tid, signal }: Candidate, viewer: u32) -> Result<(), AttachError> {
    let queued = Queued {
        signal,
        errno: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        pid: std::process::id() as i32,
        uid: nix::unistd::getuid().as_raw(),
        value: u64::from(KNOCK_COOKIE) << 32 | u64::from(viewer),
        rest: [0; 12],
    };
    // SAFETY: the pointer is to a whole siginfo (the size is asserted above) that lives through the call and is only read.
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
        assert!(candidates(own).unwrap_err().to_string().contains("no longer has the agent's signal handler"));
        let action = SigAction::new(SigHandler::SigAction(note), SaFlags::SA_SIGINFO, SigSet::empty());
        // SAFETY: the handler only stores an atomic.
        unsafe { sigaction(Signal::SIGURG, &action) }.unwrap();
        let candidate = Candidate { tid, signal: libc::SIGURG };
        assert!(candidates(own).unwrap().contains(&candidate));
        knock(own, candidate, 4711).unwrap();
        assert_eq!(VALUE.load(Ordering::Acquire), u64::from(KNOCK_COOKIE) << 32 | 4711);

        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGURG);
        blocked.thread_block().unwrap();
        assert!(!candidates(own).unwrap().contains(&candidate));
        blocked.thread_unblock().unwrap();
        assert!(matches!(
            knock(own, Candidate { tid: u32::MAX / 2, ..candidate }, 1),
            Err(AttachError::NoProcess { .. })
        ));
        assert!(matches!(candidates(u32::MAX), Err(AttachError::NoProcess { .. })));
    }
}
