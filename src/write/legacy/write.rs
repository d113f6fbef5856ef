//! A saved profile to a gperftools CPU profile of 64 bits, for tools that know nothing newer. Inlined calls, labels and names do not
//! fit into this format.

use std::fs::File;
use std::io::{self, Read, Write};

use crate::link::legacy::{self, END, NOBODY};
use crate::tally::saved::{Saved, ValueType};
use crate::tally::units::{are_alike, scale};
use crate::write::periods::whole_periods;

/// Where the first file is put that has no place of its own, and how far from it the next.
const FIRST: u64 = 0x5500_0000_0000;
const STEP: u64 = 1 << 36;

/// Where a file is said to lie.
struct Place {
    start: u64,
    limit: u64,
    offset: u64,
    /// Added to its locations' addresses.
    bias: u64,
}

/// Whether the format can hold a value: CPU time, or samples that each stand for a tick of it.
///
/// # Errors
/// One sentence that says why not.
pub fn check(saved: &Saved, value: usize) -> Result<(), String> {
    let ValueType { kind, unit } = &saved.sample_types[value];
    // Counts of a heap profile are of objects.
    let is_heap = saved.sample_types.iter().any(|of| are_alike(&of.unit, "bytes"));
    let is_samples = *kind == *"samples" || kind.ends_with("_samples");
    if are_alike(unit, "nanoseconds") || *unit == *"count" && (is_samples || !is_heap) {
        return Ok(());
    }
    Err(format!("a gperftools CPU profile holds CPU time, not {kind} in {unit}; write another format, such as --proto"))
}

/// Writes it: the value as ticks of its period, which add up to the total.
///
/// # Errors
/// When `out` fails, or the format cannot hold the value.
pub fn write(out: &mut dyn Write, saved: &Saved, value: usize) -> io::Result<()> {
    check(saved, value).map_err(io::Error::other)?;
    let places = places(saved);
    let word = |out: &mut dyn Write, word: u64| out.write_all(&word.to_le_bytes());
    let own_period = saved.period > 0 && are_alike(&saved.period_type.unit, "ns");
    let period_ns = if own_period { scale(saved.period, &saved.period_type.unit, "ns").0 } else { 10_000_000.0 };
    // The file has it in whole microseconds.
    let period_us = ((period_ns / 1000.0) as u64).max(1);
    for head in legacy::head(period_us) {
        word(out, head)?;
    }
    let unit = &saved.sample_types[value].unit;
    let values = saved.samples.values(value).map(|value| value.max(0));
    // A value that is no time counts as it is.
    let ticks = if are_alike(unit, "nanoseconds") {
        let one_ns = scale(1, unit, "ns").0 as i64;
        let values_ns: Vec<i64> = values.map(|value| value.saturating_mul(one_ns)).collect();
        whole_periods(&values_ns, period_us.saturating_mul(1000))
    } else {
        values.collect()
    };
    let mut failed = None;
    let mut record = Vec::new();
    saved.samples.each(|sample| {
        let ticks = ticks[sample.index] as u64;
        record.clear();
        let mut addresses = sample.stack.iter().filter_map(|&location| {
            let location = &saved.locations[location as usize];
            let bias = location.mapping.map_or(0, |mapping| places[mapping as usize].bias);
            (location.address != 0 || location.mapping.is_some()).then(|| location.address.wrapping_add(bias))
        });
        record.extend(addresses.next());
        record.extend(NOBODY);
        // Callers are told by where the call returns to.
        record.extend(addresses.map(|address| address.wrapping_add(1)));
        if ticks == 0 || record.len() == NOBODY.len() || failed.is_some() {
            return;
        }
        let written = [ticks, record.len() as u64].into_iter().chain(record.iter().copied());
        failed = written.map(|number| word(out, number)).find_map(Result::err);
    });
    failed.map_or(Ok(()), Err)?;
    for end in END {
        word(out, end)?;
    }
    for (mapping, place) in saved.mappings.iter().zip(&places) {
        let Place { start, limit, offset, .. } = place;
        if limit > start {
            let file = mapping.file.replace(char::is_control, "?");
            writeln!(out, "{start:08x}-{limit:08x} r-xp {offset:08x} 00:00 0          {file}")?;
        }
    }
    Ok(())
}

fn places(saved: &Saved) -> Vec<Place> {
    let mut sorted: Vec<_> = saved.mappings.iter().map(|of| (of.start, of.limit)).collect();
    sorted.sort_unstable();
    let are_apart = sorted.windows(2).all(|pair| pair[0].1 <= pair[1].0) && sorted.first().is_none_or(|of| of.0 > 0);
    let place = |(index, of): (usize, &crate::tally::saved::Mapping)| {
        let (start, limit, offset) = (of.start, of.limit, of.offset);
        if are_apart {
            return Place { start, limit, offset, bias: 0 };
        }
        if is_fixed(&of.file) {
            // It is where it says it is; what was mapped there began so far into the file.
            const USUAL: u64 = 0x40_0000;
            let start = USUAL.min(limit);
            return Place { start, limit, offset: 0, bias: 0 };
        }
        let base = FIRST + index as u64 * STEP;
        let size = limit.wrapping_sub(start).min(STEP);
        Place { start: base, limit: base + size, offset, bias: base.wrapping_sub(start) }
    };
    saved.mappings.iter().enumerate().map(place).collect()
}

/// Whether a program can only lie where its file says.
fn is_fixed(file: &str) -> bool {
    let mut head = [0; 18];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut head));
    /// Kind of an ELF file that is not moved.
    const EXECUTABLE: [u8; 2] = [2, 0];
    read.is_ok() && head.starts_with(b"\x7fELF") && head[16..18] == EXECUTABLE
}
