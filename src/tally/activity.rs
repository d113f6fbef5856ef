//! The activity of a row: its share in each part of the last minute, and its weight by thread.
//! Samples that are in the row or in its callees count, each once, as for its cum.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::filter::frame_filter::FrameFilter;
use super::query::Query;
use super::rows::RowId;
use super::stacks::SPAN;
use super::stacks::stack_facts::LibraryTime;
use super::sums::incremental::Context;
use super::text::Text;
use crate::profile::change_log::{ChangeLog, LogPosition};
use crate::profile::stack::StackId;
use crate::profile::thread::ThreadId;
use crate::profile::totals::{BUCKET_NS, Span, ThreadStack, Weight};

/// The number of parts of the last minute.
pub const ACTIVITY_PARTS: usize = 30;
/// The buckets of a part: two seconds. A part begins at a fixed time, so that the graph does not
/// move before a new part begins.
const PART_BUCKETS: u64 = 2_000_000_000 / BUCKET_NS;

/// The weight of a row in one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPart {
    /// Its id, as `gettid` returns it.
    pub tid: u32,
    /// Its name.
    pub name: Text,
    /// The weight of its samples that contain the row, ns.
    pub weight_ns: u64,
}

/// The time and the threads in which a row ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowActivity {
    /// Its share of all samples in each part of the last minute before the end of the span, from 0
    /// to 1, oldest first; 0 in parts without samples.
    pub shares: [f32; ACTIVITY_PARTS],
    /// Its weight in the query's span by thread, the heaviest first. An answer from the samples of
    /// the last one has newer samples here, too.
    pub threads: Vec<ThreadPart>,
}

/// Samples with their weights. Most weights are that of the sample before, and stored once.
#[derive(Default)]
struct WeightedSamples {
    samples: Vec<(ThreadId, StackId)>,
    /// Weights, ns, each with the end of the samples that have it.
    weights_ns: Vec<(usize, u64)>,
}

impl WeightedSamples {
    fn push(&mut self, sample: (ThreadId, StackId), ns: u64) {
        self.samples.push(sample);
        let end = self.samples.len();
        match self.weights_ns.last_mut().filter(|last| last.1 == ns) {
            Some(last) => last.0 = end,
            None => self.weights_ns.push((end, ns)),
        }
    }

    /// All samples from a position on, with their weights.
    fn since(&self, position: usize) -> impl Iterator<Item = ((ThreadId, StackId), u64)> {
        let first = self.weights_ns.partition_point(|&(end, _)| end <= position);
        let starts = std::iter::once(position).chain(self.weights_ns[first..].iter().map(|&(end, _)| end));
        let ranges = starts.zip(&self.weights_ns[first..]);
        ranges.flat_map(|(start, &(end, ns))| self.samples[start..end].iter().map(move |&sample| (sample, ns)))
    }
}

/// The samples of one bucket of the history, and the part of them that contains the row.
#[derive(Default)]
struct BucketSamples {
    /// The weight of all samples, ns.
    all_ns: u64,
    /// Those that the filters keep.
    kept: WeightedSamples,
    /// The number of them that are summed in `threads`.
    summed: usize,
    /// The weight of samples that contain the row, by thread, ns. A thread may occur several times.
    threads: Vec<(ThreadId, u64)>,
}

impl BucketSamples {
    /// Forgets the row.
    fn clear_row(&mut self) {
        (self.summed, self.threads) = (0, Vec::new());
    }

    /// Adds the samples that contain the row and are not summed yet.
    fn sum_new(&mut self, contains: impl Fn(StackId) -> bool, sums: &mut ThreadSums) {
        for ((thread, stack), ns) in self.kept.since(self.summed) {
            if contains(stack) {
                sums.add(thread, ns);
            }
        }
        self.summed = self.kept.samples.len();
        self.threads.extend(sums.drain());
    }
}

/// Weights by thread, ns.
#[derive(Default)]
struct ThreadSums {
    by_thread_ns: Vec<u64>,
    /// The threads that have weight.
    weighted: Vec<ThreadId>,
}

impl ThreadSums {
    fn add(&mut self, thread: ThreadId, ns: u64) {
        let index = thread.0 as usize;
        if self.by_thread_ns.len() <= index {
            self.by_thread_ns.resize(index + 1, 0);
        }
        let sum_ns = &mut self.by_thread_ns[index];
        if *sum_ns == 0 && ns > 0 {
            self.weighted.push(thread);
        }
        *sum_ns = sum_ns.saturating_add(ns);
    }

    /// Removes and returns all weights.
    fn drain(&mut self) -> impl Iterator<Item = (ThreadId, u64)> {
        let ThreadSums { by_thread_ns, weighted } = self;
        weighted.drain(..).map(|thread| (thread, std::mem::take(&mut by_thread_ns[thread.0 as usize])))
    }
}

/// The query without span and order, and [`Context::invalidations`].
type ActivityScope = (Query, u64);

/// The samples of the last minute, and which of them contain one row. The samples are read from the
/// history once: new ones are added, and another row is found in those that are there.
#[derive(Default)]
pub(super) struct ActivitySums {
    scope: Option<ActivityScope>,
    /// The samples that are read: all before this position, from bucket `first` to bucket `last`.
    position: LogPosition,
    first: u64,
    last: u64,
    /// The buckets from `first` on.
    buckets: VecDeque<BucketSamples>,
    row: Option<RowId>,
    /// Whether the row is on each stack, by index.
    contains: Vec<bool>,
    thread_sums: ThreadSums,
}

impl ActivitySums {
    /// Drops what was derived from all stacks but the first `kept`.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.contains.truncate(kept);
    }

    /// Sums the activity of a row.
    pub(super) fn sum(&mut self, row: RowId, query: &Query, context: Context<'_>, filter: &FrameFilter) -> RowActivity {
        let newest = context.profile.history_range(query.clock).map(|(_, newest)| newest);
        let last = query.span.buckets().map(|(_, last)| last).or(newest).unwrap_or_default();
        let last_part = last / PART_BUCKETS;
        let first_part = (last_part + 1).saturating_sub(ACTIVITY_PARTS as u64);
        let empty = ACTIVITY_PARTS - (last_part + 1 - first_part) as usize;
        let first = first_part * PART_BUCKETS;
        self.read_samples((first, last), query, context);
        self.select_row(row, context, filter);

        let mut parts = [(0u64, 0u64); ACTIVITY_PARTS];
        for (bucket, samples) in (first..).zip(&mut self.buckets) {
            samples.sum_new(|stack| is_on(&self.contains, row, stack, context), &mut self.thread_sums);
            let (own_ns, all_ns) = &mut parts[empty + (bucket / PART_BUCKETS - first_part) as usize];
            *all_ns = all_ns.saturating_add(samples.all_ns);
            *own_ns = samples.threads.iter().fold(*own_ns, |own_ns, &(_, ns)| own_ns.saturating_add(ns));
        }
        let share = |(own_ns, all_ns): (u64, u64)| if all_ns == 0 { 0.0 } else { own_ns as f32 / all_ns as f32 };
        match query.span.buckets() {
            Some((start, _)) if start >= first => {
                let within = self.buckets.iter().skip((start - first) as usize);
                within.flat_map(|samples| &samples.threads).for_each(|&(thread, ns)| self.thread_sums.add(thread, ns));
            }
            _ => context.profile.visit_generation(query.generation, query.clock, query.span, |key, weight| {
                let is_kept = !context.idle.sums(key.0)[SPAN] && context.flat_row(key).is_some();
                if is_kept && is_on(&self.contains, row, context.stacks.stack(key), context) {
                    self.thread_sums.add(key.0, weight.ns);
                }
            }),
        }
        let part = |(thread, weight_ns)| {
            let thread = context.profile.thread(thread);
            ThreadPart { tid: thread.tid, name: Text::from(thread.name.as_str()), weight_ns }
        };
        let mut threads: Vec<(ThreadId, u64)> = self.thread_sums.drain().collect();
        threads.sort_unstable_by_key(|&(thread, weight_ns)| (Reverse(weight_ns), thread));
        RowActivity { shares: parts.map(share), threads: threads.into_iter().map(part).collect() }
    }

    /// Reads the new samples of the buckets from `first` to `last`, or all samples if the scope has
    /// changed.
    fn read_samples(&mut self, (first, last): (u64, u64), query: &Query, context: Context<'_>) {
        let plain = Query { span: Span::Total, sort: Default::default(), ..query.clone() };
        let scope = Some((plain, context.invalidations));
        let log = context.profile.change_log(query.generation, query.clock);
        let new = log.and_then(|log| log.since(self.position));
        let new = new.filter(|_| self.scope == scope && self.last <= last);
        let unread = match new {
            Some(new) => {
                let expired = (first - self.first).min(self.buckets.len() as u64);
                self.buckets.drain(..expired as usize);
                self.first = first;
                let read = self.last;
                for sample in new.filter(|sample| (first..=read).contains(&sample.bucket)) {
                    self.add(sample.bucket, sample.key, sample.weight, context);
                }
                first.max(read + 1)
            }
            None => {
                self.buckets.clear();
                self.first = first;
                first
            }
        };
        self.buckets.resize_with((last + 1 - first) as usize, BucketSamples::default);
        context.profile.visit_buckets(query.generation, query.clock, (unread, last), |bucket, key, weight| {
            self.add(bucket, key, weight, context);
        });
        (self.scope, self.last) = (scope, last);
        self.position = log.map(ChangeLog::position).unwrap_or_default();
    }

    fn add(&mut self, bucket: u64, key: ThreadStack, Weight { ns, .. }: Weight, context: Context<'_>) {
        if ns == 0 || context.idle.sums(key.0)[SPAN] {
            return;
        }
        let samples = &mut self.buckets[(bucket - self.first) as usize];
        samples.all_ns = samples.all_ns.saturating_add(ns);
        if context.flat_row(key).is_some() {
            samples.kept.push((key.0, context.stacks.stack(key)), ns);
        }
    }

    /// Finds the stacks that a row is on. Those of the last row are known, except for new ones.
    fn select_row(&mut self, row: RowId, context: Context<'_>, filter: &FrameFilter) {
        if self.row != Some(row) {
            self.row = Some(row);
            self.contains.clear();
            self.buckets.iter_mut().for_each(BucketSamples::clear_row);
        }
        let nodes = context.stacks.nodes(context.profile);
        if self.contains.len() == nodes.len() {
            return;
        }
        let frames_with = filter.frames_with(row);
        let known = self.contains.len();
        self.contains.reserve(nodes.len() - known);
        for (index, &node) in nodes.iter().enumerate().skip(known) {
            let contains = index > 0
                && (self.contains[node.parent.index()]
                    || frames_with[node.frame.0 as usize] && !context.facts.rows_at(index, node, filter).1.is_empty());
            self.contains.push(contains);
        }
    }
}

/// Whether a row is on a stack, or the stack is reduced to it.
fn is_on(contains: &[bool], row: RowId, stack: StackId, context: Context<'_>) -> bool {
    contains[stack.index()] || context.facts.library_time(stack) == LibraryTime::Whole(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_their_weights() {
        let mut samples = WeightedSamples::default();
        let all: Vec<((ThreadId, StackId), u64)> = [1, 1, 2, 2, 2, 1, 3]
            .into_iter()
            .enumerate()
            .map(|(index, ns)| ((ThreadId(index as u32 % 2), StackId::from_index(index)), ns))
            .collect();
        for (count, &(sample, ns)) in all.iter().enumerate() {
            samples.push(sample, ns);
            for position in 0..=count + 1 {
                assert_eq!(samples.since(position).collect::<Vec<_>>(), all[position..=count]);
            }
        }
        assert_eq!(samples.weights_ns.len(), 4);
        assert_eq!(WeightedSamples::default().since(0).count(), 0);
    }
}
