//! `sigtop record`: records samples to a file, without a screen.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::args::{RecordArgs, WatchArgs};
use super::command_word::check_is_program;
use super::failure::{Failure, print_message};
use super::leave::{give_up, leave_program};
use super::save::{SaveError, SaveTarget};
use super::settings::apply_config;
use super::start::{Selection, attach_target, interrupt_channel, launch_target, select_processes, start_session};
use crate::attach::launch::Stdio;
use crate::profile::kernel_frames::KernelFrames;
use crate::session::{Answer, Command, Facts, Notice, RecordingOptions, SavedFile, Session, TargetExit, WatchTarget};
use crate::symbols::sanitize::sanitize;
use crate::tally::measure;
use crate::tui::OnQuit;

/// Time between two updates of the progress line, in ns.
const PROGRESS_INTERVAL_NS: u64 = 1_000_000_000;
/// Maximum time to wait for symbols at the end.
const MAX_SYMBOL_WAIT: Duration = Duration::from_secs(20);
/// Maximum time to wait for the end of a launched target after Ctrl-C, which it receives too.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(2);

/// Runs `sigtop record`.
pub(super) fn run(record: &RecordArgs) -> Result<u8, Failure> {
    let args = apply_config(record.watch())?;
    if let Some(word) = args.command.first() {
        check_is_program(word)?;
    }
    let is_stream = record.output == Path::new("-");
    let (save, output) = match is_stream {
        true => SaveTarget::from_stream(claim_stdout()?, record.format),
        false => SaveTarget::from_path(&record.output, record.format)?,
    };
    let recording = RecordingOptions { output, names: args.symbols || is_stream, keep: false };
    let mut pending = if args.pid.is_empty() {
        launch_target(&args, Stdio::Inherit)?
    } else {
        match select_processes(&WatchArgs { batch: true, ..args.clone() })? {
            Selection::Processes(carriers) => attach_target(&args, carriers)?,
            Selection::Quit(status) => return Ok(status),
        }
    };
    pending.settings.answer_ns = PROGRESS_INTERVAL_NS;
    pending.settings.sample_times = save.needs_sample_times();
    // A recording keeps all frames, and takes the names of the kernel's along.
    pending.settings.keeps_kernel =
        matches!(save, SaveTarget::Recording) || args.stacks.kernel == Some(KernelFrames::On);
    let launched = match &pending.target {
        WatchTarget::Launched(target) => Some(target.pid),
        WatchTarget::Attached(_) => None,
    };
    let on_quit = args.on_quit.unwrap_or_default();
    let give_up = |failure| give_up(failure, launched, on_quit);
    let session = start_session(pending, recording).map_err(give_up)?;
    let options = RecordOptions {
        launched: launched.map(|pid| (pid, on_quit)),
        symbols: args.symbols || is_stream || save.needs_symbols(),
        duration: record.duration,
        interrupt: interrupt_channel(&[SIGINT, SIGTERM, SIGHUP]).map_err(give_up)?,
        progress: !record.quiet && io::stderr().is_terminal(),
        quiet: record.quiet,
    };
    let outcome = wait_for_end(&session, &options);
    let facts = outcome.answer.as_ref().map(|answer| answer.facts.without_reasons_in(&outcome.warnings));
    let no_samples = facts.filter(Facts::has_failed_to_sample).map(|facts| facts.explain_no_samples());
    let finished = session.finish();
    match finished.map_or(Ok(None), |finished| save.save(finished)) {
        Ok(Some(saved)) if !record.quiet && !is_stream => print_message(&summary(&outcome, &saved)),
        // A closed pipe is not an error: the reader has seen enough.
        Err(error) if is_stream && error.is_hangup() => {}
        Err(SaveError::Convert(reason)) => return Err(Failure::new(Failure::INTERNAL, no_samples.unwrap_or(reason))),
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    if let Some(sentence) = outcome.left.as_ref().filter(|_| !record.quiet) {
        print_message(sentence);
    }
    Ok(match (outcome.exit, outcome.signal) {
        (Some(exit), _) if launched.is_some() && exit.exit_status() != 0 => exit.exit_status(),
        (None, Some(signal)) if launched.is_some() => 128u8.saturating_add(signal as u8),
        _ if no_samples.is_some() => Failure::INTERNAL,
        _ => 0,
    })
}

/// Reserves stdout for the recording. From here on, the target's stdout is sigtop's stderr.
fn claim_stdout() -> Result<File, Failure> {
    if io::stdout().is_terminal() {
        let message = "will not write a recording to a terminal: use -o FILE, or pipe it into sigtop view -";
        return Err(Failure::new(Failure::USAGE, message));
    }
    let failure = |error: io::Error| Failure::internal("cannot duplicate stdout", error);
    let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(failure)?;
    nix::unistd::dup2_stdout(io::stderr()).map_err(|error| failure(error.into()))?;
    Ok(File::from(stdout))
}

/// Options of a recording: the conditions that end it, and the messages printed until then.
struct RecordOptions {
    /// The pid of a launched target, and its fate if the recording ends first.
    launched: Option<(u32, OnQuit)>,
    /// Whether to wait for symbols at the end.
    symbols: bool,
    /// Maximum length of the recording.
    duration: Option<Duration>,
    /// Receives the signal by which the user ends the recording.
    interrupt: Receiver<i32>,
    /// Whether to print the progress line.
    progress: bool,
    /// Whether to suppress warnings.
    quiet: bool,
}

/// The way in which a recording ended.
#[derive(Debug, Default)]
struct RecordOutcome {
    /// The target's exit, if it ended.
    exit: Option<TargetExit>,
    /// The signal by which the user ended the recording.
    signal: Option<i32>,
    /// The maximum length, if it was reached.
    duration: Option<Duration>,
    /// The latest answer.
    answer: Option<Arc<Answer>>,
    /// The warnings that were printed.
    warnings: Vec<String>,
    /// A sentence that the launched program still runs.
    left: Option<String>,
}

/// Waits until the target ends, the time is over, or the user interrupts.
fn wait_for_end(session: &Session, options: &RecordOptions) -> RecordOutcome {
    let mut outcome = RecordOutcome::default();
    let start = Instant::now();
    let mut deadline = options.duration.map(|duration| start + duration);
    let mut is_over = false;
    loop {
        let timer = deadline.map_or_else(never, |at| after(at.saturating_duration_since(Instant::now())));
        select! {
            recv(session.notices) -> notice => match notice {
                Ok(Notice::Answer(answer)) => {
                    if options.progress {
                        print_progress(&format!("\r{}\x1b[K", progress_line(&answer)));
                    }
                    outcome.answer = Some(answer);
                }
                Ok(Notice::Banner(warning)) if !options.quiet => {
                    let clear = if options.progress { "\r\x1b[K" } else { "" };
                    print_progress(&format!("{clear}sigtop: {}\n", sanitize(&warning)));
                    outcome.warnings.push(warning);
                }
                Ok(Notice::Ended(exit)) => {
                    outcome.exit = Some(exit);
                    deadline = Some(Instant::now() + MAX_SYMBOL_WAIT);
                    is_over = true;
                }
                Ok(_) => {}
                Err(_) => break,
            },
            recv(options.interrupt) -> signal => {
                let is_second = outcome.signal.is_some();
                outcome.signal = signal.ok();
                if is_second || options.launched.is_none() || outcome.exit.is_some() {
                    break;
                }
                deadline = Some(Instant::now() + MAX_EXIT_WAIT);
            }
            recv(timer) -> _ => {
                outcome.duration = options.duration;
                if is_over || !options.symbols {
                    break;
                }
                // Samples from now on do not count, but symbols of the earlier ones do.
                let _ = session.commands.send(Command::Freeze);
                (is_over, deadline) = (true, Some(Instant::now() + MAX_SYMBOL_WAIT));
                continue;
            }
        }
        let is_symbolized = outcome.answer.as_ref().is_some_and(|answer| answer.facts.symbolizing.0 == 0);
        if is_over && (!options.symbols || is_symbolized) {
            break;
        }
    }
    if options.progress {
        print_progress("\r\x1b[K");
    }
    if outcome.exit.is_none()
        && let Some((pid, on_quit)) = options.launched
    {
        outcome.left = leave_program(session, pid, on_quit);
    }
    let _ = session.commands.send(Command::Leave);
    outcome
}

/// Writes to stderr. A failed write is ignored: the recording continues.
fn print_progress(text: &str) {
    let mut stderr = io::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

fn progress_line(answer: &Answer) -> String {
    let facts = &answer.facts;
    let (up, samples) = (measure::duration(facts.up), measure::count(facts.stacks.samples));
    let lost = match facts.losses.lost() {
        0 => String::new(),
        lost => format!(" · {} lost", measure::count(lost)),
    };
    let pids: Vec<String> = facts.pids.iter().map(u32::to_string).collect();
    let label = if pids.len() == 1 { "pid" } else { "pids" };
    format!("recording {label} {} · {up} · {samples} samples{lost} · Ctrl-C stops", pids.join(", "))
}

/// One line about the finished recording.
fn summary(outcome: &RecordOutcome, saved: &SavedFile) -> String {
    let path = saved.path.as_ref().map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
    let bytes = measure::bytes(saved.bytes);
    match &outcome.answer {
        Some(answer) => {
            let facts = answer.facts.without_reasons_in(&outcome.warnings);
            // Samples that arrived during the wait for symbols are not in the file.
            let samples = measure::count(facts.stacks.samples - facts.waiting.unwrap_or(0));
            let up = measure::duration(outcome.duration.map_or(facts.up, |duration| duration.min(facts.up)));
            let unsampled = match &facts.unsampled {
                _ if facts.stacks.samples == 0 => format!("; {}", facts.explain_no_samples()),
                Some(unsampled) => format!("; {unsampled}"),
                None => String::new(),
            };
            format!("{samples} samples in {up}: {path} ({bytes}){unsampled}")
        }
        None => format!("saved {path} ({bytes})"),
    }
}
