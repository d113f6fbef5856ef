//! The activity of a row: its share in each part of the last minute, and its weight by thread.
//! Samples that are in the row or in its callees count, each once, as for its cum.

use std::cmp::Reverse;
use std::collections::BTreeMap;

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

/// The samples of one bucket of the history.
#[derive(Default)]
struct BucketSum {
    /// The weight of all samples, ns.
    all_ns: u64,
    /// The weight of those that contain the row, by thread, ns.
    threads: BTreeMap<ThreadId, u64>,
}

/// The query without span and order, the row, and [`Context::invalidations`].
type ActivityScope = (Query, RowId, u64);

/// Knows of stacks whether they contain one row. Each stack is looked at once. The samples of the
/// last minute are summed once, too: new ones are added.
#[derive(Default)]
pub(super) struct RowStacks {
    scope: Option<ActivityScope>,
    contains: Vec<Option<bool>>,
    /// The samples that are summed: all before this position, up to bucket `last`.
    position: LogPosition,
    last: u64,
    buckets: BTreeMap<u64, BucketSum>,
}

impl RowStacks {
    /// Drops what was derived from all stacks but the first `kept`.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.contains.truncate(kept);
    }

    /// Sums the activity of a row.
    pub(super) fn sum(&mut self, row: RowId, query: &Query, context: Context<'_>) -> RowActivity {
        let newest = context.profile.history_range(query.clock).map(|(_, newest)| newest);
        let last = query.span.buckets().map(|(_, last)| last).or(newest).unwrap_or_default();
        let last_part = last / PART_BUCKETS;
        let first_part = (last_part + 1).saturating_sub(ACTIVITY_PARTS as u64);
        let empty = ACTIVITY_PARTS - (last_part + 1 - first_part) as usize;
        let first = first_part * PART_BUCKETS;
        self.update(row, (first, last), query, context);

        let mut parts = [(0u64, 0u64); ACTIVITY_PARTS];
        for (bucket, sum) in &self.buckets {
            let (own_ns, all_ns) = &mut parts[empty + (bucket / PART_BUCKETS - first_part) as usize];
            *all_ns = all_ns.saturating_add(sum.all_ns);
            *own_ns = sum.threads.values().fold(*own_ns, |own_ns, &ns| own_ns.saturating_add(ns));
        }
        let share = |(own_ns, all_ns): (u64, u64)| if all_ns == 0 { 0.0 } else { own_ns as f32 / all_ns as f32 };
        let mut threads: BTreeMap<ThreadId, u64> = BTreeMap::new();
        let mut add = |thread, ns| {
            let weight_ns = threads.entry(thread).or_default();
            *weight_ns = weight_ns.saturating_add(ns);
        };
        match query.span.buckets() {
            Some((start, _)) if start >= first => {
                let sums = self.buckets.range(start..).flat_map(|(_, sum)| &sum.threads);
                sums.for_each(|(&thread, &ns)| add(thread, ns));
            }
            _ => context.profile.visit_generation(query.generation, query.clock, query.span, |key, weight| {
                if !context.idle.sums(key.0)[SPAN] && self.contains(row, key, context) {
                    add(key.0, weight.ns);
                }
            }),
        }
        let part = |(thread, weight_ns)| {
            let thread = context.profile.thread(thread);
            ThreadPart { tid: thread.tid, name: Text::from(thread.name.as_str()), weight_ns }
        };
        let mut threads: Vec<_> = threads.into_iter().filter(|&(_, weight_ns)| weight_ns != 0).map(part).collect();
        threads.sort_by_key(|part| Reverse(part.weight_ns));
        RowActivity { shares: parts.map(share), threads }
    }

    /// Adds the new samples of the buckets from `first` to `last`, or all samples if the scope has
    /// changed.
    fn update(&mut self, row: RowId, (first, last): (u64, u64), query: &Query, context: Context<'_>) {
        let plain = Query { span: Span::Total, sort: Default::default(), ..query.clone() };
        let scope = Some((plain, row, context.invalidations));
        if self.scope.as_ref().is_none_or(|(_, earlier, _)| *earlier != row) {
            self.contains.clear();
        }
        self.contains.resize(context.stacks.nodes(context.profile).len(), None);
        let log = context.profile.change_log(query.generation, query.clock);
        let new = log.and_then(|log| log.since(self.position));
        let new = new.filter(|_| self.scope == scope && self.last <= last);
        let unknown = match new {
            Some(new) => {
                self.buckets = self.buckets.split_off(&first);
                let summed = self.last;
                for sample in new.filter(|sample| (first..=summed).contains(&sample.bucket)) {
                    self.add(row, (sample.bucket, sample.key), sample.weight, context);
                }
                first.max(summed + 1)
            }
            None => {
                self.buckets.clear();
                first
            }
        };
        context.profile.visit_buckets(query.generation, query.clock, (unknown, last), |bucket, key, weight| {
            self.add(row, (bucket, key), weight, context);
        });
        (self.scope, self.last) = (scope, last);
        self.position = log.map(ChangeLog::position).unwrap_or_default();
    }

    fn add(&mut self, row: RowId, (bucket, key): (u64, ThreadStack), weight: Weight, context: Context<'_>) {
        if context.idle.sums(key.0)[SPAN] {
            return;
        }
        let is_own = self.contains(row, key, context);
        let sum = self.buckets.entry(bucket).or_default();
        sum.all_ns = sum.all_ns.saturating_add(weight.ns);
        if is_own {
            let own_ns = sum.threads.entry(key.0).or_default();
            *own_ns = own_ns.saturating_add(weight.ns);
        }
    }

    /// Whether a sample counts for the row.
    fn contains(&mut self, row: RowId, key: ThreadStack, context: Context<'_>) -> bool {
        if context.flat_row(key).is_none() {
            return false;
        }
        let stack = context.stacks.stack(key);
        if matches!(context.facts.library_time(stack), LibraryTime::Whole(leaf) if leaf == row) {
            return true;
        }
        let nodes = context.stacks.nodes(context.profile);
        let (mut at, mut result) = (stack, false);
        while at != StackId::EMPTY {
            match self.contains[at.index()] {
                Some(known) => {
                    result = known;
                    break;
                }
                None if context.facts.fresh_rows((at.index(), at.index())).contains(&row) => {
                    result = true;
                    break;
                }
                None => at = nodes[at.index()].parent,
            }
        }
        let mut below = stack;
        while below != at {
            self.contains[below.index()] = Some(result);
            below = nodes[below.index()].parent;
        }
        if at != StackId::EMPTY {
            self.contains[at.index()] = Some(result);
        }
        result
    }
}
