//! One section of debug information, read page by page when a parser needs it: of a gigabyte, the
//! rows of a screen need a few dozen units. Nothing is mapped, so a file that is truncated
//! meanwhile causes an error, not a signal. Packed sections are unpacked as a whole.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use addr2line::gimli::{Error, LittleEndian, Reader, ReaderOffsetId, Result, SectionId, leb128};

use super::budget::WorkBudget;
use super::dropped_code::{AddressUse, CodeRanges};
use super::elf::{Elf, Section};
use super::error::Error as ElfError;

/// Size of a page. Most units are larger, and of most units only the head is needed.
const PAGE_BYTES: usize = 4 << 10;
/// Maximum size of a section: positions have four bytes.
const MAX_SECTION_BYTES: u64 = 2 << 30;
/// Bytes of text that cost one step.
const TEXT_PER_STEP: usize = 16;

/// The limits for parsers and the memory of sections, which all sections of one file share.
#[derive(Debug, Default)]
pub(super) struct SectionLimits {
    pub(super) budget: WorkBudget,
    /// The addresses where the file has code.
    pub(super) code: CodeRanges,
    /// The memory of pages that were read, and of the tables that parsers build of them.
    used_bytes: Cell<u64>,
    /// The part of it that was read.
    read_bytes: Cell<u64>,
    /// Maximum of what is read.
    room_bytes: Cell<u64>,
}

impl SectionLimits {
    /// Returns limits for sections that may have `room_bytes` in memory. They describe `code`.
    pub(super) fn new(room_bytes: u64, code: CodeRanges) -> SectionLimits {
        SectionLimits { room_bytes: Cell::new(room_bytes), code, ..SectionLimits::default() }
    }

    /// The memory that sections and their tables take.
    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes.get()
    }

    /// The number of bytes that may still be read.
    pub(super) fn left_bytes(&self) -> u64 {
        self.room_bytes.get().saturating_sub(self.read_bytes.get())
    }

    /// Sets the number of bytes that may be read in all.
    pub(super) fn set_room(&self, room_bytes: u64) {
        self.room_bytes.set(room_bytes);
    }

    fn add(&self, bytes: u64, table_bytes: u64) {
        self.read_bytes.set(self.read_bytes.get() + bytes);
        self.used_bytes.set(self.used_bytes.get() + bytes + table_bytes);
    }
}

/// The bytes of one section.
#[derive(Default)]
pub(super) struct DebugSection {
    bytes: SectionBytes,
    limits: Rc<SectionLimits>,
    /// The memory of tables that parsers build of a byte.
    tables_per_byte: u64,
    addresses: AddressUse,
}

#[derive(Default)]
enum SectionBytes {
    #[default]
    Empty,
    Whole(Vec<u8>),
    Paged {
        file: Rc<File>,
        offset: u64,
        len: usize,
        /// Pages do not move and stay, so that parsers can refer to them.
        pages: Box<[OnceCell<Box<[u8]>>]>,
    },
}

impl DebugSection {
    /// Opens a section of a file. `file` is its descriptor, which all its sections share.
    pub(super) fn open(
        elf: &Elf,
        file: &mut Option<Rc<File>>,
        (id, section): (SectionId, &Section),
        limits: &Rc<SectionLimits>,
    ) -> std::result::Result<DebugSection, ElfError> {
        let raw = elf.raw_section(section).filter(|(.., size)| *size <= MAX_SECTION_BYTES);
        let Some((opened, offset, size)) = raw else {
            return Ok(DebugSection::whole(elf.bytes(section, limits.left_bytes())?, id, limits));
        };
        let file = match file {
            Some(file) => file,
            None => {
                let cause =
                    |error: io::Error| ElfError::Unreadable { path: elf.path.clone(), cause: error.to_string() };
                file.insert(Rc::new(opened.try_clone().map_err(cause)?))
            }
        };
        Ok(DebugSection::paged((file, offset, size as usize), id, limits))
    }

    /// Returns a section that is in memory.
    pub(super) fn whole(bytes: Vec<u8>, id: SectionId, limits: &Rc<SectionLimits>) -> DebugSection {
        limits.budget.extend(bytes.len() as u64);
        limits.add(bytes.len() as u64, 0);
        let (limits, addresses) = (Rc::clone(limits), AddressUse::in_section(id));
        DebugSection { bytes: SectionBytes::Whole(bytes), limits, tables_per_byte: 0, addresses }
    }

    /// Returns the section that has `len` bytes at `offset` of a file.
    fn paged((file, offset, len): (&Rc<File>, u64, usize), id: SectionId, limits: &Rc<SectionLimits>) -> DebugSection {
        let pages: Box<[_]> = (0..len.div_ceil(PAGE_BYTES)).map(|_| OnceCell::new()).collect();
        limits.budget.extend(len as u64);
        limits.add(0, size_of_val(&*pages) as u64);
        let bytes = SectionBytes::Paged { file: Rc::clone(file), offset, len, pages };
        let (limits, addresses) = (Rc::clone(limits), AddressUse::in_section(id));
        DebugSection { bytes, limits, tables_per_byte: tables_per_byte(id), addresses }
    }

    /// The work budget of the file.
    pub(super) fn budget(&self) -> &WorkBudget {
        &self.limits.budget
    }

    /// Returns a reader of the whole section.
    pub(super) fn reader(&self) -> SectionReader<'_> {
        let len = match &self.bytes {
            SectionBytes::Empty => 0,
            SectionBytes::Whole(bytes) => bytes.len(),
            SectionBytes::Paged { len, .. } => *len,
        };
        let len = len.min(MAX_SECTION_BYTES as usize) as u32;
        SectionReader { page: &[], more: len, end: len, section: self }
    }

    /// Returns the bytes from `position` to the end of their page, and reads them if necessary.
    fn page(&self, position: usize) -> Result<&[u8]> {
        let failed = || Error::UnexpectedEof(ReaderOffsetId(position as u64));
        match &self.bytes {
            SectionBytes::Empty => Err(failed()),
            SectionBytes::Whole(bytes) => bytes.get(position..).ok_or_else(failed),
            SectionBytes::Paged { file, offset, len, pages } => {
                let (index, start) = (position / PAGE_BYTES, position - position % PAGE_BYTES);
                let place = pages.get(index).ok_or_else(failed)?;
                if place.get().is_none() {
                    let mut bytes = vec![0; PAGE_BYTES.min(len - start)].into_boxed_slice();
                    if bytes.len() as u64 > self.limits.left_bytes() {
                        return Err(failed());
                    }
                    file.read_exact_at(&mut bytes, offset.saturating_add(start as u64)).map_err(|_| failed())?;
                    self.limits.add(bytes.len() as u64, bytes.len() as u64 * self.tables_per_byte);
                    let _ = place.set(bytes);
                }
                place.get().and_then(|bytes| bytes.get(position - start..)).ok_or_else(failed)
            }
        }
    }
}

/// An estimate of the memory of the tables that addr2line builds of a byte of a section: a row of
/// a line table has 24 bytes there and some 3 in the file, a range of a unit 32 and 16.
fn tables_per_byte(id: SectionId) -> u64 {
    match id {
        SectionId::DebugLine => 8,
        SectionId::DebugAranges => 2,
        SectionId::DebugInfo => 1,
        _ => 0,
    }
}

/// A reader of a part of a section. It spends the work budget.
#[derive(Clone, Copy)]
pub(super) struct SectionReader<'a> {
    /// The remaining bytes that are in the current page.
    page: &'a [u8],
    /// The number of bytes after them.
    more: u32,
    /// The position in the section where the part ends.
    end: u32,
    section: &'a DebugSection,
}

impl<'a> SectionReader<'a> {
    /// The remaining bytes.
    pub(super) fn bytes(&self) -> Result<Cow<'a, [u8]>> {
        let mut reader = *self;
        if reader.page.is_empty() && reader.more > 0 {
            reader.turn_page()?;
        }
        if reader.more == 0 {
            return Ok(Cow::Borrowed(reader.page));
        }
        let mut bytes = Vec::with_capacity(Reader::len(&reader).min(PAGE_BYTES));
        loop {
            bytes.extend_from_slice(reader.page);
            if reader.more == 0 {
                return Ok(Cow::Owned(bytes));
            }
            reader.turn_page()?;
        }
    }

    fn position(&self) -> usize {
        self.end as usize - Reader::len(self)
    }

    fn budget(&self) -> &'a WorkBudget {
        self.section.budget()
    }

    fn ended(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }

    /// Goes to the next page, of which there is at least one byte.
    #[cold]
    fn turn_page(&mut self) -> Result<()> {
        let page = self.section.page((self.end - self.more) as usize)?;
        self.page = &page[..page.len().min(self.more as usize)];
        self.more -= self.page.len() as u32;
        Ok(())
    }

    /// Discards bytes without spending the budget.
    #[inline]
    fn advance(&mut self, len: usize) -> Result<()> {
        match self.page.get(len..) {
            Some(rest) => self.page = rest,
            // The page where it goes on is read if it is needed.
            None if len <= Reader::len(self) => {
                self.more -= (len - self.page.len()) as u32;
                self.page = &[];
            }
            None => return Err(self.ended()),
        }
        Ok(())
    }

    #[cold]
    fn read_across_pages(&mut self, buffer: &mut [u8]) -> Result<()> {
        if buffer.len() > Reader::len(self) {
            return Err(self.ended());
        }
        let mut filled = 0;
        while filled < buffer.len() {
            if self.page.is_empty() {
                self.turn_page()?;
            }
            let count = self.page.len().min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&self.page[..count]);
            self.page = &self.page[count..];
            filled += count;
        }
        Ok(())
    }

    fn spend_text(&self) -> Result<()> {
        self.budget().spend(1 + (Reader::len(self) / TEXT_PER_STEP) as u64)
    }
}

impl fmt::Debug for SectionReader<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes at {}", Reader::len(self), self.position())
    }
}

impl Reader for SectionReader<'_> {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    #[inline]
    fn len(&self) -> usize {
        self.page.len() + self.more as usize
    }

    fn empty(&mut self) {
        // The position stays.
        self.end -= Reader::len(self) as u32;
        (self.page, self.more) = (&[], 0);
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> Result<()> {
        let surplus = Reader::len(self).checked_sub(len).ok_or_else(|| self.ended())?;
        self.end -= surplus as u32;
        self.more = len.saturating_sub(self.page.len()) as u32;
        self.page = &self.page[..self.page.len().min(len)];
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.position().saturating_sub(base.position())
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.position() as u64)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let offset = (id.0 as usize).checked_sub(self.position())?;
        (offset <= Reader::len(self)).then_some(offset)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let (mut reader, mut before) = (*self, 0);
        let found = loop {
            match memchr::memchr(byte, reader.page) {
                Some(at) => break before + at,
                None if reader.more > 0 => {
                    before += reader.page.len();
                    reader.turn_page()?;
                }
                None => return Err(self.ended()),
            }
        };
        self.budget().spend(1 + (found / TEXT_PER_STEP) as u64)?;
        Ok(found)
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        self.budget().spend(1)?;
        self.advance(len)
    }

    #[inline]
    fn split(&mut self, len: usize) -> Result<Self> {
        self.budget().spend(1)?;
        let mut head = *self;
        head.truncate(len)?;
        self.advance(len)?;
        Ok(head)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.spend_text()?;
        self.bytes()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.spend_text()?;
        match self.bytes()? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Error::BadUtf8),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Error::BadUtf8),
        }
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        self.spend_text()?;
        Ok(match self.bytes()? {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        self.budget().spend(1)?;
        match self.page.split_first() {
            Some((&byte, rest)) => {
                self.page = rest;
                Ok(byte)
            }
            None => {
                let mut byte = [0];
                self.read_across_pages(&mut byte)?;
                Ok(byte[0])
            }
        }
    }

    /// Parsers that call themselves read numbers, so the stack is checked here.
    #[inline]
    fn read_uleb128(&mut self) -> Result<u64> {
        self.budget().check_stack()?;
        leb128::read::unsigned(self)
    }

    /// Addresses of code that is not in the file are read as -1.
    #[inline]
    fn read_address(&mut self, address_size: u8) -> Result<u64> {
        if address_size != 8 {
            return Err(Error::UnsupportedAddressSize(address_size));
        }
        let position = self.position();
        let address = self.read_u64()?;
        Ok(self.section.limits.code.filter(address, position, self.section.addresses))
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.budget().spend(1)?;
        let Some((bytes, rest)) = self.page.split_at_checked(buffer.len()) else {
            return self.read_across_pages(buffer);
        };
        buffer.copy_from_slice(bytes);
        self.page = rest;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use addr2line::gimli::EndianSlice;
    use proptest::prelude::*;

    use super::*;

    /// Bytes of a file before the section, and of the section, whose last page is not full.
    const BEFORE: usize = 100;
    const LEN: usize = 3 * PAGE_BYTES + 1000;
    /// A byte that is rare enough for a search to cross pages.
    const RARE: u8 = 255;

    /// A file and the bytes of the section in it: each page differs.
    fn file() -> (Rc<File>, Vec<u8>) {
        let bytes = |at: usize| if at.is_multiple_of(5003) { RARE } else { (at % 251) as u8 };
        let bytes = (0..BEFORE + LEN).map(bytes).collect::<Vec<_>>();
        let path = std::env::temp_dir().join(format!("sigtop-section-{}", std::process::id()));
        std::fs::write(&path, &bytes).expect("the file is written");
        let file = File::open(&path).expect("the file was written");
        std::fs::remove_file(&path).expect("the file was written");
        (Rc::new(file), bytes[BEFORE..].to_vec())
    }

    /// Moves a reader; returns what it has read. `kind` is the way.
    fn step<'a, R: Reader<Offset = usize, Endian = LittleEndian> + 'a>(
        (reader, start): (&mut R, &R),
        (kind, len): (u8, usize),
    ) -> Option<Vec<u8>> {
        let mut buffer = vec![0; len];
        let bytes = match kind {
            0 => reader.skip(len).map(|()| Vec::new()),
            1 => reader.read_slice(&mut buffer).map(|()| buffer),
            2 => reader.split(len).and_then(|part| Ok(part.to_slice()?.into_owned())),
            3 => reader.find(RARE).map(|at| at.to_le_bytes().to_vec()),
            4 => reader.read_uleb128().map(|number| number.to_le_bytes().to_vec()),
            5 => reader.read_u64().map(|number| number.to_le_bytes().to_vec()),
            _ => reader.truncate(reader.len().saturating_sub(len / 16)).map(|()| Vec::new()),
        };
        // What an error leaves of a reader is not used.
        let mut bytes = bytes.ok()?;
        bytes.extend([reader.len(), reader.offset_from(start)].iter().flat_map(|number| number.to_le_bytes()));
        Some(bytes)
    }

    proptest! {
        #![proptest_config(crate::property::property(256))]
        #[test]
        fn pages_read_like_the_whole_section(steps in proptest::collection::vec((0u8..7, 0..PAGE_BYTES + 900), 1..20)) {
            let (file, bytes) = file();
            let limits = Rc::new(SectionLimits::new(LEN as u64, CodeRanges::default()));
            let section = DebugSection::paged((&file, BEFORE as u64, LEN), SectionId::DebugStr, &limits);
            section.budget().start();
            let (start, whole_start) = (section.reader(), EndianSlice::new(&bytes, LittleEndian));
            let (mut reader, mut whole) = (start, whole_start);
            for what in steps {
                let (read, expected) = (step((&mut reader, &start), what), step((&mut whole, &whole_start), what));
                prop_assert_eq!(&read, &expected);
                if read.is_none() {
                    break;
                }
            }
        }
    }
}
