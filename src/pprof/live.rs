//! Converts a live profile to a saved one: every stack of every thread, with its weight on each
//! clock that ticked and with labels for process and thread.
//!
//! Frames have the names that are on the screen, also those of code without symbols
//! (`libz.so.1+0x4410`), so a report of the saved profile has the same rows. Addresses are those in
//! the file: each mapping starts at 0.

use std::collections::HashMap;

use crate::pprof::live_top::{format_losses, format_samples, sample_kind};
use crate::pprof::profile::{Function, Label, LabelValue, Line, Location, Mapping, SavedProfile, ValueType};
use crate::pprof::samples::Samples;
use crate::profile::loss::LossCause;
use crate::profile::module::ModuleId;
use crate::profile::stack::{Frame, FrameId, StackId};
use crate::profile::thread::ThreadId;
use crate::profile::totals::{Span, ThreadStack, Weight};
use crate::profile::{Clock, Profile, TimedSample};
use crate::symbols::{FunctionId, Names};
use crate::tally::text::Text;

/// Facts about a live profile that it does not hold itself.
#[derive(Clone, Debug)]
pub struct LiveProfileInfo {
    /// The clock that is shown; it becomes the default sample type.
    pub clock: Clock,
    /// The time span to convert.
    pub span: Span,
    /// The start of the span, ns since 1970; 0 if unknown.
    pub time_ns: i64,
    /// The length of the span, ns; 0 if unknown.
    pub duration_ns: i64,
    /// The shortest sampling period of the shown clock, ns: the unit of counts.
    pub period_ns: u64,
    /// The number of ticks lost in the span, by cause.
    pub lost_ticks: [u64; LossCause::ALL.len()],
    /// The weight of the lost ticks, ns, by cause.
    pub lost_ns: [u64; LossCause::ALL.len()],
}

/// The totals of a live profile that were converted already: see [`to_increment`].
#[derive(Debug, Default)]
pub struct ConvertedTotals {
    weights: HashMap<ThreadStack, ClockWeights>,
    lost_ticks: [u64; LossCause::ALL.len()],
    lost_ns: [u64; LossCause::ALL.len()],
    duration_ns: i64,
    /// The end of what was converted, ns since 1970.
    until_ns: i64,
}

impl ConvertedTotals {
    /// Removes what was converted from the facts and the sums of the whole time, and keeps those.
    ///
    /// Increments follow one another in time and never overlap, whatever happens to the clock of
    /// the system: if it is set forward, or the machine was suspended, there is a gap; if it is set
    /// back, times go on from the end of the last increment until the clock has reached them.
    fn subtract(&mut self, info: &mut LiveProfileInfo, sums: &mut HashMap<ThreadStack, ClockWeights>) {
        let totals = sums.clone();
        for (key, weights) in sums.iter_mut() {
            let Some(before) = self.weights.get(key) else { continue };
            for ((clock, weight), &before) in CLOCKS.iter().zip(weights).zip(before) {
                if *clock != Clock::Live {
                    *weight -= before;
                }
            }
        }
        self.weights = totals;
        let take = |all: &mut u64, before: &mut u64| {
            let total = *all;
            *all = total.saturating_sub(*before);
            *before = total;
        };
        info.lost_ticks.iter_mut().zip(&mut self.lost_ticks).for_each(|(all, before)| take(all, before));
        info.lost_ns.iter_mut().zip(&mut self.lost_ns).for_each(|(all, before)| take(all, before));
        info.time_ns = info.time_ns.saturating_add(self.duration_ns).max(self.until_ns);
        let total_ns = info.duration_ns;
        info.duration_ns = total_ns.saturating_sub(self.duration_ns).max(0);
        self.duration_ns = total_ns;
        self.until_ns = info.time_ns.saturating_add(info.duration_ns);
    }
}

/// Converts what is new since the last call with the same `converted`. Bytes that are not freed are
/// no sum over time: all of them are new each time. Its texts are safe to print.
pub fn to_increment(
    profile: &Profile,
    names: &Names,
    info: &LiveProfileInfo,
    converted: &mut ConvertedTotals,
) -> SavedProfile {
    let mut saved = convert(profile, names, info.clone(), Some(converted));
    saved.sanitize();
    saved
}

/// Converts a profile. The result has one sample for each stack of a thread or, if the profile
/// keeps the time of every sample, one sample for each sample taken. Its texts are safe to print.
pub fn to_saved(profile: &Profile, names: &Names, info: &LiveProfileInfo) -> SavedProfile {
    let mut saved = convert(profile, names, info.clone(), None);
    saved.sanitize();
    saved
}

fn convert(
    profile: &Profile,
    names: &Names,
    mut info: LiveProfileInfo,
    converted: Option<&mut ConvertedTotals>,
) -> SavedProfile {
    let is_increment = converted.is_some();
    let mut sums: HashMap<ThreadStack, ClockWeights> = HashMap::new();
    let mut order = Vec::new();
    let mut ticked = [false; CLOCKS.len()];
    for (index, &clock) in CLOCKS.iter().enumerate() {
        profile.visit(clock, info.span, |key, weight| {
            let sum = sums.entry(key).or_insert_with(|| {
                order.push(key);
                Default::default()
            });
            sum[index] += weight;
            ticked[index] = true;
        });
    }
    if let Some(converted) = converted {
        converted.subtract(&mut info, &mut sums);
        order.retain(|key| sums[key].iter().any(|weight| weight.ns > 0 || weight.samples > 0));
    }
    let shown = CLOCKS.iter().position(|&clock| clock == info.clock).unwrap_or_default();
    ticked[shown] = true;
    let mut all = Weight::default();
    sums.values().for_each(|weights| all += weights[shown]);
    let mut exporter = LiveExporter { saved: new_profile(&info, &ticked, all), ..LiveExporter::default() };
    exporter.add_locations(profile, names);
    let label_sets = exporter.add_label_sets(profile, names, order.iter().copied());
    // Those that were freed have no time at which they are not there.
    if let Some(samples) = profile.timed_samples().filter(|_| !info.clock.is_memory() && !is_increment) {
        exporter.saved.samples = timed_samples(profile, samples, info.span, &ticked, &label_sets);
        return exporter.saved;
    }
    let mut values = Vec::new();
    let mut packed = Samples::with_width(exporter.saved.sample_types.len());
    let mut stack = Vec::new();
    for key @ (thread, id) in order {
        values.clear();
        let weights = CLOCKS.iter().zip(&sums[&key]);
        for ((&clock, weight), _) in weights.zip(ticked).filter(|(_, ticked)| *ticked) {
            values.extend([weight.count(clock), weight.ns].map(|value| i64::try_from(value).unwrap_or(i64::MAX)));
        }
        stack.clear();
        stack.extend(profile.stacks.leaf_first(profile.stacks.code(id)).map(|frame| frame.0));
        packed.push(&stack, &values, label_sets[&(thread, profile.stacks.wait(id))]);
    }
    exporter.saved.samples = packed;
    exporter.saved
}

/// The samples of a span with their times, sorted by time.
fn timed_samples(
    profile: &Profile,
    samples: &[TimedSample],
    span: Span,
    ticked: &[bool],
    label_sets: &LabelSets,
) -> Samples {
    let is_inside =
        |sample: &&TimedSample| span.buckets().is_none_or(|(first, last)| (first..=last).contains(&sample.bucket));
    let mut sorted: Vec<&TimedSample> = samples.iter().filter(is_inside).collect();
    sorted.sort_by_key(|sample| sample.at_ns);
    let mut packed = Samples::with_width(2 * ticked.iter().filter(|ticked| **ticked).count());
    let (mut values, mut stack) = (Vec::new(), Vec::new());
    for &&TimedSample { at_ns, clock, key: (thread, id), samples, weight_ns, .. } in &sorted {
        values.clear();
        for (&own, _) in CLOCKS.iter().zip(ticked).filter(|(_, ticked)| **ticked) {
            let weight_ns = i64::try_from(weight_ns).unwrap_or(i64::MAX);
            values.extend(if own == clock { [i64::from(samples), weight_ns] } else { [0, 0] });
        }
        stack.clear();
        stack.extend(profile.stacks.leaf_first(profile.stacks.code(id)).map(|frame| frame.0));
        packed.push_timed(&stack, &values, label_sets[&(thread, profile.stacks.wait(id))], at_ns);
    }
    packed
}

/// The labels of the samples of a thread that wait for the same.
type LabelSets = HashMap<(ThreadId, Option<FrameId>), u32>;

/// The weight on each clock.
type ClockWeights = [Weight; CLOCKS.len()];

/// The clocks in the order of their sample types.
const CLOCKS: [Clock; Clock::ALL.len()] = Clock::ALL;

fn new_profile(info: &LiveProfileInfo, ticked: &[bool], all: Weight) -> SavedProfile {
    let several = ticked.iter().filter(|ticked| **ticked).count() > 1;
    let mut types = Vec::new();
    for (&clock, _) in CLOCKS.iter().zip(ticked).filter(|(_, ticked)| **ticked) {
        let counted = match clock.names().count_type {
            Some(name) => name.to_owned(),
            None if several => format!("{}_samples", sample_kind(clock)),
            None => "samples".to_owned(),
        };
        types.push(ValueType::new(&counted, "count"));
        types.push(ValueType::new(sample_kind(clock), clock.unit()));
    }
    let losses = format_losses(&info.lost_ticks, &info.lost_ns, all.ns);
    SavedProfile {
        sample_types: types,
        default_sample_type: sample_kind(info.clock).into(),
        period_type: match info.clock.is_memory() {
            // As other heap profilers say it.
            true => ValueType::new("space", "bytes"),
            false => ValueType::new(sample_kind(info.clock), "nanoseconds"),
        },
        period: i64::try_from(info.period_ns).unwrap_or(i64::MAX),
        time_ns: info.time_ns,
        duration_ns: info.duration_ns,
        comments: vec![
            format!("Samples: {} ({losses})", format_samples(info.clock, all.samples, all.latency_ns)).into(),
        ],
        ..SavedProfile::default()
    }
}

/// The profile under construction, with the indices of what it holds already.
#[derive(Default)]
struct LiveExporter {
    saved: SavedProfile,
    mappings: HashMap<ModuleId, u32>,
    functions: HashMap<FunctionId, u32>,
}

impl LiveExporter {
    /// Adds one location for each frame, so the index of a frame is that of its location.
    fn add_locations(&mut self, profile: &Profile, names: &Names) {
        // Reports are named after the first mapping, so the program comes first.
        if let Some(first) = profile.processes().first()
            && let Some((own, _)) =
                profile.modules.iter().find(|(_, file)| file.path.to_string_lossy() == first.executable)
        {
            self.intern_mapping(profile, own);
        }
        for (index, &frame) in profile.stacks.frames().iter().enumerate() {
            let (mapping, address) = match frame {
                Frame::Code { module, address } => (Some(self.intern_mapping(profile, module)), address),
                Frame::Unmapped { address, .. } => (None, address),
                Frame::Script { .. }
                | Frame::Truncated
                | Frame::LeftOut
                | Frame::MemoryLimit
                | Frame::Wait(_)
                | Frame::Title(_)
                | Frame::Thread(_)
                | Frame::Process(_)
                | Frame::Recording(_) => (None, 0),
            };
            if let Some(mapping) = mapping {
                let limit = &mut self.saved.mappings[mapping as usize].limit;
                *limit = (*limit).max((address | 0xfff).saturating_add(1));
            }
            let lines = names.lines(FrameId(index as u32)).iter().map(|line| Line {
                function: self.intern_function(names, line.function),
                line: line.line.into(),
                column: 0,
            });
            let lines = lines.collect();
            self.saved.locations.push(Location { id: index as u64 + 1, mapping, address, lines, folded: false });
        }
    }

    fn intern_mapping(&mut self, profile: &Profile, module: ModuleId) -> u32 {
        let all = &mut self.saved.mappings;
        *self.mappings.entry(module).or_insert_with(|| {
            let file = profile.modules.file(module);
            let build_id: String = file.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            all.push(Mapping {
                id: all.len() as u64 + 1,
                file: file.path.to_string_lossy().as_ref().into(),
                build_id: build_id.into(),
                // Tells pprof not to symbolize again.
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
                ..Mapping::default()
            });
            all.len() as u32 - 1
        })
    }

    fn intern_function(&mut self, names: &Names, id: FunctionId) -> u32 {
        let all = &mut self.saved.functions;
        *self.functions.entry(id).or_insert_with(|| {
            let function = names.function(id);
            // Without a system name pprof shows the name unchanged, with its parameters.
            all.push(Function {
                name: function.full.as_str().into(),
                file: function.file.as_str().into(),
                ..Function::default()
            });
            all.len() as u32 - 1
        })
    }

    /// Adds the labels of all samples: process and thread, and what the thread waits for.
    fn add_label_sets(
        &mut self,
        profile: &Profile,
        names: &Names,
        keys: impl Iterator<Item = (ThreadId, StackId)>,
    ) -> LabelSets {
        self.saved.labels.push([].into());
        let label = |key: &str, value| Label { key: key.into(), value };
        let text = |text: &str| LabelValue::Text(text.into());
        let number = |number: u32| LabelValue::Number(number.into(), Text::default());
        let mut sets: HashMap<Box<[Label]>, u32> = HashMap::from([([].into(), 0)]);
        let mut label_sets = LabelSets::new();
        for (id, stack) in keys {
            let wait = profile.stacks.wait(stack);
            label_sets.entry((id, wait)).or_insert_with(|| {
                let thread = profile.thread(id);
                let process = profile.process(thread.process);
                let executable = process.executable.rsplit('/').next().unwrap_or_default();
                let program = process.own_name.as_deref().unwrap_or(executable);
                let mut set = vec![
                    label("process", text(program)),
                    label("thread", text(&thread.name)),
                    label("pid", number(process.pid)),
                    label("tid", number(thread.tid)),
                    label("source", text(profile.recording_name(process).unwrap_or_default())),
                ];
                if let Some(wait) = wait.and_then(|wait| names.wait(profile, wait)) {
                    set.extend([
                        label("wait", text(wait.reason.word())),
                        label("object", text(wait.object)),
                        label("holder", text(wait.holder)),
                    ]);
                }
                set.retain(|label| !matches!(&label.value, LabelValue::Text(text) if text.is_empty()));
                let all = &mut self.saved.labels;
                *sets.entry(set.into()).or_insert_with_key(|set| {
                    all.push(set.clone());
                    all.len() as u32 - 1
                })
            });
        }
        label_sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const START: i64 = 1_795_935_149 * SECOND;

    /// The time and the duration of increments of ten seconds each, in seconds since the start.
    /// `steps` are the seconds by which the clock of the system was set before each of them.
    fn increments(steps: &[i64]) -> Vec<(i64, i64)> {
        let (mut converted, mut set_by) = (ConvertedTotals::default(), 0);
        let mut increment = |(index, step): (usize, &i64)| {
            let passed = 10 * (index as i64 + 1) * SECOND;
            set_by += step * SECOND;
            let now = START + passed + set_by;
            let mut info = LiveProfileInfo {
                clock: Clock::Prof,
                span: Span::Total,
                time_ns: now - passed,
                duration_ns: passed,
                period_ns: 1,
                lost_ticks: [0; LossCause::ALL.len()],
                lost_ns: [0; LossCause::ALL.len()],
            };
            converted.subtract(&mut info, &mut HashMap::new());
            ((info.time_ns - START) / SECOND, info.duration_ns / SECOND)
        };
        steps.iter().enumerate().map(&mut increment).collect()
    }

    #[test]
    fn increments_follow_one_another() {
        assert_eq!(increments(&[0, 0, 0]), [(0, 10), (10, 10), (20, 10)]);
        let forward = increments(&[0, 3600, 0]);
        assert_eq!(forward, [(0, 10), (3610, 10), (3620, 10)]);
    }

    #[test]
    fn a_clock_that_is_set_back_moves_no_increment_back() {
        let back = increments(&[0, -3600, 0]);
        assert_eq!(back, [(0, 10), (10, 10), (20, 10)]);
        // The clock has reached the times again.
        assert_eq!(increments(&[0, -15, 0, 20])[3], (35, 10));
        let all = increments(&[0, -3600, 7200, -7200, 1, -1, 3600, 86_400, -1]);
        for pair in all.windows(2) {
            assert!(pair[1].0 >= pair[0].0 + pair[0].1, "{all:?}");
        }
        assert_eq!(all.iter().map(|(_, duration)| duration).sum::<i64>(), 90);
    }
}
