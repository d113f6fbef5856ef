//! Round trips: a profile that is written and read again is unchanged.

use proptest::prelude::*;
use sigtop::pprof::format::{self, folded, gperftools, proto};
use sigtop::pprof::profile::{Function, Label, LabelValue, Line, Location, Mapping, SavedProfile, ValueType};
use sigtop::pprof::samples::Samples;

use crate::making::{mixed, ours};
use crate::property::property;

fn read_again(saved: &SavedProfile) -> SavedProfile {
    let mut bytes = Vec::new();
    proto::write(&mut bytes, saved).unwrap();
    format::read(bytes.as_slice()).unwrap()
}

#[test]
fn everything_that_a_profile_can_have_comes_back() {
    assert!(read_again(&mixed()) == mixed());
    // Threads without samples are in no sample's labels, so they are not read back.
    let once = read_again(&ours());
    assert_eq!(once.samples.len(), ours().samples.len());
    assert!(read_again(&once) == once);
}

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Zé<>:/. ]{0,12}"
}

fn label() -> impl Strategy<Value = Label> {
    let value = prop_oneof![
        "[a-z]{1,6}".prop_map(|text| LabelValue::Text(text.as_str().into())),
        (1..i64::MAX, word()).prop_map(|(number, unit)| LabelValue::Number(number, unit.as_str().into())),
    ];
    ("[a-z]{1,4}", value).prop_map(|(key, value)| Label { key: key.as_str().into(), value })
}

/// Sorts labels in the order of the file format: texts before numbers, each by key.
fn sorted(mut labels: Vec<Label>) -> Box<[Label]> {
    labels.sort_by(|a, b| {
        let is_number = |label: &Label| matches!(label.value, LabelValue::Number(..));
        (is_number(a), &a.key).cmp(&(is_number(b), &b.key))
    });
    labels.into()
}

prop_compose! {
    fn profile()(
        functions in prop::collection::vec((word(), word(), word(), any::<i64>()), 1..6),
        mappings in prop::collection::vec((1..u64::MAX, any::<u64>(), word(), any::<bool>()), 1..4),
        places in prop::collection::vec((any::<u64>(), prop::collection::vec((0..6usize, any::<i64>(), 0..99i64), 0..4), any::<usize>()), 1..9),
        sets in prop::collection::vec(prop::collection::vec(label(), 1..4), 0..4),
        stacks in prop::collection::vec((prop::collection::vec(any::<usize>(), 0..9), any::<[i64; 2]>(), any::<usize>()), 0..20),
        sparse in any::<bool>(),
        (time_ns, duration_ns, period) in any::<(i64, i64, i64)>(),
    ) -> SavedProfile {
        let id = |index: usize| if sparse { index as u64 * 1000 + 7 } else { index as u64 + 1 };
        let mut labels: Vec<Box<[Label]>> = vec![[].into()];
        for set in sets.into_iter().map(sorted) {
            if !labels.contains(&set) {
                labels.push(set);
            }
        }
        let mut samples = Samples::with_width(2);
        // Label sets are numbered in the order in which samples refer to them.
        let mut named = vec![0];
        for (stack, values, set) in &stacks {
            let stack: Vec<u32> = stack.iter().map(|place| (place % places.len()) as u32).collect();
            let set = set % labels.len();
            let known = named.iter().position(|known| *known == set);
            let place = known.unwrap_or_else(|| {
                named.push(set);
                named.len() - 1
            });
            samples.push(&stack, values, place as u32);
        }
        SavedProfile {
            sample_types: vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")],
            samples,
            labels: named.iter().map(|&set| labels[set].clone()).collect(),
            mappings: mappings.iter().enumerate().map(|(index, (start, offset, file, has))| Mapping {
                id: id(index),
                start: *start,
                limit: u64::MAX,
                offset: *offset,
                file: file.as_str().into(),
                has_filenames: *has,
                ..Mapping::default()
            }).collect(),
            locations: places.iter().enumerate().map(|(index, (address, lines, mapping))| Location {
                id: id(index),
                mapping: (mapping % 3 > 0).then_some((mapping % mappings.len()) as u32),
                address: *address,
                lines: lines.iter().map(|&(function, line, column)| Line {
                    function: (function % functions.len()) as u32,
                    line,
                    column,
                }).collect(),
                folded: mapping % 2 == 0,
            }).collect(),
            functions: functions.iter().map(|(name, system_name, file, start_line)| Function {
                name: name.as_str().into(),
                system_name: system_name.as_str().into(),
                file: file.as_str().into(),
                start_line: *start_line,
            }).collect(),
            time_ns,
            duration_ns,
            period,
            period_type: ValueType::new("cpu", "nanoseconds"),
            ..SavedProfile::default()
        }
    }
}

/// Addresses of stacks with their ticks.
type Stacks = Vec<(Vec<u64>, i64)>;

fn addresses(saved: &SavedProfile) -> Stacks {
    let mut all = Vec::new();
    saved.samples.for_each(|sample| {
        let addresses = sample.stack.iter().map(|&location| saved.locations[location as usize].address);
        all.push((addresses.collect(), sample.values[0]));
    });
    all
}

proptest! {
    #![proptest_config(property(256))]

    #[test]
    fn a_proto_comes_back(saved in profile()) {
        let back = read_again(&saved);
        prop_assert_eq!(&back, &saved);
        back.check().unwrap();
    }

    #[test]
    fn folded_stacks_come_back(stacks in prop::collection::btree_map(
        prop::collection::vec("[a-z:<> ]{1,8}", 1..6).prop_map(|frames| frames.join(";")), 1..i64::MAX, 1..9,
    )) {
        let text: String = stacks.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect();
        let saved = format::read(text.as_bytes()).unwrap();
        let mut back = Vec::new();
        folded::write(&mut back, &saved, 0).unwrap();
        prop_assert_eq!(String::from_utf8(back).unwrap(), text);
    }

    #[test]
    fn addresses_come_back_from_a_gperftools_profile(
        stacks in prop::collection::vec((prop::collection::vec(0x40_0000..0x40_ffffu64, 1..9), 1..1000i64), 1..80),
    ) {
        let mut saved = SavedProfile {
            sample_types: vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")],
            samples: Samples::with_width(2),
            period: 10_000_000,
            period_type: ValueType::new("cpu", "nanoseconds"),
            mappings: vec![
                Mapping { id: 1, start: 0x40_0000, limit: 0x41_0000, file: "/bin/app".into(), ..Mapping::default() },
            ],
            ..SavedProfile::default()
        };
        for (stack, count) in &stacks {
            // A repeated leaf is read as one frame.
            let mut stack = stack.clone();
            stack.dedup();
            let first = saved.locations.len() as u32;
            for &address in &stack {
                let id = saved.locations.len() as u64 + 1;
                saved.locations.push(Location { id, mapping: Some(0), address, ..Location::default() });
            }
            let places: Vec<u32> = (first..saved.locations.len() as u32).collect();
            saved.samples.push(&places, &[*count, count * 10_000_000], 0);
        }
        let mut bytes = Vec::new();
        gperftools::write(&mut bytes, &saved, 1).unwrap();
        let back = format::read(bytes.as_slice()).unwrap();
        // A reader drops the second frame if its return address equals the leaf, as a repeated
        // leaf.
        let once = |mut stacks: Stacks| {
            for (stack, _) in &mut stacks {
                if let [leaf, second, ..] = stack[..] && leaf == second.wrapping_add(1) {
                    stack.remove(1);
                }
            }
            stacks
        };
        prop_assert_eq!(addresses(&back), once(addresses(&saved)));
        prop_assert!(back.mappings.first().is_some_and(|mapping| mapping.file == "/bin/app"));
    }
}
