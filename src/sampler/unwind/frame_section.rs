//! A whole section of unwind tables and an index of its functions: `.debug_frame`, and the
//! `.eh_frame` of an image that was linked without `.eh_frame_hdr`.

use std::fs::File;

use gimli::{BaseAddresses, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindOffset, UnwindSection};
use object::elf::{FileHeader64, SectionHeader64};
use object::read::elf::{CompressionHeader as _, FileHeader as _, SectionHeader as _};
use object::read::{CompressedData, CompressionFormat, ReadCache, ReadRef};
use object::{LittleEndian as LE, elf};

use crate::process::unwind::table_row::VENDOR;

/// Maximum size of a section, also when it is decompressed, in bytes.
const MAX_SIZE: u64 = 64 << 20;
/// Maximum number of functions in an index, which then takes 12 MiB.
const MAX_FUNCTIONS: usize = 1 << 20;

/// The bytes of a section of tables.
pub(super) type TableBytes<'a> = EndianSlice<'a, LittleEndian>;

/// The kind of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameSectionKind {
    /// `.eh_frame`.
    Loaded,
    /// `.debug_frame`, or the compressed `.zdebug_frame`.
    Debug,
}

/// A section of tables.
pub(super) struct FrameSection {
    kind: FrameSectionKind,
    /// Address (of the file) of the section; 0 for `.debug_frame`.
    address: u64,
    bytes: Vec<u8>,
    /// The first addresses of functions, sorted, and the offsets of their entries.
    functions: Vec<(u64, u32)>,
}

impl FrameSection {
    /// Reads a section of a file. Returns `None` if the file does not have it.
    pub(super) fn read(file: &File, kind: FrameSectionKind) -> Option<FrameSection> {
        let cache = ReadCache::new(file.try_clone().ok()?);
        let header = FileHeader64::<LE>::parse(&cache).ok()?;
        let sections = header.sections(LE, &cache).ok()?;
        let names: &[&[u8]] = match kind {
            FrameSectionKind::Loaded => &[b".eh_frame"],
            FrameSectionKind::Debug => &[b".debug_frame", b".zdebug_frame"],
        };
        let (_, section) = names.iter().find_map(|name| sections.section_by_name(LE, name))?;
        let bytes = contents(&cache, section)?;
        let address = if kind == FrameSectionKind::Loaded { section.sh_addr.get(LE) } else { 0 };
        FrameSection::new(kind, address, bytes)
    }

    /// Makes the index of a section. Returns `None` if there is no function.
    pub(super) fn new(kind: FrameSectionKind, address: u64, bytes: Vec<u8>) -> Option<FrameSection> {
        let mut section = FrameSection { kind, address, bytes, functions: Vec::new() };
        let bases = section.bases();
        section.functions = match kind {
            FrameSectionKind::Loaded => functions(&section.loaded(), &bases),
            FrameSectionKind::Debug => functions(&section.debug(), &bases),
        };
        section.functions.sort_unstable();
        (!section.functions.is_empty()).then_some(section)
    }

    /// Returns the kind of the section.
    pub(super) fn kind(&self) -> FrameSectionKind {
        self.kind
    }

    /// Returns the addresses that entries refer to.
    pub(super) fn bases(&self) -> BaseAddresses {
        BaseAddresses::default().set_eh_frame(self.address)
    }

    /// Returns the section as `.eh_frame`.
    pub(super) fn loaded(&self) -> EhFrame<TableBytes<'_>> {
        let mut section = EhFrame::new(&self.bytes, LittleEndian);
        section.set_vendor(VENDOR);
        section.set_address_size(8);
        section
    }

    /// Returns the section as `.debug_frame`.
    pub(super) fn debug(&self) -> DebugFrame<TableBytes<'_>> {
        let mut section = DebugFrame::new(&self.bytes, LittleEndian);
        section.set_vendor(VENDOR);
        section.set_address_size(8);
        section
    }

    /// Returns the first addresses of all functions.
    #[cfg(test)]
    pub(super) fn first_addresses(&self) -> Vec<u64> {
        self.functions.iter().map(|&(first, _)| first).collect()
    }

    /// Returns the offset of the entry of the last function that begins at or before an address of
    /// the file.
    pub(super) fn entry(&self, address: u64) -> Option<usize> {
        let next = self.functions.partition_point(|&(first, _)| first <= address);
        self.functions.get(next.checked_sub(1)?).map(|&(_, offset)| offset as usize)
    }
}

fn functions<'a, S: UnwindSection<TableBytes<'a>>>(section: &S, bases: &BaseAddresses) -> Vec<(u64, u32)> {
    let mut functions = Vec::new();
    let mut entries = section.entries(bases);
    let mut common: Option<gimli::CommonInformationEntry<TableBytes<'a>>> = None;
    // What is broken further on does not take away what came before.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let function = partial.parse(|section, bases, offset| match &common {
            Some(last) if last.offset() == UnwindOffset::into(offset) => Ok(last.clone()),
            _ => {
                let parsed = section.cie_from_offset(bases, offset)?;
                common = Some(parsed.clone());
                Ok(parsed)
            }
        });
        let Ok(function) = function else { continue };
        let Ok(offset) = u32::try_from(function.offset()) else { break };
        // A function that the linker has dropped has no address.
        if function.len() > 0 && function.initial_address() > 0 {
            if functions.len() == MAX_FUNCTIONS {
                break;
            }
            functions.push((function.initial_address(), offset));
        }
    }
    functions
}

/// Returns the bytes of a section, decompressed.
fn contents<'data>(file: &'data ReadCache<File>, section: &SectionHeader64<LE>) -> Option<Vec<u8>> {
    let (offset, size) = section.file_range(LE)?;
    if size > MAX_SIZE {
        return None;
    }
    if let Some((header, offset, size)) = section.compression(LE, file).ok()? {
        let format = match header.ch_type(LE) {
            elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
            elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
            _ => return None,
        };
        return decompress(format, file.read_bytes_at(offset, size).ok()?, header.ch_size(LE));
    }
    let bytes: &'data [u8] = file.read_bytes_at(offset, size).ok()?;
    // The older form: a magic number, and the size in 8 bytes, most significant first.
    match bytes.strip_prefix(b"ZLIB").and_then(|rest| rest.split_at_checked(8)) {
        Some((size, rest)) => decompress(CompressionFormat::Zlib, rest, u64::from_be_bytes(size.try_into().ok()?)),
        None => Some(bytes.to_vec()),
    }
}

fn decompress(format: CompressionFormat, data: &[u8], uncompressed_size: u64) -> Option<Vec<u8>> {
    if uncompressed_size > MAX_SIZE {
        return None;
    }
    CompressedData { format, data, uncompressed_size }.decompress().ok().map(std::borrow::Cow::into_owned)
}
