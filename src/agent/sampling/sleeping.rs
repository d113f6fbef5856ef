//! Finds where a thread sleeps without waking it: its instruction and stack pointers are read from
//! the kernel, and its stack is copied through the kernel and walked. A signal would end a sleep
//! early with EINTR, even with SA_RESTART.
//!
//! Only these two registers are known. A frame that needs the base pointer before an inner frame
//! has restored it is left by its size, see [`frame_size`](crate::agent::unwind::frame_size). Where
//! that is not known, or another register is needed, the walk ends and the sample is marked as
//! truncated: a sleeping thread is not woken to complete it.

use alloc::boxed::Box;
use core::sync::atomic::Ordering;

use crate::agent::interpreter;
use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::os::syscall::{File, PathBuffer};
use crate::agent::sampling::deepest;
use crate::agent::state;
use crate::agent::unwind::modules::Snapshot;
use crate::agent::unwind::registers::Registers;
use crate::agent::unwind::stack::{CopiedStack, Stack};
use crate::agent::unwind::walk::{self, WalkCache};
use crate::process::waits::SleepLocation;
use crate::wire::MAX_FRAMES;

/// Maximum size of the copy of a stack, in bytes from its stack pointer. Words behind it are read
/// one by one.
const COPY: usize = 64 * 1024;
/// Minimum size of the first part of it, in bytes. Most stacks need no more.
const FIRST_COPY: usize = 2 * PAGE;
const PAGE: usize = 4096;

/// Opens the file that tells where a thread of this process sleeps.
/// /proc/PID/task/TID/syscall
pub(crate) fn open_location(tid: u32) -> Option<File> {
    let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(tid.into()).text(b"/syscall");
    File::open(path.terminated(), 0)
}

/// Reads the present location from that file. Returns `None` while the thread runs.
pub(crate) fn read_location(file: &File) -> Option<SleepLocation> {
    let mut text = [0; 256];
    let length = file.read_at(&mut text, 0);
    SleepLocation::parse(&text[..length])
}

/// Walks the stacks of sleeping threads.
pub(crate) struct SleeperWalker {
    memory: ProcessMemory,
    cache: Box<WalkCache>,
    copy: Box<[u8]>,
}

impl SleeperWalker {
    /// Makes a walker with an empty cache.
    pub(crate) fn new() -> SleeperWalker {
        SleeperWalker {
            memory: ProcessMemory::open(),
            cache: WalkCache::boxed(),
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
        let mut stack = LazyStack { memory: &self.memory, low: location.sp, copy: &mut self.copy, length: 0 };
        if !stack.extend() {
            return None;
        }
        let walk =
            walk::walk(snapshot, &mut self.cache, Registers::of_sleeper(location.ip, location.sp), &mut stack, frames);
        if walk.uncovered {
            // The code may be in a library that was loaded just now.
            state::WANT_MODULES.store(true, Ordering::Relaxed);
        }
        deepest::note(tid, location.sp, snapshot, self.cache.last_walk(), &walk, frames[0]);
        let depth = interpreter::merge_frames_of_sleeper(&self.memory, tid, frames, walk.depth, walk.is_whole());
        Some((depth, walk.flags))
    }
}

/// The stack of a sleeping thread, copied as far as the walk has needed it.
struct LazyStack<'a> {
    memory: &'a ProcessMemory,
    /// Address of the first byte.
    low: u64,
    copy: &'a mut [u8],
    /// Number of bytes that are copied.
    length: usize,
}

impl LazyStack<'_> {
    /// Copies as much again as there is, up to a page. Returns false if there is no more.
    fn extend(&mut self) -> bool {
        let wanted = self.length + self.length.max(FIRST_COPY);
        let wanted = (wanted - (self.low as usize + wanted) % PAGE).min(self.copy.len());
        let more = self.memory.read_some(self.low + self.length as u64, &mut self.copy[self.length..wanted]);
        self.length += more;
        more > 0
    }
}

impl Stack for LazyStack<'_> {
    fn read(&mut self, address: u64) -> Option<u64> {
        let end = usize::try_from(address.checked_sub(self.low)?).ok()?.checked_add(8)?;
        if end > self.copy.len() {
            // Frames of hundreds of kilobytes are not copied for a few words.
            let mut word = [0; 8];
            return self.memory.read(address, &mut word).map(|()| u64::from_ne_bytes(word));
        }
        while self.length < end && self.extend() {}
        CopiedStack { low: self.low, bytes: &self.copy[..self.length] }.read(address)
    }

    fn moved(&mut self, _sp: u64, _covered: bool) {}

    fn read_code(&mut self, address: u64, code: &mut [u8]) -> Option<()> {
        self.memory.read(address, code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_has_a_place_until_it_ends() {
        let (tell, received) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(crate::agent::os::syscall::gettid()).expect("listened to");
            let _ = wait.recv();
        });
        let tid = received.recv().expect("a thread id");
        let file = open_location(tid).expect("a thread");
        while read_location(&file).is_none() {
            std::thread::yield_now();
        }
        drop(done);
        sleeper.join().expect("no panic");
        assert_eq!(read_location(&file), None, "it has ended");
    }
}
