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
///
/// A difference of two profiles, as `difffolded.pl` writes it, has two numbers at the end of every
/// line: the counts of the profiles `before` and `after`.
pub(super) fn read(input: &mut ProfileInput, warnings: &mut Vec<String>) -> Result<SavedProfile, ReadError> {
    let mut profile = SavedProfile {
        sample_types: vec![ValueType::new("samples", "count")],
        samples: Samples::with_width(1),
        labels: vec![[].into()],
        ..SavedProfile::default()
    };
    let mut frame_ids = FoldedFrames::default();
    let (mut stack, mut line_number) = (Vec::new(), 0u64);
    let (mut lines, mut skipped, mut first_skipped, mut has_callers) = (0u64, 0u64, 0, false);
    // The unit is a count until the first fraction, and millionths of a count from then on.
    let mut one = 1i64;
    let (mut has_two_counts, mut has_fraction_before) = (true, false);
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
            scale_to_millionths(&mut profile);
        }
        match split_first_count(frames).filter(|_| has_two_counts) {
            Some((_, before)) => has_fraction_before |= matches!(before, SampleCount::Fractional(_)),
            None => has_two_counts = false,
        }
        stack.clear();
        for frame in frames.split(';').rev() {
            stack.push(frame_ids.intern(&mut profile, frame)?);
        }
        has_callers |= stack.len() > 1;
        profile.samples.push(&stack, &[count.in_units(one)], 0);
    }
    if lines == skipped || skipped > lines / 2 && !has_callers {
        return Err(ReadError::UnknownFormat);
    }
    if has_two_counts {
        if has_fraction_before && one == 1 {
            one = MILLION;
            scale_to_millionths(&mut profile);
        }
        profile = separate_counts(&profile, one)?;
    }
    if skipped > 0 {
        warnings.push(format!(
            "skipped {skipped} of {lines} lines that are not `frame;frame COUNT`, the first in line {first_skipped}"
        ));
    }
    Ok(profile)
}

/// Changes the unit of the only value from a count to millionths of a count.
fn scale_to_millionths(profile: &mut SavedProfile) {
    profile.sample_types[0].unit = MILLIONTHS.into();
    profile.samples.retain_values(|values| {
        values.iter_mut().for_each(|value| *value = value.saturating_mul(MILLION));
        true
    });
}

/// Splits the first of two counts from the frames ahead of the second. Returns nothing if there is
/// none, or if a third number precedes it.
fn split_first_count(frames: &str) -> Option<(&str, SampleCount)> {
    let (frames, before) = frames.rsplit_once(' ')?;
    // A number is what the writer encloses in parentheses.
    let parse = |word: &str| parse_count(word).filter(|_| word.ends_with(|letter: char| letter.is_ascii_digit()));
    let before = parse(before)?;
    let word = frames.rsplit([' ', ';']).next().unwrap_or_default();
    (!word.is_empty() && parse(word).is_none()).then_some((frames, before))
}

/// Makes a profile with the values `before` and `after` of one whose leaf frames end in the count
/// before, and whose value is the count after. The value 1 is `one` of its units.
fn separate_counts(read: &SavedProfile, one: i64) -> Result<SavedProfile, ReadError> {
    let unit = &read.sample_types[0].unit;
    let mut profile = SavedProfile {
        sample_types: vec![ValueType::new("before", unit), ValueType::new("after", unit)],
        default_sample_type: "after".into(),
        labels: read.labels.clone(),
        ..SavedProfile::default()
    };
    let mut samples = Samples::with_width(2);
    let mut frame_ids = FoldedFrames::default();
    let (mut stack, mut result) = (Vec::new(), Ok(()));
    read.samples.for_each(|sample| {
        let mut before = 0;
        stack.clear();
        for (depth, &id) in sample.stack.iter().enumerate() {
            let mut frame = read.functions[id as usize].name.as_str();
            if depth == 0
                && let Some((name, count)) = split_first_count(frame)
            {
                (frame, before) = (name, count.in_units(one));
            }
            match frame_ids.intern(&mut profile, frame) {
                Ok(id) => stack.push(id),
                Err(error) => result = Err(error),
            }
        }
        samples.push(&stack, &[before, sample.values[0]], sample.labels);
    });
    profile.samples = samples;
    result.map(|()| profile)
}

/// The frames read so far.
#[derive(Default)]
struct FoldedFrames {
    ids: HashMap<Text, u32>,
}

impl FoldedFrames {
    /// Returns the index of a frame in the locations of the profile, to which a new one is added.
    fn intern(&mut self, profile: &mut SavedProfile, frame: &str) -> Result<u32, ReadError> {
        let frame = Text::from(frame);
        let next = profile.functions.len() as u32;
        let id = *self.ids.entry(frame.clone()).or_insert(next);
        if id == next {
            if self.ids.len() > MAX_FUNCTIONS {
                return Err(ReadError::malformed(format!("more than {MAX_FUNCTIONS} distinct frames")));
            }
            profile.functions.push(Function { name: frame, ..Function::default() });
            let lines = vec![Line { function: id, line: 0, column: 0 }];
            profile.locations.push(Location { id: u64::from(id) + 1, lines, ..Location::default() });
        }
        Ok(id)
    }
}

/// The number at the end of a line.
enum SampleCount {
    Whole(i64),
    Fractional(f64),
}

impl SampleCount {
    /// The count in units of which `one` are 1; those of a fraction are millionths.
    fn in_units(&self, one: i64) -> i64 {
        match self {
            SampleCount::Whole(count) => count.saturating_mul(one),
            SampleCount::Fractional(count) => (count * MILLION as f64).round() as i64,
        }
    }
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

    /// Returns the default index, the names of the values, and the stacks of each of them.
    fn values_of(text: &str) -> (usize, Vec<String>, Vec<String>) {
        let mut input = ProfileInput::open(text.as_bytes()).unwrap();
        let profile = read(&mut input, &mut Vec::new()).unwrap();
        profile.check().unwrap();
        let kinds = profile.sample_types.iter().map(|of| of.kind.to_string()).collect();
        let stacks = (0..profile.sample_types.len()).map(|value| {
            let mut out = Vec::new();
            write(&mut out, &profile, value).unwrap();
            String::from_utf8(out).unwrap()
        });
        (profile.value_index("").unwrap(), kinds, stacks.collect())
    }

    /// Regression test: the first count was a part of the last frame's name.
    #[test]
    fn two_counts_are_two_values() {
        let text = "# of two\nmain;a 3 5\nmain;b c 0 7\nmain;a;d (4711) 2 0\n";
        let (default, kinds, stacks) = values_of(text);
        assert_eq!((default, kinds), (1, vec!["before".to_owned(), "after".to_owned()]));
        assert_eq!(stacks, ["main;a 3\nmain;a;d (4711) 2\n", "main;a 5\nmain;b c 7\n"]);
        let (_, _, stacks) = values_of("main;a 1.5 2\nmain;b 2 3\n");
        assert_eq!(stacks, ["main;a 1.5\nmain;b 2\n", "main;a 2\nmain;b 3\n"]);
        // A number that not every line has is part of a name.
        for text in ["main;a 3 5\nmain;b 7\n", "main;a 3 5\nmain;b 1 2 3\n", "main;a 3 5\nmain;4 2 3\n"] {
            let (default, kinds, stacks) = values_of(text);
            assert_eq!((default, kinds.len(), stacks.len()), (0, 1, 1), "{text}");
            assert!(stacks[0].contains("main;a (3) 5\n"), "{stacks:?}");
        }
    }
}
