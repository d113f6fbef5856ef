//! What `perf script` prints, read back: a line for each sample, then its frames, leaf first, then an empty line.
//!
//! ```text
//! sh 30907 13507.567529:   10101010 cpu-clock:
//!             16d855 __memmove_avx512_unaligned_erms+0x55 (/usr/lib/libc.so.6)
//!               ae77 [unknown] (/usr/bin/dash)
//! ```
//!
//! perf prints what it was asked for: pid and tid or one of them, the CPU or not, time and period
//! or not. The value of a sample is its period, in the unit of its event: nanoseconds for perf's
//! software clocks, a count for all others. Without periods the samples are counted. Of several
//! events the first is read, whatever its modifiers. Addresses are a file's or a process's, which
//! nothing tells; they are kept, and nobody should look them up. Those that perf has no name for
//! are one function for each file.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::error::ReadError;
use super::feed::Feed;
use crate::tally::saved::graph::base;
use crate::tally::saved::{Function, Label, LabelValue, Line, Location, Mapping, Samples, Saved, ValueType};
use crate::tally::text::Text;

/// Distinct frames, files and threads in one file, at most.
const MAX_DISTINCT: usize = 1 << 22;
/// Frames of one sample, at most; of a deeper stack the leaf's side is kept.
const MAX_FRAMES: usize = 4096;
/// Events whose period is a time.
const CLOCKS: [&str; 2] = ["cpu-clock", "task-clock"];

/// The line that begins a sample.
struct Head<'a> {
    comm: &'a str,
    pid: Option<i64>,
    tid: i64,
    time_ns: Option<u64>,
    period: Option<i64>,
    event: &'a str,
    /// A sample without a stack has its only frame behind it.
    rest: &'a str,
}

fn head(line: &str) -> Option<Head<'_>> {
    static HEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let who = r"^\s*(\S.*?)\s+(-?\d+)(?:/(-?\d+))?(?:\s+\[\d+\])?(?:\s+[A-Za-z.]{4,5})??";
        Regex::new(&format!(r"{who}(?:\s+(\d+)\.(\d{{1,9}}):)?\s+(?:(\d+)\s+)?(\S+):(?:\s(.*))?$")).ok()
    });
    let found = HEAD.as_ref()?.captures(line)?;
    let text = |index: usize| found.get(index).map(|part| part.as_str());
    let first: i64 = text(2)?.parse().ok()?;
    let second = text(3).and_then(|tid| tid.parse().ok());
    let time_ns = text(4).zip(text(5)).and_then(|(seconds, part)| {
        let part_ns = part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32);
        seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part_ns)
    });
    Some(Head {
        comm: text(1)?,
        pid: second.map(|_| first),
        tid: second.unwrap_or(first),
        time_ns,
        period: text(6).and_then(|period| period.parse().ok()),
        event: text(7)?,
        rest: text(8).unwrap_or_default(),
    })
}

/// Address, name and file of a frame.
fn frame(line: &str) -> Option<(u64, &str, &str)> {
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

/// Whether a text begins as perf prints it: with a sample that says its time or has a frame.
pub(super) fn is_perf(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).skip_while(|line| line.trim().is_empty());
    let Some(head) = lines.next().and_then(head) else { return false };
    head.time_ns.is_some() || frame(head.rest).or(lines.next().and_then(frame)).is_some()
}

/// An event without its modifiers (`cycles:u`, `cpu_core/cycles/u`). Of a tracepoint the part
/// behind the colon is its name.
fn without_modifiers(event: &str) -> &str {
    let is_modifiers = |text: &str| text.bytes().all(|byte| b"ukhGHpPSDIWeb".contains(&byte));
    match event.rsplit_once([':', '/']) {
        Some((bare, modifiers)) if is_modifiers(modifiers) => bare,
        _ => event,
    }
}

/// Reads it.
pub(super) fn read(feed: &mut Feed) -> Result<Saved, ReadError> {
    let mut reader = Reader::default();
    let mut number = 0u64;
    while let Some(line) = feed.line()? {
        number += 1;
        let line = line.trim_end();
        if line.starts_with('#') {
            continue;
        }
        if line.is_empty() {
            reader.end_sample()?;
        } else if reader.under_way.is_none() {
            let wrong = || ReadError::malformed(format!("line {number} is no sample as perf script prints one"));
            reader.begin(&head(line).ok_or_else(wrong)?);
        } else if let Some(frame) = frame(line) {
            reader.frame(frame);
        }
        // What else stands among frames is where they are in the source; their functions are enough.
    }
    reader.end_sample()?;
    Ok(reader.whole())
}

#[derive(Default)]
struct Reader {
    saved: Saved,
    event: Option<Text>,
    others: u64,
    functions: HashMap<Text, u32>,
    files: HashMap<Text, u32>,
    places: HashMap<(u64, Option<u32>, Vec<u32>), u32>,
    sets: HashMap<Box<[Label]>, u32>,
    under_way: Option<UnderWay>,
    stack: Vec<u32>,
    /// Functions inlined into the next frame.
    inlined: Vec<u32>,
    /// When each sample was taken, where perf printed it.
    times_ns: Vec<Option<u64>>,
}

struct UnderWay {
    /// None if it is not of the event that is read.
    set: Option<u32>,
    period: i64,
    time_ns: Option<u64>,
}

impl Reader {
    fn begin(&mut self, head: &Head<'_>) {
        let own = without_modifiers(head.event);
        let event = self.event.get_or_insert_with(|| {
            let unit = if CLOCKS.contains(&own) { "nanoseconds" } else { "count" };
            self.saved.sample_types = vec![ValueType::new("samples", "count")];
            if let Some(period) = head.period {
                self.saved.sample_types.push(ValueType::new(own, unit));
                self.saved.period_type = ValueType::new(own, unit);
                self.saved.period = period;
            }
            self.saved.samples = Samples::of_width(self.saved.sample_types.len());
            self.saved.labels = vec![[].into()];
            self.sets.insert([].into(), 0);
            // Reports are named after the first file: no frame says which is the program's own.
            self.saved.mappings = vec![Mapping { id: 1, file: head.comm.into(), ..Mapping::default() }];
            own.into()
        });
        let is_read = **event == *own;
        self.others += u64::from(!is_read);
        let set = is_read.then(|| {
            let label = |key: &str, value| Label { key: key.into(), value };
            let number = |key: &str, number| label(key, LabelValue::Number(number, Text::default()));
            let comm = label("thread", LabelValue::Text(head.comm.into()));
            let pid = head.pid.map(|pid| number("pid", pid));
            let labels: Box<[Label]> = [comm].into_iter().chain(pid).chain([number("tid", head.tid)]).collect();
            let next = self.saved.labels.len() as u32;
            *self.sets.entry(labels).or_insert_with_key(|labels| {
                self.saved.labels.push(labels.clone());
                next
            })
        });
        self.stack.clear();
        self.inlined.clear();
        let period = head.period.unwrap_or(self.saved.period);
        self.under_way = Some(UnderWay { set, period, time_ns: head.time_ns });
        if let Some(only) = frame(head.rest) {
            self.frame(only);
        }
    }

    fn frame(&mut self, (address, name, file): (u64, &str, &str)) {
        if self.stack.len() >= MAX_FRAMES || self.under_way.as_ref().is_none_or(|sample| sample.set.is_none()) {
            return;
        }
        let is_named = name != "[unknown]" && !name.is_empty();
        let unknown = || match file {
            "" | "[unknown]" => "[unknown]".to_owned(),
            file => format!("[{}]", base(file)),
        };
        let function = (is_named || file != "inlined").then(|| {
            let name = if is_named { name.into() } else { Text::from(unknown().as_str()) };
            let next = self.saved.functions.len() as u32;
            *self.functions.entry(name).or_insert_with_key(|name| {
                let (name, system_name) = (name.clone(), name.clone());
                self.saved.functions.push(Function { name, system_name, ..Function::default() });
                next
            })
        });
        if file == "inlined" {
            self.inlined.extend(function.filter(|_| self.inlined.len() < MAX_FRAMES));
            return;
        }
        let mapping = (file != "[unknown]" && !file.is_empty()).then(|| {
            let next = self.saved.mappings.len() as u32;
            *self.files.entry(file.into()).or_insert_with_key(|file| {
                let (id, file) = (u64::from(next) + 1, file.clone());
                self.saved.mappings.push(Mapping { id, file, has_functions: true, ..Mapping::default() });
                next
            })
        });
        let functions: Vec<u32> = self.inlined.drain(..).chain(function).collect();
        let next = self.saved.locations.len() as u32;
        let place = *self.places.entry((address, mapping, functions)).or_insert_with_key(|(_, _, functions)| {
            let lines = functions.iter().map(|&function| Line { function, line: 0, column: 0 }).collect();
            let id = u64::from(next) + 1;
            self.saved.locations.push(Location { id, mapping, address, lines, folded: false });
            next
        });
        self.stack.push(place);
    }

    fn end_sample(&mut self) -> Result<(), ReadError> {
        let Some(UnderWay { set, period, time_ns }) = self.under_way.take() else { return Ok(()) };
        if let Some(set) = set {
            let width = self.saved.samples.width();
            self.saved.samples.push(&self.stack, &[1, period][..width], set);
            self.times_ns.push(time_ns);
        }
        let most = [self.functions.len(), self.files.len(), self.places.len(), self.sets.len()];
        match most.into_iter().any(|count| count > MAX_DISTINCT) {
            true => Err(ReadError::malformed(format!("more than {MAX_DISTINCT} distinct frames or threads"))),
            false => Ok(()),
        }
    }

    fn whole(mut self) -> Saved {
        let known = || self.times_ns.iter().copied().flatten();
        if let Some((first_ns, last_ns)) = known().min().zip(known().max()) {
            self.saved.duration_ns = i64::try_from(last_ns - first_ns).unwrap_or(i64::MAX);
            // A sample that has no time was taken with the one before it.
            let mut before_ns = known().next().unwrap_or(first_ns);
            let times = self.times_ns.iter().map(|time_ns| {
                before_ns = time_ns.unwrap_or(before_ns);
                before_ns
            });
            self.saved.samples.set_times_ns(times.collect());
        }
        if self.others > 0 {
            let event = self.event.unwrap_or_default();
            self.saved
                .comments
                .push(format!("{} samples of events other than {event} are left out", self.others).into());
        }
        self.saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Saved, ReadError> {
        super::read(&mut Feed::open(text.as_bytes())?)
    }

    #[test]
    fn lines_of_many_shapes_begin_a_sample() {
        let told = |line: &str| {
            let head = head(line).unwrap_or_else(|| panic!("{line}"));
            (head.comm.to_owned(), head.pid, head.tid, head.time_ns, head.period, head.event.to_owned())
        };
        let sh = |pid, time_ns, period, event: &str| ("sh".to_owned(), pid, 309, time_ns, period, event.to_owned());
        let time_ns = Some(13_507_567_529_000);
        assert_eq!(
            told("sh 309 13507.567529:   10101010 cpu-clock: "),
            sh(None, time_ns, Some(10_101_010), "cpu-clock")
        );
        assert_eq!(told("   sh   7/309  [003] 13507.567529: cycles:u:"), sh(Some(7), time_ns, None, "cycles:u"));
        assert_eq!(told("sh 309 [000] d.h.. 13507.567529:  3 cycles:"), sh(None, time_ns, Some(3), "cycles"));
        assert_eq!(told("sh 309 cycles:").3, None);
        let (comm, ..) = told("Web Content  12/13 1.5: sched:sched_switch: prev_comm=a prev_pid=2");
        assert_eq!(comm, "Web Content");
        assert!(head("main;a;b 12").is_none() && head("no sample").is_none());
    }

    #[test]
    fn samples_have_stacks_threads_and_times() {
        let text = "# captured\nsh 7/9 1.25: 4 cycles:u:\n\t4a f+0x1 (inlined)\n\t4a g (x)+0x2 (/bin/a)\n\t9 [unknown] (/bin/a)\n\n\
                    sh 7/9 1.75: 1 faults:\n\t1 z (/bin/a)\n\nsh 7/9 2.25: 6 cycles:u:   4a main (/bin/a)\n";
        assert!(is_perf(text));
        let saved = read(text).unwrap();
        saved.check().unwrap();
        assert_eq!(saved.sample_types[1], ValueType::new("cycles", "count"));
        assert_eq!((saved.samples.len(), saved.duration_ns), (2, 1_000_000_000));
        assert_eq!(saved.samples.times_ns(), [1_250_000_000, 2_250_000_000]);
        let names: Vec<&str> = saved.functions.iter().map(|function| &*function.name).collect();
        assert_eq!(names, ["f", "g (x)", "[a]", "main"]);
        assert_eq!((saved.locations[0].lines.len(), saved.locations[1].lines.len()), (2, 1));
        assert!(saved.comments[0].contains("1 samples of events other than cycles "), "{:?}", saved.comments);
        assert!(read("sh 1 1.2: 3 cycles:\n\nwhat is this\n").is_err());
    }
}
