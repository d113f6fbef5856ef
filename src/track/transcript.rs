//! A saved profile as a recording, so that the screen shows it as it shows everything else. What a profile does not say is not made
//! up without a word: times that it has not, values that are no time.
//!
//! Every place of the profile becomes an address of a file, its own where that is known and no other place has it, and its names are
//! recorded along. A sample of the profile that stands for many becomes as many, as long as they are not too many.

use std::collections::{HashMap, HashSet};

use crate::link::record::{About, Encoder, Found, Named, NamedFile, NamedLine};
use crate::link::wire::{
    Arrival, Birth, Clock, Engine, Event, FrameAddress, Hello, MAX_COMM, MAX_PATH, Message, Module, Sample, SourceId,
    Thread,
};
use crate::profile::Marks;
use crate::symbols::clean::clean;
use crate::symbols::demangle::{Name, demangle, plain};
use crate::tally::saved::graph::base;
use crate::tally::saved::{self, Label, LabelValue, Location, Mapping, Saved};
use crate::tally::units::{MILLION, MILLIONTHS, are_alike, scale};

/// What a sample stands for where nothing says it, ns.
const USUAL_NS: u64 = 10_000_000;
/// Samples that are written as many, at most; beyond that each of the profile's is one.
const MAX_SAMPLES: u64 = 2_000_000;
/// Files and processes, at most; what comes then is with the last.
const MAX_FILES: usize = 4096;
const MAX_PROCESSES: usize = 1024;
/// Addresses of each file; from [`MADE_UP`] on they are made up.
const FILE_BYTES: u64 = 1 << 48;
const MADE_UP: u64 = 1 << 46;
/// Programs that are not moved lie below.
const FIXED_BELOW: u64 = 1 << 32;
/// When it begins, ns: later than any duration before it.
const START_NS: u64 = 1 << 60;

const _: () = assert!((MAX_FILES as u64 + 2) * FILE_BYTES < 1 << 62);

/// A recording, and what there is to say of it.
pub(super) struct Transcript {
    pub(super) bytes: Vec<u8>,
    pub(super) remark: Option<String>,
}

/// A kind of value that is a clock's.
struct Measure {
    value: usize,
    clock: Clock,
    /// ns of one.
    ns: f64,
    /// How many samples it stands for.
    count: Option<usize>,
}

impl Measure {
    /// How many samples a sample of the profile stands for.
    fn samples(&self, values: &[i64]) -> u64 {
        self.count.map_or(1, |count| u64::try_from(values[count]).unwrap_or(1).max(1))
    }
}

/// The clock that a kind of value is of.
fn clock(kind: &str) -> Option<Clock> {
    Some(match kind {
        "cpu" | "cpu-clock" | "task-clock" | "prof" => Clock::Prof,
        "wall" | "real" | "delay" => Clock::Real,
        "user" | "virtual" => Clock::Virtual,
        _ => return None,
    })
}

/// The values that can be shown as time, the most wanted first, and what there is to say about them.
fn measures(saved: &Saved) -> Result<(Vec<Measure>, Option<String>), String> {
    let usual = saved.value_index("")?;
    let mut all: Vec<Measure> = Vec::new();
    let order = [usual].into_iter().chain(0..saved.sample_types.len());
    for value in order {
        let of = &saved.sample_types[value];
        let clock = clock(&of.kind).unwrap_or(Clock::Prof);
        if are_alike(&of.unit, "nanoseconds") && all.iter().all(|measure| measure.clock != clock) {
            // Their counts stand before the values, by pprof's custom.
            let count = value.checked_sub(1).filter(|&before| saved.sample_types[before].unit == *"count");
            all.push(Measure { value, clock, ns: scale(1, &of.unit, "ns").0, count });
        }
    }
    if !all.is_empty() {
        return Ok((all, None));
    }
    let of = &saved.sample_types[usual];
    let is_fraction = *of.unit == *MILLIONTHS;
    if *of.unit != *"count" && !is_fraction {
        return Err(format!("has no time to show, but {} in {}: sigtop report prints it", of.kind, of.unit));
    }
    let is_samples = *of.kind == *"samples";
    let (ns, as_much) = if is_samples { (USUAL_NS as f64, "10 ms") } else { (1.0, "1 ns") };
    let remark = format!("it has no times: of {} each one is shown as {as_much}", of.kind);
    let count = (is_samples && !is_fraction).then_some(usual);
    let ns = if is_fraction { ns / MILLION as f64 } else { ns };
    Ok((vec![Measure { value: usual, clock: Clock::Prof, ns, count }], Some(remark)))
}

/// Who a set of labels speaks of.
struct Who {
    process: usize,
    tid: u32,
}

struct Process {
    pid: u32,
    name: String,
    said: bool,
    /// Files that its mappings were said of.
    files: HashSet<u32>,
    /// Threads whose names were said.
    threads: HashSet<u32>,
}

struct Writing<'a> {
    saved: &'a Saved,
    encoder: Encoder,
    marks: Marks,
    files: Vec<NamedFile>,
    /// Of every location: its file, and the file's own address.
    places: Vec<(u32, u64)>,
    processes: Vec<Process>,
    who: Vec<Who>,
}

/// Writes a profile called `name` down.
///
/// # Errors
/// A sentence, without its subject, if the profile has nothing that can be shown as time.
pub(super) fn transcript(saved: &Saved, name: &str) -> Result<Transcript, String> {
    let (measures, remark) = measures(saved)?;
    let program = saved.mappings.first().map_or("", |first| &first.file);
    let program = if program.is_empty() { name } else { program };
    let (processes, who) = people(saved, base(program));
    let period_ns = saved.period_of(measures[0].value).map_or(0.0, |period| period as f64 * measures[0].ns);
    let duration_ns = u64::try_from(saved.duration_ns).unwrap_or(0).min(START_NS / 2);
    let about = About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: base(program).to_owned(),
        host: String::new(),
        names: true,
        launched: false,
        pid: processes.first().map_or(0, |process| process.pid),
        clock: measures[0].clock,
        engine: Engine::Threads,
        period_ns: period_ns as u64,
        started_ns: START_NS,
        started_unix_ns: u64::try_from(saved.time_ns).unwrap_or(0),
        origin: Some(origin(saved)),
    };
    let (files, places) = places(saved);
    let (encoder, marks) = (Encoder::new(&about), Marks::default());
    let mut writing = Writing { saved, encoder, marks, files, places, processes, who };
    let remark = match (remark, saved.samples.times_ns().is_empty()) {
        (None, true) => Some("it does not say when its samples were taken: all have one time".to_owned()),
        (remark, _) => remark,
    };
    writing.samples(&measures, duration_ns);
    let names = writing.names();
    writing.encoder.now(START_NS + duration_ns);
    let end = writing.encoder.end(&names);
    let bytes = writing.encoder.take().into_iter().chain(end).flatten().collect();
    Ok(Transcript { bytes, remark })
}

/// What a period is of, as the profile has it; empty if it does not say.
fn origin(saved: &Saved) -> String {
    let of = &saved.period_type;
    if of.kind.is_empty() { String::new() } else { clean(&format!("{} in {}", of.kind, of.unit)) }
}

fn text<'l>(labels: &'l [Label], key: &str) -> Option<&'l str> {
    labels.iter().find_map(|label| match &label.value {
        LabelValue::Text(text) if *label.key == *key => Some(&**text),
        _ => None,
    })
}

fn number(labels: &[Label], key: &str) -> Option<u32> {
    labels.iter().find_map(|label| match &label.value {
        LabelValue::Number(number, _) if *label.key == *key => u32::try_from(*number).ok(),
        LabelValue::Text(text) if *label.key == *key => text.parse().ok(),
        _ => None,
    })
}

/// Processes, and whom each set of labels means.
fn people(saved: &Saved, program: &str) -> (Vec<Process>, Vec<Who>) {
    let mut known: HashMap<u32, usize> = HashMap::new();
    let mut processes: Vec<Process> = Vec::new();
    let mut who = Vec::new();
    let none: Box<[Label]> = [].into();
    let sets = if saved.labels.is_empty() { std::slice::from_ref(&none) } else { &saved.labels };
    let mut used = vec![false; sets.len()];
    saved.samples.each_packed(|_, _, labels| used[labels as usize] = true);
    for (labels, used) in sets.iter().zip(used) {
        let tid = number(labels, "tid").or(number(labels, "pid")).unwrap_or(1);
        let pid = number(labels, "pid").unwrap_or(if number(labels, "tid").is_some() { tid } else { 1 });
        let full = processes.len() >= MAX_PROCESSES;
        if !used {
            who.push(Who { process: 0, tid });
            continue;
        }
        let process = *known.entry(pid).or_insert_with(|| {
            if !full {
                let name = text(labels, "process").unwrap_or(program).to_owned();
                let (files, threads) = (HashSet::new(), HashSet::new());
                processes.push(Process { pid, name, said: false, files, threads });
            }
            processes.len() - 1
        });
        // The main thread is called as its process is.
        if pid == tid
            && text(labels, "process").is_none()
            && let Some(comm) = text(labels, "thread")
        {
            processes[process].name = comm.to_owned();
        }
        who.push(Who { process, tid });
    }
    (processes, who)
}

/// The files of a profile, and where each location lies in which of them.
fn places(saved: &Saved) -> (Vec<NamedFile>, Vec<(u32, u64)>) {
    let mut files: Vec<NamedFile> = Vec::new();
    let mut known: HashMap<NamedFile, u32> = HashMap::new();
    let mut file = |mapping: Option<&Mapping>| {
        let path = mapping.map_or(&[][..], |mapping| mapping.file.as_bytes());
        let path: Box<[u8]> = path[..path.len().min(MAX_PATH)].into();
        let build_id = mapping.and_then(|mapping| bytes(&mapping.build_id)).unwrap_or_default();
        let file = NamedFile { path, build_id, device: 0, inode: 0 };
        let last = files.len();
        *known.entry(file.clone()).or_insert_with(|| {
            if last < MAX_FILES {
                files.push(file);
            }
            (files.len() - 1) as u32
        })
    };
    let mut taken: HashSet<(u32, u64)> = HashSet::new();
    let mut made_up = MADE_UP;
    let mut place = |location: &Location| {
        let mapping = location.mapping.map(|mapping| &saved.mappings[mapping as usize]);
        let file = file(mapping);
        if let Some(address) = mapping.and_then(|mapping| own_address(mapping, location.address))
            && taken.insert((file, address))
        {
            return (file, address);
        }
        made_up += 16;
        (file, made_up)
    };
    let places = saved.locations.iter().map(&mut place).collect();
    (files, places)
}

/// A file's own address, as far as the mapping tells.
fn own_address(mapping: &Mapping, address: u64) -> Option<u64> {
    let is_inside = (mapping.start..mapping.limit).contains(&address);
    let moved = address.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
    let own = if address < FIXED_BELOW { address } else { moved };
    (is_inside && address > 0 && own < MADE_UP).then_some(own)
}

/// A build id, of hexadecimal digits.
fn bytes(digits: &str) -> Option<Box<[u8]>> {
    let is_short = digits.len() <= 2 * crate::link::wire::MAX_BUILD_ID && digits.is_ascii();
    let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
    pairs.collect::<Option<Box<[u8]>>>().filter(|_| is_short)
}

fn first_address(file: u32) -> u64 {
    (u64::from(file) + 1) * FILE_BYTES
}

impl Writing<'_> {
    fn say(&mut self, process: usize, message: Message, at_ns: u64) {
        let pid = self.processes[process].pid;
        let (source, event) = (SourceId(process as u32), Event::Said(message));
        let arrival = Arrival { source, pid, at_ns, event };
        self.encoder.arrival(&arrival, self.marks.of(&arrival));
    }

    /// Says what comes before a sample of a process.
    fn introduce(&mut self, process: usize, tid: u32, labels: u32, frames: &[u32], at_ns: u64) {
        let Process { pid, said, ref name, .. } = self.processes[process];
        if !said {
            let executable: Box<[u8]> = name.as_bytes()[..name.len().min(MAX_PATH)].into();
            let hello = Hello {
                token: 0,
                pid,
                parent: 0,
                start_ticks: 0,
                monotonic_ns: at_ns,
                cpu_ns: 0,
                birth: Birth::Tick,
                argv: executable.clone(),
                executable,
            };
            self.processes[process].said = true;
            self.say(process, Message::Hello(hello), at_ns);
        }
        if self.processes[process].threads.insert(tid) {
            let comm = self.saved.labels.get(labels as usize).and_then(|labels| text(labels, "thread"));
            let comm = comm.unwrap_or_default().as_bytes();
            let name: Box<[u8]> = comm[..comm.len().min(MAX_COMM)].into();
            self.say(process, Message::Thread(Thread { tid, name }), at_ns);
        }
        for &location in frames {
            let (file, _) = self.places[location as usize];
            if !self.processes[process].files.insert(file) {
                continue;
            }
            let NamedFile { path, build_id, device, inode } = self.files[file as usize].clone();
            let start = first_address(file);
            let (id, end) = (file + 1, start + FILE_BYTES);
            let module = Module { id, generation: 0, start, end, bias: start, device, inode, path, build_id };
            self.say(process, Message::Module(module), at_ns);
        }
    }

    fn samples(&mut self, measures: &[Measure], duration_ns: u64) {
        let saved = self.saved;
        let mut all = 0u64;
        saved.samples.each_packed(|_, values, _| {
            let counts = measures.iter().map(|measure| measure.samples(values));
            all = counts.fold(all, u64::saturating_add);
        });
        let is_many = all > MAX_SAMPLES;
        let times = saved.samples.times_ns();
        if times.is_empty() {
            let at_ns = START_NS + duration_ns;
            return saved.samples.each(|sample| self.sample(sample, measures, is_many, at_ns));
        }
        // They are told in the order of time, so all must be at hand.
        type Timed = (u64, Box<[u32]>, Box<[i64]>, u32);
        let mut all: Vec<Timed> = Vec::with_capacity(times.len());
        saved
            .samples
            .each(|sample| all.push((times[sample.index], sample.stack.into(), sample.values.into(), sample.labels)));
        all.sort_by_key(|(time_ns, ..)| *time_ns);
        let first_ns = all.first().map_or(0, |(time_ns, ..)| *time_ns);
        for (index, (time_ns, stack, values, labels)) in all.iter().enumerate() {
            let at_ns = START_NS + (time_ns - first_ns).min(START_NS / 2);
            self.sample(saved::Sample { index, stack, values, labels: *labels }, measures, is_many, at_ns);
        }
    }

    fn sample(&mut self, sample: saved::Sample<'_>, measures: &[Measure], is_many: bool, at_ns: u64) {
        let saved::Sample { stack, values, labels, .. } = sample;
        let Who { process, tid } = self.who[labels as usize];
        self.introduce(process, tid, labels, stack, at_ns);
        let address = |&location: &u32| {
            let (file, address) = self.places[location as usize];
            FrameAddress::Instruction(first_address(file) + address).pack()
        };
        let frames: Box<[u64]> = stack.iter().map(address).collect();
        for measure in measures {
            // What is below zero is no time.
            let weight_ns = (values[measure.value].max(0) as f64 * measure.ns) as u64;
            let count = if is_many { 1 } else { measure.samples(values) }.min(weight_ns);
            for number in 0..count {
                let sample = Sample {
                    tid,
                    clock: measure.clock,
                    flags: 0,
                    generation: 0,
                    monotonic_ns: at_ns,
                    weight_ns: weight_ns / count + u64::from(number < weight_ns % count),
                    slot: 0,
                };
                self.say(process, Message::Sample(sample, frames.clone()), at_ns);
            }
        }
    }

    /// The names of all places; of those that have none, where they lie, if nobody could find out from their address.
    fn names(&self) -> Vec<Named> {
        let functions: Vec<Name> = self.saved.functions.iter().map(|function| named(&function.name)).collect();
        let mut named: Vec<Named> = self
            .files
            .iter()
            .map(|file| Named { file: file.clone(), found: Found::Lines, addresses: Vec::new() })
            .collect();
        for (location, &(file, address)) in self.saved.locations.iter().zip(&self.places) {
            let outermost = location.lines.len().saturating_sub(1);
            let told = location.lines.iter().enumerate().map(|(place, line)| {
                let Name { full, short, .. } = functions[line.function as usize].clone();
                let file = clean(&self.saved.functions[line.function as usize].file);
                let line = u32::try_from(line.line).unwrap_or(0);
                NamedLine { full, short, file, line, inlined: place < outermost }
            });
            let mut lines: Vec<NamedLine> = told.collect();
            if lines.is_empty() && address >= MADE_UP {
                let object = base(self.saved.object(location));
                let full = match object {
                    "." => format!("{:#x}", location.address),
                    object => clean(&format!("{object}+{:#x}", location.address)),
                };
                lines.push(NamedLine { short: full.clone(), full, file: String::new(), line: 0, inlined: false });
            }
            if !lines.is_empty() {
                named[file as usize].addresses.push((address, lines));
            }
        }
        named
    }
}

fn named(name: &str) -> Name {
    if name.starts_with("_Z") || name.starts_with("_R") {
        demangle(name.as_bytes())
    } else {
        plain(name, name.contains("::"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_files_own_where_they_are_known() {
        let mapping = |start, limit, offset| Mapping { start, limit, offset, ..Mapping::default() };
        let shared = mapping(0x7f00_0000_0000, 0x7f00_0010_0000, 0x2000);
        assert_eq!(own_address(&shared, 0x7f00_0000_1234), Some(0x3234));
        assert_eq!(own_address(&shared, 0x1234), None);
        assert_eq!(own_address(&mapping(0x40_0000, 0x50_0000, 0x1000), 0x40_1234), Some(0x40_1234));
        assert_eq!(bytes("12ab"), Some([0x12, 0xab].into()));
        assert_eq!(bytes("12a"), None);
    }
}
