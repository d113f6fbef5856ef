//! Converts a saved profile to a recording, so that the screen can show it. If the profile lacks
//! times, or has values that are not times, a remark says what is shown instead.
//!
//! Every location of the profile becomes an address in a file: its own if that is known and unique,
//! otherwise an invented one. Its symbols are recorded, too. An aggregated sample becomes as many
//! samples as it stands for, up to a limit.

use std::collections::{HashMap, HashSet};

use crate::link::recording::{Encoder, FileSymbols, RecordedFile, RecordedFunction, RecordingInfo, SymbolStatus};
use crate::pprof::path::base;
use crate::pprof::profile::{Label, LabelValue, Location, Mapping, SavedProfile};
use crate::pprof::samples as saved;
use crate::pprof::units::{MILLION, MILLIONTHS, are_compatible, scale};
use crate::symbols::demangle::{Name, NameLanguage, demangle, plain};
use crate::symbols::sanitize::sanitize;
use crate::wire::{
    Arrival, Clock, ConnectionEvent, Engine, FrameAddress, Hello, MAX_COMM, MAX_PATH, Message, Module, Sample,
    SourceId, SpawnCause, Thread,
};

/// Time that a sample stands for if the profile does not say it, ns.
const DEFAULT_SAMPLE_NS: u64 = 10_000_000;
/// Maximum number of samples. If there are more, each aggregated sample becomes one.
const MAX_SAMPLES: u64 = 2_000_000;
/// Maximum number of files and processes. Further ones are added to the last.
const MAX_FILES: usize = 4096;
const MAX_PROCESSES: usize = 1024;
/// Number of addresses of each file. Those from [`INVENTED`] on are invented.
const FILE_BYTES: u64 = 1 << 48;
const INVENTED: u64 = 1 << 46;
/// Programs that are not relocated have addresses below this one.
const FIXED_BELOW: u64 = 1 << 32;
/// Start time of the recording, ns. It is later than any duration.
const START_NS: u64 = 1 << 60;

const _: () = assert!((MAX_FILES as u64 + 2) * FILE_BYTES < 1 << 62);

/// A recording, and a remark for the user.
pub(super) struct ImportedRecording {
    pub(super) bytes: Vec<u8>,
    pub(super) remark: Option<String>,
}

/// A value of the profile that is shown as the time of a clock.
struct TimeValue {
    value: usize,
    clock: Clock,
    /// Nanoseconds per unit.
    ns: f64,
    /// The value that counts samples, if there is one.
    count: Option<usize>,
}

impl TimeValue {
    /// Number of samples that an aggregated sample stands for.
    fn samples(&self, values: &[i64]) -> u64 {
        self.count.map_or(1, |count| u64::try_from(values[count]).unwrap_or(1).max(1))
    }
}

/// The clock of a value type.
fn clock(kind: &str) -> Option<Clock> {
    Some(match kind {
        "cpu" | "cpu-clock" | "task-clock" | "prof" => Clock::Prof,
        "wall" | "real" | "delay" => Clock::Real,
        "user" | "virtual" => Clock::Virtual,
        _ => return None,
    })
}

/// Returns the values that can be shown as time, the default one first, and a remark for the user.
fn time_values(saved: &SavedProfile) -> Result<(Vec<TimeValue>, Option<String>), String> {
    let usual = saved.value_index("")?;
    let mut all: Vec<TimeValue> = Vec::new();
    let order = [usual].into_iter().chain(0..saved.sample_types.len());
    for value in order {
        let of = &saved.sample_types[value];
        let clock = clock(&of.kind).unwrap_or(Clock::Prof);
        if are_compatible(&of.unit, "nanoseconds") && all.iter().all(|time_value| time_value.clock != clock) {
            // By pprof's convention, the count of samples precedes their time.
            let count = value.checked_sub(1).filter(|&before| saved.sample_types[before].unit == *"count");
            all.push(TimeValue { value, clock, ns: scale(1, &of.unit, "ns").0, count });
        }
    }
    if !all.is_empty() {
        return Ok((all, None));
    }
    let of = &saved.sample_types[usual];
    let is_fraction = *of.unit == *MILLIONTHS;
    if *of.unit != *"count" && !is_fraction {
        let values = sanitize(&format!("{} in {}", of.kind, of.unit));
        return Err(format!("has no time to show, but {values}: sigtop report prints it"));
    }
    // The two counts of folded stacks are of samples, too.
    let is_samples = ["samples", "before", "after"].contains(&of.kind.as_str());
    let (ns, as_much) = if is_samples { (DEFAULT_SAMPLE_NS as f64, "10 ms") } else { (1.0, "1 ns") };
    let remark = format!("it has no times: of {} each one is shown as {as_much}", of.kind);
    let count = (is_samples && !is_fraction).then_some(usual);
    let ns = if is_fraction { ns / MILLION as f64 } else { ns };
    Ok((vec![TimeValue { value: usual, clock: Clock::Prof, ns, count }], Some(remark)))
}

/// The thread that a set of labels belongs to.
struct LabelOwner {
    process: usize,
    tid: u32,
}

struct ImportedProcess {
    pid: u32,
    name: String,
    said: bool,
    /// Files whose mappings were written.
    files: HashSet<u32>,
    /// Threads whose names were written.
    threads: HashSet<u32>,
}

struct Importer<'a> {
    saved: &'a SavedProfile,
    encoder: Encoder,
    files: Vec<RecordedFile>,
    /// The file of every location, and the address in the file.
    places: Vec<(u32, u64)>,
    processes: Vec<ImportedProcess>,
    who: Vec<LabelOwner>,
}

/// Converts a profile called `name`. Its files are distinguished from those of other profiles by
/// `number`.
///
/// # Errors
/// If the profile has no values that can be shown as time: a sentence without its subject.
pub(super) fn import(saved: &SavedProfile, name: &str, number: u32) -> Result<ImportedRecording, String> {
    let (time_values, remark) = time_values(saved)?;
    let program = saved.mappings.first().map_or("", |first| &first.file);
    let program = if program.is_empty() { name } else { program };
    let (processes, who) = label_owners(saved, base(program));
    let period_ns = saved.period_of(time_values[0].value).map_or(0.0, |period| period as f64 * time_values[0].ns);
    let duration_ns = u64::try_from(saved.duration_ns).unwrap_or(0).min(START_NS / 2);
    let about = RecordingInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: base(program).to_owned(),
        host: String::new(),
        names: true,
        launched: false,
        pid: processes.first().map_or(0, |process| process.pid),
        clock: time_values[0].clock,
        engine: Engine::Threads,
        period_ns: period_ns as u64,
        started_ns: START_NS,
        started_unix_ns: u64::try_from(saved.time_ns).unwrap_or(0),
        origin: Some(origin(saved)),
        kernel: String::new(),
    };
    let (files, places) = locations(saved, number);
    let encoder = Encoder::new(&about);
    let mut importer = Importer { saved, encoder, files, places, processes, who };
    let remark = match (remark, saved.samples.times_ns().is_empty()) {
        (None, true) => Some("it does not say when its samples were taken: all have one time".to_owned()),
        (remark, _) => remark,
    };
    importer.samples(&time_values, duration_ns);
    let names = importer.names();
    importer.encoder.write_time(START_NS + duration_ns);
    let end = importer.encoder.finish(&names);
    let bytes = importer.encoder.take_blocks().into_iter().chain(end).flatten().collect();
    Ok(ImportedRecording { bytes, remark })
}

/// The type and unit of the profile's period, or nothing if it does not say.
fn origin(saved: &SavedProfile) -> String {
    let of = &saved.period_type;
    if of.kind.is_empty() { String::new() } else { sanitize(&format!("{} in {}", of.kind, of.unit)) }
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

/// Returns the processes, and the thread of each set of labels.
fn label_owners(saved: &SavedProfile, program: &str) -> (Vec<ImportedProcess>, Vec<LabelOwner>) {
    let mut known: HashMap<u32, usize> = HashMap::new();
    let mut processes: Vec<ImportedProcess> = Vec::new();
    let mut who = Vec::new();
    let none: Box<[Label]> = [].into();
    let sets = if saved.labels.is_empty() { std::slice::from_ref(&none) } else { &saved.labels };
    let mut used = vec![false; sets.len()];
    saved.samples.for_each_packed(|_, _, labels| used[labels as usize] = true);
    for (labels, used) in sets.iter().zip(used) {
        let tid = number(labels, "tid").or(number(labels, "pid")).unwrap_or(1);
        let pid = number(labels, "pid").unwrap_or(if number(labels, "tid").is_some() { tid } else { 1 });
        let full = processes.len() >= MAX_PROCESSES;
        if !used {
            who.push(LabelOwner { process: 0, tid });
            continue;
        }
        let process = *known.entry(pid).or_insert_with(|| {
            if !full {
                let name = text(labels, "process").unwrap_or(program).to_owned();
                let (files, threads) = (HashSet::new(), HashSet::new());
                processes.push(ImportedProcess { pid, name, said: false, files, threads });
            }
            processes.len() - 1
        });
        // The main thread has the name of its process.
        if pid == tid
            && text(labels, "process").is_none()
            && let Some(comm) = text(labels, "thread")
        {
            processes[process].name = comm.to_owned();
        }
        who.push(LabelOwner { process, tid });
    }
    (processes, who)
}

/// Returns the files of a profile, and the file and address of each location.
fn locations(saved: &SavedProfile, number: u32) -> (Vec<RecordedFile>, Vec<(u32, u64)>) {
    let mut files: Vec<RecordedFile> = Vec::new();
    let mut known: HashMap<RecordedFile, u32> = HashMap::new();
    let mut file = |mapping: Option<&Mapping>| {
        let path = mapping.map_or(&[][..], |mapping| mapping.file.as_bytes());
        let path: Box<[u8]> = path[..path.len().min(MAX_PATH)].into();
        let build_id = mapping.and_then(|mapping| bytes(&mapping.build_id)).unwrap_or_default();
        let file = RecordedFile { path, build_id, device: number.into(), inode: 0 };
        let last = files.len();
        *known.entry(file.clone()).or_insert_with(|| {
            if last < MAX_FILES {
                files.push(file);
            }
            (files.len() - 1) as u32
        })
    };
    let mut taken: HashSet<(u32, u64)> = HashSet::new();
    let mut invented = INVENTED;
    let mut place = |location: &Location| {
        let mapping = location.mapping.map(|mapping| &saved.mappings[mapping as usize]);
        let file = file(mapping);
        if let Some(address) = mapping.and_then(|mapping| own_address(mapping, location.address))
            && taken.insert((file, address))
        {
            return (file, address);
        }
        invented += 16;
        (file, invented)
    };
    let places = saved.locations.iter().map(&mut place).collect();
    (files, places)
}

/// The address in the file, if the mapping is known.
fn own_address(mapping: &Mapping, address: u64) -> Option<u64> {
    let is_inside = (mapping.start..mapping.limit).contains(&address);
    let moved = address.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
    let own = if address < FIXED_BELOW { address } else { moved };
    (is_inside && address > 0 && own < INVENTED).then_some(own)
}

/// Parses the hexadecimal digits of a build id.
fn bytes(digits: &str) -> Option<Box<[u8]>> {
    let is_short = digits.len() <= 2 * crate::wire::MAX_BUILD_ID && digits.is_ascii();
    let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
    pairs.collect::<Option<Box<[u8]>>>().filter(|_| is_short)
}

fn first_address(file: u32) -> u64 {
    (u64::from(file) + 1) * FILE_BYTES
}

impl Importer<'_> {
    fn write_message(&mut self, process: usize, message: Message, at_ns: u64) {
        let pid = self.processes[process].pid;
        let (source, event) = (SourceId(process as u32), ConnectionEvent::Received(message));
        let arrival = Arrival { source, pid, at_ns, event };
        self.encoder.write_event(&arrival);
    }

    /// Writes the process, thread and module messages that must precede a sample.
    fn introduce(&mut self, process: usize, tid: u32, labels: u32, frames: &[u32], at_ns: u64) {
        let ImportedProcess { pid, said, ref name, .. } = self.processes[process];
        if !said {
            let executable: Box<[u8]> = name.as_bytes()[..name.len().min(MAX_PATH)].into();
            let hello = Hello {
                token: 0,
                pid,
                parent: 0,
                start_ticks: 0,
                monotonic_ns: at_ns,
                cpu_ns: 0,
                spawn_cause: SpawnCause::Tick,
                argv: executable.clone(),
                executable,
            };
            self.processes[process].said = true;
            self.write_message(process, Message::Hello(hello), at_ns);
        }
        if self.processes[process].threads.insert(tid) {
            let comm = self.saved.labels.get(labels as usize).and_then(|labels| text(labels, "thread"));
            let comm = comm.unwrap_or_default().as_bytes();
            let name: Box<[u8]> = comm[..comm.len().min(MAX_COMM)].into();
            self.write_message(process, Message::Thread(Thread { tid, name }), at_ns);
        }
        for &location in frames {
            let (file, _) = self.places[location as usize];
            if !self.processes[process].files.insert(file) {
                continue;
            }
            let RecordedFile { path, build_id, device, inode } = self.files[file as usize].clone();
            let start = first_address(file);
            let (id, end) = (file + 1, start + FILE_BYTES);
            let module = Module { id, generation: 0, start, end, bias: start, device, inode, path, build_id };
            self.write_message(process, Message::Module(module), at_ns);
        }
    }

    fn samples(&mut self, time_values: &[TimeValue], duration_ns: u64) {
        let saved = self.saved;
        let mut all = 0u64;
        saved.samples.for_each_packed(|_, values, _| {
            let counts = time_values.iter().map(|time_value| time_value.samples(values));
            all = counts.fold(all, u64::saturating_add);
        });
        let is_many = all > MAX_SAMPLES;
        let times = saved.samples.times_ns();
        if times.is_empty() {
            let at_ns = START_NS + duration_ns;
            return saved.samples.for_each(|sample| self.sample(sample, time_values, is_many, at_ns));
        }
        // Samples are written in order of time, so all are collected first.
        type Timed = (u64, Box<[u32]>, Box<[i64]>, u32);
        let mut all: Vec<Timed> = Vec::with_capacity(times.len());
        saved.samples.for_each(|sample| {
            all.push((times[sample.index], sample.stack.into(), sample.values.into(), sample.labels))
        });
        all.sort_by_key(|(time_ns, ..)| *time_ns);
        let first_ns = all.first().map_or(0, |(time_ns, ..)| *time_ns);
        for (index, (time_ns, stack, values, labels)) in all.iter().enumerate() {
            let at_ns = START_NS + (time_ns - first_ns).min(START_NS / 2);
            self.sample(saved::Sample { index, stack, values, labels: *labels }, time_values, is_many, at_ns);
        }
    }

    fn sample(&mut self, sample: saved::Sample<'_>, time_values: &[TimeValue], is_many: bool, at_ns: u64) {
        let saved::Sample { stack, values, labels, .. } = sample;
        let LabelOwner { process, tid } = self.who[labels as usize];
        self.introduce(process, tid, labels, stack, at_ns);
        let address = |&location: &u32| {
            let (file, address) = self.places[location as usize];
            FrameAddress::Instruction(first_address(file) + address).pack()
        };
        let frames: Box<[u64]> = stack.iter().map(address).collect();
        for time_value in time_values {
            // A negative value is not a time.
            let weight_ns = (values[time_value.value].max(0) as f64 * time_value.ns) as u64;
            let count = if is_many { 1 } else { time_value.samples(values) }.min(weight_ns);
            for number in 0..count {
                let sample = Sample {
                    tid,
                    clock: time_value.clock,
                    flags: 0,
                    generation: 0,
                    monotonic_ns: at_ns,
                    weight_ns: weight_ns / count + u64::from(number < weight_ns % count),
                    allocation: Default::default(),
                    age_ms: 0,
                    slot: 0,
                };
                self.write_message(process, Message::Sample(sample, frames.clone()), at_ns);
            }
        }
    }

    /// The symbols of all locations. A location without symbols and without an address of its own
    /// is named after its module and address.
    fn names(&self) -> Vec<FileSymbols> {
        let functions: Vec<Name> = self.saved.functions.iter().map(|function| named(&function.name)).collect();
        let mut named: Vec<FileSymbols> = self
            .files
            .iter()
            .map(|file| FileSymbols { file: file.clone(), status: SymbolStatus::Lines, addresses: Vec::new() })
            .collect();
        for (location, &(file, address)) in self.saved.locations.iter().zip(&self.places) {
            let outermost = location.lines.len().saturating_sub(1);
            let recorded = location.lines.iter().enumerate().map(|(place, line)| {
                let Name { full, short, .. } = functions[line.function as usize].clone();
                let file = sanitize(&self.saved.functions[line.function as usize].file);
                let line = u32::try_from(line.line).unwrap_or(0);
                RecordedFunction { full, short, file, line, inlined: place < outermost }
            });
            let mut lines: Vec<RecordedFunction> = recorded.collect();
            if lines.is_empty() && address >= INVENTED {
                let object = base(self.saved.object(location));
                let full = match object {
                    "." => format!("{:#x}", location.address),
                    object => sanitize(&format!("{object}+{:#x}", location.address)),
                };
                lines.push(RecordedFunction {
                    short: full.clone(),
                    full,
                    file: String::new(),
                    line: 0,
                    inlined: false,
                });
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
        plain(name, NameLanguage::guess(name))
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
