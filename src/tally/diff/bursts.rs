//! Burstiness of samples. Samples that come in bursts carry less information than their number
//! says. The burstiness of a row is the variance of its share between equal parts of the baseline,
//! divided by the variance that chance explains; another window of a constant load varies as much.

use std::borrow::Borrow;
use std::collections::HashMap;

use crate::profile::totals::{BUCKET_NS, Span};
use crate::tally::text::Text;
use crate::tally::top::TopTable;

/// The number of equal parts that a baseline is divided into.
const PARTS: usize = 8;
/// The degrees of freedom of a row's parts, given their mean.
const FREE: f64 = PARTS as f64 - 1.0;
/// The weight, in degrees of freedom, of the burstiness that all rows have in common.
const COMMON_WEIGHT: f64 = 18.0;

/// The burstiness of rows. It is 1 if chance explains how samples are distributed.
#[derive(Clone, Debug)]
pub struct Burstiness {
    common: f64,
    /// The burstiness of the load: of the weight of all samples.
    pub(super) load: f64,
    /// The burstiness of each row's flat and cum, by full name.
    rows: HashMap<Text, (f64, f64)>,
}

impl Default for Burstiness {
    /// Nothing is bursty.
    fn default() -> Burstiness {
        Burstiness { common: 1.0, load: 1.0, rows: HashMap::new() }
    }
}

/// Divides the last `seen_ns` of a span into parts, the latest first. Returns none if it is too
/// short.
pub fn baseline_parts(span: Span, seen_ns: u64) -> Vec<Span> {
    let Span::Last { now_ns, .. } = span else { return Vec::new() };
    let ns = seen_ns / BUCKET_NS / PARTS as u64 * BUCKET_NS;
    let part = |index: u64| Span::Last { ns, now_ns: now_ns.saturating_sub(index * ns) };
    if ns == 0 { Vec::new() } else { (0..PARTS as u64).map(part).collect() }
}

impl Burstiness {
    /// Estimates burstiness from the tables of the parts.
    pub fn new(parts: &[impl Borrow<TopTable>]) -> Burstiness {
        let mut rows: HashMap<&Text, ([u64; PARTS], [u64; PARTS])> = HashMap::new();
        for (index, part) in parts.iter().map(Borrow::borrow).enumerate().take(PARTS) {
            for row in &part.rows {
                let (flat, cum) = rows.entry(&row.full).or_default();
                (flat[index], cum[index]) = (row.flat_ns, row.cum_ns);
            }
        }
        let mut totals = [0; PARTS];
        parts.iter().zip(&mut totals).for_each(|(part, total)| *total = part.borrow().total_ns);
        let (samples, ns) = (parts.iter().map(|part| part.borrow().samples).sum::<u64>(), totals.iter().sum::<u64>());
        let sample_ns = ns as f64 / samples.max(1) as f64;
        let flats: Vec<f64> = rows.values().filter_map(|(flat, _)| dispersion(flat, &totals, sample_ns)).collect();
        let common = (flats.iter().sum::<f64>() / flats.len().max(1) as f64).max(1.0);
        let estimate = |parts: &[u64; PARTS]| shrink(dispersion(parts, &totals, sample_ns), common);
        let rows =
            rows.into_iter().map(|(full, (flat, cum))| (full.clone(), (estimate(&flat), estimate(&cum)))).collect();
        Burstiness { common, load: load_dispersion(&totals, sample_ns).max(1.0), rows }
    }

    /// The burstiness of a row's flat and cum.
    pub fn row(&self, full: &Text) -> (f64, f64) {
        self.rows.get(full).copied().unwrap_or((self.common, self.common))
    }

    /// The burstiness of a thread or process with these weights in equal parts of the time, in
    /// which all together have `totals_ns`.
    pub fn thread(&self, parts_ns: &[u64; PARTS], totals_ns: &[u64; PARTS], sample_ns: f64) -> f64 {
        shrink(dispersion(parts_ns, totals_ns, sample_ns), self.common)
    }
}

/// The variance of a row's share of parts divided by the variance that chance explains; `None` if
/// it has all samples or none.
fn dispersion(parts: &[u64; PARTS], totals: &[u64; PARTS], sample_ns: f64) -> Option<f64> {
    let share = sum(parts) / sum(totals);
    let square = |(&ns, &total_ns): (&u64, &u64)| (ns as f64 - share * total_ns as f64).powi(2) / total_ns as f64;
    let squares = parts.iter().zip(totals).filter(|(_, total)| **total > 0).map(square).sum::<f64>();
    let free = totals.iter().filter(|total| **total > 0).count() as f64 - 1.0;
    let is_known = share > 0.0 && share < 1.0 && sample_ns > 0.0 && free > 0.0;
    is_known.then(|| squares / (share * (1.0 - share) * sample_ns * free))
}

/// The variance of the weights of parts divided by the variance that chance explains.
fn load_dispersion(totals: &[u64; PARTS], sample_ns: f64) -> f64 {
    let mean = sum(totals) / PARTS as f64;
    let squares = totals.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum::<f64>();
    if mean > 0.0 && sample_ns > 0.0 { squares / (mean * sample_ns * FREE) } else { 1.0 }
}

fn sum(parts: &[u64; PARTS]) -> f64 {
    parts.iter().map(|&ns| ns as f64).sum()
}

/// Shrinks a row's own estimate towards that of all rows, because few parts carry little
/// information. The result is not less than the latter.
fn shrink(own: Option<f64>, common: f64) -> f64 {
    own.map_or(common, |own| ((own * FREE + common * COMMON_WEIGHT) / (FREE + COMMON_WEIGHT)).max(common))
}
