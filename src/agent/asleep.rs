//! Where a sleeping thread is, found without waking it: the kernel tells its instruction and stack pointer, and its stack is
//! copied through the kernel and walked. A signal would end a sleep early with EINTR, whatever SA_RESTART says.
//!
//! Of its registers only these two are known. A frame that needs another one before an inner frame has given it ends the
//! walk, and the sample is marked as truncated: no sleeper is woken to complete it.

use alloc::boxed::Box;

use super::modules::Snapshot;
use super::sys::{File, PathBuffer};
use super::tables::Memory;
use super::unwind::{self, Cache, Registers, Stack};
use crate::link::wire::MAX_FRAMES;

/// Bytes of stack copied from its pointer on, at most.
const COPY: usize = 64 * 1024;
const PAGE: usize = 4096;

/// A thread's place in the kernel: it sleeps there as long as neither changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    ip: u64,
    sp: u64,
}

impl Place {
    /// Of a thread of this process; `None` while it runs. /proc/PID/task/TID/syscall
    pub(super) fn of(tid: u32) -> Option<Place> {
        let path = PathBuffer::<64>::new().text(b"/proc/self/task/").number(tid.into()).text(b"/syscall");
        let mut text = [0; 256];
        let length = File::open(path.terminated(), 0)?.read(&mut text);
        Place::parse(&text[..length])
    }

    /// `NUMBER ARGUMENTS… SP PC`, or `-1 SP PC` outside of a system call, or `running`.
    fn parse(text: &[u8]) -> Option<Place> {
        let mut words = text.trim_ascii_end().rsplit(|&byte| byte == b' ').map(hex);
        Some(Place { ip: words.next()??, sp: words.next()?? })
    }
}

fn hex(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"0x")?;
    let digit = |value: u64, &byte: &u8| Some(value << 4 | u64::from((byte as char).to_digit(16)?));
    if digits.is_empty() || digits.len() > 16 { None } else { digits.iter().try_fold(0, digit) }
}

/// What is needed to look.
pub(super) struct Looker {
    memory: Memory,
    cache: Cache,
    copy: Box<[u8]>,
}

impl Looker {
    /// Ready to look.
    pub(super) fn new() -> Looker {
        Looker { memory: Memory::open(), cache: Cache::new(), copy: alloc::vec![0; COPY].into_boxed_slice() }
    }

    /// Writes the stack of a thread that sleeps at `place`, packed, and returns its depth and
    /// flags: cut short where a frame needs a register that only a signal would tell. `None` if the
    /// stack cannot be read. The caller finds out whether the thread slept all the while.
    pub(super) fn look(
        &mut self,
        snapshot: &Snapshot,
        place: Place,
        frames: &mut [u64; MAX_FRAMES],
    ) -> Option<(usize, u32)> {
        let low = place.sp;
        let mut length = PAGE - low as usize % PAGE;
        self.memory.read(low, &mut self.copy[..length])?;
        // Page by page, as the end of the stack is not known.
        while length + PAGE <= COPY
            && self.memory.read(low + length as u64, &mut self.copy[length..length + PAGE]).is_some()
        {
            length += PAGE;
        }
        let mut stack = CopiedStack { low, bytes: &self.copy[..length] };
        let walk = unwind::walk(snapshot, &mut self.cache, Registers::asleep(place.ip, place.sp), &mut stack, frames);
        Some((walk.depth, walk.flags))
    }
}

/// A stack as it was when it was copied.
pub(super) struct CopiedStack<'a> {
    /// Address of the first byte.
    pub(super) low: u64,
    /// From there on.
    pub(super) bytes: &'a [u8],
}

impl Stack for CopiedStack<'_> {
    fn read(&mut self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.low)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }

    fn moved(&mut self, _sp: u64, _covered: bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let place = Place { ip: 0x7f12, sp: 0x7ffd_0010 };
        assert_eq!(Place::parse(b"230 0x0 0x0 0x7ffc 0x0 0x0 0x0 0x7ffd0010 0x7f12\n"), Some(place));
        assert_eq!(Place::parse(b"-1 0x7ffd0010 0x7f12\n"), Some(place));
        assert_eq!(Place::parse(b"running\n"), None);
        assert_eq!(Place::parse(b""), None);
    }

    #[test]
    fn a_sleeper_has_a_place_until_it_ends() {
        let (tell, told) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(super::super::sys::gettid()).expect("listened to");
            let _ = wait.recv();
        });
        let tid = told.recv().expect("told");
        while Place::of(tid).is_none() {
            std::thread::yield_now();
        }
        drop(done);
        sleeper.join().expect("no panic");
        assert_eq!(Place::of(tid), None, "it has ended");
    }
}
