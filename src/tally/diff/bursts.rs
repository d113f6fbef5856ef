//! How much less samples tell than their number says, because they come in bursts: by how much more the parts of the baseline differ
//! from each other than chance has it. Another window of a load that stays the same differs by as much.

use std::borrow::Borrow;
use std::collections::HashMap;

use crate::profile::window::{BUCKET_NS, Span};
use crate::tally::table::Table;
use crate::tally::text::Text;

/// Parts of equal length that a baseline is looked at by.
const PARTS: usize = 8;
/// What of a row's differences is its own, where the parts' mean is given.
const FREE: f64 = PARTS as f64 - 1.0;
/// How much what all rows have in common counts beside that.
const COMMON: f64 = 18.0;

/// How bursty rows are: 1 where chance explains how they come.
#[derive(Clone, Debug)]
pub struct Bursts {
    common: f64,
    /// By full name: its flat, its cum.
    rows: HashMap<Text, (f64, f64)>,
}

impl Default for Bursts {
    /// Nothing is known to be bursty.
    fn default() -> Bursts {
        Bursts { common: 1.0, rows: HashMap::new() }
    }
}

/// The parts of the last so many ns of a span, the latest first; none where it is too short.
pub fn parts(span: Span, seen_ns: u64) -> Vec<Span> {
    let Span::Last { now_ns, .. } = span else { return Vec::new() };
    let ns = seen_ns / BUCKET_NS / PARTS as u64 * BUCKET_NS;
    let part = |index: u64| Span::Last { ns, now_ns: now_ns.saturating_sub(index * ns) };
    if ns == 0 { Vec::new() } else { (0..PARTS as u64).map(part).collect() }
}

impl Bursts {
    /// Of what these parts came to.
    pub fn of(parts: &[impl Borrow<Table>]) -> Bursts {
        let mut rows: HashMap<&Text, ([u64; PARTS], [u64; PARTS])> = HashMap::new();
        for (at, part) in parts.iter().map(Borrow::borrow).enumerate().take(PARTS) {
            for row in &part.rows {
                let (flat, cum) = rows.entry(&row.full).or_default();
                (flat[at], cum[at]) = (row.flat_ns, row.cum_ns);
            }
        }
        let heads = parts.iter().map(Borrow::borrow);
        let (samples, ns) = heads.fold((0, 0), |sum, part| (sum.0 + part.samples, sum.1 + part.total_ns));
        let sample_ns = ns as f64 / samples.max(1) as f64;
        let flats: Vec<f64> = rows.values().filter_map(|(flat, _)| dispersion(flat, sample_ns)).collect();
        let count = flats.len().max(1) as f64;
        // As much as it may well be: it is known no better than from so many differences.
        let doubt = 1.0 + (2.0 / (count * FREE)).sqrt();
        let common = (flats.iter().sum::<f64>() / count * doubt).max(1.0);
        let judged = |parts: &[u64; PARTS]| shrunk(dispersion(parts, sample_ns), common);
        let rows = rows.into_iter().map(|(full, (flat, cum))| (full.clone(), (judged(&flat), judged(&cum)))).collect();
        Bursts { common, rows }
    }

    /// Of a row's flat and its cum.
    pub fn row(&self, full: &Text) -> (f64, f64) {
        self.rows.get(full).copied().unwrap_or((self.common, self.common))
    }

    /// Of something that weighed so much in equal parts of the time, ns.
    pub fn load(&self, parts_ns: &[u64; PARTS], sample_ns: f64) -> f64 {
        shrunk(dispersion(parts_ns, sample_ns), self.common)
    }
}

/// How much parts differ, divided by what chance has it; nothing where there is nothing.
fn dispersion(parts: &[u64; PARTS], sample_ns: f64) -> Option<f64> {
    let mean = parts.iter().map(|&ns| ns as f64).sum::<f64>() / PARTS as f64;
    let squares = parts.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum::<f64>();
    (mean > 0.0 && sample_ns > 0.0).then(|| squares / (mean * sample_ns * FREE))
}

/// Few parts tell little: what all rows have in common counts too, and no row is taken for calmer than that.
fn shrunk(own: Option<f64>, common: f64) -> f64 {
    own.map_or(common, |own| ((own * FREE + common * COMMON) / (FREE + COMMON)).max(common))
}
