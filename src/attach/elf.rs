//! What the bytes of an executable say about preloading. It reads the few tables that decide and nothing else of the file,
//! each with its own limit, because the file may be anything. Whether the kernel and the loader would honour a preload for
//! other reasons (setuid, a script) is [`program`](super::program)'s.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use object::LittleEndian as LE;
use object::elf::{self, Dyn64, FileHeader64, ProgramHeader64, SectionHeader64};
use object::pod::{Pod, from_bytes, slice_from_bytes};

/// Bytes of the program headers that the kernel accepts.
const MAX_PROGRAM_HEADERS: usize = 65_536;
/// Bytes of the interpreter's path that the kernel accepts (PATH_MAX).
const MAX_INTERPRETER: u64 = 4096;
/// Bytes of section headers, section names and dynamic entries that are looked at.
const MAX_TABLE: u64 = 4 << 20;
/// Bytes of a library's name that are looked at.
const MAX_NAME: u64 = 256;
/// Libraries that are looked at.
const MAX_NEEDED: usize = 1024;

/// What can be told from the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// Not ELF at all.
    Other,
    /// ELF, but not a program: an object file, a core, or broken.
    NoProgram,
    /// ELF of 32 bits, for any machine.
    Bits32,
    /// ELF of 64 bits for another machine (`e_machine`).
    Foreign(u16),
    /// An x86-64 program.
    Program {
        /// Path of the loader (`PT_INTERP`); none in a static program.
        interpreter: Option<Vec<u8>>,
        /// Has Go's tables.
        go: bool,
        /// Names of the libraries it needs, at most 1024.
        needed: Vec<Vec<u8>>,
    },
}

/// Looks at an open file.
pub fn inspect(file: &File) -> io::Result<Image> {
    let head = piece(file, 0, size_of::<FileHeader64<LE>>() as u64)?;
    if !head.starts_with(&elf::ELFMAG) {
        return Ok(Image::Other);
    }
    let Some(ident) = head.get(..8) else { return Ok(Image::NoProgram) };
    if ident[4] == elf::ELFCLASS32.0 {
        return Ok(Image::Bits32);
    }
    let Ok((header, _)) = from_bytes::<FileHeader64<LE>>(&head) else { return Ok(Image::NoProgram) };
    if ident[5] != elf::ELFDATA2LSB.0 {
        return Ok(Image::Foreign(header.e_machine.get(LE).0.swap_bytes()));
    }
    if header.e_machine.get(LE) != elf::EM_X86_64 {
        return Ok(Image::Foreign(header.e_machine.get(LE).0));
    }
    if ident[4] != elf::ELFCLASS64.0 || ![elf::ET_EXEC, elf::ET_DYN].contains(&header.e_type.get(LE)) {
        return Ok(Image::NoProgram);
    }
    let count = header.e_phnum.get(LE) as usize;
    if count == 0 || count * size_of::<ProgramHeader64<LE>>() > MAX_PROGRAM_HEADERS {
        return Ok(Image::NoProgram);
    }
    let bytes = piece(file, header.e_phoff.get(LE), (count * size_of::<ProgramHeader64<LE>>()) as u64)?;
    let programs = table::<ProgramHeader64<LE>>(&bytes);
    let Some(interpreter) = interpreter(file, programs)? else { return Ok(Image::NoProgram) };
    Ok(Image::Program { interpreter, go: has_go(file, header)?, needed: needed(file, programs)? })
}

/// `None` when it is there but is no path.
fn interpreter(file: &File, programs: &[ProgramHeader64<LE>]) -> io::Result<Option<Option<Vec<u8>>>> {
    let Some(header) = programs.iter().find(|header| header.p_type.get(LE) == elf::PT_INTERP) else {
        return Ok(Some(None));
    };
    let size = header.p_filesz.get(LE);
    if !(2..=MAX_INTERPRETER).contains(&size) {
        return Ok(None);
    }
    let mut path = piece(file, header.p_offset.get(LE), size)?;
    path.truncate(path.iter().position(|&byte| byte == 0).unwrap_or(path.len()));
    Ok(if path.is_empty() { None } else { Some(Some(path)) })
}

fn has_go(file: &File, header: &FileHeader64<LE>) -> io::Result<bool> {
    let size = u64::from(header.e_shnum.get(LE)) * size_of::<SectionHeader64<LE>>() as u64;
    let bytes = piece(file, header.e_shoff.get(LE), size.min(MAX_TABLE))?;
    let sections = table::<SectionHeader64<LE>>(&bytes);
    let Some(names) = sections.get(header.e_shstrndx.get(LE).0 as usize) else { return Ok(false) };
    let names = piece(file, names.sh_offset.get(LE), names.sh_size.get(LE).min(MAX_TABLE))?;
    Ok(sections.iter().any(|section| {
        let name = names.get(section.sh_name.get(LE) as usize..).unwrap_or_default();
        name.starts_with(b".go.buildinfo\0") || name.starts_with(b".gopclntab\0")
    }))
}

fn needed(file: &File, programs: &[ProgramHeader64<LE>]) -> io::Result<Vec<Vec<u8>>> {
    let Some(header) = programs.iter().find(|header| header.p_type.get(LE) == elf::PT_DYNAMIC) else {
        return Ok(Vec::new());
    };
    let bytes = piece(file, header.p_offset.get(LE), header.p_filesz.get(LE).min(MAX_TABLE))?;
    let entries = table::<Dyn64<LE>>(&bytes);
    let of = |tag| entries.iter().filter(move |entry| entry.d_tag.get(LE) == tag).map(|entry| entry.d_val.get(LE));
    let Some(strings) = of(elf::DT_STRTAB).next().and_then(|address| offset(programs, address)) else {
        return Ok(Vec::new());
    };
    let name = |at: u64| -> io::Result<Vec<u8>> {
        let mut name = piece(file, strings.saturating_add(at), MAX_NAME)?;
        name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
        Ok(name)
    };
    of(elf::DT_NEEDED).take(MAX_NEEDED).map(name).collect()
}

/// Where in the file the byte of an address lies.
fn offset(programs: &[ProgramHeader64<LE>], address: u64) -> Option<u64> {
    programs.iter().filter(|header| header.p_type.get(LE) == elf::PT_LOAD).find_map(|header| {
        let inside = address.checked_sub(header.p_vaddr.get(LE))?;
        if inside < header.p_filesz.get(LE) { header.p_offset.get(LE).checked_add(inside) } else { None }
    })
}

/// As much of a range as the file has.
fn piece(file: &File, offset: u64, size: u64) -> io::Result<Vec<u8>> {
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

/// The whole entries at the start.
fn table<T: Pod>(bytes: &[u8]) -> &[T] {
    slice_from_bytes(bytes, bytes.len() / size_of::<T>()).map_or(&[], |(table, _)| table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn of(bytes: &[u8]) -> Image {
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
        let Image::Program { interpreter, go, needed } = inspect(&File::open("/proc/self/exe").unwrap()).unwrap()
        else {
            panic!("not seen as a program")
        };
        assert!(interpreter.unwrap().ends_with(b"ld-linux-x86-64.so.2"));
        assert!(!go);
        assert!(needed.iter().any(|name| name == b"libc.so.6"), "{needed:?}");
    }

    #[test]
    fn other_bytes_are_told_apart() {
        assert_eq!(of(b""), Image::Other);
        assert_eq!(of(b"#!/bin/sh\n"), Image::Other);
        assert_eq!(of(b"\x7fELF\x01\x01\x01\0"), Image::Bits32);
        assert_eq!(of(b"\x7fELF\x02\x01\x01\0"), Image::NoProgram);
        let mut own = std::fs::read("/proc/self/exe").unwrap();
        own.truncate(1 << 16);
        own[18..20].copy_from_slice(&183u16.to_le_bytes());
        assert_eq!(of(&own), Image::Foreign(183));
        own[5] = 2;
        own[18..20].copy_from_slice(&21u16.to_be_bytes());
        assert_eq!(of(&own), Image::Foreign(21));
    }

    /// Every byte of the header and the program headers, set to its extremes, over a file that claims to be huge.
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
                own[at] = was;
            }
        }
    }
}
