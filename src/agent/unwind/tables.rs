//! The unwind tables of one mapped file, in the agent's own memory, so that dlclose cannot unmap
//! them. They are a private mapping of the file if it is still the one that the process runs, and
//! otherwise a copy of the mapped bytes.

use crate::agent::os::memory;
use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::os::syscall::{File, syscall};
use crate::agent::unwind::debug_frame;
use crate::agent::unwind::eh_index::{self, Section};
use crate::arch::{ELF_MACHINE, page_size};
use crate::process::maps::MapsEntry;
use alloc::vec::Vec;

use crate::wire::MAX_BUILD_ID;

/// Bytes of an ELF header.
const ELF_HEADER: usize = 64;
/// Bytes read at the start of an image: usually its program headers and its build id are there.
const HEAD: usize = 1024;
/// Maximum number of program headers read.
const MAX_HEADERS: usize = 64;
/// Bytes of a section header.
const SECTION_HEADER: usize = 64;
/// Maximum number of sections read.
const MAX_SECTIONS: usize = 4096;
/// Maximum number of bytes of their names read.
const MAX_SECTION_NAMES: u64 = 1 << 16;
/// Maximum size of a `.debug_frame`, which is kept in memory: some 60 000 functions. A larger one is
/// not used, nor is a compressed one.
const MAX_DEBUG_FRAME: u64 = 4 << 20;
/// Maximum number of bytes of notes read.
const MAX_NOTES: usize = 4096;
/// Maximum number of bytes of tables that are copied from memory if the file is gone.
const MAX_COPY: u64 = 64 << 20;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const NT_GNU_BUILD_ID: u32 = 3;
const SHF_COMPRESSED: u64 = 1 << 11;

#[derive(Clone, Copy)]
struct ProgramHeader {
    kind: u32,
    offset: u64,
    address: u64,
    file_size: u64,
}

struct SectionHeader {
    is_compressed: bool,
    address: u64,
    offset: u64,
    size: u64,
}

/// The headers of an ELF file in memory.
#[derive(Clone)]
pub(crate) struct ElfImage {
    /// Process address − address in the file.
    pub(crate) bias: u64,
    /// GNU build id; empty when there is none.
    pub(crate) build_id: Vec<u8>,
    headers: Vec<ProgramHeader>,
    /// ELF header and program headers, to tell the file on disk from another one.
    elf: [u8; ELF_HEADER],
    table: Vec<u8>,
    table_at: u64,
}

impl ElfImage {
    /// Reads the headers of the image whose first mapping (of offset 0) is `entry`. The program
    /// headers are in that mapping, unless a tool has moved them to the end of the file; they are
    /// then read from there.
    pub(crate) fn read(memory: &ProcessMemory, entry: &MapsEntry<'_>) -> Option<ElfImage> {
        let base = entry.start;
        let mut head = [0u8; HEAD];
        memory.read(base, &mut head)?;
        let elf: [u8; ELF_HEADER] = head.first_chunk().copied()?;
        // 64-bit, little-endian, of this architecture.
        if &elf[..6] != b"\x7fELF\x02\x01" || half(&elf, 18) != ELF_MACHINE {
            return None;
        }
        let (table_at, size, count) = (word(&elf, 32), half(&elf, 54) as usize, half(&elf, 56) as usize);
        if size != 56 || count == 0 || count > MAX_HEADERS {
            return None;
        }
        let mut table = alloc::vec![0; count * size];
        let end = table_at.checked_add(table.len() as u64)?;
        if end <= HEAD as u64 {
            table.copy_from_slice(&head[table_at as usize..end as usize]);
        } else if end <= entry.end - entry.start && end <= page_size() as u64 {
            memory.read(base + table_at, &mut table)?;
        } else {
            let file = open(entry)?;
            let mut same = [0; ELF_HEADER];
            if !file.read_exact_at(&mut same, 0) || same != elf || !file.read_exact_at(&mut table, table_at) {
                return None;
            }
        }
        let headers: Vec<ProgramHeader> = table
            .chunks_exact(size)
            .map(|raw| ProgramHeader {
                kind: half(raw, 0) | half(raw, 2) << 16,
                offset: word(raw, 8),
                address: word(raw, 16),
                file_size: word(raw, 32),
            })
            .collect();
        let page = page_size() as u64;
        let first = headers.iter().find(|header| header.kind == PT_LOAD && header.offset < page)?;
        let bias = base.wrapping_sub(first.address & !(page - 1));
        let mut image = ElfImage { bias, build_id: Vec::new(), headers, elf, table, table_at };
        image.build_id = image.find_build_id(memory, base, &head).unwrap_or_default();
        Some(image)
    }

    /// Returns the same headers for a copy: a part of the file that is mapped once more, elsewhere.
    pub(crate) fn for_copy(&self, copy: &MapsEntry<'_>) -> Option<ElfImage> {
        let page = page_size() as u64;
        let is_in = |header: &&ProgramHeader| {
            header.kind == PT_LOAD
                && (header.offset & !(page - 1)..header.offset.saturating_add(header.file_size)).contains(&copy.offset)
        };
        let header = self.headers.iter().rfind(is_in)?;
        let address = header.address.wrapping_add(copy.offset).wrapping_sub(header.offset);
        Some(ElfImage { bias: copy.start.wrapping_sub(address), ..self.clone() })
    }

    /// Returns the address in the process and the size of the dynamic section.
    pub(crate) fn dynamic_section(&self) -> Option<(u64, u64)> {
        let header = self.headers.iter().find(|header| header.kind == PT_DYNAMIC)?;
        Some((header.address.wrapping_add(self.bias), header.file_size))
    }

    /// Returns the address in the process of the index of unwind tables; 0 if there is none.
    pub(crate) fn unwind_index(&self) -> u64 {
        let header = self.headers.iter().find(|header| header.kind == PT_GNU_EH_FRAME);
        header.map_or(0, |header| header.address.wrapping_add(self.bias))
    }

    /// Returns whether an address in the process is in a segment of this image.
    pub(crate) fn holds(&self, address: u64) -> bool {
        self.segment(address.wrapping_sub(self.bias)).is_some()
    }

    /// Returns the end of the whole pages that the loader makes read-only once they are relocated;
    /// 0 if there are none.
    pub(crate) fn relocated_end(&self) -> u64 {
        let header = self.headers.iter().find(|header| header.kind == PT_GNU_RELRO);
        let page = page_size() as u64;
        header.map_or(0, |header| (header.address + header.file_size).wrapping_add(self.bias) & !(page - 1))
    }

    /// Returns the build id. The image starts at `base` with the bytes of `head`.
    fn find_build_id(&self, memory: &ProcessMemory, base: u64, head: &[u8]) -> Option<Vec<u8>> {
        for header in self.headers.iter().filter(|header| header.kind == PT_NOTE) {
            let mut notes = alloc::vec![0; (header.file_size as usize).min(MAX_NOTES)];
            let address = header.address.wrapping_add(self.bias);
            let start = usize::try_from(address.wrapping_sub(base)).unwrap_or(usize::MAX);
            match head.get(start..start.saturating_add(notes.len())) {
                Some(bytes) => notes.copy_from_slice(bytes),
                None => memory.read(address, &mut notes)?,
            }
            let mut rest = &notes[..];
            while rest.len() >= 12 {
                let (name, size) = (full(rest, 0) as usize, full(rest, 4) as usize);
                let start = 12 + name.checked_next_multiple_of(4)?;
                let end = start.checked_add(size)?;
                let Some(description) = rest.get(start..end) else { break };
                if full(rest, 8) == NT_GNU_BUILD_ID && rest.get(12..16) == Some(b"GNU\0") {
                    return Some(description[..size.min(MAX_BUILD_ID)].to_vec());
                }
                rest = rest.get(end.next_multiple_of(4)..).unwrap_or(&[]);
            }
        }
        None
    }

    /// Returns a section of the file, by its name with a NUL behind it.
    fn section(&self, file: &File, name: &[u8]) -> Option<SectionHeader> {
        let (count, names) = (half(&self.elf, 60) as usize, half(&self.elf, 62) as usize);
        if half(&self.elf, 58) as usize != SECTION_HEADER || count > MAX_SECTIONS || names >= count {
            return None;
        }
        let mut headers = alloc::vec![0; count * SECTION_HEADER];
        file.read_exact_at(&mut headers, word(&self.elf, 40)).then_some(())?;
        let headers = || headers.chunks_exact(SECTION_HEADER);
        let of_names = headers().nth(names)?;
        let mut names = alloc::vec![0; word(of_names, 32).min(MAX_SECTION_NAMES) as usize];
        file.read_exact_at(&mut names, word(of_names, 24)).then_some(())?;
        let is_named = |raw: &&[u8]| names.get(full(raw, 0) as usize..).is_some_and(|rest| rest.starts_with(name));
        headers().find(is_named).map(|raw| SectionHeader {
            is_compressed: word(raw, 8) & SHF_COMPRESSED != 0,
            address: word(raw, 16),
            offset: word(raw, 24),
            size: word(raw, 32),
        })
    }

    /// Opens the file behind `entry`, if its headers equal those in memory.
    pub(crate) fn open_same(&self, entry: &MapsEntry<'_>) -> Option<File> {
        let file = open(entry)?;
        let is_next = self.table_at == ELF_HEADER as u64;
        let mut head = alloc::vec![0; ELF_HEADER + self.table.len()];
        let (elf, table) = head.split_at_mut(ELF_HEADER);
        let is_read = if is_next {
            file.read_exact_at(&mut head, 0)
        } else {
            file.read_exact_at(elf, 0) && file.read_exact_at(table, self.table_at)
        };
        (is_read && head == [&self.elf[..], &self.table[..]].concat()).then_some(file)
    }

    /// Returns the offset in the file of an address of the file, and the number of bytes from there
    /// to the end of its segment.
    fn segment(&self, address: u64) -> Option<(u64, u64)> {
        let holds = |header: &&ProgramHeader| {
            header.kind == PT_LOAD && address >= header.address && address - header.address < header.file_size
        };
        let header = self.headers.iter().find(holds)?;
        let inside = address - header.address;
        Some((header.offset + inside, header.file_size - inside))
    }
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn full(bytes: &[u8], at: usize) -> u32 {
    half(bytes, at) | half(bytes, at + 2) << 16
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(full(bytes, at)) | u64::from(full(bytes, at + 4)) << 32
}

/// `.eh_frame_hdr` and `.eh_frame` of an image. Its memory is given back on drop: by then no
/// snapshot names it.
pub(crate) struct TableSections {
    start: *mut u8,
    size: usize,
    /// Address (of the file) and bytes of `.eh_frame_hdr`.
    pub(crate) header: (u64, Section),
    /// Address (of the file) and bytes of `.eh_frame`, and what follows it in its segment: its end
    /// is not recorded in a program header, and the table in the header only ever points into it.
    pub(crate) frames: (u64, Section),
    /// The bytes of an `.eh_frame_hdr` that the agent has built.
    index: Vec<u8>,
}

// SAFETY: the pages are this value's own and immutable.
unsafe impl Send for TableSections {}

impl TableSections {
    /// Returns the tables of `image`, mapped from its file if that is there, or copied.
    pub(crate) fn of(memory: &ProcessMemory, image: &ElfImage, file: Option<&File>) -> Option<TableSections> {
        let Some(header) = image.headers.iter().find(|header| header.kind == PT_GNU_EH_FRAME) else {
            return TableSections::without_header(memory, image, file?);
        };
        let mut lead = [0u8; 8];
        memory.read(header.address.wrapping_add(image.bias), &mut lead)?;
        // Version 1, and the pointer to .eh_frame in the one encoding that linkers write:
        // pc-relative, 4 bytes, signed.
        if lead[0] != 1 || lead[1] != 0x1b {
            return None;
        }
        let frames = (header.address + 4).wrapping_add_signed(i64::from(full(&lead, 4) as i32));
        let first = header.address.min(frames);
        let (offset, left) = image.segment(first)?;
        let (_, frames_left) = image.segment(frames)?;
        let size = left.max(frames - first + frames_left);
        let pages = file
            .and_then(|file| MappedBytes::map(file, offset, size, &lead, header.address - first))
            .or_else(|| MappedBytes::copy(memory, first.wrapping_add(image.bias), size))?;
        // SAFETY: `bytes` are mapped for as long as this value lives; whoever uses the sections
        // keeps it.
        let bytes: Section = unsafe { core::slice::from_raw_parts(pages.bytes, size as usize) };
        let header_size = header.file_size.min(size - (header.address - first));
        let header_bytes = &bytes[(header.address - first) as usize..][..header_size as usize];
        Some(TableSections {
            start: pages.start,
            size: pages.size,
            header: (header.address, header_bytes),
            frames: (frames, &bytes[(frames - first) as usize..]),
            index: Vec::new(),
        })
    }

    /// Returns the tables of a file that was linked without `.eh_frame_hdr`.
    fn without_header(memory: &ProcessMemory, image: &ElfImage, file: &File) -> Option<TableSections> {
        let SectionHeader { address, offset, size, .. } = image.section(file, b".eh_frame\0")?;
        if image.segment(address)?.1 < size || image.segment(address)?.0 != offset || size < 8 {
            return None;
        }
        let mut lead = [0u8; 8];
        memory.read(address.wrapping_add(image.bias), &mut lead)?;
        let pages = MappedBytes::map(file, offset, size, &lead, 0)?;
        // SAFETY: as above.
        let bytes: Section = unsafe { core::slice::from_raw_parts(pages.bytes, size as usize) };
        TableSections::with_index(pages, (address, bytes), &|_| true)
    }

    /// Returns the `.debug_frame` of `image` in the format of `.eh_frame`, as far as it has functions
    /// at whose addresses `is_wanted`.
    pub(crate) fn of_debug(image: &ElfImage, file: &File, is_wanted: &dyn Fn(u64) -> bool) -> Option<TableSections> {
        let section = image.section(file, b".debug_frame\0")?;
        if section.is_compressed || !(1..=MAX_DEBUG_FRAME).contains(&section.size) {
            return None;
        }
        let size = section.size as usize;
        let start = memory::map_pages(size);
        if start.is_null() {
            return None;
        }
        let pages = MappedBytes { start, size, bytes: start };
        // SAFETY: fresh pages of this size, which nobody else refers to yet.
        let bytes = unsafe { core::slice::from_raw_parts_mut(start, size) };
        let length = if file.read_exact_at(bytes, section.offset) { debug_frame::convert(bytes) } else { 0 };
        // SAFETY: as above, and nothing writes to the bytes any more.
        let bytes: Section = unsafe { core::slice::from_raw_parts(start, length) };
        TableSections::with_index(pages, (0, bytes), is_wanted)
    }

    /// Builds the index of these tables.
    fn with_index(
        pages: MappedBytes,
        frames: (u64, Section),
        is_wanted: &dyn Fn(u64) -> bool,
    ) -> Option<TableSections> {
        let (start, size) = (pages.start, pages.size);
        let mut tables = TableSections { start, size, header: (frames.0, &[]), frames, index: Vec::new() };
        tables.index = eh_index::of(frames.0, frames.1, is_wanted)?;
        // SAFETY: the bytes stay where they are, and are not touched, for as long as this value
        // lives.
        tables.header.1 = unsafe { core::slice::from_raw_parts(tables.index.as_ptr(), tables.index.len()) };
        Some(tables)
    }
}

impl Drop for TableSections {
    fn drop(&mut self) {
        // SAFETY: made by `MappedBytes`; the owner of the sections' users drops this after them.
        unsafe { memory::unmap(self.start, self.size) };
    }
}

struct MappedBytes {
    start: *mut u8,
    size: usize,
    bytes: *const u8,
}

impl MappedBytes {
    /// Maps the file of an image privately, if the start of its table equals that in memory.
    fn map(file: &File, offset: u64, size: u64, lead: &[u8; 8], lead_at: u64) -> Option<MappedBytes> {
        let mut found = [0; 8];
        // Both ends must be in the file: a page past its end would fault.
        let mut last = [0; 1];
        if !file.read_exact_at(&mut found, offset + lead_at)
            || &found != lead
            || !file.read_exact_at(&mut last, offset + size - 1)
        {
            return None;
        }
        let skew = offset % page_size() as u64;
        let length = (size + skew) as usize;
        let address = memory::suggest_address(length);
        // SAFETY: a new private mapping touches nothing that exists: the address is a hint.
        let result = unsafe {
            syscall!(
                libc::SYS_mmap,
                address,
                length,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.descriptor(),
                (offset - skew)
            )
        };
        if (-4095..0).contains(&result) {
            return None;
        }
        let start = result as *mut u8;
        memory::unlock_fresh(start, length);
        Some(MappedBytes { start, size: length, bytes: start.wrapping_add(skew as usize) })
    }

    /// Copies the bytes that are mapped at `address`.
    fn copy(memory: &ProcessMemory, address: u64, size: u64) -> Option<MappedBytes> {
        if size > MAX_COPY {
            return None;
        }
        let start = memory::map_pages(size as usize);
        if start.is_null() {
            return None;
        }
        // SAFETY: fresh pages of this size.
        let bytes = unsafe { core::slice::from_raw_parts_mut(start, size as usize) };
        if memory.read(address, bytes).is_none() {
            // SAFETY: made above, used by nobody.
            unsafe { memory::unmap(start, size as usize) };
            return None;
        }
        Some(MappedBytes { start, size: size as usize, bytes: start })
    }
}

/// Opens the file behind a mapping, as this process sees it.
fn open(entry: &MapsEntry<'_>) -> Option<File> {
    if entry.path.first() != Some(&b'/') {
        return None;
    }
    let mut path = entry.path.to_vec();
    path.push(0);
    File::open(&path, libc::O_NOCTTY | libc::O_NONBLOCK)
}
