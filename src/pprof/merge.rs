//! Merges saved profiles into one (google/pprof: `merge.go`). Locations are equal if mapping,
//! address and lines are; samples are equal if locations and labels are. A base profile is
//! subtracted by merging it with negated values.

use std::collections::HashMap;
use std::slice::from_ref;

use super::profile::{Function, Label, LabelValue, Line, Location, Mapping, SavedProfile, ValueType};
use super::samples::Samples;
use crate::pprof::units::{are_compatible, scale};
use crate::tally::text::Text;

/// The label key of a base's samples, set if percentages are relative to the base.
const BASE_LABEL: &str = "pprof::base";

/// The options for subtracting a base profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subtraction {
    /// Percentages are relative to the base (`-diff_base`).
    pub is_diff: bool,
    /// The profile is first scaled to the base's total (`-normalize`).
    pub normalize: bool,
}

impl SavedProfile {
    /// Gives all profiles the same sample types and units.
    ///
    /// # Errors
    /// If their sample types are incompatible.
    pub fn unify(all: &mut [SavedProfile]) -> Result<(), String> {
        keep_common_sample_types(all)?;
        unify_units(all)
    }

    /// Merges profiles. A single profile is returned unchanged.
    ///
    /// # Errors
    /// If their sample types are incompatible.
    pub fn merge(mut all: Vec<SavedProfile>) -> Result<SavedProfile, String> {
        SavedProfile::unify(&mut all)?;
        if all.len() == 1 {
            return all.pop().ok_or_else(|| "no profiles to merge".to_owned());
        }
        merge_compatible(&all, MergedTimes::Dropped)
    }

    /// Merges profiles of one recording with equal sample types and units. If all of them have the
    /// times of their samples, each sample keeps its own; otherwise equal samples are added up.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn merge_parts(all: &[SavedProfile]) -> Result<SavedProfile, String> {
        let is_timed = |of: &SavedProfile| of.samples.times_ns().len() == of.samples.len();
        let times = if all.iter().all(is_timed) { MergedTimes::Kept } else { MergedTimes::Dropped };
        merge_compatible(all, times)
    }

    /// Keeps the sample types with these indices, in this order.
    pub fn select_values(&mut self, indices: &[usize]) {
        self.sample_types = indices.iter().map(|&index| self.sample_types[index].clone()).collect();
        let mut samples = Samples::with_width(indices.len());
        self.samples.for_each_packed(|packed, values, labels| {
            let values: Vec<i64> = indices.iter().map(|&index| values[index]).collect();
            samples.push_packed(packed, &values, labels);
        });
        samples.set_times_ns(self.samples.times_ns().to_vec());
        self.samples = samples;
    }

    /// Adds equal samples up, and removes those without a value and everything that no sample uses.
    ///
    /// # Errors
    /// None of a profile that passes [`check`](Self::check).
    pub fn compact(self) -> Result<SavedProfile, String> {
        merge_compatible(&[self], MergedTimes::Dropped)
    }

    /// Subtracts `base`.
    ///
    /// # Errors
    /// If the sample types are incompatible.
    pub fn subtract(mut self, mut base: SavedProfile, how: Subtraction) -> Result<SavedProfile, String> {
        if how.is_diff {
            base.add_base_labels();
        }
        if how.normalize {
            if let Some(difference) = type_difference(&self, &base) {
                return Err(difference);
            }
            let sum = |of: &SavedProfile, index| of.samples.values(index).fold(0i64, i64::wrapping_add);
            let ratio = |index| match sum(&self, index) {
                0 => 0.0,
                total => sum(&base, index) as f64 / total as f64,
            };
            let ratios: Vec<f64> = (0..self.sample_types.len()).map(ratio).collect();
            self.scale_values(&ratios);
        }
        base.scale_values(&vec![-1.0; base.sample_types.len()]);
        SavedProfile::merge(vec![self, base])
    }

    fn add_base_labels(&mut self) {
        if self.labels.is_empty() {
            self.labels.push([].into());
        }
        let base_label = || Label { key: BASE_LABEL.into(), value: LabelValue::Text("true".into()) };
        for labels in &mut self.labels {
            let others = labels.iter().filter(|label| label.key != BASE_LABEL).cloned();
            *labels = others.chain([base_label()]).collect();
        }
        // The first label set has to stay empty.
        self.labels.insert(0, [].into());
        self.samples.map_label_sets(|labels| labels + 1);
    }

    /// Multiplies the values of each sample type by its ratio. Samples whose scaled values are all
    /// 0 are removed.
    pub fn scale_values(&mut self, ratios: &[f64]) {
        if ratios.iter().all(|&ratio| ratio == 1.0) {
            return;
        }
        self.samples.retain_values(|values| {
            let mut any = false;
            for (value, &ratio) in values.iter_mut().zip(ratios) {
                if ratio != 1.0 {
                    *value = (*value as f64 * ratio).round() as i64;
                    any |= *value != 0;
                }
            }
            any
        });
    }
}

impl SavedProfile {
    /// Whether a label set marks the samples of a base.
    pub fn is_base_label_set(&self, labels: u32) -> bool {
        let is_base = |label: &Label| label.key == BASE_LABEL && label.value == LabelValue::Text("true".into());
        self.labels.get(labels as usize).is_some_and(|labels| labels.iter().any(is_base))
    }

    /// Removes the labels that mark a base, so that reports do not show them.
    pub fn remove_base_labels(&mut self) {
        for labels in &mut self.labels {
            if labels.iter().any(|label| label.key == BASE_LABEL) {
                *labels = labels.iter().filter(|label| label.key != BASE_LABEL).cloned().collect();
            }
        }
    }
}

/// Keeps the sample types that all profiles have, in the order of the first profile.
fn keep_common_sample_types(all: &mut [SavedProfile]) -> Result<(), String> {
    let Some(first) = all.first() else { return Err("no profiles to merge".to_owned()) };
    let position = |of: &SavedProfile, kind: &Text| of.sample_types.iter().position(|own| own.kind == *kind);
    let kinds: Vec<Text> = first.sample_types.iter().map(|own| own.kind.clone()).collect();
    let kinds: Vec<Text> = kinds.into_iter().filter(|kind| all.iter().all(|of| position(of, kind).is_some())).collect();
    if kinds.is_empty() {
        return Err("profiles have empty common sample type list".to_owned());
    }
    for of in all {
        let indices: Vec<usize> = kinds.iter().filter_map(|kind| position(of, kind)).collect();
        if indices.len() == of.sample_types.len() && indices.iter().enumerate().all(|(at, &index)| at == index) {
            continue;
        }
        let default = kinds.iter().find(|&kind| *kind == of.default_sample_type).unwrap_or(&kinds[0]);
        of.default_sample_type = default.clone();
        of.select_values(&indices);
    }
    Ok(())
}

/// Returns the type with the smallest unit; `None` for a single type, which needs no conversion.
fn finest_type(types: &[&ValueType]) -> Result<Option<ValueType>, String> {
    let Some((first, others)) = types.split_first().filter(|(_, others)| !others.is_empty()) else { return Ok(None) };
    let mut finest = *first;
    for other in others {
        let singular = |of: &ValueType| of.kind.strip_suffix('s').unwrap_or(&of.kind).to_owned();
        if singular(finest) != singular(other) || !are_compatible(&finest.unit, &other.unit) {
            let show = |of: &ValueType| format!("{{{} {}}}", of.kind, of.unit);
            return Err(format!("incompatible types: {} {}", show(finest), show(other)));
        }
        if scale(1, &other.unit, &finest.unit).0 < 1.0 {
            finest = other;
        }
    }
    Ok(Some(finest.clone()))
}

/// Converts all profiles to the same units.
fn unify_units(all: &mut [SavedProfile]) -> Result<(), String> {
    let periods: Vec<&ValueType> = all.iter().map(|of| &of.period_type).collect();
    let period = finest_type(&periods).map_err(|why| format!("period type: {why}"))?;
    let width = all[0].sample_types.len();
    let common = |index| finest_type(&all.iter().map(|of| &of.sample_types[index]).collect::<Vec<_>>());
    let types: Result<Vec<Option<ValueType>>, String> = (0..width).map(common).collect();
    let types = types.map_err(|why| format!("sample types: {why}"))?;
    for of in all {
        if let Some(period) = &period {
            of.period = scale(of.period, &of.period_type.unit, &period.unit).0 as i64;
            of.period_type.unit = period.unit.clone();
        }
        let mut ratios = vec![1.0; width];
        for ((own, common), ratio) in of.sample_types.iter_mut().zip(&types).zip(&mut ratios) {
            if let Some(common) = common {
                *ratio = scale(1, &own.unit, &common.unit).0;
                own.unit = common.unit.clone();
            }
        }
        of.scale_values(&ratios);
    }
    Ok(())
}

/// Describes how the types of two profiles differ; `None` if they are equal.
fn type_difference(one: &SavedProfile, other: &SavedProfile) -> Option<String> {
    let show = |types: &[ValueType]| {
        let all: Vec<String> = types.iter().map(|of| format!("{}/{}", of.kind, of.unit)).collect();
        all.join(" ")
    };
    if one.period_type != other.period_type {
        let (one, other) = (show(from_ref(&one.period_type)), show(from_ref(&other.period_type)));
        return Some(format!("incompatible period types {one} and {other}"));
    }
    let differ = one.sample_types != other.sample_types;
    differ
        .then(|| format!("incompatible sample types [{}] and [{}]", show(&one.sample_types), show(&other.sample_types)))
}

/// The identity of a mapping, independent of its address: size, offset, and build id or path.
type MappingKey = (u64, u64, Text);
/// The identity of a location: address within the mapping, mapping, lines, column, folded.
type LocationKey = (u64, Option<u32>, Vec<(u32, i64)>, i64, bool);

/// Whether samples keep their times, by which each is another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MergedTimes {
    Kept,
    #[default]
    Dropped,
}

/// The profile being built, with the index of everything in it by identity.
#[derive(Default)]
struct Merger {
    into: SavedProfile,
    mappings: HashMap<MappingKey, u32>,
    functions: HashMap<Function, u32>,
    locations: HashMap<LocationKey, u32>,
    labels: HashMap<Box<[Label]>, u32>,
    samples: HashMap<Box<[u32]>, u32>,
    values: Vec<i64>,
    stacks: Vec<(Box<[u32]>, u32)>,
    times: MergedTimes,
    /// The time of each stack, if times are kept.
    times_ns: Vec<u64>,
}

/// The indices that the parts of one source profile have in the merged profile, as far as they have
/// been copied.
struct MergedIndices {
    /// The mapping, and the difference of its start to that of the source.
    mappings: Vec<Option<(u32, u64)>>,
    functions: Vec<Option<u32>>,
    locations: Vec<Option<u32>>,
    labels: Vec<Option<u32>>,
}

impl Merger {
    fn merge_mapping(&mut self, from: &SavedProfile, merged: &mut MergedIndices, index: u32) -> (u32, u64) {
        if let Some(known) = merged.mappings[index as usize] {
            return known;
        }
        let mapping = &from.mappings[index as usize];
        let size = mapping.limit.wrapping_sub(mapping.start).wrapping_add(0xfff) & !0xfff;
        let name = if mapping.build_id.is_empty() { &mapping.file } else { &mapping.build_id };
        let all = &mut self.into.mappings;
        let id = *self.mappings.entry((size, mapping.offset, name.clone())).or_insert_with(|| {
            all.push(Mapping { id: all.len() as u64 + 1, ..mapping.clone() });
            all.len() as u32 - 1
        });
        let result = (id, all[id as usize].start.wrapping_sub(mapping.start));
        merged.mappings[index as usize] = Some(result);
        result
    }

    fn merge_function(&mut self, from: &SavedProfile, merged: &mut MergedIndices, index: u32) -> u32 {
        if let Some(known) = merged.functions[index as usize] {
            return known;
        }
        let all = &mut self.into.functions;
        let id = *self.functions.entry(from.functions[index as usize].clone()).or_insert_with_key(|function| {
            all.push(function.clone());
            all.len() as u32 - 1
        });
        merged.functions[index as usize] = Some(id);
        id
    }

    fn merge_location(&mut self, from: &SavedProfile, merged: &mut MergedIndices, index: u32) -> u32 {
        if let Some(known) = merged.locations[index as usize] {
            return known;
        }
        let location = &from.locations[index as usize];
        let mapped = location.mapping.map(|mapping| self.merge_mapping(from, merged, mapping));
        let address = location.address.wrapping_add(mapped.map_or(0, |(_, offset)| offset));
        let mapping = mapped.map(|(mapping, _)| mapping);
        let line = |line: &Line| Line { function: self.merge_function(from, merged, line.function), ..*line };
        let lines: Vec<Line> = location.lines.iter().map(line).collect();
        let start = mapping.map_or(0, |mapping| self.into.mappings[mapping as usize].start);
        let pairs = lines.iter().map(|line| (line.function, line.line)).collect();
        let column = lines.last().map_or(0, |line| line.column);
        let all = &mut self.into.locations;
        let key = (address.wrapping_sub(start), mapping, pairs, column, location.folded);
        let id = *self.locations.entry(key).or_insert_with(|| {
            let id = all.len() as u64 + 1;
            all.push(Location { id, mapping, address, lines, folded: location.folded });
            all.len() as u32 - 1
        });
        merged.locations[index as usize] = Some(id);
        id
    }

    fn merge_labels(&mut self, from: &SavedProfile, merged: &mut MergedIndices, index: u32) -> u32 {
        let Some(known) = merged.labels.get_mut(index as usize) else { return 0 };
        *known.get_or_insert_with(|| {
            let mut sorted = from.labels[index as usize].clone();
            // The sort is stable: values of one key keep their order.
            sorted.sort_by(|a, b| a.key.cmp(&b.key));
            let all = &mut self.into.labels;
            *self.labels.entry(sorted).or_insert_with_key(|labels| {
                all.push(labels.clone());
                all.len() as u32 - 1
            })
        })
    }

    /// Adds all samples of a profile.
    fn add(&mut self, from: &SavedProfile) {
        let mut merged = MergedIndices {
            mappings: vec![None; from.mappings.len()],
            functions: vec![None; from.functions.len()],
            locations: vec![None; from.locations.len()],
            labels: vec![None; from.labels.len()],
        };
        if self.into.mappings.is_empty() && !from.mappings.is_empty() {
            self.merge_mapping(from, &mut merged, 0);
        }
        let width = self.into.sample_types.len();
        from.samples.for_each(|sample| {
            if sample.values.iter().all(|&value| value == 0) {
                return;
            }
            let merge_location = |&location: &u32| self.merge_location(from, &mut merged, location);
            let mut key: Vec<u32> = sample.stack.iter().map(merge_location).collect();
            key.push(self.merge_labels(from, &mut merged, sample.labels));
            let next = self.stacks.len() as u32;
            let mut push = |key: &[u32]| {
                let (labels, stack) = key.split_last().map_or((0, &[][..]), |(&labels, stack)| (labels, stack));
                self.stacks.push((stack.into(), labels));
                self.values.extend(std::iter::repeat_n(0, width));
                next
            };
            let id = match self.times {
                MergedTimes::Kept => {
                    self.times_ns.extend(from.samples.times_ns().get(sample.index));
                    push(&key)
                }
                MergedTimes::Dropped => *self.samples.entry(key.into()).or_insert_with_key(|key| push(key)),
            };
            let sums = &mut self.values[id as usize * width..(id as usize + 1) * width];
            for (sum, &value) in sums.iter_mut().zip(sample.values) {
                *sum = sum.wrapping_add(value);
            }
        });
    }

    fn finish(mut self) -> SavedProfile {
        let width = self.into.sample_types.len();
        let mut samples = Samples::with_width(width);
        let mut order: Vec<usize> = (0..self.stacks.len()).collect();
        order.sort_by_key(|&index| self.times_ns.get(index));
        for &index in &order {
            let (stack, labels) = &self.stacks[index];
            samples.push(stack, &self.values[index * width..(index + 1) * width], *labels);
        }
        samples.set_times_ns(order.iter().filter_map(|&index| self.times_ns.get(index).copied()).collect());
        self.into.samples = samples;
        self.into
    }
}

/// Merges profiles with equal sample types and units.
fn merge_compatible(all: &[SavedProfile], times: MergedTimes) -> Result<SavedProfile, String> {
    let first = all.first().ok_or("no profiles to merge")?;
    if let Some(difference) = all.iter().find_map(|other| type_difference(first, other)) {
        return Err(difference);
    }
    let mut into = SavedProfile {
        sample_types: first.sample_types.clone(),
        drop_frames: first.drop_frames.clone(),
        keep_frames: first.keep_frames.clone(),
        period_type: first.period_type.clone(),
        ..SavedProfile::default()
    };
    into.labels.push([].into());
    for of in all {
        if into.time_ns == 0 || of.time_ns < into.time_ns {
            into.time_ns = of.time_ns;
        }
        into.duration_ns = into.duration_ns.wrapping_add(of.duration_ns);
        if into.period == 0 || into.period < of.period {
            into.period = of.period;
        }
        into.recordings.extend(of.recordings.iter().cloned());
        for comment in &of.comments {
            if !into.comments.contains(comment) {
                into.comments.push(comment.clone());
            }
        }
        for (known, own) in [(&mut into.default_sample_type, &of.default_sample_type), (&mut into.doc_url, &of.doc_url)]
        {
            if known.is_empty() {
                *known = own.clone();
            }
        }
    }
    let mut merger = Merger { into, times, ..Merger::default() };
    merger.labels.insert([].into(), 0);
    all.iter().for_each(|of| merger.add(of));
    let result = merger.finish();
    let mut any_zero = false;
    result.samples.for_each_packed(|_, values, _| any_zero |= values.iter().all(|&value| value == 0));
    // Another pass removes samples whose values cancel out, and locations that only they had.
    if any_zero { merge_compatible(&[result], times) } else { Ok(result) }
}
