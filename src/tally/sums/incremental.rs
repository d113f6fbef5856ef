//! Incremental sums for one query. New samples are added and expired ones subtracted, so an answer
//! costs time proportional to the change, not to the size of the profile. Where that is impossible
//! (another query, other names, totals that were reset), everything is added up again; the sums are
//! the same.
//!
//! An update has four steps: *plan* decides what can be kept, *feed* adds samples, *retract*
//! subtracts those that left the window, *propagate* carries the changes to rows and subtrees.

use super::batch::{Batch, StackChange};
use super::row_sums::RowSums;
use crate::profile::change_log::{LogPosition, LoggedSample};
use crate::profile::totals::{Span, ThreadStack, Weight};
use crate::profile::{Generation, Profile};
use crate::tally::filter::thread_filter::ThreadFilter;
use crate::tally::idle::IdleThreads;
use crate::tally::query::{Filters, Grouping, Query};
use crate::tally::rows::RowId;
use crate::tally::stacks::owner_stacks::OwnerStacks;
use crate::tally::stacks::propagate::{PropagationStep, StackWeights};
use crate::tally::stacks::stack_facts::StackFacts;
use crate::tally::stacks::{LATENCY, SUMS};
use crate::tally::top::TopTable;
use crate::wire::Clock;

/// The inputs that all sums are computed from.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) stacks: &'a OwnerStacks,
    pub(crate) facts: &'a StackFacts,
    pub(crate) threads: &'a ThreadFilter,
    pub(crate) idle: &'a IdleThreads,
    /// The number of rows.
    pub(crate) row_count: usize,
    /// Counts how often facts became invalid. Sums from before are those of other rows.
    pub(crate) invalidations: u64,
}

impl Context<'_> {
    /// The row that has the flat of an entry, if the filters keep it; see
    /// [`StackFacts::flat_row`].
    pub(crate) fn flat_row(&self, key: ThreadStack) -> Option<RowId> {
        self.facts.flat_row(self.stacks.stack(key)).filter(|_| self.threads.keeps(self.profile, key))
    }
}

/// The sums that are requested besides those of the query's span.
#[derive(Clone, Copy)]
pub(crate) struct SumsRequest {
    /// Whether the sums of the whole session are requested.
    pub(crate) total: bool,
    /// Whether the samples of the last answer suffice.
    pub(crate) reuse_samples: bool,
}

/// The inputs that determine the sums, except for time and samples.
#[derive(PartialEq)]
struct SumScope {
    generation: Generation,
    clock: Clock,
    filters: Filters,
    grouping: Grouping,
    /// Whether the query's span is the session.
    is_total: bool,
    /// Whether the session is summed besides the span.
    has_total: bool,
    /// See [`Context::invalidations`].
    invalidations: u64,
}

/// The plan of an update.
#[derive(Clone, Copy)]
struct Plan {
    /// Whether the earlier sums are kept and changed. If not, all sums are computed again.
    keep: bool,
    /// Whether the earlier sums are the answer.
    reuse: bool,
}

/// The sums of one query.
#[derive(Default)]
pub(crate) struct IncrementalSums {
    scope: Option<SumScope>,
    /// The samples that are summed: all before this position, in these buckets.
    position: LogPosition,
    buckets: Option<(u64, u64)>,
    /// The totals; they have no rows.
    totals: [TopTable; SUMS],
    pub(crate) rows: RowSums,
    /// The weights of the query's span.
    pub(crate) weights: StackWeights,
    batch: Batch,
}

impl IncrementalSums {
    /// The totals of one sum, without rows.
    pub(crate) fn totals(&self, sum: usize) -> TopTable {
        let latency = &self.totals[LATENCY + sum];
        let (latency_ns, kept_latency_ns) = (latency.total_ns, latency.kept_ns);
        TopTable { latency_ns, kept_latency_ns, ..self.totals[sum].clone() }
    }

    /// Brings the sums to the time of the query. Returns whether they have not changed.
    pub(crate) fn update(&mut self, query: &Query, request: SumsRequest, context: Context<'_>) -> bool {
        let (before, buckets) = (self.buckets, query.span.buckets());
        let plan = self.plan(query, request, context);
        if !plan.keep {
            (self.totals, self.rows) = (<[TopTable; SUMS]>::default(), RowSums::default());
            self.weights.clear();
        }
        self.rows.resize(context.row_count, context.facts);
        self.weights.update(context.stacks.nodes(context.profile));
        let mut changed = !plan.keep;
        if !plan.reuse {
            let log = context.profile.change_log(query.generation, query.clock);
            let new = log.and_then(|log| log.since(self.position)).filter(|_| plan.keep);
            let IncrementalSums { totals, rows, weights, batch, .. } = self;
            let mut feed = Feed { query, context, totals, rows, weights, batch, changed };
            match new {
                Some(new) => {
                    feed.feed_new(new, before, request.total);
                    feed.move_window(before, buckets);
                }
                None => feed.feed_all(request.total),
            }
            feed.flush();
            changed = feed.changed;
            (self.buckets, self.position) = (buckets, log.map(|log| log.position()).unwrap_or_default());
        }
        self.propagate(context.facts);
        !changed
    }

    /// Decides which of the earlier sums the query can keep, and remembers its scope.
    fn plan(&mut self, query: &Query, request: SumsRequest, context: Context<'_>) -> Plan {
        let buckets = query.span.buckets();
        let scope = Some(SumScope {
            generation: query.generation,
            clock: query.clock,
            filters: query.filters.clone(),
            grouping: query.group,
            is_total: buckets.is_none(),
            has_total: request.total,
            invalidations: context.invalidations,
        });
        let same_scope = self.scope == scope;
        self.scope = scope;
        let log = context.profile.change_log(query.generation, query.clock);
        let has_changes = log.is_some_and(|log| log.since(self.position).is_some());
        let overlaps = match (self.buckets, buckets) {
            (None, None) => true,
            (Some(before), Some(now)) => before.0 <= now.1 && now.0 <= before.1,
            _ => false,
        };
        let keep = same_scope && has_changes && overlaps;
        let reuse = request.reuse_samples && keep && self.buckets == buckets;
        Plan { keep, reuse }
    }

    /// Propagates the changes of stacks to subtrees and rows.
    fn propagate(&mut self, facts: &StackFacts) {
        let rows = &mut self.rows;
        self.weights.propagate(|step| match step {
            PropagationStep::Upcoming(chains) => facts.prefetch_fresh(chains.iter().copied()),
            PropagationStep::Changed(ends, change_ns) => rows.add_cum(facts, ends, change_ns),
        });
    }
}

/// Adds and subtracts samples of one update.
struct Feed<'a> {
    query: &'a Query,
    context: Context<'a>,
    totals: &'a mut [TopTable; SUMS],
    rows: &'a mut RowSums,
    weights: &'a mut StackWeights,
    batch: &'a mut Batch,
    changed: bool,
}

/// The sums that a sample belongs to: that of the span, that of the session.
type InSums = [bool; LATENCY];

const IN_SPAN: InSums = [true, false];
const IN_TOTAL: InSums = [false, true];

impl Feed<'_> {
    /// Feeds all samples of the query.
    fn feed_all(&mut self, has_total: bool) {
        let Query { generation, clock, span, .. } = *self.query;
        self.context.profile.visit_generation(generation, clock, span, |key, weight| self.add(key, weight, IN_SPAN));
        if has_total {
            let profile = self.context.profile;
            profile.visit_generation(generation, clock, Span::Total, |key, weight| self.add(key, weight, IN_TOTAL));
        }
    }

    /// Feeds new samples: those in the buckets that are summed already belong to the span.
    fn feed_new<'e>(
        &mut self,
        new: impl Iterator<Item = &'e LoggedSample>,
        buckets: Option<(u64, u64)>,
        has_total: bool,
    ) {
        for entered in new {
            let in_span = buckets.is_none_or(|(first, last)| (first..=last).contains(&entered.bucket));
            let sums = [in_span, has_total];
            if sums != [false; LATENCY] {
                self.add(entered.key, entered.weight, sums);
            }
        }
    }

    /// Moves the window from the buckets that are summed to those of the query.
    fn move_window(&mut self, before: Option<(u64, u64)>, now: Option<(u64, u64)>) {
        let (Some((first, last)), Some(now)) = (before, now) else { return };
        self.feed_buckets(now.0, first);
        self.feed_buckets(last + 1, now.1 + 1);
        self.retract_buckets(first, now.0.min(last + 1));
        self.retract_buckets((now.1 + 1).max(first), last + 1);
    }

    /// Feeds the samples of the buckets from `from` up to, not including, `to`.
    fn feed_buckets(&mut self, from: u64, to: u64) {
        let Query { generation, clock, .. } = *self.query;
        if from < to {
            let profile = self.context.profile;
            profile.visit_buckets(generation, clock, (from, to - 1), |_, key, weight| self.add(key, weight, IN_SPAN));
        }
    }

    /// Subtracts the samples of the buckets from `from` up to, not including, `to`.
    fn retract_buckets(&mut self, from: u64, to: u64) {
        let Query { generation, clock, .. } = *self.query;
        if from < to {
            let profile = self.context.profile;
            profile.visit_buckets(generation, clock, (from, to - 1), |_, key, weight| {
                self.add(key, weight.negative(), IN_SPAN)
            });
        }
    }

    fn add(&mut self, key: ThreadStack, weight: Weight, in_sums: InSums) {
        self.changed = true;
        let idle = self.context.idle.sums(key.0);
        if idle != [false; LATENCY] {
            for ((totals, in_sum), is_idle) in self.totals.iter_mut().zip(in_sums).zip(idle) {
                let idle_ns = if in_sum && is_idle { weight.ns } else { 0 };
                totals.idle_ns = totals.idle_ns.wrapping_add(idle_ns);
            }
        }
        let counts: InSums = std::array::from_fn(|sum| in_sums[sum] && !idle[sum]);
        if counts == [false; LATENCY] {
            return;
        }
        let ns: [u64; SUMS] = std::array::from_fn(|sum| match (counts[sum % LATENCY], sum < LATENCY) {
            (false, _) => 0,
            (true, true) => weight.ns,
            (true, false) => weight.latency_ns,
        });
        let samples = counts.map(|counts| if counts { weight.samples } else { 0 });
        for (totals, ns) in self.totals.iter_mut().zip(ns) {
            totals.total_ns = totals.total_ns.wrapping_add(ns);
        }
        for (totals, samples) in self.totals.iter_mut().zip(samples) {
            totals.samples = totals.samples.wrapping_add(samples);
        }
        if self.context.threads.keeps(self.context.profile, key) {
            let stack = self.context.stacks.stack(key);
            if self.batch.push(StackChange { stack, ns, samples }) {
                self.flush();
            }
        }
    }

    /// Applies the batch to the stacks.
    fn flush(&mut self) {
        let Feed { context: Context { facts, .. }, totals, rows, weights, batch, .. } = self;
        batch.drain(|changes| {
            let stacks = changes.iter().map(|change| change.stack);
            facts.prefetch(stacks.clone());
            weights.prefetch(stacks);
            for change in changes {
                let Some(row) = facts.flat_row(change.stack) else { continue };
                for (totals, ns) in totals.iter_mut().zip(change.ns) {
                    totals.kept_ns = totals.kept_ns.wrapping_add(ns);
                }
                for (totals, samples) in totals.iter_mut().zip(change.samples) {
                    totals.kept_samples = totals.kept_samples.wrapping_add(samples);
                }
                let change_ns = change.ns;
                if row != RowId::NONE {
                    rows.add_flat(row, facts.library_time(change.stack), change_ns);
                }
                weights.add(change.stack, change_ns);
            }
        });
    }
}
