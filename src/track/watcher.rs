//! The thread that owns the desk, between agents, symbols worker, target and screen.

mod ending;
mod facts;

use std::iter;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, TrySendError, never, select, tick};
use nix::time::{ClockId, clock_gettime};

use super::cost::Cost;
use super::desk::Desk;
use super::facts::Ending;
use super::governor::Governor;
use super::live::Live;
use super::pace::{ANSWER_NS, Due, Pace};
use super::player::Player;
use super::remark::remark;
use super::session::{Finished, NOTICES, Settings};
use super::tape::{self, Tape};
use super::{Command, Notice, Save};
use crate::attach::launch;
use crate::link::record::{About, Block, Cpu, RecordError};
use crate::link::wire::{Arrival, Event, Message};
use crate::profile::module::ModuleFile;
use crate::symbols::clean::clean;
use crate::symbols::inquiry;
use crate::symbols::source;
use crate::symbols::worker;

/// How long answers come four times as often, while names and numbers fill an empty screen, ns.
const EAGER_FOR_NS: u64 = 2_000_000_000;

/// Samples that are looked at before they are worked on: what is read of them fits into a near cache.
const AHEAD: usize = 64;
/// Batches that are taken in one go, at most.
const BATCHES: usize = 16;
/// Files of one name that are looked at.
const MAX_INQUIRIES: usize = 4;

/// Where things come from, and where names are asked for.
pub(super) struct Channels {
    pub(super) arrivals: Receiver<Vec<Arrival>>,
    pub(super) orders: Receiver<Command>,
    pub(super) ask: Sender<worker::Request>,
    pub(super) named: Receiver<worker::Reply>,
    pub(super) ask_code: Sender<worker::CodeRequest>,
    pub(super) coded: Receiver<worker::CodeReply>,
    pub(super) ask_source: Sender<source::Request>,
    pub(super) sourced: Receiver<source::Reply>,
    pub(super) events: Receiver<launch::Event>,
    pub(super) recorded: Receiver<Result<Block, RecordError>>,
}

/// Where samples come from.
pub(super) enum Feed {
    /// From agents.
    Live(Box<Live>),
    /// From a recording.
    Recording(Box<Player>),
}

/// A watch under way.
pub(super) struct Watcher {
    desk: Desk,
    feed: Feed,
    tape: Tape,
    settings: Settings,
    notices: Sender<Notice>,
    started_ns: u64,
    pace: Pace,
    governor: Governor,
    cost: Cost,
    ended: Option<(Ending, u64)>,
    banner: Option<String>,
    told_end: bool,
    /// Whether everything that the agents had sent by the target's end has arrived.
    is_flushed: bool,
    /// Whether the last answer had frames without a name.
    lacks_names: bool,
    done: bool,
    /// Whether the user chose a clock of those in a recording.
    turned: bool,
}

/// The viewer's clock, the same that agents stamp with.
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    now.as_nanos() as u64
}

impl Watcher {
    pub(super) fn new(feed: Feed, tape: Tape, settings: Settings, notices: Sender<Notice>) -> Watcher {
        let mut desk = Desk::new(settings.clock, settings.question.clone());
        if settings.sample_times {
            desk.profile.keep_sample_times();
        }
        let started_ns = match &feed {
            Feed::Live(_) => monotonic_ns(),
            Feed::Recording(player) => player.about.started_ns,
        };
        Watcher {
            desk,
            feed,
            tape,
            governor: Governor::new(settings.budget),
            cost: Cost::new(started_ns),
            settings,
            notices,
            started_ns: monotonic_ns(),
            pace: Pace::default(),
            ended: None,
            banner: None,
            told_end: false,
            is_flushed: false,
            lacks_names: false,
            done: false,
            turned: false,
        }
    }

    /// Watches until the screen or the target's side is gone.
    pub(super) fn run(&mut self, channels: &Channels) {
        let beat = tick(Duration::from_nanos(ANSWER_NS));
        let mut events = channels.events.clone();
        let mut recorded = channels.recorded.clone();
        let mut flushed = never();
        if matches!(self.feed, Feed::Recording(_)) {
            // From here on its time counts.
            self.answer(Due::News, monotonic_ns());
        }
        while !self.done {
            select! {
                recv(channels.arrivals) -> batch => match batch {
                    Ok(batch) => {
                        // Of what waits a part is taken in one go, so that answers stay on time.
                        let more = channels.arrivals.try_iter().take(BATCHES - 1);
                        iter::once(batch).chain(more).for_each(|batch| self.arrive_all(batch));
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
                    self.tape.named(&reply, &self.desk.profile);
                    self.desk.named(reply);
                },
                recv(channels.coded) -> reply => if let Ok(reply) = reply { self.desk.coded(reply) },
                recv(channels.sourced) -> reply => if let Ok(reply) = reply { self.desk.sourced(reply) },
                recv(events) -> event => match event {
                    Ok(event) => {
                        if let Some(receiver) = self.hear(event) {
                            flushed = receiver;
                        }
                    }
                    Err(_) => events = never(),
                },
                recv(flushed) -> _ => {
                    flushed = never();
                    let waiting = channels.arrivals.len();
                    channels.arrivals.try_iter().take(waiting).for_each(|batch| self.arrive_all(batch));
                    self.is_flushed = true;
                }
                recv(channels.orders) -> order => match order {
                    Ok(order) => {
                        self.obey(order);
                        // Of questions that wait, only the last is answered.
                        for order in channels.orders.try_iter().take(NOTICES) {
                            self.obey(order);
                        }
                    }
                    Err(_) => self.done = true,
                },
                recv(beat) -> _ => self.beat(),
            }
            self.ask_names(&channels.ask);
            self.desk.ask_listing(
                |request| match channels.ask_code.try_send(request) {
                    Err(TrySendError::Full(request)) => Err(request),
                    _ => Ok(()),
                },
                |request| match channels.ask_source.try_send(request) {
                    Err(TrySendError::Full(request)) => Err(request),
                    _ => Ok(()),
                },
            );
            self.tell_end(self.now_ns());
            self.answer_if_due();
        }
    }

    fn arrive_all(&mut self, batch: Vec<Arrival>) {
        let mut coming = batch.into_iter();
        while !coming.as_slice().is_empty() {
            let count = coming.len().min(AHEAD);
            let marks = self.desk.profile.look_ahead(&coming.as_slice()[..count]);
            self.tape.look_ahead(&marks);
            coming.by_ref().take(count).zip(marks).for_each(|(arrival, mark)| self.arrive(arrival, mark));
        }
    }

    fn arrive(&mut self, arrival: Arrival, mark: u64) {
        if let Event::Said(Message::Busy { viewer }) = arrival.event {
            self.tell_banner(format!("already watched by sigtop pid {viewer}"));
            self.done = true;
        }
        if let Some(sentence) = remark(&arrival) {
            self.tell_banner(sentence);
        }
        self.tape.arrive(&arrival, mark);
        self.desk.arrive(arrival, mark);
    }

    /// Asks for the names that are wanted, as far as the worker has room.
    fn ask_names(&mut self, ask: &Sender<worker::Request>) {
        let try_ask = |request| match ask.try_send(request) {
            Err(TrySendError::Full(request)) => Err(request),
            _ => Ok(()),
        };
        let Feed::Recording(player) = &mut self.feed else { return self.desk.ask_names(try_ask) };
        self.desk.ask_names(|request| {
            player.owe(request);
            Ok(())
        });
        while let Some(request) = player.request() {
            if let Err(request) = try_ask(request) {
                return player.put_back(request);
            }
        }
    }

    /// Plays a block of a recording, or hears that there are no more.
    fn play(&mut self, block: Option<Result<Block, RecordError>>) {
        let Feed::Recording(player) = &mut self.feed else { return };
        if player.is_over {
            return;
        }
        let is_end = block.is_none();
        let mut words = Vec::new();
        let fault = match block {
            Some(Ok(block)) => {
                let played = player.play(&block, &mut self.desk, monotonic_ns());
                self.tape.keep(block.raw.into());
                played.map(|said| words = said).err()
            }
            Some(Err(fault)) => Some(fault),
            None => None,
        };
        // What comes behind a fault is not understood.
        let is_last = fault.is_some() || is_end;
        let fault = if is_last { fault.or(player.end()) } else { None };
        let (clock, engine, period_ns) = player.sampling();
        if clock != self.desk.clock && !self.turned {
            self.desk.turn_to(clock);
        }
        (self.settings.engine, self.settings.period_ns) = (engine, period_ns);
        self.ended = player.ended;
        words.into_iter().for_each(|sentence| self.tell_banner(sentence));
        if let Some(fault) = fault {
            self.tell_banner(format!("{} {fault}", self.settings.name));
        }
        if is_last {
            // The last numbers come first.
            self.answer(Due::News, monotonic_ns());
            self.tell(Notice::Played);
        }
        self.pace.tell();
    }

    fn obey(&mut self, order: Command) {
        match order {
            Command::Ask(question) => {
                if *question != *self.desk.question() {
                    self.desk.ask(*question);
                    self.pace.ask_of_known();
                }
            }
            Command::Clock(clock) => {
                self.settings.clock = clock;
                match self.feed {
                    Feed::Live(_) => self.desk.switch(clock),
                    Feed::Recording(_) => self.desk.turn_to(clock),
                }
                self.turned = true;
                self.engage();
            }
            Command::Engine(engine) => {
                self.settings.engine = engine;
                self.engage();
            }
            Command::Period(period_ns) => {
                self.settings.period_ns = period_ns;
                self.engage();
            }
            Command::Freeze => self.desk.freeze(self.now_ns()),
            Command::Thaw => self.desk.thaw(),
            Command::Baseline(on) => self.desk.compare(on, monotonic_ns()),
            Command::Reset => self.desk.reset(),
            Command::Input(bytes) => {
                if let Feed::Live(live) = &self.feed
                    && let Some(sentence) = live.input(&bytes)
                {
                    self.tell_banner(sentence);
                }
            }
            Command::Resize(columns, rows) => {
                if let Feed::Live(live) = &self.feed {
                    live.resize(columns, rows);
                }
            }
            Command::Save(save) => self.save(save),
            Command::End => self.end(),
            Command::HangUp => {
                if let Feed::Live(live) = &self.feed {
                    live.hang_up();
                }
            }
            Command::Why { module } => self.inquire(&module),
            Command::Leave => self.done = true,
        }
    }

    fn engage(&mut self) {
        if let Feed::Live(live) = &mut self.feed {
            live.agents.engage(self.settings.request());
            live.ledger.change();
        }
        self.pace.ask();
    }

    fn end(&mut self) {
        if let (Feed::Live(live), None) = (&mut self.feed, self.ended)
            && let Some(sentence) = live.end(monotonic_ns())
        {
            self.tell_banner(sentence);
        }
    }

    /// The time that answers are of, ns: ours, or that of the recording.
    fn now_ns(&self) -> u64 {
        match &self.feed {
            Feed::Live(_) => monotonic_ns(),
            Feed::Recording(player) => player.now_ns(monotonic_ns()),
        }
    }

    fn beat(&mut self) {
        let now_ns = monotonic_ns();
        let is_over = self.ended.is_some();
        let mut last_words = None;
        match &mut self.feed {
            Feed::Live(live) => {
                if live.is_to_be_killed(now_ns) && !is_over {
                    last_words = live.end(now_ns).map(|sentence| (sentence, false));
                }
                if live.read_meters(&self.desk.profile, is_over, now_ns) {
                    self.pace.tell();
                    let used_ns = live.cpu_used.as_nanos() as u64;
                    self.tape.cpu(&Cpu { at_ns: now_ns, used_ns, now: live.meter.now() });
                }
                if !is_over && live.read_ledger(&self.desk.profile, &self.settings, now_ns) {
                    self.pace.tell();
                }
                if !is_over && let Some(sentence) = live.knock(&self.desk.profile, &self.settings, now_ns) {
                    last_words = Some((sentence, true));
                }
            }
            // A recording that is still written goes on, and its time with it.
            Feed::Recording(player) if !player.is_over => self.pace.tell(),
            Feed::Recording(_) => {}
        }
        self.govern(now_ns);
        if let Some((sentence, is_end)) = last_words {
            self.tell_banner(sentence);
            self.done |= is_end;
        }
        for sentence in self.tape.words() {
            self.tell_banner(sentence);
        }
        if self.tape.beat(now_ns).is_err() {
            self.done = true;
        }
    }

    /// Halves the rate where the handlers cost the target more than they may.
    fn govern(&mut self, now_ns: u64) {
        if matches!(self.feed, Feed::Recording(_)) {
            return;
        }
        let losses = self.desk.profile.losses();
        if let Some(slower) = self.governor.judge(&losses, self.settings.period_ns, now_ns) {
            self.settings.period_ns = slower.period_ns;
            self.engage();
            self.tell_banner(slower.to_string());
        }
    }

    /// Looks at the files of a name, on a thread of its own: it may take a while, and nothing waits for it.
    fn inquire(&self, module: &str) {
        let modules = &self.desk.profile.modules;
        let ids = modules.ids().filter(|&id| clean(&modules.file(id).name()) == module);
        let files: Vec<(ModuleFile, u32)> =
            ids.take(MAX_INQUIRIES).map(|id| (modules.file(id).clone(), modules.seen_in(id))).collect();
        let notices = self.notices.clone();
        let look = move || {
            let found = files.iter().map(|(file, pid)| inquiry::inquire(file, *pid)).collect();
            // If nobody listens any more, nobody asks.
            let _ = notices.send(Notice::Why(found));
        };
        // Without a thread the page goes on saying that it looks.
        let _ = std::thread::Builder::new().name("why".to_owned()).spawn(look);
    }

    fn answer_if_due(&mut self) {
        let now_ns = monotonic_ns();
        let is_new = now_ns.saturating_sub(self.started_ns) < EAGER_FOR_NS;
        let answer_ns = self.settings.answer_ns;
        let least_ns = if is_new { answer_ns / 4 } else { answer_ns };
        let due = self.pace.due(self.desk.is_dirty(), least_ns, now_ns);
        // A report waits for the last name of a watch that is over: it need not wait for the next
        // answer's turn too.
        let is_over = self.told_end || matches!(&self.feed, Feed::Recording(player) if player.is_over);
        let has_last_name = is_over && self.lacks_names && self.desk.names.progress().0 == 0;
        if let Some(of) = if self.desk.has_first_samples() || has_last_name { Some(Due::News) } else { due } {
            self.answer(of, now_ns);
        }
    }

    fn answer(&mut self, of: Due, now_ns: u64) {
        if let (Feed::Live(live), Some(_)) = (&mut self.feed, &self.desk.question().threads) {
            live.look_at_threads(&mut self.desk.profile, now_ns);
        }
        let shown_ns = self.now_ns();
        self.cost.read(&self.desk.profile.losses(), shown_ns);
        let facts = self.facts(shown_ns);
        self.lacks_names = facts.symbolizing.0 > 0;
        let answer = match of {
            Due::News => self.desk.answer(shown_ns, facts),
            Due::Known => self.desk.answer_again(shown_ns, facts),
        };
        self.pace.answered(of, now_ns, monotonic_ns());
        self.tell(Notice::Answer(answer.into()));
    }

    /// Writes what is asked for, on a thread of its own as far as files go.
    fn save(&mut self, save: Save) {
        let now_ns = self.now_ns();
        let made = match &save.form {
            None => self.tape.so_far(now_ns, &self.desk.profile, &self.desk.names),
            Some(form) => {
                let facts = self.facts(now_ns);
                let made = self.desk.made(*form, save.is_shown, (now_ns, self.unix_ns(now_ns)), &facts);
                made.map(|bytes| vec![bytes.into()])
            }
        };
        let notices = self.notices.clone();
        let work = move || {
            let packed = |pieces: Vec<_>| if save.form.is_none() { tape::packed(&pieces) } else { Ok(pieces) };
            let saved = made.and_then(packed).and_then(|pieces| save.write(&pieces));
            // A screen that is gone needs no answer.
            let _ = notices.send(Notice::Saved(saved));
        };
        if std::thread::Builder::new().name("save".to_owned()).spawn(work).is_err() {
            self.tell(Notice::Saved(Err("the system gives no thread to write with".to_owned())));
        }
    }

    /// The same time in UTC, ns since 1970.
    fn unix_ns(&self, now_ns: u64) -> u64 {
        match &self.feed {
            Feed::Live(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64,
            Feed::Recording(player) => {
                let About { started_ns, started_unix_ns, .. } = player.about;
                started_unix_ns.saturating_add(now_ns.saturating_sub(started_ns))
            }
        }
    }

    /// Ends the recording and gives what is known.
    pub(super) fn finish(self) -> Finished {
        let now_ns = self.now_ns();
        let (facts, unix_ns) = (self.facts(now_ns), self.unix_ns(now_ns));
        let recording = self.tape.finish(now_ns);
        Finished { desk: self.desk, recording, facts, now_ns, unix_ns }
    }

    pub(super) fn tell_banner(&mut self, sentence: String) {
        if self.banner.as_ref() != Some(&sentence) {
            self.tell(Notice::Banner(sentence.clone()));
            self.banner = Some(sentence);
        }
    }

    fn tell(&mut self, notice: Notice) {
        if self.notices.send(notice).is_err() {
            self.done = true;
        }
    }
}
