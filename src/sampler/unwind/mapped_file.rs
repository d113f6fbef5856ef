//! A mapped ELF image: its headers, and its bytes by address of the file.
//!
//! The bytes come from the file, if it is certainly the one that is mapped; otherwise from the
//! memory of the target. Neither is mapped here: a mapped file that somebody truncates would end
//! this process with SIGBUS, and tables as large as those of a browser are read in small pieces.

use std::cell::OnceCell;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::Arc;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::pod::{from_bytes, slice_from_bytes};
use object::read::elf::NoteIterator;

use super::unwind_source::UnwindSource;
use crate::arch::ELF_MACHINE;
use crate::process::maps::MapsEntry;

/// Size of the page that begins with the ELF header.
const PAGE: usize = 4096;
/// Maximum number of program headers.
const MAX_HEADERS: usize = 256;
/// Maximum number of bytes of notes read.
const MAX_NOTES: usize = 4096;
/// Maximum length of a build id in bytes.
const MAX_BUILD_ID: usize = crate::wire::MAX_BUILD_ID;

/// A part of the file that is loaded.
#[derive(Clone, Copy, Debug)]
struct LoadSegment {
    address: u64,
    offset: u64,
    size: u64,
    is_executable: bool,
}

/// A mapped ELF image.
pub(super) struct MappedFile {
    /// Difference (wrapping) between addresses of the process and addresses of the file.
    pub(super) bias: u64,
    /// GNU build id; empty if there is none.
    pub(super) build_id: Box<[u8]>,
    /// Address (of the file) and size of `.eh_frame_hdr`.
    pub(super) frame_header: Option<(u64, u64)>,
    segments: Vec<LoadSegment>,
    origin: FileOrigin,
    /// The file, once it was needed; `None` in it if the file cannot be used.
    file: OnceCell<Option<Arc<File>>>,
}

/// The identity of the file of an image.
struct FileOrigin {
    source: UnwindSource,
    /// The addresses of an executable mapping.
    range: Range<u64>,
    device: u64,
    inode: u64,
    path: Box<[u8]>,
}

impl FileOrigin {
    /// Opens the file that is mapped: through the mapping itself, which needs a privilege, or by
    /// its path in the target's root, if device and inode are the same.
    fn open(&self) -> Option<Arc<File>> {
        if self.inode == 0 {
            return None;
        }
        let pid = match &self.source {
            UnwindSource::Process(pid) => pid,
            UnwindSource::Files(find) => return find(self.inode),
        };
        let open = |path: &std::ffi::OsStr| {
            // Opening a device or a FIFO may have effects.
            std::fs::metadata(path).ok().filter(|metadata| metadata.is_file())?;
            OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK).open(path).ok()
        };
        let by_mapping = format!("/proc/{pid}/map_files/{:x}-{:x}", self.range.start, self.range.end);
        let file = open(by_mapping.as_ref()).or_else(|| {
            let mut in_root = format!("/proc/{pid}/root").into_bytes();
            in_root.extend_from_slice(&self.path);
            let file = open(std::ffi::OsStr::from_bytes(&in_root))?;
            let metadata = file.metadata().ok()?;
            let found = u64::from(libc::major(metadata.dev())) << 32 | u64::from(libc::minor(metadata.dev()));
            (metadata.ino() == self.inode && found == self.device).then_some(file)
        });
        file.map(Arc::new)
    }
}

impl MappedFile {
    /// Reads the headers of an image. `first` is its lowest mapping and `code` an executable one.
    pub(super) fn open(source: &UnwindSource, first: &MapsEntry<'_>, code: &MapsEntry<'_>) -> Option<MappedFile> {
        let &MapsEntry { start, end, device, inode, path, .. } = code;
        let origin = FileOrigin { source: source.clone(), range: start..end, device, inode, path: path.into() };
        let file = origin.open();
        let mut head = vec![0; PAGE];
        let length = match &file {
            Some(file) => read_file(file, 0, &mut head),
            None if first.offset == 0 => source.read_memory(first.start, &mut head),
            None => 0,
        };
        head.truncate(length);
        let headers = program_headers(&head, file.as_deref())?;
        let segments: Vec<LoadSegment> =
            headers.iter().filter(|header| header.p_type.get(LE) == elf::PT_LOAD).map(load_segment).collect();
        let bias = bias(&segments, code)?;
        let of_type = |kind| headers.iter().filter(move |header| header.p_type.get(LE) == kind);
        let frame_header =
            of_type(elf::PT_GNU_EH_FRAME).next().map(|header| (header.p_vaddr.get(LE), header.p_memsz.get(LE)));
        let mut image =
            MappedFile { bias, build_id: Box::default(), frame_header, segments, origin, file: OnceCell::new() };
        let notes: Vec<&ProgramHeader64<LE>> = of_type(elf::PT_NOTE).collect();
        image.build_id =
            notes.into_iter().find_map(|note| image.find_build_id(file.as_deref(), note)).unwrap_or_default();
        Some(image)
    }

    fn find_build_id(&self, file: Option<&File>, header: &ProgramHeader64<LE>) -> Option<Box<[u8]>> {
        let mut notes = vec![0; (header.p_filesz.get(LE) as usize).min(MAX_NOTES)];
        let length = match file {
            Some(file) => read_file(file, header.p_offset.get(LE), &mut notes),
            None => self.origin.source.read_memory(header.p_vaddr.get(LE).wrapping_add(self.bias), &mut notes),
        };
        notes.truncate(length);
        let mut iterator = NoteIterator::<FileHeader64<LE>>::new(LE, header.p_align.get(LE), &notes).ok()?;
        while let Ok(Some(note)) = iterator.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID {
                let id = note.desc();
                return Some(id[..id.len().min(MAX_BUILD_ID)].into());
            }
        }
        None
    }

    /// Returns the file, if it is certainly the one that is mapped.
    pub(super) fn file(&self) -> Option<&File> {
        self.file.get_or_init(|| self.origin.open()).as_deref()
    }

    /// Copies bytes from an address of the file on, up to the end of their segment. Returns how
    /// many there are.
    pub(super) fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let holds = |segment: &&LoadSegment| address.checked_sub(segment.address).is_some_and(|at| at < segment.size);
        let Some(segment) = self.segments.iter().find(holds) else { return 0 };
        let inside = address - segment.address;
        let length = buffer.len().min(usize::try_from(segment.size - inside).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..length];
        match (self.file(), segment.offset.checked_add(inside)) {
            (Some(file), Some(offset)) => read_file(file, offset, buffer),
            _ => self.origin.source.read_memory(address.wrapping_add(self.bias), buffer),
        }
    }
}

/// Returns what a segment maps: whole pages from the first one on.
fn load_segment(header: &ProgramHeader64<LE>) -> LoadSegment {
    let (address, offset) = (header.p_vaddr.get(LE), header.p_offset.get(LE));
    let skew = address % PAGE as u64;
    LoadSegment {
        address: address - skew,
        offset: offset.saturating_sub(skew),
        size: header.p_filesz.get(LE).saturating_add(skew),
        is_executable: header.p_flags.get(LE).contains(elf::PF_X),
    }
}

/// Reads as many bytes as there are.
fn read_file(file: &File, offset: u64, buffer: &mut [u8]) -> usize {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], offset.saturating_add(length as u64)) {
            Ok(0) | Err(_) => break,
            Ok(more) => length += more,
        }
    }
    length
}

/// Returns the program headers. They follow the ELF header, or are elsewhere in the file.
fn program_headers(head: &[u8], file: Option<&File>) -> Option<Vec<ProgramHeader64<LE>>> {
    let (header, _) = from_bytes::<FileHeader64<LE>>(head).ok()?;
    let ident = &header.e_ident;
    let is_ours = ident.magic == elf::ELFMAG
        && ident.class == elf::ELFCLASS64
        && ident.data == elf::ELFDATA2LSB
        && u32::from(header.e_machine.get(LE).0) == ELF_MACHINE
        && usize::from(header.e_phentsize.get(LE)) == size_of::<ProgramHeader64<LE>>();
    let count = usize::from(header.e_phnum.get(LE));
    if !is_ours || count > MAX_HEADERS {
        return None;
    }
    let size = count * size_of::<ProgramHeader64<LE>>();
    let offset = header.e_phoff.get(LE);
    let near = usize::try_from(offset).ok().and_then(|start| head.get(start..start.checked_add(size)?));
    let bytes = match near {
        Some(bytes) => bytes.to_vec(),
        None => {
            let mut bytes = vec![0; size];
            (read_file(file?, offset, &mut bytes) == size).then_some(bytes)?
        }
    };
    slice_from_bytes::<ProgramHeader64<LE>>(&bytes, count).ok().map(|(headers, _)| headers.to_vec())
}

/// Returns process address − address of the file, from the segment that an executable mapping maps.
fn bias(segments: &[LoadSegment], code: &MapsEntry<'_>) -> Option<u64> {
    let page = !(PAGE as u64 - 1);
    let code_segments = || segments.iter().filter(|segment| segment.is_executable);
    let begins = |segment: &&LoadSegment| segment.offset & page == code.offset;
    let holds =
        |segment: &&LoadSegment| code.offset.checked_sub(segment.offset & page).is_some_and(|at| at < segment.size);
    let segment = code_segments().find(begins).or_else(|| code_segments().find(holds))?;
    let mapped_at = code.start.wrapping_sub(code.offset).wrapping_add(segment.offset & page);
    Some(mapped_at.wrapping_sub(segment.address & page))
}
