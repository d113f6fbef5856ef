//! `sigtop -- COMMAND`, `sigtop --pid` and `sigtop` without arguments: a watch, on the screen or as
//! tables.

use std::fs::File;
use std::io::Write;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::emulate_default_handler;

use super::args::WatchArgs;
use super::batch::{self, BatchEnd, TableSink};
use super::command_word::{check_is_no_subcommand, check_is_program};
use super::failure::{Failure, print_message};
use super::leave::give_up;
use super::progress::ProgressLine;
use super::save::SaveTarget;
use super::screen::{ScreenExit, explain_missing_screen, print_summary, run_screen, uses_screen};
use super::start::{
    PendingSession, Selection, attach_target, check_process, interrupt_channel, launch_target, pick_process,
    select_processes, start_session,
};
use crate::attach::find::AttachableProcess;
use crate::attach::launch::Stdio;
use crate::pprof::raw_dump;
use crate::session::{FinishedSession, RecordingOptions, SavedFile, Session, Settings, WatchTarget};
use crate::symbols::sanitize::sanitize;
use crate::tally::measure;
use crate::tui::{NameStyle, Picked};

/// Runs `sigtop -- COMMAND`.
pub(super) fn watch_command(args: WatchArgs) -> Result<u8, Failure> {
    check_is_no_subcommand(&args.command[0])?;
    check_is_program(&args.command[0])?;
    launch_and_watch(&args, |_| ())
}

/// Launches the command of `args` and watches it. `adjust` changes the session's settings first.
pub(super) fn launch_and_watch(args: &WatchArgs, adjust: impl FnOnce(&mut Settings)) -> Result<u8, Failure> {
    let output = WatchOutput::open(args, TableSink::Stderr)?;
    // The screen sets the real size of the target's pty when it starts.
    let stdio = if output.screen { Stdio::Terminal { rows: 24, columns: 80 } } else { Stdio::Inherit };
    let mut pending = launch_target(args, stdio)?;
    adjust(&mut pending.settings);
    match run(pending, args, output)? {
        WatchExit::Status(status) => Ok(status),
        // Only what was attached to has a successor.
        WatchExit::Attach(_) => Ok(0),
    }
}

/// Runs `sigtop --pid PID|NAME,...`.
pub(super) fn watch_selected(args: &WatchArgs) -> Result<u8, Failure> {
    match select_processes(args)? {
        Selection::Processes(carriers) => watch_processes(args, carriers),
        Selection::Quit(status) => Ok(status),
    }
}

/// Runs `sigtop` without arguments: lets the user choose a process.
pub(super) fn watch_picked(args: &WatchArgs) -> Result<u8, Failure> {
    match pick_process(args, "")? {
        Picked::Processes(pids) => {
            let carriers = pids.into_iter().map(|pid| check_process(args, pid));
            watch_processes(args, carriers.collect::<Result<_, _>>()?)
        }
        other => Ok(other.exit_status()),
    }
}

fn watch_processes(args: &WatchArgs, mut carriers: Vec<AttachableProcess>) -> Result<u8, Failure> {
    loop {
        let output = WatchOutput::open(args, TableSink::Stdout)?;
        match run(attach_target(args, carriers)?, args, output)? {
            WatchExit::Status(status) => return Ok(status),
            WatchExit::Attach(pid) => carriers = vec![check_process(args, pid)?],
        }
    }
}

/// The way in which a watch ended.
enum WatchExit {
    /// sigtop exits with this status.
    Status(u8),
    /// The user wants to watch this process next.
    Attach(u32),
}

/// The name of the process whose successor can be watched after its end. A second watch would
/// overwrite the files of the first.
fn successor_name(args: &WatchArgs, target: &WatchTarget) -> Option<String> {
    let writes_files = args.save.is_some() || args.raw.is_some();
    let WatchTarget::Attached(carriers) = target else { return None };
    let name = carriers.first().filter(|_| !writes_files)?.comm.clone();
    let is_one_name = carriers.iter().all(|carrier| carrier.comm == name) && sanitize(&name) == name;
    is_one_name.then_some(name)
}

/// The outputs of a watch. They are opened before the target is launched, so that errors come
/// first.
struct WatchOutput {
    screen: bool,
    tables: TableSink,
    save: SaveTarget,
    recording: RecordingOptions,
}

impl WatchOutput {
    fn open(args: &WatchArgs, default: TableSink) -> Result<WatchOutput, Failure> {
        let tables = open_table_sink(args, default)?;
        let screen = uses_screen(args);
        explain_missing_screen(args);
        let save = args.save.as_deref().map(|path| SaveTarget::from_path(path, args.format)).transpose()?;
        let (save, output) = save.unwrap_or((SaveTarget::Recording, None));
        // With a screen, the recording is kept so that the user can save it later.
        let recording = RecordingOptions { output, names: args.symbols, keep: screen, black_box: None };
        Ok(WatchOutput { screen, tables, save, recording })
    }
}

fn open_table_sink(args: &WatchArgs, default: TableSink) -> Result<TableSink, Failure> {
    match &args.table {
        None => Ok(default),
        Some(path) if path.as_os_str() == "-" => Ok(TableSink::Stdout),
        Some(path) => File::create(path)
            .map(TableSink::File)
            .map_err(|error| Failure::internal(&format!("cannot write {}", path.display()), error)),
    }
}

fn run(mut pending: PendingSession, args: &WatchArgs, output: WatchOutput) -> Result<WatchExit, Failure> {
    let WatchOutput { screen, tables, save, recording } = output;
    let launched = match &pending.target {
        WatchTarget::Launched(target) => Some(target.pid),
        WatchTarget::Attached(_) => None,
    };
    let successor = successor_name(args, &pending.target);
    pending.settings.sample_times = save.needs_sample_times();
    let settings = pending.settings.clone();
    let on_quit = args.on_quit.unwrap_or_default();
    let mut session = start_session(pending, recording).map_err(|failure| give_up(failure, launched, on_quit))?;
    let (closed, end) = if screen {
        (Some(run_screen(&mut session, args, settings, launched.is_some(), None, successor)?), BatchEnd::default())
    } else {
        (None, print_tables(&session, args, tables, (launched, None))?)
    };
    if let Some(mut finished) = session.finish() {
        if let Some(closed) = &closed {
            print_summary(closed, &finished.summarize(), args);
        }
        save_results(finished, args, save)?;
    }
    if let Some(signal) = end.signal {
        // Whoever sent it sees that it did what it does to any program.
        let _ = emulate_default_handler(signal);
        return Ok(WatchExit::Status(128u8.saturating_add(signal as u8)));
    }
    let exit = end.exit.map_or(ScreenExit::Detached, ScreenExit::TargetExited);
    let exit = closed.map_or(exit, |closed| closed.exit);
    Ok(WatchExit::Status(match exit {
        ScreenExit::Attach(pid) => return Ok(WatchExit::Attach(pid)),
        ScreenExit::TargetExited(exit) if launched.is_some() => exit.exit_status(),
        ScreenExit::Signalled(signal) => 128u8.saturating_add(signal as u8),
        _ => 0,
    }))
}

/// Writes the files of `--raw` and `--save`.
fn save_results(mut finished: FinishedSession, args: &WatchArgs, save: SaveTarget) -> Result<(), Failure> {
    if let Some(path) = &args.raw {
        let text = raw_dump::format_raw_dump(&finished.model.profile, &finished.model.names, finished.losses());
        let written = if path.as_os_str() == "-" {
            std::io::stdout().write_all(text.as_bytes())
        } else {
            std::fs::write(path, text)
        };
        written.map_err(|error| Failure::internal(&format!("cannot write {}", path.display()), error))?;
    }
    finished.model.thaw();
    match save.save(finished)? {
        Some(SavedFile { path: Some(path), bytes }) if !args.screen.quiet => {
            print_message(&format!("saved {} ({})", path.display(), measure::bytes(bytes)));
        }
        _ => {}
    }
    Ok(())
}

/// Prints tables until the watch ends. `launched` is the pid of a launched target; `progress` is
/// shown until the first table.
pub(super) fn print_tables(
    session: &Session,
    args: &WatchArgs,
    sink: TableSink,
    (launched, progress): (Option<u32>, Option<ProgressLine>),
) -> Result<BatchEnd, Failure> {
    // A launched target receives Ctrl-C itself and decides; sigtop ends with it. A watch of a
    // process that runs elsewhere ends at Ctrl-C.
    let signals: &[i32] = if launched.is_none() { &[SIGINT, SIGTERM, SIGHUP] } else { &[SIGTERM, SIGHUP] };
    let on_quit = args.on_quit.unwrap_or_default();
    let interrupt = interrupt_channel(signals).map_err(|failure| give_up(failure, launched, on_quit))?;
    let names = args.display.names.unwrap_or(NameStyle::Full);
    let (interval, count, quiet) = (args.interval, args.count, args.screen.quiet);
    let launched = launched.map(|pid| (pid, on_quit));
    let json = args.json;
    let options = batch::BatchOptions { interval, count, sink, interrupt, quiet, names, json, launched, progress };
    batch::run(session, options).map_err(|error| Failure::internal("cannot write a table", error))
}
