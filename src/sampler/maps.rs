//! The memory map of another process: `/proc/PID/maps`.

use std::fs::File;
use std::io::{self, Read};

/// Maximum number of bytes read of the file: about 600 000 mappings.
const MAX_BYTES: u64 = 64 << 20;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryMapping {
    /// First address of the mapping.
    pub(crate) start: u64,
    /// Address after the last one.
    pub(crate) end: u64,
    /// Whether the mapping is readable.
    pub(crate) readable: bool,
    /// Whether the mapping is writable.
    pub(crate) writable: bool,
    /// Whether the mapping is executable.
    pub(crate) executable: bool,
    /// Offset of the mapping in its file, bytes.
    pub(crate) offset: u64,
    /// Device of the file, as `major << 32 | minor`.
    pub(crate) device: u64,
    /// Inode of the file; 0 for anonymous memory.
    pub(crate) inode: u64,
    /// Path of the file as the process sees it, or a name in brackets, or empty.
    pub(crate) path: Box<[u8]>,
}

/// The mappings of a process, sorted by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessMaps {
    /// The mappings.
    pub(crate) mappings: Vec<MemoryMapping>,
}

impl ProcessMaps {
    /// Reads the map of a process. The file of a process whose first thread has ended is empty, so
    /// that of another thread is read.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(pid: u32, tid: u32) -> io::Result<ProcessMaps> {
        let mut text = Vec::new();
        File::open(format!("/proc/{pid}/task/{tid}/maps"))?.take(MAX_BYTES).read_to_end(&mut text)?;
        Ok(ProcessMaps::parse(&text))
    }

    /// Parses the text of the file. A malformed line is skipped.
    pub(crate) fn parse(text: &[u8]) -> ProcessMaps {
        let mut mappings: Vec<MemoryMapping> = text.split(|&byte| byte == b'\n').filter_map(mapping).collect();
        mappings.sort_by_key(|mapping| mapping.start);
        ProcessMaps { mappings }
    }
}

fn mapping(line: &[u8]) -> Option<MemoryMapping> {
    let mut rest = line;
    let (start, end) = (number(&mut rest, b'-', 16)?, number(&mut rest, b' ', 16)?);
    let (rights, after) = rest.split_at_checked(5)?;
    rest = after;
    let offset = number(&mut rest, b' ', 16)?;
    let (major, minor) = (number(&mut rest, b':', 16)?, number(&mut rest, b' ', 16)?);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let inode = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let path = rest[digits..].trim_ascii_start().into();
    let [readable, writable, executable] = [(0, b'r'), (1, b'w'), (2, b'x')].map(|(at, right)| rights[at] == right);
    let device = major << 32 | minor;
    (start < end).then_some(MemoryMapping { start, end, readable, writable, executable, offset, device, inode, path })
}

/// Parses a number and skips the byte after it.
fn number(rest: &mut &[u8], end: u8, radix: u32) -> Option<u64> {
    let length = rest.iter().position(|&byte| byte == end)?;
    let value = u64::from_str_radix(std::str::from_utf8(&rest[..length]).ok()?, radix).ok()?;
    *rest = &rest[length + 1..];
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text =
            b"55f250153000-55f250155000 r-xp 00002000 08:10 10021755                   /opt/a b/demo (deleted)\n\
            7ffd1c000000-7ffd1c021000 rw-p 00000000 00:00 0                          [stack]\nnonsense\n\
            7f0000000000-7f0000001000 ---p 00000000 00:00 0\n2-1 r-xp 0 0:0 0\n";
        let maps = ProcessMaps::parse(text);
        let [demo, guard, stack] = &maps.mappings[..] else { panic!("{maps:?}") };
        assert!(demo.executable && demo.readable && !demo.writable);
        assert_eq!((demo.offset, demo.device, demo.inode), (0x2000, 8 << 32 | 0x10, 10_021_755));
        assert_eq!(&*demo.path, b"/opt/a b/demo (deleted)");
        assert_eq!((demo.start, demo.end, stack.end), (0x55f2_5015_3000, 0x55f2_5015_5000, 0x7ffd_1c02_1000));
        assert!(!guard.readable && stack.writable);
    }

    #[test]
    fn own_map_holds_this_function() {
        let own = std::process::id();
        let maps = ProcessMaps::read(own, own).unwrap();
        let here = own_map_holds_this_function as *const () as u64;
        assert!(maps.mappings.iter().any(|mapping| mapping.executable && (mapping.start..mapping.end).contains(&here)));
    }
}
