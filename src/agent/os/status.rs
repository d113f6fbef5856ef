//! The process's own entries in `/proc`: its identity, its credentials, and whether it is
//! sandboxed.

use alloc::vec::Vec;

use crate::agent::os::syscall::{self, File, PathBuffer};
use crate::wire::{MAX_ARGV, MAX_PATH, link_of_program};

/// Credentials and sandbox of one thread. /proc/PID/task/TID/status
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// Real, effective, saved and file-system user ids.
    users: [u32; 4],
    /// Real, effective, saved and file-system group ids.
    groups: [u32; 4],
    /// Seccomp mode: 0 for none, 1 for strict, 2 for filter.
    pub(crate) seccomp: u32,
    /// Signals that the thread blocks.
    pub(crate) blocked: u64,
    /// The thread's id in its own namespace of pids.
    pub(crate) own_tid: u32,
}

impl Status {
    /// Returns whether both have the same credentials.
    pub(crate) fn same_credentials(&self, other: &Status) -> bool {
        (self.users, self.groups) == (other.users, other.groups)
    }

    /// Returns the status of a thread of this process; `None` if it cannot be read.
    pub(crate) fn of(tid: u32) -> Option<Status> {
        let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(tid.into()).text(b"/status");
        Status::read(path.terminated())
    }

    /// Returns the status of the calling thread, in whichever pid namespace `/proc` was mounted.
    pub(crate) fn own() -> Option<Status> {
        Status::read(b"/proc/thread-self/status\0")
    }

    /// Returns the status of the first thread.
    pub(crate) fn of_first() -> Option<Status> {
        Status::read(b"/proc/self/status\0")
    }

    fn read(path: &[u8]) -> Option<Status> {
        let mut text = [0; 4096];
        let length = File::open(path, 0)?.read(&mut text);
        Some(Status::parse(&text[..length]))
    }

    fn parse(text: &[u8]) -> Status {
        let mut status = Status::default();
        for line in text.split(|&byte| byte == b'\n') {
            let mut numbers = line.split(u8::is_ascii_whitespace).skip(1).map(|word| {
                word.iter().fold(0u32, |value, &digit| value.wrapping_mul(10).wrapping_add(u32::from(digit & 15)))
            });
            if line.starts_with(b"NSpid:") {
                status.own_tid = numbers.last().unwrap_or(0);
                continue;
            }
            let mut next = || numbers.next().unwrap_or(0);
            if line.starts_with(b"Uid:") {
                status.users = [next(), next(), next(), next()];
            } else if line.starts_with(b"Gid:") {
                status.groups = [next(), next(), next(), next()];
            } else if line.starts_with(b"Seccomp:") {
                status.seccomp = next();
            } else if let Some(mask) = line.strip_prefix(b"SigBlk:\t") {
                let digit = |&byte: &u8| u64::from((byte as char).to_digit(16).unwrap_or(0));
                status.blocked = mask.iter().fold(0, |value, byte| value << 4 | digit(byte));
            }
        }
        status
    }
}

/// Returns the process's pid in the namespace in which `/proc` was mounted: the target of the link
/// /proc/self.
pub(crate) fn own_pid() -> u32 {
    let mut text = [0; 16];
    let length = syscall::read_link(b"/proc/self\0", &mut text);
    let digits = text[..length].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0u32, |value, &digit| value.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')))
}

/// Returns the parent's pid and the start time in clock ticks since boot: fields 4 and 22 of
/// /proc/self/stat.
pub(crate) fn parent_and_start() -> (u32, u64) {
    let mut text = [0; 1024];
    let length = File::open(b"/proc/self/stat\0", 0).map_or(0, |file| file.read(&mut text));
    let text = &text[..length];
    let Some(end) = text.iter().rposition(|&byte| byte == b')') else { return (0, 0) };
    let number = |word: &[u8]| word.iter().fold(0u64, |value, &digit| value.wrapping_mul(10) + u64::from(digit & 15));
    // The fields after the name: state (3), parent (4) …
    let mut fields = text[end + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(number);
    let parent = fields.nth(1).unwrap_or(0);
    (parent as u32, fields.nth(17).unwrap_or(0))
}

/// The program of this process.
pub(crate) struct OwnProgram {
    /// Path of its file.
    file: Vec<u8>,
    /// Path by which it was started, if that is a link beside the file.
    link: Option<Vec<u8>>,
}

impl OwnProgram {
    /// Returns the program of this process. readlink(2), openat(2), fstat(2)
    pub(crate) fn own() -> OwnProgram {
        let mut file = alloc::vec![0; MAX_PATH];
        let length = syscall::read_link(EXECUTABLE, &mut file);
        file.truncate(length);
        let link = started_as(&file);
        OwnProgram { file, link }
    }

    /// Returns the path by which it was started.
    pub(crate) fn path(&self) -> &[u8] {
        self.link.as_ref().unwrap_or(&self.file)
    }

    /// Returns the path of a mapped file, which is that of the link for the program's own.
    pub(crate) fn path_of<'a>(&'a self, file: &'a [u8]) -> &'a [u8] {
        if file == self.file { self.path() } else { file }
    }
}

const EXECUTABLE: &[u8] = b"/proc/self/exe\0";

fn started_as(file: &[u8]) -> Option<Vec<u8>> {
    let mut path = alloc::vec![0; MAX_PATH];
    let length = link_of_program(file, &argv(), &mut path)?;
    let inode = |path: &[u8]| File::open(path, libc::O_PATH)?.status().map(|status| [status.st_dev, status.st_ino]);
    let is_same = inode(&path[..=length])? == inode(EXECUTABLE)?;
    path.truncate(length);
    is_same.then_some(path)
}

/// Returns the arguments, each ended by a NUL, cut off at [`MAX_ARGV`].
pub(crate) fn argv() -> Vec<u8> {
    let mut text = alloc::vec![0; MAX_ARGV];
    let length = File::open(b"/proc/self/cmdline\0", 0).map_or(0, |file| file.read(&mut text));
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text =
            b"Name:\tx\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t8\nNSpid:\t4123\t7\nSigBlk:\t8000000000400001\nSeccomp:\t2\n";
        let status = Status::parse(text);
        let expected = Status {
            users: [1000, 1001, 1002, 1003],
            groups: [5, 6, 7, 8],
            seccomp: 2,
            blocked: 0x8000_0000_0040_0001,
            own_tid: 7,
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn this_process_is_told() {
        let (parent, start) = parent_and_start();
        assert_eq!(parent, std::os::unix::process::parent_id());
        assert!(start > 0);
        assert_eq!(own_pid(), std::process::id());
        assert_eq!(OwnProgram::own().path(), std::env::current_exe().expect("own path").as_os_str().as_encoded_bytes());
        assert!(argv().starts_with(std::env::args().next().expect("own name").as_bytes()));
        let me = crate::agent::os::syscall::gettid();
        assert!(
            Status::of(me).expect("own status").same_credentials(&Status::of(std::process::id()).expect("of main"))
        );
    }
}
