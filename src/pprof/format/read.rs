//! Reads a profile in any supported format. The first bytes of the input select the reader; file
//! names are not consulted.

use std::io::Read;

use super::input::ProfileInput;
use super::{folded, gperftools, perf_script, proto};
use crate::pprof::error::ReadError;
use crate::pprof::profile::SavedProfile;

/// Number of bytes that usually suffice to detect the format.
const PROBE_BYTES: usize = 4096;
/// Maximum number of bytes to search for the first line after a header of comments, or after
/// warnings and lines of a log.
const MAX_PROBE_BYTES: usize = 1 << 20;
const UTF8_BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a profile.
///
/// # Errors
/// If the format is unknown or the input is malformed.
pub fn read(from: impl Read) -> Result<SavedProfile, ReadError> {
    read_with_warnings(from, &mut Vec::new())
}

/// Reads a profile and appends a message to `warnings` for what was skipped. A message does not
/// name the file; the caller puts that in front. The profile's texts are safe to print.
///
/// # Errors
/// If the format is unknown or the input is malformed.
pub fn read_with_warnings(from: impl Read, warnings: &mut Vec<String>) -> Result<SavedProfile, ReadError> {
    let mut profile = read_as_it_is(from, warnings)?;
    profile.sanitize();
    Ok(profile)
}

fn read_as_it_is(from: impl Read, warnings: &mut Vec<String>) -> Result<SavedProfile, ReadError> {
    let mut input = ProfileInput::open(from)?;
    if input.fill_to(PROBE_BYTES)?.starts_with(UTF8_BYTE_ORDER_MARK) {
        input.consume(UTF8_BYTE_ORDER_MARK.len());
    }
    let mut probe_bytes = PROBE_BYTES;
    let probe = loop {
        let probe = input.fill_to(probe_bytes)?;
        // The probe must extend beyond a header of comments and include the first sample.
        if probe.len() < probe_bytes || probe_bytes >= MAX_PROBE_BYTES || !is_header(&probe[..probe_bytes]) {
            break &input.buffered()[..input.buffered().len().min(probe_bytes)];
        }
        probe_bytes *= 4;
    };
    if probe.is_empty() {
        return Err(ReadError::malformed("empty input file"));
    }
    if gperftools::is_gperftools(probe) {
        return gperftools::read(&mut input);
    }
    if let Some(encoding) = utf_16_encoding(probe) {
        return Err(ReadError::Utf16(encoding));
    }
    if is_text(probe) {
        let text = String::from_utf8_lossy(probe).into_owned();
        return read_text(&mut input, text, warnings);
    }
    proto::read_input(&mut input)
}

/// Reads a profile that is text and starts with `start`.
fn read_text(input: &mut ProfileInput, start: String, warnings: &mut Vec<String>) -> Result<SavedProfile, ReadError> {
    if gperftools::has_counts(&start) {
        return gperftools::read_counts(input);
    }
    if !gperftools::is_heap(&start)
        && let Some(remedy) = old_text_remedy(&start)
    {
        return Err(ReadError::OldText { remedy });
    }
    let (mut text, mut probe_bytes) = (start, PROBE_BYTES);
    let profile = loop {
        if gperftools::has_heap(&text) {
            break gperftools::read_heap(input)?;
        }
        if let Some(ahead) = perf_script::find_start(&text) {
            break perf_script::read(input, ahead)?;
        }
        // Warnings and lines of a log may be ahead.
        if input.buffered().len() < probe_bytes || probe_bytes >= MAX_PROBE_BYTES {
            return folded::read(input, warnings);
        }
        probe_bytes *= 4;
        let probe = input.fill_to(probe_bytes)?;
        text = String::from_utf8_lossy(&probe[..probe.len().min(probe_bytes)]).into_owned();
    };
    // These readers count in comments what they skip.
    warnings.extend(profile.comments.iter().map(|comment| comment.as_str().to_owned()));
    Ok(profile)
}

/// Whether the probe holds comments and less than two complete lines after them.
fn is_header(probe: &[u8]) -> bool {
    let is_comment = |line: &[u8]| line.first().is_none_or(|&byte| byte == b'#' || byte == b'\r');
    let mut lines = probe.split(|&byte| byte == b'\n').skip_while(|line| is_comment(line));
    // A sample, its first frame, and the possibly cut line after them.
    probe.starts_with(b"#") && lines.nth(2).is_none()
}

fn is_text(probe: &[u8]) -> bool {
    probe.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\n' | b'\r' | b'\t'))
}

/// The command that converts a profile in another text format of gperftools or Go, recognised by
/// its first line. Some of its lines would pass for folded stacks.
fn old_text_remedy(text: &str) -> Option<&'static str> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let is_section = line.strip_prefix("--- ").is_some_and(|name| {
        ["contention", "mutex", "heap", "growth", "thread", "Thread", "symbol"].iter().any(|of| name.starts_with(of))
    });
    let is_count = line.split_once(" profile: total ").is_some_and(|(_, count)| count.parse::<u64>().is_ok());
    let is_heap = line.starts_with("heap_v2/") || line.starts_with("heap profile:");
    (is_section || is_count || is_heap).then_some("pprof -proto -output=NEW FILE")
}

/// The encoding of a text in UTF-16, recognised by its byte order mark or by its first characters
/// being ASCII.
fn utf_16_encoding(probe: &[u8]) -> Option<&'static str> {
    const MIN_CHARACTERS: usize = 8;
    let (pairs, _) = probe.as_chunks::<2>();
    let first = &pairs[..pairs.len().min(MIN_CHARACTERS)];
    let is_ascii = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    // One repeated pair is binary data.
    let may_be_text = first.len() == MIN_CHARACTERS && first.iter().any(|pair| *pair != first[0]);
    let all = |is: &dyn Fn(&[u8; 2]) -> bool| may_be_text && first.iter().all(is);
    match probe {
        [0xff, 0xfe, ..] => Some("UTF-16LE"),
        [0xfe, 0xff, ..] => Some("UTF-16BE"),
        _ if all(&|pair| is_ascii(pair[0]) && pair[1] == 0) => Some("UTF-16LE"),
        _ if all(&|pair| pair[0] == 0 && is_ascii(pair[1])) => Some("UTF-16BE"),
        _ => None,
    }
}
