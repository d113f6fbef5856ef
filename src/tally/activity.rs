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
use crate::profile::stack::StackId;
use crate::profile::thread::ThreadId;
use crate::profile::totals::{BUCKET_NS, ThreadStack, Weight};

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

/// Knows of stacks whether they contain one row. Each stack is looked at once.
#[derive(Default)]
pub(super) struct RowStacks {
    row: Option<RowId>,
    contains: Vec<Option<bool>>,
}

impl RowStacks {
    /// Drops what was derived from all stacks but the first `kept`.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.contains.truncate(kept);
    }

    /// Sums the activity of a row.
    pub(super) fn sum(&mut self, row: RowId, query: &Query, context: Context<'_>) -> RowActivity {
        if self.row != Some(row) {
            *self = RowStacks { row: Some(row), contains: Vec::new() };
        }
        self.contains.resize(context.stacks.nodes(context.profile).len(), None);
        let (generation, clock) = (query.generation, query.clock);
        let is_idle = |key: ThreadStack| context.idle.sums(key.0)[SPAN];
        let mut activity = RowActivity::default();
        let newest = context.profile.history_range(clock).map(|(_, newest)| newest);
        if let Some(last) = query.span.buckets().map(|(_, last)| last).or(newest) {
            let mut parts = [(0u64, 0u64); ACTIVITY_PARTS];
            let last_part = last / PART_BUCKETS;
            let first_part = (last_part + 1).saturating_sub(ACTIVITY_PARTS as u64);
            let empty = ACTIVITY_PARTS - (last_part + 1 - first_part) as usize;
            let minute = (first_part * PART_BUCKETS, last);
            context.profile.visit_buckets(generation, clock, minute, |bucket, key, Weight { ns, .. }| {
                if is_idle(key) {
                    return;
                }
                let (own_ns, all_ns) = &mut parts[empty + (bucket / PART_BUCKETS - first_part) as usize];
                *all_ns = all_ns.saturating_add(ns);
                if self.contains(row, key, context) {
                    *own_ns = own_ns.saturating_add(ns);
                }
            });
            let share = |(own_ns, all_ns): (u64, u64)| if all_ns == 0 { 0.0 } else { own_ns as f32 / all_ns as f32 };
            activity.shares = parts.map(share);
        }
        let mut threads: BTreeMap<ThreadId, u64> = BTreeMap::new();
        context.profile.visit_generation(generation, clock, query.span, |key, Weight { ns, .. }| {
            if !is_idle(key) && self.contains(row, key, context) {
                let weight_ns = threads.entry(key.0).or_default();
                *weight_ns = weight_ns.saturating_add(ns);
            }
        });
        let part = |(thread, weight_ns)| {
            let thread = context.profile.thread(thread);
            ThreadPart { tid: thread.tid, name: Text::from(thread.name.as_str()), weight_ns }
        };
        activity.threads = threads.into_iter().filter(|&(_, weight_ns)| weight_ns != 0).map(part).collect();
        activity.threads.sort_by_key(|part| Reverse(part.weight_ns));
        activity
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
