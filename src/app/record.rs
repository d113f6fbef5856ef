//! Records samples to a file, without a screen.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, at as at_instant, never, select};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::args::RecordArgs;
use super::delay::{self, DelayedTarget};
use super::failure::{Failure, print_message};
use super::leave::{give_up, leave_program};
use super::metrics::MetricsServer;
use super::progress::{self, ProgressLine, Stage};
use super::record_push::{PendingPush, RecordPush};
use super::save::{SaveError, SaveTarget};
use super::settings::apply_config;
use super::start::{interrupt_channel, prepare_target, start_session};
use crate::profile::kernel_frames::KernelFrames;
use crate::session::{Answer, Command, Facts, Notice, RecordingOptions, SavedFile, Session, TargetExit, WatchTarget};
use crate::symbols::download::DownloadProgress;
use crate::symbols::sanitize::sanitize;
use crate::tally::measure;
use crate::tui::OnQuit;

/// The signals by which a user ends a recording.
pub(super) const USER_SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Time between two updates of the progress line, in ns.
const PROGRESS_INTERVAL_NS: u64 = 1_000_000_000;
/// Maximum time to wait for symbols at the end.
const MAX_SYMBOL_WAIT: Duration = Duration::from_secs(20);
/// Maximum time for which no symbol and no byte of a download may arrive then.
const MAX_SILENCE: Duration = Duration::from_secs(5);
/// Maximum time to wait for the end of a launched target after Ctrl-C, which it receives too.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(2);

/// A finished recording.
pub(super) struct Recorded {
    /// The exit status.
    pub(super) status: u8,
    /// Whether the user ended it.
    pub(super) is_interrupted: bool,
}

/// Records once. `interrupt` receives the signals of the user, if they are received already.
pub(super) fn record(record: &RecordArgs, mut interrupt: Option<Receiver<i32>>) -> Result<Recorded, Failure> {
    let mut args = apply_config(record.watch())?;
    let push = PendingPush::open(record)?;
    let mut metrics = record.metrics.map(MetricsServer::start).transpose()?;
    let is_stream = record.output.as_deref() == Some(Path::new("-"));
    let (save, output) = match &record.output {
        Some(_) if is_stream => SaveTarget::from_stream(claim_stdout()?, record.format),
        Some(path) => SaveTarget::from_path(path, record.format)?,
        None => (SaveTarget::Recording, None),
    };
    let names = args.symbols || is_stream;
    let recording = RecordingOptions { output, names, ..RecordingOptions::default() };
    let on_quit = args.on_quit.unwrap_or_default();
    let mut delayed = None;
    if let Some(delay) = record.delay {
        let signals = match interrupt {
            Some(signals) => signals,
            None => interrupt_channel(&USER_SIGNALS)?,
        };
        delayed = delay::wait(&mut args, delay, &signals)?;
        interrupt = Some(signals);
    }
    let delayed_pid = delayed.as_ref().map(DelayedTarget::pid);
    let mut pending = prepare_target(&args).map_err(|failure| give_up(failure, delayed_pid, on_quit))?;
    pending.settings.answer_ns = PROGRESS_INTERVAL_NS;
    pending.settings.sample_times = save.needs_sample_times();
    // A recording keeps all frames, and takes the names of the kernel's along.
    pending.settings.keeps_kernel =
        matches!(save, SaveTarget::Recording) || args.stacks.kernel == Some(KernelFrames::On);
    let launched = match &pending.target {
        WatchTarget::Launched(target) => Some(target.pid),
        WatchTarget::Attached(_) => None,
    };
    let give_up = |failure| give_up(failure, launched, on_quit);
    let push = push.map(|push| push.start(&pending.target, &args.command)).transpose().map_err(give_up)?;
    let session = start_session(pending, recording).map_err(give_up)?;
    let options = RecordOptions {
        launched: launched.map(|pid| (pid, on_quit)),
        symbols: args.symbols || is_stream || save.needs_symbols() || push.is_some(),
        duration: record.duration,
        interrupt: match interrupt {
            Some(interrupt) => interrupt,
            None => interrupt_channel(&USER_SIGNALS).map_err(give_up)?,
        },
        progress: !record.quiet && io::stderr().is_terminal(),
        quiet: record.quiet,
    };
    let mut push = push;
    let outcome = wait_for_end(&session, &options, &mut push, &mut metrics);
    let facts = outcome.answer.as_ref().map(|answer| answer.facts.without_reasons_in(&outcome.warnings));
    let no_samples = facts.filter(Facts::has_failed_to_sample).map(|facts| facts.explain_no_samples());
    let writing = ProgressLine::start(record.quiet, None);
    let outputs = record.output.iter().map(|path| path.display().to_string()).chain(record.push.push.clone());
    writing.state().set(Stage::Write { name: outputs.collect::<Vec<String>>().join(" and ") });
    let mut finished = session.finish();
    if let (Some(push), Some(finished)) = (&push, &mut finished) {
        push.add_last(finished);
    }
    let saved = finished.map_or(Ok(None), |finished| save.save(finished));
    let is_delivered = push.is_none_or(RecordPush::finish);
    drop(writing);
    match saved {
        Ok(Some(saved)) if !record.quiet && !is_stream => print_message(&summary(&outcome, &saved)),
        // A closed pipe is not an error: the reader has seen enough.
        Err(error) if is_stream && error.is_hangup() => {}
        Err(SaveError::Convert(reason)) => {
            return Err(Failure::new(Failure::INTERNAL, explain_no_file(&outcome, reason)));
        }
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    let delayed = delayed.map(|target| target.leave(outcome.exit.is_some(), on_quit)).transpose();
    let left = delayed.as_ref().err().or(outcome.left.as_ref());
    if let Some(sentence) = left.filter(|_| !record.quiet) {
        print_message(sentence);
    }
    let status = match (delayed, outcome.exit, outcome.signal) {
        (Ok(Some(status @ 1..)), ..) => status,
        (_, Some(exit), _) if launched.is_some() && exit.exit_status() != 0 => exit.exit_status(),
        (_, None, Some(signal)) if launched.is_some() => 128u8.saturating_add(signal as u8),
        _ if no_samples.is_some() || !is_delivered => Failure::INTERNAL,
        _ => 0,
    };
    Ok(Recorded { status, is_interrupted: outcome.signal.is_some() })
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

/// The wait for symbols at the end of a recording.
struct SymbolWait {
    since: Instant,
    /// The number of bytes of the running download, and when it changed.
    downloaded: Option<(u64, Instant)>,
}

impl SymbolWait {
    fn start(now: Instant) -> SymbolWait {
        SymbolWait { since: now, downloaded: None }
    }

    /// Updates it to the running download.
    fn update(&mut self, download: Option<&DownloadProgress>, now: Instant) {
        let bytes = download.map(|download| download.bytes);
        self.downloaded = match (bytes, self.downloaded) {
            (Some(bytes), Some((before, since))) if bytes == before => Some((bytes, since)),
            (bytes, _) => bytes.map(|bytes| (bytes, now)),
        };
    }

    /// Returns the time at which it ends unless something comes.
    fn end(&self) -> Instant {
        let silent = self.downloaded.map(|(_, since)| since + MAX_SILENCE);
        silent.into_iter().fold(self.since + MAX_SYMBOL_WAIT, Instant::min)
    }

    /// Whether it is over at a time.
    fn is_over(&self, now: Instant) -> bool {
        let is_silent = self.downloaded.is_some_and(|(_, since)| now >= since + MAX_SILENCE);
        is_silent || now >= self.since + MAX_SYMBOL_WAIT
    }
}

/// Waits until the target ends, the time is over, or the user interrupts.
fn wait_for_end(
    session: &Session,
    options: &RecordOptions,
    push: &mut Option<RecordPush>,
    metrics: &mut Option<MetricsServer>,
) -> RecordOutcome {
    let mut outcome = RecordOutcome::default();
    let start = Instant::now();
    let mut deadline = options.duration.map(|duration| start + duration);
    let mut is_over = false;
    let mut symbols: Option<SymbolWait> = None;
    loop {
        let now = Instant::now();
        if let Some(wait) = &mut symbols {
            wait.update(outcome.answer.as_ref().and_then(|answer| answer.facts.download.as_ref()), now);
            if wait.is_over(now) {
                outcome.duration = options.duration;
                break;
            }
            deadline = Some(wait.end());
        }
        let timer = deadline.map_or_else(never, at_instant);
        let push_timer = push.as_ref().filter(|_| !is_over).map_or_else(never, |push| at_instant(push.due()));
        select! {
            recv(session.notices) -> notice => match notice {
                Ok(Notice::Answer(answer)) => {
                    if options.progress {
                        progress::show_line(&progress_line(&answer, is_over, push.as_ref()));
                    }
                    push.iter_mut().for_each(|push| push.note_answer(&answer));
                    metrics.iter_mut().for_each(|metrics| metrics.update(&answer));
                    outcome.answer = Some(answer);
                }
                Ok(Notice::Banner(warning)) if !options.quiet => {
                    print_message(&sanitize(&warning));
                    outcome.warnings.push(warning);
                }
                Ok(notice @ Notice::Increment(_)) => if let Some(push) = push {
                    push.note(notice);
                },
                Ok(Notice::Ended(exit)) => {
                    outcome.exit = Some(exit);
                    symbols = symbols.or_else(|| Some(SymbolWait::start(Instant::now())));
                    is_over = true;
                }
                // There are no more samples, but symbols of the earlier ones count.
                Ok(Notice::Concluded) => {
                    (is_over, symbols) = (true, Some(SymbolWait::start(Instant::now())));
                }
                Ok(_) => {}
                Err(_) => break,
            },
            recv(options.interrupt) -> signal => {
                let is_second = outcome.signal.is_some();
                outcome.signal = signal.ok();
                if is_second || options.launched.is_none() || outcome.exit.is_some() || symbols.is_some() {
                    break;
                }
                deadline = Some(Instant::now() + MAX_EXIT_WAIT);
            }
            recv(push_timer) -> _ => push.iter_mut().for_each(|push| push.ask(session)),
            recv(timer) -> _ => {
                if symbols.is_some() {
                    continue;
                }
                outcome.duration = options.duration;
                if !options.symbols {
                    break;
                }
                deadline = None;
                let _ = session.commands.send(Command::Conclude);
                continue;
            }
        }
        let is_symbolized = outcome.answer.as_ref().is_some_and(|answer| answer.facts.symbolizing.0 == 0);
        if is_over && (!options.symbols || is_symbolized) {
            break;
        }
    }
    let _ = write!(io::stderr(), "{}", progress::clear_code());
    if outcome.exit.is_none()
        && let Some((pid, on_quit)) = options.launched
    {
        outcome.left = leave_program(session, pid, on_quit);
    }
    let _ = session.commands.send(Command::Leave);
    push.iter_mut().for_each(|push| push.note_last(session));
    outcome
}

/// One line about the running recording: the time, the samples a second of the last seconds, what
/// was lost, and the hottest function. At the end, what the wait for symbols is for.
fn progress_line(answer: &Answer, is_over: bool, push: Option<&RecordPush>) -> String {
    let facts = &answer.facts;
    if is_over && facts.symbolizing.0 > 0 {
        return wait_line(facts.symbolizing, facts.download.as_ref());
    }
    let mut line = format!("recording {}", measure::duration(Duration::from_secs(facts.up.as_secs())));
    let seconds = answer.measured_ns as f64 / 1e9;
    if seconds >= 1.0 {
        let rate = measure::count((answer.window.samples as f64 / seconds).round() as u64);
        line += &format!(" · {rate} samples/s");
    }
    if facts.losses.lost() > 0 {
        line += &format!(" · {} lost", measure::count(facts.losses.lost()));
    }
    if let Some(row) = answer.window.rows.first() {
        line += &format!(" · {} {}", row.short, measure::percentage(row.flat_ns, answer.window.total_ns).trim());
    }
    line += &push.map(RecordPush::progress).unwrap_or_default();
    line + " · Ctrl-C stops"
}

/// One line about the wait for symbols. `symbolizing` are numbers of addresses: those that have no
/// name yet, and all.
fn wait_line((missing, all): (usize, usize), download: Option<&DownloadProgress>) -> String {
    let reason = download.map_or_else(
        || Stage::Symbolize { found: all.saturating_sub(missing), all }.to_string(),
        DownloadProgress::to_string,
    );
    let seconds = MAX_SYMBOL_WAIT.as_secs();
    format!("sigtop: {reason} · at most {seconds} s · Ctrl-C saves without more names")
}

/// Says why there is nothing to write. `reason` is that of the conversion.
fn explain_no_file(outcome: &RecordOutcome, reason: String) -> String {
    match &outcome.answer {
        Some(answer) if answer.facts.stacks.samples == 0 => {
            let facts = answer.facts.without_reasons_in(&outcome.warnings);
            format!("{}; nothing was written", facts.explain_no_samples())
        }
        _ => reason,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn downloading(bytes: u64) -> DownloadProgress {
        DownloadProgress { file: "libc.so.6".to_owned(), bytes, size_bytes: None }
    }

    #[test]
    fn a_silent_download_is_not_waited_for() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut wait = SymbolWait::start(start);
        assert_eq!((wait.end(), wait.is_over(at(19)), wait.is_over(at(20))), (at(20), false, true));
        wait.update(Some(&downloading(0)), at(0));
        wait.update(Some(&downloading(0)), at(4));
        assert_eq!((wait.end(), wait.is_over(at(4)), wait.is_over(at(5))), (at(5), false, true));
        wait.update(Some(&downloading(1)), at(4));
        assert_eq!((wait.end(), wait.is_over(at(8)), wait.is_over(at(9))), (at(9), false, true));
        wait.update(None, at(8));
        assert_eq!((wait.end(), wait.is_over(at(9))), (at(20), false), "no download is running");
    }

    #[test]
    fn the_wait_says_what_it_is_for() {
        let line = wait_line((3, 9), None);
        assert_eq!(line, "sigtop: looking for names: 6 of 9 found · at most 20 s · Ctrl-C saves without more names");
        let line = wait_line((3, 9), Some(&downloading(0)));
        assert!(line.starts_with("sigtop: downloading debug information of libc.so.6 "), "{line}");
    }
}
