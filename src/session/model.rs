//! The session's model: profile, resolved names and current question. It is plain state without
//! threads or clocks; the session thread drives it.

use std::collections::VecDeque;

use super::baseline::Baseline;
use super::code_cache::CodeCache;
use super::export;
use super::header_facts::Facts;
use super::measured_time::MeasuredTime;
use super::protocol::{Answer, HistoryWindow, Question};
use super::save::{SaveInput, SavedPart};
use super::shown_samples::ShownSamples;
use crate::pprof::format::SaveFormat;
use crate::profile::totals::{BUCKET_NS, BUCKETS, Span};
use crate::profile::{Generation, Profile};
use crate::symbols::Names;
use crate::symbols::jit::worker::{JitReply, JitRequest};
use crate::symbols::source;
use crate::symbols::worker::{CodeReply, CodeRequest, SymbolReply, SymbolRequest};
use crate::tally::filter::thread_filter;
use crate::tally::flame::FlameQuery;
use crate::tally::query::{Filters, OwnCode, Query};
use crate::tally::tallier::{Extras, Tallier, Tallies};
use crate::tally::threads::ThreadsQuery;
use crate::tally::timeline::Timeline;
use crate::wire::{Arrival, Clock, ConnectionEvent, Message, Sample, SourceId};

/// Profile, names, and the question that is answered at every refresh.
pub struct Model {
    /// The profile.
    pub profile: Profile,
    /// The names of its frames.
    pub names: Names,
    /// The selected clock.
    pub clock: Clock,
    tallier: Tallier,
    measured_time: MeasuredTime,
    question: Question,
    baseline: Option<Baseline>,
    /// The baseline of a file, while differences are off.
    hidden_baseline: Option<Baseline>,
    /// The last timeline, with the query and the version of the names it was computed for.
    timeline: Option<((Query, u64), Timeline)>,
    /// Arrival time of the first sample, ns.
    begun_ns: Option<u64>,
    /// Requests that the symbols thread had no room for yet.
    pending_requests: VecDeque<SymbolRequest>,
    /// Requests for names of generated code, the same way.
    pending_generated: VecDeque<JitRequest>,
    code_cache: CodeCache,
    /// Time of the freeze and the number of samples then.
    frozen: Option<(u64, u64)>,
    received: u64,
    /// The samples since the last reset of each clock.
    since_reset: ShownSamples,
    /// Number of samples in the last answer from the latest data, and its time, ns.
    answered: u64,
    answered_ns: u64,
    dirty: bool,
}

impl Model {
    /// Returns an empty model.
    pub fn new(clock: Clock, question: Question) -> Model {
        Model {
            profile: Profile::default(),
            names: Names::default(),
            clock,
            tallier: Tallier::default(),
            measured_time: MeasuredTime::default(),
            question,
            baseline: None,
            hidden_baseline: None,
            timeline: None,
            begun_ns: None,
            pending_requests: VecDeque::new(),
            pending_generated: VecDeque::new(),
            code_cache: CodeCache::default(),
            frozen: None,
            received: 0,
            since_reset: ShownSamples::default(),
            answered: 0,
            answered_ns: 0,
            dirty: true,
        }
    }

    /// Applies messages of agents.
    pub fn apply_all(&mut self, arrivals: Vec<Arrival>) {
        let is_sample = |arrival: &&Arrival| matches!(arrival.event, ConnectionEvent::Received(Message::Sample(..)));
        let first_ns = arrivals.iter().find(is_sample).map(|sample| sample.at_ns);
        self.profile.apply_all(arrivals);
        self.note_samples(first_ns);
    }

    /// Applies a sample of a recording, see [`Profile::apply_recorded`].
    pub fn apply_recorded(&mut self, source: SourceId, at_ns: u64, sample: &Sample, number: u32, frames: &[u64]) {
        self.profile.apply_recorded(source, at_ns, sample, number, frames);
        self.note_samples(Some(at_ns));
    }

    fn note_samples(&mut self, first_ns: Option<u64>) {
        self.received = self.profile.stack_quality().samples;
        if self.received > 0 && self.begun_ns.is_none() {
            self.begun_ns = first_ns;
        }
        self.dirty = true;
    }

    /// Applies resolved symbols.
    pub fn apply_symbols(&mut self, reply: SymbolReply) {
        self.names.absorb(reply);
        self.names.explain_waits(&self.profile);
        self.dirty = true;
    }

    /// Gives new frames provisional names and sends requests for their symbols. A request that
    /// `ask` rejects is sent again next time.
    pub fn request_symbols(&mut self, mut ask: impl FnMut(SymbolRequest) -> Result<(), SymbolRequest>) {
        self.pending_requests.extend(self.names.catch_up(&self.profile));
        while let Some(request) = self.pending_requests.pop_front() {
            if let Err(request) = ask(request) {
                self.pending_requests.push_front(request);
                return;
            }
        }
    }

    /// Applies names of generated code.
    pub fn apply_generated(&mut self, reply: JitReply) {
        for &(address, version) in &reply.replaced {
            self.profile.set_code_version(reply.process, address, version);
        }
        self.names.absorb_generated(reply);
        self.names.explain_waits(&self.profile);
        self.dirty = true;
    }

    /// Sends requests for the names of new generated code, like
    /// [`request_symbols`](Self::request_symbols), which has to be called before.
    pub fn request_generated(&mut self, mut ask: impl FnMut(JitRequest) -> Result<(), JitRequest>) {
        self.pending_generated.extend(self.names.take_jit_requests(&self.profile));
        while let Some(request) = self.pending_generated.pop_front() {
            if let Err(request) = ask(request) {
                self.pending_generated.push_front(request);
                return;
            }
        }
    }

    /// Applies disassembled code.
    pub fn apply_code(&mut self, reply: CodeReply) {
        self.code_cache.take_code(reply);
        self.dirty = true;
    }

    /// Applies a source file.
    pub fn apply_source(&mut self, reply: source::SourceReply) {
        self.code_cache.take_source(reply);
        self.dirty = true;
    }

    /// Sends requests for code and source files. A request that is rejected is sent again next
    /// time.
    pub fn request_listing(
        &mut self,
        code: impl FnMut(CodeRequest) -> Result<(), CodeRequest>,
        file: impl FnMut(source::SourceRequest) -> Result<(), source::SourceRequest>,
    ) {
        self.code_cache.ask(code, file);
    }

    /// Whether requests for symbols are pending.
    pub fn is_waiting_for_symbols(&self) -> bool {
        !self.pending_requests.is_empty() || self.names.progress().0 > 0
    }

    /// Sets the question to answer from now on.
    pub fn set_question(&mut self, question: Question) {
        self.question = question;
    }

    /// The current question.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Selects another clock of a live session. Its totals are kept, its history starts again.
    pub fn select_clock(&mut self, clock: Clock) {
        if clock != self.clock {
            self.drop_baseline();
            self.profile.clear_history(clock);
            self.profile.clear_history(clock.sampled());
            self.clock = clock;
        }
        self.dirty = true;
    }

    /// Selects another clock of a recording, whose history is complete.
    pub fn select_recorded_clock(&mut self, clock: Clock) {
        self.clock = clock;
        self.dirty = true;
    }

    /// Freezes the profile at `now_ns`.
    pub fn freeze(&mut self, now_ns: u64) {
        self.profile.freeze();
        self.frozen = Some((now_ns, self.received));
        self.dirty = true;
    }

    /// Undoes the freeze.
    pub fn thaw(&mut self) {
        self.profile.thaw();
        self.frozen = None;
        self.dirty = true;
    }

    /// Number of samples since the freeze.
    pub fn samples_since_freeze(&self) -> Option<u64> {
        self.frozen.map(|(_, received)| self.received - received)
    }

    /// Sets the baseline to the current view, or removes it. The baseline of a file comes back.
    pub fn set_baseline(&mut self, on: bool, now_ns: u64) {
        self.dirty = true;
        if on && let Some(file) = self.hidden_baseline.take() {
            self.baseline = Some(file);
            return;
        }
        self.hidden_baseline = self.baseline.take().filter(|baseline| !on && baseline.is_of_file);
        if self.hidden_baseline.is_some() {
            return;
        }
        self.profile.clear_baseline();
        if on {
            let now_ns = self.frozen.map_or(now_ns, |(frozen_ns, _)| frozen_ns);
            self.profile.set_baseline();
            self.baseline = Some(Baseline::new(self.span(now_ns), now_ns));
        }
    }

    /// Removes the baseline, also that of a file: nothing can be compared with it any more.
    fn drop_baseline(&mut self) {
        self.profile.clear_baseline();
        (self.baseline, self.hidden_baseline) = (None, None);
    }

    /// Makes all samples so far the baseline, the last of which is of `at_ns`, and begins again
    /// without any.
    pub fn set_file_as_baseline(&mut self, at_ns: u64) {
        self.profile.set_baseline();
        self.baseline = Some(Baseline::of_file(at_ns));
        for clock in Clock::ALL {
            self.profile.reset(clock);
            self.since_reset.reset(clock, self.received);
        }
        self.begun_ns = None;
        self.dirty = true;
    }

    /// The span that the question covers at `now_ns`.
    fn span(&self, now_ns: u64) -> Span {
        match self.question.past.filter(|_| self.frozen.is_some()) {
            Some(HistoryWindow { back, buckets }) => {
                let now_ns = now_ns.saturating_sub(back.saturating_mul(BUCKET_NS));
                Span::Last { ns: buckets.saturating_mul(BUCKET_NS), now_ns }
            }
            None => self.question.window_ns.map_or(Span::Total, |ns| Span::Last { ns, now_ns }),
        }
    }

    /// The filtered weight over time. It is computed once for each freeze, query and version of the
    /// names.
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

    /// Resets the totals of the selected clock.
    pub fn reset(&mut self) {
        self.drop_baseline();
        self.profile.reset(self.clock);
        self.since_reset.reset(self.clock, self.received);
        self.measured_time.reset();
        self.dirty = true;
    }

    /// Whether the first samples have arrived since the last answer. They are shown immediately.
    pub fn has_first_samples(&self) -> bool {
        self.answered == 0 && self.received > 0
    }

    /// Number of samples received so far.
    pub fn received_samples(&self) -> u64 {
        self.received
    }

    /// Whether anything arrived since the last answer.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Answers the question from the latest data.
    pub fn answer(&mut self, now_ns: u64, facts: Facts) -> Answer {
        self.dirty = false;
        (self.answered, self.answered_ns) = (self.received, now_ns);
        if self.frozen.is_none() {
            self.profile.settle_latency();
            let measured = self.profile.processes().iter().any(|process| process.connected);
            self.measured_time.update(self.clock, measured, now_ns);
        }
        self.answer_at(now_ns, facts, false)
    }

    /// Answers the question from the data of the last answer. Newer data is left to the next
    /// answer, so this one is cheap.
    pub fn answer_from_previous(&mut self, now_ns: u64, facts: Facts) -> Answer {
        if self.frozen.is_some() || self.answered == 0 {
            return self.answer(now_ns, facts);
        }
        // A difference counts anew, but of the same time.
        self.answer_at(self.answered_ns, facts, self.baseline.is_none())
    }

    fn answer_at(&mut self, now_ns: u64, facts: Facts, from_previous: bool) -> Answer {
        let now_ns = self.frozen.map_or(now_ns, |(frozen_ns, _)| frozen_ns);
        let question = self.question.clone();
        let span = self.span(now_ns);
        let mut query = self.query(span);
        if query.has_owners() {
            self.profile.add_owner_frames();
            let requests = self.names.catch_up(&self.profile);
            self.pending_requests.extend(requests);
        }
        let besides = Extras {
            center: question.centre.as_deref(),
            unfolded: &question.unfolded,
            details: question.details && self.baseline.is_none(),
            lines: question.listing.as_deref(),
            flame: question.flame.as_ref(),
            total: span != Span::Total,
            trends: true,
            reuse_samples: from_previous,
        };
        // A box that is too narrow now may have been wide in the baseline.
        let all = question.flame.clone().map(|form| FlameQuery { least_share: 0.0, ..form });
        let flame = if self.baseline.is_some() { all.as_ref() } else { besides.flame };
        if let Some(baseline) = &mut self.baseline {
            query.busy_elsewhere = baseline.busy_threads(&self.profile, &self.names, &query);
        }
        let mut tallies = self.tallier.answer(&self.profile, &self.names, &query, Extras { flame, ..besides });
        let (mut baseline_ns, mut overlap_ns) = (None, 0);
        if let Some(baseline) = &mut self.baseline {
            baseline.busy_now = self.tallier.busy_threads(&self.profile, &self.names, &query);
            let begun_ns = self.begun_ns.unwrap_or(0);
            let how = (begun_ns, question.relative);
            overlap_ns = baseline.subtract((&self.profile, &self.names), &query, besides, how, &mut tallies);
            baseline_ns = Some(now_ns.saturating_sub(baseline.at_ns));
        }
        let timeline = self.timeline(&query, now_ns);
        let Tallies { table: window, total, callers, activity, lines, flame, trends } = tallies;
        let listing = lines.map(|lines| self.code_cache.listing(&self.profile, &self.names, lines));
        let total = total.unwrap_or_else(|| window.clone());
        let threads = question.threads.as_ref();
        let threads = threads.map(|asked| {
            let known = (&self.profile, &self.names);
            let Some(baseline) = &mut self.baseline else {
                return self.tallier.threads(known.0, known.1, &query, asked);
            };
            let each = ThreadsQuery { idle_threads: true, ..asked.clone() };
            let now = self.tallier.threads(known.0, known.1, &query, &each);
            baseline.subtract_threads(known, &query, asked, &now)
        });
        let shows_waits = question.waits && self.clock == Clock::Real && self.baseline.is_none();
        let waits = match shows_waits {
            true => self.tallier.waits(&self.profile, &self.names, &query),
            false => Vec::new(),
        };
        let tagged = thread_filter::describe_tag_filters(&question.filters, &self.profile);
        // A window ends with the current bucket, which is incomplete.
        let window_ns = question.window_ns.map(|ns| ns.saturating_sub(BUCKET_NS - now_ns % BUCKET_NS));
        let measured_ns = self.measured_time.within(window_ns);
        Answer {
            question,
            window,
            total,
            callers,
            activity,
            listing,
            flame,
            timeline,
            baseline_ns,
            overlap_ns,
            threads,
            waits,
            tagged,
            now_ns,
            measured_ns,
            trends,
            facts,
        }
    }

    /// Encodes a part of the profile.
    ///
    /// # Errors
    /// If there is nothing to save: one sentence.
    pub fn save(&self, format: SaveFormat, part: SavedPart, facts: &Facts) -> Result<Vec<u8>, String> {
        self.convert(part, facts, |input| export::encode(input, format))
    }

    /// Encodes the unfiltered total, even if it has no sample.
    ///
    /// # Errors
    /// If there is nothing to save: one sentence.
    pub fn save_all(&mut self, format: SaveFormat, now: (u64, u64), facts: &Facts) -> Result<Vec<u8>, String> {
        self.export_all(now, facts, |input| export::encode(input, format))
    }

    /// Converts the unfiltered total with `make`.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn export_all<T>(
        &mut self,
        now: (u64, u64),
        facts: &Facts,
        make: impl FnOnce(&SaveInput<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        (self.question.filters, self.question.own) = (Filters::default(), OwnCode::default());
        self.convert(SavedPart { may_be_empty: true, ..self.part(false, now) }, facts, make)
    }

    /// The filtered total, or the span on the screen. `unix_ns` is the time `now_ns` in UTC.
    pub fn part(&self, is_shown: bool, (now_ns, unix_ns): (u64, u64)) -> SavedPart {
        let frozen_ns = self.frozen.map_or(now_ns, |(frozen_ns, _)| frozen_ns);
        let span = if is_shown { self.span(frozen_ns) } else { Span::Total };
        let end_ns = match span {
            Span::Last { now_ns, .. } => now_ns,
            Span::Total => frozen_ns,
        };
        let behind_ns = now_ns.saturating_sub(end_ns);
        let unix_ns = unix_ns.saturating_sub(behind_ns);
        SavedPart { query: self.query(span), unix_ns, behind_ns, may_be_empty: false }
    }

    /// The samples in the totals.
    pub fn shown_samples(&self) -> ShownSamples {
        self.since_reset.until(self.frozen.map(|(_, received)| received))
    }

    /// Converts a part of the profile with `make`.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn convert<T>(
        &self,
        part: SavedPart,
        facts: &Facts,
        make: impl FnOnce(&SaveInput<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        make(&SaveInput { profile: &self.profile, names: &self.names, facts, part })
    }

    fn query(&self, span: Span) -> Query {
        let Question { filters, sort, group, roots, fold_idle, hides_kernel, own, .. } = &self.question;
        Query {
            generation: Generation::Current,
            clock: self.clock,
            span,
            filters: filters.clone(),
            sort: *sort,
            group: *group,
            roots: *roots,
            fold_idle: *fold_idle,
            busy_elsewhere: Default::default(),
            shows_kernel: !hides_kernel,
            own: own.clone(),
        }
    }
}
