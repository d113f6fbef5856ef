//! Folded stacks: a line for each, frames from root to leaf with `;` between them, a space, a number. Flame graph tools read it.

use std::collections::HashMap;
use std::io::{self, Write};

use super::error::ReadError;
use super::feed::Feed;
use super::periods::whole_periods;
use crate::tally::saved::{Function, Line, Location, Samples, Saved, ValueType};
use crate::tally::text::Text;

/// Writes one kind of value. An inlined function is a frame; a place without a name is called by its file. Stacks that read the
/// same are one, in order of their text. A time is counted in periods, as tools expect that count samples: the counts add up to
/// the total, and stacks that get none are left out.
///
/// # Errors
/// When `out` fails.
pub fn write(out: &mut dyn Write, saved: &Saved, value: usize) -> io::Result<()> {
    let (stacks, sums): (Vec<String>, Vec<i64>) = stacks(saved, value).into_iter().unzip();
    let counts = whole_periods(&sums, saved.period_of(value).unwrap_or(1));
    let mut counted = stacks.iter().zip(counts).filter(|(_, count)| *count != 0);
    counted.try_for_each(|(stack, count)| writeln!(out, "{stack} {count}"))
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

/// Reads folded stacks; the numbers are counts of samples.
pub(super) fn read(feed: &mut Feed) -> Result<Saved, ReadError> {
    let mut saved = Saved {
        sample_types: vec![ValueType::new("samples", "count")],
        samples: Samples::of_width(1),
        labels: vec![[].into()],
        ..Saved::default()
    };
    let mut known: HashMap<Text, u32> = HashMap::new();
    let (mut stack, mut number) = (Vec::new(), 0u64);
    while let Some(line) = feed.line()? {
        number += 1;
        let line = line.trim_end_matches('\r');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || ReadError::malformed(format!("line {number} is no `frame;frame;frame COUNT`"));
        let (frames, value) = line.rsplit_once(' ').ok_or_else(wrong)?;
        let value: i64 = value.parse().map_err(|_| wrong())?;
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
    Ok(saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_again() {
        let text = "main;a 3\nmain;a;b c 7\n";
        let mut feed = Feed::open(text.as_bytes()).unwrap();
        let saved = read(&mut feed).unwrap();
        saved.check().unwrap();
        let mut out = Vec::new();
        write(&mut out, &saved, 0).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text);
        let wrong = read(&mut Feed::open("main;a 3\nmain;b\n".as_bytes()).unwrap()).unwrap_err();
        assert_eq!(wrong.to_string(), "malformed profile: line 2 is no `frame;frame;frame COUNT`");
    }
}
