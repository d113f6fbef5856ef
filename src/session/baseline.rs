//! Differences from a baseline. The profile keeps the totals of the baseline; this module answers
//! the current question from them and subtracts. The baseline does not change, so each question is
//! answered once and the result is cached.

use std::collections::HashMap;
use std::sync::Arc;

use crate::profile::process::ProcessId;
use crate::profile::totals::Span;
use crate::profile::{Generation, Profile};
use crate::symbols::Names;
use crate::tally::call_paths::CallPath;
use crate::tally::diff::{self, Burstiness, Periods, SignificanceTest};
use crate::tally::flame::FlameQuery;
use crate::tally::query::{BusyThreads, Query};
use crate::tally::tallier::{Extras, Tallier, Tallies};
use crate::tally::text::Text;
use crate::tally::threads::{ThreadTable, ThreadsQuery};
use crate::tally::top::{TopRow, TopTable};
use crate::tally::trend::{Trend, Trends};

/// The inputs of a cached result: query, centre and listing, flame graph, version of the names,
/// unfolded callers.
type CacheKey = (Query, [Option<String>; 2], Option<FlameQuery>, u64, Vec<CallPath>);

/// A baseline and the results computed from it.
pub(super) struct Baseline {
    /// The span that was shown when the baseline was set.
    span: Span,
    /// The time when the baseline was set, on the viewer's clock, ns.
    pub(super) at_ns: u64,
    /// Whether its samples are of another file, with another clock.
    pub(super) is_of_file: bool,
    /// The threads that work now, which are not idle in the baseline either.
    pub(super) busy_now: BusyThreads,
    /// The threads that work in the baseline, and the query that they were found for.
    busy: Option<((Query, u64), BusyThreads)>,
    tallier: Tallier,
    /// The last result.
    result: Option<(CacheKey, Tallies)>,
    /// The last threads.
    threads: Option<((Query, u64), ThreadTable)>,
    judge: SignificanceTest,
    /// Burstiness of the baseline's rows, and the query it was measured for.
    bursts: (Option<(Query, u64)>, Burstiness),
}

impl Baseline {
    /// A baseline of the current view.
    pub(super) fn new(span: Span, at_ns: u64) -> Baseline {
        Baseline {
            span,
            at_ns,
            is_of_file: false,
            busy_now: BusyThreads::default(),
            busy: None,
            tallier: Tallier::default(),
            result: None,
            threads: None,
            judge: SignificanceTest::accept_all(),
            bursts: Default::default(),
        }
    }

    /// A baseline of all samples of another file, the last of which is of `at_ns`.
    pub(super) fn of_file(at_ns: u64) -> Baseline {
        Baseline { is_of_file: true, ..Baseline::new(Span::Total, at_ns) }
    }

    /// Returns the threads that work in the baseline, if the query folds those that wait.
    pub(super) fn busy_threads(&mut self, profile: &Profile, names: &Names, query: &Query) -> BusyThreads {
        if !query.folds_idle() {
            return BusyThreads::default();
        }
        let base = self.base(query);
        let of = (Query { busy_elsewhere: BusyThreads::default(), ..base.clone() }, names.version());
        if self.busy.as_ref().is_none_or(|(known, _)| *known != of) {
            self.busy = Some((of, self.tallier.busy_threads(profile, names, &base)));
        }
        self.busy.as_ref().map(|(_, busy)| Arc::clone(busy)).unwrap_or_default()
    }

    /// Replaces the numbers in `now` by their differences from the baseline. The first sample came
    /// at `begun_ns`. Shares are those of the samples that filters keep if `of_kept`. Returns the
    /// length of the time that is in both, ns.
    pub(super) fn subtract(
        &mut self,
        (profile, names): (&Profile, &Names),
        query: &Query,
        besides: Extras<'_>,
        (begun_ns, of_kept): (u64, bool),
        now: &mut Tallies,
    ) -> u64 {
        let covered_ns = |span: Span| match span {
            Span::Last { ns, now_ns } => ns.min(now_ns.saturating_sub(begun_ns)),
            Span::Total => 0,
        };
        let base = self.base(query);
        // A box that is too narrow in the baseline may be wide now.
        let flame = besides.flame.map(|flame| FlameQuery { least_share: 0.0, ..flame.clone() });
        let named = [besides.center, besides.lines].map(|full| full.map(str::to_owned));
        let key = (base, named, flame, names.version(), besides.unfolded.to_vec());
        if self.result.as_ref().is_none_or(|(cached, _)| *cached != key) {
            let besides = Extras { flame: key.2.as_ref(), trends: false, ..besides };
            let tallies = self.tallier.answer(profile, names, &key.0, besides);
            let of = Some((key.0.clone(), key.3));
            if self.bursts.0 != of {
                let parts = diff::baseline_parts(key.0.span, covered_ns(key.0.span)).into_iter();
                let sum_part = |span| self.tallier.table(profile, names, &Query { span, ..key.0.clone() });
                self.bursts = (of, Burstiness::new(&parts.map(sum_part).collect::<Vec<_>>()));
            }
            self.result = Some((key, tallies));
        }
        let (Some(((base, ..), before)), bursts) = (&self.result, &self.bursts.1) else { return 0 };
        let both_ns = if self.is_of_file { 0 } else { shared_ns(query.span, base.span, begun_ns) };
        let judge = match query.span {
            Span::Total if self.is_of_file => {
                let periods = Periods { now_ns: now.table.total_ns, before_ns: before.table.total_ns, shared_ns: 0 };
                SignificanceTest::new((&now.table, &before.table), periods, bursts)
            }
            Span::Total => SignificanceTest::accept_all(),
            Span::Last { .. } => {
                let (now_ns, before_ns) = (covered_ns(query.span), covered_ns(base.span));
                let periods = Periods { now_ns, before_ns, shared_ns: both_ns };
                SignificanceTest::new((&now.table, &before.table), periods, bursts)
            }
        };
        self.judge = judge;
        let base = |table: &TopTable| if of_kept { table.kept_ns } else { table.total_ns };
        let bases_ns = (base(&before.table), base(&now.table));
        let rows = now.table.rows.iter().map(|row| row.full.clone());
        let trends: HashMap<Text, Trend> = rows.zip(now.trends.rows.iter().copied()).collect();
        now.table = diff::diff_tables(&now.table, &before.table, (&judge, bursts), (query.sort, of_kept)).into();
        // The rows have a new order, and rows of the baseline alone have no trend.
        if !trends.is_empty() {
            let of = |row: &TopRow| trends.get(&row.full).copied().unwrap_or_default();
            now.trends = Trends { rows: now.table.rows.iter().map(of).collect() }.into();
        }
        if let (Some(now), Some(before)) = (&mut now.total, &before.total) {
            *now =
                diff::diff_tables(now, before, (&SignificanceTest::accept_all(), bursts), (query.sort, of_kept)).into();
        }
        if let (Some(now), Some(before)) = (&mut now.callers, &before.callers) {
            *now = diff::diff_callers(now, before, bases_ns, (&judge, bursts));
        }
        if let (Some(now), Some(before)) = (&mut now.lines, &before.lines) {
            *now = diff::diff_lines(now, before, (&judge, bursts));
        }
        if let (Some(now), Some(before)) = (&mut now.flame, &before.flame) {
            let least_share = besides.flame.map_or(0.0, |flame| flame.least_share);
            *now = diff::diff_flames(now, before, (&judge, bursts), least_share).into();
        }
        both_ns
    }

    /// The query for the baseline that corresponds to the current query.
    fn base(&self, query: &Query) -> Query {
        let span = match (query.span, self.span) {
            (Span::Last { ns, .. }, Span::Last { now_ns, .. }) => Span::Last { ns, now_ns },
            (Span::Last { ns, .. }, Span::Total) => Span::Last { ns, now_ns: self.at_ns },
            (Span::Total, _) => Span::Total,
        };
        let busy_elsewhere = Arc::clone(&self.busy_now);
        Query { generation: Generation::Baseline, span, busy_elsewhere, ..query.clone() }
    }

    /// Returns the differences of processes and threads, with the significance test of the last
    /// [`subtract`](Self::subtract).
    pub(super) fn subtract_threads(
        &mut self,
        (profile, names): (&Profile, &Names),
        query: &Query,
        threads_query: &ThreadsQuery,
        now: &ThreadTable,
    ) -> ThreadTable {
        let of = (self.base(query), names.version());
        if self.threads.as_ref().is_none_or(|(known, _)| *known != of) {
            // Nothing is folded: a line that is folded now may have been a line of its own.
            let processes = (0..profile.processes().len()).map(|index| ProcessId(index as u32));
            let each = ThreadsQuery {
                ended_threads_of: processes.collect(),
                ended_processes: true,
                idle_threads: true,
                ..ThreadsQuery::default()
            };
            let threads = self.tallier.threads(profile, names, &of.0, &each);
            self.threads = Some((of, threads));
        }
        match &self.threads {
            Some((_, before)) => diff::diff_threads(now, before, (&self.judge, &self.bursts.1), threads_query.sort),
            None => now.clone(),
        }
    }
}

/// The length of what two spans have in common since `begun_ns`, ns.
fn shared_ns(one: Span, other: Span, begun_ns: u64) -> u64 {
    let range = |span| match span {
        Span::Last { ns, now_ns } => (now_ns.saturating_sub(ns).max(begun_ns), now_ns),
        Span::Total => (0, 0),
    };
    let (one, other) = (range(one), range(other));
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}
