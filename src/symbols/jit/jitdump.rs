//! The jitdump: a binary file of records that run-time compilers append, as specified in the
//! kernel's `tools/perf/Documentation/jitdump-specification.txt`. Used are the records that load
//! and move code, and the line tables, each of which precedes the code that it belongs to.

use super::code_map::{CodeMap, CodePiece};

/// Maximum size of a record. It holds a function's code, or its line table.
const MAX_RECORD_BYTES: usize = 64 << 20;
/// The size of the head of a file and of a record, in bytes.
pub(super) const FILE_HEAD: usize = 40;
const RECORD_HEAD: usize = 16;
/// `JiTD` in the byte order of the machine.
const MAGIC: u32 = 0x4A69_5444;

/// The kinds of records.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
const CLOSE: u32 = 3;

/// Returns the size of the head of a jitdump, if it is one of process `pid` for this kind of
/// machine.
pub(super) fn check_head(head: &[u8], pid: u32) -> Option<usize> {
    let size = u32_at(head, 8)? as usize;
    let is_ours = u32_at(head, 0)? == MAGIC
        && u32_at(head, 4)? == 1
        && u32_at(head, 12)? == crate::arch::ELF_MACHINE
        && u32_at(head, 20)? == pid;
    (is_ours && (FILE_HEAD..MAX_RECORD_BYTES).contains(&size)).then_some(size)
}

/// The state of reading a jitdump.
#[derive(Default)]
pub(super) struct JitdumpReader {
    /// The code address and the position of the last line table.
    lines: Option<(u64, u64)>,
    /// Whether a record could not be understood, or the last was read.
    pub(super) is_over: bool,
}

impl JitdumpReader {
    /// Reads the whole records of `bytes`, which are at `position` of the file. Adds their code to
    /// the map, and its addresses to `changed`. Returns the number of bytes read, or the number
    /// that the first record needs.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        position: u64,
        map: &mut CodeMap,
        changed: &mut Vec<(u64, u64)>,
    ) -> Result<usize, usize> {
        let mut used = 0;
        while !self.is_over {
            let rest = &bytes[used..];
            let (Some(kind), Some(size)) = (u32_at(rest, 0), u32_at(rest, 4)) else { break };
            let size = size as usize;
            if !(RECORD_HEAD..=MAX_RECORD_BYTES).contains(&size) {
                self.is_over = true;
                break;
            }
            let Some(record) = rest.get(..size) else {
                if used == 0 {
                    return Err(size);
                }
                break;
            };
            self.record(kind, record, position + used as u64, map, changed);
            used += size;
        }
        Ok(used)
    }

    fn record(
        &mut self,
        kind: u32,
        record: &[u8],
        position: u64,
        map: &mut CodeMap,
        changed: &mut Vec<(u64, u64)>,
    ) -> Option<()> {
        match kind {
            LOAD => {
                // pid, tid, vma, address, size, index, name, code
                let (start, size) = (u64_at(record, 32)?, u64_at(record, 40)?);
                let lines_at = self.lines.take().filter(|(code, _)| *code == start).map(|(_, at)| at);
                let end = start.checked_add(size)?;
                map.insert(CodePiece { start, end, name_at: position + 56, lines_at, moved: 0 });
                changed.push((start, end));
            }
            MOVE => {
                // pid, tid, vma, old address, new address, size, index
                let (from, to, size) = (u64_at(record, 32)?, u64_at(record, 40)?, u64_at(record, 48)?);
                let (old_end, end) = (from.checked_add(size)?, to.checked_add(size)?);
                let piece = map.find(from)?;
                let moved = piece.moved.wrapping_add(to.wrapping_sub(from));
                map.remove(from, old_end);
                map.insert(CodePiece { start: to, end, moved, ..piece });
                changed.push((to, end));
            }
            DEBUG_INFO => self.lines = Some((u64_at(record, 16)?, position + RECORD_HEAD as u64)),
            CLOSE => self.is_over = true,
            _ => {}
        }
        Some(())
    }
}

/// Returns the source file and line of `address` from a line table: code address, number of
/// entries, and for each entry address, line, discriminator and file.
pub(super) fn line(table: &[u8], address: u64) -> Option<(&[u8], u32)> {
    let count = u64_at(table, 8)?;
    let mut rest = table.get(16..)?;
    let mut best: Option<(u64, &[u8], u32)> = None;
    let mut file: &[u8] = &[];
    for _ in 0..count {
        let (Some(at), Some(line), Some(name)) = (u64_at(rest, 0), u32_at(rest, 8), rest.get(16..)) else { break };
        let Some(length) = name.iter().position(|&byte| byte == 0) else { break };
        // 0xff alone stands for the file of the entry before.
        if &name[..length] != b"\xff" {
            file = &name[..length];
        }
        if at <= address && best.is_none_or(|(known, ..)| known <= at) {
            best = Some((at, file, line));
        }
        rest = &name[length + 1..];
    }
    best.map(|(_, file, line)| (file, line))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::damage::Rounds;

    fn record(kind: u32, numbers: &[u64], text: &[u8]) -> Vec<u8> {
        let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        body.extend(text);
        let size = (RECORD_HEAD + body.len()) as u32;
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &7u64.to_le_bytes(), &body].concat()
    }

    fn load(start: u64, size: u64, name: &[u8]) -> Vec<u8> {
        record(LOAD, &[0, start, start, size, 1], &[name, b"\0code"].concat())
    }

    fn entry(address: u64, line: u32, file: &[u8]) -> Vec<u8> {
        [&address.to_le_bytes()[..], &line.to_le_bytes(), &[0; 4], file, b"\0"].concat()
    }

    #[test]
    fn code_is_loaded_and_moved_with_its_lines() {
        let lines = [entry(0x1000, 3, b"/a.rb"), entry(0x1008, 4, b"\xff")].concat();
        let dump = [
            record(DEBUG_INFO, &[0x1000, 2], &lines),
            load(0x1000, 0x10, b"moves"),
            load(0x2000, 0x10, b"stays"),
            record(MOVE, &[0, 0x1000, 0x1000, 0x3000, 0x10, 1], b""),
            record(9, &[], b"unknown"),
        ]
        .concat();
        let (mut reader, mut map, mut changed) = (JitdumpReader::default(), CodeMap::default(), Vec::new());
        let (head, cut) = (FILE_HEAD as u64, dump.len() - 1);
        let used = reader.read(&dump[..cut], head, &mut map, &mut changed).expect("whole records");
        assert!(used < cut);
        let rest = reader.read(&dump[used..], head + used as u64, &mut map, &mut changed).expect("the last record");
        assert_eq!(used + rest, dump.len());
        assert_eq!(changed, [(0x1000, 0x1010), (0x2000, 0x2010), (0x3000, 0x3010)]);
        assert_eq!(map.find(0x1004), None, "it moved");
        let moved = map.find(0x3009).expect("it moved here");
        assert!(dump[moved.name_at as usize - FILE_HEAD..].starts_with(b"moves\0"));
        let table = &dump[moved.lines_at.expect("lines") as usize - FILE_HEAD..];
        let at = |address: u64| line(table, address.wrapping_sub(moved.moved));
        assert_eq!(at(0x3009), Some((&b"/a.rb"[..], 4)));
        assert_eq!((at(0x3007), at(0x2fff)), (Some((&b"/a.rb"[..], 3)), None));
        assert_eq!(map.find(0x2000).and_then(|piece| piece.lines_at), None, "lines belong to one function");
    }

    #[test]
    fn the_head_names_the_process_and_the_machine() {
        let head = |magic: u32, machine: u32, pid: u32| {
            [magic, 1, 40, machine, 0, pid, 0, 0, 0, 0].map(u32::to_le_bytes).concat()
        };
        assert_eq!(check_head(&head(MAGIC, 62, 7), 7), Some(40));
        assert_eq!(check_head(&head(MAGIC, 62, 8), 7), None);
        assert_eq!(check_head(&head(MAGIC, 183, 7), 7), None);
        assert_eq!(check_head(&head(MAGIC.swap_bytes(), 62, 7), 7), None);
        assert_eq!(check_head(&[], 7), None);
    }

    #[test]
    fn a_record_of_impossible_size_ends_the_file() {
        let mut reader = JitdumpReader::default();
        let bytes = [LOAD.to_le_bytes(), 3u32.to_le_bytes()].concat();
        assert_eq!(reader.read(&bytes, 0, &mut CodeMap::default(), &mut Vec::new()), Ok(0));
        assert!(reader.is_over);
        let (mut reader, long) = (JitdumpReader::default(), load(0, 1, b"x"));
        assert_eq!(reader.read(&long[..20], 0, &mut CodeMap::default(), &mut Vec::new()), Err(long.len()));
    }

    #[test]
    fn damaged_dumps_do_no_harm() {
        let lines = [entry(0x1000, 3, b"/a.rb"), entry(0x1008, 4, b"\xff")].concat();
        let dump = [record(DEBUG_INFO, &[0x1000, 2], &lines), load(0x1000, 0x10, b"a"), load(0x1008, 0x40, b"b")];
        let moved = record(MOVE, &[1 << 32 | 1, 0x1008, 0x1008, 0x2000, 0x40, 1], b"");
        let dump = [dump.concat(), moved].concat();
        Rounds::new(0x5eed_0005, 40_000).read_damaged(&dump, |bytes| {
            let (mut reader, mut map, mut changed) = (JitdumpReader::default(), CodeMap::default(), Vec::new());
            let read = reader.read(bytes, 0, &mut map, &mut changed);
            assert!(read.is_ok_and(|used| used <= bytes.len()) || read.is_err_and(|needed| needed > bytes.len()));
            check_head(bytes, 1);
            for (start, _) in changed {
                let Some(piece) = map.find(start) else { continue };
                let table = piece.lines_at.and_then(|at| bytes.get(at as usize..)).unwrap_or_default();
                line(table, start.wrapping_sub(piece.moved));
            }
        });
    }
}
