//! A reader of debug information with a work budget. Files are not trusted: tables of a few
//! kilobytes can refer to each other so that parsing takes hours, needs gigabytes, or overflows the
//! stack. Every step of a parser reads, so the reader counts reads and checks the stack depth.

use std::borrow::Cow;
use std::cell::Cell;

use addr2line::gimli::{EndianSlice, Error, LittleEndian, Reader, ReaderOffsetId, Result};

/// Maximum stack depth of parsers, in bytes. Their thread has twice as much stack.
pub(super) const MAX_STACK_BYTES: usize = 8 << 20;
/// Steps per byte of a file's tables. Looking up every function of a real file takes less than one
/// step for three bytes.
const STEPS_PER_BYTE: u64 = 4;
/// Steps that every file has, whatever its size.
const MIN_STEPS: u64 = 1 << 20;
/// Bytes of text that cost one step.
const TEXT_PER_STEP: u64 = 16;

/// The remaining work for one file.
#[derive(Debug)]
pub(super) struct WorkBudget {
    steps: Cell<u64>,
    stack_base: Cell<usize>,
}

impl WorkBudget {
    /// Returns the budget for tables of this size.
    pub(super) fn new(bytes: u64) -> WorkBudget {
        WorkBudget {
            steps: Cell::new(bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(MIN_STEPS)),
            stack_base: Cell::new(0),
        }
    }

    /// Adds the budget for further tables of this size.
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
    fn spend(&self, steps: u64) -> Result<()> {
        let left = self.steps.get().saturating_sub(steps);
        self.steps.set(left);
        if left == 0 || stack_position().abs_diff(self.stack_base.get()) > MAX_STACK_BYTES {
            return Err(Error::UnexpectedEof(ReaderOffsetId(0)));
        }
        Ok(())
    }
}

/// The address of a local variable.
#[inline(always)]
fn stack_position() -> usize {
    let here = 0u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// A reader of one section that spends a budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeteredReader<'a> {
    slice: EndianSlice<'a, LittleEndian>,
    budget: &'a WorkBudget,
}

impl<'a> MeteredReader<'a> {
    pub(super) fn new(bytes: &'a [u8], budget: &'a WorkBudget) -> MeteredReader<'a> {
        MeteredReader { slice: EndianSlice::new(bytes, LittleEndian), budget }
    }

    /// The remaining bytes.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.slice.slice()
    }

    fn text(&self) -> Result<()> {
        self.budget.spend(1 + self.slice.len() as u64 / TEXT_PER_STEP)
    }
}

impl<'a> Reader for MeteredReader<'a> {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    #[inline]
    fn len(&self) -> usize {
        self.slice.len()
    }

    fn empty(&mut self) {
        Reader::empty(&mut self.slice);
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> Result<()> {
        self.slice.truncate(len)
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.slice.offset_from(base.slice)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        self.slice.offset_id()
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.slice.lookup_offset_id(id)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let found = Reader::find(&self.slice, byte)?;
        self.budget.spend(1 + found as u64 / TEXT_PER_STEP)?;
        Ok(found)
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        self.budget.spend(1)?;
        self.slice.skip(len)
    }

    #[inline]
    fn split(&mut self, len: usize) -> Result<Self> {
        self.budget.spend(1)?;
        let slice = self.slice.split(len)?;
        Ok(MeteredReader { slice, budget: self.budget })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.text()?;
        self.slice.to_slice()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.text()?;
        Reader::to_string(&self.slice)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        self.text()?;
        Reader::to_string_lossy(&self.slice)
    }

    /// Reads a number, which is one step: it has at most ten bytes.
    #[inline]
    fn read_uleb128(&mut self) -> Result<u64> {
        self.budget.spend(1)?;
        self.slice.read_uleb128()
    }

    /// Skips a number, which may be as long as its section.
    #[inline]
    fn skip_leb128(&mut self) -> Result<()> {
        let before = self.slice.len();
        self.slice.skip_leb128()?;
        self.budget.spend(1 + (before - self.slice.len()) as u64 / TEXT_PER_STEP)
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.budget.spend(1)?;
        self.slice.read_slice(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_fails_when_the_steps_are_spent() {
        let budget = WorkBudget { steps: Cell::new(4), stack_base: Cell::new(stack_position()) };
        let mut reader = MeteredReader::new(&[1, 2, 3, 4, 5, 6], &budget);
        assert_eq!([reader.read_u8(), reader.read_u8(), reader.read_u8()], [Ok(1), Ok(2), Ok(3)]);
        assert!(!budget.is_empty());
        assert!(reader.read_u8().is_err() && budget.is_empty());
    }

    #[test]
    fn text_costs_steps_by_length() {
        let budget = WorkBudget { steps: Cell::new(100), stack_base: Cell::new(stack_position()) };
        let text = [b'a'; 1600];
        assert!(MeteredReader::new(&text, &budget).to_string_lossy().is_err());
    }

    #[test]
    fn numbers_cost_steps() {
        let budget = WorkBudget { steps: Cell::new(50), stack_base: Cell::new(stack_position()) };
        let (long, short) = ([0x80; 1600], [0xe5, 0x8e, 0x26]);
        assert!(MeteredReader::new(&long, &budget).read_uleb128().is_err(), "it has too many bytes");
        let mut reader = MeteredReader::new(&short, &budget);
        assert_eq!((reader.read_uleb128(), reader.len(), budget.steps.get()), (Ok(624_485), 0, 48));
        let ended = [&long[..], &[0]].concat();
        assert!(MeteredReader::new(&ended, &budget).skip_leb128().is_err() && budget.is_empty());
    }

    #[test]
    fn recursion_fails_before_the_stack_overflows() {
        fn descend(reader: MeteredReader<'_>, depth: u64) -> u64 {
            let room = std::hint::black_box([0u8; 4096]);
            match reader.clone().read_u8() {
                Ok(_) => descend(reader, depth + 1) + u64::from(room[0]),
                Err(_) => depth,
            }
        }
        let thread = std::thread::Builder::new().stack_size(2 * MAX_STACK_BYTES);
        let thread = thread.spawn(|| {
            let budget = WorkBudget::new(1 << 30);
            budget.start();
            descend(MeteredReader::new(&[0], &budget), 0)
        });
        let depth = thread.unwrap().join().expect("no overflow");
        assert!((100..3_000).contains(&depth), "{depth}");
    }
}
