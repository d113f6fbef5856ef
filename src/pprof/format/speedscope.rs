//! Writes speedscope's file format, which speedscope.app opens: a shared table of frames and, for
//! each thread, its stacks with their weights.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::labels;
use crate::pprof::path::base;
use crate::pprof::profile::{Label, LabelValue, Line, Location, SavedProfile};
use crate::pprof::units::{MILLION, MILLIONTHS, are_compatible, scale};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Stacks (root first, as frame indices) and weights of one thread.
type WeightedStacks = Vec<(Vec<usize>, i64)>;

/// Writes the sample values with index `value`. Samples without a positive value are left out.
///
/// # Errors
/// If `out` fails.
pub fn write(out: &mut dyn Write, profile: &SavedProfile, value: usize) -> io::Result<()> {
    let mut ids: HashMap<Value, usize> = HashMap::new();
    let mut frames: Vec<Value> = Vec::new();
    let mut id = |frame: Value| {
        *ids.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            frames.len() - 1
        })
    };
    let frames_of: Vec<Vec<usize>> = profile
        .locations
        .iter()
        .map(|location| location_frames(profile, location).into_iter().map(&mut id).collect())
        .collect();
    let (unit, factor) = speedscope_unit(&profile.sample_types[value].unit);
    let is_millionths = profile.sample_types[value].unit == *MILLIONTHS;
    let number =
        |value: i64| -> Value { if is_millionths { (value as f64 / MILLION as f64).into() } else { value.into() } };
    let mut threads: BTreeMap<u32, WeightedStacks> = BTreeMap::new();
    profile.samples.for_each(|sample| {
        let weight = sample.values[value].saturating_mul(factor);
        if weight > 0 {
            let stack = sample.stack.iter().rev().flat_map(|&location| frames_of[location as usize].iter().copied());
            threads.entry(sample.labels).or_default().push((stack.collect(), weight));
        }
    });
    let program = profile.mappings.first().map_or("", |first| base(&first.file));
    let profiles = threads.into_iter().map(|(labels, stacks)| {
        let total = stacks.iter().fold(0i64, |sum, (_, weight)| sum.saturating_add(*weight));
        let (samples, weights): (Vec<Vec<usize>>, Vec<Value>) =
            stacks.into_iter().map(|(stack, weight)| (stack, number(weight))).unzip();
        json!({
            "type": "sampled",
            "name": thread_name(profile.labels.get(labels as usize).map_or(&[], |labels| labels), program),
            "unit": unit,
            "startValue": 0,
            "endValue": number(total),
            "samples": samples,
            "weights": weights,
        })
    });
    let document = json!({
        "$schema": SCHEMA,
        "exporter": "sigtop",
        "name": program,
        "profiles": profiles.collect::<Vec<Value>>(),
        "shared": {"frames": frames},
    });
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

/// speedscope's name of a unit, and the number of those units in one of the profile's.
fn speedscope_unit(unit: &str) -> (&'static str, i64) {
    let times = [("nanoseconds", 1), ("microseconds", 1_000), ("milliseconds", 1_000_000), ("seconds", 1_000_000_000)];
    if are_compatible(unit, "nanoseconds") {
        let ns = scale(1, unit, "nanoseconds").0 as i64;
        // The largest unit that divides the profile's: speedscope has no minutes and hours.
        let (name, its_ns) = times.into_iter().rev().find(|(_, its_ns)| *its_ns <= ns).unwrap_or(times[0]);
        return (name, ns / its_ns);
    }
    if are_compatible(unit, "bytes") { ("bytes", scale(1, unit, "B").0 as i64) } else { ("none", 1) }
}

/// The frames at a location, outermost first.
fn location_frames(profile: &SavedProfile, location: &Location) -> Vec<Value> {
    if location.lines.is_empty() {
        let object = profile.object(location).as_str();
        let name = if object.is_empty() { format!("{:#x}", location.address) } else { format!("[{}]", base(object)) };
        return vec![json!({ "name": name })];
    }
    let frame = |line: &Line| {
        let function = &profile.functions[line.function as usize];
        let mut frame = json!({ "name": &*function.name });
        if !function.file.is_empty() {
            frame["file"] = (&*function.file).into();
            if line.line > 0 {
                frame["line"] = line.line.into();
            }
        }
        frame
    };
    location.lines.iter().rev().map(frame).collect()
}

/// Process, thread name and thread id from the labels: `server worker-0 41280`.
fn thread_name(set: &[Label], program: &str) -> String {
    let words = ["process", "thread", "tid"].iter().filter_map(|key| match labels::find(set, key)? {
        LabelValue::Text(text) => Some(text.as_str().to_owned()),
        LabelValue::Number(number, _) => Some(number.to_string()),
    });
    let name = words.filter(|word| !word.is_empty()).collect::<Vec<String>>().join(" ");
    if name.is_empty() { program.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pprof::profile::{Function, ValueType};
    use crate::pprof::samples::Samples;

    #[test]
    fn each_thread_has_its_own_profile() {
        let mut samples = Samples::with_width(1);
        samples.push(&[1, 0], &[7], 1);
        samples.push(&[0], &[3], 0);
        let text = |key: &str, value: &str| Label { key: key.into(), value: LabelValue::Text(value.into()) };
        let location = |id, lines| Location { id, lines, ..Location::default() };
        let profile = SavedProfile {
            sample_types: vec![ValueType::new("cpu", "nanoseconds")],
            samples,
            labels: vec![[].into(), [text("process", "app"), text("thread", "w\"0")].into()],
            functions: vec![Function { name: "main".into(), file: "a.c".into(), ..Function::default() }],
            locations: vec![
                location(1, vec![Line { function: 0, line: 3, column: 0 }]),
                Location { address: 0x12, ..location(2, vec![]) },
            ],
            ..SavedProfile::default()
        };
        let mut out = Vec::new();
        write(&mut out, &profile, 0).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(document["shared"]["frames"], json!([{"name": "main", "file": "a.c", "line": 3}, {"name": "0x12"}]));
        let second = json!({
            "type": "sampled", "name": "app w\"0", "unit": "nanoseconds", "startValue": 0, "endValue": 7,
            "samples": [[0, 1]], "weights": [7],
        });
        assert_eq!(document["profiles"][1], second);
    }
}
