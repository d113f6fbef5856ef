//! The text of `/proc/PID/maps`, by lines.

/// Maximum number of bytes that are read of the file: about 600 000 mappings.
pub(crate) const MAX_MAPS_BYTES: usize = 64 << 20;

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapsEntry<'a> {
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
    /// Offset of the mapping in the file, bytes.
    pub(crate) offset: u64,
    /// Device of the file, as `major << 32 | minor`.
    pub(crate) device: u64,
    /// Inode of the file; 0 for anonymous memory.
    pub(crate) inode: u64,
    /// Path of the file as the process sees it, or a name in brackets, or empty.
    pub(crate) path: &'a [u8],
}

impl MapsEntry<'_> {
    /// Returns whether an address is in the mapping.
    #[cfg(any(feature = "agent", test))]
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Parses the entries of the file, which are sorted by address. A malformed line is skipped.
pub(crate) fn entries(text: &[u8]) -> impl Iterator<Item = MapsEntry<'_>> {
    lines(text).map(|(_, entry)| entry)
}

/// Parses the entries of the file, each with its line.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], MapsEntry<'_>)> {
    text.split(|&byte| byte == b'\n').filter_map(|line| Some((line, entry(line)?)))
}

/// Parses one line: `START-END RIGHTS OFFSET DEVICE INODE PATH`.
pub(crate) fn entry(line: &[u8]) -> Option<MapsEntry<'_>> {
    let mut rest = line;
    let (start, end) = (hex(&mut rest, b'-')?, hex(&mut rest, b' ')?);
    let (rights, after) = rest.split_at_checked(5)?;
    rest = after;
    let offset = hex(&mut rest, b' ')?;
    let (major, minor) = (hex(&mut rest, b':')?, hex(&mut rest, b' ')?);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let inode = rest[..digits].iter().fold(0u64, |value, &digit| value.wrapping_mul(10) + u64::from(digit - b'0'));
    let path = rest[digits..].trim_ascii_start();
    let [readable, writable, executable] = [(0, b'r'), (1, b'w'), (2, b'x')].map(|(at, right)| rights[at] == right);
    let device = major << 32 | minor;
    (start < end).then_some(MapsEntry { start, end, readable, writable, executable, offset, device, inode, path })
}

/// Parses a hexadecimal number and skips the byte after it.
fn hex(rest: &mut &[u8], end: u8) -> Option<u64> {
    let length = rest.iter().position(|&byte| byte == end)?;
    let mut value = 0u64;
    for &digit in &rest[..length] {
        value = value << 4 | u64::from((digit as char).to_digit(16)?);
    }
    *rest = &rest[length + 1..];
    Some(value)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn lines_are_read() {
        let text =
            b"55f250153000-55f250155000 r-xp 00002000 08:10 10021755                   /opt/a b/demo (deleted)\n\
            7ffd1c000000-7ffd1c021000 rw-p 00000000 00:00 0                          [stack]\nnonsense\n\
            7f0000000000-7f0000001000 ---p 00000000 00:00 0\n2-1 r-xp 0 0:0 0\n\
            7f0000001000-7f0000002000 -w-p 00000000 00:00 0\n";
        let all: Vec<MapsEntry<'_>> = entries(text).collect();
        assert_eq!(all.len(), 4);
        assert_eq!(
            all[0],
            MapsEntry {
                start: 0x55f2_5015_3000,
                end: 0x55f2_5015_5000,
                readable: true,
                writable: false,
                executable: true,
                offset: 0x2000,
                device: 8 << 32 | 0x10,
                inode: 10_021_755,
                path: b"/opt/a b/demo (deleted)",
            }
        );
        assert!(all[0].contains(0x55f2_5015_3000) && !all[0].contains(0x55f2_5015_5000));
        assert!(all[1].readable && all[1].writable && all[1].path == b"[stack]" && all[1].inode == 0);
        assert!(!all[2].readable && !all[2].writable && all[2].path.is_empty());
        assert!(!all[3].readable && all[3].writable);
    }
}
