//! What is known and what was asked, at one desk: samples and names come in, answers go out. No threads, no time of its own.

use std::collections::VecDeque;

use super::baseline::Baseline;
use super::listing::Shelf;
use super::save::{Form, Taken};
use super::stopwatch::Stopwatch;
use super::{Answer, Facts, Past, Question};
use crate::link::wire::{Arrival, Clock, Sample, SourceId};
use crate::profile::window::{BUCKET_NS, BUCKETS, Span};
use crate::profile::{Era, Profile};
use crate::symbols::Names;
use crate::symbols::source;
use crate::symbols::worker::{CodeReply, CodeRequest, Reply, Request};
use crate::tally::crowd;
use crate::tally::flame::FlameQuery;
use crate::tally::query::{Filters, Query};
use crate::tally::tallier::{Besides, Tallier, Tallies};
use crate::tally::timeline::Timeline;

/// Profile, names, and the question of the day.
pub struct Desk {
    /// Everything received.
    pub profile: Profile,
    /// Everything named.
    pub names: Names,
    /// The clock that is shown.
    pub clock: Clock,
    tallier: Tallier,
    stopwatch: Stopwatch,
    question: Question,
    baseline: Option<Baseline>,
    /// The heat of the past, and what it is of.
    timeline: Option<((Query, u64), Timeline)>,
    /// When the first sample came.
    begun_ns: Option<u64>,
    /// Questions for the symbols worker that it has no room for yet.
    unasked: VecDeque<Request>,
    shelf: Shelf,
    /// When the screen was frozen, and how many samples there were.
    frozen: Option<(u64, u64)>,
    received: u64,
    /// How many samples the last answer of news knew of, and when it was.
    answered: u64,
    answered_ns: u64,
    dirty: bool,
}

impl Desk {
    /// An empty desk.
    pub fn new(clock: Clock, question: Question) -> Desk {
        Desk {
            profile: Profile::default(),
            names: Names::default(),
            clock,
            tallier: Tallier::default(),
            stopwatch: Stopwatch::default(),
            question,
            baseline: None,
            timeline: None,
            begun_ns: None,
            unasked: VecDeque::new(),
            shelf: Shelf::default(),
            frozen: None,
            received: 0,
            answered: 0,
            answered_ns: 0,
            dirty: true,
        }
    }

    /// Takes in what an agent said, with its [mark](crate::profile::Marks).
    pub fn arrive(&mut self, arrival: Arrival, mark: u64) {
        let at_ns = arrival.at_ns;
        self.profile.apply_marked(arrival, mark);
        self.received = self.profile.truncated().1;
        if self.received > 0 {
            self.begun_ns.get_or_insert(at_ns);
        }
        self.dirty = true;
    }

    /// Takes in a sample of a recording: see [`Profile::apply_numbered`].
    pub fn sampled(&mut self, source: SourceId, at_ns: u64, sample: &Sample, number: u32, frames: &[u64]) {
        self.profile.apply_numbered(source, at_ns, sample, number, frames);
        self.received = self.profile.truncated().1;
        self.dirty = true;
    }

    /// Takes in names.
    pub fn named(&mut self, reply: Reply) {
        self.names.absorb(reply);
        self.dirty = true;
    }

    /// Gives new frames provisional names, and says which to ask for; what is not taken is offered again.
    pub fn ask_names(&mut self, mut ask: impl FnMut(Request) -> Result<(), Request>) {
        self.unasked.extend(self.names.catch_up(&self.profile));
        while let Some(request) = self.unasked.pop_front() {
            if let Err(request) = ask(request) {
                self.unasked.push_front(request);
                return;
            }
        }
    }

    /// Takes in code.
    pub fn coded(&mut self, reply: CodeReply) {
        self.shelf.take_code(reply);
        self.dirty = true;
    }

    /// Takes in a source file.
    pub fn sourced(&mut self, reply: source::Reply) {
        self.shelf.take_source(reply);
        self.dirty = true;
    }

    /// Says which code and source files to ask for; what is not taken is offered again.
    pub fn ask_listing(
        &mut self,
        code: impl FnMut(CodeRequest) -> Result<(), CodeRequest>,
        file: impl FnMut(source::Request) -> Result<(), source::Request>,
    ) {
        self.shelf.ask(code, file);
    }

    /// Whether names are still to come.
    pub fn is_waiting_for_names(&self) -> bool {
        !self.unasked.is_empty() || self.names.progress().0 > 0
    }

    /// What to answer from now on.
    pub fn ask(&mut self, question: Question) {
        self.question = question;
    }

    /// The question of the day.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Shows another clock: its total is as it was left, its window starts anew.
    pub fn switch(&mut self, clock: Clock) {
        if clock != self.clock {
            self.compare(false, 0);
            self.profile.clear_window(clock);
            self.clock = clock;
        }
        self.dirty = true;
    }

    /// Shows another clock, and nothing starts anew: all of it has been.
    pub fn turn_to(&mut self, clock: Clock) {
        self.clock = clock;
        self.dirty = true;
    }

    /// Stands still as of now.
    pub fn freeze(&mut self, now_ns: u64) {
        self.profile.freeze();
        self.frozen = Some((now_ns, self.received));
        self.dirty = true;
    }

    /// Moves again.
    pub fn thaw(&mut self) {
        self.profile.thaw();
        self.frozen = None;
        self.dirty = true;
    }

    /// Samples that came since the freeze.
    pub fn waiting(&self) -> Option<u64> {
        self.frozen.map(|(_, received)| self.received - received)
    }

    /// Compares with what is shown now, or with nothing.
    pub fn compare(&mut self, on: bool, now_ns: u64) {
        self.profile.drop_baseline();
        self.baseline = None;
        if on {
            let now_ns = self.frozen.map_or(now_ns, |(frozen_ns, _)| frozen_ns);
            self.profile.mark_baseline();
            self.baseline = Some(Baseline::new(self.span(now_ns), now_ns));
        }
        self.dirty = true;
    }

    /// What is shown as of now.
    fn span(&self, now_ns: u64) -> Span {
        match self.question.past.filter(|_| self.frozen.is_some()) {
            Some(Past { back, ticks }) => {
                let now_ns = now_ns.saturating_sub(back.saturating_mul(BUCKET_NS));
                Span::Last { ns: ticks.saturating_mul(BUCKET_NS), now_ns }
            }
            None => self.question.window_ns.map_or(Span::Total, |ns| Span::Last { ns, now_ns }),
        }
    }

    /// The heat of the past, as the filters leave it. It is added up once, while nothing changes.
    fn timeline(&mut self, query: &Query, now_ns: u64) -> Option<Timeline> {
        self.frozen.filter(|_| self.question.timeline)?;
        let of = (
            Query { span: Span::Last { ns: BUCKETS as u64 * BUCKET_NS, now_ns }, ..query.clone() },
            self.names.version(),
        );
        if self.timeline.as_ref().is_none_or(|(known, _)| *known != of) {
            let timeline = self.tallier.timeline(&self.profile, &self.names, &of.0);
            self.timeline = Some((of, timeline));
        }
        self.timeline.as_ref().map(|(_, timeline)| timeline.clone())
    }

    /// Forgets the shown clock's totals.
    pub fn reset(&mut self) {
        self.compare(false, 0);
        self.profile.reset(self.clock);
        self.stopwatch.reset();
        self.dirty = true;
    }

    /// Whether the first samples have come since the last answer: they are waited for.
    pub fn has_first_samples(&self) -> bool {
        self.answered == 0 && self.received > 0
    }

    /// Whether something came since the last answer.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Answers the question as of now.
    pub fn answer(&mut self, now_ns: u64, facts: Facts) -> Answer {
        self.dirty = false;
        (self.answered, self.answered_ns) = (self.received, now_ns);
        if self.frozen.is_none() {
            let measured = self.profile.processes().iter().any(|process| process.connected);
            self.stopwatch.read(self.clock, measured, now_ns);
        }
        self.answered_as_of(now_ns, facts, false)
    }

    /// Answers another question about what the last answer knew: what came since is left for the next one, and costs nothing now.
    pub fn answer_again(&mut self, now_ns: u64, facts: Facts) -> Answer {
        if self.frozen.is_some() || self.baseline.is_some() || self.answered == 0 {
            return self.answer(now_ns, facts);
        }
        self.answered_as_of(self.answered_ns, facts, true)
    }

    fn answered_as_of(&mut self, now_ns: u64, facts: Facts, stands: bool) -> Answer {
        let now_ns = self.frozen.map_or(now_ns, |(frozen_ns, _)| frozen_ns);
        let question = self.question.clone();
        let span = self.span(now_ns);
        let query = self.query(span);
        if query.has_owners() {
            self.profile.label();
            let requests = self.names.catch_up(&self.profile);
            self.unasked.extend(requests);
        }
        let besides = Besides {
            centre: question.centre.as_deref(),
            lines: question.listing.as_deref(),
            flame: question.flame.as_ref(),
            total: span != Span::Total,
            trends: true,
            stands,
        };
        // A box that is narrow now may have been wide.
        let all = question.flame.clone().map(|form| FlameQuery { least_share: 0.0, ..form });
        let flame = if self.baseline.is_some() { all.as_ref() } else { besides.flame };
        let mut tallies = self.tallier.answer(&self.profile, &self.names, &query, Besides { flame, ..besides });
        let mut baseline_ns = None;
        if let Some(baseline) = &mut self.baseline {
            let begun_ns = self.begun_ns.unwrap_or(0);
            baseline.subtract((&self.profile, &self.names), &query, besides, begun_ns, &mut tallies);
            baseline_ns = Some(now_ns.saturating_sub(baseline.at_ns));
        }
        let timeline = self.timeline(&query, now_ns);
        let Tallies { table: window, total, callers, lines, flame, trends } = tallies;
        let listing = lines.map(|lines| self.shelf.listing(&self.profile, &self.names, lines));
        let total = total.unwrap_or_else(|| window.clone());
        let threads = question.threads.as_ref();
        let threads = threads.map(|asked| {
            let known = (&self.profile, &self.names);
            let now = self.tallier.threads(known.0, known.1, &query, asked);
            match &mut self.baseline {
                Some(baseline) => baseline.subtract_threads(known, &query, asked, &now),
                None => now,
            }
        });
        let tagged = crowd::told(&question.filters, &self.profile);
        // A window ends with the bucket that is under way.
        let window_ns = question.window_ns.map(|ns| ns.saturating_sub(BUCKET_NS - now_ns % BUCKET_NS));
        let measured_ns = self.stopwatch.of(window_ns);
        Answer {
            question,
            window,
            total,
            callers,
            listing,
            flame,
            timeline,
            baseline_ns,
            threads,
            tagged,
            now_ns,
            measured_ns,
            trends,
            facts,
        }
    }

    /// Makes what is to be saved, by the question's filters: all, or of the time that is shown. `unix_ns` is now in UTC.
    ///
    /// # Errors
    /// Why there is nothing: one sentence.
    pub fn made(
        &self,
        form: Form,
        is_shown: bool,
        (now_ns, unix_ns): (u64, u64),
        facts: &Facts,
    ) -> Result<Vec<u8>, String> {
        self.take((is_shown, false), (now_ns, unix_ns), facts, |taken| (form.make)(taken, form.name))
    }

    /// The same of everything, whatever is shown and asked, and also if that is nothing.
    ///
    /// # Errors
    /// Why there is nothing: one sentence.
    pub fn made_of_all(&mut self, form: Form, now: (u64, u64), facts: &Facts) -> Result<Vec<u8>, String> {
        self.convert_all(now, facts, |taken| (form.make)(taken, form.name))
    }

    /// The same, made into something else than a file.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn convert_all<T>(
        &mut self,
        now: (u64, u64),
        facts: &Facts,
        make: impl FnOnce(&Taken<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        self.question.filters = Filters::default();
        self.take((false, true), now, facts, make)
    }

    fn take<T>(
        &self,
        (is_shown, may_be_empty): (bool, bool),
        (now_ns, unix_ns): (u64, u64),
        facts: &Facts,
        make: impl FnOnce(&Taken<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let frozen_ns = self.frozen.map_or(now_ns, |(frozen_ns, _)| frozen_ns);
        let span = if is_shown { self.span(frozen_ns) } else { Span::Total };
        let end_ns = match span {
            Span::Last { now_ns, .. } => now_ns,
            Span::Total => frozen_ns,
        };
        let behind_ns = now_ns.saturating_sub(end_ns);
        let (profile, names, query) = (&self.profile, &self.names, self.query(span));
        let unix_ns = unix_ns.saturating_sub(behind_ns);
        make(&Taken { profile, names, query, facts, unix_ns, behind_ns, may_be_empty })
    }

    fn query(&self, span: Span) -> Query {
        let Question { filters, sort, group, roots, .. } = &self.question;
        let (clock, filters) = (self.clock, filters.clone());
        Query { era: Era::Now, clock, span, filters, sort: *sort, group: *group, roots: *roots }
    }
}
