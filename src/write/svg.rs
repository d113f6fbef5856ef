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
    let mut stacks = Vec::new();
    folded::write(&mut stacks, saved, value)?;
    let stacks = String::from_utf8_lossy(&stacks);
    // What is below zero has no width.
    let mut lines: Vec<&str> = stacks
        .lines()
        .filter(|line| !line.rsplit_once(' ').is_some_and(|(_, number)| number.starts_with('-')))
        .collect();
    lines.sort_unstable();
    let of = &saved.sample_types[value];
    let mut options = Options::default();
    options.title = saved.mappings.first().map_or("flame graph".to_owned(), |first| base(&first.file).to_owned());
    options.subtitle = saved.comments.iter().find(|text| !text.starts_with('#')).map(|text| text.to_string());
    options.count_name = of.unit.as_str().to_owned();
    options.name_type = "Function:".to_owned();
    from_lines(&mut options, lines, out).map_err(io::Error::other)
}
