//! Readers of stack memory that cannot fault: the stack of the thread that is interrupted, and a
//! copy of another thread's stack.

use crate::agent::os::syscall;
use crate::agent::unwind::modules::Snapshot;
use crate::arch::{LINK_REGISTER, RED_ZONE, page_size};

/// A source of stack words.
pub(crate) trait Stack {
    /// Returns the word at an address, if it can be read.
    fn read(&mut self, address: u64) -> Option<u64>;
    /// Tells the reader that the walk continues at `sp`, and whether tables cover the code there.
    /// Without tables, what follows may be garbage.
    fn moved(&mut self, sp: u64, covered: bool);

    /// Reads code, where unwind tables do not suffice.
    fn read_code(&mut self, address: u64, code: &mut [u8]) -> Option<()>;
}

/// Maximum number of pages probed in one walk: at least 256 KiB of stack.
const PROBES: u32 = 64;

/// Returns the end of the page that holds an address.
fn page_end(address: u64) -> u64 {
    (address | (page_size() as u64 - 1)) + 1
}

/// The stack of the interrupted thread. Inside a mapping that the snapshot knows, and while tables
/// cover every frame, it is read by plain loads; elsewhere only pages that were probed are read.
pub(crate) struct LiveStack<'a> {
    snapshot: &'a Snapshot,
    /// Start of the memory that can be read without a probe; `high` is its end.
    low: u64,
    high: u64,
    /// Number of probes left; 0 where system calls are forbidden.
    probes: u32,
}

impl<'a> LiveStack<'a> {
    /// Creates a reader of the stack around `sp`.
    pub(crate) fn new(snapshot: &'a Snapshot, sp: u64, may_call: bool) -> LiveStack<'a> {
        let mut stack = LiveStack { snapshot, low: 0, high: 0, probes: if may_call { PROBES } else { 0 } };
        stack.enter(sp);
        stack
    }

    fn enter(&mut self, sp: u64) {
        self.low = sp.saturating_sub(RED_ZONE);
        self.high = self.snapshot.stack_end(sp).unwrap_or(self.low);
    }
}

impl Stack for LiveStack<'_> {
    #[inline]
    fn read(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) || address < self.low {
            return None;
        }
        while address >= self.high {
            // Probes go upwards only, page by page: everything in between must be mapped, or the
            // walk has gone astray.
            self.probes = self.probes.checked_sub(1)?;
            if !syscall::is_readable(self.high as usize & !7) {
                return None;
            }
            self.high = page_end(self.high);
        }
        // SAFETY: mapped: inside the mapping that holds the live stack pointer, or probed just now.
        // Only this thread takes its own stack away, and it is in this handler.
        Some(unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() })
    }

    /// The kernel copies it: another thread may unmap it in the meantime.
    fn read_code(&mut self, address: u64, code: &mut [u8]) -> Option<()> {
        self.probes = self.probes.checked_sub(1)?;
        syscall::read_own_memory(address, code).then_some(())
    }

    fn moved(&mut self, sp: u64, covered: bool) {
        if !(self.low..self.high).contains(&sp) {
            self.enter(sp);
        }
        if !covered {
            self.high = self.high.min(page_end(sp));
        }
    }
}

/// A copy of a stack of this process.
pub(crate) struct CopiedStack<'a> {
    /// Address of the first byte.
    pub(crate) low: u64,
    /// The stack's contents from `low` on.
    pub(crate) bytes: &'a [u8],
}

impl Stack for CopiedStack<'_> {
    fn read(&mut self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.low)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }

    fn moved(&mut self, _sp: u64, _covered: bool) {}

    /// The code may be gone by now. Where calls push return addresses, few walks need it, and the
    /// library would be a page larger.
    fn read_code(&mut self, address: u64, code: &mut [u8]) -> Option<()> {
        LINK_REGISTER?;
        syscall::read_own_memory(address, code).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_read_beside_a_copy_where_walks_need_it() {
        static CODE: [u8; 5] = [1, 2, 3, 4, 5];
        let (mut stack, mut code) = (CopiedStack { low: 0x7000, bytes: &[] }, [0; 4]);
        assert_eq!(stack.read_code(CODE.as_ptr() as u64, &mut code).is_some(), LINK_REGISTER.is_some());
        assert!(LINK_REGISTER.is_none() || code == CODE[..4]);
        assert_eq!(stack.read_code(16, &mut code), None, "nothing is mapped there");
    }
}
