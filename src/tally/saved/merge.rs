//! Several saved profiles as one: places are the same where file, address and lines are, samples where places and labels are.
//! A base is merged with its values turned negative.

use std::collections::HashMap;
use std::slice::from_ref;

use super::{Function, Label, LabelValue, Line, Location, Mapping, Samples, Saved, ValueType};
use crate::tally::text::Text;
use crate::tally::units::{are_alike, scale};

/// What marks the samples of a base, when percentages are to be of the base alone.
const BASE: &str = "pprof::base";

/// How a base is taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subtraction {
    /// Percentages are of the base.
    pub is_diff: bool,
    /// The profile is scaled to the base's total first.
    pub normalize: bool,
}

impl Saved {
    /// All of them as one; a single one stays as it is.
    ///
    /// # Errors
    /// Why they do not go together.
    pub fn combined(mut all: Vec<Saved>) -> Result<Saved, String> {
        make_compatible(&mut all)?;
        scale_all(&mut all)?;
        if all.len() == 1 {
            return all.pop().ok_or_else(|| "no profiles to merge".to_owned());
        }
        merged(&all)
    }

    /// Without what `base` has.
    ///
    /// # Errors
    /// Why the two do not go together.
    pub fn without(mut self, mut base: Saved, how: Subtraction) -> Result<Saved, String> {
        if how.is_diff {
            base.mark_as_base();
        }
        if how.normalize {
            if let Some(why) = differing(&self, &base) {
                return Err(why);
            }
            let sum = |of: &Saved, index| of.samples.values(index).fold(0i64, i64::wrapping_add);
            let ratio = |index| match sum(&self, index) {
                0 => 0.0,
                own => sum(&base, index) as f64 / own as f64,
            };
            let ratios: Vec<f64> = (0..self.sample_types.len()).map(ratio).collect();
            self.scale_values(&ratios);
        }
        base.scale_values(&vec![-1.0; base.sample_types.len()]);
        Saved::combined(vec![self, base])
    }

    fn mark_as_base(&mut self) {
        if self.labels.is_empty() {
            self.labels.push([].into());
        }
        let mark = || Label { key: BASE.into(), value: LabelValue::Text("true".into()) };
        for labels in &mut self.labels {
            let others = labels.iter().filter(|label| label.key != BASE).cloned();
            *labels = others.chain([mark()]).collect();
        }
        // The set without labels is the first, also where samples have some.
        self.labels.insert(0, [].into());
        self.samples.relabel(|labels| labels + 1);
    }

    /// Multiplies every value; samples of which nothing is left go.
    pub fn scale_values(&mut self, ratios: &[f64]) {
        if ratios.iter().all(|&ratio| ratio == 1.0) {
            return;
        }
        self.samples.revalue(|values| {
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

impl Saved {
    /// Whether a set of labels is that of a base.
    pub fn is_base(&self, labels: u32) -> bool {
        let of = |label: &Label| label.key == BASE && label.value == LabelValue::Text("true".into());
        self.labels.get(labels as usize).is_some_and(|labels| labels.iter().any(of))
    }

    /// Forgets which samples are the base's, so that no report shows it.
    pub fn unmark_base(&mut self) {
        for labels in &mut self.labels {
            if labels.iter().any(|label| label.key == BASE) {
                *labels = labels.iter().filter(|label| label.key != BASE).cloned().collect();
            }
        }
    }
}

/// Leaves the kinds of values that all have, in the order of the first.
fn make_compatible(all: &mut [Saved]) -> Result<(), String> {
    let Some(first) = all.first() else { return Err("no profiles to merge".to_owned()) };
    let has = |of: &Saved, kind: &Text| of.sample_types.iter().position(|own| own.kind == *kind);
    let kinds: Vec<Text> = first.sample_types.iter().map(|own| own.kind.clone()).collect();
    let kinds: Vec<Text> = kinds.into_iter().filter(|kind| all.iter().all(|of| has(of, kind).is_some())).collect();
    if kinds.is_empty() {
        return Err("profiles have empty common sample type list".to_owned());
    }
    for of in all {
        let places: Vec<usize> = kinds.iter().filter_map(|kind| has(of, kind)).collect();
        if places.len() == of.sample_types.len() && places.iter().enumerate().all(|(at, &place)| at == place) {
            continue;
        }
        let default = kinds.iter().find(|&kind| *kind == of.default_sample_type).unwrap_or(&kinds[0]);
        of.default_sample_type = default.clone();
        of.sample_types = places.iter().map(|&place| of.sample_types[place].clone()).collect();
        let mut samples = Samples::of_width(places.len());
        of.samples.each_packed(|packed, values, labels| {
            let values: Vec<i64> = places.iter().map(|&place| values[place]).collect();
            samples.push_packed(packed, &values, labels);
        });
        of.samples = samples;
    }
    Ok(())
}

/// The finest of several types; `None` where there is but one.
fn finest(types: &[&ValueType]) -> Result<Option<ValueType>, String> {
    let Some((first, others)) = types.split_first().filter(|(_, others)| !others.is_empty()) else { return Ok(None) };
    let mut finest = *first;
    for other in others {
        let bare = |of: &ValueType| of.kind.strip_suffix('s').unwrap_or(&of.kind).to_owned();
        if bare(finest) != bare(other) || !are_alike(&finest.unit, &other.unit) {
            let told = |of: &ValueType| format!("{{{} {}}}", of.kind, of.unit);
            return Err(format!("incompatible types: {} {}", told(finest), told(other)));
        }
        if scale(1, &other.unit, &finest.unit).0 < 1.0 {
            finest = other;
        }
    }
    Ok(Some(finest.clone()))
}

/// Brings all to the same units.
fn scale_all(all: &mut [Saved]) -> Result<(), String> {
    let periods: Vec<&ValueType> = all.iter().map(|of| &of.period_type).collect();
    let period = finest(&periods).map_err(|why| format!("period type: {why}"))?;
    let width = all[0].sample_types.len();
    let common = |index| finest(&all.iter().map(|of| &of.sample_types[index]).collect::<Vec<_>>());
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

fn differing(one: &Saved, other: &Saved) -> Option<String> {
    let told = |types: &[ValueType]| {
        let all: Vec<String> = types.iter().map(|of| format!("{}/{}", of.kind, of.unit)).collect();
        all.join(" ")
    };
    if one.period_type != other.period_type {
        let (one, other) = (told(from_ref(&one.period_type)), told(from_ref(&other.period_type)));
        return Some(format!("incompatible period types {one} and {other}"));
    }
    let differ = one.sample_types != other.sample_types;
    differ
        .then(|| format!("incompatible sample types [{}] and [{}]", told(&one.sample_types), told(&other.sample_types)))
}

/// What makes two mappings one, wherever they lay: size, offset, and build id or path.
type MappingKey = (u64, u64, Text);
/// What makes two locations one: address within the mapping, mapping, lines, folded.
type LocationKey = (u64, Option<u32>, Vec<(u32, i64)>, i64, bool);

#[derive(Default)]
struct Merger {
    into: Saved,
    mappings: HashMap<MappingKey, u32>,
    functions: HashMap<Function, u32>,
    locations: HashMap<LocationKey, u32>,
    labels: HashMap<Box<[Label]>, u32>,
    samples: HashMap<Box<[u32]>, u32>,
    values: Vec<i64>,
    stacks: Vec<(Box<[u32]>, u32)>,
}

/// Where things of one source went.
struct Places {
    mappings: Vec<Option<(u32, u64)>>,
    functions: Vec<Option<u32>>,
    locations: Vec<Option<u32>>,
    labels: Vec<Option<u32>>,
}

impl Merger {
    fn mapping(&mut self, from: &Saved, places: &mut Places, index: u32) -> (u32, u64) {
        if let Some(known) = places.mappings[index as usize] {
            return known;
        }
        let mapping = &from.mappings[index as usize];
        let size = mapping.limit.wrapping_sub(mapping.start).wrapping_add(0xfff) & !0xfff;
        let named = if mapping.build_id.is_empty() { &mapping.file } else { &mapping.build_id };
        let all = &mut self.into.mappings;
        let id = *self.mappings.entry((size, mapping.offset, named.clone())).or_insert_with(|| {
            all.push(Mapping { id: all.len() as u64 + 1, ..mapping.clone() });
            all.len() as u32 - 1
        });
        let place = (id, all[id as usize].start.wrapping_sub(mapping.start));
        places.mappings[index as usize] = Some(place);
        place
    }

    fn function(&mut self, from: &Saved, places: &mut Places, index: u32) -> u32 {
        if let Some(known) = places.functions[index as usize] {
            return known;
        }
        let all = &mut self.into.functions;
        let id = *self.functions.entry(from.functions[index as usize].clone()).or_insert_with_key(|function| {
            all.push(function.clone());
            all.len() as u32 - 1
        });
        places.functions[index as usize] = Some(id);
        id
    }

    fn location(&mut self, from: &Saved, places: &mut Places, index: u32) -> u32 {
        if let Some(known) = places.locations[index as usize] {
            return known;
        }
        let location = &from.locations[index as usize];
        let mapped = location.mapping.map(|mapping| self.mapping(from, places, mapping));
        let address = location.address.wrapping_add(mapped.map_or(0, |(_, offset)| offset));
        let mapping = mapped.map(|(mapping, _)| mapping);
        let line = |line: &Line| Line { function: self.function(from, places, line.function), ..*line };
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
        places.locations[index as usize] = Some(id);
        id
    }

    fn labels(&mut self, from: &Saved, places: &mut Places, index: u32) -> u32 {
        let Some(place) = places.labels.get_mut(index as usize) else { return 0 };
        *place.get_or_insert_with(|| {
            let mut sorted = from.labels[index as usize].clone();
            // Values of one key keep their order.
            sorted.sort_by(|a, b| a.key.cmp(&b.key));
            let all = &mut self.into.labels;
            *self.labels.entry(sorted).or_insert_with_key(|labels| {
                all.push(labels.clone());
                all.len() as u32 - 1
            })
        })
    }

    fn take(&mut self, from: &Saved) {
        let mut places = Places {
            mappings: vec![None; from.mappings.len()],
            functions: vec![None; from.functions.len()],
            locations: vec![None; from.locations.len()],
            labels: vec![None; from.labels.len()],
        };
        if self.into.mappings.is_empty() && !from.mappings.is_empty() {
            self.mapping(from, &mut places, 0);
        }
        let width = self.into.sample_types.len();
        from.samples.each(|sample| {
            if sample.values.iter().all(|&value| value == 0) {
                return;
            }
            let place = |&location: &u32| self.location(from, &mut places, location);
            let mut key: Vec<u32> = sample.stack.iter().map(place).collect();
            key.push(self.labels(from, &mut places, sample.labels));
            let next = self.stacks.len() as u32;
            let id = *self.samples.entry(key.into()).or_insert_with_key(|key| {
                let (labels, stack) = key.split_last().map_or((0, &[][..]), |(&labels, stack)| (labels, stack));
                self.stacks.push((stack.into(), labels));
                self.values.extend(std::iter::repeat_n(0, width));
                next
            });
            let sums = &mut self.values[id as usize * width..(id as usize + 1) * width];
            for (sum, &value) in sums.iter_mut().zip(sample.values) {
                *sum = sum.wrapping_add(value);
            }
        });
    }

    fn done(mut self) -> Saved {
        let width = self.into.sample_types.len();
        let mut samples = Samples::of_width(width);
        for (index, (stack, labels)) in self.stacks.iter().enumerate() {
            samples.push(stack, &self.values[index * width..(index + 1) * width], *labels);
        }
        self.into.samples = samples;
        self.into
    }
}

fn merged(all: &[Saved]) -> Result<Saved, String> {
    let first = &all[0];
    if let Some(why) = all.iter().find_map(|other| differing(first, other)) {
        return Err(why);
    }
    let mut into = Saved {
        sample_types: first.sample_types.clone(),
        drop_frames: first.drop_frames.clone(),
        keep_frames: first.keep_frames.clone(),
        period_type: first.period_type.clone(),
        ..Saved::default()
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
    let mut merger = Merger { into, ..Merger::default() };
    merger.labels.insert([].into(), 0);
    all.iter().for_each(|of| merger.take(of));
    let done = merger.done();
    let mut any_zero = false;
    done.samples.each_packed(|_, values, _| any_zero |= values.iter().all(|&value| value == 0));
    // What came to nothing goes, with the places that only it had.
    if any_zero { merged(&[done]) } else { Ok(done) }
}
