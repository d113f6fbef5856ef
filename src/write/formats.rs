//! Every format of a profile in a file: how it is called, who writes it, and which one a file is in.

use std::io::{self, Read, Write};
use std::path::Path;

use super::error::ReadError;
use super::feed::Feed;
use super::report::{self, Form, Options};
use super::{firefox, folded, legacy, perf, pprof, speedscope, svg};
use crate::tally::saved::Saved;

/// Writes a profile; `value` says which kind of value, where the format has room for one.
type Writer = fn(&mut dyn Write, &Saved, usize) -> io::Result<()>;

/// One format.
#[derive(Clone, Debug)]
pub struct Format {
    /// For menus and options.
    pub name: &'static str,
    /// Ends of file names that mean it; the first is given to new files.
    pub endings: &'static [&'static str],
    /// What it is good for, in a few words.
    pub words: &'static str,
    /// Writes it.
    pub write: Writer,
    /// The form of a report that is it.
    pub form: Form,
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
        form: Form::Proto,
        is_read: true,
    },
    Format {
        name: "gperftools",
        endings: &[".prof"],
        words: "CPU profile for old tools: addresses alone; perl's pprof may drop what all stacks share",
        write: legacy::write,
        form: Form::Legacy,
        is_read: true,
    },
    Format {
        name: "folded",
        endings: &[".folded", ".collapsed"],
        words: "a line for each stack, for flame graph tools",
        write: folded::write,
        form: Form::Folded,
        is_read: true,
    },
    Format {
        name: "flame",
        endings: &[".svg", ".flame.svg"],
        words: "a flame graph that a browser zooms and searches",
        write: svg::write,
        form: Form::Svg,
        is_read: false,
    },
    Format {
        name: "speedscope",
        endings: &[".speedscope.json"],
        words: "for speedscope.app, a profile for each thread",
        write: speedscope::write,
        form: Form::Speedscope,
        is_read: false,
    },
    Format {
        name: "firefox",
        endings: &[".firefox.json"],
        words: "for profiler.firefox.com, threads side by side",
        write: firefox::write,
        form: Form::Firefox,
        is_read: false,
    },
    Format {
        name: "callgrind",
        endings: &[".callgrind"],
        words: "for KCachegrind",
        write: |out, saved, value| printed(out, saved, value, Form::Callgrind),
        form: Form::Callgrind,
        is_read: false,
    },
    Format {
        name: "dot",
        endings: &[".dot", ".gv"],
        words: "a graph for graphviz",
        write: |out, saved, value| printed(out, saved, value, Form::Dot),
        form: Form::Dot,
        is_read: false,
    },
    Format {
        name: "text",
        endings: &[".txt"],
        words: "pprof's table",
        write: |out, saved, value| printed(out, saved, value, Form::Top),
        form: Form::Top,
        is_read: false,
    },
];

/// As a report prints it that nobody gave options.
fn printed(out: &mut dyn Write, saved: &Saved, value: usize, form: Form) -> io::Result<()> {
    let options =
        Options { form, sample_index: value.to_string(), zone: jiff::tz::TimeZone::system(), ..Options::default() };
    report::report(out, saved.clone(), &options).map(drop).map_err(|error| match error {
        report::ReportError::Write(error) => error,
        report::ReportError::Asked(why) => io::Error::other(why),
    })
}

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
    read_with_remarks(from, &mut Vec::new())
}

/// The same; sentences, without their subject, on what was skipped go to `remarks`.
///
/// # Errors
/// What is wrong with it.
pub fn read_with_remarks(from: impl Read, remarks: &mut Vec<String>) -> Result<Saved, ReadError> {
    const LOOKED_AT: usize = 4096;
    const MAX_LOOKED_AT: usize = 1 << 20;
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let mut feed = Feed::open(from)?;
    if feed.want(LOOKED_AT)?.starts_with(BYTE_ORDER_MARK) {
        feed.pass(BYTE_ORDER_MARK.len());
    }
    let mut looked_at = LOOKED_AT;
    let seen = loop {
        let seen = feed.want(looked_at)?;
        // What a header stands before has to be seen too.
        if seen.len() < looked_at || looked_at >= MAX_LOOKED_AT || !is_header(&seen[..looked_at]) {
            break &feed.seen()[..feed.seen().len().min(looked_at)];
        }
        looked_at *= 4;
    };
    if seen.is_empty() {
        return Err(ReadError::malformed("empty input file"));
    }
    if legacy::is_legacy(seen) {
        return legacy::read(&mut feed);
    }
    if let Some(encoding) = utf_16(seen) {
        return Err(ReadError::Utf16(encoding));
    }
    if is_text(seen) {
        let text = String::from_utf8_lossy(seen).into_owned();
        return if perf::is_perf(&text) { perf::read(&mut feed) } else { folded::read(&mut feed, remarks) };
    }
    pprof::read_fed(&mut feed)
}

/// Whether there are comments and hardly more: a first line of what they stand before may be cut.
fn is_header(seen: &[u8]) -> bool {
    let is_comment = |line: &[u8]| line.first().is_none_or(|&byte| byte == b'#' || byte == b'\r');
    let mut lines = seen.split(|&byte| byte == b'\n').skip_while(|line| is_comment(line));
    // The sample and its first frame.
    seen.starts_with(b"#") && lines.nth(2).is_none()
}

fn is_text(seen: &[u8]) -> bool {
    seen.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\n' | b'\r' | b'\t'))
}

/// The encoding of a text in UTF-16: it says so, or its first letters are ASCII's.
fn utf_16(seen: &[u8]) -> Option<&'static str> {
    const LETTERS: usize = 8;
    let (pairs, _) = seen.as_chunks::<2>();
    let letters = &pairs[..pairs.len().min(LETTERS)];
    let is_ascii = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    // What repeats one pair is no text.
    let is_text = letters.len() == LETTERS && letters.iter().any(|pair| *pair != letters[0]);
    let all = |is: &dyn Fn(&[u8; 2]) -> bool| is_text && letters.iter().all(is);
    match seen {
        [0xff, 0xfe, ..] => Some("UTF-16LE"),
        [0xfe, 0xff, ..] => Some("UTF-16BE"),
        _ if all(&|pair| is_ascii(pair[0]) && pair[1] == 0) => Some("UTF-16LE"),
        _ if all(&|pair| pair[0] == 0 && is_ascii(pair[1])) => Some("UTF-16BE"),
        _ => None,
    }
}
