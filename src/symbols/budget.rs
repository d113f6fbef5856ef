//! The work budget of the parsers of one file. Files are not trusted: tables of a few kilobytes can
//! refer to each other so that parsing takes hours, needs gigabytes, or overflows the stack. Every
//! step of a parser reads, so the [reader](super::section) counts reads and checks the stack depth.

use std::cell::Cell;

use addr2line::gimli::{Error, ReaderOffsetId, Result};

/// Maximum stack depth of parsers, in bytes. Their thread has twice as much stack.
pub(super) const MAX_STACK_BYTES: usize = 8 << 20;
/// Steps per byte of a file's tables. Looking up every function of a real file takes less than one
/// step per byte.
const STEPS_PER_BYTE: u64 = 4;
/// Steps that every file has, whatever its size.
const MIN_STEPS: u64 = 1 << 20;
/// The error of a parser whose limit is reached.
const SPENT: Error = Error::UnexpectedEof(ReaderOffsetId(0));

/// The remaining work for one file.
#[derive(Debug)]
pub(super) struct WorkBudget {
    steps: Cell<u64>,
    stack_base: Cell<usize>,
}

impl Default for WorkBudget {
    fn default() -> Self {
        WorkBudget { steps: Cell::new(MIN_STEPS), stack_base: Cell::new(0) }
    }
}

impl WorkBudget {
    /// Adds the budget for tables of this size.
    pub(super) fn extend(&self, bytes: u64) {
        // A budget that is spent stays so.
        if !self.is_empty() {
            self.steps.set(self.steps.get().saturating_add(bytes.saturating_mul(STEPS_PER_BYTE)));
        }
    }

    /// Whether the budget is spent. Later results for the file are incomplete.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.get() == 0
    }

    /// Records the current stack depth as the one at which parsers start.
    pub(super) fn start(&self) {
        self.stack_base.set(stack_position());
    }

    #[inline]
    pub(super) fn spend(&self, steps: u64) -> Result<()> {
        let left = self.steps.get().saturating_sub(steps);
        self.steps.set(left);
        if left == 0 { Err(SPENT) } else { Ok(()) }
    }

    /// Fails if parsers have called themselves too often.
    #[inline]
    pub(super) fn check_stack(&self) -> Result<()> {
        let is_deep = stack_position().abs_diff(self.stack_base.get()) > MAX_STACK_BYTES;
        if is_deep { Err(SPENT) } else { Ok(()) }
    }
}

/// The address of a local variable.
#[inline(always)]
fn stack_position() -> usize {
    let here = 0u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

#[cfg(test)]
mod tests {
    use addr2line::gimli::{Reader, SectionId};

    use super::super::section::DebugSection;
    use super::*;

    fn section(bytes: &[u8], steps: u64) -> DebugSection {
        let section = DebugSection::whole(bytes.to_vec(), SectionId::DebugInfo, &Default::default());
        section.budget().steps.set(steps);
        section.budget().start();
        section
    }

    #[test]
    fn reading_fails_when_the_steps_are_spent() {
        let section = section(&[1, 2, 3, 4, 5, 6], 4);
        let mut reader = section.reader();
        assert_eq!([reader.read_u8(), reader.read_u8(), reader.read_u8()], [Ok(1), Ok(2), Ok(3)]);
        assert!(!section.budget().is_empty());
        assert!(reader.read_u8().is_err() && section.budget().is_empty());
    }

    #[test]
    fn text_costs_steps_by_length() {
        assert!(section(&[b'a'; 1600], 100).reader().to_string_lossy().is_err());
    }

    #[test]
    fn numbers_cost_steps() {
        let long = section(&[0x80; 1600], 1 << 20);
        assert!(long.reader().read_uleb128().is_err(), "it has too many bytes");
        let short = section(&[0xe5, 0x8e, 0x26], 50);
        let mut reader = short.reader();
        assert_eq!((reader.read_uleb128(), reader.len(), short.budget().steps.get()), (Ok(624_485), 0, 47));
        let ended = section(&[&[0x80; 1600][..], &[0]].concat(), 50);
        assert!(ended.reader().skip_leb128().is_err() && ended.budget().is_empty());
    }

    #[test]
    fn recursion_fails_before_the_stack_overflows() {
        fn descend(section: &DebugSection, depth: u64) -> u64 {
            let room = std::hint::black_box([0u8; 4096]);
            match section.reader().read_uleb128() {
                Ok(_) => descend(section, depth + 1) + u64::from(room[0]),
                Err(_) => depth,
            }
        }
        let thread = std::thread::Builder::new().stack_size(2 * MAX_STACK_BYTES);
        let thread = thread.spawn(|| descend(&section(&[0], 1 << 30), 0));
        let depth = thread.unwrap().join().expect("no overflow");
        assert!((100..3_000).contains(&depth), "{depth}");
    }
}
