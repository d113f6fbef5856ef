//! An ELF file: its sections, and their bytes on demand. Every read is checked against the file's
//! length and copied, never mapped: a file that is truncated while it is read causes an error, not
//! a signal. [`object`](super::object) finds files.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::fcntl::OFlag;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::pod::{self, Pod};
use object::read::elf::{CompressionHeader, FileHeader, NoteIterator, SectionHeader};
use object::read::{CompressedData, CompressionFormat};
use object::{LittleEndian, elf::CompressionHeader64};

use super::error::Error;
use super::machine::Machine;

/// The byte order of all supported files.
pub(super) const ORDER: LittleEndian = LittleEndian;

/// Maximum number of sections of one file; linkers write a few dozen.
const MAX_SECTIONS: u64 = 16_384;
/// Maximum number of program headers of one file.
const MAX_SEGMENTS: u64 = 1_024;
/// Maximum size of a section of notes, and maximum number of such sections read.
const MAX_NOTE_BYTES: u64 = 64 << 10;
const MAX_NOTES: usize = 64;
/// Maximum compression ratio of a section.
const MAX_RATIO: u64 = 256;

/// An open file and its headers.
pub(super) struct Elf {
    /// The path at which it was opened.
    pub(super) path: PathBuf,
    /// The processor that it is for.
    pub(super) machine: Machine,
    source: ElfBytes,
    sections: Box<[Section]>,
    segments: Box<[ProgramHeader64<LittleEndian>]>,
}

/// One section.
pub(super) struct Section {
    pub(super) name: Box<[u8]>,
    pub(super) header: SectionHeader64<LittleEndian>,
}

enum ElfBytes {
    File(File, u64),
    Memory(Vec<u8>),
}

impl ElfBytes {
    fn len(&self) -> u64 {
        match self {
            ElfBytes::File(_, length) => *length,
            ElfBytes::Memory(bytes) => bytes.len() as u64,
        }
    }

    fn read(&self, offset: u64, size: u64) -> Result<Vec<u8>, &'static str> {
        let end =
            offset.checked_add(size).filter(|&end| end <= self.len()).ok_or("a table lies outside of the file")?;
        match self {
            ElfBytes::File(file, _) => {
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(size as usize).map_err(|_| "a table does not fit into memory")?;
                let mut file: &File = file;
                // Unlike `read_exact_at`, this needs no memory that is filled with zeros first.
                let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.take(size).read_to_end(&mut bytes));
                let is_whole = read.is_ok_and(|read| read as u64 == size);
                if is_whole { Ok(bytes) } else { Err("the file ended early") }
            }
            ElfBytes::Memory(bytes) => Ok(bytes[offset as usize..end as usize].to_vec()),
        }
    }

    fn read_array<T: Pod>(&self, offset: u64, count: u64) -> Result<Box<[T]>, &'static str> {
        let bytes = self.read(offset, count * size_of::<T>() as u64)?;
        let (array, _) = pod::slice_from_bytes(&bytes, count as usize).map_err(|()| "a table is not aligned")?;
        Ok(array.into())
    }
}

impl Elf {
    /// Opens the file at `path` and reads its headers.
    pub(super) fn open(path: &Path) -> Result<Elf, Error> {
        let unreadable = |cause: String| Error::Unreadable { path: path.to_owned(), cause };
        // Opening a pipe must not block, and a terminal must not become the controlling one.
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
        let file = file.map_err(|cause| unreadable(cause.to_string()))?;
        let metadata = file.metadata().map_err(|cause| unreadable(cause.to_string()))?;
        if !metadata.is_file() {
            return Err(unreadable("not a regular file".to_owned()));
        }
        Elf::parse(path, ElfBytes::File(file, metadata.len()))
    }

    /// Reads the headers of a file in memory; `path` is its name.
    pub(super) fn from_memory(path: &Path, bytes: Vec<u8>) -> Result<Elf, Error> {
        Elf::parse(path, ElfBytes::Memory(bytes))
    }

    fn parse(path: &Path, source: ElfBytes) -> Result<Elf, Error> {
        let malformed = |what| Error::Malformed { path: path.to_owned(), what };
        let (machine, sections, segments) = headers(&source).map_err(malformed)?;
        Ok(Elf { path: path.to_owned(), machine, source, sections, segments })
    }

    /// The inode of the file; `None` if its file system shows another one in maps (overlayfs).
    pub(super) fn inode(&self) -> Option<u64> {
        let ElfBytes::File(file, _) = &self.source else { return None };
        let is_layered = nix::sys::statfs::fstatfs(file)
            .is_ok_and(|fs| fs.filesystem_type() == nix::sys::statfs::OVERLAYFS_SUPER_MAGIC);
        if is_layered { None } else { file.metadata().ok().map(|metadata| metadata.ino()) }
    }

    /// All sections, by index.
    pub(super) fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The first section of this name that has bytes in the file.
    pub(super) fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| &*section.name == name && section.size() > 0)
    }

    /// Reads and decompresses a section. Fails without reading if it has more than `limit_bytes`.
    pub(super) fn bytes(&self, section: &Section, limit_bytes: u64) -> Result<Vec<u8>, Error> {
        let malformed = |what| Error::Malformed { path: self.path.clone(), what };
        let size = self.unpacked_size(section).map_err(malformed)?;
        // Only in a malicious file can the compressed size be the larger one.
        let largest = size.max(section.size());
        if largest > limit_bytes {
            return Err(Error::TooLarge { path: self.path.clone(), bytes: largest, limit_bytes });
        }
        let packed = self.source.read(section.offset(), section.size()).map_err(malformed)?;
        let Some(format) = section.compression(&packed).map_err(malformed)? else { return Ok(packed) };
        let data = CompressedData {
            format,
            data: &packed[size_of::<CompressionHeader64<LittleEndian>>()..],
            uncompressed_size: size,
        };
        data.decompress()
            .map(std::borrow::Cow::into_owned)
            .map_err(|_| malformed("a packed section cannot be unpacked"))
    }

    /// Returns the file, and offset and size of a section in it, if the section is not packed.
    pub(super) fn raw_section(&self, section: &Section) -> Option<(&File, u64, u64)> {
        let ElfBytes::File(file, length) = &self.source else { return None };
        let is_packed = section.header.sh_flags(ORDER).contains(elf::SHF_COMPRESSED);
        let is_inside = section.offset().checked_add(section.size()).is_some_and(|end| end <= *length);
        (!is_packed && is_inside).then(|| (file, section.offset(), section.size()))
    }

    /// Whether a section is packed, and its uncompressed size.
    pub(super) fn size(&self, section: &Section) -> Result<(bool, u64), Error> {
        let malformed = |what| Error::Malformed { path: self.path.clone(), what };
        let is_packed = section.header.sh_flags(ORDER).contains(elf::SHF_COMPRESSED);
        Ok((is_packed, self.unpacked_size(section).map_err(malformed)?))
    }

    /// The uncompressed size of a section.
    fn unpacked_size(&self, section: &Section) -> Result<u64, &'static str> {
        if !section.header.sh_flags(ORDER).contains(elf::SHF_COMPRESSED) {
            return Ok(section.size());
        }
        let header = self.source.read_array::<CompressionHeader64<LittleEndian>>(section.offset(), 1)?;
        let size = header[0].ch_size(ORDER);
        if size > section.size().saturating_mul(MAX_RATIO) {
            return Err("a packed section claims an impossible size");
        }
        Ok(size)
    }

    /// Reads the code at these addresses, up to the end of its section.
    pub(super) fn code(&self, start: u64, end: u64) -> Result<Vec<u8>, Error> {
        let malformed = |what| Error::Malformed { path: self.path.clone(), what };
        let holds = |section: &&Section| section.is_code() && (section.address()..section.end()).contains(&start);
        let section =
            self.sections.iter().find(holds).ok_or_else(|| malformed("a function lies outside of its code"))?;
        let offset = start - section.address();
        let size = end.min(section.end()).saturating_sub(start).min(section.size().saturating_sub(offset));
        let from = section.offset().checked_add(offset).ok_or_else(|| malformed("a table lies outside of the file"))?;
        self.source.read(from, size).map_err(malformed)
    }

    /// Whether the file is loaded where it says. Its code then holds addresses of functions.
    pub(super) fn has_fixed_addresses(&self) -> bool {
        let loaded = self.segments.iter().filter(|segment| segment.p_type.get(ORDER) == elf::PT_LOAD);
        loaded.map(|segment| segment.p_vaddr.get(ORDER)).min().is_some_and(|first| first > 0)
    }

    /// The time of the last change of the file; `None` for a file in memory.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        let ElfBytes::File(file, _) = &self.source else { return None };
        file.metadata().ok()?.modified().ok()
    }

    /// The GNU build id; empty if there is none.
    pub(super) fn build_id(&self) -> Box<[u8]> {
        let sections = self.sections.iter().filter(|section| section.header.sh_type(ORDER) == elf::SHT_NOTE);
        let sections = sections.map(|section| (section.offset(), section.size(), section.header.sh_addralign(ORDER)));
        let segments = self.segments.iter().filter(|segment| segment.p_type.get(ORDER) == elf::PT_NOTE);
        let segments = segments
            .map(|segment| (segment.p_offset.get(ORDER), segment.p_filesz.get(ORDER), segment.p_align.get(ORDER)));
        for (offset, size, align) in sections.chain(segments).take(MAX_NOTES) {
            if size > MAX_NOTE_BYTES {
                continue;
            }
            let Ok(bytes) = self.source.read(offset, size) else { continue };
            let Ok(notes) = NoteIterator::<FileHeader64<LittleEndian>>::new(ORDER, align, &bytes) else { continue };
            for note in notes.map_while(Result::ok) {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(ORDER) == elf::NT_GNU_BUILD_ID {
                    return note.desc().into();
                }
            }
        }
        Box::default()
    }

    /// The CRC-32 of the whole file, as in `.gnu_debuglink`.
    pub(super) fn crc32(&self) -> Result<u32, Error> {
        const CHUNK_BYTES: u64 = 1 << 20;
        let mut crc = !0u32;
        let mut offset = 0;
        while offset < self.source.len() {
            let size = CHUNK_BYTES.min(self.source.len() - offset);
            let bytes = self.source.read(offset, size);
            let bytes = bytes.map_err(|what| Error::Malformed { path: self.path.clone(), what })?;
            for byte in bytes {
                crc = CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
            }
            offset += size;
        }
        Ok(!crc)
    }
}

impl Section {
    pub(super) fn is_code(&self) -> bool {
        self.header.sh_flags(ORDER).contains(elf::SHF_EXECINSTR)
    }

    /// Whether it has variables that the program changes: `.data`, `.bss` and what belongs to them.
    pub(super) fn is_data(&self) -> bool {
        let is_named = self.name.starts_with(b".data") || self.name.starts_with(b".bss");
        is_named && !self.name.starts_with(b".data.rel.ro")
    }

    pub(super) fn address(&self) -> u64 {
        self.header.sh_addr(ORDER)
    }

    /// The first address after it.
    pub(super) fn end(&self) -> u64 {
        self.address().saturating_add(self.header.sh_size(ORDER))
    }

    pub(super) fn offset(&self) -> u64 {
        self.header.sh_offset(ORDER)
    }

    /// The size in the file, in bytes.
    pub(super) fn size(&self) -> u64 {
        if self.header.sh_type(ORDER) == elf::SHT_NOBITS { 0 } else { self.header.sh_size(ORDER) }
    }

    fn compression(&self, packed: &[u8]) -> Result<Option<CompressionFormat>, &'static str> {
        if !self.header.sh_flags(ORDER).contains(elf::SHF_COMPRESSED) {
            return Ok(None);
        }
        let (header, _) =
            pod::from_bytes::<CompressionHeader64<LittleEndian>>(packed).map_err(|()| "a packed section is cut")?;
        match header.ch_type(ORDER) {
            elf::ELFCOMPRESS_ZLIB => Ok(Some(CompressionFormat::Zlib)),
            elf::ELFCOMPRESS_ZSTD => Ok(Some(CompressionFormat::Zstandard)),
            _ => Err("a section is packed in an unknown way"),
        }
    }
}

type Headers = (Machine, Box<[Section]>, Box<[ProgramHeader64<LittleEndian>]>);

fn headers(source: &ElfBytes) -> Result<Headers, &'static str> {
    let bytes = source.read(0, size_of::<FileHeader64<LittleEndian>>() as u64)?;
    let header = FileHeader64::<LittleEndian>::parse(&*bytes).map_err(|_| "it has no ELF header")?;
    let machine = Machine::from_elf(header.e_machine(ORDER)).filter(|_| header.is_little_endian());
    let machine = machine.ok_or("it is for another machine")?;
    let segments = match header.e_phoff(ORDER) {
        0 => Box::default(),
        offset => source.read_array(offset, u64::from(header.e_phnum(ORDER)).min(MAX_SEGMENTS))?,
    };
    let offset = header.e_shoff(ORDER);
    if offset == 0 {
        return Ok((machine, Box::default(), segments));
    }
    if usize::from(header.e_shentsize(ORDER)) != size_of::<SectionHeader64<LittleEndian>>() {
        return Err("its section headers have an unknown size");
    }
    let first = source.read_array::<SectionHeader64<LittleEndian>>(offset, 1)?;
    let count = match header.e_shnum(ORDER) {
        0 => first[0].sh_size(ORDER),
        count => count.into(),
    };
    if count > MAX_SECTIONS {
        return Err("it has too many sections");
    }
    let table = source.read_array::<SectionHeader64<LittleEndian>>(offset, count)?;
    let names = match header.e_shstrndx(ORDER) {
        elf::SHN_XINDEX => first[0].sh_link(ORDER) as usize,
        index => index.0.into(),
    };
    let names = match table.get(names) {
        Some(names) if names.sh_size(ORDER) <= MAX_SECTION_NAME_BYTES => {
            source.read(names.sh_offset(ORDER), names.sh_size(ORDER))?
        }
        _ => return Err("its sections have no names"),
    };
    let section = |header: &SectionHeader64<LittleEndian>| {
        let name = string_at(&names, header.sh_name(ORDER));
        Section { name: name[..name.len().min(MAX_SECTION_NAME)].into(), header: *header }
    };
    Ok((machine, table.iter().map(section).collect(), segments))
}

/// Maximum size of all section names, and of one.
const MAX_SECTION_NAME_BYTES: u64 = 4 << 20;
const MAX_SECTION_NAME: usize = 256;

/// Maximum length of a name in a string table; longer ones are not readable anyway.
pub(super) const MAX_STRING_BYTES: usize = 16 << 10;

/// Returns the text at `offset` of a string table up to its NUL: empty if there is none, truncated
/// if it is too long.
pub(super) fn string_at(strings: &[u8], offset: u32) -> &[u8] {
    let text = strings.get(offset as usize..).unwrap_or(&[]);
    let text = &text[..text.len().min(MAX_STRING_BYTES)];
    &text[..text.iter().position(|&byte| byte == 0).unwrap_or(text.len())]
}

/// Remainders of the reflected polynomial 0xedb88320 for every byte.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
