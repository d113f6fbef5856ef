//! The functions of the kernel, from `/proc/kallsyms`: one line for each symbol, with its address,
//! its type and its name, and the module that has it. To a user who may not know addresses, all are
//! 0 (`kernel.kptr_restrict`).

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::error::Error;
use super::table::SymbolTable;
use crate::profile::module::ModuleFile;
use crate::wire::{BOOT_ID_FILE, KERNEL_PATH, is_kernel_address, parse_boot_id, shorten_kernel_address};

/// Maximum number of bytes that are read: some 20 times what a large kernel has.
const MAX_BYTES: u64 = 256 << 20;
/// Maximum length of a name, bytes.
const MAX_NAME: usize = 512;

/// Whether this is the code of the kernel.
pub(super) fn is_kernel(file: &ModuleFile) -> bool {
    file.path.as_os_str().as_encoded_bytes() == KERNEL_PATH
}

/// Reads the functions of the kernel that runs, if it is the one of a sample.
pub(super) fn read(file: &ModuleFile) -> Result<SymbolTable, Error> {
    let found = parse_boot_id(&fs::read_to_string(BOOT_ID_FILE).unwrap_or_default());
    if !file.build_id.is_empty() && file.build_id[..] != found {
        return Err(Error::OtherKernel);
    }
    let path = Path::new("/proc/kallsyms");
    let unreadable = |cause: std::io::Error| Error::Unreadable { path: path.to_owned(), cause: cause.to_string() };
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text)).map_err(unreadable)?;
    parse(&text).ok_or(Error::HiddenKernel)
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
