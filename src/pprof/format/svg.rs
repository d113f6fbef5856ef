//! Writes a flame graph as SVG, which a browser shows, zooms and searches.

use std::io::{self, Write};

use inferno::flamegraph::{Options, from_lines};

use super::folded;
use crate::pprof::path::base;
use crate::pprof::profile::SavedProfile;

/// Draws the sample values with index `value`. Stacks without a positive value have no width and
/// are left out.
///
/// # Errors
/// If `out` fails, or there is nothing to draw.
pub fn write(out: &mut dyn Write, profile: &SavedProfile, value: usize) -> io::Result<()> {
    let stacks = folded::sum_stacks(profile, value).into_iter().filter(|(_, sum)| *sum > 0);
    let mut lines: Vec<String> = stacks.map(|(stack, sum)| format!("{stack} {sum}")).collect();
    lines.sort_unstable();
    let mut options = Options::default();
    options.title = profile.mappings.first().map_or("flame graph".to_owned(), |first| base(&first.file).to_owned());
    options.subtitle = profile.comments.iter().find(|text| !text.starts_with('#')).map(|text| text.to_string());
    options.count_name = profile.sample_types[value].unit.as_str().to_owned();
    options.name_type = "Function:".to_owned();
    from_lines(&mut options, lines.iter().map(String::as_str), out).map_err(io::Error::other)
}
