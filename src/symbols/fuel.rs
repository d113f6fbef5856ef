//! A reader of debug information that stops. Files are believed in nothing: their tables can refer to each other so that
//! a few kilobytes take hours to follow, grow to gigabytes, or nest until the stack is full. Every step of every parser
//! goes through a reader, so this one counts the steps, and looks where the stack is.

use std::borrow::Cow;
use std::cell::Cell;

use addr2line::gimli::{EndianSlice, Error, LittleEndian, Reader, ReaderOffsetId, Result};

/// Stack that parsers may use, in bytes. The thread that runs them has twice as much.
pub(super) const MAX_STACK_BYTES: usize = 8 << 20;
/// Steps for each byte of a file's tables. Looking up every function of real files takes less than one in three bytes.
const STEPS_PER_BYTE: u64 = 4;
/// Steps that a file has for being there.
const MIN_STEPS: u64 = 1 << 20;
/// Bytes of text that are as dear as a step.
const TEXT_PER_STEP: u64 = 16;

/// What is left to spend on one file.
#[derive(Debug)]
pub(super) struct Tank {
    steps: Cell<u64>,
    stack_base: Cell<usize>,
}

impl Tank {
    /// A tank for tables of so many bytes.
    pub(super) fn new(bytes: u64) -> Tank {
        Tank {
            steps: Cell::new(bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(MIN_STEPS)),
            stack_base: Cell::new(0),
        }
    }

    /// Whether it has run dry: what the file says from now on is not all that it has to say.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.get() == 0
    }

    /// Marks this depth of the stack as the one that parsers start at.
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

/// Address of something on the stack.
#[inline(always)]
fn stack_position() -> usize {
    let here = 0u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Bytes of one section, read at a price.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metered<'a> {
    slice: EndianSlice<'a, LittleEndian>,
    tank: &'a Tank,
}

impl<'a> Metered<'a> {
    pub(super) fn new(bytes: &'a [u8], tank: &'a Tank) -> Metered<'a> {
        Metered { slice: EndianSlice::new(bytes, LittleEndian), tank }
    }

    /// All of its bytes.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.slice.slice()
    }

    fn text(&self) -> Result<()> {
        self.tank.spend(1 + self.slice.len() as u64 / TEXT_PER_STEP)
    }
}

impl<'a> Reader for Metered<'a> {
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
        self.tank.spend(1 + found as u64 / TEXT_PER_STEP)?;
        Ok(found)
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        self.tank.spend(1)?;
        self.slice.skip(len)
    }

    #[inline]
    fn split(&mut self, len: usize) -> Result<Self> {
        self.tank.spend(1)?;
        let slice = self.slice.split(len)?;
        Ok(Metered { slice, tank: self.tank })
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

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.tank.spend(1)?;
        self.slice.read_slice(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_until_the_steps_are_spent() {
        let tank = Tank { steps: Cell::new(4), stack_base: Cell::new(stack_position()) };
        let mut reader = Metered::new(&[1, 2, 3, 4, 5, 6], &tank);
        assert_eq!([reader.read_u8(), reader.read_u8(), reader.read_u8()], [Ok(1), Ok(2), Ok(3)]);
        assert!(!tank.is_empty());
        assert!(reader.read_u8().is_err() && tank.is_empty());
    }

    #[test]
    fn text_is_paid_by_its_length() {
        let tank = Tank { steps: Cell::new(100), stack_base: Cell::new(stack_position()) };
        let text = [b'a'; 1600];
        assert!(Metered::new(&text, &tank).to_string_lossy().is_err());
    }

    #[test]
    fn recursion_ends_before_the_stack_does() {
        fn descend(reader: Metered<'_>, depth: u64) -> u64 {
            let room = std::hint::black_box([0u8; 4096]);
            match reader.clone().read_u8() {
                Ok(_) => descend(reader, depth + 1) + u64::from(room[0]),
                Err(_) => depth,
            }
        }
        let thread = std::thread::Builder::new().stack_size(2 * MAX_STACK_BYTES);
        let thread = thread.spawn(|| {
            let tank = Tank::new(1 << 30);
            tank.start();
            descend(Metered::new(&[0], &tank), 0)
        });
        let depth = thread.unwrap().join().expect("no overflow");
        assert!((100..3_000).contains(&depth), "{depth}");
    }
}
