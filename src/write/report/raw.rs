//! `-raw`: all there is in a profile, as text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;

use super::Print;
use crate::tally::saved::{Label, LabelValue, Location, Saved};

impl Print<'_> {
    pub(super) fn raw(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let saved = &self.saved;
        for comment in &saved.comments {
            writeln!(out, "Comment: {comment}")?;
        }
        if !saved.doc_url.is_empty() {
            writeln!(out, "Doc: {}", saved.doc_url)?;
        }
        writeln!(out, "PeriodType: {} {}", saved.period_type.kind, saved.period_type.unit)?;
        writeln!(out, "Period: {}", saved.period)?;
        if saved.time_ns != 0
            && let Ok(time) = Timestamp::from_nanosecond(saved.time_ns.into())
        {
            let local = time.to_zoned(self.options.zone.clone());
            let fraction = saved.time_ns.rem_euclid(1_000_000_000);
            let fraction = format!(".{fraction:09}");
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            writeln!(out, "Time: {}{fraction} {}", local.strftime("%Y-%m-%d %H:%M:%S"), local.strftime("%z %Z"))?;
        }
        if saved.duration_ns != 0 {
            writeln!(out, "Duration: {}", go_duration(saved.duration_ns))?;
        }
        writeln!(out, "Samples:")?;
        let types = saved.sample_types.iter().map(|of| {
            let mark = if of.kind == saved.default_sample_type { "[dflt]" } else { "" };
            format!("{}/{}{mark} ", of.kind, of.unit)
        });
        writeln!(out, "{}", types.collect::<String>().trim())?;
        let sets: Vec<String> = saved.labels.iter().map(|labels| label_lines(labels)).collect();
        let mut failed = None;
        let mut text = String::new();
        saved.samples.each(|sample| {
            text.clear();
            for value in sample.values {
                text += &format!(" {value:>10}");
            }
            text += ": ";
            for &location in sample.stack {
                text += &format!("{} ", saved.locations[location as usize].id);
            }
            text.push('\n');
            text += sets.get(sample.labels as usize).map_or("", String::as_str);
            if failed.is_none() {
                failed = out.write_all(text.as_bytes()).err();
            }
        });
        failed.map_or(Ok(()), Err)?;
        writeln!(out, "Locations")?;
        for location in &saved.locations {
            self.raw_location(out, saved, location)?;
        }
        writeln!(out, "Mappings")?;
        let noinlines = self.options.noinlines;
        for of in &saved.mappings {
            let marks = [
                (of.has_functions, "[FN]"),
                (of.has_filenames, "[FL]"),
                (of.has_line_numbers, "[LN]"),
                (of.has_inline_frames && !noinlines, "[IN]"),
            ];
            let marks: String = marks.into_iter().filter(|(has, _)| *has).map(|(_, mark)| mark).collect();
            let (start, limit, offset) = (go_hex(of.start), go_hex(of.limit), go_hex(of.offset));
            writeln!(out, "{}: {start}/{limit}/{offset} {} {} {marks}", of.id, of.file, of.build_id)?;
        }
        Ok(())
    }

    fn raw_location(&self, out: &mut dyn Write, saved: &Saved, location: &Location) -> io::Result<()> {
        let mut head = format!("{:>6}: {} ", location.id, go_hex(location.address));
        if let Some(mapping) = location.mapping {
            head += &format!("M={} ", saved.mappings[mapping as usize].id);
        }
        if location.folded {
            head += "[F] ";
        }
        if location.lines.is_empty() {
            writeln!(out, "{head}")?;
        }
        let columns = !self.options.noinlines || self.options.showcolumns;
        for line in &location.lines {
            let of = &saved.functions[line.function as usize];
            let column = if columns { line.column } else { 0 };
            let system = if of.name == of.system_name { String::new() } else { format!("({})", of.system_name) };
            writeln!(out, "{head}{} {}:{}:{column} s={}{system}", of.name, of.file, line.line, of.start_line)?;
            head = " ".repeat(13);
        }
        Ok(())
    }
}

/// As Go's `%#x`.
fn go_hex(number: u64) -> String {
    format!("{number:#x}")
}

/// As Go's `%.4v` of a duration: its first four characters.
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

/// The labels of a set, by key.
fn label_lines(labels: &[Label]) -> String {
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
        let told =
            |&(number, unit): &(i64, &str)| if any_unit { format!("{number} {unit}") } else { number.to_string() };
        format!("{key}:[{}]", values.iter().map(told).collect::<Vec<_>>().join(" "))
    });
    sorted(texts.collect()) + &sorted(numbers.collect())
}
