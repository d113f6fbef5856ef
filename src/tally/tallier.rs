//! Answers queries. A [`Tallier`] caches what later answers need again: which filter matches which
//! function, the facts about stacks, and the sums of the last query. The answers are the same
//! without a cache; how they are computed is up to the modules of the views.

use std::sync::Arc;

use super::activity::{ActivitySums, RowActivity};
use super::call_paths::{self, CallPath};
use super::callers::{CallerIndex, Callers};
use super::filter::frame_filter::{FrameFilter, Invalidation};
use super::filter::thread_filter::ThreadFilter;
use super::flame::{self, Flame, FlameQuery};
use super::idle::IdleThreads;
use super::lines::{LineHits, RowLines};
use super::query::{BusyThreads, Query};
use super::rows::{RowId, RowTable};
use super::stacks::call_tree::CallTree;
use super::stacks::neighbors::StackIndex;
use super::stacks::owner_stacks::OwnerStacks;
use super::stacks::stack_facts::StackFacts;
use super::stacks::{SPAN, TOTAL};
use super::sums::incremental::{Context, IncrementalSums, SumsRequest};
use super::threads::{ThreadSources, ThreadTable, ThreadsQuery, WaitShare, sort};
use super::timeline::Timeline;
use super::top::{TopRow, TopTable};
use super::trend::{TrendSums, TrendWindow, Trends};
use crate::profile::Profile;
use crate::profile::stack::StackId;
use crate::profile::totals::{Span, ThreadStack};
use crate::symbols::Names;

/// The parts of an answer besides the top list, all computed from the same samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    /// The full name of the row whose callers and callees are requested.
    pub center: Option<&'a str>,
    /// The callers and callees whose own callers and callees are requested.
    pub unfolded: &'a [CallPath],
    /// Whether the center's heaviest way from the root and its activity are requested.
    pub details: bool,
    /// The full name of the row whose lines and addresses are requested.
    pub lines: Option<&'a str>,
    /// The flame graph that is requested.
    pub flame: Option<&'a FlameQuery>,
    /// Whether the top list of the session is requested besides that of the query's span.
    pub total: bool,
    /// Whether trends are requested.
    pub trends: bool,
    /// Whether the answer may use the samples of the last answer, if the query is for the same.
    pub reuse_samples: bool,
}

/// An answer to a query and its extras.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    /// The top list.
    pub table: Arc<TopTable>,
    /// The top list of the session, if requested.
    pub total: Option<Arc<TopTable>>,
    /// Callers and callees, if requested.
    pub callers: Option<Callers>,
    /// When and where the center ran, if its details are requested.
    pub activity: Option<RowActivity>,
    /// Lines and addresses, if requested.
    pub lines: Option<RowLines>,
    /// The flame graph, if requested.
    pub flame: Option<Arc<Flame>>,
    /// The trends of the table's rows, in the order of rows; empty if not requested, or for the
    /// session.
    pub trends: Arc<Trends>,
}

/// The last answer. It is returned again as long as nothing changes.
struct CachedResult {
    /// The query, whether the session's table and trends were requested, and the version of the
    /// names.
    key: (Query, [bool; 2], u64),
    table: Arc<TopTable>,
    total: Option<Arc<TopTable>>,
    trends: Arc<Trends>,
    flame: Option<(FlameQuery, Arc<Flame>)>,
}

/// Answers queries about one profile. All calls must pass the same `profile` and `names`.
#[derive(Default)]
pub struct Tallier {
    stacks: OwnerStacks,
    rows: RowTable,
    frame_filter: FrameFilter,
    facts: StackFacts,
    thread_filter: ThreadFilter,
    idle: IdleThreads,
    /// Counts how often facts became invalid.
    invalidations: u64,
    /// The version of the profile's stacks.
    stack_version: u64,
    sums: IncrementalSums,
    caller_index: CallerIndex,
    line_hits: LineHits,
    activity_sums: ActivitySums,
    trend_sums: TrendSums,
    cached: Option<CachedResult>,
    /// The part of the latencies that the samples do not tell, of the span and of the session.
    unknown_latency: [u64; 2],
}

impl Tallier {
    /// Returns the top list and the requested extras. Samples are summed once for all of them.
    pub fn answer(&mut self, profile: &Profile, names: &Names, query: &Query, extras: Extras) -> Tallies {
        self.update(profile, names, query);
        let result = self.build_tables(profile, names, query, extras);
        let Tallier { stacks, rows, frame_filter, facts, sums, idle, .. } = self;
        let index = StackIndex { nodes: stacks.nodes(profile), facts, filter: frame_filter, weights: &sums.weights };
        let callers = extras.center.map(|full| {
            self.caller_index.update(full, index, rows);
            let center_ns = rows.find(full).map_or((0, 0), |row| sums.rows.flat_and_cum_ns(row, SPAN));
            let mut callers = self.caller_index.build(full, center_ns, &sums.weights, rows);
            let tree = CallTree { stacks: index, rows };
            if !extras.unfolded.is_empty() {
                call_paths::unfold(&mut callers, extras.unfolded, tree);
            }
            if extras.details {
                call_paths::unfold_heaviest_callers(&mut callers, tree);
            }
            callers
        });
        let activity = extras.center.filter(|_| extras.details).map(|full| {
            let Some(row) = rows.find(full) else { return RowActivity::default() };
            let (threads, row_count, invalidations) = (&self.thread_filter, rows.len(), self.invalidations);
            let context = Context { profile, stacks, facts, threads, idle, row_count, invalidations };
            self.activity_sums.sum(row, query, context, frame_filter)
        });
        let lines = extras.lines.map(|full| {
            self.line_hits.update(full, names, index, rows);
            self.line_hits.build(full, (profile, names), stacks, index, rows)
        });
        let flame = extras.flame.and_then(|_| result.flame.as_ref().map(|(_, flame)| Arc::clone(flame)));
        let (table, total, trends) = (Arc::clone(&result.table), result.total.clone(), Arc::clone(&result.trends));
        self.cached = Some(result);
        Tallies { table, total, callers, activity, lines, flame, trends }
    }

    /// Updates the sums. Returns the tables, trends and flame graph, from the last answer as far as
    /// they have not changed.
    fn build_tables(&mut self, profile: &Profile, names: &Names, query: &Query, extras: Extras) -> CachedResult {
        let Tallier { stacks, rows, frame_filter, facts, sums, idle, .. } = self;
        let context = Context {
            profile,
            stacks,
            facts,
            threads: &self.thread_filter,
            idle,
            row_count: rows.len(),
            invalidations: self.invalidations,
        };
        let request = SumsRequest { total: extras.total, reuse_samples: extras.reuse_samples };
        let unchanged = sums.update(query, request, context);
        let key = (query.clone(), [extras.total, extras.trends], names.version());
        let cached = self.cached.take().filter(|cached| unchanged && cached.key == key);
        let mut result = cached.unwrap_or_else(|| {
            let build_table = |sum: usize| {
                let top_rows = sums.rows.top_rows(sum, rows, facts, query.sort);
                let (ids, top_rows): (Vec<RowId>, Vec<TopRow>) = top_rows.into_iter().unzip();
                let is_total = sum == TOTAL || query.span == Span::Total;
                let interval = if query.clock.is_memory() { profile.sampling_interval(is_total) } else { 0 };
                let idle_threads = idle.count(sum);
                (ids, TopTable { rows: top_rows, idle_threads, interval, ..sums.totals(sum) })
            };
            let (ids, table) = build_table(SPAN);
            let window = TrendWindow::new(query.span).filter(|_| extras.trends);
            let trends = window.map(|window| self.trend_sums.trends(window, query, context, &ids)).unwrap_or_default();
            let total = extras.total.then(|| build_table(TOTAL).1.into());
            CachedResult { key, table: table.into(), total, trends: trends.into(), flame: None }
        });
        if !(unchanged && extras.reuse_samples) {
            let spans = [query.span == Span::Total, true];
            self.unknown_latency = spans.map(|is_total| profile.unknown_latency(query.clock, is_total));
        }
        for (table, unknown) in [Some(&mut result.table), result.total.as_mut()].into_iter().zip(self.unknown_latency) {
            if let Some(table) = table.filter(|table| table.unknown_latency != unknown) {
                Arc::make_mut(table).unknown_latency = unknown;
            }
        }
        if let Some(flame_query) = extras.flame {
            let cached = result.flame.take().filter(|(cached, _)| cached == flame_query);
            let weights = &sums.weights;
            let index = StackIndex { nodes: stacks.nodes(profile), facts, filter: frame_filter, weights };
            let build = || (flame_query.clone(), flame::build(CallTree { stacks: index, rows }, flame_query).into());
            result.flame = Some(cached.unwrap_or_else(build));
        }
        result
    }

    /// Returns processes and threads.
    pub fn threads(
        &mut self,
        profile: &Profile,
        names: &Names,
        query: &Query,
        threads_query: &ThreadsQuery,
    ) -> ThreadTable {
        self.update(profile, names, query);
        let mut table = self.thread_sources(profile, names, threads_query).build(query);
        sort(&mut table, threads_query.sort);
        table
    }

    /// Returns what the threads that are not idle wait for, the longest first.
    pub fn waits(&mut self, profile: &Profile, names: &Names, query: &Query) -> Vec<WaitShare> {
        self.update(profile, names, query);
        let Tallier { stacks, facts, idle, thread_filter, .. } = &*self;
        let counts = |key: ThreadStack| {
            let is_kept = facts.flat_row(stacks.stack(key)).is_some() && thread_filter.keeps(profile, key);
            (is_kept && !idle.sums(key.0)[SPAN]).then_some(())
        };
        let threads_query = ThreadsQuery::default();
        let sources = self.thread_sources(profile, names, &threads_query);
        sources.wait_shares(query, counts).remove(&()).unwrap_or_default()
    }

    /// Returns the threads of a query that do something else than to wait, if it folds idle ones.
    pub fn busy_threads(&mut self, profile: &Profile, names: &Names, query: &Query) -> BusyThreads {
        self.update(profile, names, query);
        self.idle.busy()
    }

    fn thread_sources<'a>(
        &'a self,
        profile: &'a Profile,
        names: &'a Names,
        query: &'a ThreadsQuery,
    ) -> ThreadSources<'a> {
        let Tallier { stacks, rows, frame_filter, thread_filter: filter, facts, sums, idle, .. } = self;
        let index = StackIndex { nodes: stacks.nodes(profile), facts, filter: frame_filter, weights: &sums.weights };
        ThreadSources { profile, names, query, filter, rows, stacks, index, idle }
    }

    /// Returns the weight of the samples of a span that the filters keep, bucket by bucket.
    pub fn timeline(&mut self, profile: &Profile, names: &Names, query: &Query) -> Timeline {
        self.update(profile, names, query);
        let (Some((first, last)), Some((oldest, _))) = (query.span.buckets(), profile.history_range(query.clock))
        else {
            return Timeline::default();
        };
        let first = first.max(oldest);
        let mut ticks_ns = vec![0u64; (last + 1).saturating_sub(first) as usize];
        let Tallier { stacks, facts, thread_filter: threads, idle, .. } = self;
        let context = Context { profile, stacks, facts, threads, idle, row_count: 0, invalidations: 0 };
        profile.visit_buckets(query.generation, query.clock, (first, last), |bucket, key, weight| {
            if context.flat_row(key).is_some() {
                let ns = &mut ticks_ns[(bucket - first) as usize];
                *ns = ns.saturating_add(weight.ns);
            }
        });
        Timeline { ticks_ns: ticks_ns.into() }
    }

    /// Returns the top list.
    pub fn table(&mut self, profile: &Profile, names: &Names, query: &Query) -> Arc<TopTable> {
        self.answer(profile, names, query, Extras::default()).table
    }

    /// Returns callers and callees of the row with this full name.
    pub fn callers(&mut self, profile: &Profile, names: &Names, query: &Query, full: &str) -> Callers {
        let extras = Extras { center: Some(full), ..Extras::default() };
        self.answer(profile, names, query, extras).callers.unwrap_or_default()
    }

    /// Returns lines and addresses of the row with this full name.
    pub fn lines(&mut self, profile: &Profile, names: &Names, query: &Query, full: &str) -> RowLines {
        let extras = Extras { lines: Some(full), ..Extras::default() };
        self.answer(profile, names, query, extras).lines.unwrap_or_default()
    }

    /// Returns the flame graph.
    pub fn flame(&mut self, profile: &Profile, names: &Names, query: &Query, flame: &FlameQuery) -> Arc<Flame> {
        let extras = Extras { flame: Some(flame), ..Extras::default() };
        self.answer(profile, names, query, extras).flame.unwrap_or_default()
    }

    /// Brings everything but the sums up to date with profile, names and query.
    fn update(&mut self, profile: &Profile, names: &Names, query: &Query) {
        let stack_version = profile.stacks.version();
        if self.stack_version != stack_version {
            *self = Tallier { invalidations: self.invalidations, stack_version, ..Tallier::default() };
        }
        if let Some(stacks) = self.stacks.for_other_owners(query) {
            *self = Tallier { stacks, invalidations: self.invalidations, stack_version, ..Tallier::default() };
        }
        self.stacks.update(profile, query);
        let stacks = &self.stacks;
        let frames = (stacks.frame_count(profile), |frame| stacks.frame(frame));
        let invalid = self.frame_filter.update(query, profile, names, &mut self.rows, frames);
        let other_threads = self.thread_filter.update(&query.filters, profile, names);
        self.invalidations += u64::from(invalid != Invalidation::None || other_threads);
        let kept = self.facts.update(stacks.nodes(profile), invalid, &self.frame_filter, &self.rows);
        self.caller_index.truncate(kept);
        self.line_hits.truncate(kept);
        self.activity_sums.truncate(kept);
        // Filters do not hide what a thread waits in. One that waits for a lock or a CPU is not
        // idle.
        let leaf = |(_, stack): ThreadStack| {
            let wait = profile.stacks.wait(stack).and_then(|frame| names.wait(profile, frame));
            let code = profile.stacks.code(stack);
            let is_idle =
                code != StackId::EMPTY && wait.is_none_or(|wait| !wait.reason.is_lock() && !wait.reason.is_for_cpu());
            let frame = profile.stacks.nodes().get(code.index()).filter(|_| is_idle)?.frame;
            Some(names.function(names.lines(frame).first()?.function).short.as_str())
        };
        self.invalidations += u64::from(self.idle.update(profile, query, leaf));
    }
}
