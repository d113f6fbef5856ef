//! One watch: its threads, and the channels between them.

use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded, never};
use nix::unistd::gethostname;

use super::desk::Desk;
use super::live::Live;
pub use super::pace::ANSWER_NS;
use super::player::{Opened, Player};
use super::save::Taken;
use super::saver::Saved;
use super::tape::{Recording, Tape};
use super::watcher::{Channels, Feed, Watcher, monotonic_ns};
use super::{Command, Facts, Form, Notice, Question};
use crate::attach::find::{Carrier, Watch};
use crate::attach::launch::{self, Launched};
use crate::link::aside::AsideError;
use crate::link::receive::Post;
use crate::link::record::{About, Block, RecordError};
use crate::link::wire::{Arrival, Clock, Engine, Request};
use crate::symbols::source::{self, Sources};
use crate::symbols::worker;

/// Notices and commands that wait for the other side, at most. The screen reads its notices at once; when it does not, the
/// desk waits, agents' sockets fill, and what they cannot send they count.
pub(super) const NOTICES: usize = 1024;
/// Requests and replies of the symbols worker that wait, at most.
const NAMES: usize = 256;

/// What is watched.
pub enum Target {
    /// Started by us.
    Launched(Launched),
    /// Running before us.
    Attached(Vec<Carrier>),
}

impl Target {
    /// Its process, in our pid namespace; of several, the first.
    pub fn pid(&self) -> u32 {
        match self {
            Target::Launched(launched) => launched.pid,
            Target::Attached(carriers) => carriers.first().map_or(0, |carrier| carrier.pid),
        }
    }

    /// All of its processes that were named.
    pub fn pids(&self) -> Vec<u32> {
        match self {
            Target::Launched(launched) => vec![launched.pid],
            Target::Attached(carriers) => carriers.iter().map(|carrier| carrier.pid).collect(),
        }
    }
}

/// How to watch.
#[derive(Clone, Debug)]
pub struct Settings {
    /// As shown in the header.
    pub command: String,
    /// Between two answers that nobody waits for, at least, ns.
    pub answer_ns: u64,
    /// What is watched, for sentences: the command, or the file that is played.
    pub name: String,
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
    /// Where source files are looked for.
    pub sources: Sources,
    /// Part of the target's CPU time that the handlers may cost.
    pub budget: f64,
    /// Whether the time of every sample is kept, for files that show samples along the time.
    pub sample_times: bool,
}

impl Settings {
    /// The engine that ticks: the one wished for, but user time is ticked by `setitimer` alone.
    pub fn engine_in_use(&self) -> Engine {
        if self.clock == Clock::Virtual { Engine::Itimer } else { self.engine }
    }

    /// What agents are told to begin with.
    pub fn request(&self) -> Request {
        Request::Engage { clock: self.clock, engine: self.engine_in_use(), period_ns: self.period_ns }
    }
}

/// What a watch leaves behind.
pub struct Finished {
    /// What it knew.
    pub desk: Desk,
    /// What came of the recording, if one was written.
    pub recording: Option<Result<Saved, AsideError>>,
    /// The header's last facts.
    pub(super) facts: Facts,
    /// When it ended, on the clock of the watch, ns, and in UTC, ns since 1970.
    pub(super) now_ns: u64,
    pub(super) unix_ns: u64,
}

impl Finished {
    /// A file of everything, whatever the filters were.
    ///
    /// # Errors
    /// Why there is none: one sentence.
    pub fn made(&mut self, form: Form) -> Result<Vec<u8>, String> {
        self.desk.made_of_all(form, (self.now_ns, self.unix_ns), &self.facts)
    }

    /// The same, made into something else than a file.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn converted<T>(&mut self, make: impl FnOnce(&Taken<'_>) -> Result<T, String>) -> Result<T, String> {
        self.desk.convert_all((self.now_ns, self.unix_ns), &self.facts, make)
    }
}

/// A watch under way.
pub struct Session {
    /// Where it takes commands.
    pub commands: Sender<Command>,
    /// Where it tells what is new; closed when the session has ended.
    pub notices: Receiver<Notice>,
    /// What the target writes to its terminal, for the one who shows it; whatever was written before it ended is here before
    /// that is told.
    pub output: Option<Receiver<Vec<u8>>>,
    thread: JoinHandle<Finished>,
}

impl Session {
    /// Starts to watch a target.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        target: Target,
        settings: Settings,
        agents: Post,
        arrivals: Receiver<Vec<Arrival>>,
        recording: Recording,
    ) -> std::io::Result<Session> {
        let tape = Tape::start(recording, &about(&target, &settings))?;
        // One piece waits, so that it is the newest.
        let (write, output) = bounded(1);
        let events = follow(&target, write)?;
        let inlets = Inlets { arrivals, events, output, recorded: never() };
        Session::run((Feed::Live(Box::new(Live::new(target, agents, monotonic_ns()))), None), tape, settings, inlets)
    }

    /// Starts to play a recording; `is_live` says that it may still be written.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn play(mut opened: Opened, is_live: bool, settings: Settings) -> std::io::Result<Session> {
        let remark = opened.remark();
        let (about, recorded) = opened.read()?;
        let inlets = Inlets { arrivals: never(), events: never(), output: never(), recorded };
        let player = Player::new(about, is_live);
        Session::run((Feed::Recording(Box::new(player)), remark), Tape::of_recording(), settings, inlets)
    }

    /// Runs a watch; the remark is said first.
    fn run(
        (feed, remark): (Feed, Option<String>),
        tape: Tape,
        settings: Settings,
        inlets: Inlets,
    ) -> std::io::Result<Session> {
        let Inlets { arrivals, events, output, recorded } = inlets;
        let (commands, orders) = bounded(NOTICES);
        let (tell, notices) = bounded(NOTICES);
        let (ask, requests) = bounded(NAMES);
        let (replies, named) = bounded(NAMES);
        let (ask_code, asked) = bounded(NAMES);
        let (codes, coded) = bounded(NAMES);
        worker::spawn_for_code(requests, replies, asked, codes);
        let (ask_source, wanted) = bounded(NAMES);
        let (found, sourced) = bounded(NAMES);
        source::spawn(settings.sources.clone(), wanted, found);
        let remark = remark.map(|remark| format!("{}: {remark}", settings.name));
        let mut watch = Watcher::new(feed, tape, settings, tell);
        remark.into_iter().for_each(|remark| watch.tell_banner(remark));
        let thread = std::thread::Builder::new().name("profile".to_owned()).spawn(move || {
            watch.run(&Channels {
                arrivals,
                orders,
                ask,
                named,
                ask_code,
                coded,
                ask_source,
                sourced,
                events,
                recorded,
            });
            watch.finish()
        })?;
        Ok(Session { commands, notices, output: Some(output), thread })
    }

    /// Waits for its end and gives what it leaves.
    pub fn finish(self) -> Option<Finished> {
        drop(self.commands);
        drop(self.output);
        while self.notices.recv().is_ok() {}
        self.thread.join().ok()
    }
}

/// Where things come from.
struct Inlets {
    arrivals: Receiver<Vec<Arrival>>,
    events: Receiver<launch::Event>,
    output: Receiver<Vec<u8>>,
    recorded: Receiver<Result<Block, RecordError>>,
}

/// What a recording of this watch is of.
fn about(target: &Target, settings: &Settings) -> About {
    let host = gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: settings.command.clone(),
        host,
        names: false,
        launched: matches!(target, Target::Launched(_)),
        pid: target.pid(),
        clock: settings.clock,
        engine: settings.engine,
        period_ns: settings.period_ns,
        started_ns: monotonic_ns(),
        started_unix_ns: since_1970.as_nanos() as u64,
        origin: None,
    }
}

/// The channel that tells of the target: a launched one's keeper or parent, or a thread that waits for an attached one's end.
fn follow(target: &Target, output: Sender<Vec<u8>>) -> std::io::Result<Receiver<launch::Event>> {
    let (tell, events) = bounded(NOTICES);
    match target {
        Target::Launched(launched) => {
            launched.follow(tell, output).map_err(std::io::Error::other)?;
        }
        Target::Attached(carriers) => {
            let watch = |carrier: &Carrier| Watch::new(carrier.pid, carrier.start_ticks);
            let watches: Vec<Watch> = carriers.iter().map(watch).collect();
            std::thread::Builder::new().name("target".to_owned()).spawn(move || {
                for watch in watches {
                    while !watch.wait(Duration::from_secs(3600)) {}
                }
                let ended = launch::Ended { how: launch::Ending::Unknown, user_ns: 0, system_ns: 0, own_ns: 0 };
                let _ = tell.send(launch::Event::Ended(ended));
            })?;
        }
    }
    Ok(events)
}
