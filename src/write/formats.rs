//! Every format of a profile in a file: how it is called, who writes it, and which one a file is in.

use std::io::{self, Read, Write};
use std::path::Path;

use super::error::ReadError;
use super::feed::Feed;
use super::{folded, pprof};
use crate::tally::saved::Saved;

/// Writes a profile; `value` says which kind of value, where the format has room for one.
type Writer = fn(&mut dyn Write, &Saved, usize) -> io::Result<()>;

/// One format.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// For menus and options.
    pub name: &'static str,
    /// Ends of file names that mean it; the first is given to new files.
    pub endings: &'static [&'static str],
    /// What it is good for, in a few words.
    pub words: &'static str,
    /// Writes it.
    pub write: Writer,
    /// Whether files of it can be read.
    pub is_read: bool,
}

/// All of them, the best first.
pub const FORMATS: &[Format] = &[
    Format {
        name: "proto",
        endings: &[".pb.gz", ".pb", ".pprof", ".prof.gz"],
        words: "pprof's profile.proto, with all there is",
        write: |out, saved, _| pprof::write(out, saved),
        is_read: true,
    },
    Format {
        name: "folded",
        endings: &[".folded", ".collapsed"],
        words: "a line for each stack, for flame graph tools",
        write: folded::write,
        is_read: true,
    },
];

/// The format that a file's name means.
pub fn by_name(path: &Path) -> Option<&'static Format> {
    let name = path.file_name()?.to_string_lossy();
    FORMATS.iter().find(|format| format.endings.iter().any(|ending| name.ends_with(ending)))
}

/// Reads a profile of any format that can be read: its bytes say which.
///
/// # Errors
/// What is wrong with it.
pub fn read(from: impl Read) -> Result<Saved, ReadError> {
    const LOOKED_AT: usize = 4096;
    let mut feed = Feed::open(from)?;
    let seen = feed.want(LOOKED_AT)?;
    let seen = &seen[..seen.len().min(LOOKED_AT)];
    if seen.is_empty() {
        return Err(ReadError::malformed("empty input file"));
    }
    if is_text(seen) {
        return if is_folded(seen) { folded::read(&mut feed) } else { Err(ReadError::Unknown) };
    }
    pprof::read_fed(&mut feed)
}

fn is_text(seen: &[u8]) -> bool {
    seen.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\n' | b'\r' | b'\t'))
}

/// Whether the first stack is one, with a number behind it.
fn is_folded(seen: &[u8]) -> bool {
    let text = String::from_utf8_lossy(seen);
    let first = text.lines().find(|line| !line.is_empty() && !line.starts_with('#'));
    first.and_then(|line| line.rsplit_once(' ')).is_some_and(|(_, number)| number.trim_end().parse::<i64>().is_ok())
}
