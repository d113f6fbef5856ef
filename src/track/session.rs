//! One watch: the thread that owns the desk, between sockets, symbols worker, target and screen.

use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select, tick};
use nix::time::{ClockId, clock_gettime};

use super::caller::{Caller, Knocked};
use super::desk::Desk;
use super::facts::{Ending, Facts, MAX_FILES, Stacks};
use super::meter::{self, Meter};
use super::pace::{ANSWER_NS, Pace};
use super::{Command, Notice, Question};
use crate::attach::find::{self, Carrier, Watch};
use crate::attach::launch::{self, Launched};
use crate::attach::proc;
use crate::link::receive::Post;
use crate::link::wire::{Arrival, Clock, Engine, EngineState, Event, Message, Request};
use crate::profile::Profile;
use crate::symbols::worker::{self, SymbolState};

/// How long answers come four times as often, while names and numbers fill an empty screen, ns.
const EAGER_FOR_NS: u64 = 2_000_000_000;
/// Between two readings of meters, ns.
const METER_NS: u64 = 1_000_000_000;
/// Notices and commands that wait for the other side, at most. The screen reads its notices at once; when it does not, the
/// desk waits, agents' sockets fill, and what they cannot send they count.
const NOTICES: usize = 1024;
/// Requests and replies of the symbols worker that wait, at most.
const NAMES: usize = 256;
/// After the target's end, how long the last messages of its agents may take, ns.
const LAST_WORDS_NS: u64 = 1_000_000_000;
/// A launched target that is told to end and does not: SIGKILL after this, ns.
const PATIENCE_NS: u64 = 2_000_000_000;

/// What is watched.
pub enum Target {
    /// Started by us.
    Launched(Launched),
    /// Running before us.
    Attached(Carrier),
}

impl Target {
    /// Its process, in our pid namespace.
    pub fn pid(&self) -> u32 {
        match self {
            Target::Launched(launched) => launched.pid,
            Target::Attached(carrier) => carrier.pid,
        }
    }
}

/// How to watch.
#[derive(Clone, Debug)]
pub struct Settings {
    /// As shown in the header.
    pub command: String,
    /// To begin with.
    pub clock: Clock,
    /// To begin with.
    pub engine: Engine,
    /// To begin with, ns.
    pub period_ns: u64,
    /// To begin with.
    pub question: Question,
    /// Whether children are watched too.
    pub follow: bool,
}

impl Settings {
    /// What agents are told to begin with.
    pub fn request(&self) -> Request {
        Request::Engage { clock: self.clock, engine: self.engine, period_ns: self.period_ns }
    }
}

/// A watch under way.
pub struct Session {
    /// Where it takes commands.
    pub commands: Sender<Command>,
    /// Where it tells what is new; closed when the session has ended.
    pub notices: Receiver<Notice>,
    thread: JoinHandle<Desk>,
}

impl Session {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        target: Target,
        settings: Settings,
        agents: Post,
        arrivals: Receiver<Arrival>,
    ) -> std::io::Result<Session> {
        let (commands, orders) = bounded(NOTICES);
        let (tell, notices) = bounded(NOTICES);
        let (ask, requests) = bounded(NAMES);
        let (replies, named) = bounded(NAMES);
        worker::spawn(requests, replies);
        let events = follow(&target)?;
        let watch = Watcher::new(target, settings, agents, tell);
        let thread = std::thread::Builder::new().name("profile".to_owned()).spawn(move || {
            let mut watch = watch;
            watch.run(&Channels { arrivals, orders, ask, named, events });
            watch.desk
        })?;
        Ok(Session { commands, notices, thread })
    }

    /// Waits for its end and gives what it knew.
    pub fn finish(self) -> Option<Desk> {
        drop(self.commands);
        while self.notices.recv().is_ok() {}
        self.thread.join().ok()
    }
}

/// The channel that tells of the target: a launched one's keeper or parent, or a thread that waits for an attached one's end.
fn follow(target: &Target) -> std::io::Result<Receiver<launch::Event>> {
    let (tell, events) = bounded(NOTICES);
    match target {
        Target::Launched(launched) => {
            launched.follow(tell).map_err(std::io::Error::other)?;
        }
        Target::Attached(carrier) => {
            let watch = Watch::new(carrier.pid, carrier.start_ticks);
            std::thread::Builder::new().name("target".to_owned()).spawn(move || {
                while !watch.wait(Duration::from_secs(3600)) {}
                let ended = launch::Ended { how: launch::Ending::Unknown, user_ns: 0, system_ns: 0 };
                let _ = tell.send(launch::Event::Ended(ended));
            })?;
        }
    }
    Ok(events)
}

struct Channels {
    arrivals: Receiver<Arrival>,
    orders: Receiver<Command>,
    ask: Sender<worker::Request>,
    named: Receiver<worker::Reply>,
    events: Receiver<launch::Event>,
}

struct Watcher {
    desk: Desk,
    target: Target,
    settings: Settings,
    agents: Post,
    notices: Sender<Notice>,
    meter: Meter,
    caller: Caller,
    started_ns: u64,
    pace: Pace,
    metered_ns: u64,
    cpu_used: Duration,
    ended: Option<(Ending, u64)>,
    /// When SIGKILL follows SIGTERM.
    kill_at_ns: Option<u64>,
    banner: Option<String>,
    told_end: bool,
    done: bool,
}

/// The viewer's clock, the same that agents stamp with.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    now.as_nanos() as u64
}

impl Watcher {
    fn new(target: Target, settings: Settings, agents: Post, notices: Sender<Notice>) -> Watcher {
        let now_ns = monotonic_ns();
        Watcher {
            desk: Desk::new(settings.clock, settings.question.clone()),
            target,
            settings,
            agents,
            notices,
            meter: Meter::new(),
            caller: Caller::default(),
            started_ns: now_ns,
            pace: Pace::default(),
            metered_ns: 0,
            cpu_used: Duration::ZERO,
            ended: None,
            kill_at_ns: None,
            banner: None,
            told_end: false,
            done: false,
        }
    }

    fn run(&mut self, channels: &Channels) {
        let beat = tick(Duration::from_nanos(ANSWER_NS));
        let mut events = channels.events.clone();
        while !self.done {
            select! {
                recv(channels.arrivals) -> arrival => match arrival {
                    Ok(arrival) => {
                        self.arrive(arrival);
                        // What waits is taken in one go, a little at a time, so that answers stay on time.
                        for arrival in channels.arrivals.try_iter().take(4096) {
                            self.arrive(arrival);
                        }
                    }
                    Err(_) => self.done = true,
                },
                recv(channels.named) -> reply => if let Ok(reply) = reply { self.desk.named(reply) },
                recv(events) -> event => match event {
                    Ok(event) => self.hear(event),
                    Err(_) => events = never(),
                },
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
            self.desk.ask_names(|request| match channels.ask.try_send(request) {
                Err(TrySendError::Full(request)) => Err(request),
                _ => Ok(()),
            });
            self.answer_if_due();
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        if let Event::Said(Message::Busy { viewer }) = arrival.event {
            self.tell_banner(format!("already watched by sigtop pid {viewer}"));
            self.done = true;
        }
        if let Event::Said(Message::Engaged(engaged)) = &arrival.event {
            let taken = match engaged.state {
                EngineState::SignalTaken => Some(
                    "the target has a handler of its own for this timer's signal; E goes back to timers per thread",
                ),
                EngineState::TimerTaken => {
                    Some("the target uses this interval timer itself; E goes back to timers per thread")
                }
                EngineState::TimerRefused => {
                    Some("the kernel gives no timer (ulimit -i, or a sandbox): nothing is sampled")
                }
                EngineState::Unsupported => Some("this clock needs the engine setitimer: press E"),
                EngineState::Running if engaged.signal == 23 => {
                    Some("the target uses SIGPROF itself: its handler is left alone, ticks ride on SIGURG")
                }
                EngineState::Running | EngineState::Off => None,
            };
            if let Some(sentence) = taken {
                self.tell_banner(format!("process {}: {sentence}", arrival.pid));
            }
        }
        if let Event::Cut(fault) = &arrival.event {
            self.tell_banner(format!("process {} sent {fault}; its stream was cut", arrival.pid));
        }
        self.desk.arrive(arrival);
    }

    fn hear(&mut self, event: launch::Event) {
        match event {
            launch::Event::Output(bytes) => self.tell(Notice::Output(bytes)),
            launch::Event::OutputLost(bytes) => {
                self.tell_banner(format!("{bytes} bytes of the target's output are missing here"))
            }
            launch::Event::InputLost(bytes) => {
                self.tell_banner(format!("the target does not read: {bytes} bytes of input were dropped"))
            }
            launch::Event::Stopped { signal } => self.tell_banner(format!("the target was stopped by signal {signal}")),
            launch::Event::Continued => {}
            launch::Event::Ended(ended) => {
                let ending = match ended.how {
                    launch::Ending::Exited(status) => Ending::Exited(status.into()),
                    launch::Ending::Killed { signal, .. } => Ending::Killed(signal),
                    launch::Ending::Unknown => Ending::Gone,
                };
                self.ended = Some((ending, monotonic_ns()));
                if ended.user_ns + ended.system_ns > 0 {
                    self.cpu_used = Duration::from_nanos(ended.user_ns + ended.system_ns);
                }
                self.kill_at_ns = None;
            }
        }
    }

    fn obey(&mut self, order: Command) {
        match order {
            Command::Ask(question) => {
                if *question != *self.desk.question() {
                    self.desk.ask(*question);
                    self.pace.ask();
                }
            }
            Command::Clock(clock) => {
                self.settings.clock = clock;
                self.desk.switch(clock);
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
            Command::Freeze => self.desk.freeze(monotonic_ns()),
            Command::Thaw => self.desk.thaw(),
            Command::Reset => self.desk.reset(),
            Command::Input(bytes) => {
                if let Target::Launched(launched) = &self.target
                    && launched.input(&bytes).is_ok_and(|taken| taken < bytes.len())
                {
                    self.tell_banner("the target does not read its input".to_owned());
                }
            }
            Command::Resize(columns, rows) => {
                if let Target::Launched(launched) = &self.target {
                    // Gone is gone: the end of the target is told elsewhere.
                    let _ = launched.resize(rows, columns);
                }
            }
            Command::End => self.end(),
            Command::Leave => self.done = true,
        }
    }

    fn engage(&mut self) {
        self.agents.engage(self.settings.request());
        self.pace.ask();
    }

    /// SIGTERM; asked twice, or after a while, SIGKILL.
    fn end(&mut self) {
        let Target::Launched(launched) = &self.target else { return };
        if self.ended.is_some() {
            return;
        }
        const SIGKILL: i32 = nix::sys::signal::Signal::SIGKILL as i32;
        const SIGTERM: i32 = nix::sys::signal::Signal::SIGTERM as i32;
        let signal = if self.kill_at_ns.is_some() { SIGKILL } else { SIGTERM };
        self.kill_at_ns = Some(monotonic_ns() + PATIENCE_NS);
        if let Err(error) = launched.signal(signal) {
            self.tell_banner(error.to_string());
        }
    }

    fn beat(&mut self) {
        let now_ns = monotonic_ns();
        if self.kill_at_ns.is_some_and(|at_ns| now_ns >= at_ns) {
            self.end();
        }
        if now_ns.saturating_sub(self.metered_ns) >= METER_NS || self.desk.profile.processes().is_empty() {
            self.read_meters(now_ns);
        }
        self.knock(now_ns);
        self.tell_end(now_ns);
    }

    fn read_meters(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.metered_ns) >= METER_NS {
            let mut pids = proc::descendants(self.target.pid());
            pids.push(self.target.pid());
            pids.extend(
                self.desk.profile.processes().iter().filter(|process| process.connected).map(|process| process.pid),
            );
            pids.sort_unstable();
            pids.dedup();
            self.meter.read(&pids, now_ns);
            self.metered_ns = now_ns;
            self.pace.tell();
        }
        if self.ended.is_none() {
            self.cpu_used = meter::cpu_used(self.target.pid());
        }
    }

    /// Knocks at who should call and has not: a process attached to, and idle ones when waiting counts.
    fn knock(&mut self, now_ns: u64) {
        let connected =
            |pid: u32| self.desk.profile.processes().iter().any(|process| process.pid == pid && process.connected);
        let pid = self.target.pid();
        let attached = matches!(self.target, Target::Attached(_));
        let waiting_counts = self.settings.clock == Clock::Real;
        if self.ended.is_some() || !(attached || waiting_counts) {
            return;
        }
        let mut pids = vec![pid];
        if self.settings.follow && (waiting_counts || attached) {
            pids.extend(proc::descendants(pid));
        }
        pids.retain(|&pid| !connected(pid) && (pid == self.target.pid() && attached || find::check(pid).is_ok()));
        for silent in pids {
            self.agents.expect(silent);
            match self.caller.call(silent, now_ns) {
                Knocked::Wait => {}
                Knocked::Failed(error) if attached && silent == pid => {
                    self.tell_banner(error.to_string());
                    self.done = true;
                }
                Knocked::GivenUp if attached && silent == pid => {
                    self.tell_banner(format!("process {silent} carries the agent, but it does not answer"));
                    self.done = true;
                }
                Knocked::Failed(_) | Knocked::GivenUp => {}
            }
        }
    }

    /// Tells of the end when the agents' last words have come too, so that the tables are whole.
    fn tell_end(&mut self, now_ns: u64) {
        let Some((ending, at_ns)) = self.ended else { return };
        if self.told_end {
            return;
        }
        let quiet = !self.desk.profile.processes().iter().any(|process| process.connected);
        if now_ns - at_ns < LAST_WORDS_NS && !(quiet && now_ns - at_ns >= ANSWER_NS) {
            return;
        }
        self.answer(now_ns);
        self.tell(Notice::Ended(ending));
        self.told_end = true;
    }

    fn answer_if_due(&mut self) {
        let now_ns = monotonic_ns();
        let is_new = now_ns.saturating_sub(self.started_ns) < EAGER_FOR_NS;
        let least_ns = if is_new { ANSWER_NS / 4 } else { ANSWER_NS };
        if self.desk.has_first_samples() || self.pace.is_due(self.desk.is_dirty(), least_ns, now_ns) {
            self.answer(now_ns);
        }
    }

    fn answer(&mut self, now_ns: u64) {
        let facts = self.facts(now_ns);
        let answer = self.desk.answer(now_ns, facts);
        self.pace.answered(now_ns, monotonic_ns());
        self.tell(Notice::Answer(answer.into()));
    }

    fn facts(&self, now_ns: u64) -> Facts {
        let (pid, profile) = (self.target.pid(), &self.desk.profile);
        let connected = || profile.processes().iter().filter(|process| process.connected);
        let own = || connected().filter_map(|process| process.engaged.as_ref());
        let clock = self.desk.clock;
        // The worst that any process says; the others are as asked.
        let state = own().map(|engaged| engaged.state).max_by_key(|&state| state != EngineState::Running);
        let losses = profile.losses();
        let (truncated, samples) = profile.truncated();
        let share = (losses.agent_cpu_ns + losses.handler_cpu_ns) as f64 / losses.process_cpu_ns as f64;
        let from_ns = |since_ns: u64, until_ns: u64| Duration::from_nanos(until_ns.saturating_sub(since_ns));
        Facts {
            command: self.settings.command.clone(),
            pid,
            processes: connected().count(),
            threads: (connected().count() > 0).then(|| connected().map(|process| process.account.threads).sum()),
            up: from_ns(self.started_ns, self.ended.map_or(now_ns, |(_, at_ns)| at_ns)),
            ended: self.ended.map(|(ending, at_ns)| (ending, from_ns(self.started_ns, at_ns))),
            clock,
            engine: self.settings.engine,
            engine_state: state,
            period_ns: self.settings.period_ns,
            effective_hz: rate(profile, clock),
            window_ns: self.desk.question().window_ns,
            agent_share: (losses.process_cpu_ns > 0).then_some(share),
            losses,
            stacks: Stacks { samples, truncated, unreadable: profile.unreadable() },
            overflows: profile.overflows(),
            files: self.files(),
            cpu_history: self.meter.history(),
            cpu_now: self.meter.now(),
            cpu_used: self.cpu_used,
            symbolizing: self.desk.names.progress(),
            waiting: self.desk.waiting(),
        }
    }

    /// What was found of each file.
    fn files(&self) -> Vec<(String, SymbolState)> {
        let modules = &self.desk.profile.modules;
        let states = self.desk.names.states();
        let mut files: Vec<(String, SymbolState)> =
            states.map(|(id, state)| (modules.file(id).name(), state.clone())).collect();
        files.sort_by(|a, b| (a.1.is_usable(), &a.0).cmp(&(b.1.is_usable(), &b.0)));
        files.truncate(MAX_FILES);
        files
    }

    fn tell_banner(&mut self, sentence: String) {
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

/// Signals that reached a handler in the last second or so, a second of the clock: of CPU time, or of a thread's wall time.
fn rate(profile: &Profile, clock: Clock) -> Option<f64> {
    let (mut ticks, mut seconds) = (0, 0.0);
    for process in profile.processes().iter().filter(|process| process.connected) {
        let (now, before) = (&process.account, &process.earlier_account);
        let passed_ns = match clock {
            Clock::Real => {
                (now.monotonic_ns - before.monotonic_ns.min(now.monotonic_ns)) * u64::from(now.threads.max(1))
            }
            _ => now.process_cpu_ns - before.process_cpu_ns.min(now.process_cpu_ns),
        };
        if before.monotonic_ns > 0 {
            ticks += now.ticks - before.ticks.min(now.ticks);
            seconds += passed_ns as f64 / 1e9;
        }
    }
    (ticks > 0 && seconds > 0.0).then(|| ticks as f64 / seconds)
}
