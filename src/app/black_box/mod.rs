//! `sigtop record --keep` and `--when`: keeps the last minutes in memory, and writes a file around
//! a trigger, on request (`sigtop dump`), or, without triggers, at the end.

mod file_schedule;
mod output_files;
#[cfg(test)]
mod simulation;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, bounded, never, select};
use jiff::{SignedDuration, Zoned};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::file_schedule::{FileSchedule, PendingFile, ScheduleTimes};
use self::output_files::OutputFiles;
use super::args::RecordArgs;
use super::failure::{Failure, print_message};
use super::leave::{give_up, leave_program};
use super::metrics::MetricsServer;
use super::record_push::{PendingPush, RecordPush};
use super::settings::apply_config;
use super::start::{interrupt_channel, prepare_target, start_session};
use super::trigger::{Firing, TriggerState, WINDOW_NS};
use crate::link::recorder_socket::{DumpAnswer, DumpRequest, RecorderSocket};
use crate::pprof::format::SaveFormat;
use crate::profile::MIN_MEMORY_BYTES;
use crate::session::{Answer, Command, Notice, RecordingOptions, SavedFile, Session, TargetExit, WatchTarget};
use crate::symbols::sanitize::sanitize;
use crate::tally::measure;
use crate::wire::Clock;

/// Time between two looks at the triggers, ns.
const LOOK_NS: u64 = 500_000_000;
/// Time that is kept unless the user says otherwise.
const DEFAULT_KEEP: Duration = Duration::from_secs(600);
/// Maximum time to wait for the end of a launched target after Ctrl-C, which it receives too.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(2);
/// Limit of the memory for stacks, and of that for debug information, unless the user sets them: a
/// recorder stays for weeks beside a server, and what it keeps does not need more.
const MEMORY_BYTES: u64 = MIN_MEMORY_BYTES;
/// Maximum number of requests that wait.
const MAX_REQUESTS: usize = 16;

/// Runs `sigtop record --keep` or `--when`.
pub(super) fn run(record: &RecordArgs) -> Result<u8, Failure> {
    let mut args = apply_config(record.watch())?;
    args.limits.memory.get_or_insert(MEMORY_BYTES);
    args.limits.symbol_memory.get_or_insert(MEMORY_BYTES);
    let Some(output) = &record.output else {
        return Err(Failure::new(Failure::USAGE, "--keep and --when need -o FILE"));
    };
    check(record, output, args.clock())?;
    let push = PendingPush::open(record)?;
    let metrics = record.metrics.map(MetricsServer::start).transpose()?;
    let mut pending = prepare_target(&args)?;
    let triggers: Vec<TriggerState> = record.black_box.when.iter().cloned().map(TriggerState::new).collect();
    pending.settings.answer_ns = LOOK_NS;
    pending.settings.keeps_kernel = true;
    pending.settings.question.window_ns = Some(WINDOW_NS);
    pending.settings.question.waits = triggers.iter().any(|state| state.trigger.reads_waits());
    let launched = match &pending.target {
        WatchTarget::Launched(target) => Some(target.pid),
        WatchTarget::Attached(_) => None,
    };
    let pids = pending.target.pids();
    let on_quit = args.on_quit.unwrap_or_default();
    let give_up = |failure| give_up(failure, launched, on_quit);
    let signals: Vec<i32> = triggers.iter().filter_map(|state| state.trigger.signal()).collect();
    let signals = if signals.is_empty() { never() } else { interrupt_channel(&signals).map_err(give_up)? };
    let interrupt = interrupt_channel(&[SIGINT, SIGTERM, SIGHUP]).map_err(give_up)?;
    let keep = record.black_box.keep.unwrap_or(DEFAULT_KEEP);
    let recording = RecordingOptions { black_box: Some(keep), ..RecordingOptions::default() };
    let requests = listen(record.quiet);
    let mut push = push.map(|push| push.start(&pending.target, &args.command)).transpose().map_err(give_up)?;
    let session = start_session(pending, recording).map_err(give_up)?;
    let black_box = &record.black_box;
    let times = ScheduleTimes {
        before_ns: nanoseconds(black_box.before),
        after_ns: nanoseconds(black_box.after),
        cooldown_ns: nanoseconds(black_box.cooldown),
    };
    let recorder = BlackBoxRecorder {
        session: &session,
        push: push.as_mut(),
        metrics,
        pids,
        quiet: record.quiet,
        writes_at_end: triggers.is_empty(),
        triggers,
        schedule: FileSchedule::new(times),
        files: OutputFiles::new(output, black_box.max_files),
        jobs: VecDeque::new(),
        now_ns: None,
        exit: None,
    };
    let deadline = record.duration.map(|duration| Instant::now() + duration);
    let ended = recorder.run(Channels { interrupt, signals, requests }, deadline, launched);
    let left = launched.filter(|_| ended.exit.is_none()).and_then(|pid| leave_program(&session, pid, on_quit));
    let _ = session.commands.send(Command::Leave);
    push.iter_mut().for_each(|push| push.note_last(&session));
    let finished = session.finish();
    let is_delivered = push.is_none_or(|push| {
        finished.into_iter().for_each(|mut finished| push.add_last(&mut finished));
        push.finish()
    });
    if let Some(sentence) = left.filter(|_| !record.quiet) {
        print_message(&sentence);
    }
    Ok(match (ended.exit, ended.signal) {
        (Some(exit), _) if launched.is_some() => exit.exit_status(),
        (None, Some(signal)) if launched.is_some() => 128u8.saturating_add(signal as u8),
        _ if ended.has_failed || !is_delivered => Failure::INTERNAL,
        _ => 0,
    })
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Checks that the options fit each other.
fn check(record: &RecordArgs, output: &Path, clock: Clock) -> Result<(), Failure> {
    let black_box = &record.black_box;
    let usage = |message: String| Err(Failure::new(Failure::USAGE, message));
    let format = SaveFormat::from_path(output).map(|(format, _)| format);
    let is_recording = format.is_none_or(|format| format == SaveFormat::Recording);
    if output.as_os_str() == "-" || !is_recording || record.format.is_some() {
        return usage(format!(
            "{}: --keep and --when write recordings: use -o 'NAME-%t.sigtop', and sigtop report to convert one",
            output.display()
        ));
    }
    if clock.is_memory() {
        return usage("--keep and --when cannot be used with a clock of memory: use --clock cpu or wall".to_owned());
    }
    if let Some(trigger) = black_box.when.iter().find(|trigger| trigger.reads_waits() && clock != Clock::Real) {
        return usage(format!("--when '{}' needs samples of waiting threads: add --clock wall", trigger.text));
    }
    let keep = black_box.keep.unwrap_or(DEFAULT_KEEP);
    let hold = black_box.when.iter().map(|trigger| trigger.hold).max().unwrap_or_default();
    let span = black_box.before.saturating_add(hold).saturating_add(black_box.after);
    if !black_box.when.is_empty() && keep < span {
        let [keep, span] = [keep, span].map(measure::duration);
        return usage(format!("--keep {keep} is less than a file needs: use --keep {span} or more"));
    }
    Ok(())
}

/// Starts a thread that receives requests for what was kept.
fn listen(quiet: bool) -> Receiver<DumpRequest> {
    let (sender, requests) = bounded(MAX_REQUESTS);
    let started = RecorderSocket::listen().and_then(|socket| {
        let serve = move || {
            while let Ok(request) = socket.accept() {
                if sender.send(request).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("requests".to_owned()).spawn(serve)
    });
    match started {
        Ok(_) => requests,
        Err(error) => {
            if !quiet {
                print_message(&format!("cannot listen for sigtop dump: {error}"));
            }
            never()
        }
    }
}

/// The channels that a recorder reads besides the session's notices.
struct Channels {
    /// The signals that end it.
    interrupt: Receiver<i32>,
    /// The signals that are triggers.
    signals: Receiver<i32>,
    requests: Receiver<DumpRequest>,
}

/// A file to write, and the reason.
enum WriteJob {
    /// A trigger has fired.
    Triggered(PendingFile),
    /// Somebody has asked for everything that is kept.
    Requested(DumpRequest),
    /// The recording ends.
    AtEnd,
}

/// The state of a run.
struct BlackBoxRecorder<'a> {
    session: &'a Session,
    push: Option<&'a mut RecordPush>,
    metrics: Option<MetricsServer>,
    /// The processes launched or attached to.
    pids: Vec<u32>,
    quiet: bool,
    /// Whether everything that is kept is written at the end.
    writes_at_end: bool,
    triggers: Vec<TriggerState>,
    schedule: FileSchedule,
    files: OutputFiles,
    /// The files to write. The first one is being written.
    jobs: VecDeque<WriteJob>,
    /// The session's time at the last answer, ns, and when that arrived.
    now_ns: Option<(u64, Instant)>,
    exit: Option<TargetExit>,
}

/// The way in which a run has ended.
struct BlackBoxEnd {
    exit: Option<TargetExit>,
    signal: Option<i32>,
    /// Whether a file could not be written.
    has_failed: bool,
}

impl BlackBoxRecorder<'_> {
    /// Runs until the target ends, the time is over or the user interrupts, and every file is
    /// written.
    fn run(mut self, channels: Channels, mut deadline: Option<Instant>, launched: Option<u32>) -> BlackBoxEnd {
        let Channels { interrupt, signals, requests } = channels;
        let (mut signal, mut has_failed, mut is_over) = (None, false, false);
        loop {
            if is_over && self.jobs.is_empty() {
                break;
            }
            let due = self.due();
            let timer = deadline.into_iter().chain(due).min().filter(|_| !is_over);
            let timer = timer.map_or_else(never, |at| after(at.saturating_duration_since(Instant::now())));
            let push_due = self.push.as_ref().filter(|_| !is_over).map(|push| push.due());
            let push_timer = push_due.map_or_else(never, crossbeam_channel::at);
            select! {
                recv(self.session.notices) -> notice => match notice {
                    Ok(Notice::Answer(answer)) => self.look(&answer),
                    Ok(notice @ Notice::Increment(_)) => if let Some(push) = &mut self.push {
                        push.note(notice);
                    },
                    Ok(Notice::Banner(warning)) if !self.quiet => print_message(&sanitize(&warning)),
                    Ok(Notice::Saved(saved)) => has_failed |= !self.note_saved(saved),
                    Ok(Notice::Ended(exit)) => {
                        self.exit = Some(exit);
                        is_over = true;
                        self.write_last();
                    }
                    Ok(Notice::Concluded) if !is_over => {
                        is_over = true;
                        self.write_last();
                    }
                    Ok(_) => {}
                    Err(_) => break,
                },
                recv(interrupt) -> received => {
                    if signal.is_some() {
                        break;
                    }
                    signal = received.ok();
                    if launched.is_some() && self.exit.is_none() {
                        deadline = Some(Instant::now() + MAX_EXIT_WAIT);
                    } else {
                        let _ = self.session.commands.send(Command::Conclude);
                        deadline = None;
                    }
                }
                recv(signals) -> _ => self.note_signal(),
                recv(requests) -> request => if let Ok(request) = request {
                    self.note_request(request);
                },
                recv(push_timer) -> _ => if let Some(push) = &mut self.push {
                    push.ask(self.session);
                },
                recv(timer) -> _ => if deadline.is_some_and(|at| at <= Instant::now()) {
                    deadline = None;
                    let _ = self.session.commands.send(Command::Conclude);
                },
            }
            if let Some(file) = self.schedule.take(self.now(), false) {
                self.add_job(WriteJob::Triggered(file));
            }
        }
        if !self.quiet && self.schedule.skipped > 0 {
            let skipped = measure::count(self.schedule.skipped);
            print_message(&format!("{skipped} triggers within --cooldown of another file wrote none"));
        }
        BlackBoxEnd { exit: self.exit, signal, has_failed }
    }

    /// The session's time now, ns; 0 before the first answer.
    fn now(&self) -> u64 {
        self.now_ns.map_or(0, |(now_ns, at)| now_ns.saturating_add(at.elapsed().as_nanos() as u64))
    }

    /// The time at which the pending file is written.
    fn due(&self) -> Option<Instant> {
        let (now_ns, at) = self.now_ns?;
        Some(at + Duration::from_nanos(self.schedule.due_ns()?.saturating_sub(now_ns)))
    }

    fn look(&mut self, answer: &Answer) {
        if let Some(push) = &mut self.push {
            push.note_answer(answer);
        }
        self.metrics.iter_mut().for_each(|metrics| metrics.update(answer));
        self.now_ns = Some((answer.now_ns, Instant::now()));
        for state in &mut self.triggers {
            if let Some(firing) = state.update(answer) {
                self.schedule.note(firing, false, answer.now_ns);
            }
        }
    }

    fn note_signal(&mut self) {
        let now_ns = self.now();
        let texts = self.triggers.iter().filter(|state| state.trigger.signal().is_some());
        if let Some(cause) = texts.map(|state| state.trigger.text.clone()).next() {
            self.schedule.note(Firing { cause, onset_ns: now_ns }, true, now_ns);
        }
    }

    fn note_request(&mut self, request: DumpRequest) {
        if request.pid == std::process::id() || self.pids.contains(&request.pid) {
            self.add_job(WriteJob::Requested(request));
        } else {
            request.answer(&DumpAnswer::None);
        }
    }

    /// Writes what is pending when no more samples come.
    fn write_last(&mut self) {
        if let Some(file) = self.schedule.take(self.now(), true) {
            self.add_job(WriteJob::Triggered(file));
        }
        if self.writes_at_end {
            self.add_job(WriteJob::AtEnd);
        }
    }

    fn add_job(&mut self, job: WriteJob) {
        self.jobs.push_back(job);
        if self.jobs.len() == 1 {
            self.start_job();
        }
    }

    /// Starts to write the first of the waiting files.
    fn start_job(&mut self) {
        let Some(job) = self.jobs.front() else { return };
        let (since_ns, age_ns) = match job {
            WriteJob::Triggered(file) => (file.since_ns, self.now().saturating_sub(file.fired_ns)),
            WriteJob::Requested(_) | WriteJob::AtEnd => (0, 0),
        };
        let at = Zoned::now().saturating_sub(SignedDuration::from_nanos(age_ns as i64));
        let path = self.files.next_path(&at);
        let _ = self.session.commands.send(Command::SaveKept { path, since_ns });
    }

    /// Notes the end of the first job, and starts the next one. Returns whether the file was
    /// written.
    fn note_saved(&mut self, saved: Result<SavedFile, String>) -> bool {
        let is_saved = saved.is_ok();
        let causes = match self.jobs.pop_front() {
            Some(WriteJob::Triggered(file)) => format!("{}: ", file.causes.join(", ")),
            Some(WriteJob::Requested(request)) => {
                request.answer(&answer_of(&saved));
                String::new()
            }
            Some(WriteJob::AtEnd) | None => String::new(),
        };
        match saved {
            Ok(SavedFile { path: Some(path), bytes }) => {
                if !self.quiet {
                    let size = measure::bytes(bytes);
                    print_message(&format!("{causes}wrote {} ({size})", path.display()));
                }
                self.remove_oldest(path);
            }
            Ok(SavedFile { path: None, .. }) => {}
            Err(reason) => print_message(&format!("{causes}{reason}")),
        }
        self.start_job();
        is_saved
    }

    fn remove_oldest(&mut self, written: PathBuf) {
        let Some(oldest) = self.files.note_written(written) else { return };
        let sentence = match std::fs::remove_file(&oldest) {
            Ok(()) => format!("removed {}: {} newer files are there", oldest.display(), self.files.count()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => format!("cannot remove {}: {error}", oldest.display()),
        };
        if !self.quiet {
            print_message(&sentence);
        }
    }
}

fn answer_of(saved: &Result<SavedFile, String>) -> DumpAnswer {
    match saved {
        Ok(SavedFile { path, bytes }) => {
            let path = path.as_deref().unwrap_or("".as_ref());
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            DumpAnswer::Saved { path: path.display().to_string(), bytes: *bytes }
        }
        Err(reason) => DumpAnswer::Failed(reason.clone()),
    }
}
