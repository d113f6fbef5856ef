//! Starts and finishes a session: its settings, threads and channels.

use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded, never};
use nix::unistd::gethostname;

use super::finished::FinishedSession;
use super::live::LiveTarget;
use super::player::{PlaybackSource, Player};
use super::protocol::{Command, Notice};
use super::recorder::{Recorder, RecordingOptions};
use super::session_thread::{SampleSource, SessionChannels, SessionThread, monotonic_ns};
use super::settings::{NOTICES, Settings, WatchTarget};
use crate::attach::find::{AttachableProcess, ExitWatcher};
use crate::attach::launch;
use crate::link::listener::ListenerHandle;
use crate::link::recording::{Block, RecordingError, RecordingInfo};
use crate::sampler::supervisor::Sampler;
use crate::symbols::jit;
use crate::symbols::source;
use crate::symbols::worker;
use crate::wire::Arrival;

/// Capacity of the channels to and from the symbols thread.
const NAMES: usize = 256;

/// A running session.
pub struct Session {
    /// The channel for commands.
    pub commands: Sender<Command>,
    /// The channel of notices. It is closed when the session has ended.
    pub notices: Receiver<Notice>,
    /// The output of the target's terminal. All of it arrives before the notice that the target has
    /// ended.
    pub output: Option<Receiver<Vec<u8>>>,
    thread: JoinHandle<FinishedSession>,
}

impl Session {
    /// Starts to watch a target.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(
        target: WatchTarget,
        settings: Settings,
        agents: ListenerHandle,
        sampler: Sampler,
        arrivals: Receiver<Vec<Arrival>>,
        recording: RecordingOptions,
    ) -> std::io::Result<Session> {
        let recorder = Recorder::start(recording, &about(&target, &settings))?;
        // The capacity is 1, so that a waiting piece is recent.
        let (write, output) = bounded(1);
        let events = follow(&target, write)?;
        let inlets = Inlets { arrivals, events, output, recorded: never(), base: None };
        let mut live = LiveTarget::new(target, agents, sampler, monotonic_ns());
        let warning = live.sample_from_outside(&settings).map(|(warning, _)| warning);
        Session::run((SampleSource::Live(Box::new(live)), warning), recorder, settings, inlets)
    }

    /// Starts to play a recording. `is_live` says that it may still be written.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn play(mut opened: PlaybackSource, is_live: bool, settings: Settings) -> std::io::Result<Session> {
        let remark = opened.remark();
        let base = opened.base().map(PlaybackSource::read).transpose()?;
        let (about, recorded) = opened.read()?;
        let inlets = Inlets { arrivals: never(), events: never(), output: never(), recorded, base };
        let player = Player::new(about, is_live);
        let remark = remark.map(|remark| format!("{}: {remark}", settings.name));
        Session::run((SampleSource::Recording(Box::new(player)), remark), Recorder::of_recording(), settings, inlets)
    }

    /// Starts the threads. The remark is the first warning.
    fn run(
        (feed, remark): (SampleSource, Option<String>),
        recorder: Recorder,
        settings: Settings,
        inlets: Inlets,
    ) -> std::io::Result<Session> {
        let Inlets { arrivals, events, output, recorded, base } = inlets;
        let (commands, orders) = bounded(NOTICES);
        let (tell, notices) = bounded(NOTICES);
        let (ask, requests) = bounded(NAMES);
        let (replies, named) = bounded(NAMES);
        let (ask_jit, unnamed) = bounded(NAMES);
        let (jit_replies, jitted) = bounded(NAMES);
        jit::worker::spawn(unnamed, jit_replies)?;
        let (ask_code, asked) = bounded(NAMES);
        let (codes, coded) = bounded(NAMES);
        let servers = settings.symbols.servers.clone();
        worker::spawn_for_code(requests, replies, asked, codes, settings.symbols.clone())?;
        let (ask_source, wanted) = bounded(NAMES);
        let (found, sourced) = bounded(NAMES);
        source::spawn(settings.sources.clone(), servers.clone(), wanted, found)?;
        let mut watch = SessionThread::new(feed, recorder, settings, tell);
        remark.into_iter().for_each(|remark| watch.warn(remark));
        let problem = servers.as_ref().and_then(|servers| servers.problem());
        problem.into_iter().for_each(|problem| watch.warn(problem.to_owned()));
        let thread = std::thread::Builder::new().name("profile".to_owned()).spawn(move || {
            base.into_iter().for_each(|(about, blocks)| watch.play_base(about, &blocks));
            watch.run(&SessionChannels {
                arrivals,
                orders,
                ask,
                named,
                ask_jit,
                jitted,
                ask_code,
                coded,
                ask_source,
                sourced,
                events,
                recorded,
            });
            // A download must not outlive sigtop.
            servers.into_iter().for_each(|servers| servers.stop());
            watch.finish()
        })?;
        Ok(Session { commands, notices, output: Some(output), thread })
    }

    /// Waits for the end and returns the results. Returns `None` if the session thread has
    /// panicked.
    pub fn finish(self) -> Option<FinishedSession> {
        drop(self.commands);
        drop(self.output);
        while self.notices.recv().is_ok() {}
        self.thread.join().ok()
    }
}

/// The inputs of the session thread.
struct Inlets {
    arrivals: Receiver<Vec<Arrival>>,
    events: Receiver<launch::TargetEvent>,
    output: Receiver<Vec<u8>>,
    recorded: Receiver<Result<Block, RecordingError>>,
    /// The recording that is the baseline.
    base: Option<(RecordingInfo, Receiver<Result<Block, RecordingError>>)>,
}

/// The description of the session in its recording.
fn about(target: &WatchTarget, settings: &Settings) -> RecordingInfo {
    let host = gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    RecordingInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: settings.command.clone(),
        host,
        names: false,
        launched: matches!(target, WatchTarget::Launched(_)),
        pid: target.pid(),
        clock: settings.clock,
        engine: settings.engine,
        period_ns: settings.period(),
        started_ns: monotonic_ns(),
        started_unix_ns: since_1970.as_nanos() as u64,
        origin: None,
        kernel: kernel(),
    }
}

/// The kernel and the processors of this machine.
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!("Linux {} {}, {processors} CPUs", release.trim(), std::env::consts::ARCH)
}

/// Returns the channel of events of the target. They come from the keeper or the parent of a
/// launched target, or from a thread that waits for the end of attached processes.
fn follow(target: &WatchTarget, output: Sender<Vec<u8>>) -> std::io::Result<Receiver<launch::TargetEvent>> {
    let (tell, events) = bounded(NOTICES);
    match target {
        WatchTarget::Launched(launched) => {
            launched.follow(tell, output).map_err(std::io::Error::other)?;
        }
        WatchTarget::Attached(carriers) => {
            let watch = |carrier: &AttachableProcess| ExitWatcher::new(carrier.pid, carrier.start_ticks);
            let watches: Vec<ExitWatcher> = carriers.iter().map(watch).collect();
            std::thread::Builder::new().name("target".to_owned()).spawn(move || {
                for watch in watches {
                    while !watch.wait(Duration::from_secs(3600)) {}
                }
                let ended = launch::TargetEnd { how: launch::ExitReason::Unknown, user_ns: 0, system_ns: 0, own_ns: 0 };
                let _ = tell.send(launch::TargetEvent::Ended(ended));
            })?;
        }
    }
    Ok(events)
}
