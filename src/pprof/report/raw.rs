//! `-raw`: the whole profile as text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::printer::ReportPrinter;
use super::traces::json_labels;
use crate::pprof::json::members;
use crate::pprof::profile::{Label, LabelValue, Line, Location, Mapping, SavedProfile, ValueType};

impl ReportPrinter<'_> {
    pub(super) fn print_raw(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.options.json {
            return self.print_raw_json(out);
        }
        let profile = &self.profile;
        for comment in &profile.comments {
            writeln!(out, "Comment: {comment}")?;
        }
        if !profile.doc_url.is_empty() {
            writeln!(out, "Doc: {}", profile.doc_url)?;
        }
        writeln!(out, "PeriodType: {} {}", profile.period_type.kind, profile.period_type.unit)?;
        writeln!(out, "Period: {}", profile.period)?;
        if profile.time_ns != 0
            && let Ok(time) = Timestamp::from_nanosecond(profile.time_ns.into())
        {
            let local = time.to_zoned(self.options.zone.clone());
            let fraction = profile.time_ns.rem_euclid(1_000_000_000);
            let fraction = format!(".{fraction:09}");
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            writeln!(out, "Time: {}{fraction} {}", local.strftime("%Y-%m-%d %H:%M:%S"), local.strftime("%z %Z"))?;
        }
        if profile.duration_ns != 0 {
            writeln!(out, "Duration: {}", go_duration(profile.duration_ns))?;
        }
        writeln!(out, "Samples:")?;
        let types = profile.sample_types.iter().map(|of| {
            let suffix = if of.kind == profile.default_sample_type { "[dflt]" } else { "" };
            format!("{}/{}{suffix} ", of.kind, of.unit)
        });
        writeln!(out, "{}", types.collect::<String>().trim())?;
        let sets: Vec<String> = profile.labels.iter().map(|labels| format_labels(labels)).collect();
        let mut failed = None;
        let mut text = String::new();
        profile.samples.for_each(|sample| {
            text.clear();
            for value in sample.values {
                text += &format!(" {value:>10}");
            }
            text += ": ";
            for &location in sample.stack {
                text += &format!("{} ", profile.locations[location as usize].id);
            }
            text.push('\n');
            text += sets.get(sample.labels as usize).map_or("", String::as_str);
            if failed.is_none() {
                failed = out.write_all(text.as_bytes()).err();
            }
        });
        failed.map_or(Ok(()), Err)?;
        writeln!(out, "Locations")?;
        for location in &profile.locations {
            self.print_location(out, profile, location)?;
        }
        writeln!(out, "Mappings")?;
        for of in &profile.mappings {
            let flags = [
                (of.has_functions, "[FN]"),
                (of.has_filenames, "[FL]"),
                (of.has_line_numbers, "[LN]"),
                (of.has_inline_frames, "[IN]"),
            ];
            let flags: String = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
            let (start, limit, offset) = (go_hex(of.start), go_hex(of.limit), go_hex(of.offset));
            writeln!(out, "{}: {start}/{limit}/{offset} {} {} {flags}", of.id, of.file, of.build_id)?;
        }
        Ok(())
    }

    fn print_raw_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let profile = &self.profile;
        let line = |line: &Line| {
            let of = &profile.functions[line.function as usize];
            json!({
                "function": &*of.name, "system_name": &*of.system_name, "file": &*of.file,
                "line": line.line, "column": line.column, "start_line": of.start_line,
            })
        };
        let location = |of: &Location| {
            json!({
                "id": of.id, "address": of.address, "folded": of.folded,
                "mapping": of.mapping.map(|mapping| profile.mappings[mapping as usize].id),
                "lines": of.lines.iter().map(line).collect::<Vec<Value>>(),
            })
        };
        let mapping = |of: &Mapping| {
            json!({
                "id": of.id, "start": of.start, "limit": of.limit, "offset": of.offset,
                "file": &*of.file, "build_id": &*of.build_id,
            })
        };
        let sample_type = |of: &ValueType| json!({"type": &*of.kind, "unit": &*of.unit});
        let more = members(json!({
            "sample_types": profile.sample_types.iter().map(sample_type).collect::<Vec<Value>>(),
            "default_type": &*profile.default_sample_type,
            "locations": profile.locations.iter().map(location).collect::<Vec<Value>>(),
            "mappings": profile.mappings.iter().map(mapping).collect::<Vec<Value>>(),
        }));
        self.write_json_stream(out, more, "samples", |emit| {
            profile.samples.for_each(|sample| {
                let stack = sample.stack.iter().map(|&location| profile.locations[location as usize].id);
                emit(&json!({
                    "values": sample.values,
                    "locations": stack.collect::<Vec<u64>>(),
                    "labels": json_labels(profile.labels_of(&sample)),
                }));
            });
        })
    }

    fn print_location(&self, out: &mut dyn Write, profile: &SavedProfile, location: &Location) -> io::Result<()> {
        let mut head = format!("{:>6}: {} ", location.id, go_hex(location.address));
        if let Some(mapping) = location.mapping {
            head += &format!("M={} ", profile.mappings[mapping as usize].id);
        }
        if location.folded {
            head += "[F] ";
        }
        if location.lines.is_empty() {
            writeln!(out, "{head}")?;
        }
        for line in &location.lines {
            let of = &profile.functions[line.function as usize];
            let system = if of.name == of.system_name { String::new() } else { format!("({})", of.system_name) };
            writeln!(out, "{head}{} {}:{}:{} s={}{system}", of.name, of.file, line.line, line.column, of.start_line)?;
            head = " ".repeat(13);
        }
        Ok(())
    }
}

/// Formats a number as Go's `%#x`.
fn go_hex(number: u64) -> String {
    format!("{number:#x}")
}

/// Formats a duration as Go's `%.4v`: its first four characters.
fn go_duration(ns: i64) -> String {
    let negative = if ns < 0 { "-" } else { "" };
    let all = ns.unsigned_abs();
    let decimal = |whole: u64, part: u64, digits: usize| {
        let text = format!("{whole}.{part:0digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let text = match all {
        0 => "0s".to_owned(),
        1..1_000 => format!("{all}ns"),
        1_000..1_000_000 => format!("{}µs", decimal(all / 1_000, all % 1_000, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(all / 1_000_000, all % 1_000_000, 6)),
        _ => {
            let (minutes, rest) = (all / 60_000_000_000, all % 60_000_000_000);
            let seconds = decimal(rest / 1_000_000_000, rest % 1_000_000_000, 9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{negative}{text}").chars().take(4).collect()
}

/// Formats the labels of a set: one line of texts and one of numbers, each sorted by key.
fn format_labels(labels: &[Label]) -> String {
    const HEAD: &str = "                ";
    let mut texts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut numbers: BTreeMap<&str, Vec<(i64, &str)>> = BTreeMap::new();
    for Label { key, value } in labels {
        match value {
            LabelValue::Text(text) => texts.entry(key).or_default().push(text),
            LabelValue::Number(number, unit) => numbers.entry(key).or_default().push((*number, unit)),
        }
    }
    let sorted = |mut all: Vec<String>| {
        all.sort();
        if all.is_empty() { String::new() } else { format!("{HEAD}{}\n", all.join(" ")) }
    };
    let texts = texts.into_iter().map(|(key, values)| format!("{key}:[{}]", values.join(" ")));
    let numbers = numbers.into_iter().map(|(key, values)| {
        let any_unit = values.iter().any(|(_, unit)| !unit.is_empty());
        let format =
            |&(number, unit): &(i64, &str)| if any_unit { format!("{number} {unit}") } else { number.to_string() };
        format!("{key}:[{}]", values.iter().map(format).collect::<Vec<_>>().join(" "))
    });
    sorted(texts.collect()) + &sorted(numbers.collect())
}
