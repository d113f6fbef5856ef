//! The system call in which a thread sleeps: why it waits there, as far as the call tells, and
//! where the holder of a lock is noted.

use alloc::vec::Vec;

use super::reason::WaitReason;
use crate::arch::recorded_call;
use crate::wire::{BlockingCall, parse_number};

/// Whether the first argument of a call is the descriptor that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstArgument {
    Descriptor,
    Else,
}

use FirstArgument::{Descriptor, Else};

/// The system calls that block, by their numbers on x86-64, which messages and recordings of all
/// processors have. Others are [`WaitReason::Other`].
const CALLS: &[(u32, &str, WaitReason, FirstArgument)] = &[
    (0, "read", WaitReason::Read, Descriptor),
    (1, "write", WaitReason::Write, Descriptor),
    (2, "open", WaitReason::Disk, Else),
    (4, "stat", WaitReason::Disk, Else),
    (6, "lstat", WaitReason::Disk, Else),
    (7, "poll", WaitReason::Poll, Else),
    (16, "ioctl", WaitReason::Other, Descriptor),
    (17, "pread64", WaitReason::Read, Descriptor),
    (18, "pwrite64", WaitReason::Write, Descriptor),
    (19, "readv", WaitReason::Read, Descriptor),
    (20, "writev", WaitReason::Write, Descriptor),
    (21, "access", WaitReason::Disk, Else),
    (23, "select", WaitReason::Poll, Else),
    (26, "msync", WaitReason::Disk, Else),
    (34, "pause", WaitReason::Signal, Else),
    (35, "nanosleep", WaitReason::Sleep, Else),
    (40, "sendfile", WaitReason::Write, Descriptor),
    (42, "connect", WaitReason::Connect, Descriptor),
    (43, "accept", WaitReason::Accept, Descriptor),
    (44, "sendto", WaitReason::Send, Descriptor),
    (45, "recvfrom", WaitReason::Receive, Descriptor),
    (46, "sendmsg", WaitReason::Send, Descriptor),
    (47, "recvmsg", WaitReason::Receive, Descriptor),
    (58, "vfork", WaitReason::Child, Else),
    (61, "wait4", WaitReason::Child, Else),
    (65, "semop", WaitReason::Semaphore, Else),
    (69, "msgsnd", WaitReason::Send, Else),
    (70, "msgrcv", WaitReason::Receive, Else),
    (72, "fcntl", WaitReason::Lock, Descriptor),
    (73, "flock", WaitReason::Lock, Descriptor),
    (74, "fsync", WaitReason::Disk, Descriptor),
    (75, "fdatasync", WaitReason::Disk, Descriptor),
    (76, "truncate", WaitReason::Disk, Else),
    (77, "ftruncate", WaitReason::Disk, Descriptor),
    (82, "rename", WaitReason::Disk, Else),
    (83, "mkdir", WaitReason::Disk, Else),
    (84, "rmdir", WaitReason::Disk, Else),
    (86, "link", WaitReason::Disk, Else),
    (87, "unlink", WaitReason::Disk, Else),
    (128, "rt_sigtimedwait", WaitReason::Signal, Else),
    (130, "rt_sigsuspend", WaitReason::Signal, Else),
    (162, "sync", WaitReason::Disk, Else),
    (187, "readahead", WaitReason::Disk, Descriptor),
    (202, "futex", WaitReason::Futex, Else),
    (208, "io_getevents", WaitReason::Poll, Else),
    (217, "getdents64", WaitReason::Read, Descriptor),
    (220, "semtimedop", WaitReason::Semaphore, Else),
    (230, "clock_nanosleep", WaitReason::Sleep, Else),
    (232, "epoll_wait", WaitReason::Poll, Else),
    (242, "mq_timedsend", WaitReason::Send, Descriptor),
    (243, "mq_timedreceive", WaitReason::Receive, Descriptor),
    (247, "waitid", WaitReason::Child, Else),
    (257, "openat", WaitReason::Disk, Else),
    (262, "newfstatat", WaitReason::Disk, Else),
    (263, "unlinkat", WaitReason::Disk, Else),
    (264, "renameat", WaitReason::Disk, Else),
    (270, "pselect6", WaitReason::Poll, Else),
    (271, "ppoll", WaitReason::Poll, Else),
    (275, "splice", WaitReason::Read, Descriptor),
    (277, "sync_file_range", WaitReason::Disk, Descriptor),
    (281, "epoll_pwait", WaitReason::Poll, Else),
    (285, "fallocate", WaitReason::Disk, Descriptor),
    (288, "accept4", WaitReason::Accept, Descriptor),
    (295, "preadv", WaitReason::Read, Descriptor),
    (296, "pwritev", WaitReason::Write, Descriptor),
    (299, "recvmmsg", WaitReason::Receive, Descriptor),
    (306, "syncfs", WaitReason::Disk, Descriptor),
    (307, "sendmmsg", WaitReason::Send, Descriptor),
    (316, "renameat2", WaitReason::Disk, Else),
    (326, "copy_file_range", WaitReason::Disk, Descriptor),
    (327, "preadv2", WaitReason::Read, Descriptor),
    (328, "pwritev2", WaitReason::Write, Descriptor),
    (332, "statx", WaitReason::Disk, Else),
    (426, "io_uring_enter", WaitReason::IoUring, Else),
    (437, "openat2", WaitReason::Disk, Else),
    (441, "epoll_pwait2", WaitReason::Poll, Else),
    (449, "futex_waitv", WaitReason::Futex, Else),
];

/// The number of futex(2), the bits of its operation that are the command, and the commands.
const FUTEX: u32 = 202;
const COMMAND_MASK: u64 = 0x7f;
const WAIT: u64 = 0;
const WAIT_BITSET: u64 = 9;
const LOCK_PI: u64 = 6;
const LOCK_PI2: u64 = 13;
/// The numbers of wait4(2) and waitid(2).
const WAIT4: u32 = 61;
const WAITID: u32 = 247;
const P_PID: u64 = 1;
/// The number of flock(2).
const FLOCK: u32 = 73;
/// The numbers of open(2) and openat(2).
const OPEN: u32 = 2;
const OPENAT: u32 = 257;
const ACCESS_MODE: u64 = 3;
const WRITE_ONLY: u64 = 1;
/// The number of restart_syscall(2), by which a call goes on that a stop has interrupted.
const RESTART: u32 = 219;
/// The functions of the kernel in which threads are stopped. /proc/PID/wchan
const STOPS: [&[u8]; 5] = [b"do_signal_stop", b"ptrace_stop", b"do_freezer_trap", b"__refrigerator", b"get_signal"];
/// The function of the kernel in which a thread waits for the other end of a pipe that it opens.
/// /proc/PID/wchan
const WAITS_FOR_PARTNER: &[u8] = b"wait_for_partner";
/// The bit of a futex that says that threads wait, and the bits that are the holder.
const WAITERS: u32 = 0x8000_0000;
const HOLDER_MASK: u32 = 0x3fff_ffff;

/// Maximum number of words that tell the holder of a lock: the start of a `pthread_rwlock_t`.
pub(crate) const LOCK_WORDS: usize = 8;
/// Number of words of the start of a `pthread_mutex_t`.
const MUTEX_WORDS: usize = 5;

/// The value of a lock of glibc and of Rust's standard library that has waiters.
const CONTENDED: u32 = 2;
/// All kinds of a mutex of glibc, with its flags.
const MUTEX_KINDS: u32 = 0x3ff;
/// The value of a futex of a `pthread_rwlock_t` while a writer holds it or is the next to do so, and
/// has waiters.
const WRITING: u32 = 3;
/// The bit of the first word of a `pthread_rwlock_t` that a writer holds.
const WRITE_LOCKED: u32 = 2;
/// Distance from the start of a `pthread_rwlock_t` to its two futexes.
const RWLOCK_FUTEXES: u64 = 8;

impl BlockingCall {
    /// Returns the call that goes on, if this is one that makes an earlier one go on after a stop.
    pub fn or_restarted(self, earlier: Option<BlockingCall>) -> BlockingCall {
        earlier.filter(|_| self.number == Some(RESTART)).unwrap_or(self)
    }

    /// Returns whether the kernel makes the call on a line of `/proc/PID/task/TID/syscall` go on
    /// after a handler with `SA_RESTART`: by its number and, for a futex, without a time limit. See
    /// signal(7).
    pub fn is_restartable(line: &[u8]) -> bool {
        match BlockingCall::parse(line).and_then(|call| call.number) {
            Some(FUTEX) => line.split(|&byte| byte == b' ').nth(4) == Some(b"0x0"),
            number => [WAIT4, WAITID, FLOCK, OPEN, OPENAT].map(Some).contains(&number),
        }
    }

    /// Returns whether threads are stopped that wait in this function of the kernel.
    pub fn is_stop(function: &[u8]) -> bool {
        STOPS.contains(&function)
    }

    /// Parses a line of `/proc/PID/task/TID/syscall`: `NUMBER ARGUMENTS… SP PC`, or `-1 SP PC`
    /// outside of a system call. Returns `None` for a thread that runs, and for anything else.
    pub fn parse(line: &[u8]) -> Option<BlockingCall> {
        let mut words = line.trim_ascii_end().split(|&byte| byte == b' ');
        let number = words.next()?;
        if number == b"-1" {
            return Some(BlockingCall::default());
        }
        let number = recorded_call(parse_number(number, 10)?.try_into().ok()?);
        let mut call = BlockingCall { number: Some(number), arguments: [0; 3] };
        for argument in &mut call.arguments {
            *argument = parse_number(words.next()?.strip_prefix(b"0x")?, 16)?;
        }
        Some(call)
    }

    fn row(&self) -> Option<(WaitReason, FirstArgument)> {
        let row = CALLS.binary_search_by_key(&self.number?, |row| row.0).ok()?;
        Some((CALLS[row].2, CALLS[row].3))
    }

    /// The reason as far as the call tells. A [futex](WaitReason::Futex) may serve a lock or
    /// anything else.
    pub fn reason(&self) -> WaitReason {
        if self.number.is_none() {
            return WaitReason::Memory;
        }
        match self.row().map_or(WaitReason::Other, |row| row.0) {
            WaitReason::Futex if self.is_lock() => WaitReason::Lock,
            reason => reason,
        }
    }

    /// The descriptor that the call waits for.
    pub fn descriptor(&self) -> Option<u32> {
        self.row().filter(|row| row.1 == Descriptor).map(|_| self.arguments[0] as u32)
    }

    /// The address of the path that the call opens.
    pub fn opened_path(&self) -> Option<u64> {
        match self.number? {
            OPEN => Some(self.arguments[0]),
            OPENAT => Some(self.arguments[1]),
            _ => None,
        }
    }

    /// Describes what the call opens: the path, and whether that is a file. A pipe with a name is
    /// opened by both ends at a time. `function` is that of the kernel in which the thread waits.
    pub fn describe_opened(path: &[u8], function: &[u8]) -> (Vec<u8>, bool) {
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        let is_pipe = function == WAITS_FOR_PARTNER;
        let kind: &[u8] = if is_pipe { b"pipe " } else { b"" };
        ([kind, path].concat(), !is_pipe)
    }

    /// The reason why a thread waits that opens a pipe, not a file.
    pub fn reason_of_pipe(&self) -> Option<WaitReason> {
        self.opened_path()?;
        let flags = self.arguments[if self.number == Some(OPEN) { 1 } else { 2 }];
        Some(if flags & ACCESS_MODE == WRITE_ONLY { WaitReason::Write } else { WaitReason::Read })
    }

    /// The address of the futex that the call waits for.
    pub fn futex(&self) -> Option<u64> {
        (self.number == Some(FUTEX)).then_some(self.arguments[0])
    }

    fn futex_command(&self) -> Option<u64> {
        self.futex().map(|_| self.arguments[1] & COMMAND_MASK)
    }

    /// The value that the futex had when the thread went to sleep.
    fn futex_value(&self) -> u32 {
        self.arguments[2] as u32
    }

    /// Whether the call's operation alone says that it waits for a lock: one whose priority the
    /// kernel inherits, one that notes its holder in the futex, or a low-level lock of glibc.
    fn is_lock(&self) -> bool {
        match self.futex_command() {
            Some(LOCK_PI | LOCK_PI2) => true,
            Some(WAIT) => self.futex_value() == CONTENDED || self.holder_in_value().is_some(),
            _ => false,
        }
    }

    /// The thread that holds a lock of musl, or a robust one of glibc: both keep it in the futex.
    fn holder_in_value(&self) -> Option<u32> {
        let value = self.futex_value();
        (value & WAITERS != 0).then_some(value & HOLDER_MASK).filter(|&tid| tid != 0)
    }

    /// The child process that the call waits for, if it names one.
    pub fn child(&self) -> Option<u32> {
        let [first, second, _] = self.arguments;
        let pid = match self.number? {
            WAIT4 => first as i32,
            WAITID if first == P_PID => second as i32,
            _ => 0,
        };
        u32::try_from(pid).ok().filter(|&pid| pid > 0)
    }

    /// Whether the futex may be that of a rwlock with a writer. Other things have the same
    /// operation and value: the functions that wait tell.
    fn may_be_rwlock(&self) -> bool {
        self.futex_command() == Some(WAIT_BITSET) && self.futex_value() == WRITING
    }

    /// Whether the futex may be that of a mutex of glibc that is waited for until a time, for the
    /// same reason.
    fn may_be_timed_lock(&self) -> bool {
        self.futex_command() == Some(WAIT_BITSET) && self.futex_value() == CONTENDED
    }

    /// Returns the address from which some words tell the holder, and their number, if the call
    /// waits for a lock that may have one.
    pub fn holder_words(&self) -> Option<(u64, usize)> {
        match self.futex()? {
            mutex if self.is_lock() || self.may_be_timed_lock() => Some((mutex, MUTEX_WORDS)),
            futex if self.may_be_rwlock() => Some(((futex & !7).checked_sub(RWLOCK_FUTEXES)?, LOCK_WORDS)),
            _ => None,
        }
    }

    /// Returns the thread that holds the lock, if the words of [`holder_words`](Self::holder_words)
    /// say so. A mutex of glibc has its holder in the third word. Other locks have the same futex
    /// operation but no holder: the words behind must be those of a mutex that at most `threads`
    /// threads use. A rwlock has its writer in the seventh. The caller makes sure that the thread
    /// lives.
    pub fn holder(&self, words: &[u32], threads: usize) -> Option<u32> {
        if self.may_be_rwlock() {
            return self.writer(words);
        }
        let &[value, _, owner, users, kind, ..] = words else { return None };
        let holder = match self.futex_command()? {
            LOCK_PI | LOCK_PI2 => value & HOLDER_MASK,
            _ if value != self.futex_value() => return None,
            WAIT if value != CONTENDED => self.holder_in_value()?,
            WAIT_BITSET if value != CONTENDED => return None,
            WAIT | WAIT_BITSET if (1..=threads as u32).contains(&users) && kind & !MUTEX_KINDS == 0 => owner,
            _ => return None,
        };
        Some(holder).filter(|&tid| tid != 0)
    }

    /// Returns the thread that holds a rwlock of glibc for writing.
    fn writer(&self, words: &[u32]) -> Option<u32> {
        let &[readers, _, phase, writers, 0, 0, writer, shared] = words else { return None };
        let futex = if self.futex()? & 4 == 0 { phase } else { writers };
        let is_written = readers & WRITE_LOCKED != 0 && futex == self.futex_value() && shared <= 1;
        Some(writer).filter(|&tid| is_written && tid != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn futex(operation: u64, value: u32) -> BlockingCall {
        BlockingCall { number: Some(FUTEX), arguments: [0x7f00, operation, value.into()] }
    }

    #[test]
    fn a_line_of_the_kernel_is_parsed_or_refused() {
        let of = |recorded: u32, words: &str| {
            let number = (0..1024).find(|&number| recorded_call(number) == recorded).unwrap();
            BlockingCall::parse(format!("{number} {words}").as_bytes()).unwrap()
        };
        let call = of(FUTEX, "0x7f00 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f12\n");
        assert_eq!(call, futex(0x80, 2));
        assert_eq!((call.futex(), call.descriptor()), (Some(0x7f00), None));
        let call = of(0, "0x3 0x7ffc 0x400 0x0 0x0 0x0 0x7ffd10 0x7f12");
        assert_eq!((call.reason(), call.descriptor(), call.futex()), (WaitReason::Read, Some(3), None));
        assert_eq!(BlockingCall::parse(b"-1 0x7ffd10 0x7f12\n").unwrap().reason(), WaitReason::Memory);
        for line in
            ["running\n", "", "0", "0 0x1 0x2", "0 1 2 3", "99999999999 0x0 0x0 0x0", "0 0x11112222333344445 0x0"]
        {
            assert_eq!(BlockingCall::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn calls_are_in_the_order_of_their_numbers() {
        assert!(CALLS.is_sorted_by_key(|row| row.0));
        // Each is the call that it is said to be.
        let number_of = |name: &str| CALLS.iter().find(|row| row.1 == name).map(|row| row.0);
        assert_eq!([number_of("read"), number_of("futex"), number_of("wait4")], [Some(0), Some(FUTEX), Some(61)]);
    }

    #[test]
    fn what_is_waited_for_has_an_address_or_a_number() {
        let call = |number, arguments| BlockingCall { number: Some(number), arguments };
        assert_eq!((futex(0x80, 2).futex(), call(0, [3, 0, 0]).futex()), (Some(0x7f00), None));
        assert_eq!(call(WAIT4, [4130, 0, 0]).child(), Some(4130));
        assert_eq!(call(WAIT4, [u64::MAX, 0, 0]).child(), None, "any child");
        assert_eq!(call(WAITID, [1, 4130, 0]).child(), Some(4130));
        assert_eq!(call(WAITID, [0, 4130, 0]).child(), None);
    }

    #[test]
    fn a_rwlock_has_its_writer() {
        let reader = BlockingCall { number: Some(FUTEX), arguments: [0x7f08, 0x189, 3] };
        let writer = BlockingCall { number: Some(FUTEX), arguments: [0x7f0c, 0x89, 3] };
        let held = [3, 1, 3, 3, 0, 0, 4130, 0];
        for call in [reader, writer] {
            assert_eq!(call.holder_words(), Some((0x7f00, LOCK_WORDS)));
            assert_eq!(call.holder(&held, 8), Some(4130));
            for (index, word) in [(0, 0x11), (2, 1), (4, 9), (6, 0), (7, 5)] {
                let mut other = held;
                (other[index], other[3]) = (word, if index == 2 { word } else { 3 });
                assert_eq!(call.holder(&other, 8), None, "{other:?}");
            }
        }
        assert_eq!(BlockingCall { arguments: [4, 0x89, 3], ..reader }.holder_words(), None);
    }

    #[test]
    fn the_other_end_of_a_pipe_is_waited_for_while_it_is_opened() {
        let open = |number, arguments| BlockingCall { number: Some(number), arguments };
        let (read, write) = (open(257, [0xffff_ff9c, 0x560a, 0]), open(2, [0x560a, 0o2_000_001, 0]));
        assert_eq!([read, write].map(|call| call.opened_path()), [Some(0x560a); 2]);
        assert_eq!([read, write].map(|call| call.reason()), [WaitReason::Disk; 2]);
        let reasons = [read, write].map(|call| call.reason_of_pipe());
        assert_eq!(reasons, [Some(WaitReason::Read), Some(WaitReason::Write)]);
        assert_eq!(open(0, [3, 0, 0]).reason_of_pipe(), None);
        let describe = BlockingCall::describe_opened;
        assert_eq!(describe(b"/tmp/f\0more", b"wait_for_partner"), (b"pipe /tmp/f".to_vec(), false));
        assert_eq!(describe(b"/tmp/f\0", b"0"), (b"/tmp/f".to_vec(), true));
        assert_eq!(describe(b"", b""), (Vec::new(), true));
    }

    proptest! {
        /// No line of the kernel, and no words in memory, make a holder of what is none.
        #[test]
        fn hostile_lines_and_words_name_no_wrong_holder(
            line in prop_oneof![
                "(-1|202|61|[0-9]{1,10})( 0x[0-9a-f]{1,17}){0,9}( |\n)?",
                "202 0x[0-9a-f]{1,16} 0x(0|80|81|86|89|189|8d) 0x[0-3] 0x0 0x0 0x0 0x7ffd10 0x7f12",
                ".{0,80}",
            ],
            words in prop::array::uniform8(prop_oneof![0u32..6, any::<u32>()]),
            count in 0..=LOCK_WORDS,
            threads in 0usize..100,
        ) {
            let Some(call) = BlockingCall::parse(line.as_bytes()) else { return Ok(()) };
            let (_, _, _) = (call.reason(), call.descriptor(), call.child());
            let Some(holder) = call.holder(&words[..count], threads) else { return Ok(()) };
            let (_, length) = call.holder_words().expect("a holder is read from words");
            prop_assert!(count >= length.min(MUTEX_WORDS) && holder != 0);
            let [operation, value] = [call.arguments[1] & COMMAND_MASK, call.arguments[2] & 0xffff_ffff];
            // A condition variable waits with the operation of a rwlock and of a timed mutex.
            let is_rwlock = value == 3 && words[6] == holder && words[0] & 2 != 0;
            let is_mutex = value == 2 && words[2] == holder && (1..=threads as u32).contains(&words[3]);
            prop_assert!(operation != WAIT_BITSET || is_rwlock || is_mutex);
            prop_assert!(operation != WAIT || value != 2 || is_mutex);
        }
    }

    #[test]
    fn a_mutex_has_a_holder_and_a_condition_variable_has_none() {
        let mutex = [2, 0, 4130, 1, 0];
        assert_eq!(futex(0x80, 2).holder(&mutex, 8), Some(4130));
        assert_eq!(futex(0, 2).holder(&[2, 1, 4130, 2, 1], 8), Some(4130), "a recursive one that processes share");
        // Without a priority in the futex, the holder is not a mutex's third word.
        assert_eq!(futex(0x86, 0).holder(&[0x8000_1022, 0, 0, 0, 0], 8), Some(4130));
        assert_eq!(futex(0x80, 0x8000_1022).holder(&[0x8000_1022, 0, 7, 1, 0], 8), Some(4130));
        // The lock was handed on, or is free.
        assert_eq!(futex(0x80, 2).holder(&[1, 0, 4130, 1, 0], 8), None);
        assert_eq!(futex(0x80, 2).holder(&[2, 0, 0, 1, 0], 8), None);
        // A lock of stdio or malloc: other words follow.
        assert_eq!(futex(0x80, 2).holder(&[2, 1, 0x1234_5678, 0x7f12, 0], 8), None);
        assert_eq!(futex(0x80, 2).holder(&[2, 0, 1, 0, 0x5555_0010], 8), None);
        // A mutex that is waited for until a time, a condition variable, and a lock of Rust's
        // standard library. Their functions tell them apart.
        for operation in [0x189, 0x89] {
            assert_eq!(futex(operation, 2).holder(&mutex, 8), Some(4130));
            assert_eq!(futex(operation, 2).holder(&[2, 0, 17, 4130, 0], 8), None);
            assert_eq!(futex(operation, 2).reason(), WaitReason::Futex);
            assert_eq!(futex(operation, 1).holder(&[1, 0, 4130, 1, 0], 8), None);
            assert_eq!(futex(operation, 1).holder_words(), None);
        }
        assert_eq!(futex(0x80, 2).reason(), WaitReason::Lock);
        assert_eq!(futex(0x80, 1).reason(), WaitReason::Futex);
    }
}
