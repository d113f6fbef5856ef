//! The perf map: a text file with a line for each piece of code, `START SIZE NAME`, where start
//! and size are hexadecimal. Lines are appended as code is generated.

use super::code_map::{CodeMap, CodePiece};

/// Maximum length of a line that is understood; the longest names are cut elsewhere.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;

/// Reads the whole lines of `bytes`, which are at `position` of the file. Adds their code to the
/// map, and its addresses to `changed`. Returns the number of bytes read: up to the last line's
/// end.
pub(super) fn read(bytes: &[u8], position: u64, map: &mut CodeMap, changed: &mut Vec<(u64, u64)>) -> usize {
    let mut used = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        if line.last() != Some(&b'\n') {
            // A line without an end may be written further, unless it is too long to be one.
            return if line.len() > MAX_LINE_BYTES { bytes.len() } else { used };
        }
        if let Some(piece) = parse(line, position + used as u64) {
            map.insert(piece);
            changed.push((piece.start, piece.end));
        }
        used += line.len();
    }
    used
}

fn parse(line: &[u8], position: u64) -> Option<CodePiece> {
    let blank = |&byte: &u8| byte == b' ' || byte == b'\t';
    let first = line.iter().position(blank)?;
    let second = first + 1 + line[first + 1..].iter().position(blank)?;
    let (start, size) = (number(&line[..first])?, number(&line[first + 1..second])?);
    let has_name = line[second + 1..].iter().any(|byte| !byte.is_ascii_whitespace());
    let piece = CodePiece {
        start,
        end: start.checked_add(size)?,
        name_at: position + second as u64 + 1,
        lines_at: None,
        moved: 0,
    };
    (has_name && size > 0).then_some(piece)
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    // `from_str_radix` would accept a sign.
    if text.starts_with('+') { None } else { u64::from_str_radix(text, 16).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::damage::Rounds;
    use crate::symbols::jit::function_name;

    #[test]
    fn whole_lines_are_read_and_others_wait() {
        let text = b"1000 10 first\n0x2000 20 the second one\nnonsense\n3000 0 empty\n3000 8 \n4000 10 unfin";
        let (mut map, mut changed) = (CodeMap::default(), Vec::new());
        let used = read(text, 100, &mut map, &mut changed);
        assert_eq!(&text[used..], b"4000 10 unfin");
        assert_eq!(changed, [(0x1000, 0x1010), (0x2000, 0x2020)]);
        let name_at = map.find(0x2010).expect("a piece").name_at as usize - 100;
        assert!(text[name_at..].starts_with(b"the second one\n"));
        assert_eq!(map.find(0x3000), None);
    }

    #[test]
    fn hostile_lines_are_skipped() {
        let mut map = CodeMap::default();
        let lines = b"ffffffffffffffff 10 overflow\n+10 10 sign\n10 -1 sign\n\n \n  \n10\n10 10\n\xff 1 a\n";
        assert_eq!(read(lines, 0, &mut map, &mut Vec::new()), lines.len());
        assert_eq!(map.find(0x10), None);
        let endless = vec![b'a'; MAX_LINE_BYTES + 1];
        assert_eq!(read(&endless, 0, &mut map, &mut Vec::new()), endless.len(), "a line that never ends");
    }

    #[test]
    fn damaged_maps_do_no_harm() {
        let lines = [
            "1000 10 JS:*fib /srv/app.js:1:13\n0x2000 20 py::fib:/srv/app.py\n1008 8 int app.Fib.of(int)\n",
            "1004 2 LazyCompile:~<anonymous> a.js:2:3\nfffffffffffffff0 f last\n",
        ];
        Rounds::new(0x5eed_0004, 40_000).read_damaged(lines.concat().as_bytes(), |bytes| {
            let (mut map, mut changed) = (CodeMap::default(), Vec::new());
            assert!(read(bytes, 7, &mut map, &mut changed) <= bytes.len());
            for (start, end) in changed {
                assert!(start < end);
                let Some(piece) = map.find(start) else { continue };
                let name = &bytes[(piece.name_at - 7) as usize..];
                let line = function_name::function(name.split(|&byte| byte == b'\n').next().unwrap_or_default());
                assert!(!line.full.contains(char::is_control) && !line.file.contains(char::is_control), "{line:?}");
            }
        });
    }
}
