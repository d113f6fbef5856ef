//! What every number is compared with, once the user has marked it: the books as they were then, and what they say about the question
//! that is asked now. They do not change, so each question is answered once.

use std::collections::HashMap;

use crate::profile::process::ProcessId;
use crate::profile::window::Span;
use crate::profile::{Era, Profile};
use crate::symbols::Names;
use crate::tally::diff::{self, Bursts, Judge};
use crate::tally::flame::FlameQuery;
use crate::tally::query::Query;
use crate::tally::table::Row;
use crate::tally::tallier::{Besides, Tallier, Tallies};
use crate::tally::text::Text;
use crate::tally::threads::{Threads, ThreadsQuery};
use crate::tally::trend::{Trend, Trends};

/// The question, the centre, the row by line, the flame, and the version of the names.
type Asked = (Query, [Option<String>; 2], Option<FlameQuery>, u64);

/// The books of the baseline are the profile's.
pub(super) struct Baseline {
    /// What was shown when it was marked, in which books.
    span: Span,
    /// When it was marked, on the viewer's clock, ns.
    pub(super) at_ns: u64,
    tallier: Tallier,
    /// The last answer, and to what.
    told: Option<(Asked, Tallies)>,
    /// The last answer about threads, and to what.
    threads: Option<((Query, u64), Threads)>,
    judge: Judge,
    /// How bursty it is, and of which question.
    bursts: (Option<(Query, u64)>, Bursts),
}

impl Baseline {
    /// A baseline of what is shown.
    pub(super) fn new(span: Span, at_ns: u64) -> Baseline {
        Baseline {
            span,
            at_ns,
            tallier: Tallier::default(),
            told: None,
            threads: None,
            judge: Judge::credulous(),
            bursts: Default::default(),
        }
    }

    /// Makes differences of what is shown, and says how old the baseline is, ns. A span of so many ns since `begun_ns` was seen.
    pub(super) fn subtract(
        &mut self,
        (profile, names): (&Profile, &Names),
        query: &Query,
        besides: Besides<'_>,
        begun_ns: u64,
        now: &mut Tallies,
    ) {
        let seen = |span: Span| match span {
            Span::Last { ns, now_ns } => ns.min(now_ns.saturating_sub(begun_ns)),
            Span::Total => 0,
        };
        let base = self.base(query);
        // A box that is narrow there may be wide now.
        let form = besides.flame.map(|form| FlameQuery { least_share: 0.0, ..form.clone() });
        let named = [besides.centre, besides.lines].map(|full| full.map(str::to_owned));
        let asked = (base, named, form, names.version());
        if self.told.as_ref().is_none_or(|(of, _)| *of != asked) {
            let besides = Besides { flame: asked.2.as_ref(), trends: false, ..besides };
            let tallies = self.tallier.answer(profile, names, &asked.0, besides);
            let of = Some((asked.0.clone(), asked.3));
            if self.bursts.0 != of {
                let parts = diff::parts(asked.0.span, seen(asked.0.span)).into_iter();
                let of_part = |span| self.tallier.table(profile, names, &Query { span, ..asked.0.clone() });
                self.bursts = (of, Bursts::of(&parts.map(of_part).collect::<Vec<_>>()));
            }
            self.told = Some((asked, tallies));
        }
        let (Some(((base, ..), before)), bursts) = (&self.told, &self.bursts.1) else { return };
        let judge = match query.span {
            Span::Total => Judge::credulous(),
            Span::Last { .. } => Judge::new(&now.table, &before.table, seen(query.span), seen(base.span)),
        };
        self.judge = judge;
        let rows = now.table.rows.iter().map(|row| row.full.clone());
        let trends: HashMap<Text, Trend> = rows.zip(now.trends.rows.iter().copied()).collect();
        now.table = diff::tables(&now.table, &before.table, (&judge, bursts), query.sort).into();
        // In the order of the differences; what is gone has none.
        if !trends.is_empty() {
            let of = |row: &Row| trends.get(&row.full).copied().unwrap_or_default();
            now.trends = Trends { rows: now.table.rows.iter().map(of).collect() }.into();
        }
        if let (Some(now), Some(before)) = (&mut now.total, &before.total) {
            *now = diff::tables(now, before, (&Judge::credulous(), bursts), query.sort).into();
        }
        if let (Some(now), Some(before)) = (&mut now.callers, &before.callers) {
            *now = diff::callers(now, before, (&judge, bursts));
        }
        if let (Some(now), Some(before)) = (&mut now.lines, &before.lines) {
            *now = diff::lines(now, before, (&judge, bursts));
        }
        if let (Some(now), Some(before)) = (&mut now.flame, &before.flame) {
            let least_share = besides.flame.map_or(0.0, |form| form.least_share);
            *now = diff::flames(now, before, (&judge, bursts), least_share).into();
        }
    }

    /// The same question about the time of the baseline.
    fn base(&self, query: &Query) -> Query {
        let span = match (query.span, self.span) {
            (Span::Last { ns, .. }, Span::Last { now_ns, .. }) => Span::Last { ns, now_ns },
            (Span::Last { ns, .. }, Span::Total) => Span::Last { ns, now_ns: self.at_ns },
            (Span::Total, _) => Span::Total,
        };
        Query { era: Era::Baseline, span, ..query.clone() }
    }

    /// Makes differences of what processes and threads weigh, by the judgement of the last [`subtract`](Self::subtract).
    pub(super) fn subtract_threads(
        &mut self,
        (profile, names): (&Profile, &Names),
        query: &Query,
        asked: &ThreadsQuery,
        now: &Threads,
    ) -> Threads {
        let of = (self.base(query), names.version());
        if self.threads.as_ref().is_none_or(|(known, _)| *known != of) {
            // Each by its own: who is told as one line with others now need not have been then.
            let processes = (0..profile.processes().len()).map(|index| ProcessId(index as u32));
            let each = ThreadsQuery {
                ended_threads_of: processes.collect(),
                ended_processes: true,
                ..ThreadsQuery::default()
            };
            let told = self.tallier.threads(profile, names, &of.0, &each);
            self.threads = Some((of, told));
        }
        match &self.threads {
            Some((_, before)) => diff::threads(now, before, (&self.judge, &self.bursts.1), asked.sort),
            None => now.clone(),
        }
    }
}
