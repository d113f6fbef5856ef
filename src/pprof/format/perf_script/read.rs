//! Reads samples line by line.
//!
//! The header's fields depend on perf's options: pid, tid or both, CPU, time and period. The value
//! of a sample is its period in the unit of its event: nanoseconds for perf's software clocks, a
//! count for all other events. Without periods, samples are counted. If there are several events,
//! the first is read, with any modifiers. Addresses are relative to a file or absolute, and the
//! text does not say which; they are kept but must not be symbolized. Addresses without a name
//! become one function for each file.

use std::collections::HashMap;

use super::frame::{self, PerfFrame};
use super::header::{self, SampleHeader};
use crate::pprof::error::ReadError;
use crate::pprof::format::input::ProfileInput;
use crate::pprof::path::base;
use crate::pprof::profile::{
    Function, Label, LabelValue, Line, Location, Mapping, SavedProfile, ValueType, without_modifiers,
};
use crate::pprof::samples::Samples;
use crate::tally::text::Text;

/// Maximum number of distinct functions, files, locations and threads, each.
const MAX_DISTINCT: usize = 1 << 22;
/// Maximum number of frames of a sample. Of a deeper stack, the frames next to the leaf are kept.
const MAX_FRAMES: usize = 4096;
/// Events whose period is a time, in nanoseconds.
const CLOCK_EVENTS: [&str; 2] = ["cpu-clock", "task-clock"];

/// The meaning of a line.
enum ScriptLine<'a> {
    Header(SampleHeader<'a>),
    Frame(PerfFrame<'a>),
    Other,
}

fn parse_line(line: &str) -> ScriptLine<'_> {
    let frame = || frame::parse(line);
    match header::parse(line) {
        // A name of a thread may look like an address, but a name of a function has no time and no
        // other frame behind it, and does not end in a colon.
        Some(header) if header.time_ns.is_some() || header.frame.is_some() || line.ends_with(':') => {
            ScriptLine::Header(header)
        }
        Some(header) => frame().map_or(ScriptLine::Header(header), ScriptLine::Frame),
        None => frame().map_or(ScriptLine::Other, ScriptLine::Frame),
    }
}

/// Whether a line says something about the recording. The name of a thread may start with the same
/// character.
fn is_comment(line: &str) -> bool {
    line.starts_with('#') && header::parse(line).is_none_or(|header| header.time_ns.is_none())
}

/// Whether a line below a frame may be its place in the source, or the source itself.
fn is_source(line: &str) -> bool {
    line.starts_with('|') || line.strip_prefix("  ").is_some_and(|place| !place.starts_with(' '))
}

/// Returns the number of lines in front of the first sample in the start of an output of `perf
/// script`. Such lines are warnings. The first sample has a time and an event, or a frame.
pub(in crate::pprof::format) fn find_start(text: &str) -> Option<usize> {
    let is_used = |&(_, line): &(usize, &str)| !line.trim().is_empty() && !is_comment(line);
    let mut lines = text.lines().enumerate().filter(is_used).peekable();
    while let Some((index, line)) = lines.next() {
        let line = line.trim_end();
        let mut is_leaf_next = || lines.peek().is_some_and(|(_, next)| frame::parse_wide(next.trim_end()).is_some());
        if let ScriptLine::Header(header) = parse_line(line) {
            let has_event = header.time_ns.is_some() && !header.event.is_empty();
            let mut has_frame =
                || header.frame.or(lines.peek().and_then(|(_, next)| frame::parse(next.trim_end()))).is_some();
            if has_event || has_frame() {
                return Some(index);
            }
        } else if header::parse_thread_alone(line).is_some() && is_leaf_next() {
            return Some(index);
        }
    }
    None
}

/// Reads a profile whose first sample is behind `ahead` lines.
pub(in crate::pprof::format) fn read(input: &mut ProfileInput, ahead: usize) -> Result<SavedProfile, ReadError> {
    let mut reader = ScriptReader::default();
    let mut line_number = 0;
    // The line before, if it may be a header that has a thread alone.
    let mut thread_alone: Option<String> = None;
    while let Some(line) = input.read_line()? {
        line_number += 1;
        let line = line.trim_end();
        if let Some(before) = thread_alone.take() {
            let header = frame::parse_wide(line).and_then(|_| header::parse_thread_alone(&before));
            match header {
                Some(header) => reader.begin_sample(&header),
                None => reader.skip_line(line_number - 1),
            }
        }
        if line.is_empty() {
            reader.end_sample()?;
            continue;
        }
        if is_comment(line) {
            continue;
        }
        if line_number <= ahead {
            reader.skip_line(line_number);
            continue;
        }
        match parse_line(line) {
            ScriptLine::Header(header) => {
                reader.end_sample()?;
                reader.begin_sample(&header);
            }
            ScriptLine::Frame(frame) if reader.takes_frames() => reader.push_frame(frame),
            // Source locations and lines of source code are not used.
            ScriptLine::Other if reader.open_sample.is_some() && is_source(line) => {}
            _ if reader.open_sample.is_none() && header::parse_thread_alone(line).is_some() => {
                thread_alone = Some(line.to_owned());
            }
            _ => reader.skip_line(line_number),
        }
    }
    if thread_alone.is_some() {
        reader.skip_line(line_number);
    }
    reader.end_sample()?;
    if reader.event.is_none() {
        return Err(ReadError::malformed("no sample of perf script"));
    }
    Ok(reader.finish())
}

#[derive(Default)]
struct ScriptReader {
    profile: SavedProfile,
    /// The event that is read.
    event: Option<Text>,
    /// The number of samples of other events.
    skipped_samples: u64,
    /// The number of lines that are part of no sample, and the first of them.
    skipped_lines: u64,
    first_skipped_line: usize,
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
    /// Whether its only frame is in the line of its header.
    is_one_line: bool,
}

impl ScriptReader {
    fn takes_frames(&self) -> bool {
        self.open_sample.as_ref().is_some_and(|sample| !sample.is_one_line)
    }

    fn skip_line(&mut self, number: usize) {
        self.first_skipped_line = if self.skipped_lines == 0 { number } else { self.first_skipped_line };
        self.skipped_lines += 1;
    }

    fn begin_sample(&mut self, header: &SampleHeader<'_>) {
        let name = without_modifiers(header.event);
        let event = self.event.get_or_insert_with(|| {
            let unit = if CLOCK_EVENTS.contains(&name) { "nanoseconds" } else { "count" };
            self.profile.sample_types = vec![ValueType::new("samples", "count")];
            if let Some(period) = header.period {
                let of = if name.is_empty() { "period" } else { name };
                self.profile.sample_types.push(ValueType::new(of, unit));
                self.profile.period_type = ValueType::new(of, unit);
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
            let comm = Some(header.comm).filter(|comm| !comm.is_empty());
            let comm = comm.map(|comm| label("thread", LabelValue::Text(comm.into())));
            let pid = header.pid.map(|pid| number("pid", pid));
            let labels: Box<[Label]> = comm.into_iter().chain(pid).chain([number("tid", header.tid)]).collect();
            let next = self.profile.labels.len() as u32;
            *self.label_sets.entry(labels).or_insert_with_key(|labels| {
                self.profile.labels.push(labels.clone());
                next
            })
        });
        self.stack.clear();
        self.inlined.clear();
        let period = header.period.unwrap_or(self.profile.period);
        self.open_sample =
            Some(OpenSample { labels, period, time_ns: header.time_ns, is_one_line: header.frame.is_some() });
        if let Some(frame) = header.frame {
            self.push_frame(frame);
        }
    }

    fn push_frame(&mut self, PerfFrame { address, name, file }: PerfFrame<'_>) {
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
        let Some(OpenSample { labels, period, time_ns, .. }) = self.open_sample.take() else { return Ok(()) };
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
        if self.skipped_lines > 0 {
            let (count, first) = (self.skipped_lines, self.first_skipped_line);
            let comment = format!("{count} lines that are no samples were skipped, the first is line {first}");
            self.profile.comments.push(comment.into());
        }
        self.profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SavedProfile, ReadError> {
        super::read(&mut ProfileInput::open(text.as_bytes())?, find_start(text).unwrap_or(0))
    }

    #[test]
    fn samples_have_stacks_threads_and_times() {
        let text = "# captured\nsh 7/9 1.25: 4 cycles:u:\n\t4a f+0x1 (inlined)\n\t4a g (x)+0x2 (/bin/a)\n\t9 [unknown] (/bin/a)\n\n\
                    sh 7/9 1.75: 1 faults:\n\t1 z (/bin/a)\n\nsh 7/9 2.25: 6 cycles:u:   4a main (/bin/a)\n";
        assert_eq!(find_start(text), Some(1));
        let profile = read(text).unwrap();
        profile.check().unwrap();
        assert_eq!(profile.sample_types[1], ValueType::new("cycles", "count"));
        assert_eq!((profile.samples.len(), profile.duration_ns), (2, 1_000_000_000));
        assert_eq!(profile.samples.times_ns(), [1_250_000_000, 2_250_000_000]);
        let names: Vec<&str> = profile.functions.iter().map(|function| &*function.name).collect();
        assert_eq!(names, ["f", "g (x)", "[a]", "main"]);
        assert_eq!((profile.locations[0].lines.len(), profile.locations[1].lines.len()), (2, 1));
        assert!(profile.comments[0].contains("1 samples of events other than cycles "), "{:?}", profile.comments);
        assert!(read("what is this\n").is_err());
    }

    /// The number of samples and the comments of a profile.
    fn count(text: &str) -> (usize, Vec<String>) {
        let profile = read(text).unwrap();
        profile.check().unwrap();
        (profile.samples.len(), profile.comments.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_header_ends_the_sample_before_it() {
        for text in [
            "sh 9 1.5: 3 cycles:\n\t4a f (/a)\nsh 9 2.5: 3 cycles:\n\t4a f (/a)\n\t4b g (/a)\n",
            "cafe  9255 1.5: cycles:\n\t4a f (/a)\ncafe  9255 2.5: cycles:\n\t4a f (/a)\n",
            "cafe  9255 cycles:\n\t4a f (/a)\ncafe  9255 cycles:\n\t4a f (/a)\n",
            "a (b)  9255 cycles: \n\t4a f (/a)\na (b)  9255 cycles: \n\t4a f (/a)\n",
            "cafe 0  9255 cycles:      55d1367d2180 f (/a)\ncafe 0  9255 cycles:      55d1367d2180 f (/a)\n",
            "sh 9 1.5:      55d1367d2180 f (/a)\nsh 9 1.5:      55d1367d2180 f (/a)\n",
            "#1 9 1.5:      55d1367d2180 f (/a)\n#1 9 1.5:      55d1367d2180 f (/a)\n",
        ] {
            assert_eq!(count(text), (2, vec![]), "{text}");
        }
    }

    /// Regression test: output without time and event (`-F comm,pid,ip,sym`) was of no known format.
    #[test]
    fn a_header_may_have_a_thread_alone() {
        for text in [
            "sh 9 \n\t              4a f\n\nsh 9 \n\t              4a f\n\t              4b g\n\n",
            "cafe 1 9/9 [003] \n\t    7f1367d2180a f (/a)\n\ncafe 1 9/9 [003] \n\tffff55d1367d2180 f (/a)\n",
            "     cafe  9255 \n\t    55d1367d2180 f\n\n     cafe  9255 \n\t    55d1367d2180 f\n\n",
        ] {
            assert_eq!((find_start(text), count(text)), (Some(0), (2, vec![])), "{text}");
        }
        let text = "lost 12\nsh 9 \n\t              4a f\n\nlost 12\n";
        let skipped = "2 lines that are no samples were skipped, the first is line 1";
        assert_eq!((find_start(text), count(text)), (Some(1), (1, vec![skipped.to_owned()])));
        assert_eq!(find_start("main;a 12\nmain;b 9\nmain 4\n"), None, "folded stacks");
    }

    #[test]
    fn other_lines_are_skipped_and_counted() {
        let sample = "sh 9 1.5: 3 cycles:\n\t4a f (/a)\n  a.c:7\n\n";
        let text = format!("# one\nWarning:\nworker 12 start:\n\n{sample}\n4b g (/a)\n{sample}addr2line failed\n");
        let skipped = "4 lines that are no samples were skipped, the first is line 2";
        assert_eq!(count(&text), (2, vec![skipped.to_owned()]));
        let text =
            format!("{sample}sh 9 1.5: PERF_RECORD_EXIT(9:9):(8:8)\nsh 9 1.5: 3 cycles:\nwarning\n\t4a f (/a)\n");
        assert_eq!(count(&text), (2, vec![skipped.replace("4 l", "2 l").replace("line 2", "line 5")]));
    }
}
