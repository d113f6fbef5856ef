//! Numbers of system calls.

/// The system calls that block, by their numbers, and their numbers on x86-64.
const BLOCKING: [(u32, u32); 64] = [
    (4, 208),   // io_getevents
    (22, 281),  // epoll_pwait
    (25, 72),   // fcntl
    (29, 16),   // ioctl
    (32, 73),   // flock
    (35, 263),  // unlinkat
    (38, 264),  // renameat
    (45, 76),   // truncate
    (46, 77),   // ftruncate
    (47, 285),  // fallocate
    (56, 257),  // openat
    (61, 217),  // getdents64
    (63, 0),    // read
    (64, 1),    // write
    (65, 19),   // readv
    (66, 20),   // writev
    (67, 17),   // pread64
    (68, 18),   // pwrite64
    (69, 295),  // preadv
    (70, 296),  // pwritev
    (71, 40),   // sendfile
    (72, 270),  // pselect6
    (73, 271),  // ppoll
    (76, 275),  // splice
    (79, 262),  // newfstatat
    (81, 162),  // sync
    (82, 74),   // fsync
    (83, 75),   // fdatasync
    (84, 277),  // sync_file_range
    (95, 247),  // waitid
    (98, 202),  // futex
    (101, 35),  // nanosleep
    (115, 230), // clock_nanosleep
    (128, 219), // restart_syscall
    (133, 130), // rt_sigsuspend
    (137, 128), // rt_sigtimedwait
    (182, 242), // mq_timedsend
    (183, 243), // mq_timedreceive
    (188, 70),  // msgrcv
    (189, 69),  // msgsnd
    (192, 220), // semtimedop
    (193, 65),  // semop
    (202, 43),  // accept
    (203, 42),  // connect
    (206, 44),  // sendto
    (207, 45),  // recvfrom
    (211, 46),  // sendmsg
    (212, 47),  // recvmsg
    (213, 187), // readahead
    (227, 26),  // msync
    (242, 288), // accept4
    (243, 299), // recvmmsg
    (260, 61),  // wait4
    (267, 306), // syncfs
    (269, 307), // sendmmsg
    (276, 316), // renameat2
    (285, 326), // copy_file_range
    (286, 327), // preadv2
    (287, 328), // pwritev2
    (291, 332), // statx
    (426, 426), // io_uring_enter
    (437, 437), // openat2
    (441, 441), // epoll_pwait2
    (449, 449), // futex_waitv
];

/// Returns the number by which messages and recordings name a system call that blocks: its number
/// on x86-64. Others have no number there.
pub(crate) fn recorded_call(number: u32) -> u32 {
    BLOCKING.binary_search_by_key(&number, |row| row.0).map_or(u32::MAX, |row| BLOCKING[row].1)
}

/// System calls that other processors have besides those that took their place. These are numbers
/// that no call has.
#[cfg(feature = "viewer")]
pub(crate) mod old_calls {
    pub(crate) const OPEN: i64 = -2;
    pub(crate) const STAT: i64 = -3;
    pub(crate) const LSTAT: i64 = -4;
    pub(crate) const ACCESS: i64 = -5;
    pub(crate) const READLINK: i64 = -6;
    pub(crate) const EPOLL_WAIT: i64 = -7;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_numbers_of_recordings() {
        assert!(BLOCKING.is_sorted_by(|a, b| a.0 < b.0));
        let numbers = [libc::SYS_read, libc::SYS_futex, libc::SYS_clock_nanosleep, libc::SYS_epoll_pwait, 1023];
        assert_eq!(numbers.map(|number| recorded_call(number as u32)), [0, 202, 230, 281, u32::MAX]);
    }
}
