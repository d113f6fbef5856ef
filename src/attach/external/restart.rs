//! The system calls that are made again after a stop has interrupted them.
//!
//! A stop wakes a thread that is about to sleep in a system call. Most calls then go on as if
//! nothing had happened; the calls of this table report EINTR instead, although no signal handler
//! runs and nothing was done. The table says for each why making it again is what the program
//! wants. A call that has done a part of its work reports that part and not EINTR, so it is never
//! made again.
//!
//! A wait with a timeout goes on by restart_syscall(2), which no program calls itself. A seccomp
//! filter, such as that of sshd, may end the process for it. With a filter such a wait is made
//! again, too: it has just begun.

use crate::attach::proc::ProcStatus;

/// A call and the reason why it reports EINTR.
struct RestartableCall {
    number: i64,
    #[cfg_attr(not(test), expect(dead_code, reason = "the reason is for readers, and a test demands it"))]
    reason: &'static str,
}

const fn call(number: i64, reason: &'static str) -> RestartableCall {
    RestartableCall { number, reason }
}

const WAITS_FOR_EVENTS: &str = "fs/eventpoll.c returns EINTR for every signal, also without a handler";
const HAS_RECEIVE_TIMEOUT: &str = "with SO_RCVTIMEO, sock_intr_errno() is EINTR: the rest of the timeout is unknown";
const HAS_SEND_TIMEOUT: &str =
    "with SO_SNDTIMEO, sock_intr_errno() is EINTR before anything was sent: the rest of the timeout is unknown";
const CONNECTS: &str = "with SO_SNDTIMEO, sock_intr_errno() is EINTR; a second call waits for the same connection, \
                        as the kernel's own restart does without a timeout";
const WAITS_FOR_SEMAPHORE: &str = "ipc/sem.c returns EINTR, and has undone the operation";
const WAITS_FOR_COMPLETIONS: &str = "fs/aio.c and io_uring return EINTR before any completion was taken";

/// All calls that are made again.
const TABLE: [RestartableCall; 21] = [
    call(libc::SYS_read, HAS_RECEIVE_TIMEOUT),
    call(libc::SYS_readv, HAS_RECEIVE_TIMEOUT),
    call(libc::SYS_accept, HAS_RECEIVE_TIMEOUT),
    call(libc::SYS_accept4, HAS_RECEIVE_TIMEOUT),
    call(libc::SYS_recvfrom, HAS_RECEIVE_TIMEOUT),
    call(libc::SYS_recvmsg, HAS_RECEIVE_TIMEOUT),
    call(libc::SYS_recvmmsg, HAS_RECEIVE_TIMEOUT),
    call(libc::SYS_write, HAS_SEND_TIMEOUT),
    call(libc::SYS_writev, HAS_SEND_TIMEOUT),
    call(libc::SYS_sendto, HAS_SEND_TIMEOUT),
    call(libc::SYS_sendmsg, HAS_SEND_TIMEOUT),
    call(libc::SYS_sendmmsg, HAS_SEND_TIMEOUT),
    call(libc::SYS_connect, CONNECTS),
    call(libc::SYS_semop, WAITS_FOR_SEMAPHORE),
    call(libc::SYS_semtimedop, WAITS_FOR_SEMAPHORE),
    call(libc::SYS_rt_sigtimedwait, "kernel/signal.c returns EINTR for every signal that is not waited for"),
    call(libc::SYS_io_getevents, WAITS_FOR_COMPLETIONS),
    call(libc::SYS_io_uring_enter, WAITS_FOR_COMPLETIONS),
    call(libc::SYS_epoll_wait, WAITS_FOR_EVENTS),
    call(libc::SYS_epoll_pwait, WAITS_FOR_EVENTS),
    call(SYS_EPOLL_PWAIT2, WAITS_FOR_EVENTS),
];

/// Number of epoll_pwait2, which libc lacks for some targets. It is the same on all processors.
const SYS_EPOLL_PWAIT2: i64 = 441;

/// The request of tcdrain(3): with a third argument other than 0, ioctl waits until the output of a
/// terminal is written. drivers/tty/tty_io.c returns EINTR for every signal.
const TCSBRK: u64 = 0x5409;

/// Returns whether a call that reports EINTR without a handler is to be made again. `second` is its
/// second argument.
pub(super) fn is_restartable(number: i64, second: u64) -> bool {
    number == libc::SYS_ioctl && second == TCSBRK || TABLE.iter().any(|call| call.number == number)
}

/// Returns whether a seccomp filter may forbid a thread to call restart_syscall(2).
pub(super) fn is_filtered(tid: u32) -> bool {
    ProcStatus::of(tid).is_ok_and(|status| status.confined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_listed_once_with_its_reason() {
        let mut numbers: Vec<i64> = TABLE.iter().map(|call| call.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), TABLE.len());
        assert!(TABLE.iter().all(|call| call.reason.contains("EINTR")));
    }

    #[test]
    fn calls_that_must_not_be_repeated_are_not() {
        for number in [libc::SYS_close, libc::SYS_nanosleep, libc::SYS_pause, libc::SYS_sendfile, libc::SYS_splice] {
            assert!(!is_restartable(number, TCSBRK));
        }
        assert!(is_restartable(libc::SYS_ioctl, TCSBRK) && !is_restartable(libc::SYS_ioctl, 0x5401));
    }
}
