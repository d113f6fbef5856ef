//! What every number is compared with, once the user has marked it: the books as they were then, and what they say about the question
//! that is asked now. They do not change, so each question is answered once.

use crate::profile::window::Span;
use crate::profile::{Era, Profile};
use crate::symbols::Names;
use crate::tally::diff::{self, Judge};
use crate::tally::flame::FlameQuery;
use crate::tally::query::Query;
use crate::tally::tallier::{Besides, Tallier, Tallies};

/// The question, the centre, the flame, and the version of the names.
type Asked = (Query, Option<String>, Option<FlameQuery>, u64);

/// The books of the baseline are the profile's.
pub(super) struct Baseline {
    /// What was shown when it was marked, in which books.
    span: Span,
    /// When it was marked, on the viewer's clock, ns.
    pub(super) at_ns: u64,
    tallier: Tallier,
    /// The last answer, and to what.
    told: Option<(Asked, Tallies)>,
}

impl Baseline {
    /// A baseline of what is shown.
    pub(super) fn new(span: Span, at_ns: u64) -> Baseline {
        Baseline { span, at_ns, tallier: Tallier::default(), told: None }
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
        let span = match (query.span, self.span) {
            (Span::Last { ns, .. }, Span::Last { now_ns, .. }) => Span::Last { ns, now_ns },
            (Span::Last { ns, .. }, Span::Total) => Span::Last { ns, now_ns: self.at_ns },
            (Span::Total, _) => Span::Total,
        };
        let base = Query { era: Era::Baseline, span, ..query.clone() };
        // A box that is narrow there may be wide now.
        let form = besides.flame.map(|form| FlameQuery { least_share: 0.0, ..form.clone() });
        let centre = besides.centre.map(str::to_owned);
        let asked = (base, centre, form, names.version());
        if self.told.as_ref().is_none_or(|(of, _)| *of != asked) {
            let besides = Besides { flame: asked.2.as_ref(), lines: None, trends: false, ..besides };
            let tallies = self.tallier.answer(profile, names, &asked.0, besides);
            self.told = Some((asked, tallies));
        }
        let Some(((base, ..), before)) = &self.told else { return };
        let seen = |span: Span| match span {
            Span::Last { ns, now_ns } => ns.min(now_ns.saturating_sub(begun_ns)),
            Span::Total => 0,
        };
        let judge = match query.span {
            Span::Total => Judge::credulous(),
            Span::Last { .. } => Judge::new(&now.table, &before.table, seen(query.span), seen(base.span)),
        };
        now.table = diff::tables(&now.table, &before.table, &judge, query.sort);
        if let (Some(now), Some(before)) = (&mut now.total, &before.total) {
            *now = diff::tables(now, before, &Judge::credulous(), query.sort);
        }
        if let (Some(now), Some(before)) = (&mut now.callers, &before.callers) {
            *now = diff::callers(now, before, &judge);
        }
        if let (Some(now), Some(before)) = (&mut now.flame, &before.flame) {
            diff::flames(now, before, &judge);
        }
    }
}
