//! The session thread. It owns the model and connects it with agents or a recording, the symbols
//! and source threads, the target and the screen.

mod commands;
mod ending;
mod generated;
mod header;
mod limits;
mod playing;
mod saving;

use std::iter;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, TrySendError, after, never, select, tick};
use nix::time::{ClockId, clock_gettime};

use super::conclusion::Conclusion;
use super::finished::FinishedSession;
use super::generated_code::GeneratedCodeState;
use super::header_facts::TargetExit;
use super::live::LiveTarget;
use super::model::Model;
use super::overhead_limiter::OverheadLimiter;
use super::player::Player;
use super::protocol::{Answer, Command, Notice, Question};
use super::recorder::Recorder;
use super::sampling_cost::SamplingCost;
use super::save::SaveRequest;
use super::scheduler::{ANSWER_NS, AnswerScope, Scheduler};
use super::settings::{NOTICES, Settings};
use super::socket_names::SocketNames;
use super::thread_states;
use super::throttling::Throttling;
use super::warning::warning;
use crate::attach::launch;
use crate::link::recording::{Block, CpuReading, RecordingError, RecordingInfo};
use crate::pprof::live::ConvertedTotals;
use crate::profile::module::ModuleFile;
use crate::symbols::coverage::NameCoverage;
use crate::symbols::download::DownloadProgress;
use crate::symbols::explain;
use crate::symbols::jit::worker::{JitReply, JitRequest};
use crate::symbols::sanitize::sanitize;
use crate::symbols::source;
use crate::symbols::worker;
use crate::wire::{Arrival, ConnectionEvent, Message};

/// Time after the start in which answers come more often while names are lacking, and number of
/// samples up to which they come four times as often, to fill the empty screen.
const EAGER_FOR_NS: u64 = 2_000_000_000;
const EAGER_SAMPLES: u64 = 20;

/// Time after the start at which the target is looked at for the first time. By then a process that
/// computes has an agent.
const FIRST_BEAT: Duration = Duration::from_millis(25);
/// Maximum number of batches that are applied before other channels are read.
const BATCHES: usize = 16;
/// Maximum number of files of one name that are explained.
const MAX_INQUIRIES: usize = 4;

/// The channels of the session thread.
pub(super) struct SessionChannels {
    pub(super) arrivals: Receiver<Vec<Arrival>>,
    pub(super) orders: Receiver<Command>,
    pub(super) ask: Sender<worker::SymbolRequest>,
    pub(super) named: Receiver<worker::SymbolReply>,
    pub(super) ask_jit: Sender<JitRequest>,
    pub(super) jitted: Receiver<JitReply>,
    pub(super) ask_code: Sender<worker::CodeRequest>,
    pub(super) coded: Receiver<worker::CodeReply>,
    pub(super) ask_source: Sender<source::SourceRequest>,
    pub(super) sourced: Receiver<source::SourceReply>,
    pub(super) events: Receiver<launch::TargetEvent>,
    pub(super) recorded: Receiver<Result<Block, RecordingError>>,
}

/// The source of samples.
pub(super) enum SampleSource {
    /// Agents of a running target.
    Live(Box<LiveTarget>),
    /// A recording.
    Recording(Box<Player>),
}

/// The state of the session thread.
pub(super) struct SessionThread {
    model: Model,
    feed: SampleSource,
    recorder: Recorder,
    socket_names: SocketNames,
    throttling: Throttling,
    settings: Settings,
    notices: Sender<Notice>,
    started_ns: u64,
    scheduler: Scheduler,
    overhead_limiter: OverheadLimiter,
    cost: SamplingCost,
    /// The budget for which the frequency was halved.
    halved_for: Option<f64>,
    /// The age of the oldest process that was attached to, at the start of the session.
    age_at_start: Option<Duration>,
    ended: Option<(TargetExit, u64)>,
    banner: Option<String>,
    end_notified: bool,
    /// Whether everything that the agents had sent before the target's end has arrived.
    is_flushed: bool,
    /// Whether the last answer had frames without a name.
    lacks_names: bool,
    /// The time when the shares of samples with names are computed next, ns, and the last ones.
    coverage: (u64, Vec<NameCoverage>),
    /// The time since which every answer had such frames, ns.
    unnamed_since_ns: Option<u64>,
    /// The step after the last samples have arrived, if the session takes no more.
    conclusion: Option<Conclusion>,
    /// Becomes ready when they have taken too long.
    leaving: Receiver<Instant>,
    done: bool,
    /// Files that are saved once the recording is played.
    saves: Vec<SaveRequest>,
    /// The totals that were converted by [`Command::TakeIncrement`].
    converted: ConvertedTotals,
    /// Whether the user has selected a clock of the recording.
    turned: bool,
    /// Whether it was said that the memory limit is reached.
    is_limit_announced: bool,
    /// The download in the last answer.
    download: Option<DownloadProgress>,
    /// The allocator that a program is linked with, which the clock of allocations does not see.
    own_allocator: Option<&'static str>,
    /// Number of processes whose programs were searched for one.
    searched_processes: usize,
    /// The processes that generate code.
    generated: GeneratedCodeState,
}

/// The time on the viewer's `CLOCK_MONOTONIC`, which agents on the same machine use, too.
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    now.as_nanos() as u64
}

impl SessionThread {
    pub(super) fn new(
        feed: SampleSource,
        recorder: Recorder,
        settings: Settings,
        notices: Sender<Notice>,
    ) -> SessionThread {
        let mut model = Model::new(settings.clock, settings.question.clone());
        model.profile.set_memory_limit(settings.memory_bytes);
        model.profile.interpreter_view = settings.interpreter_view;
        model.profile.leaves_out_kernel = !settings.keeps_kernel;
        if settings.sample_times {
            model.profile.keep_sample_times();
        }
        let started_ns = match &feed {
            SampleSource::Live(_) => monotonic_ns(),
            SampleSource::Recording(player) => player.about.started_ns,
        };
        SessionThread {
            model,
            recorder,
            socket_names: SocketNames::default(),
            throttling: Throttling::default(),
            overhead_limiter: OverheadLimiter::new(settings.budget),
            cost: SamplingCost::new(started_ns),
            halved_for: None,
            age_at_start: match &feed {
                SampleSource::Live(live) => live.target.age(),
                SampleSource::Recording(_) => None,
            },
            feed,
            settings,
            notices,
            started_ns: monotonic_ns(),
            scheduler: Scheduler::default(),
            ended: None,
            banner: None,
            end_notified: false,
            is_flushed: false,
            lacks_names: false,
            coverage: (0, Vec::new()),
            unnamed_since_ns: None,
            conclusion: None,
            leaving: never(),
            done: false,
            saves: Vec::new(),
            converted: ConvertedTotals::default(),
            turned: false,
            is_limit_announced: false,
            download: None,
            own_allocator: None,
            searched_processes: 0,
            generated: GeneratedCodeState::default(),
        }
    }

    /// Runs until the screen or the source of samples is gone.
    pub(super) fn run(&mut self, channels: &SessionChannels) {
        let beat = tick(Duration::from_nanos(ANSWER_NS));
        let first_beat = after(FIRST_BEAT);
        let mut events = channels.events.clone();
        let mut recorded = channels.recorded.clone();
        let mut orders = channels.orders.clone();
        let mut flushed = never();
        if matches!(self.feed, SampleSource::Recording(_)) {
            // The scheduler counts from this answer on.
            self.answer(AnswerScope::Latest, monotonic_ns());
        }
        while !self.done {
            select! {
                recv(channels.arrivals) -> batch => match batch {
                    Ok(batch) => {
                        // Only some of the waiting batches are applied, so that answers stay in
                        // time.
                        let more = channels.arrivals.try_iter().take(BATCHES - 1);
                        iter::once(batch).chain(more).for_each(|batch| self.apply_all(batch));
                    }
                    Err(_) => self.done = true,
                },
                recv(recorded) -> block => {
                    if block.is_err() {
                        recorded = never();
                    }
                    self.play(block.ok());
                }
                recv(channels.named) -> reply => if let Ok(reply) = reply {
                    self.recorder.named(&reply, &self.model.profile);
                    self.model.apply_symbols(reply);
                },
                recv(channels.jitted) -> reply => if let Ok(reply) = reply {
                    self.apply_generated(reply);
                },
                recv(channels.coded) -> reply => if let Ok(reply) = reply {
                    self.model.apply_code(reply);
                    self.scheduler.request_previous();
                },
                recv(channels.sourced) -> reply => if let Ok(reply) = reply {
                    self.model.apply_source(reply);
                    self.scheduler.request_previous();
                },
                recv(events) -> event => match event {
                    Ok(event) => {
                        if let Some(receiver) = self.handle_event(event) {
                            flushed = receiver;
                            self.read_last_maps(&channels.ask_jit);
                        }
                    }
                    Err(_) => events = never(),
                },
                recv(flushed) -> _ => {
                    flushed = never();
                    let waiting = channels.arrivals.len();
                    channels.arrivals.try_iter().take(waiting).for_each(|batch| self.apply_all(batch));
                    self.is_flushed = true;
                }
                recv(self.leaving) -> _ => self.end_conclusion(true),
                recv(orders) -> order => match order {
                    Ok(order) => {
                        self.execute(order);
                        // Of waiting questions, only the last is answered.
                        for order in channels.orders.try_iter().take(NOTICES) {
                            self.execute(order);
                        }
                    }
                    Err(_) => {
                        orders = never();
                        self.conclude(Conclusion::Leave);
                    }
                },
                recv(first_beat) -> _ => self.tick(),
                recv(beat) -> _ => self.tick(),
            }
            self.ask_names(&channels.ask);
            self.ask_generated(&channels.ask_jit);
            self.model.request_listing(
                |request| match channels.ask_code.try_send(request) {
                    Err(TrySendError::Full(request)) => Err(request),
                    _ => Ok(()),
                },
                |request| match channels.ask_source.try_send(request) {
                    Err(TrySendError::Full(request)) => Err(request),
                    _ => Ok(()),
                },
            );
            self.notify_end(self.now_ns());
            self.end_conclusion(false);
            self.answer_if_due();
        }
    }

    fn apply_all(&mut self, mut arrivals: Vec<Arrival>) {
        self.socket_names.describe(&mut arrivals);
        if matches!(self.feed, SampleSource::Live(_)) {
            self.throttling.mark(&mut arrivals);
        }
        for arrival in &arrivals {
            if let ConnectionEvent::Received(Message::Busy { viewer }) = arrival.event {
                self.warn(format!("process {} is already watched by sigtop pid {viewer}", arrival.pid));
                if let SampleSource::Live(live) = &mut self.feed {
                    self.done |= live.leave_to_other_viewer(arrival.pid);
                }
            }
            if let Some(sentence) = warning(arrival) {
                self.warn(sentence);
            }
        }
        self.recorder.record(&arrivals);
        self.model.apply_all(arrivals);
    }

    /// Sends requests for symbols, as far as the symbols thread has room.
    fn ask_names(&mut self, ask: &Sender<worker::SymbolRequest>) {
        let try_ask = |request| match ask.try_send(request) {
            Err(TrySendError::Full(request)) => Err(request),
            _ => Ok(()),
        };
        let SampleSource::Recording(player) = &mut self.feed else { return self.model.request_symbols(try_ask) };
        self.model.request_symbols(|request| {
            player.add_request(request);
            Ok(())
        });
        while let Some(request) = player.next_request() {
            if let Err(request) = try_ask(request) {
                return player.put_back(request);
            }
        }
    }

    /// The time of answers, ns: that of the viewer, or that of the recording.
    fn now_ns(&self) -> u64 {
        match &self.feed {
            SampleSource::Live(_) => monotonic_ns(),
            SampleSource::Recording(player) => player.now_ns(monotonic_ns()),
        }
    }

    fn tick(&mut self) {
        let now_ns = monotonic_ns();
        let is_over = self.ended.is_some() || self.conclusion.is_some();
        let mut warning_and_end = None;
        match &mut self.feed {
            SampleSource::Live(live) => {
                if live.is_to_be_killed(now_ns) && self.ended.is_none() {
                    warning_and_end = live.end(now_ns).map(|sentence| (sentence, false));
                }
                if live.read_meters(&self.model.profile, is_over, now_ns) {
                    thread_states::update_titles(&mut self.model.profile);
                    self.scheduler.note_news();
                    let used_ns = live.cpu_used.as_nanos() as u64;
                    self.recorder.cpu(&CpuReading { at_ns: now_ns, used_ns, now: live.meter.now() });
                }
                if !is_over && live.read_ledger(&self.model.profile, &self.settings, now_ns) {
                    self.scheduler.note_news();
                    self.recorder.unsampled(now_ns, live.ledger.outside_ns, live.ledger.found.as_ref());
                }
                if !is_over {
                    live.sample_strangers(&self.model.profile, &self.settings, now_ns);
                }
                if !is_over && let Some(problem) = live.sample_from_outside(&self.settings) {
                    warning_and_end = Some(problem);
                }
                if !is_over
                    && let Some(sentence) = live.reach_silent_processes(&self.model.profile, &self.settings, now_ns)
                {
                    warning_and_end = Some((sentence, true));
                }
            }
            // The time of a live recording advances.
            SampleSource::Recording(player) if !player.is_over => self.scheduler.note_news(),
            SampleSource::Recording(_) => {}
        }
        self.limit_overhead(now_ns);
        self.note_download();
        if let Some((sentence, is_end)) = warning_and_end {
            self.warn(sentence);
            self.done |= is_end;
        }
        self.announce_memory_limit();
        self.announce_own_allocators();
        for sentence in self.recorder.warnings() {
            self.warn(sentence);
        }
        if self.recorder.flush_due(now_ns).is_err() {
            self.done = true;
        }
    }

    /// Explains the symbols of files with this name, on a separate thread because it may take a
    /// while.
    fn explain_symbols(&self, module: &str) {
        let modules = &self.model.profile.modules;
        let ids = modules.ids().filter(|&id| sanitize(&modules.file(id).name()) == module);
        let files: Vec<(ModuleFile, u32)> =
            ids.take(MAX_INQUIRIES).map(|id| (modules.file(id).clone(), modules.last_mapped_by(id))).collect();
        let notices = self.notices.clone();
        let servers = self.settings.symbols.servers.clone();
        let look = move || {
            let found = files.iter().map(|(file, pid)| explain::explain(file, *pid, servers.as_ref())).collect();
            // This fails if the screen is gone.
            let _ = notices.send(Notice::Why(found));
        };
        // If no thread can be started, the page keeps saying that the search is running.
        let _ = std::thread::Builder::new().name("why".to_owned()).spawn(look);
    }

    fn answer_if_due(&mut self) {
        let now_ns = monotonic_ns();
        let is_new = now_ns.saturating_sub(self.started_ns) < EAGER_FOR_NS;
        self.scheduler.set_eager(is_new && self.lacks_names);
        let answer_ns = self.settings.answer_ns;
        let has_few = is_new && self.model.received_samples() < EAGER_SAMPLES;
        let least_ns = if has_few { answer_ns / 4 } else { answer_ns };
        let due = self.scheduler.due(self.model.is_dirty(), least_ns, now_ns);
        // A report waits for the last name after the end of the session. It should not wait for the
        // next regular answer, too.
        let is_over = self.end_notified || matches!(&self.feed, SampleSource::Recording(player) if player.is_over);
        let has_last_name = is_over && self.lacks_names && self.model.names.progress().0 == 0;
        if let Some(of) = if self.model.has_first_samples() || has_last_name { Some(AnswerScope::Latest) } else { due }
        {
            self.answer(of, now_ns);
        }
    }

    fn answer(&mut self, of: AnswerScope, now_ns: u64) {
        self.look_at_threads(now_ns);
        let shown_ns = self.now_ns();
        let reading = self.cpu_reading();
        self.cost.read(reading, shown_ns);
        self.update_coverage(now_ns);
        let facts = self.facts(shown_ns);
        self.lacks_names = facts.symbolizing.0 > 0;
        self.unnamed_since_ns = self.lacks_names.then(|| self.unnamed_since_ns.unwrap_or(now_ns));
        let answer = match of {
            AnswerScope::Latest => self.model.answer(shown_ns, facts),
            AnswerScope::Previous => self.model.answer_from_previous(shown_ns, facts),
        };
        self.scheduler.answered(of, now_ns, monotonic_ns());
        self.notify(Notice::Answer(answer.into()));
    }

    /// Answers a question without changing what is answered from now on.
    fn answer_once(&mut self, question: Question) -> Answer {
        let asked = self.model.question().clone();
        self.model.set_question(question);
        self.look_at_threads(monotonic_ns());
        let shown_ns = self.now_ns();
        let answer = self.model.answer(shown_ns, self.facts(shown_ns));
        self.model.set_question(asked);
        answer
    }

    /// Reads the states of the threads if the question is about them.
    fn look_at_threads(&mut self, now_ns: u64) {
        if let (SampleSource::Live(live), Some(_)) = (&mut self.feed, &self.model.question().threads) {
            live.look_at_threads(&mut self.model.profile, now_ns);
        }
    }

    /// The time `now_ns` in UTC, ns since 1970.
    fn unix_ns(&self, now_ns: u64) -> u64 {
        match &self.feed {
            SampleSource::Live(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64,
            SampleSource::Recording(player) => {
                let RecordingInfo { started_ns, started_unix_ns, .. } = player.about;
                started_unix_ns.saturating_add(now_ns.saturating_sub(started_ns))
            }
        }
    }

    /// The end of the time in which a live session measures, in UTC, ns since 1970.
    fn measured_until_unix_ns(&self, now_ns: u64) -> u64 {
        let ended = self.ended.filter(|_| matches!(self.feed, SampleSource::Live(_)));
        let behind_ns = ended.map_or(0, |(_, at_ns)| now_ns.saturating_sub(at_ns));
        self.unix_ns(now_ns).saturating_sub(behind_ns)
    }

    /// Completes the recording and returns the results.
    pub(super) fn finish(self) -> FinishedSession {
        let now_ns = self.now_ns();
        let (facts, unix_ns) = (self.facts(now_ns), self.measured_until_unix_ns(now_ns));
        let recording = self.recorder.finish(now_ns);
        FinishedSession { model: self.model, recording, facts, now_ns, unix_ns, converted: self.converted }
    }

    pub(super) fn warn(&mut self, sentence: String) {
        if self.banner.as_ref() != Some(&sentence) {
            self.notify(Notice::Banner(sentence.clone()));
            self.banner = Some(sentence);
        }
    }

    fn notify(&mut self, notice: Notice) {
        if self.notices.send(notice).is_err() {
            self.done = true;
        }
    }
}
