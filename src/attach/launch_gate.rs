//! The gate through which a launched program goes before it is executed: the sampler opens its
//! events first, so that the program is sampled from its first instant.
//!
//! The child that is about to execute the program writes a command to the sampler and waits until
//! the sampler has written the child's pid to its memory file, or for [`PATIENCE`] at most.

use std::fs::File;
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// First word of the command; the pid follows.
pub(crate) const COMMAND: &str = "prepare";
/// Offset of the answer in the memory file, bytes.
const ANSWER: u64 = 8;
/// Time between two looks at the answer.
const LOOK: Duration = Duration::from_micros(100);
/// Maximum time that a program waits. A sampler that has just been started takes some milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// The descriptors of a running sampler, for a child of this process.
#[derive(Clone, Copy, Debug)]
pub struct LaunchGate {
    /// The socket of commands.
    pub(crate) commands: RawFd,
    /// The memory file.
    pub(crate) answers: RawFd,
}

impl LaunchGate {
    /// Waits in the child of a fork until it is sampled. It makes system calls alone.
    pub(super) fn pass(self) {
        let pid = std::process::id();
        let (line, length) = command(pid);
        // SAFETY: the kernel reads that many bytes of a buffer that lives through the call.
        let written = unsafe { libc::write(self.commands, line.as_ptr().cast(), length) };
        let pause = libc::timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        for _ in 0..PATIENCE.as_micros() / LOOK.as_micros() {
            let mut answer = [0; 8];
            // SAFETY: the kernel writes 8 bytes at most to a buffer that lives through the call.
            let read = unsafe { libc::pread(self.answers, answer.as_mut_ptr().cast(), 8, ANSWER as i64) };
            if written != length as isize || read == 8 && u64::from_ne_bytes(answer) == u64::from(pid) {
                return;
            }
            // SAFETY: the kernel reads one structure that lives through the call.
            unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
        }
    }
}

/// Writes the command of a child, without an allocation.
fn command(pid: u32) -> ([u8; 32], usize) {
    let mut line = [0; 32];
    let mut digits = [0; 10];
    let mut count = 0;
    let mut left = pid;
    while left > 0 || count == 0 {
        digits[count] = b'0' + (left % 10) as u8;
        (left, count) = (left / 10, count + 1);
    }
    let words = COMMAND.bytes().chain([b' ']).chain(digits[..count].iter().rev().copied()).chain([b'\n']);
    let length = words.zip(&mut line).map(|(byte, place)| *place = byte).count();
    (line, length)
}

/// Lets a child go on. `answers` is the memory file of the sampler.
pub(crate) fn open(answers: &File, pid: u32) {
    // The child goes on by itself after a while.
    let _ = answers.write_all_at(&u64::from(pid).to_ne_bytes(), ANSWER);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_child_writes_a_command_and_goes_on_when_it_is_answered() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let answers = File::from(memfd_create(c"gate", MFdFlags::MFD_CLOEXEC).unwrap());
        let gate = LaunchGate { commands: ours.as_raw_fd(), answers: answers.as_raw_fd() };
        let child = std::thread::spawn(move || gate.pass());
        let mut line = [0; 32];
        let length = theirs.read(&mut line).unwrap();
        assert_eq!(line[..length], *format!("prepare {}\n", std::process::id()).as_bytes());
        open(&answers, std::process::id());
        child.join().unwrap();
        assert_eq!(command(0).0[..10], *b"prepare 0\n");
        assert_eq!(command(u32::MAX).0[..command(u32::MAX).1], *b"prepare 4294967295\n");
    }

    #[test]
    fn a_child_goes_on_without_an_answer() {
        let answers = File::from(memfd_create(c"gate", MFdFlags::MFD_CLOEXEC).unwrap());
        LaunchGate { commands: -1, answers: answers.as_raw_fd() }.pass();
    }
}
