//! Frames: an address, the name of a function with an offset, and a file in parentheses.

/// The width of perf's column of addresses. No other column in front of it is as wide.
pub(super) const ADDRESS_WIDTH: usize = 16;

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PerfFrame<'a> {
    pub(super) address: u64,
    /// The name without the offset. It is empty if perf did not print it.
    pub(super) name: &'a str,
    /// The file, `inlined`, or nothing.
    pub(super) file: &'a str,
}

/// A word of a line.
#[derive(Clone, Copy)]
pub(super) struct ColumnWord<'a> {
    pub(super) text: &'a str,
    /// The width of its column, if one space stands before the column.
    pub(super) width: usize,
    /// The text behind it.
    pub(super) rest: &'a str,
}

/// The first word of a text.
pub(super) fn first_word(text: &str) -> Option<ColumnWord<'_>> {
    let word = text.trim_start();
    let padding = (text.len() - word.len()).saturating_sub(1);
    let (word, rest) = word.split_at(word.find(char::is_whitespace).unwrap_or(word.len()));
    (!word.is_empty()).then_some(ColumnWord { text: word, width: padding + word.len(), rest })
}

/// Parses a line that is a frame.
pub(super) fn parse(line: &str) -> Option<PerfFrame<'_>> {
    let word = first_word(line)?;
    let address = parse_address(word.text)?;
    let rest = word.rest.trim();
    // The name of a thread may look like an address, but then a number follows in place of a name.
    let is_thread = rest.split_once(char::is_whitespace).is_some_and(|(second, _)| is_number(second));
    if is_thread || rest.is_empty() && word.width < ADDRESS_WIDTH {
        return None;
    }
    let (name, file) = parse_place(rest);
    Some(PerfFrame { address, name, file })
}

/// Parses a line of a stack by its column alone, whatever is above it.
pub(super) fn parse_wide(line: &str) -> Option<PerfFrame<'_>> {
    let is_wide = first_word(line)?.width >= ADDRESS_WIDTH;
    parse(line).filter(|_| is_wide)
}

/// Parses the frame behind a header. Other columns may stand between them.
pub(super) fn parse_behind(text: &str) -> Option<PerfFrame<'_>> {
    let mut last = None;
    let mut rest = text;
    while let Some(word) = first_word(rest) {
        let is_address = word.width >= ADDRESS_WIDTH && parse_address(word.text).is_some();
        // A wide column at the end of the line is the address only if there is no other.
        if is_address && (last.is_none() || !word.rest.trim().is_empty()) {
            last = Some(rest);
        }
        rest = word.rest;
    }
    last.map_or_else(|| parse_start(text), parse)
}

/// Parses the frame at the start of a text. Without its column, it must have a file.
pub(super) fn parse_start(text: &str) -> Option<PerfFrame<'_>> {
    let is_wide = first_word(text)?.width >= ADDRESS_WIDTH;
    parse(text).filter(|frame| is_wide || !frame.file.is_empty())
}

fn parse_address(word: &str) -> Option<u64> {
    let is_hexadecimal = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(word, 16).ok().filter(|_| is_hexadecimal)
}

/// Whether a word is a pid, or a pid and a tid.
fn is_number(word: &str) -> bool {
    word.split('/').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Splits the text behind an address into name and file.
fn parse_place(text: &str) -> (&str, &str) {
    let unknown = "[unknown]";
    let (name, file) = if let Some((name, behind)) = split_offset(text) {
        (name, parse_file(behind))
    } else if let Some(behind) = text.strip_prefix(unknown) {
        (unknown, parse_file(behind))
    } else {
        split_file(text).unwrap_or((text, ""))
    };
    // Newer versions of perf may print an offset in the file, too.
    let file = split_offset(file).filter(|(_, behind)| behind.is_empty()).map_or(file, |(file, _)| file);
    (name.trim(), file)
}

/// Splits a text at the first offset that ends a word, and returns what is before and behind it.
fn split_offset(text: &str) -> Option<(&str, &str)> {
    text.match_indices("+0x").find_map(|(at, mark)| {
        let digits = &text[at + mark.len()..];
        let behind = digits.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
        let is_end = behind.is_empty() || behind.starts_with(' ');
        (is_end && behind.len() < digits.len()).then(|| (&text[..at], behind))
    })
}

/// The file at the start of a text, up to the last parenthesis: it may have parentheses itself.
fn parse_file(text: &str) -> &str {
    let file = text.strip_prefix(" (");
    file.and_then(|file| Some(&file[..file.rfind(')')?])).unwrap_or_default()
}

/// Splits a text into a name without an offset and the file at its end. Both may have parentheses
/// and spaces: `operator new (int) (/opt/a.out (deleted))`.
fn split_file(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_suffix(')')?;
    let mut depth = 1usize;
    let start = inner.bytes().enumerate().rev().find_map(|(at, byte)| {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    });
    if let Some(start) = start
        && (start == 0 || inner[..start].ends_with(' '))
    {
        return Some((&inner[..start], &inner[start + 1..]));
    }
    // The file's name has parentheses without their counterparts.
    let start = inner.rfind(" (/").or_else(|| inner.rfind(" (["))?;
    Some((&inner[..start], &inner[start + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_may_have_spaces_and_parentheses() {
        for (place, name, file) in [
            ("leaf+0x17 (/opt/a.out (deleted))", "leaf", "/opt/a.out (deleted)"),
            ("leaf (/opt/a.out (deleted))", "leaf", "/opt/a.out (deleted)"),
            ("[unknown] (/memfd:doublemapper (deleted))", "[unknown]", "/memfd:doublemapper (deleted)"),
            ("f(int) (/opt/App (x86)/app)", "f(int)", "/opt/App (x86)/app"),
            ("operator new (int)+0x2 (/opt/App (x86)/app)", "operator new (int)", "/opt/App (x86)/app"),
            ("operator new (int) (/bin/a)", "operator new (int)", "/bin/a"),
            ("f+0x1 (/opt/a) (b)", "f", "/opt/a) (b"),
            ("f (/opt/a(b)", "f", "/opt/a(b"),
            ("f (/opt/a) b)", "f", "/opt/a) b"),
            ("f()", "f()", ""),
            ("f+0xg (/bin/a)", "f+0xg", "/bin/a"),
            ("f+0x1", "f", ""),
            ("f+0x1 (/bin/a+0x2f01)", "f", "/bin/a"),
            ("f+0x1 (inlined)", "f", "inlined"),
            ("(/bin/a)", "", "/bin/a"),
            ("f+0x1 (/bin/a) 0x4a/0x4b/P/-/-/0", "f", "/bin/a"),
            (")", ")", ""),
        ] {
            let frame = PerfFrame { address: 0x4a, name, file };
            assert_eq!(parse(&format!("\t      4a {place}")), Some(frame), "{place}");
        }
        for line in ["", "4a", "4g f", "+4a f (/bin/a)", "11112222333344445 f", "cafe 9258/9258 cycles: ", "cafe 9 x:"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
        assert_eq!(parse("\t      55d1367d2180").map(|frame| frame.name), Some(""));
    }

    #[test]
    fn the_last_wide_column_is_the_address() {
        let address = |text| parse_behind(text).map(|frame| frame.address);
        assert_eq!(address("      55d1367d2180 leaf"), Some(0x55d1_367d_2180));
        assert_eq!(address("                0     55d1367d2180 leaf+0x17 (/a)"), Some(0x55d1_367d_2180));
        assert_eq!(address("prev_comm=add prev_pid=2 ffffffff82203249 schedule"), Some(0xffff_ffff_8220_3249));
        assert_eq!(address(" 4a leaf (/a)"), Some(0x4a));
        assert_eq!(address(" 4a leaf"), None);
        assert_eq!(address("prev_comm=a prev_pid=2"), None);
    }
}
