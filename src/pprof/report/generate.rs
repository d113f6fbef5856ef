//! Generates a report: applies filters and options to a profile in pprof's order and prints it.

use std::io::{self, Write};

use super::options::{ReportError, ReportKind, ReportOptions};
use super::printer::ReportPrinter;
use crate::keyword::Keyword;
use crate::pprof::format::{SaveFormat, firefox, folded, gperftools, proto, speedscope, svg};
use crate::pprof::graph::mean;
use crate::pprof::profile::{Mapping, SavedProfile};

/// Removes uninteresting frames and, unless symbolization is off, demangles and simplifies names,
/// as pprof does after reading a profile.
pub fn prepare(profile: &mut SavedProfile, symbolize: bool) {
    if profile.mappings.is_empty() {
        // pprof adds a mapping without a name.
        profile.mappings.push(Mapping { id: 1, ..Mapping::default() });
        profile.locations.iter_mut().for_each(|location| location.mapping = Some(0));
    }
    if symbolize {
        profile.demangle();
    }
    profile.remove_uninteresting();
}

/// Prints a report. Returns warnings, such as filters that matched nothing.
///
/// # Errors
/// If there is nothing to print, or `out` fails.
pub fn generate(
    out: &mut dyn Write,
    mut profile: SavedProfile,
    options: &ReportOptions,
) -> Result<Vec<String>, ReportError> {
    if options.json && !options.kind.is_table() {
        let message = "--json prints tables: leave it out, or choose --top, --tree, --peek, --list, --disasm, --method, \
                       --traces, --tags, --comments or --raw";
        return Err(ReportError::Unavailable(message.to_owned()));
    }
    let value = profile.value_index(&options.sample_index).map_err(ReportError::Unavailable)?;
    let mut warnings = Vec::new();
    for (filter, name) in [(&options.tagfocus, "tagfocus"), (&options.tagignore, "tagignore")] {
        if let Some(filter) = filter
            && filter.is_range()
        {
            let text = filter.text().split_once('=').map_or(filter.text(), |(_, value)| value);
            warnings.push(format!("{name}:Interpreted '{text}' as range, not regexp"));
        }
    }
    // As in pprof, units are those before filtering: a filter may remove the labels that have them.
    let label_units = profile.numeric_label_units();
    let code_locations = profile.locations.len();
    let (any_root, any_leaf) = profile.add_tag_frames(&options.tagroot, &options.tagleaf, &options.unit);
    let unfiltered_total = sum_values(&profile, value, options.mean);
    let mut unmatched = Vec::new();
    unmatched.extend((!options.tagroot.is_empty() && !any_root).then_some("TagRoot"));
    unmatched.extend((!options.tagleaf.is_empty() && !any_leaf).then_some("TagLeaf"));
    unmatched.extend(profile.filter(&options.filters));
    let (focus, ignore) = (options.tagfocus.as_ref(), options.tagignore.as_ref());
    unmatched.extend(profile.filter_samples_by_tag(focus, ignore, &label_units));
    unmatched.extend(profile.filter_labels(options.tagshow.as_ref(), options.taghide.as_ref()));
    let mut libraries = None;
    if options.own.folds {
        let (any_own, values) = profile.fold_foreign(&options.own, code_locations, value);
        libraries = Some(values);
        unmatched.extend((options.own.pattern.is_some() && !any_own).then_some("Own"));
    }
    if let Some(pattern) = &options.prune_from {
        profile.prune_from(pattern);
    }
    warnings.extend(unmatched.into_iter().map(|name| format!("{name} expression matched no samples")));
    let total = if options.relative_percentages { sum_values(&profile, value, options.mean) } else { unfiltered_total };
    if options.noinlines {
        profile.remove_inlined_frames();
        if !options.showcolumns {
            profile.remove_columns();
        }
    }
    if let (ReportKind::Export(_), Some(ratio)) = (&options.kind, options.ratio()) {
        profile.multiply_values(ratio);
    }
    let mut printer =
        ReportPrinter { profile, options, libraries, label_units, value, total, unit: options.unit.clone() };
    match &options.kind {
        ReportKind::Top => printer.print_top(out)?,
        ReportKind::Tree => printer.print_tree(out, None)?,
        ReportKind::Peek(pattern) => printer.print_tree(out, Some(pattern))?,
        ReportKind::List(pattern) => printer.print_list(out, pattern)?,
        ReportKind::Disasm(pattern) => printer.print_disasm(out, pattern)?,
        ReportKind::Method(pattern) => printer.print_method(out, pattern)?,
        ReportKind::Traces => printer.print_traces(out)?,
        ReportKind::Tags => printer.print_tags(out)?,
        ReportKind::Comments => printer.print_comments(out)?,
        ReportKind::TopProto => printer.write_top_proto(out)?,
        ReportKind::Raw => printer.print_raw(out)?,
        ReportKind::Callgrind => printer.print_callgrind(out)?,
        ReportKind::Dot => printer.print_dot(out)?,
        ReportKind::Export(format) => write_format(out, &printer.profile, value, *format)?,
    }
    Ok(warnings)
}

/// Writes a profile in a file format. Reports have pprof's default options; `value` is the index of
/// the sample type, for formats that hold only one.
///
/// # Errors
/// If the format cannot hold the profile, or `out` fails.
pub fn export(out: &mut dyn Write, profile: SavedProfile, value: usize, format: SaveFormat) -> Result<(), ReportError> {
    let options = ReportOptions {
        kind: format.into(),
        sample_index: value.to_string(),
        zone: jiff::tz::TimeZone::system(),
        ..ReportOptions::default()
    };
    generate(out, profile, &options).map(drop)
}

fn write_format(
    out: &mut dyn Write,
    profile: &SavedProfile,
    value: usize,
    format: SaveFormat,
) -> Result<(), ReportError> {
    let written: io::Result<()> = match format {
        SaveFormat::Proto => proto::write(out, profile),
        SaveFormat::Gperftools => {
            gperftools::check(profile, value).map_err(ReportError::Unavailable)?;
            gperftools::write(out, profile, value)
        }
        SaveFormat::Folded => folded::write(out, profile, value),
        SaveFormat::Flame => svg::write(out, profile, value),
        SaveFormat::Speedscope => speedscope::write(out, profile, value),
        SaveFormat::Firefox => firefox::write(out, profile, value),
        SaveFormat::Recording | SaveFormat::Callgrind | SaveFormat::Dot | SaveFormat::Text => {
            Err(io::Error::other(format!("a saved profile has no {} form", format.name())))
        }
    };
    Ok(written?)
}

/// The sum of the absolute values of all samples, or of the base's samples if they are marked.
fn sum_values(profile: &SavedProfile, value: usize, is_mean: bool) -> i64 {
    let is_base: Vec<bool> = (0..profile.labels.len() as u32).map(|labels| profile.is_base_label_set(labels)).collect();
    // Sum and divisor.
    let (mut total, mut base) = ((0i64, 0i64), (0i64, 0i64));
    profile.samples.for_each_packed(|_, values, labels| {
        let divisor = if is_mean { values[0] } else { 0 };
        let add = |sums: &mut (i64, i64)| {
            *sums = (sums.0.wrapping_add(values[value].wrapping_abs()), sums.1.wrapping_add(divisor));
        };
        add(&mut total);
        if is_base.get(labels as usize).copied().unwrap_or_default() {
            add(&mut base);
        }
    });
    let (sum, divisor) = if base.0 > 0 { base } else { total };
    mean(sum, divisor)
}
