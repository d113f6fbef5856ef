//! Folded stacks, the format of flame graph tools: one line per stack, with the frames from root to
//! leaf separated by `;`, a space, and a number.

use std::collections::HashMap;
use std::io::{self, Write};

use super::input::ProfileInput;
use super::periods::whole_periods;
use crate::pprof::error::ReadError;
use crate::pprof::profile::{Function, Line, Location, SavedProfile, ValueType};
use crate::pprof::samples::Samples;
use crate::pprof::units::{MILLION, MILLIONTHS};
use crate::tally::text::Text;

/// Maximum number of distinct frames in a file.
const MAX_FUNCTIONS: usize = 1 << 22;

/// Writes the sample values with index `value`, one line per distinct stack, sorted by text.
///
/// An inlined function is a frame of its own; a location without a name is shown as its file. A
/// time is written as a number of sampling periods, because the tools expect counts of samples; the
/// counts add up to the total, and stacks with a count of 0 are left out.
///
/// # Errors
/// If `out` fails.
pub fn write(out: &mut dyn Write, profile: &SavedProfile, value: usize) -> io::Result<()> {
    let (stacks, sums): (Vec<String>, Vec<i64>) = sum_stacks(profile, value).into_iter().unzip();
    let counts = whole_periods(&sums, profile.period_of(value).unwrap_or(1));
    let mut counted = stacks.iter().zip(counts).filter(|(_, count)| *count != 0);
    if profile.sample_types[value].unit == *MILLIONTHS {
        return counted.try_for_each(|(stack, count)| writeln!(out, "{stack} {}", format_millionths(count)));
    }
    counted.try_for_each(|(stack, count)| writeln!(out, "{stack} {count}"))
}

/// Formats millionths as a decimal number without trailing zeros.
fn format_millionths(millionths: i64) -> String {
    let sign = if millionths < 0 { "-" } else { "" };
    let (whole, part) = (millionths.unsigned_abs() / MILLION as u64, millionths.unsigned_abs() % MILLION as u64);
    let text = format!("{sign}{whole}.{part:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the distinct stacks in text form with the sum of their values, sorted by text. Stacks
/// with a sum of 0 are left out.
pub(super) fn sum_stacks(profile: &SavedProfile, value: usize) -> Vec<(String, i64)> {
    let names: Vec<Vec<String>> = profile.locations.iter().map(|location| frame_names(profile, location)).collect();
    let mut sums: HashMap<String, i64> = HashMap::new();
    profile.samples.for_each(|sample| {
        let frames = sample.stack.iter().rev().flat_map(|&location| names[location as usize].iter());
        let stack = frames.map(String::as_str).collect::<Vec<&str>>().join(";");
        let sum = sums.entry(enclose_number(stack)).or_default();
        *sum = sum.wrapping_add(sample.values[value]);
    });
    let mut lines: Vec<(String, i64)> = sums.into_iter().filter(|(_, sum)| *sum != 0).collect();
    lines.sort();
    lines
}

/// The names of the functions at a location, outermost first.
fn frame_names(profile: &SavedProfile, location: &Location) -> Vec<String> {
    if location.lines.is_empty() {
        let object = profile.object(location).as_str();
        let name = if object.is_empty() {
            format!("{:#x}", location.address)
        } else {
            format!("[{}]", object.rsplit('/').next().unwrap_or(object))
        };
        return vec![sanitize_frame(&name)];
    }
    let name = |line: &Line| sanitize_frame(&profile.functions[line.function as usize].name);
    location.lines.iter().rev().map(name).collect()
}

/// Replaces the characters that would end a frame (`;`) or a stack (a line break).
fn sanitize_frame(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            ';' => ':',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

/// Encloses a number at the end of a stack in parentheses: `held by worker (4711)`. Flame graph tools
/// take two numbers at the end of a line for the counts of two profiles.
fn enclose_number(stack: String) -> String {
    match stack.rsplit_once(' ') {
        Some((rest, word)) if word.ends_with(|letter: char| letter.is_ascii_digit()) && word.parse::<f64>().is_ok() => {
            format!("{rest} ({word})")
        }
        _ => stack,
    }
}

/// Reads folded stacks. The numbers are counts of samples and may have fractions. Lines that are
/// not stacks are skipped and reported in `warnings`. If most of them are, and no stack has more
/// than one frame, the text is something else.
pub(super) fn read(input: &mut ProfileInput, warnings: &mut Vec<String>) -> Result<SavedProfile, ReadError> {
    let mut profile = SavedProfile {
        sample_types: vec![ValueType::new("samples", "count")],
        samples: Samples::with_width(1),
        labels: vec![[].into()],
        ..SavedProfile::default()
    };
    let mut function_ids: HashMap<Text, u32> = HashMap::new();
    let (mut stack, mut line_number) = (Vec::new(), 0u64);
    let (mut lines, mut skipped, mut first_skipped, mut has_callers) = (0u64, 0u64, 0, false);
    // The unit is a count until the first fraction, and millionths of a count from then on.
    let mut one = 1i64;
    let mut next_line = |has_stacks: bool| match input.read_line() {
        Err(ReadError::Malformed(_)) if !has_stacks => Err(ReadError::UnknownFormat),
        line => line,
    };
    while let Some(line) = next_line(lines > skipped)? {
        line_number += 1;
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        lines += 1;
        let Some((frames, count)) =
            line.rsplit_once(' ').and_then(|(frames, count)| Some((frames, parse_count(count)?)))
        else {
            skipped += 1;
            first_skipped = if skipped == 1 { line_number } else { first_skipped };
            continue;
        };
        if matches!(count, SampleCount::Fractional(_)) && one == 1 {
            one = MILLION;
            profile.sample_types[0].unit = MILLIONTHS.into();
            profile.samples.retain_values(|values| {
                values.iter_mut().for_each(|value| *value = value.saturating_mul(MILLION));
                true
            });
        }
        let value = match count {
            SampleCount::Whole(count) => count.saturating_mul(one),
            SampleCount::Fractional(count) => (count * MILLION as f64).round() as i64,
        };
        stack.clear();
        for frame in frames.split(';').rev() {
            let frame = Text::from(frame);
            let next = profile.functions.len() as u32;
            let id = *function_ids.entry(frame.clone()).or_insert(next);
            if id == next {
                if function_ids.len() > MAX_FUNCTIONS {
                    return Err(ReadError::malformed(format!("more than {MAX_FUNCTIONS} distinct frames")));
                }
                profile.functions.push(Function { name: frame, ..Function::default() });
                let lines = vec![Line { function: id, line: 0, column: 0 }];
                profile.locations.push(Location { id: u64::from(id) + 1, lines, ..Location::default() });
            }
            stack.push(id);
        }
        has_callers |= stack.len() > 1;
        profile.samples.push(&stack, &[value], 0);
    }
    if lines == skipped || skipped > lines / 2 && !has_callers {
        return Err(ReadError::UnknownFormat);
    }
    if skipped > 0 {
        warnings.push(format!(
            "skipped {skipped} of {lines} lines that are not `frame;frame COUNT`, the first in line {first_skipped}"
        ));
    }
    Ok(profile)
}

/// The number at the end of a line.
enum SampleCount {
    Whole(i64),
    Fractional(f64),
}

fn parse_count(text: &str) -> Option<SampleCount> {
    if let Ok(count) = text.parse() {
        return Some(SampleCount::Whole(count));
    }
    // `f64::from_str` also accepts words: `inf`, `nan`.
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let count: f64 = text.parse().ok().filter(|count: &f64| is_digits && count.is_finite())?;
    Some(if count.fract() == 0.0 { SampleCount::Whole(count as i64) } else { SampleCount::Fractional(count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_stacks_equal_the_stacks_read() {
        let text = "main;a 3\nmain;a;b c 7\n";
        let mut input = ProfileInput::open(text.as_bytes()).unwrap();
        let profile = read(&mut input, &mut Vec::new()).unwrap();
        profile.check().unwrap();
        let mut out = Vec::new();
        write(&mut out, &profile, 0).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
