//! What is known of a running target as a saved profile: every stack of every thread, with its weight by each clock that ticked,
//! and who it was.
//!
//! A frame's names are those on the screen, also of code that has none (`libz.so.1+0x4410`), so that a report of what is saved
//! has the screen's rows. Addresses are those of the file itself: a module lies at 0 in its mapping.

use std::collections::HashMap;

use crate::profile::module::ModuleId;
use crate::profile::stack::{Frame, FrameId, StackId};
use crate::profile::thread::ThreadId;
use crate::profile::window::{BUCKET_NS, Span, Weight};
use crate::profile::{Clock, Profile, TimedSample};
use crate::symbols::{FunctionId, Names};
use crate::tally::measure::count;
use crate::tally::saved::{Function, Label, LabelValue, Line, Location, Mapping, Samples, Saved, ValueType};
use crate::tally::text::Text;
use crate::write::text::{kind, misses};

/// What the books do not say of themselves.
#[derive(Clone, Debug)]
pub struct About {
    /// Which clock is shown: reports show it too.
    pub clock: Clock,
    /// Of which time.
    pub span: Span,
    /// Begin of that time, ns since 1970; 0 when unknown.
    pub time_ns: i64,
    /// Its length, ns; 0 when unknown.
    pub duration_ns: i64,
    /// Of the shown clock, ns.
    pub period_ns: u64,
    /// Ticks lost in that time, by cause.
    pub lost_ticks: [u64; crate::profile::loss::Loss::ALL.len()],
    /// Their weight, ns, by cause.
    pub lost_ns: [u64; crate::profile::loss::Loss::ALL.len()],
}

/// Everything in the books of a span, as a file keeps it: one sample for each stack of a thread,
/// or, where the profile keeps the time of every sample, the samples as they were taken.
pub fn saved(profile: &Profile, names: &Names, about: &About) -> Saved {
    let mut sums: HashMap<(ThreadId, StackId), [Weight; CLOCKS.len()]> = HashMap::new();
    let mut order = Vec::new();
    let mut ticked = [false; CLOCKS.len()];
    let mut all = Weight::default();
    for (place, &clock) in CLOCKS.iter().enumerate() {
        profile.visit(clock, about.span, |key, weight| {
            let sum = sums.entry(key).or_insert_with(|| {
                order.push(key);
                Default::default()
            });
            sum[place] += weight;
            ticked[place] = true;
            if clock == about.clock {
                all += weight;
            }
        });
    }
    let shown = CLOCKS.iter().position(|&clock| clock == about.clock).unwrap_or_default();
    ticked[shown] = true;
    let mut made = Maker { saved: head(about, &ticked, all), ..Maker::default() };
    made.places(profile, names);
    let threads = made.labels(profile);
    if let Some(samples) = profile.timed_samples() {
        made.saved.samples = timed(profile, samples, about.span, &ticked, &threads);
        return made.saved;
    }
    let mut values = Vec::new();
    let mut packed = Samples::of_width(made.saved.sample_types.len());
    let mut stack = Vec::new();
    for key @ (thread, id) in order {
        values.clear();
        for (weight, _) in sums[&key].iter().zip(ticked).filter(|(_, ticked)| *ticked) {
            values.extend([weight.samples, weight.ns].map(|value| i64::try_from(value).unwrap_or(i64::MAX)));
        }
        stack.clear();
        stack.extend(profile.stacks.leaf_first(id).map(|frame| frame.0));
        packed.push(&stack, &values, threads[thread.0 as usize]);
    }
    made.saved.samples = packed;
    made.saved
}

/// Every sample of a span with its time, in the order of time.
fn timed(profile: &Profile, samples: &[TimedSample], span: Span, ticked: &[bool], labels: &[u32]) -> Samples {
    let is_inside = |sample: &&TimedSample| {
        let bucket = sample.at_ns / BUCKET_NS;
        span.ticks().is_none_or(|(first, last)| (first..=last).contains(&bucket))
    };
    let mut sorted: Vec<&TimedSample> = samples.iter().filter(is_inside).collect();
    sorted.sort_by_key(|sample| sample.at_ns);
    let mut packed = Samples::of_width(2 * ticked.iter().filter(|ticked| **ticked).count());
    let (mut values, mut stack) = (Vec::new(), Vec::new());
    for &&TimedSample { at_ns, clock, key: (thread, id), weight_ns } in &sorted {
        values.clear();
        for (&own, _) in CLOCKS.iter().zip(ticked).filter(|(_, ticked)| **ticked) {
            let weight_ns = i64::try_from(weight_ns).unwrap_or(i64::MAX);
            values.extend(if own == clock { [1, weight_ns] } else { [0, 0] });
        }
        stack.clear();
        stack.extend(profile.stacks.leaf_first(id).map(|frame| frame.0));
        packed.push_at(&stack, &values, labels[thread.0 as usize], at_ns);
    }
    packed
}

const CLOCKS: [Clock; 3] = [Clock::Prof, Clock::Real, Clock::Virtual];

fn head(about: &About, ticked: &[bool], all: Weight) -> Saved {
    let several = ticked.iter().filter(|ticked| **ticked).count() > 1;
    let mut types = Vec::new();
    for (&clock, _) in CLOCKS.iter().zip(ticked).filter(|(_, ticked)| **ticked) {
        let counted = if several { format!("{}_samples", kind(clock)) } else { "samples".to_owned() };
        types.push(ValueType::new(&counted, "count"));
        types.push(ValueType::new(kind(clock), "nanoseconds"));
    }
    let misses = misses(&about.lost_ticks, &about.lost_ns, all.ns);
    Saved {
        sample_types: types,
        default_sample_type: kind(about.clock).into(),
        period_type: ValueType::new(kind(about.clock), "nanoseconds"),
        period: i64::try_from(about.period_ns).unwrap_or(i64::MAX),
        time_ns: about.time_ns,
        duration_ns: about.duration_ns,
        comments: vec![format!("Samples: {} ({misses})", count(all.samples)).into()],
        ..Saved::default()
    }
}

#[derive(Default)]
struct Maker {
    saved: Saved,
    mappings: HashMap<ModuleId, u32>,
    functions: HashMap<FunctionId, u32>,
}

impl Maker {
    /// One location for each frame, in their order, so that a frame's number is its location's.
    fn places(&mut self, profile: &Profile, names: &Names) {
        // Reports are named after the first mapping: the program's own file.
        if let Some(first) = profile.processes().first()
            && let Some((own, _)) =
                profile.modules.iter().find(|(_, file)| file.path.to_string_lossy() == first.executable)
        {
            self.mapping(profile, own);
        }
        for (index, &frame) in profile.stacks.frames().iter().enumerate() {
            let (mapping, address) = match frame {
                Frame::Code { module, address } => (Some(self.mapping(profile, module)), address),
                Frame::Unmapped(address) => (None, address),
                Frame::Truncated | Frame::LeftOut | Frame::Thread(_) | Frame::Process(_) => (None, 0),
            };
            if let Some(mapping) = mapping {
                let limit = &mut self.saved.mappings[mapping as usize].limit;
                *limit = (*limit).max((address | 0xfff).saturating_add(1));
            }
            let told = names.lines(FrameId(index as u32)).iter();
            let lines = told.map(|line| Line {
                function: self.function(names, line.function),
                line: line.line.into(),
                column: 0,
            });
            let lines = lines.collect();
            self.saved.locations.push(Location { id: index as u64 + 1, mapping, address, lines, folded: false });
        }
    }

    fn mapping(&mut self, profile: &Profile, module: ModuleId) -> u32 {
        let all = &mut self.saved.mappings;
        *self.mappings.entry(module).or_insert_with(|| {
            let file = profile.modules.file(module);
            let build_id: String = file.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            all.push(Mapping {
                id: all.len() as u64 + 1,
                file: file.path.to_string_lossy().as_ref().into(),
                build_id: build_id.into(),
                // Nobody need look for names that are there.
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
                ..Mapping::default()
            });
            all.len() as u32 - 1
        })
    }

    fn function(&mut self, names: &Names, id: FunctionId) -> u32 {
        let all = &mut self.saved.functions;
        *self.functions.entry(id).or_insert_with(|| {
            let function = names.function(id);
            // Without a system name pprof takes the name as it is, parameters and all.
            all.push(Function {
                name: function.full.as_str().into(),
                file: function.file.as_str().into(),
                ..Function::default()
            });
            all.len() as u32 - 1
        })
    }

    /// The set of labels of every thread.
    fn labels(&mut self, profile: &Profile) -> Vec<u32> {
        let mut sets: HashMap<Box<[Label]>, u32> = HashMap::from([([].into(), 0)]);
        self.saved.labels.push([].into());
        let label = |key: &str, value| Label { key: key.into(), value };
        let number = |number: u32| LabelValue::Number(number.into(), Text::default());
        let mut of_thread = Vec::with_capacity(profile.threads().len());
        for thread in profile.threads() {
            let process = profile.process(thread.process);
            let program = process.executable.rsplit('/').next().unwrap_or_default();
            let set: Box<[Label]> = [
                label("process", LabelValue::Text(program.into())),
                label("thread", LabelValue::Text(thread.name.as_str().into())),
                label("pid", number(process.pid)),
                label("tid", number(thread.tid)),
            ]
            .into_iter()
            .filter(|label| !matches!(&label.value, LabelValue::Text(text) if text.is_empty()))
            .collect();
            let all = &mut self.saved.labels;
            of_thread.push(*sets.entry(set).or_insert_with_key(|set| {
                all.push(set.clone());
                all.len() as u32 - 1
            }));
        }
        of_thread
    }
}
