//! The parts of a thread's stack that are copied: those that its walks have needed before.

use super::ptrace::read_memory;
use super::stack_copy::StackCopy;
use super::unwind::interrupted_stack;
use crate::arch::RED_ZONE;

/// Number of bytes that are copied from the stack pointer on at first: ordinary stacks have 3 to
/// 15 KiB in all.
const FIRST_BYTES: usize = 64 << 10;
/// Maximum number of bytes that are copied from the stack pointer on.
const MAX_BYTES: usize = 256 << 10;
/// The same at first of a sleeping thread, whose stack is rarely deep.
const SLEEPING_BYTES: usize = 16 << 10;
/// Number of parts behind large frames.
const FAR_PARTS: usize = 2;
/// Number of bytes in each of these parts.
const FAR_BYTES: usize = 16 << 10;
/// Number of bytes before the return address behind a large frame, which a walk asks for first:
/// they have the registers that its function has saved. Those before the stack pointer of
/// interrupted code have its red zone.
const SAVED_BYTES: u64 = 256;

/// The parts of one thread's stack that are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StackExtent {
    /// Number of bytes from the stack pointer on.
    bytes: usize,
    /// Start addresses of parts behind frames that are larger than that, the latest first; 0 for
    /// none. Such a frame belongs to a function near the root, so that its address remains.
    far: [u64; FAR_PARTS],
}

impl StackExtent {
    pub(super) fn new() -> StackExtent {
        StackExtent { bytes: FIRST_BYTES, far: [0; FAR_PARTS] }
    }

    /// Copies more from the stack pointer on from now on. Returns whether that is possible.
    pub(super) fn extend(&mut self) -> bool {
        let is_possible = self.bytes < MAX_BYTES;
        self.bytes = (2 * self.bytes).min(MAX_BYTES);
        is_possible
    }

    /// Copies the part around this address from now on, too. Returns whether that is new.
    pub(super) fn reach(&mut self, address: u64) -> bool {
        let is_known = |&start: &u64| (start..start.saturating_add(FAR_BYTES as u64 - 8)).contains(&address);
        if self.far.iter().any(is_known) {
            return false;
        }
        self.far.rotate_right(1);
        self.far[0] = address.saturating_sub(SAVED_BYTES) & !7;
        true
    }

    /// Adds the stack of a thread to an empty copy. The memory is asked of the thread itself,
    /// because the first thread of its process may have ended.
    pub(super) fn copy(&self, copy: &mut StackCopy, tid: u32, sp: u64, is_asleep: bool) {
        let bytes = if is_asleep && self.bytes == FIRST_BYTES { SLEEPING_BYTES } else { self.bytes };
        let add = |copy: &mut StackCopy, start, bytes| copy.add(start, bytes, |buffer| read_memory(tid, start, buffer));
        add(copy, sp, bytes);
        // A handler on an alternate stack has interrupted the code on another one.
        if let Some(sp) = interrupted_stack(copy) {
            add(copy, sp.saturating_sub(RED_ZONE), bytes);
        }
        for &start in self.far.iter().filter(|&&start| start > sp) {
            add(copy, start, FAR_BYTES);
        }
    }
}

/// The parts of a stack that the kernel does not copy, of a thread that is not stopped while they
/// are read: those behind large frames, which lie near its root, and the one that a handler on an
/// alternate stack has interrupted. They rarely change: what is the same before and after a sample
/// was so at the sample.
#[derive(Clone, Debug, Default)]
pub(super) struct SteadyParts {
    far: [SteadyPart; FAR_PARTS],
    interrupted: SteadyPart,
}

impl SteadyParts {
    /// Adds the parts that have not changed since the last sample to a copy.
    pub(super) fn copy(&mut self, extent: &StackExtent, copy: &mut StackCopy, pid: u32, sp: u64) {
        if let Some(interrupted) = interrupted_stack(copy)
            && copy.word(interrupted).is_none()
        {
            self.interrupted.copy(interrupted.saturating_sub(SAVED_BYTES) & !7, copy, pid);
        }
        for (&start, part) in extent.far.iter().zip(&mut self.far) {
            if start > sp {
                part.copy(start, copy, pid);
            }
        }
    }
}

/// A part as it was read last.
#[derive(Clone, Debug, Default)]
struct SteadyPart {
    start: u64,
    bytes: Vec<u8>,
}

impl SteadyPart {
    /// Reads the part from an address on, and adds what has not changed since it was read last.
    fn copy(&mut self, start: u64, copy: &mut StackCopy, pid: u32) {
        let mut now = vec![0; FAR_BYTES];
        let length = read_memory(pid, start, &mut now);
        now.truncate(length);
        if self.start == start {
            let (from, to) = steady_run(&self.bytes, &now);
            copy.add(start + from as u64, to - from, |buffer| {
                buffer.copy_from_slice(&now[from..to]);
                to - from
            });
        }
        (self.start, self.bytes) = (start, now);
    }
}

/// Returns the bytes around the return address behind a large frame, or around the stack pointer of
/// interrupted code, that are the same in two copies of a part, in whole words.
fn steady_run(before: &[u8], now: &[u8]) -> (usize, usize) {
    let (before, _) = before.as_chunks::<8>();
    let (now, _) = now.as_chunks::<8>();
    let wanted = SAVED_BYTES as usize / 8;
    let is_same: Vec<bool> = before.iter().zip(now).map(|(before, now)| before == now).collect();
    if is_same.get(wanted) != Some(&true) {
        return (0, 0);
    }
    let first = is_same[..wanted].iter().rposition(|same| !same).map_or(0, |index| index + 1);
    let last = is_same[wanted..].iter().position(|same| !same).map_or(is_same.len(), |index| wanted + index);
    (8 * first, 8 * last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_have_changed_are_left_out() {
        let before: Vec<u8> = (0..800).map(|byte| byte as u8).collect();
        let mut now = before.clone();
        assert_eq!(steady_run(&before, &now), (0, 800));
        (now[100], now[700]) = (0, 0);
        assert_eq!(steady_run(&before, &now), (104, 696));
        now[SAVED_BYTES as usize + 3] ^= 1;
        assert_eq!(steady_run(&before, &now), (0, 0), "the return address has changed");
        assert_eq!((steady_run(&before, &[]), steady_run(&[], &now)), ((0, 0), (0, 0)));
    }

    #[test]
    fn more_is_copied_up_to_a_limit() {
        let mut extent = StackExtent::new();
        assert_eq!([extent.extend(), extent.extend(), extent.extend()], [true, true, false]);
        assert_eq!(extent.bytes, MAX_BYTES);
    }

    #[test]
    fn the_latest_far_parts_are_copied() {
        let mut extent = StackExtent::new();
        assert!(extent.reach(0x100_1008));
        assert!(!extent.reach(0x100_1008) && !extent.reach(0x100_4000), "these are in the part");
        assert!(extent.reach(0x100_4f00) && extent.reach(0x7f00_0000_0000));
        assert_eq!(extent.far, [0x7eff_ffff_ff00, 0x100_4e00]);
        assert!(extent.reach(8));
        assert_eq!(extent.far[0], 0);
    }

    #[test]
    fn own_memory_is_copied_in_parts() {
        let stack = vec![7u64; 100_000];
        let at = |index: usize| &raw const stack[index] as u64;
        let (mut extent, mut copy) = (StackExtent::new(), StackCopy::default());
        extent.copy(&mut copy, std::process::id(), at(0), true);
        assert_eq!([copy.word(at(2_047)), copy.word(at(2_048)), copy.word(at(90_000))], [Some(7), None, None]);
        assert!(extent.reach(at(90_000)));
        copy.clear();
        extent.copy(&mut copy, std::process::id(), at(0), false);
        assert_eq!([copy.word(at(8_191)), copy.word(at(8_192)), copy.word(at(90_000))], [Some(7), None, Some(7)]);
    }
}
