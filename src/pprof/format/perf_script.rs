//! Reads the output of `perf script`: for each sample a header line, its frames with the leaf
//! first, and an empty line.
//!
//! ```text
//! sh 30907 13507.567529:   10101010 cpu-clock:
//!             16d855 __memmove_avx512_unaligned_erms+0x55 (/usr/lib/libc.so.6)
//!               ae77 [unknown] (/usr/bin/dash)
//! ```
//!
//! The header's fields depend on perf's options: pid, tid or both, CPU, time and period. The value
//! of a sample is its period in the unit of its event: nanoseconds for perf's software clocks, a
//! count for all other events. Without periods, samples are counted. If there are several events,
//! the first is read, with any modifiers. Addresses are relative to a file or absolute, and the
//! text does not say which; they are kept but must not be symbolized. Addresses without a name
//! become one function for each file.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::input::ProfileInput;
use crate::pprof::error::ReadError;
use crate::pprof::path::base;
use crate::pprof::profile::{Function, Label, LabelValue, Line, Location, Mapping, SavedProfile, ValueType};
use crate::pprof::samples::Samples;
use crate::tally::text::Text;

/// Maximum number of distinct functions, files, locations and threads, each.
const MAX_DISTINCT: usize = 1 << 22;
/// Maximum number of frames of a sample. Of a deeper stack, the frames next to the leaf are kept.
const MAX_FRAMES: usize = 4096;
/// Events whose period is a time, in nanoseconds.
const CLOCK_EVENTS: [&str; 2] = ["cpu-clock", "task-clock"];

/// The first line of a sample.
struct SampleHeader<'a> {
    comm: &'a str,
    pid: Option<i64>,
    tid: i64,
    time_ns: Option<u64>,
    period: Option<i64>,
    event: &'a str,
    /// The text after the event: the only frame of a sample without a stack.
    rest: &'a str,
}

fn parse_header(line: &str) -> Option<SampleHeader<'_>> {
    static HEADER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let thread = r"^\s*(\S.*?)\s+(-?\d+)(?:/(-?\d+))?(?:\s+\[\d+\])?(?:\s+[A-Za-z.]{4,5})??";
        Regex::new(&format!(r"{thread}(?:\s+(\d+)\.(\d{{1,9}}):)?\s+(?:(\d+)\s+)?(\S+):(?:\s(.*))?$")).ok()
    });
    let captures = HEADER.as_ref()?.captures(line)?;
    let text = |index: usize| captures.get(index).map(|group| group.as_str());
    let first: i64 = text(2)?.parse().ok()?;
    let second = text(3).and_then(|tid| tid.parse().ok());
    let time_ns = text(4).zip(text(5)).and_then(|(seconds, fraction)| {
        let fraction_ns = fraction.parse::<u64>().ok()? * 10u64.pow(9 - fraction.len() as u32);
        seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
    });
    Some(SampleHeader {
        comm: text(1)?,
        pid: second.map(|_| first),
        tid: second.unwrap_or(first),
        time_ns,
        period: text(6).and_then(|period| period.parse().ok()),
        event: text(7)?,
        rest: text(8).unwrap_or_default(),
    })
}

/// Parses a frame line into address, name and file.
fn parse_frame(line: &str) -> Option<(u64, &str, &str)> {
    let (address, rest) = line.trim().split_once(char::is_whitespace)?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (name, file) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        Some((name, file)) => (name.trim(), file),
        None => (rest.trim(), ""),
    };
    let is_offset = |offset: &str| !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = name.rsplit_once("+0x").filter(|(_, offset)| is_offset(offset)).map_or(name, |(name, _)| name);
    Some((address, name, file))
}

/// Whether a text is output of `perf script`: it starts with a sample that has a time or a frame.
pub(super) fn is_perf_script(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).skip_while(|line| line.trim().is_empty());
    let Some(header) = lines.next().and_then(parse_header) else { return false };
    header.time_ns.is_some() || parse_frame(header.rest).or(lines.next().and_then(parse_frame)).is_some()
}

/// An event without its modifiers (`cycles:u`, `cpu_core/cycles/u`). The part of a tracepoint after
/// the colon is its name and not a modifier.
fn strip_modifiers(event: &str) -> &str {
    let is_modifiers = |text: &str| text.bytes().all(|byte| b"ukhGHpPSDIWeb".contains(&byte));
    match event.rsplit_once([':', '/']) {
        Some((bare, modifiers)) if is_modifiers(modifiers) => bare,
        _ => event,
    }
}

/// Reads a profile.
pub(super) fn read(input: &mut ProfileInput) -> Result<SavedProfile, ReadError> {
    let mut reader = ScriptReader::default();
    let mut line_number = 0u64;
    while let Some(line) = input.read_line()? {
        line_number += 1;
        let line = line.trim_end();
        if line.starts_with('#') {
            continue;
        }
        if line.is_empty() {
            reader.end_sample()?;
        } else if reader.open_sample.is_none() {
            let invalid = || ReadError::malformed(format!("line {line_number} is not a sample of perf script"));
            reader.begin_sample(&parse_header(line).ok_or_else(invalid)?);
        } else if let Some(frame) = parse_frame(line) {
            reader.push_frame(frame);
        }
        // Other lines between frames are source locations and are not used.
    }
    reader.end_sample()?;
    Ok(reader.finish())
}

#[derive(Default)]
struct ScriptReader {
    profile: SavedProfile,
    /// The event that is read.
    event: Option<Text>,
    /// The number of samples of other events.
    skipped_samples: u64,
    functions: HashMap<Text, u32>,
    files: HashMap<Text, u32>,
    locations: HashMap<(u64, Option<u32>, Vec<u32>), u32>,
    label_sets: HashMap<Box<[Label]>, u32>,
    open_sample: Option<OpenSample>,
    stack: Vec<u32>,
    /// The functions inlined into the next frame.
    inlined: Vec<u32>,
    /// The time of each sample, if perf printed it.
    times_ns: Vec<Option<u64>>,
}

/// The sample whose frames are being read.
struct OpenSample {
    /// Its label set; `None` if it belongs to another event.
    labels: Option<u32>,
    period: i64,
    time_ns: Option<u64>,
}

impl ScriptReader {
    fn begin_sample(&mut self, header: &SampleHeader<'_>) {
        let name = strip_modifiers(header.event);
        let event = self.event.get_or_insert_with(|| {
            let unit = if CLOCK_EVENTS.contains(&name) { "nanoseconds" } else { "count" };
            self.profile.sample_types = vec![ValueType::new("samples", "count")];
            if let Some(period) = header.period {
                self.profile.sample_types.push(ValueType::new(name, unit));
                self.profile.period_type = ValueType::new(name, unit);
                self.profile.period = period;
            }
            self.profile.samples = Samples::with_width(self.profile.sample_types.len());
            self.profile.labels = vec![[].into()];
            self.label_sets.insert([].into(), 0);
            // Reports are named after the first mapping, and perf does not say which file is the
            // program.
            self.profile.mappings = vec![Mapping { id: 1, file: header.comm.into(), ..Mapping::default() }];
            name.into()
        });
        let is_read = **event == *name;
        self.skipped_samples += u64::from(!is_read);
        let labels = is_read.then(|| {
            let label = |key: &str, value| Label { key: key.into(), value };
            let number = |key: &str, number| label(key, LabelValue::Number(number, Text::default()));
            let comm = label("thread", LabelValue::Text(header.comm.into()));
            let pid = header.pid.map(|pid| number("pid", pid));
            let labels: Box<[Label]> = [comm].into_iter().chain(pid).chain([number("tid", header.tid)]).collect();
            let next = self.profile.labels.len() as u32;
            *self.label_sets.entry(labels).or_insert_with_key(|labels| {
                self.profile.labels.push(labels.clone());
                next
            })
        });
        self.stack.clear();
        self.inlined.clear();
        let period = header.period.unwrap_or(self.profile.period);
        self.open_sample = Some(OpenSample { labels, period, time_ns: header.time_ns });
        if let Some(frame) = parse_frame(header.rest) {
            self.push_frame(frame);
        }
    }

    fn push_frame(&mut self, (address, name, file): (u64, &str, &str)) {
        if self.stack.len() >= MAX_FRAMES || self.open_sample.as_ref().is_none_or(|sample| sample.labels.is_none()) {
            return;
        }
        let is_named = name != "[unknown]" && !name.is_empty();
        let unknown = || match file {
            "" | "[unknown]" => "[unknown]".to_owned(),
            file => format!("[{}]", base(file)),
        };
        let function = (is_named || file != "inlined").then(|| {
            let name = if is_named { name.into() } else { Text::from(unknown().as_str()) };
            let next = self.profile.functions.len() as u32;
            *self.functions.entry(name).or_insert_with_key(|name| {
                let (name, system_name) = (name.clone(), name.clone());
                self.profile.functions.push(Function { name, system_name, ..Function::default() });
                next
            })
        });
        if file == "inlined" {
            self.inlined.extend(function.filter(|_| self.inlined.len() < MAX_FRAMES));
            return;
        }
        let mapping = (file != "[unknown]" && !file.is_empty()).then(|| {
            let next = self.profile.mappings.len() as u32;
            *self.files.entry(file.into()).or_insert_with_key(|file| {
                let (id, file) = (u64::from(next) + 1, file.clone());
                self.profile.mappings.push(Mapping { id, file, has_functions: true, ..Mapping::default() });
                next
            })
        });
        let functions: Vec<u32> = self.inlined.drain(..).chain(function).collect();
        let next = self.profile.locations.len() as u32;
        let location = *self.locations.entry((address, mapping, functions)).or_insert_with_key(|(_, _, functions)| {
            let lines = functions.iter().map(|&function| Line { function, line: 0, column: 0 }).collect();
            let id = u64::from(next) + 1;
            self.profile.locations.push(Location { id, mapping, address, lines, folded: false });
            next
        });
        self.stack.push(location);
    }

    fn end_sample(&mut self) -> Result<(), ReadError> {
        let Some(OpenSample { labels, period, time_ns }) = self.open_sample.take() else { return Ok(()) };
        if let Some(labels) = labels {
            let width = self.profile.samples.width();
            self.profile.samples.push(&self.stack, &[1, period][..width], labels);
            self.times_ns.push(time_ns);
        }
        let counts = [self.functions.len(), self.files.len(), self.locations.len(), self.label_sets.len()];
        match counts.into_iter().any(|count| count > MAX_DISTINCT) {
            true => Err(ReadError::malformed(format!("more than {MAX_DISTINCT} distinct frames or threads"))),
            false => Ok(()),
        }
    }

    fn finish(mut self) -> SavedProfile {
        let known = || self.times_ns.iter().copied().flatten();
        if let Some((first_ns, last_ns)) = known().min().zip(known().max()) {
            self.profile.duration_ns = i64::try_from(last_ns - first_ns).unwrap_or(i64::MAX);
            // A sample without a time gets that of the sample before it.
            let mut before_ns = known().next().unwrap_or(first_ns);
            let times = self.times_ns.iter().map(|time_ns| {
                before_ns = time_ns.unwrap_or(before_ns);
                before_ns
            });
            self.profile.samples.set_times_ns(times.collect());
        }
        if self.skipped_samples > 0 {
            let event = self.event.unwrap_or_default();
            self.profile
                .comments
                .push(format!("{} samples of events other than {event} were skipped", self.skipped_samples).into());
        }
        self.profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SavedProfile, ReadError> {
        super::read(&mut ProfileInput::open(text.as_bytes())?)
    }

    #[test]
    fn headers_with_any_set_of_fields_are_parsed() {
        let fields = |line: &str| {
            let header = parse_header(line).unwrap_or_else(|| panic!("{line}"));
            (header.comm.to_owned(), header.pid, header.tid, header.time_ns, header.period, header.event.to_owned())
        };
        let sh = |pid, time_ns, period, event: &str| ("sh".to_owned(), pid, 309, time_ns, period, event.to_owned());
        let time_ns = Some(13_507_567_529_000);
        assert_eq!(
            fields("sh 309 13507.567529:   10101010 cpu-clock: "),
            sh(None, time_ns, Some(10_101_010), "cpu-clock")
        );
        assert_eq!(fields("   sh   7/309  [003] 13507.567529: cycles:u:"), sh(Some(7), time_ns, None, "cycles:u"));
        assert_eq!(fields("sh 309 [000] d.h.. 13507.567529:  3 cycles:"), sh(None, time_ns, Some(3), "cycles"));
        assert_eq!(fields("sh 309 cycles:").3, None);
        let (comm, ..) = fields("Web Content  12/13 1.5: sched:sched_switch: prev_comm=a prev_pid=2");
        assert_eq!(comm, "Web Content");
        assert!(parse_header("main;a;b 12").is_none() && parse_header("no sample").is_none());
    }

    #[test]
    fn samples_have_stacks_threads_and_times() {
        let text = "# captured\nsh 7/9 1.25: 4 cycles:u:\n\t4a f+0x1 (inlined)\n\t4a g (x)+0x2 (/bin/a)\n\t9 [unknown] (/bin/a)\n\n\
                    sh 7/9 1.75: 1 faults:\n\t1 z (/bin/a)\n\nsh 7/9 2.25: 6 cycles:u:   4a main (/bin/a)\n";
        assert!(is_perf_script(text));
        let profile = read(text).unwrap();
        profile.check().unwrap();
        assert_eq!(profile.sample_types[1], ValueType::new("cycles", "count"));
        assert_eq!((profile.samples.len(), profile.duration_ns), (2, 1_000_000_000));
        assert_eq!(profile.samples.times_ns(), [1_250_000_000, 2_250_000_000]);
        let names: Vec<&str> = profile.functions.iter().map(|function| &*function.name).collect();
        assert_eq!(names, ["f", "g (x)", "[a]", "main"]);
        assert_eq!((profile.locations[0].lines.len(), profile.locations[1].lines.len()), (2, 1));
        assert!(profile.comments[0].contains("1 samples of events other than cycles "), "{:?}", profile.comments);
        assert!(read("sh 1 1.2: 3 cycles:\n\nwhat is this\n").is_err());
    }
}
