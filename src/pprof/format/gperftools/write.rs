//! Writes gperftools CPU profiles with words of 64 bits, for tools that read nothing newer. The
//! format has no names, labels and inlined calls.

use std::fs::File;
use std::io::{self, Read, Write};

use crate::pprof::format::periods::whole_periods;
use crate::pprof::profile::{Mapping, SavedProfile, ValueType};
use crate::pprof::units::{are_compatible, scale};
use crate::wire::gperftools::{self, HANDLER_FRAMES, TRAILER};

/// Address of the first mapping if the profile's mappings overlap, and the distance to the next.
const FIRST_BASE: u64 = 0x5500_0000_0000;
const BASE_STEP: u64 = 1 << 36;

/// A mapping as it is written.
struct OutputMapping {
    start: u64,
    limit: u64,
    offset: u64,
    /// The difference to the addresses of the profile's locations.
    bias: u64,
}

/// Checks whether the format can hold the values with index `value`: CPU time, or samples that each
/// stand for a tick of it.
///
/// # Errors
/// If it cannot, a message for the user.
pub fn check(profile: &SavedProfile, value: usize) -> Result<(), String> {
    let ValueType { kind, unit } = &profile.sample_types[value];
    // The counts of a heap profile are numbers of objects.
    let is_heap = profile.sample_types.iter().any(|of| are_compatible(&of.unit, "bytes"));
    let is_samples = *kind == *"samples" || kind.ends_with("_samples");
    if are_compatible(unit, "nanoseconds") || *unit == *"count" && (is_samples || !is_heap) {
        return Ok(());
    }
    Err(format!("a gperftools CPU profile holds CPU time, not {kind} in {unit}; write another format, such as --proto"))
}

/// Writes the sample values with index `value` as numbers of sampling periods, which add up to the
/// total.
///
/// # Errors
/// If `out` fails or [`check`] does.
pub fn write(out: &mut dyn Write, profile: &SavedProfile, value: usize) -> io::Result<()> {
    check(profile, value).map_err(io::Error::other)?;
    let mappings = output_mappings(profile);
    let write_word = |out: &mut dyn Write, word: u64| out.write_all(&word.to_le_bytes());
    let own_period = profile.period > 0 && are_compatible(&profile.period_type.unit, "ns");
    let period_ns = if own_period { scale(profile.period, &profile.period_type.unit, "ns").0 } else { 10_000_000.0 };
    // The file states the period in whole microseconds.
    let period_us = ((period_ns / 1000.0) as u64).max(1);
    for head in gperftools::header(period_us) {
        write_word(out, head)?;
    }
    let unit = &profile.sample_types[value].unit;
    let values = profile.samples.values(value).map(|value| value.max(0));
    // A count of samples is a number of periods already.
    let ticks = if are_compatible(unit, "nanoseconds") {
        let one_ns = scale(1, unit, "ns").0 as i64;
        let values_ns: Vec<i64> = values.map(|value| value.saturating_mul(one_ns)).collect();
        whole_periods(&values_ns, period_us.saturating_mul(1000))
    } else {
        values.collect()
    };
    let mut failed = None;
    let mut record = Vec::new();
    profile.samples.for_each(|sample| {
        let ticks = ticks[sample.index] as u64;
        record.clear();
        let mut addresses = sample.stack.iter().filter_map(|&location| {
            let location = &profile.locations[location as usize];
            let bias = location.mapping.map_or(0, |mapping| mappings[mapping as usize].bias);
            (location.address != 0 || location.mapping.is_some()).then(|| location.address.wrapping_add(bias))
        });
        record.extend(addresses.next());
        record.extend(HANDLER_FRAMES);
        // Callers are recorded as return addresses.
        record.extend(addresses.map(|address| address.wrapping_add(1)));
        if ticks == 0 || record.len() == HANDLER_FRAMES.len() || failed.is_some() {
            return;
        }
        let written = [ticks, record.len() as u64].into_iter().chain(record.iter().copied());
        failed = written.map(|word| write_word(out, word)).find_map(Result::err);
    });
    failed.map_or(Ok(()), Err)?;
    for end in TRAILER {
        write_word(out, end)?;
    }
    for (mapping, output) in profile.mappings.iter().zip(&mappings) {
        let OutputMapping { start, limit, offset, .. } = output;
        if limit > start {
            let file = mapping.file.replace(char::is_control, "?");
            writeln!(out, "{start:08x}-{limit:08x} r-xp {offset:08x} 00:00 0          {file}")?;
        }
    }
    Ok(())
}

/// The profile's mappings, moved apart if they overlap.
fn output_mappings(profile: &SavedProfile) -> Vec<OutputMapping> {
    let mut sorted: Vec<_> = profile.mappings.iter().map(|of| (of.start, of.limit)).collect();
    sorted.sort_unstable();
    let are_apart = sorted.windows(2).all(|pair| pair[0].1 <= pair[1].0) && sorted.first().is_none_or(|of| of.0 > 0);
    let output = |(index, of): (usize, &Mapping)| {
        let (start, limit, offset) = (of.start, of.limit, of.offset);
        if are_apart {
            return OutputMapping { start, limit, offset, bias: 0 };
        }
        if is_fixed(&of.file) {
            // The addresses are the file's own; its first segment is at the default load address.
            const LOAD_ADDRESS: u64 = 0x40_0000;
            let start = LOAD_ADDRESS.min(limit);
            return OutputMapping { start, limit, offset: 0, bias: 0 };
        }
        let base = FIRST_BASE + index as u64 * BASE_STEP;
        let size = limit.wrapping_sub(start).min(BASE_STEP);
        OutputMapping { start: base, limit: base + size, offset, bias: base.wrapping_sub(start) }
    };
    profile.mappings.iter().enumerate().map(output).collect()
}

/// Whether a file is a program that is not position-independent.
fn is_fixed(file: &str) -> bool {
    let mut head = [0; 18];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut head));
    /// `ET_EXEC`, little-endian.
    const EXECUTABLE: [u8; 2] = [2, 0];
    read.is_ok() && head.starts_with(b"\x7fELF") && head[16..18] == EXECUTABLE
}
