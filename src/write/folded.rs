//! Folded stacks: a line for each, frames from root to leaf with `;` between them, a space, a number. Flame graph tools read it.

use std::collections::HashMap;
use std::io::{self, Write};

use super::error::ReadError;
use super::feed::Feed;
use super::periods::whole_periods;
use crate::tally::saved::{Function, Line, Location, Samples, Saved, ValueType};
use crate::tally::text::Text;
use crate::tally::units::{MILLION, MILLIONTHS};

/// Writes one kind of value. An inlined function is a frame; a place without a name is called by
/// its file. Stacks that read the same are one, in order of their text. A time is counted in
/// periods, as tools expect that count samples: the counts add up to the total, and stacks that get
/// none are left out.
///
/// # Errors
/// When `out` fails.
pub fn write(out: &mut dyn Write, saved: &Saved, value: usize) -> io::Result<()> {
    let (stacks, sums): (Vec<String>, Vec<i64>) = stacks(saved, value).into_iter().unzip();
    let counts = whole_periods(&sums, saved.period_of(value).unwrap_or(1));
    let mut counted = stacks.iter().zip(counts).filter(|(_, count)| *count != 0);
    if saved.sample_types[value].unit == *MILLIONTHS {
        return counted.try_for_each(|(stack, count)| writeln!(out, "{stack} {}", fraction(count)));
    }
    counted.try_for_each(|(stack, count)| writeln!(out, "{stack} {count}"))
}

/// Millionths as a decimal number, without zeros at its end.
pub(super) fn fraction(millionths: i64) -> String {
    let sign = if millionths < 0 { "-" } else { "" };
    let (whole, part) = (millionths.unsigned_abs() / MILLION as u64, millionths.unsigned_abs() % MILLION as u64);
    let text = format!("{sign}{whole}.{part:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Stacks as they are written, and the sum of a value for each, where it is not 0.
pub(super) fn stacks(saved: &Saved, value: usize) -> Vec<(String, i64)> {
    let names: Vec<Vec<String>> = saved.locations.iter().map(|location| frames(saved, location)).collect();
    let mut sums: HashMap<String, i64> = HashMap::new();
    saved.samples.each(|sample| {
        let frames = sample.stack.iter().rev().flat_map(|&location| names[location as usize].iter());
        let stack = frames.map(String::as_str).collect::<Vec<&str>>().join(";");
        let sum = sums.entry(stack).or_default();
        *sum = sum.wrapping_add(sample.values[value]);
    });
    let mut lines: Vec<(String, i64)> = sums.into_iter().filter(|(_, sum)| *sum != 0).collect();
    lines.sort();
    lines
}

/// The names at a place, outermost first.
fn frames(saved: &Saved, location: &Location) -> Vec<String> {
    if location.lines.is_empty() {
        let object = saved.object(location).as_str();
        let name = if object.is_empty() {
            format!("{:#x}", location.address)
        } else {
            format!("[{}]", object.rsplit('/').next().unwrap_or(object))
        };
        return vec![written(&name)];
    }
    let name = |line: &Line| written(&saved.functions[line.function as usize].name);
    location.lines.iter().rev().map(name).collect()
}

/// `;` would end the frame, and a line break the stack.
fn written(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            ';' => ':',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

/// Distinct frames in one file, at most.
const MAX_FUNCTIONS: usize = 1 << 22;

/// Reads folded stacks; the numbers are counts of samples, and may have fractions. What is no stack
/// is skipped and counted: a sentence about it goes to `remarks`.
pub(super) fn read(feed: &mut Feed, remarks: &mut Vec<String>) -> Result<Saved, ReadError> {
    let mut saved = Saved {
        sample_types: vec![ValueType::new("samples", "count")],
        samples: Samples::of_width(1),
        labels: vec![[].into()],
        ..Saved::default()
    };
    let mut known: HashMap<Text, u32> = HashMap::new();
    let (mut stack, mut number) = (Vec::new(), 0u64);
    let (mut all, mut skipped, mut first_skipped) = (0u64, 0u64, 0);
    // Values are millionths from the first fraction on.
    let mut one = 1i64;
    let mut next_line = |has_stacks: bool| match feed.line() {
        Err(ReadError::Malformed(_)) if !has_stacks => Err(ReadError::Unknown),
        line => line,
    };
    while let Some(line) = next_line(all > skipped)? {
        number += 1;
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        all += 1;
        let Some((frames, value)) = line.rsplit_once(' ').and_then(|(frames, value)| Some((frames, count(value)?)))
        else {
            skipped += 1;
            first_skipped = if skipped == 1 { number } else { first_skipped };
            continue;
        };
        if matches!(value, Count::Fraction(_)) && one == 1 {
            one = MILLION;
            saved.sample_types[0].unit = MILLIONTHS.into();
            saved.samples.revalue(|values| {
                values.iter_mut().for_each(|value| *value = value.saturating_mul(MILLION));
                true
            });
        }
        let value = match value {
            Count::Whole(value) => value.saturating_mul(one),
            Count::Fraction(value) => (value * MILLION as f64).round() as i64,
        };
        stack.clear();
        for frame in frames.split(';').rev() {
            let frame = Text::from(frame);
            let next = saved.functions.len() as u32;
            let index = *known.entry(frame.clone()).or_insert(next);
            if index == next {
                if known.len() > MAX_FUNCTIONS {
                    return Err(ReadError::malformed(format!("more than {MAX_FUNCTIONS} distinct frames")));
                }
                saved.functions.push(Function { name: frame, ..Function::default() });
                let lines = vec![Line { function: index, line: 0, column: 0 }];
                saved.locations.push(Location { id: u64::from(index) + 1, lines, ..Location::default() });
            }
            stack.push(index);
        }
        saved.samples.push(&stack, &[value], 0);
    }
    if all == skipped {
        return Err(ReadError::Unknown);
    }
    if skipped > 0 {
        let verb = if skipped == 1 { "is" } else { "are" };
        remarks.push(format!(
            "{skipped} of {all} lines {verb} skipped, not being `frame;frame COUNT`; the first is line {first_skipped}"
        ));
    }
    Ok(saved)
}

/// The number behind a stack.
enum Count {
    Whole(i64),
    Fraction(f64),
}

fn count(text: &str) -> Option<Count> {
    if let Ok(value) = text.parse() {
        return Some(Count::Whole(value));
    }
    // No words, which are numbers to a parser too: inf, nan.
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let value: f64 = text.parse().ok().filter(|value: &f64| is_digits && value.is_finite())?;
    Some(if value.fract() == 0.0 { Count::Whole(value as i64) } else { Count::Fraction(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_again() {
        let text = "main;a 3\nmain;a;b c 7\n";
        let mut feed = Feed::open(text.as_bytes()).unwrap();
        let saved = read(&mut feed, &mut Vec::new()).unwrap();
        saved.check().unwrap();
        let mut out = Vec::new();
        write(&mut out, &saved, 0).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
