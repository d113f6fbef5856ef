//! The functions of the kernel, from `/proc/kallsyms`: one line for each symbol, with its address,
//! its type and its name, and the module that has it. To a user who may not know addresses, all are
//! 0 (`kernel.kptr_restrict`). Of another kernel, perf's cache may have the same text by its build
//! id.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::NoteIterator;

use super::error::{Error, hex};
use super::file_caches::perf_cache;
use super::table::SymbolTable;
use crate::profile::module::ModuleFile;
use crate::wire::{BOOT_ID_FILE, KERNEL_END, KERNEL_PATH, is_kernel_address, parse_boot_id, shorten_kernel_address};

/// Maximum number of bytes that are read: some 20 times what a large kernel has.
const MAX_BYTES: u64 = 256 << 20;
/// Maximum length of a name, bytes.
const MAX_NAME: usize = 512;

/// Whether this is the code of the kernel.
pub(super) fn is_kernel(file: &ModuleFile) -> bool {
    file.path.as_os_str().as_encoded_bytes() == KERNEL_PATH
}

/// Reads the functions of the kernel of a sample, if it is the one that runs, or if perf has kept
/// them.
pub(super) fn read(file: &ModuleFile) -> Result<SymbolTable, Error> {
    let mut hidden = None;
    for path in tables(&file.build_id) {
        match read_text(&path).map(|text| parse(&text)) {
            Ok(Some(table)) => return Ok(table),
            Ok(None) => hidden = Some(Error::HiddenKernel),
            Err(error) => hidden = hidden.or(Some(error)),
        }
    }
    Err(hidden.unwrap_or(Error::OtherKernel))
}

/// Returns the files with the functions of a kernel. It is known by the start of the running one or
/// by its build id; without either, it is the running one.
fn tables(id: &[u8]) -> impl Iterator<Item = PathBuf> {
    let started = || parse_boot_id(&fs::read_to_string(BOOT_ID_FILE).unwrap_or_default());
    let is_running = id.is_empty() || *id == started() || *id == *running_build_id();
    let cached = perf_cache(&format!("[kernel.kallsyms]/{}/kallsyms", hex(id))).filter(|path| path.is_file());
    is_running.then(|| PathBuf::from("/proc/kallsyms")).into_iter().chain(cached)
}

fn read_text(path: &Path) -> Result<Vec<u8>, Error> {
    let unreadable = |cause: std::io::Error| Error::Unreadable { path: path.to_owned(), cause: cause.to_string() };
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text)).map_err(unreadable)?;
    Ok(text)
}

/// Reads the build id of the running kernel; empty if it tells none.
fn running_build_id() -> Box<[u8]> {
    let notes = fs::read("/sys/kernel/notes").unwrap_or_default();
    let mut notes = NoteIterator::<FileHeader64<LittleEndian>>::new(LittleEndian, 4, &notes).ok();
    while let Some(Ok(Some(note))) = notes.as_mut().map(NoteIterator::next) {
        if note.name() == ELF_NOTE_GNU && note.n_type(LittleEndian) == NT_GNU_BUILD_ID {
            return note.desc().into();
        }
    }
    Box::default()
}

/// Returns the id by which the functions of a kernel are found, and where they have a symbol. A
/// kernel without a build id is the running one if the symbol is at `address`.
pub fn kernel_symbol(build_id: &[u8], name: &[u8], address: u64) -> Option<(Box<[u8]>, u64)> {
    let mut found = tables(build_id).filter_map(|path| {
        let text = read_text(&path).ok()?;
        let mut lines = text.split(|&byte| byte == b'\n').filter_map(function);
        lines.find(|(_, known)| *known == name).map(|(short, _)| short | !(KERNEL_END - 1))
    });
    let known = found.next()?;
    let is_certain = !build_id.is_empty() || known == address;
    let started = || parse_boot_id(&fs::read_to_string(BOOT_ID_FILE).unwrap_or_default()).into();
    is_certain.then(|| (if build_id.is_empty() { started() } else { build_id.into() }, known))
}

/// Parses the text of the file. Returns `None` if no function has an address.
fn parse(text: &[u8]) -> Option<SymbolTable> {
    let mut functions: Vec<(u64, &[u8])> = text.split(|&byte| byte == b'\n').filter_map(function).collect();
    // Of two names of one address, the shorter one is the public one.
    functions.sort_unstable_by_key(|&(address, name)| (address, name.len()));
    functions.dedup_by_key(|function| function.0);
    (!functions.is_empty()).then(|| SymbolTable::of_starts(&functions))
}

/// Parses a line of a function: its shortened address and its name.
fn function(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut words = line.split(|&byte| byte == b' ' || byte == b'\t').filter(|word| !word.is_empty());
    let address = u64::from_str_radix(std::str::from_utf8(words.next()?).ok()?, 16).ok()?;
    let is_code = matches!(words.next()?, b"t" | b"T" | b"w" | b"W");
    let name = words.next()?;
    let full = address >= 1 << 63;
    let short = shorten_kernel_address(address);
    (is_code && full && is_kernel_address(short) && name.len() <= MAX_NAME).then_some((short, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_from_their_start_to_the_next() {
        let text = b"ffffffff81000000 T _text\nffffffff81000000 T startup_64_with_a_long_name\n\
            ffffffff81000100 t helper\nffffffff81000180 D data\nffffffffc0000000 t probe\t[a_module]\n";
        let table = parse(text).unwrap();
        let name = |address: u64| table.name(shorten_kernel_address(address));
        assert_eq!(name(0xffff_ffff_8100_0000), Some(&b"_text"[..]));
        assert_eq!(name(0xffff_ffff_8100_00ff), Some(&b"_text"[..]));
        assert_eq!(name(0xffff_ffff_8100_0190), Some(&b"helper"[..]));
        assert_eq!(name(0xffff_ffff_c000_0010), Some(&b"probe"[..]));
        assert_eq!(name(0xffff_ffff_0000_0000), None);
    }

    #[test]
    fn hidden_addresses_and_nonsense_name_nothing() {
        assert!(parse(b"0000000000000000 T _text\n0000000000000000 t helper\n").is_none());
        for text in
            [&b""[..], b"\n\n", b"ffffffff81000000", b"ffffffff81000000 T", b"x T y\n", b"ffffffff81000000 D y\n"]
        {
            assert!(parse(text).is_none());
        }
        let long = [&b"ffffffff81000000 T "[..], &[b'a'; MAX_NAME + 1]].concat();
        assert!(parse(&long).is_none() && parse(&[0xff; 300]).is_none());
    }

    #[test]
    fn another_kernel_has_other_addresses() {
        let file = ModuleFile { path: "[kernel]".into(), build_id: vec![1; 16].into(), device: 0, inode: 0 };
        assert!(is_kernel(&file) && matches!(read(&file), Err(Error::OtherKernel)));
    }
}
