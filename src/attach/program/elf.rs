//! Reads from an ELF file what decides about preloading. Only the few tables needed are read, each
//! up to a limit, because the file may be hostile. Other reasons against a preload (setuid,
//! scripts) are [`program`](super)'s.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::arch;
use object::LittleEndian as LE;
use object::elf::{self, Dyn64, FileHeader64, ProgramHeader64, SectionHeader64};
use object::pod::{Pod, from_bytes, slice_from_bytes};

/// Maximum size of the program headers in bytes, as in the kernel.
const MAX_PROGRAM_HEADERS: usize = 65_536;
/// Maximum length of the interpreter's path in bytes, as in the kernel (PATH_MAX).
const MAX_INTERPRETER: u64 = 4096;
/// Maximum number of bytes read of section headers, section names and dynamic entries.
const MAX_TABLE: u64 = 4 << 20;
/// Maximum number of bytes read of a library's name.
const MAX_NAME: u64 = 256;
/// Maximum number of needed libraries that are read.
const MAX_NEEDED: usize = 1024;

/// The kind of a file, by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElfKind {
    /// The file is not ELF.
    Other,
    /// The file is ELF but not a program: an object file, a core, or broken.
    NoProgram,
    /// The file is a 32-bit ELF file, for any machine.
    Bits32,
    /// The file is a 64-bit ELF file for another machine (`e_machine`).
    Foreign(u16),
    /// The file is a program for this machine.
    Program {
        /// The path of the loader (`PT_INTERP`); `None` in a static program.
        interpreter: Option<Vec<u8>>,
        /// Whether the file has Go's tables.
        go: bool,
        /// The names of the libraries it needs, at most 1024.
        needed: Vec<Vec<u8>>,
    },
}

/// Returns whether a process executes a 32-bit program, as far as its file can be read.
pub(crate) fn is_32_bit(pid: u32) -> bool {
    let head = File::open(format!("/proc/{pid}/exe")).and_then(|file| read_range(&file, 0, 5));
    head.is_ok_and(|head| head.starts_with(&elf::ELFMAG) && head.get(4) == Some(&elf::ELFCLASS32.0))
}

/// Inspects an open file.
pub fn inspect(file: &File) -> io::Result<ElfKind> {
    let head = read_range(file, 0, size_of::<FileHeader64<LE>>() as u64)?;
    if !head.starts_with(&elf::ELFMAG) {
        return Ok(ElfKind::Other);
    }
    let Some(ident) = head.get(..8) else { return Ok(ElfKind::NoProgram) };
    if ident[4] == elf::ELFCLASS32.0 {
        return Ok(ElfKind::Bits32);
    }
    let Ok((header, _)) = from_bytes::<FileHeader64<LE>>(&head) else { return Ok(ElfKind::NoProgram) };
    if ident[5] != elf::ELFDATA2LSB.0 {
        return Ok(ElfKind::Foreign(header.e_machine.get(LE).0.swap_bytes()));
    }
    if header.e_machine.get(LE) != elf::Machine(arch::ELF_MACHINE as u16) {
        return Ok(ElfKind::Foreign(header.e_machine.get(LE).0));
    }
    if ident[4] != elf::ELFCLASS64.0 || ![elf::ET_EXEC, elf::ET_DYN].contains(&header.e_type.get(LE)) {
        return Ok(ElfKind::NoProgram);
    }
    let count = header.e_phnum.get(LE) as usize;
    if count == 0 || count * size_of::<ProgramHeader64<LE>>() > MAX_PROGRAM_HEADERS {
        return Ok(ElfKind::NoProgram);
    }
    let bytes = read_range(file, header.e_phoff.get(LE), (count * size_of::<ProgramHeader64<LE>>()) as u64)?;
    let programs = as_entries::<ProgramHeader64<LE>>(&bytes);
    let Some(interpreter) = read_interpreter(file, programs)? else { return Ok(ElfKind::NoProgram) };
    Ok(ElfKind::Program { interpreter, go: has_go(file, header)?, needed: read_needed(file, programs)? })
}

/// Returns the interpreter's path; the outer `None` if the header does not hold a path.
fn read_interpreter(file: &File, programs: &[ProgramHeader64<LE>]) -> io::Result<Option<Option<Vec<u8>>>> {
    let Some(header) = programs.iter().find(|header| header.p_type.get(LE) == elf::PT_INTERP) else {
        return Ok(Some(None));
    };
    let size = header.p_filesz.get(LE);
    if !(2..=MAX_INTERPRETER).contains(&size) {
        return Ok(None);
    }
    let mut path = read_range(file, header.p_offset.get(LE), size)?;
    path.truncate(path.iter().position(|&byte| byte == 0).unwrap_or(path.len()));
    Ok(if path.is_empty() { None } else { Some(Some(path)) })
}

/// Names of functions of allocators as they are linked into programs.
const ALLOCATORS: [&str; 5] = ["je_malloc", "_rjem_malloc", "mi_malloc", "tc_malloc", "scudo_malloc"];

/// Returns the name of an allocator's function that is linked into the program, as far as its
/// symbols tell. Only the first 64 MiB of their names are read.
pub fn own_allocator(file: &File) -> io::Result<Option<&'static str>> {
    const MAX_NAMES: u64 = 64 << 20;
    const PART: u64 = 1 << 20;
    let head = read_range(file, 0, size_of::<FileHeader64<LE>>() as u64)?;
    let Ok((header, _)) = from_bytes::<FileHeader64<LE>>(&head) else { return Ok(None) };
    let size = u64::from(header.e_shnum.get(LE)) * size_of::<SectionHeader64<LE>>() as u64;
    let bytes = read_range(file, header.e_shoff.get(LE), size.min(MAX_TABLE))?;
    let sections = as_entries::<SectionHeader64<LE>>(&bytes);
    let Some(symbols) = sections.iter().find(|section| section.sh_type.get(LE) == elf::SHT_SYMTAB) else {
        return Ok(None);
    };
    let Some(names) = sections.get(symbols.sh_link.get(LE) as usize) else { return Ok(None) };
    let (start, size) = (names.sh_offset.get(LE), names.sh_size.get(LE).min(MAX_NAMES));
    let finders = ALLOCATORS.map(|name| (name, memchr::memmem::Finder::new(name).into_owned()));
    // Parts overlap, so that no name is cut.
    for at in (0..size).step_by(PART as usize) {
        let part = read_range(file, start.saturating_add(at), PART + 32)?;
        let is_name = |found: usize, name: &str| {
            part.get(found.wrapping_sub(1)) == Some(&0) && part.get(found + name.len()) == Some(&0)
        };
        for (name, finder) in &finders {
            if finder.find_iter(&part).any(|found| is_name(found, name)) {
                return Ok(Some(name));
            }
        }
    }
    Ok(None)
}

fn has_go(file: &File, header: &FileHeader64<LE>) -> io::Result<bool> {
    let size = u64::from(header.e_shnum.get(LE)) * size_of::<SectionHeader64<LE>>() as u64;
    let bytes = read_range(file, header.e_shoff.get(LE), size.min(MAX_TABLE))?;
    let sections = as_entries::<SectionHeader64<LE>>(&bytes);
    let Some(names) = sections.get(header.e_shstrndx.get(LE).0 as usize) else { return Ok(false) };
    let names = read_range(file, names.sh_offset.get(LE), names.sh_size.get(LE).min(MAX_TABLE))?;
    Ok(sections.iter().any(|section| {
        let name = names.get(section.sh_name.get(LE) as usize..).unwrap_or_default();
        name.starts_with(b".go.buildinfo\0") || name.starts_with(b".gopclntab\0")
    }))
}

fn read_needed(file: &File, programs: &[ProgramHeader64<LE>]) -> io::Result<Vec<Vec<u8>>> {
    let Some(header) = programs.iter().find(|header| header.p_type.get(LE) == elf::PT_DYNAMIC) else {
        return Ok(Vec::new());
    };
    let bytes = read_range(file, header.p_offset.get(LE), header.p_filesz.get(LE).min(MAX_TABLE))?;
    let entries = as_entries::<Dyn64<LE>>(&bytes);
    let values = |tag| entries.iter().filter(move |entry| entry.d_tag.get(LE) == tag).map(|entry| entry.d_val.get(LE));
    let Some(strings) = values(elf::DT_STRTAB).next().and_then(|address| file_offset(programs, address)) else {
        return Ok(Vec::new());
    };
    let name = |at: u64| -> io::Result<Vec<u8>> {
        let mut name = read_range(file, strings.saturating_add(at), MAX_NAME)?;
        name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
        Ok(name)
    };
    values(elf::DT_NEEDED).take(MAX_NEEDED).map(name).collect()
}

/// Returns the file offset of an address.
fn file_offset(programs: &[ProgramHeader64<LE>], address: u64) -> Option<u64> {
    programs.iter().filter(|header| header.p_type.get(LE) == elf::PT_LOAD).find_map(|header| {
        let inside = address.checked_sub(header.p_vaddr.get(LE))?;
        if inside < header.p_filesz.get(LE) { header.p_offset.get(LE).checked_add(inside) } else { None }
    })
}

/// Reads a range of the file, as far as the file goes.
fn read_range(file: &File, offset: u64, size: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let mut bytes = vec![0; size.min(length.saturating_sub(offset)) as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Returns the bytes as entries, without an incomplete last one.
fn as_entries<T: Pod>(bytes: &[u8]) -> &[T] {
    slice_from_bytes(bytes, bytes.len() / size_of::<T>()).map_or(&[], |(table, _)| table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn inspect_bytes(bytes: &[u8]) -> ElfKind {
        let mut file = tempfile(bytes.len());
        file.write_all(bytes).unwrap();
        inspect(&file).unwrap()
    }

    fn tempfile(tag: usize) -> File {
        let path = std::env::temp_dir().join(format!(
            "sigtop-elf-{}-{tag}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn this_test_is_a_dynamic_program() {
        let ElfKind::Program { interpreter, go, needed } = inspect(&File::open("/proc/self/exe").unwrap()).unwrap()
        else {
            panic!("not seen as a program")
        };
        assert!(interpreter.unwrap().windows(9).any(|part| part == b"/ld-linux"));
        assert!(!go);
        assert!(needed.iter().any(|name| name == b"libc.so.6"), "{needed:?}");
    }

    #[test]
    fn non_elf_32_bit_and_foreign_files_are_distinguished() {
        assert_eq!(inspect_bytes(b""), ElfKind::Other);
        assert_eq!(inspect_bytes(b"#!/bin/sh\n"), ElfKind::Other);
        assert_eq!(inspect_bytes(b"\x7fELF\x01\x01\x01\0"), ElfKind::Bits32);
        assert_eq!(inspect_bytes(b"\x7fELF\x02\x01\x01\0"), ElfKind::NoProgram);
        let mut own = std::fs::read("/proc/self/exe").unwrap();
        own.truncate(1 << 16);
        own[18..20].copy_from_slice(&8u16.to_le_bytes());
        assert_eq!(inspect_bytes(&own), ElfKind::Foreign(8));
        own[5] = 2;
        own[18..20].copy_from_slice(&21u16.to_be_bytes());
        assert_eq!(inspect_bytes(&own), ElfKind::Foreign(21));
    }

    /// Every byte of the header and the program headers is set to its extremes, in a file that
    /// claims to be huge.
    #[test]
    fn a_hostile_header_neither_panics_nor_allocates() {
        let mut own = std::fs::read("/proc/self/exe").unwrap();
        own.truncate(4096);
        let file = tempfile(0);
        file.set_len(1 << 40).unwrap();
        for at in 4..1024 {
            for value in [0x00, 0x7f, 0x80, 0xff] {
                let was = std::mem::replace(&mut own[at], value);
                file.write_all_at(&own[..1024], 0).unwrap();
                inspect(&file).unwrap();
                own_allocator(&file).unwrap();
                own[at] = was;
            }
        }
    }
}
