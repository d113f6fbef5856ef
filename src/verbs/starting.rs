//! How a watch begins: whom it is of, and the session that follows them.

use std::ffi::OsString;

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sigtop::attach::AttachError;
use sigtop::attach::find::{self, Carrier};
use sigtop::attach::launch::{self, Stdio, launch};
use sigtop::attach::library::Places;
use sigtop::attach::program;
use sigtop::attach::survey::{Survey, named};
use sigtop::cli::{Watch, Whom};
use sigtop::link::receive::{LONGEST_DIRECTORY, Listener};
use sigtop::track::Recording;
use sigtop::track::session::{Session, Settings, Target};
use sigtop::tui::{self, Picked};

use super::screen::{device, has_screen, theme};
use super::{Failure, complain, settings};

/// Batches of arrivals that wait for the desk, at most.
const BATCHES: usize = 64;

/// Who is meant by `--pid`.
pub(super) enum Chosen {
    These(Vec<Carrier>),
    /// The user was asked, and left with this exit status.
    Nobody(u8),
}

pub(super) fn carriers(watch: &Watch) -> Result<Chosen, Failure> {
    let mut carriers: Vec<Carrier> = Vec::new();
    let mut survey = None;
    for whom in &watch.pid {
        let pid = match whom {
            Whom::Pid(pid) => *pid,
            Whom::Name(name) => match named(name, survey.get_or_insert_with(|| Survey::default().look())) {
                Err(AttachError::ManyNames { watchable: true, .. }) if has_screen(watch) => {
                    match choose(watch, name)? {
                        Picked::Process(pid) => pid,
                        other => return Ok(Chosen::Nobody(other.exit_status())),
                    }
                }
                found => found?,
            },
        };
        let carrier = find::check(pid)?;
        if !carriers.contains(&carrier) {
            carriers.push(carrier);
        }
    }
    Ok(Chosen::These(carriers))
}

/// Asks which process is meant.
pub(super) fn choose(watch: &Watch, filter: &str) -> Result<Picked, Failure> {
    tui::pick(filter, device(watch), theme(watch), &watch.screen.keys, !watch.screen.no_mouse)
        .map_err(|error| Failure { sentence: error.to_string(), status: 125 })
}

/// A watch that can begin: its target, and where the agents call.
pub(super) struct Begun {
    pub(super) target: Target,
    pub(super) settings: Settings,
    listener: Listener,
}

pub(super) fn start_command(watch: &Watch, stdio: Stdio) -> Result<Begun, Failure> {
    let program = program::of_command(&watch.command)?;
    if !watch.screen.quiet {
        program.warnings.iter().for_each(|warning| complain(warning));
    }
    let places = Places::of_user();
    let library = places.library()?;
    let settings = settings(watch, &watch.command);
    let listener = listen(&places)?;
    let link = listener.link(settings.clock, settings.period_ns);
    let command = launch::Command { program: &program, words: &watch.command, library: &library, link: &link };
    let target = Target::Launched(launch(&command, stdio)?);
    Ok(Begun { target, settings, listener })
}

pub(super) fn attach(watch: &Watch, carriers: Vec<Carrier>) -> Result<Begun, Failure> {
    let mut words: Vec<OsString> = Vec::new();
    for carrier in &carriers {
        words.extend((!words.is_empty()).then(|| "+".into()));
        words.extend(carrier.command_line.iter().cloned());
    }
    let settings = settings(watch, &words);
    let listener = listen(&Places::of_user())?;
    Ok(Begun { target: Target::Attached(carriers), settings, listener })
}

fn listen(places: &Places) -> Result<Listener, Failure> {
    let directory = places.directory(LONGEST_DIRECTORY)?;
    Listener::bind(&directory).map_err(|error| Failure::own("cannot listen for the agent", error))
}

pub(super) fn begin(begun: Begun, recording: Recording) -> Result<Session, Failure> {
    let Begun { target, settings, listener } = begun;
    let (tell, arrivals) = bounded(BATCHES);
    let only = (!settings.follow).then(|| target.pids());
    let cannot = |error| Failure::own("cannot start a thread", error);
    let agents = listener.start(tell, settings.request(), only).map_err(cannot)?;
    Session::start(target, settings, agents, arrivals, recording).map_err(cannot)
}

/// Told when the user wants the watch to end.
pub(super) fn interrupts() -> Result<Receiver<i32>, Failure> {
    let cannot = |error| Failure::own("cannot listen for signals", error);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(cannot)?;
    let (tell, told) = bounded(1);
    let listen = move || {
        for signal in signals.forever() {
            let _ = tell.try_send(signal);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(cannot)?;
    Ok(told)
}
