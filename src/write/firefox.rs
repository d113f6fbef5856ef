//! The processed profile format of the Firefox profiler, which profiler.firefox.com opens: for every thread its samples, and the
//! tables that they share a part of: stacks (a frame and the stack before it), frames, functions, strings.
//!
//! A recording has the time of every sample, relative to the first one.
//!
//! Written is version 48 of the format; newer profilers read it and bring it up to date. Where a profile does not say when its samples
//! were taken, each begins where the one before it ended.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use super::json::quoted;
use crate::tally::saved::graph::base;
use crate::tally::saved::{Label, LabelValue, Line, Location, Saved};
use crate::tally::units::{are_alike, scale};

/// Of the processed format, and of the format that Firefox itself writes, which it derives from.
const VERSION: u32 = 48;
const GECKO_VERSION: u32 = 28;
/// Kind of a resource: a library.
const LIBRARY: u32 = 1;

/// Columns of a table, each a list of JSON values.
struct Table<const N: usize> {
    names: [&'static str; N],
    columns: [Vec<String>; N],
}

impl<const N: usize> Table<N> {
    fn new(names: [&'static str; N]) -> Table<N> {
        Table { names, columns: [const { Vec::new() }; N] }
    }

    fn len(&self) -> usize {
        self.columns[0].len()
    }

    fn push(&mut self, row: [String; N]) -> usize {
        self.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        self.len() - 1
    }

    /// Its fields, without the braces.
    fn fields(&self) -> String {
        let columns = self.names.iter().zip(&self.columns);
        let fields = columns.map(|(name, values)| format!(",\"{name}\":[{}]", values.join(",")));
        format!("\"length\":{}{}", self.len(), fields.collect::<String>())
    }
}

fn null() -> String {
    "null".to_owned()
}

/// A function in a file, or a place that has no name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Named {
    Function(u32),
    Place(u32),
}

/// The tables of one thread.
struct Thread<'a> {
    saved: &'a Saved,
    /// As JSON has them.
    strings: Vec<String>,
    string_ids: HashMap<String, usize>,
    resources: Table<4>,
    resource_ids: HashMap<u32, usize>,
    functions: Table<7>,
    function_ids: HashMap<(Named, Option<u32>), usize>,
    frames: Table<10>,
    frame_ids: HashMap<(u32, usize), usize>,
    stacks: Table<4>,
    stack_ids: HashMap<(Option<usize>, usize), usize>,
    samples: Table<3>,
    /// Where the last sample ended, ms.
    end_ms: f64,
}

impl<'a> Thread<'a> {
    fn new(saved: &'a Saved) -> Thread<'a> {
        Thread {
            saved,
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

    fn string(&mut self, text: &str) -> usize {
        if let Some(&id) = self.string_ids.get(text) {
            return id;
        }
        self.strings.push(quoted(text));
        self.string_ids.insert(text.to_owned(), self.strings.len() - 1);
        self.strings.len() - 1
    }

    fn resource(&mut self, mapping: u32) -> usize {
        if let Some(&id) = self.resource_ids.get(&mapping) {
            return id;
        }
        let name = self.string(base(&self.saved.mappings[mapping as usize].file));
        let id = self.resources.push([mapping.to_string(), name.to_string(), null(), LIBRARY.to_string()]);
        self.resource_ids.insert(mapping, id);
        id
    }

    fn function(&mut self, named: Named, mapping: Option<u32>) -> usize {
        if let Some(&id) = self.function_ids.get(&(named, mapping)) {
            return id;
        }
        let (name, file, line) = match named {
            Named::Function(function) => {
                let function = &self.saved.functions[function as usize];
                let file = (!function.file.is_empty()).then_some(&*function.file);
                (function.name.to_string(), file, function.start_line)
            }
            Named::Place(place) => (format!("{:#x}", self.saved.locations[place as usize].address), None, 0),
        };
        let name = self.string(&name).to_string();
        let file = file.map_or_else(null, |file| self.string(file).to_string());
        let resource = mapping.map_or("-1".to_owned(), |mapping| self.resource(mapping).to_string());
        let line = if line > 0 { line.to_string() } else { null() };
        let no = || "false".to_owned();
        let id = self.functions.push([name, no(), no(), resource, file, line, null()]);
        self.function_ids.insert((named, mapping), id);
        id
    }

    /// The frame of one function at a place; the outermost has depth 0.
    fn frame(&mut self, place: u32, depth: usize, line: Option<&Line>) -> usize {
        if let Some(&id) = self.frame_ids.get(&(place, depth)) {
            return id;
        }
        let location: &Location = &self.saved.locations[place as usize];
        let named = line.map_or(Named::Place(place), |line| Named::Function(line.function));
        let function = self.function(named, location.mapping).to_string();
        let mapping = location.mapping.map(|mapping| &self.saved.mappings[mapping as usize]);
        let start = mapping.map_or(0, |mapping| mapping.start);
        // It is a number of JavaScript: 53 bits.
        let address = location.address.checked_sub(start).filter(|&address| address < 1 << 53);
        let some = |number: i64| if number > 0 { number.to_string() } else { null() };
        let [line, column] = line.map_or([null(), null()], |line| [some(line.line), some(line.column)]);
        let address = address.map_or("-1".to_owned(), |address| address.to_string());
        let zero = || "0".to_owned();
        let row = [address, depth.to_string(), zero(), zero(), function, null(), zero(), null(), line, column];
        let id = self.frames.push(row);
        self.frame_ids.insert((place, depth), id);
        id
    }

    fn sample(&mut self, stack: &[u32], time_ms: Option<f64>, weight: f64, weight_ms: f64) {
        let mut before = None;
        for &place in stack.iter().rev() {
            let lines = &self.saved.locations[place as usize].lines;
            let count = lines.len().max(1);
            for depth in 0..count {
                let line = lines.len().checked_sub(depth + 1).map(|index| &lines[index]);
                let frame = self.frame(place, depth, line);
                let stacks = &mut self.stacks;
                let id = *self.stack_ids.entry((before, frame)).or_insert_with(|| {
                    let prefix = before.map_or_else(null, |before| before.to_string());
                    stacks.push([prefix, frame.to_string(), "0".to_owned(), "0".to_owned()])
                });
                before = Some(id);
            }
        }
        let at_ms = time_ms.unwrap_or(self.end_ms);
        self.end_ms = at_ms + weight_ms;
        let stack = before.map_or_else(null, |stack| stack.to_string());
        self.samples.push([stack, at_ms.to_string(), weight.to_string()]);
    }

    fn write(&self, out: &mut dyn Write, who: &Who, weights: &str) -> io::Result<()> {
        let Who { name, process, pid, tid, is_main } = who;
        writeln!(
            out,
            "{{\"name\":{},\"processName\":{},\"isMainThread\":{is_main},\"processType\":\"default\",\
             \"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,\
             \"pausedRanges\":[],\"pid\":\"{pid}\",\"tid\":{tid},",
            quoted(name),
            quoted(process)
        )?;
        writeln!(out, "\"samples\":{{{},\"weightType\":\"{weights}\"}},", self.samples.fields())?;
        writeln!(out, "\"stackTable\":{{{}}},", self.stacks.fields())?;
        writeln!(out, "\"frameTable\":{{{}}},", self.frames.fields())?;
        writeln!(out, "\"funcTable\":{{{}}},", self.functions.fields())?;
        writeln!(out, "\"resourceTable\":{{{}}},", self.resources.fields())?;
        let symbols: Table<4> = Table::new(["libIndex", "address", "name", "functionSize"]);
        writeln!(out, "\"nativeSymbols\":{{{}}},", symbols.fields())?;
        let markers: Table<6> = Table::new(["data", "name", "startTime", "endTime", "phase", "category"]);
        writeln!(out, "\"markers\":{{{}}},", markers.fields())?;
        write!(out, "\"stringArray\":[{}]}}", self.strings.join(","))
    }
}

/// Who was sampled.
struct Who {
    name: String,
    process: String,
    pid: i64,
    tid: i64,
    is_main: bool,
}

fn who(labels: &[Label], number: usize, program: &str) -> Who {
    let find = |key: &str| labels.iter().find(|label| label.key == key).map(|label| &label.value);
    let text = |key: &str| match find(key) {
        Some(LabelValue::Text(text)) => Some(text.as_str().to_owned()),
        _ => None,
    };
    let id = |key: &str| match find(key) {
        Some(LabelValue::Number(number, _)) => Some(*number),
        _ => None,
    };
    let process = text("process").unwrap_or_else(|| program.to_owned());
    let tid = id("tid").unwrap_or(number as i64 + 1);
    let pid = id("pid").unwrap_or(1);
    let name = text("thread").unwrap_or_else(|| process.clone());
    Who { name, process, pid, tid, is_main: pid == tid || number == 0 }
}

/// Writes one kind of value.
///
/// # Errors
/// When `out` fails.
pub fn write(out: &mut dyn Write, saved: &Saved, value: usize) -> io::Result<()> {
    let unit = &saved.sample_types[value].unit;
    let is_time = are_alike(unit, "nanoseconds");
    let weights = if is_time {
        "tracing-ms"
    } else if are_alike(unit, "bytes") {
        "bytes"
    } else {
        "samples"
    };
    let one_ms = if is_time { scale(1, unit, "ns").0 / 1e6 } else { 1.0 };
    let times = saved.samples.times_ns();
    let first_ns = times.iter().copied().min().unwrap_or(0);
    let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
    saved.samples.each(|sample| {
        let much = sample.values[value];
        if much != 0 {
            let thread = threads.entry(sample.labels).or_insert_with(|| Thread::new(saved));
            let time_ms = times.get(sample.index).map(|time_ns| (time_ns - first_ns) as f64 / 1e6);
            let weight = if is_time { much as f64 * one_ms } else { much as f64 };
            thread.sample(sample.stack, time_ms, weight, weight.abs());
        }
    });
    let program = saved.mappings.first().map_or("", |first| base(&first.file));
    let interval_ms = saved.period_of(value).map_or(1.0, |period| period as f64 * one_ms);
    let start_ms = saved.time_ns as f64 / 1e6;
    writeln!(
        out,
        "{{\"meta\":{{\"version\":{GECKO_VERSION},\"preprocessedProfileVersion\":{VERSION},\"product\":{},\
         \"importedFrom\":\"sigtop\",\"interval\":{interval_ms},\"startTime\":{start_ms},\"processType\":0,\"stackwalk\":1,\
         \"debug\":false,\"symbolicated\":true,\"sourceCodeIsNotOnSearchfox\":true,\"markerSchema\":[],\
         \"categories\":[{{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]}}]}},",
        quoted(program)
    )?;
    let libraries = saved.mappings.iter().map(|mapping| {
        let (path, name) = (quoted(&mapping.file), quoted(base(&mapping.file)));
        let id = if mapping.build_id.is_empty() { null() } else { quoted(&mapping.build_id) };
        format!(
            "{{\"name\":{name},\"path\":{path},\"debugName\":{name},\"debugPath\":{path},\"breakpadId\":\"\",\"codeId\":{id},\
             \"arch\":\"\"}}"
        )
    });
    writeln!(out, "\"libs\":[{}],", libraries.collect::<Vec<String>>().join(","))?;
    write!(out, "\"pages\":[],\"counters\":[],\"profilerOverhead\":[],\"threads\":[")?;
    for (number, (labels, thread)) in threads.iter().enumerate() {
        if number > 0 {
            write!(out, ",")?;
        }
        let labels = saved.labels.get(*labels as usize).map_or(&[][..], |labels| labels);
        thread.write(out, &who(labels, number, program), weights)?;
    }
    writeln!(out, "]}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::saved::{Function, Mapping, Samples, ValueType};

    #[test]
    fn threads_share_prefixes_and_inlined_calls_are_frames() {
        let mut samples = Samples::of_width(1);
        samples.push(&[1, 0], &[7_000_000], 1);
        samples.push(&[0], &[3_000_000], 1);
        samples.push(&[2, 0], &[2_000_000], 1);
        let place = |id, lines| Location { id, mapping: Some(0), address: 0x40 + id, lines, folded: false };
        let line = |function| Line { function, line: 3, column: 0 };
        let label = |key: &str, value| Label { key: key.into(), value };
        let function = |name: &str| Function { name: name.into(), file: "a.c".into(), ..Function::default() };
        let saved = Saved {
            sample_types: vec![ValueType::new("cpu", "nanoseconds")],
            samples,
            labels: vec![
                [].into(),
                [label("thread", LabelValue::Text("w\"0".into())), label("tid", LabelValue::Number(9, "".into()))]
                    .into(),
            ],
            mappings: vec![Mapping { id: 1, file: "/bin/app".into(), ..Mapping::default() }],
            functions: vec![function("main"), function("f"), function("inl")],
            locations: vec![place(1, vec![line(0)]), place(2, vec![line(2), line(1)]), place(3, vec![])],
            ..Saved::default()
        };
        let mut out = Vec::new();
        write(&mut out, &saved, 0).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(r#""name":"w\"0","processName":"app""#), "{text}");
        let samples =
            r#""samples":{"length":3,"stack":[2,0,3],"time":[0,7,10],"weight":[7,3,2],"weightType":"tracing-ms"}"#;
        assert!(text.contains(samples), "{text}");
        assert!(text.contains(r#""stackTable":{"length":4,"prefix":[null,0,1,0],"frame":[0,1,2,3],"#), "{text}");
        assert!(text.contains(r#""stringArray":["main","a.c","app","f","inl","0x43"]"#), "{text}");
    }
}
