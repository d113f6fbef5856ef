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
//!
//! A file system in user space hears of a stop as of a signal, and its daemon may end any call with
//! EINTR. Those that only read are made again.

use crate::arch::old_calls;
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
const ASKS_DAEMON: &str =
    "fs/fuse/dev.c tells the daemon of every signal, and it may answer EINTR: nothing has changed";
const WAITS_FOR_COMPLETIONS: &str = "fs/aio.c and io_uring return EINTR before any completion was taken";

/// All calls that are made again.
const TABLE: [RestartableCall; 35] = [
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
    call(old_calls::EPOLL_WAIT, WAITS_FOR_EVENTS),
    call(libc::SYS_epoll_pwait, WAITS_FOR_EVENTS),
    call(SYS_EPOLL_PWAIT2, WAITS_FOR_EVENTS),
    call(libc::SYS_getdents64, ASKS_DAEMON),
    call(libc::SYS_pread64, ASKS_DAEMON),
    call(libc::SYS_preadv, ASKS_DAEMON),
    call(libc::SYS_preadv2, ASKS_DAEMON),
    call(old_calls::STAT, ASKS_DAEMON),
    call(old_calls::LSTAT, ASKS_DAEMON),
    call(libc::SYS_fstat, ASKS_DAEMON),
    call(libc::SYS_newfstatat, ASKS_DAEMON),
    call(libc::SYS_statx, ASKS_DAEMON),
    call(old_calls::ACCESS, ASKS_DAEMON),
    call(libc::SYS_faccessat, ASKS_DAEMON),
    call(libc::SYS_faccessat2, ASKS_DAEMON),
    call(old_calls::READLINK, ASKS_DAEMON),
    call(libc::SYS_readlinkat, ASKS_DAEMON),
];

/// Number of epoll_pwait2, which libc lacks for some targets. It is the same on all processors.
const SYS_EPOLL_PWAIT2: i64 = 441;

/// The request of tcdrain(3): with a third argument other than 0, ioctl waits until the output of a
/// terminal is written. drivers/tty/tty_io.c returns EINTR for every signal.
const TCSBRK: u64 = 0x5409;

/// Returns whether a call that reports EINTR without a handler is to be made again. A daemon that
/// has made a file before it gave up would say that the file exists already.
pub(super) fn is_restartable(number: i64, arguments: [u64; 4]) -> bool {
    let [_, second, third, _] = arguments;
    let may_make_file = |flags: u64| flags & libc::O_EXCL as u64 != 0;
    match number {
        libc::SYS_ioctl => second == TCSBRK,
        old_calls::OPEN => !may_make_file(second),
        libc::SYS_openat => !may_make_file(third),
        _ => TABLE.iter().any(|call| call.number == number),
    }
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
        for number in [libc::SYS_close, libc::SYS_nanosleep, libc::SYS_ppoll, libc::SYS_sendfile, libc::SYS_splice] {
            assert!(!is_restartable(number, [0, TCSBRK, 0, 0]));
        }
        let drains = |request| is_restartable(libc::SYS_ioctl, [0, request, 0, 0]);
        assert!(drains(TCSBRK) && !drains(0x5401));
        let opens = |flags: i32| is_restartable(libc::SYS_openat, [0, 0, flags as u64, 0]);
        assert!(opens(libc::O_RDWR | libc::O_CREAT) && !opens(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL));
    }
}
