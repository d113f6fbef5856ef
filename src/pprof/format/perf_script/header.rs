//! Headers: the fields in front of the stack of a sample.
//!
//! perf prints the fields that it was asked for in the same order always. The name of a thread may
//! have spaces, numbers and colons, so the time is sought first, or else the event, and what stands
//! before it is parsed from its end.

use super::frame::{ADDRESS_WIDTH, PerfFrame, first_word, parse_behind, parse_start};

/// Maximum length of the name of a thread, in bytes. That of a worker of the kernel is up to 63.
const MAX_COMM: usize = 63;
/// Maximum number of colons that are tried as the end of a time or an event.
const MAX_COLONS: usize = 12;
/// The widths of perf's columns of pids and periods.
const PID_WIDTH: usize = 5;
const PERIOD_WIDTH: usize = 10;

/// The first line of a sample.
#[derive(Debug)]
pub(super) struct SampleHeader<'a> {
    /// The name of the thread; empty if perf did not print it.
    pub(super) comm: &'a str,
    pub(super) pid: Option<i64>,
    pub(super) tid: i64,
    pub(super) time_ns: Option<u64>,
    pub(super) period: Option<i64>,
    /// The event; empty if perf did not print it.
    pub(super) event: &'a str,
    /// The only frame of a sample without a call chain.
    pub(super) frame: Option<PerfFrame<'a>>,
}

/// Parses a header with any set of fields that has a time or an event.
pub(super) fn parse(line: &str) -> Option<SampleHeader<'_>> {
    let is_end = |at: usize| line[at + 1..].chars().next().is_none_or(char::is_whitespace);
    let colons = || line.match_indices(':').map(|(at, _)| at).filter(|&at| is_end(at)).take(MAX_COLONS);
    let split = |at: usize| (&line[..at], &line[at + 1..]);
    let timed = colons().map(split).find_map(|(before, behind)| parse_timed(before, behind));
    timed.or_else(|| colons().map(split).find_map(|(before, behind)| parse_untimed(before, behind)))
}

/// Parses a header with neither a time nor an event: `sh 9/9 [003]`. Other lines end in a number, too:
/// the next line tells, which has the leaf of its stack.
pub(super) fn parse_thread_alone(line: &str) -> Option<SampleHeader<'_>> {
    let (comm, pid, tid) = parse_thread(line).filter(|(comm, ..)| !comm.is_empty())?;
    Some(SampleHeader { comm, pid, tid, time_ns: None, period: None, event: "", frame: None })
}

/// Parses a header with a time, which ends `before`.
fn parse_timed<'a>(before: &'a str, behind: &'a str) -> Option<SampleHeader<'a>> {
    let (before, time) = split_last_word(before)?;
    let time_ns = Some(parse_time(time)?);
    let (comm, pid, tid) = parse_thread(before)?;
    let header = SampleHeader { comm, pid, tid, time_ns, period: None, event: "", frame: None };
    if behind.trim().is_empty() {
        return Some(header);
    }
    if let Some((event, rest)) = split_event(behind) {
        return Some(SampleHeader { event, frame: parse_behind(rest), ..header });
    }
    let number = first_word(behind).filter(|word| word.width < ADDRESS_WIDTH);
    if let Some(number) = number
        && let Some(period) = parse_period(number.text)
    {
        let header = SampleHeader { period: Some(period), ..header };
        if let Some((event, rest)) = split_event(number.rest) {
            return Some(SampleHeader { event, frame: parse_behind(rest), ..header });
        }
        let frame = parse_start(number.rest);
        if frame.is_some() || number.rest.trim().is_empty() {
            return Some(SampleHeader { frame, ..header });
        }
    }
    // Other lines with a thread and a time are no samples: `sh 9 1.5: PERF_RECORD_FORK(9:9):(8:8)`.
    Some(SampleHeader { frame: Some(parse_start(behind)?), ..header })
}

/// Parses a header without a time, but with an event, which ends `before`.
fn parse_untimed<'a>(before: &'a str, behind: &'a str) -> Option<SampleHeader<'a>> {
    let (mut fields, word) = split_last_word(before)?;
    let mut event = word;
    if word.starts_with("0x")
        && let Some((before_raw, "raw")) = split_last_word(fields)
    {
        (fields, event) = (before_raw, &before[before_raw.len()..]);
    }
    let with_period = || {
        let (thread, number) = split_last_word(fields)?;
        let padding = (thread.len() - thread.trim_end().len()).saturating_sub(1);
        // A number that is as wide as a pid is one, behind the name of a thread that ends in a
        // number. A narrow one has lost its column.
        let is_pid = (PID_WIDTH..PERIOD_WIDTH).contains(&(padding + number.len()));
        let period = parse_period(number).filter(|_| !is_pid)?;
        Some((parse_thread(thread).filter(|(comm, ..)| !comm.is_empty())?, Some(period)))
    };
    let ((comm, pid, tid), period) = with_period().or_else(|| Some((parse_thread(fields)?, None)))?;
    let frame = parse_behind(behind);
    // Only a tracepoint has other text behind it; `Processed 12 events: done` is no sample.
    if comm.is_empty() || frame.is_none() && !behind.trim().is_empty() && !event.contains(':') {
        return None;
    }
    Some(SampleHeader { comm, pid, tid, time_ns: None, period, event, frame })
}

/// Splits off the last word. What is before it keeps its spaces.
fn split_last_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    let (before, word) = text.split_at(text.trim_end_matches(|letter: char| !letter.is_whitespace()).len());
    (!word.is_empty()).then_some((before, word))
}

/// Parses the name of a thread, its pid or tid or both, and, if they are there, the CPU and flags:
/// `Web Content  12/13 [003] d.h..`.
fn parse_thread(text: &str) -> Option<(&str, Option<i64>, i64)> {
    let (mut before, mut word) = split_last_word(text)?;
    let is_flags = |letter: u8| letter.is_ascii_alphabetic() || letter == b'.';
    if word.len() <= 6 && word.bytes().all(is_flags) {
        (before, word) = split_last_word(before)?;
    }
    if word.starts_with('[') && word.ends_with(']') {
        (before, word) = split_last_word(before)?;
    }
    let (pid, tid) = match word.split_once('/') {
        Some((pid, tid)) => (Some(pid.parse().ok()?), tid),
        None => (None, word),
    };
    let comm = Some(before.trim()).filter(|comm| comm.len() <= MAX_COMM)?;
    Some((comm, pid, tid.parse().ok()?))
}

/// Parses seconds with a fraction into nanoseconds.
fn parse_time(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.split_once('.')?;
    let is_time = is_digits(seconds) && is_digits(fraction) && fraction.len() <= 9;
    let unit_ns = is_time.then(|| 10u64.pow(9 - fraction.len() as u32))?;
    let fraction_ns = fraction.parse::<u64>().ok()? * unit_ns;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

fn parse_period(word: &str) -> Option<i64> {
    is_digits(word).then(|| word.parse().ok())?
}

fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits the event off the start of a text. Events without a name are called `raw 0x1a8`.
fn split_event(text: &str) -> Option<(&str, &str)> {
    let first = first_word(text)?;
    let mut rest = first.rest;
    if first.text == "raw" {
        rest = first_word(rest).filter(|word| word.text.starts_with("0x"))?.rest;
    }
    let event = text[..text.len() - rest.len()].trim_start().strip_suffix(':')?;
    (!event.is_empty() && !event.starts_with("PERF_RECORD_")).then_some((event, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields<'a> = (&'a str, Option<i64>, i64, Option<u64>, Option<i64>, &'a str);

    fn fields(line: &str) -> Fields<'_> {
        let header = parse(line).unwrap_or_else(|| panic!("{line}"));
        (header.comm, header.pid, header.tid, header.time_ns, header.period, header.event)
    }

    #[test]
    fn headers_with_any_set_of_fields_are_parsed() {
        let sh = |pid, time_ns, period, event| ("sh", pid, 309, time_ns, period, event);
        let time_ns = Some(13_507_567_529_000);
        for (line, expected) in [
            ("sh 309 13507.567529:   10101010 cpu-clock: ", sh(None, time_ns, Some(10_101_010), "cpu-clock")),
            ("   sh   7/309  [003] 13507.567529: cycles:u:", sh(Some(7), time_ns, None, "cycles:u")),
            ("sh 309 [000] d.h.. 13507.567529:  3 cycles:", sh(None, time_ns, Some(3), "cycles")),
            ("sh 309 [000] K     13507.567529:  3 cycles:", sh(None, time_ns, Some(3), "cycles")),
            ("sh   309 cycles:", sh(None, None, None, "cycles")),
            ("sh 309 3 cycles:", sh(None, None, Some(3), "cycles")),
            ("sh   309    2004008 cycles: ", sh(None, None, Some(2_004_008), "cycles")),
            ("sh     7/309   raw 0x1a8: ", sh(Some(7), None, None, "raw 0x1a8")),
            ("sh   309 13507.567529:          3 raw 0x1a8: ", sh(None, time_ns, Some(3), "raw 0x1a8")),
            ("sh   309 13507.567529: ", sh(None, time_ns, None, "")),
            ("sh   309 13507.567529:    2004008 ", sh(None, time_ns, Some(2_004_008), "")),
            ("  309 13507.567529: cycles: ", ("", None, 309, time_ns, None, "cycles")),
        ] {
            assert_eq!(fields(line), expected, "{line}");
        }
        let (comm, .., event) = fields("Web Content  12/13 1.5: sched:sched_switch: prev_comm=a prev_pid=2");
        assert_eq!((comm, event), ("Web Content", "sched:sched_switch"));
    }

    #[test]
    fn names_of_threads_may_have_numbers_and_colons() {
        for name in ["Job.Worker 0", "pool: 3", "a (b) 7/8", "x 1 2.0: y", "cafe", "12", "x 1 y:"] {
            for (fields_behind, period) in [("6302.8: 2004008 cpu-clock: ", Some(2_004_008)), ("6302.8: cycles:", None)]
            {
                let line = format!("{name}  9255 {fields_behind}");
                let header = parse(&line).unwrap();
                assert_eq!((header.comm, header.pid, header.tid, header.period), (name, None, 9255, period), "{line}");
            }
            for (fields_behind, period) in [("   2004008 cpu-clock: ", Some(2_004_008)), ("cycles: ", None)] {
                let line = format!("{name}  9255 {fields_behind}");
                let header = parse(&line).unwrap();
                assert_eq!((header.comm, header.pid, header.tid, header.period), (name, None, 9255, period), "{line}");
            }
        }
        let header = parse("    Job.Worker 0  9253/9255   6302.844218:      55d1367d2179 leaf (/tmp/busy)").unwrap();
        assert_eq!((header.comm, header.pid, header.tid), ("Job.Worker 0", Some(9253), 9255));
    }

    #[test]
    fn samples_without_a_call_chain_have_one_frame() {
        for line in [
            "sh 309 1.5:    2004008 cpu-clock:      55d1367d2180 leaf+0x17 (/tmp/busy)",
            "sh 309 1.5:      55d1367d2180 leaf+0x17 (/tmp/busy)",
            "sh 309 1.5:    2004008      55d1367d2180 leaf+0x17 (/tmp/busy)",
            "sh   309    2004008 cpu-clock:      55d1367d2180 leaf (/tmp/busy)",
            "sh   309 cpu-clock:      55d1367d2180 leaf (/tmp/busy)",
        ] {
            let frame = PerfFrame { address: 0x55d1_367d_2180, name: "leaf", file: "/tmp/busy" };
            assert_eq!(parse(line).unwrap().frame, Some(frame), "{line}");
        }
        // An address of digits alone is no period.
        let header = parse("sh 309 1.5:            401136 add (/tmp/busy)").unwrap();
        assert_eq!((header.period, header.frame.unwrap().address), (None, 0x40_1136));
    }

    #[test]
    fn other_lines_are_no_headers() {
        for line in [
            "main;a;b 12",
            "no sample",
            "Processed 12 events: and lost 3 chunks!",
            "[ perf record: Woken up 1 times to write data ]",
            "busy  9253  6302.837950: PERF_RECORD_COMM exec: busy:9253/9253",
            "busy  9253  6302.837950: PERF_RECORD_COMM: busy:9253/9253",
            "busy  9253  6302.837950: PERF_RECORD_MMAP2 9253/9253: [0x55(0x10) @ 0x10 fe:00 9 3]: r-xp /tmp/busy",
            "sh 309 1.5: done",
            "sh 309 1.5: add user",
            "sh 309 1.1234567890: 3 cycles and: more",
            "sh 9999999999999999999 1.5: cycles:",
            ":",
            "",
        ] {
            assert!(parse(line).is_none(), "{line}");
        }
        // Many colons take no more time than few.
        assert!(parse(&"é 1 2.0: ".repeat(100_000)).is_none());
        assert!(parse(&"1 x: ".repeat(100_000)).is_none());
    }
}
