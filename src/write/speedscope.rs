//! speedscope's own format: frames once, and for every thread its stacks with what they weigh. It is opened in the browser.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use super::folded::fraction;
use super::json::quoted;
use crate::tally::saved::graph::base;
use crate::tally::saved::{Label, LabelValue, Location, Saved};
use crate::tally::units::{MILLIONTHS, are_alike, scale};

/// What the format is called.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// A function at a line, as it is written.
type Frame = String;

/// Writes one kind of value.
///
/// # Errors
/// When `out` fails.
pub fn write(out: &mut dyn Write, saved: &Saved, value: usize) -> io::Result<()> {
    let mut ids: HashMap<Frame, usize> = HashMap::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut id = |frame: Frame| {
        *ids.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            frames.len() - 1
        })
    };
    // Root first, as it wants stacks.
    let places: Vec<Vec<usize>> =
        saved.locations.iter().map(|location| told(saved, location).into_iter().map(&mut id).collect()).collect();
    let (unit, factor) = unit(&saved.sample_types[value].unit);
    let has_fractions = saved.sample_types[value].unit == *MILLIONTHS;
    let number = |value: i64| if has_fractions { fraction(value) } else { value.to_string() };
    let mut threads: BTreeMap<u32, Vec<(String, i64)>> = BTreeMap::new();
    saved.samples.each(|sample| {
        let weight = sample.values[value].saturating_mul(factor);
        if weight > 0 {
            let stack = sample.stack.iter().rev().flat_map(|&location| places[location as usize].iter());
            let stack = stack.map(usize::to_string).collect::<Vec<String>>().join(",");
            threads.entry(sample.labels).or_default().push((stack, weight));
        }
    });
    let program = saved.mappings.first().map_or("", |first| base(&first.file));
    writeln!(out, "{{\"$schema\":{},\"exporter\":\"sigtop\",\"name\":{},", quoted(SCHEMA), quoted(program))?;
    writeln!(out, "\"shared\":{{\"frames\":[\n{}\n]}},\"profiles\":[", frames.join(",\n"))?;
    for (place, (labels, stacks)) in threads.iter().enumerate() {
        let name = thread_name(saved.labels.get(*labels as usize).map_or(&[], |labels| labels), program);
        let total = stacks.iter().fold(0i64, |sum, (_, weight)| sum.saturating_add(*weight));
        let samples: Vec<String> = stacks.iter().map(|(stack, _)| format!("[{stack}]")).collect();
        let weights: Vec<String> = stacks.iter().map(|(_, weight)| number(*weight)).collect();
        if place > 0 {
            writeln!(out, ",")?;
        }
        write!(
            out,
            "{{\"type\":\"sampled\",\"name\":{},\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{},\n\
             \"samples\":[{}],\n\"weights\":[{}]}}",
            quoted(&name),
            number(total),
            samples.join(","),
            weights.join(",")
        )?;
    }
    writeln!(out, "\n]}}")
}

/// speedscope's name of a unit, and the number of them in one of the profile's.
fn unit(own: &str) -> (&'static str, i64) {
    let times = [("nanoseconds", 1), ("microseconds", 1_000), ("milliseconds", 1_000_000), ("seconds", 1_000_000_000)];
    if are_alike(own, "nanoseconds") {
        let ns = scale(1, own, "nanoseconds").0 as i64;
        // It knows no hours.
        let (name, its_ns) = times.into_iter().rev().find(|(_, its_ns)| *its_ns <= ns).unwrap_or(times[0]);
        return (name, ns / its_ns);
    }
    if are_alike(own, "bytes") { ("bytes", scale(1, own, "B").0 as i64) } else { ("none", 1) }
}

/// The frames at a place, outermost first.
fn told(saved: &Saved, location: &Location) -> Vec<Frame> {
    if location.lines.is_empty() {
        let object = saved.object(location).as_str();
        let name = if object.is_empty() { format!("{:#x}", location.address) } else { format!("[{}]", base(object)) };
        return vec![format!("{{\"name\":{}}}", quoted(&name))];
    }
    let frame = |line: &crate::tally::saved::Line| {
        let function = &saved.functions[line.function as usize];
        let mut text = format!("{{\"name\":{}", quoted(&function.name));
        if !function.file.is_empty() {
            text += &format!(",\"file\":{}", quoted(&function.file));
            if line.line > 0 {
                text += &format!(",\"line\":{}", line.line);
            }
        }
        text + "}"
    };
    location.lines.iter().rev().map(frame).collect()
}

/// Who was sampled, by the labels: `server/worker-0 41280`.
fn thread_name(labels: &[Label], program: &str) -> String {
    let find = |key: &str| labels.iter().find(|label| label.key == key).map(|label| &label.value);
    let text = |key: &str| match find(key) {
        Some(LabelValue::Text(text)) => text.as_str().to_owned(),
        Some(LabelValue::Number(number, _)) => number.to_string(),
        None => String::new(),
    };
    let parts = [text("process"), text("thread"), text("tid")];
    let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<String>>().join(" ");
    if name.is_empty() { program.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::saved::{Function, Line, Samples, ValueType};

    #[test]
    fn threads_have_profiles_of_their_own() {
        let mut samples = Samples::of_width(1);
        samples.push(&[1, 0], &[7], 1);
        samples.push(&[0], &[3], 0);
        let text = |key: &str, value: &str| Label { key: key.into(), value: LabelValue::Text(value.into()) };
        let place = |id, lines| Location { id, lines, ..Location::default() };
        let saved = Saved {
            sample_types: vec![ValueType::new("cpu", "nanoseconds")],
            samples,
            labels: vec![[].into(), [text("process", "app"), text("thread", "w\"0")].into()],
            functions: vec![Function { name: "main".into(), file: "a.c".into(), ..Function::default() }],
            locations: vec![
                place(1, vec![Line { function: 0, line: 3, column: 0 }]),
                Location { address: 0x12, ..place(2, vec![]) },
            ],
            ..Saved::default()
        };
        let mut out = Vec::new();
        write(&mut out, &saved, 0).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(r#"{"name":"main","file":"a.c","line":3},"#), "{text}");
        assert!(text.contains(r#""name":"app w\"0","unit":"nanoseconds","startValue":0,"endValue":7,"#), "{text}");
        assert!(text.contains("\"samples\":[[0,1]],\n\"weights\":[7]"), "{text}");
    }
}
