//! Finds where a thread sleeps without waking it: its instruction and stack pointers are read from
//! the kernel, and its stack is copied through the kernel and walked. A signal would end a sleep
//! early with EINTR, even with SA_RESTART.
//!
//! Only these two registers are known. A frame that needs another one before an inner frame has
//! restored it ends the walk, and the sample is marked as truncated: a sleeping thread is not woken
//! to complete it.

use alloc::boxed::Box;

use crate::agent::interpreter;
use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::os::syscall::{File, PathBuffer};
use crate::agent::unwind::modules::Snapshot;
use crate::agent::unwind::registers::Registers;
use crate::agent::unwind::stack::CopiedStack;
use crate::agent::unwind::walk::{self, WalkCache};
use crate::link::wire::{BlockingCall, MAX_FRAMES};

/// Maximum size of the copy of a stack, in bytes from its stack pointer.
const COPY: usize = 64 * 1024;
const PAGE: usize = 4096;

/// Instruction and stack pointer of a sleeping thread, and its system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SleepLocation {
    ip: u64,
    sp: u64,
    /// The system call that it is in, if the kernel tells.
    pub(crate) call: Option<BlockingCall>,
}

impl SleepLocation {
    /// Reads the location of a thread of this process. Returns `None` while it runs.
    /// /proc/PID/task/TID/syscall
    pub(crate) fn of(tid: u32) -> Option<SleepLocation> {
        let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(tid.into()).text(b"/syscall");
        let mut text = [0; 256];
        let length = File::open(path.terminated(), 0)?.read(&mut text);
        SleepLocation::parse(&text[..length])
    }

    /// Parses `NUMBER ARGUMENTS… SP PC`, or `-1 SP PC` outside of a system call, or `running`.
    fn parse(text: &[u8]) -> Option<SleepLocation> {
        let mut words = text.trim_ascii_end().rsplit(|&byte| byte == b' ').map(hex);
        Some(SleepLocation { ip: words.next()??, sp: words.next()??, call: BlockingCall::parse(text) })
    }
}

fn hex(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"0x")?;
    let digit = |value: u64, &byte: &u8| Some(value << 4 | u64::from((byte as char).to_digit(16)?));
    if digits.is_empty() || digits.len() > 16 { None } else { digits.iter().try_fold(0, digit) }
}

/// Walks the stacks of sleeping threads.
pub(crate) struct SleeperWalker {
    memory: ProcessMemory,
    cache: WalkCache,
    copy: Box<[u8]>,
}

impl SleeperWalker {
    /// Makes a walker with an empty cache.
    pub(crate) fn new() -> SleeperWalker {
        SleeperWalker {
            memory: ProcessMemory::open(),
            cache: WalkCache::new(),
            copy: alloc::vec![0; COPY].into_boxed_slice(),
        }
    }

    /// Writes the stack of the thread `tid`, which sleeps at `location`, packed, and returns its depth and
    /// flags. The stack is truncated where a frame needs a register that only a signal could
    /// provide. Returns `None` if the stack cannot be read. The caller checks that the thread slept
    /// all the time.
    pub(crate) fn walk_sleeper(
        &mut self,
        snapshot: &Snapshot,
        tid: u32,
        location: SleepLocation,
        frames: &mut [u64; MAX_FRAMES],
    ) -> Option<(usize, u32)> {
        let low = location.sp;
        let mut length = PAGE - low as usize % PAGE;
        self.memory.read(low, &mut self.copy[..length])?;
        // The copy is made page by page, because the end of the stack is not known.
        while length + PAGE <= COPY
            && self.memory.read(low + length as u64, &mut self.copy[length..length + PAGE]).is_some()
        {
            length += PAGE;
        }
        let mut stack = CopiedStack { low, bytes: &self.copy[..length] };
        let walk =
            walk::walk(snapshot, &mut self.cache, Registers::of_sleeper(location.ip, location.sp), &mut stack, frames);
        let depth = interpreter::merge_frames(tid, frames, walk.depth, walk.is_whole());
        Some((depth, walk.flags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        for line in ["230 0x0 0x0 0x7ffc 0x0 0x0 0x0 0x7ffd0010 0x7f12\n", "-1 0x7ffd0010 0x7f12\n"] {
            let call = BlockingCall::parse(line.as_bytes());
            assert!(call.is_some());
            let location = SleepLocation { ip: 0x7f12, sp: 0x7ffd_0010, call };
            assert_eq!(SleepLocation::parse(line.as_bytes()), Some(location));
        }
        assert_eq!(SleepLocation::parse(b"running\n"), None);
        assert_eq!(SleepLocation::parse(b""), None);
    }

    #[test]
    fn a_sleeper_has_a_place_until_it_ends() {
        let (tell, received) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(crate::agent::os::syscall::gettid()).expect("listened to");
            let _ = wait.recv();
        });
        let tid = received.recv().expect("a thread id");
        while SleepLocation::of(tid).is_none() {
            std::thread::yield_now();
        }
        drop(done);
        sleeper.join().expect("no panic");
        assert_eq!(SleepLocation::of(tid), None, "it has ended");
    }
}
