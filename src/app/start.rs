//! Starts a watch: selects or launches its target, listens for the agents and starts the session.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use super::args::{ProcessSelector, WatchArgs};
use super::failure::{Failure, print_message};
use super::screen::{device, theme, uses_screen};
use super::settings::session_settings;
use crate::attach::find::{self, AttachableProcess, WatchMethod};
use crate::attach::launch::{self, LaunchedTarget, Preload, Stdio, launch};
use crate::attach::library::AgentDirectories;
use crate::attach::program::{self, Program};
use crate::attach::survey::{Survey, SurveyedProcess, find_by_name, first_of_name};
use crate::attach::{AttachError, Refusal, is_ignored, quote_command};
use crate::link::listener::{Listener, MAX_DIRECTORY_BYTES};
use crate::sampler::engines;
use crate::sampler::supervisor::Sampler;
use crate::session::{RecordingOptions, Session, Settings, WatchTarget};
use crate::tui::{self, Picked};
use crate::wire::Engine;

/// Capacity of the channel from the listener to the session, in batches.
const MAX_QUEUED_BATCHES: usize = 64;

/// Time between two looks for a process that `--wait` waits for. A look takes a few milliseconds.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

/// The processes that `--pid` selects.
pub(super) enum Selection {
    /// These processes.
    Processes(Vec<AttachableProcess>),
    /// None: the user left the list of processes. sigtop exits with this status.
    Quit(u8),
}

/// Finds the processes of `--pid`. If a name is ambiguous and there is a screen, the user chooses.
pub(super) fn select_processes(args: &WatchArgs) -> Result<Selection, Failure> {
    let mut carriers: Vec<AttachableProcess> = Vec::new();
    let mut survey = None;
    for selector in &args.pid {
        let pids = match selector {
            ProcessSelector::Pid(pid) => vec![*pid],
            ProcessSelector::Name(name) if args.wait => vec![wait_for_name(name, args.screen.quiet)?],
            ProcessSelector::Name(name) => {
                let candidates = survey.get_or_insert_with(|| Survey::default().look());
                match find_by_name(name, candidates) {
                    Err(AttachError::ManyNames { watchable: true, .. }) if uses_screen(args) => {
                        match pick_process(args, name)? {
                            Picked::Processes(pids) => pids,
                            other => return Ok(Selection::Quit(other.exit_status())),
                        }
                    }
                    Err(AttachError::ManyNames { watchable: true, pids, .. })
                        if !args.no_follow && has_one_server(&pids, candidates) =>
                    {
                        vec![first_of_name(pids[0], candidates)]
                    }
                    found => vec![found?],
                }
            }
        };
        for pid in pids {
            let carrier = check_process(args, pid)?;
            if !carriers.contains(&carrier) {
                carriers.push(carrier);
            }
        }
    }
    Ok(Selection::Processes(carriers))
}

/// Whether these processes are a server and its workers, which are watched with it.
fn has_one_server(pids: &[u32], candidates: &[SurveyedProcess]) -> bool {
    let servers = pids.iter().map(|&pid| first_of_name(pid, candidates));
    servers.collect::<HashSet<u32>>().len() == 1
}

/// Waits until a process of this name can be watched. Returns the first of them.
fn wait_for_name(name: &str, quiet: bool) -> Result<u32, Failure> {
    let mut survey = Survey::default();
    let mut is_silent = quiet;
    loop {
        let candidates = survey.look();
        match find_by_name(name, &candidates) {
            Err(AttachError::NoName { .. }) => {}
            Err(AttachError::ManyNames { watchable: true, pids, .. }) => {
                return Ok(first_of_name(pids[0], &candidates));
            }
            found => return Ok(found?),
        }
        if !std::mem::replace(&mut is_silent, true) {
            print_message(&format!("waiting for a process called {} (Ctrl-C ends)", quote_command(&[name])));
        }
        std::thread::sleep(WAIT_INTERVAL);
    }
}

/// Checks that a process can be watched, from outside if the arguments say so.
pub(super) fn check_process(args: &WatchArgs, pid: u32) -> Result<AttachableProcess, Failure> {
    if args.engine() == Engine::Events {
        find::check(pid)?;
        let refused = |cause| AttachError::NotWatchable { pid, refusal: Refusal::NotTraceable, cause };
        engines::check_events(pid).map_err(refused)?;
    }
    Ok(if args.engine().is_external() { find::check_external(pid)? } else { find::check(pid)? })
}

/// Shows the list of processes, filtered by `filter` to begin with.
pub(super) fn pick_process(args: &WatchArgs, filter: &str) -> Result<Picked, Failure> {
    tui::pick((filter, !args.no_follow), device(args), theme(args), &args.screen.keys, !args.screen.no_mouse)
        .map_err(|error| Failure::new(Failure::INTERNAL, error))
}

/// A target whose agents may connect already, and a session that has not been started yet.
pub(super) struct PendingSession {
    pub(super) target: WatchTarget,
    pub(super) settings: Settings,
    listener: Listener,
    sampler: Sampler,
}

/// Launches the command of `args`, or attaches to the processes that they select, for a recording
/// without a screen.
pub(super) fn prepare_target(args: &WatchArgs) -> Result<PendingSession, Failure> {
    if args.pid.is_empty() {
        return launch_target(args, Stdio::Inherit);
    }
    match select_processes(&WatchArgs { batch: true, ..args.clone() })? {
        Selection::Processes(carriers) => attach_target(args, carriers),
        Selection::Quit(status) => Err(Failure::new(status, "no process was chosen")),
    }
}

/// A program that can be launched, and how it is sampled.
struct PreparedProgram {
    program: Program,
    settings: Settings,
    /// The agent's library, unless it is sampled from outside.
    library: Option<PathBuf>,
}

/// Finds the command of `args`, and says how it is sampled if that is not as it was asked for.
fn prepare_program(args: &WatchArgs, places: &AgentDirectories) -> Result<PreparedProgram, Failure> {
    let program = program::resolve_command(&args.command)?;
    if !args.screen.quiet {
        program.warnings.iter().for_each(|warning| print_message(warning));
    }
    let mut settings = session_settings(args, &args.command);
    if let Some(obstacle) = &program.obstacle
        && !settings.engine.is_external()
    {
        settings.engine = Engine::External;
        if !args.screen.quiet {
            print_message(&format!("{} {obstacle}: it is sampled from outside", program.path.display()));
        }
    }
    if let Some(weakness) = &program.weakness
        && !settings.engine.is_external()
    {
        let is_free = args.sampling.engine.is_none() && !settings.clock.is_memory();
        let consequence = if is_free && engines::check_events(std::process::id()).is_ok() {
            settings.engine = Engine::External;
            "it is sampled from outside (--engine threads takes the agent)"
        } else {
            "with the agent, stacks through them are cut (--engine external takes whole ones)"
        };
        if !args.screen.quiet {
            print_message(&format!("{} {weakness}: {consequence}", program.path.display()));
        }
    }
    if settings.engine == Engine::Events
        && let Err(cause) = engines::check_events(std::process::id())
    {
        return Err(Failure::new(Failure::USAGE, format!("{} {cause}", program.path.display())));
    }
    check_clock(&settings)?;
    let library = match settings.engine {
        Engine::External | Engine::Events | Engine::Ptrace => None,
        Engine::Threads | Engine::Itimer => Some(find_library(places, args.screen.quiet)?),
    };
    Ok(PreparedProgram { program, settings, library })
}

/// Launches the command of `args` with the agent.
pub(super) fn launch_target(args: &WatchArgs, stdio: Stdio) -> Result<PendingSession, Failure> {
    let places = AgentDirectories::of_user();
    let PreparedProgram { program, settings, library } = prepare_program(args, &places)?;
    let listener = listen(&places)?;
    let link = listener.link_variable(settings.clock.sampled(), settings.period());
    let preload = library.as_deref().map(|library| Preload { library, link: Some(&link) });
    let mut sampler = Sampler::new(&link, settings.follow, settings.engine);
    if preload.is_none() {
        sampler.start()?;
    }
    let variables = args.sampling.jit.unwrap_or_default().variables(&program);
    let settings = with_variables(settings, &variables);
    // Stops find a program that runs.
    let gate = sampler.gate().filter(|_| settings.engine != Engine::Ptrace);
    let command =
        launch::LaunchCommand { program: &program, words: &args.command, preload, variables: &variables, gate };
    let target = WatchTarget::Launched(launch(&command, stdio)?);
    Ok(PendingSession { target, settings, listener, sampler })
}

/// Launches the command of `args` with an agent that samples nothing until it is woken, if it can
/// carry one.
pub(super) fn launch_unwatched(args: &WatchArgs) -> Result<LaunchedTarget, Failure> {
    let PreparedProgram { program, library, .. } = prepare_program(args, &AgentDirectories::of_user())?;
    let preload = library.as_deref().map(|library| Preload { library, link: None });
    let variables = args.sampling.jit.unwrap_or_default().variables(&program);
    let (words, variables) = (&args.command, &variables);
    let command = launch::LaunchCommand { program: &program, words, preload, variables, gate: None };
    Ok(launch(&command, Stdio::Inherit)?)
}

/// Refuses a clock of memory for a target that carries no agent.
fn check_clock(settings: &Settings) -> Result<(), Failure> {
    if settings.engine.is_external() && settings.clock.is_memory() {
        let sentence = "allocations cannot be sampled from outside: they need the agent (leave out --clock)";
        return Err(Failure::new(Failure::USAGE, sentence));
    }
    Ok(())
}

/// Adds the variables that sigtop sets to the command in the header.
fn with_variables(settings: Settings, variables: &[(&str, String)]) -> Settings {
    let set = variables.iter().map(|(name, value)| format!(" (with {name}={value})"));
    let command = [settings.command].into_iter().chain(set).collect();
    Settings { command, ..settings }
}

/// Returns the path of the agent library. If no directory can hold it, the library is kept in
/// memory.
fn find_library(places: &AgentDirectories, quiet: bool) -> Result<PathBuf, Failure> {
    let no_directory = match places.library() {
        Err(error @ AttachError::NoDirectory { .. }) => error,
        found => return Ok(found?),
    };
    let Ok(path) = AgentDirectories::library_in_memory() else { return Err(no_directory.into()) };
    if !quiet {
        print_message("no directory can hold the agent library: it is kept in memory while sigtop runs");
    }
    Ok(path)
}

/// Attaches to running processes, through their agents or from outside.
pub(super) fn attach_target(args: &WatchArgs, carriers: Vec<AttachableProcess>) -> Result<PendingSession, Failure> {
    let mut words: Vec<OsString> = Vec::new();
    for carrier in &carriers {
        words.extend((!words.is_empty()).then(|| "+".into()));
        words.extend(carrier.command_line.iter().cloned());
    }
    let mut settings = session_settings(args, &words);
    if !settings.engine.is_external() && carriers.iter().all(|process| process.method == WatchMethod::External) {
        settings.engine = Engine::External;
    }
    check_clock(&settings)?;
    let listener = listen(&AgentDirectories::of_user())?;
    let link = listener.link_variable(settings.clock.sampled(), settings.period());
    let sampler = Sampler::new(&link, settings.follow, settings.engine);
    Ok(PendingSession { target: WatchTarget::Attached(carriers), settings, listener, sampler })
}

/// Opens the sockets. If no directory can hold one, only the abstract socket is opened.
fn listen(places: &AgentDirectories) -> Result<Listener, Failure> {
    let bound = match places.directory(MAX_DIRECTORY_BYTES) {
        Ok(directory) => {
            Listener::bind(&directory).map_err(|error| Failure::internal("cannot listen for the agent", error))
        }
        Err(error) => Err(error.into()),
    };
    bound.or_else(|failure| Listener::bind_abstract().map_err(|_| failure))
}

/// Starts the session.
pub(super) fn start_session(pending: PendingSession, recording: RecordingOptions) -> Result<Session, Failure> {
    let PendingSession { target, settings, listener, sampler } = pending;
    let (sender, arrivals) = bounded(MAX_QUEUED_BATCHES);
    let only = (!settings.follow).then(|| target.pids());
    let failure = |error| Failure::internal("cannot start a thread", error);
    let agents = listener.start(sender, settings.request(), only).map_err(failure)?;
    Session::start(target, settings, agents, sampler, arrivals, recording).map_err(failure)
}

/// Time within which a signal that comes again is the same request: `timeout` sends it to its child
/// and to the child's group.
const REPETITION: Duration = Duration::from_millis(300);

/// A channel that receives the signals by which the user ends a watch without a screen. Those that
/// sigtop was started to ignore, as by nohup, stay ignored; SIGINT it ignores itself beside a
/// target that receives it.
pub(super) fn interrupt_channel(signals: &[i32]) -> Result<Receiver<i32>, Failure> {
    let failure = |error| Failure::internal("cannot handle signals", error);
    let taken = signals.iter().filter(|&&signal| signal == SIGINT || !is_ignored(signal));
    let mut signals = Signals::new(taken).map_err(failure)?;
    let (sender, receiver) = bounded(1);
    let forward = move || {
        let mut last: Option<Instant> = None;
        for signal in signals.forever() {
            let is_repeated = last.replace(Instant::now()).is_some_and(|at| at.elapsed() < REPETITION);
            if !is_repeated {
                let _ = sender.try_send(signal);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(forward).map_err(failure)?;
    Ok(receiver)
}
