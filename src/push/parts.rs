//! Divides a profile into parts that a store takes: one quantity each, such as CPU time, with text
//! labels, readable names and nothing that no sample uses.

use flate2::read::GzDecoder;

use crate::pprof::format::proto;
use crate::pprof::profile::{Function, Label, LabelValue, Line, SavedProfile, ValueType};
use crate::pprof::units::are_compatible;

/// The character before a modifier of perf's events, such as `cycles:u`. Stores divide the type of
/// a profile at it.
const EVENT_MODIFIER: char = ':';
/// The name of a frame of which nothing is known.
const UNKNOWN: &str = "[unknown]";

/// One quantity of a profile, as a gzipped `profile.proto`. That is a tenth of its size in memory,
/// and it is what most stores take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushPart {
    /// The gzipped file.
    pub pprof: Vec<u8>,
    /// The number of samples, as the profile counts them: of ticks, or of allocations.
    pub samples: u64,
    /// The number of entries: different stacks with different labels.
    pub entries: usize,
}

impl PushPart {
    fn new(profile: &SavedProfile) -> PushPart {
        let mut pprof = Vec::new();
        proto::write(&mut pprof, profile).expect("memory can be written");
        let count = profile.sample_types.iter().position(|of| &*of.unit == "count");
        let samples = count.map_or(profile.samples.len() as u64, |index| {
            profile.samples.values(index).fold(0, |sum: u64, count| sum.saturating_add(count.unsigned_abs()))
        });
        PushPart { pprof, samples, entries: profile.samples.len() }
    }

    /// The profile. It is empty if the file is damaged, which only a bug explains.
    pub(super) fn profile(&self) -> SavedProfile {
        proto::read(GzDecoder::new(self.pprof.as_slice())).unwrap_or_default()
    }

    /// Divides it in two; `None` if it has only one entry.
    pub(super) fn halve(&self) -> Option<[PushPart; 2]> {
        let middle = self.entries / 2;
        if middle == 0 {
            return None;
        }
        let half = |is_wanted: &dyn Fn(usize) -> bool| {
            let mut profile = self.profile();
            let mut index = 0;
            profile.samples.retain(|_, _, _| {
                index += 1;
                is_wanted(index - 1)
            });
            profile.compact().map(|profile| PushPart::new(&profile)).ok()
        };
        Some([half(&|index| index < middle)?, half(&|index| index >= middle)?])
    }
}

/// Divides a profile into its quantities. Those without a sample are left out.
///
/// # Errors
/// If the profile is inconsistent, or has negative values, as differences do: stores drop those.
pub fn divide(mut profile: SavedProfile) -> Result<Vec<PushPart>, String> {
    profile.check()?;
    if (0..profile.sample_types.len()).any(|index| profile.samples.values(index).any(|value| value < 0)) {
        return Err("it has negative values, which no store takes: push a profile that is not a difference".to_owned());
    }
    for of in profile.sample_types.iter_mut().chain([&mut profile.period_type]) {
        of.kind = of.kind.replace(EVENT_MODIFIER, "_").into();
    }
    profile.demangle();
    name_unknown_frames(&mut profile);
    profile.labels.iter_mut().for_each(|labels| *labels = labels.iter().map(as_text).collect());
    let mut parts = Vec::new();
    for indices in quantities(&profile.sample_types) {
        let mut part = profile.clone();
        part.select_values(&indices);
        let mut part = part.compact()?;
        if part.samples.is_empty() {
            continue;
        }
        let value = part.sample_types.last().cloned().unwrap_or_default();
        if let [count, _] = part.sample_types.as_mut_slice()
            && count.kind.ends_with("_samples")
        {
            count.kind = "samples".into();
        }
        if part.period <= 0 || !are_compatible(&part.period_type.unit, &value.unit) {
            (part.period_type, part.period) = (value.clone(), 1);
        }
        if indices.len() < profile.sample_types.len() {
            part.period_type.kind = value.kind.clone();
        }
        // Heap profilers name the period of all quantities so, and stores name a series by it.
        if value.kind.ends_with("_space") {
            part.period_type.kind = "space".into();
        }
        part.default_sample_type = value.kind;
        parts.push(PushPart::new(&part));
    }
    Ok(parts)
}

/// The indices of the types of each quantity: a value and, where it stands before it, its count. Of
/// events of perf that are no clocks, the value is a count, too.
fn quantities(types: &[ValueType]) -> Vec<Vec<usize>> {
    let is_count = |index: usize| types.get(index).is_some_and(|of| &*of.unit == "count");
    let mut all = Vec::new();
    let mut index = 0;
    while index < types.len() {
        let next = types.get(index + 1);
        let is_of_next = next.is_some_and(|next| {
            let kind = &*types[index].kind;
            *next.unit != *"count" || kind == "samples" || kind.strip_suffix("_samples") == Some(&*next.kind)
        });
        let has_value = is_count(index) && is_of_next;
        let next = index + 1 + usize::from(has_value);
        all.push((index..next).collect());
        index = next;
    }
    all
}

/// Names frames that have neither a function nor an address in a file: stores drop their samples.
fn name_unknown_frames(profile: &mut SavedProfile) {
    let is_unknown =
        |of: &&mut crate::pprof::profile::Location| of.lines.is_empty() && (of.address == 0 || of.mapping.is_none());
    let function = profile.functions.len() as u32;
    let mut any = false;
    for location in profile.locations.iter_mut().filter(is_unknown) {
        location.lines = vec![Line { function, line: 0, column: 0 }];
        any = true;
    }
    if any {
        profile.functions.push(Function { name: UNKNOWN.into(), ..Function::default() });
    }
}

/// A label as text: stores drop numbers.
fn as_text(label: &Label) -> Label {
    let value = match &label.value {
        LabelValue::Number(number, unit) if unit.is_empty() => number.to_string().into(),
        LabelValue::Number(number, unit) => format!("{number} {unit}").into(),
        LabelValue::Text(text) => text.clone(),
    };
    Label { key: label.key.clone(), value: LabelValue::Text(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pprof::profile::Location;
    use crate::pprof::samples::Samples;

    /// Samples of two clocks, of which the first two have CPU time and the last has wall-clock
    /// time.
    fn profile() -> SavedProfile {
        let types =
            [("cpu_samples", "count"), ("cpu", "nanoseconds"), ("wall_samples", "count"), ("wall", "nanoseconds")];
        let mut samples = Samples::with_width(4);
        samples.push(&[0], &[2, 20, 0, 0], 1);
        samples.push(&[1, 0], &[3, 30, 0, 0], 1);
        samples.push(&[1], &[0, 0, 5, 50], 1);
        let pid = Label { key: "pid".into(), value: LabelValue::Number(7, "".into()) };
        SavedProfile {
            sample_types: types.map(|(kind, unit)| ValueType::new(kind, unit)).to_vec(),
            samples,
            labels: vec![[].into(), [pid].into()],
            locations: vec![
                Location { id: 1, lines: vec![Line { function: 0, line: 3, column: 0 }], ..Location::default() },
                Location { id: 2, ..Location::default() },
            ],
            functions: vec![Function {
                name: "_ZN1a1bEi".into(),
                system_name: "_ZN1a1bEi".into(),
                ..Function::default()
            }],
            period_type: ValueType::new("cpu", "nanoseconds"),
            period: 10,
            ..SavedProfile::default()
        }
    }

    #[test]
    fn each_quantity_is_a_part_with_readable_names_and_text_labels() {
        let parts = divide(profile()).expect("parts");
        let [cpu, wall] = parts.as_slice() else { panic!("{parts:?}") };
        assert_eq!((cpu.samples, cpu.entries, wall.samples, wall.entries), (5, 2, 5, 1));
        let (cpu, wall) = (cpu.profile(), wall.profile());
        let kinds: Vec<String> = cpu.sample_types.iter().map(|of| of.kind.to_string()).collect();
        assert_eq!(kinds, ["samples", "cpu"]);
        assert_eq!(wall.period_type, ValueType::new("wall", "nanoseconds"));
        assert_eq!(wall.functions.iter().map(|of| of.name.as_str()).collect::<Vec<_>>(), [UNKNOWN]);
        assert!(cpu.functions.iter().any(|of| &*of.name == "a::b"), "{:?}", cpu.functions);
        let labels: Vec<&Label> = cpu.labels.iter().flatten().collect();
        assert_eq!(labels, [&Label { key: "pid".into(), value: LabelValue::Text("7".into()) }]);
    }

    #[test]
    fn halves_have_all_samples_and_one_entry_has_none() {
        let [cpu, wall] = <[PushPart; 2]>::try_from(divide(profile()).expect("parts")).expect("two");
        let halves = cpu.halve().expect("halves");
        assert_eq!(halves.iter().map(|half| half.samples).collect::<Vec<_>>(), [2, 3]);
        let sum: i64 = halves.iter().flat_map(|half| half.profile().samples.values(1).collect::<Vec<_>>()).sum();
        assert_eq!(sum, 50);
        assert_eq!(wall.halve(), None);
    }

    #[test]
    fn all_quantities_of_memory_have_one_period() {
        let types = [
            ("alloc_objects", "count"),
            ("alloc_space", "bytes"),
            ("inuse_objects", "count"),
            ("inuse_space", "bytes"),
        ];
        let heap = SavedProfile {
            sample_types: types.iter().map(|(kind, unit)| ValueType::new(kind, unit)).collect(),
            period_type: ValueType::new("space", "bytes"),
            period: 524_288,
            ..profile()
        };
        let parts = divide(heap).expect("parts");
        let found: Vec<(String, ValueType, i64)> = parts
            .iter()
            .map(PushPart::profile)
            .map(|part| (part.default_sample_type.to_string(), part.period_type, part.period))
            .collect();
        let of = |kind: &str| (kind.to_owned(), ValueType::new("space", "bytes"), 524_288);
        assert_eq!(found, [of("alloc_space"), of("inuse_space")]);
    }

    #[test]
    fn events_of_perf_have_no_colon_in_their_names() {
        let types =
            [("cycles:u_samples", "count"), ("cycles:u", "count")].map(|(kind, unit)| ValueType::new(kind, unit));
        let mut samples = Samples::with_width(2);
        samples.push(&[0], &[1, 1000], 0);
        let period_type = types[1].clone();
        let events = SavedProfile { sample_types: types.to_vec(), samples, period_type, period: 1000, ..profile() };
        let parts = divide(events).expect("parts");
        let all: Vec<SavedProfile> = parts.iter().map(PushPart::profile).collect();
        let kinds = all.iter().flat_map(|part| part.sample_types.iter().map(|of| of.kind.to_string()));
        assert_eq!((kinds.collect::<Vec<_>>(), parts[0].samples), (vec!["samples".into(), "cycles_u".into()], 1));
        assert!(all.iter().all(|part| !part.period_type.kind.contains(':') && !part.default_sample_type.contains(':')));
    }

    #[test]
    fn a_count_belongs_to_the_value_behind_it() {
        let types = |all: &[&str]| all.iter().map(|unit| ValueType::new("x", unit)).collect::<Vec<_>>();
        assert_eq!(quantities(&types(&["count", "bytes", "count", "bytes"])), [vec![0, 1], vec![2, 3]]);
        assert_eq!(quantities(&types(&["nanoseconds", "count", "count"])), [vec![0], vec![1], vec![2]]);
    }
}
