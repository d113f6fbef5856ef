//! A flame graph as a picture that a browser shows, zooms and searches.

use std::io::{self, Write};

use inferno::flamegraph::{Options, from_lines};

use super::folded;
use crate::tally::saved::Saved;
use crate::tally::saved::graph::base;

/// Draws one kind of value.
///
/// # Errors
/// When `out` fails, or there is nothing to draw.
pub fn write(out: &mut dyn Write, saved: &Saved, value: usize) -> io::Result<()> {
    // What is below zero has no width.
    let stacks = folded::stacks(saved, value).into_iter().filter(|(_, sum)| *sum > 0);
    let mut lines: Vec<String> = stacks.map(|(stack, sum)| format!("{stack} {sum}")).collect();
    lines.sort_unstable();
    let of = &saved.sample_types[value];
    let mut options = Options::default();
    options.title = saved.mappings.first().map_or("flame graph".to_owned(), |first| base(&first.file).to_owned());
    options.subtitle = saved.comments.iter().find(|text| !text.starts_with('#')).map(|text| text.to_string());
    options.count_name = of.unit.as_str().to_owned();
    options.name_type = "Function:".to_owned();
    from_lines(&mut options, lines.iter().map(String::as_str), out).map_err(io::Error::other)
}
