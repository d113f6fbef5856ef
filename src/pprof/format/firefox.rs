//! Writes the Firefox Profiler's processed profile format, which profiler.firefox.com opens. Each
//! thread has its samples and tables of stacks (a frame and a prefix stack), frames, functions and
//! strings.
//!
//! The format version is 48; newer versions of the profiler upgrade it on loading. Times are
//! relative to the first sample. If the profile has no sample times, each sample starts at the end
//! of the previous one of its thread.
//!
//! The crate `fxprof-processed-profile` (0.8) is not used because it would lose data: its weights
//! are whole numbers, so a sample of 10.1 ms becomes 10 ms, and its frames have an address or a
//! name, but not both with a source line and inlined calls.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::labels;
use crate::pprof::path::base;
use crate::pprof::profile::{Label, Line, SavedProfile};
use crate::pprof::units::{are_compatible, scale};

/// Version of the processed format.
const PROCESSED_VERSION: u32 = 48;
/// Version of the Gecko format that the processed one derives from.
const GECKO_VERSION: u32 = 28;
/// The resource type of a library.
const RESOURCE_LIBRARY: u32 = 1;
/// Addresses are JavaScript numbers, which are exact below this limit.
const ADDRESS_LIMIT: u64 = 1 << 53;

/// A table in columns.
struct Table<const N: usize> {
    names: [&'static str; N],
    columns: [Vec<Value>; N],
}

impl<const N: usize> Table<N> {
    fn new(names: [&'static str; N]) -> Table<N> {
        Table { names, columns: [const { Vec::new() }; N] }
    }

    /// Appends a row and returns its index.
    fn push(&mut self, row: [Value; N]) -> usize {
        self.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        self.columns[0].len() - 1
    }

    fn into_json(self) -> Value {
        let length = ("length".to_owned(), self.columns[0].len().into());
        let columns = self.names.iter().zip(self.columns).map(|(name, column)| ((*name).to_owned(), column.into()));
        Value::Object([length].into_iter().chain(columns).collect())
    }
}

/// A function of the profile, or a location without a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum FunctionKey {
    Function(u32),
    Location(u32),
}

/// The samples and tables of one thread.
struct ThreadTables<'a> {
    profile: &'a SavedProfile,
    strings: Vec<Value>,
    string_ids: HashMap<String, usize>,
    resources: Table<4>,
    resource_ids: HashMap<u32, usize>,
    functions: Table<7>,
    function_ids: HashMap<(FunctionKey, Option<u32>), usize>,
    frames: Table<10>,
    /// The frame of each location and inline depth.
    frame_ids: HashMap<(u32, usize), usize>,
    stacks: Table<4>,
    /// The stack of each prefix and frame.
    stack_ids: HashMap<(Option<usize>, usize), usize>,
    samples: Table<3>,
    /// The time at which the last sample ended, ms.
    end_ms: f64,
}

impl<'a> ThreadTables<'a> {
    fn new(profile: &'a SavedProfile) -> ThreadTables<'a> {
        ThreadTables {
            profile,
            strings: Vec::new(),
            string_ids: HashMap::new(),
            resources: Table::new(["lib", "name", "host", "type"]),
            resource_ids: HashMap::new(),
            functions: Table::new([
                "name",
                "isJS",
                "relevantForJS",
                "resource",
                "fileName",
                "lineNumber",
                "columnNumber",
            ]),
            function_ids: HashMap::new(),
            frames: Table::new([
                "address",
                "inlineDepth",
                "category",
                "subcategory",
                "func",
                "nativeSymbol",
                "innerWindowID",
                "implementation",
                "line",
                "column",
            ]),
            frame_ids: HashMap::new(),
            stacks: Table::new(["prefix", "frame", "category", "subcategory"]),
            stack_ids: HashMap::new(),
            samples: Table::new(["stack", "time", "weight"]),
            end_ms: 0.0,
        }
    }

    fn string_id(&mut self, text: &str) -> usize {
        if let Some(&id) = self.string_ids.get(text) {
            return id;
        }
        self.strings.push(text.into());
        self.string_ids.insert(text.to_owned(), self.strings.len() - 1);
        self.strings.len() - 1
    }

    fn resource_id(&mut self, mapping: u32) -> usize {
        if let Some(&id) = self.resource_ids.get(&mapping) {
            return id;
        }
        let name = self.string_id(base(&self.profile.mappings[mapping as usize].file));
        let id = self.resources.push([mapping.into(), name.into(), Value::Null, RESOURCE_LIBRARY.into()]);
        self.resource_ids.insert(mapping, id);
        id
    }

    fn function_id(&mut self, key: FunctionKey, mapping: Option<u32>) -> usize {
        if let Some(&id) = self.function_ids.get(&(key, mapping)) {
            return id;
        }
        let (name, file, line) = match key {
            FunctionKey::Function(function) => {
                let function = &self.profile.functions[function as usize];
                let file = (!function.file.is_empty()).then_some(&*function.file);
                (function.name.to_string(), file, function.start_line)
            }
            FunctionKey::Location(location) => {
                (format!("{:#x}", self.profile.locations[location as usize].address), None, 0)
            }
        };
        let name = self.string_id(&name);
        let file = file.map(|file| self.string_id(file));
        let resource = mapping.map_or(json!(-1), |mapping| self.resource_id(mapping).into());
        let line = (line > 0).then_some(line);
        let row = [name.into(), false.into(), false.into(), resource, file.into(), line.into(), Value::Null];
        let id = self.functions.push(row);
        self.function_ids.insert((key, mapping), id);
        id
    }

    /// The frame of one function at a location. The outermost function has depth 0.
    fn frame_id(&mut self, index: u32, depth: usize, line: Option<&Line>) -> usize {
        if let Some(&id) = self.frame_ids.get(&(index, depth)) {
            return id;
        }
        let location = &self.profile.locations[index as usize];
        let key = line.map_or(FunctionKey::Location(index), |line| FunctionKey::Function(line.function));
        let function = self.function_id(key, location.mapping);
        let start = location.mapping.map_or(0, |mapping| self.profile.mappings[mapping as usize].start);
        let address = location.address.checked_sub(start).filter(|&address| address < ADDRESS_LIMIT);
        let positive = |number: i64| (number > 0).then_some(number);
        let id = self.frames.push([
            address.map_or(json!(-1), Value::from),
            depth.into(),
            0.into(),
            0.into(),
            function.into(),
            Value::Null,
            0.into(),
            Value::Null,
            line.and_then(|line| positive(line.line)).into(),
            line.and_then(|line| positive(line.column)).into(),
        ]);
        self.frame_ids.insert((index, depth), id);
        id
    }

    fn push_sample(&mut self, stack: &[u32], time_ms: Option<f64>, weight: Value, duration_ms: f64) {
        let mut prefix = None;
        for &location in stack.iter().rev() {
            let lines = &self.profile.locations[location as usize].lines;
            for depth in 0..lines.len().max(1) {
                let line = lines.len().checked_sub(depth + 1).map(|index| &lines[index]);
                let frame = self.frame_id(location, depth, line);
                let stacks = &mut self.stacks;
                let id = *self
                    .stack_ids
                    .entry((prefix, frame))
                    .or_insert_with(|| stacks.push([prefix.into(), frame.into(), 0.into(), 0.into()]));
                prefix = Some(id);
            }
        }
        let start_ms = time_ms.unwrap_or(self.end_ms);
        self.end_ms = start_ms + duration_ms;
        self.samples.push([prefix.into(), start_ms.into(), weight]);
    }

    fn into_json(self, thread: &ThreadLabels, weight_type: &str) -> Value {
        let mut samples = self.samples.into_json();
        samples["weightType"] = weight_type.into();
        json!({
            "name": thread.name,
            "processName": thread.process,
            "isMainThread": thread.is_main,
            "processType": "default",
            "processStartupTime": 0,
            "processShutdownTime": null,
            "registerTime": 0,
            "unregisterTime": null,
            "pausedRanges": [],
            "pid": thread.pid.to_string(),
            "tid": thread.tid,
            "samples": samples,
            "stackTable": self.stacks.into_json(),
            "frameTable": self.frames.into_json(),
            "funcTable": self.functions.into_json(),
            "resourceTable": self.resources.into_json(),
            "nativeSymbols": Table::new(["libIndex", "address", "name", "functionSize"]).into_json(),
            "markers": Table::new(["data", "name", "startTime", "endTime", "phase", "category"]).into_json(),
            "stringArray": self.strings,
        })
    }
}

/// The thread that a set of labels names.
struct ThreadLabels {
    name: String,
    process: String,
    pid: i64,
    tid: i64,
    is_main: bool,
}

impl ThreadLabels {
    /// `index` is the position of the thread in the file; `program` names a thread without labels.
    fn new(set: &[Label], index: usize, program: &str) -> ThreadLabels {
        let process = labels::text(set, "process").unwrap_or(program).to_owned();
        let tid = labels::number(set, "tid").unwrap_or(index as i64 + 1);
        let pid = labels::number(set, "pid").unwrap_or(1);
        let name = labels::text(set, "thread").unwrap_or(&process).to_owned();
        ThreadLabels { name, process, pid, tid, is_main: pid == tid || index == 0 }
    }
}

/// Writes the sample values with index `value`.
///
/// # Errors
/// If `out` fails.
pub fn write(out: &mut dyn Write, profile: &SavedProfile, value: usize) -> io::Result<()> {
    let unit = &profile.sample_types[value].unit;
    let is_time = are_compatible(unit, "nanoseconds");
    let weight_type = if is_time {
        "tracing-ms"
    } else if are_compatible(unit, "bytes") {
        "bytes"
    } else {
        "samples"
    };
    let unit_ms = if is_time { scale(1, unit, "ns").0 / 1e6 } else { 1.0 };
    let times = profile.samples.times_ns();
    let first_ns = times.iter().copied().min().unwrap_or(0);
    let mut threads: BTreeMap<u32, ThreadTables> = BTreeMap::new();
    profile.samples.for_each(|sample| {
        let number = sample.values[value];
        if number != 0 {
            let thread = threads.entry(sample.labels).or_insert_with(|| ThreadTables::new(profile));
            let time_ms = times.get(sample.index).map(|time_ns| (time_ns - first_ns) as f64 / 1e6);
            let (weight, scaled) = if is_time {
                ((number as f64 * unit_ms).into(), number as f64 * unit_ms)
            } else {
                (number.into(), number as f64)
            };
            thread.push_sample(sample.stack, time_ms, weight, scaled.abs());
        }
    });
    let program = profile.mappings.first().map_or("", |first| base(&first.file));
    let interval_ms = profile.period_of(value).map_or(1.0, |period| period as f64 * unit_ms);
    let libraries = profile.mappings.iter().map(|mapping| {
        let (path, name) = (&*mapping.file, base(&mapping.file));
        let build_id = (!mapping.build_id.is_empty()).then_some(&*mapping.build_id);
        json!({
            "name": name, "path": path, "debugName": name, "debugPath": path, "breakpadId": "", "codeId": build_id, "arch": "",
        })
    });
    let threads = threads.into_iter().enumerate().map(|(index, (labels, thread))| {
        let labels = profile.labels.get(labels as usize).map_or(&[][..], |labels| labels);
        thread.into_json(&ThreadLabels::new(labels, index, program), weight_type)
    });
    let document = json!({
        "meta": {
            "version": GECKO_VERSION,
            "preprocessedProfileVersion": PROCESSED_VERSION,
            "product": program,
            "importedFrom": "sigtop",
            "interval": interval_ms,
            "startTime": profile.time_ns as f64 / 1e6,
            "processType": 0,
            "stackwalk": 1,
            "debug": false,
            "symbolicated": true,
            "sourceCodeIsNotOnSearchfox": true,
            "markerSchema": [],
            "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
        },
        "libs": libraries.collect::<Vec<Value>>(),
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
        "threads": threads.collect::<Vec<Value>>(),
    });
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pprof::profile::{Function, LabelValue, Location, Mapping, ValueType};
    use crate::pprof::samples::Samples;

    #[test]
    fn threads_share_prefixes_and_inlined_calls_are_frames() {
        let mut samples = Samples::with_width(1);
        samples.push(&[1, 0], &[7_000_000], 1);
        samples.push(&[0], &[3_000_000], 1);
        samples.push(&[2, 0], &[2_100_000], 1);
        let location = |id, lines| Location { id, mapping: Some(0), address: 0x40 + id, lines, folded: false };
        let line = |function| Line { function, line: 3, column: 0 };
        let label = |key: &str, value| Label { key: key.into(), value };
        let function = |name: &str| Function { name: name.into(), file: "a.c".into(), ..Function::default() };
        let profile = SavedProfile {
            sample_types: vec![ValueType::new("cpu", "nanoseconds")],
            samples,
            labels: vec![
                [].into(),
                [label("thread", LabelValue::Text("w\"0".into())), label("tid", LabelValue::Number(9, "".into()))]
                    .into(),
            ],
            mappings: vec![Mapping { id: 1, file: "/bin/app".into(), ..Mapping::default() }],
            functions: vec![function("main"), function("f"), function("inl")],
            locations: vec![location(1, vec![line(0)]), location(2, vec![line(2), line(1)]), location(3, vec![])],
            ..SavedProfile::default()
        };
        let mut out = Vec::new();
        write(&mut out, &profile, 0).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        let thread = &document["threads"][0];
        assert_eq!((&thread["name"], &thread["processName"]), (&json!("w\"0"), &json!("app")));
        let samples = json!({
            "length": 3, "stack": [2, 0, 3], "time": [0.0, 7.0, 10.0], "weight": [7.0, 3.0, 2.1], "weightType": "tracing-ms",
        });
        assert_eq!(thread["samples"], samples);
        let stacks = &thread["stackTable"];
        assert_eq!((&stacks["prefix"], &stacks["frame"]), (&json!([null, 0, 1, 0]), &json!([0, 1, 2, 3])));
        assert_eq!(thread["stringArray"], json!(["main", "a.c", "app", "f", "inl", "0x43"]));
    }
}
