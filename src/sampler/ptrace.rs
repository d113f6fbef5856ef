//! The requests of ptrace(2) that a sampler makes, and reading another process's memory.

use std::io;
use std::ptr;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};

use crate::process::cpython::memory::MAX_GATHERED;

/// A change of a thread's state, as wait4(2) reports it to its tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadEvent {
    /// The thread has stopped where it was asked to, or before the delivery of a signal.
    Stopped {
        /// The signal to deliver when the thread continues; 0 for none.
        signal: i32,
    },
    /// The whole process was stopped, from the keyboard for example, and stays so.
    GroupStopped,
    /// The thread has ended.
    Ended,
}

/// Makes a request whose type differs between libraries: the system call takes a long.
fn request(request: impl Into<libc::c_long>, tid: u32, data: usize) -> Result<(), Errno> {
    // SAFETY: none of the requests of this file reads or writes memory of this process.
    Errno::result(unsafe { libc::syscall(libc::SYS_ptrace, request.into(), tid, ptr::null_mut::<u8>(), data) })
        .map(drop)
}

/// Becomes the tracer of a thread, which runs on.
pub(super) fn seize(tid: u32) -> Result<(), Errno> {
    request(libc::PTRACE_SEIZE, tid, 0)
}

/// Asks a traced thread to stop.
pub(super) fn interrupt(tid: u32) -> Result<(), Errno> {
    request(libc::PTRACE_INTERRUPT, tid, 0)
}

/// Lets a stopped thread run on untraced, and delivers a signal unless it is 0.
pub(super) fn detach(tid: u32, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_DETACH, tid, signal as usize)
}

/// Returns the next event of a traced thread, without waiting.
pub(super) fn next_event() -> Option<(u32, ThreadEvent)> {
    let mut status = 0;
    let options = libc::__WALL | libc::WNOHANG | libc::__WNOTHREAD;
    // SAFETY: the kernel writes one integer that lives through the call.
    let tid = unsafe { libc::waitpid(-1, &mut status, options) };
    (tid > 0).then(|| (tid as u32, ThreadEvent::of_status(status)))
}

impl ThreadEvent {
    fn of_status(status: i32) -> ThreadEvent {
        if !libc::WIFSTOPPED(status) {
            return ThreadEvent::Ended;
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        match event {
            0 => ThreadEvent::Stopped { signal },
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => ThreadEvent::GroupStopped,
            _ => ThreadEvent::Stopped { signal: 0 },
        }
    }
}

/// Blocks SIGCHLD, which reports events, so that [`wait_for_event`] can wait for it.
pub(super) fn block_events() -> io::Result<()> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    set.thread_block().map_err(io::Error::from)
}

/// Waits until there may be an event, at most this long.
pub(super) fn wait_for_event(at_most: Duration) {
    let timeout = libc::timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    // SAFETY: both pointers are to values that live through the call; no siginfo is asked for.
    unsafe { libc::sigtimedwait(set.as_ref(), ptr::null_mut(), &timeout) };
}

/// Copies memory of a process, up to the first page that cannot be read. Returns the number of
/// bytes copied.
pub(super) fn read_memory(pid: u32, address: u64, buffer: &mut [u8]) -> usize {
    let ours = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let theirs = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the kernel writes at most `buffer.len()` bytes to the buffer; the other address is of
    // another process and is checked by the kernel.
    let copied = unsafe { libc::process_vm_readv(pid as i32, &ours, 1, &theirs, 1, 0) };
    usize::try_from(copied).unwrap_or(0)
}

/// Fills the buffer with the same number of bytes from each of some addresses of a process. Returns
/// the number of bytes copied, up to the first that cannot be read.
pub(super) fn gather_memory(pid: u32, addresses: &[u64], buffer: &mut [u8]) -> usize {
    let each = buffer.len().checked_div(addresses.len()).unwrap_or(0);
    let ours = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: each * addresses.len() };
    let mut theirs = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MAX_GATHERED];
    let count = addresses.len().min(MAX_GATHERED);
    for (range, &address) in theirs.iter_mut().zip(addresses) {
        *range = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: each };
    }
    // SAFETY: the kernel writes at most `iov_len` bytes, which the buffer has, and checks the other
    // addresses.
    let copied = unsafe { libc::process_vm_readv(pid as i32, &ours, 1, theirs.as_ptr(), count as libc::c_ulong, 0) };
    usize::try_from(copied).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_tells_the_signal_to_deliver() {
        let stop = |signal: i32, event: i32| ThreadEvent::of_status(event << 16 | signal << 8 | 0x7f);
        assert_eq!(stop(libc::SIGUSR1, 0), ThreadEvent::Stopped { signal: libc::SIGUSR1 });
        assert_eq!(stop(libc::SIGTRAP, libc::PTRACE_EVENT_STOP), ThreadEvent::Stopped { signal: 0 });
        assert_eq!(stop(libc::SIGTSTP, libc::PTRACE_EVENT_STOP), ThreadEvent::GroupStopped);
        assert_eq!(ThreadEvent::of_status(3 << 8), ThreadEvent::Ended);
    }

    #[test]
    fn memory_is_read_up_to_the_first_missing_page() {
        let (own, bytes) = (std::process::id(), *b"stack");
        let mut copy = [0; 5];
        assert_eq!(read_memory(own, bytes.as_ptr() as u64, &mut copy), 5);
        assert_eq!(copy, bytes);
        assert_eq!(read_memory(own, 8, &mut copy), 0);
    }

    #[test]
    fn bytes_are_gathered_from_all_addresses_or_up_to_the_first_bad_one() {
        let (own, bytes) = (std::process::id(), *b"abcdefgh");
        let at = |index: usize| &raw const bytes[index] as u64;
        let mut copy = [0; 6];
        assert_eq!(gather_memory(own, &[at(6), at(0), at(2)], &mut copy), 6);
        assert_eq!(&copy, b"ghabcd");
        assert_eq!(gather_memory(own, &[at(6), 8, at(2)], &mut copy), 2);
        assert_eq!(gather_memory(own, &[], &mut copy), 0);
        assert!(gather_memory(own, &[at(0); MAX_GATHERED + 1], &mut [0; MAX_GATHERED + 1]) <= MAX_GATHERED);
    }
}
