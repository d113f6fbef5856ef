//! A recording without a screen: how far it is on stderr, when it is over, and what becomes of it.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select};

use crate::link::aside::{self, Aside, AsideError};
use crate::link::record::MAGIC;
use crate::tally::{self, measure};
use crate::track::session::{Finished, Session};
use crate::track::{Answer, Command, Ending, Form, Notice, Opened, Output, Saved};
use crate::tui::kinds::{self, Kind, kind_called, kind_of};
use crate::write::formats;

/// Between two words on how far it is, ns.
pub const PROGRESS_NS: u64 = 1_000_000_000;
/// How long names may be waited for at the end.
const NAMES: Duration = Duration::from_secs(20);
/// After Ctrl-C, which a launched target hears too, how long its end is waited for.
const END: Duration = Duration::from_secs(2);

/// Something to be viewed.
pub struct Found {
    /// What it is.
    pub opened: Opened,
    /// Whether it is a recording, and no profile that is shown as one.
    pub is_recording: bool,
}

/// Opens a recording, or a saved profile of any format as if it had been recorded.
///
/// # Errors
/// Why it cannot be shown: a sentence without its subject.
pub fn open(mut from: Box<dyn Read + Send>, name: &str) -> Result<Found, String> {
    let cannot = |error: io::Error| format!("cannot be read: {error}");
    let mut first = Vec::new();
    from.by_ref().take(1).read_to_end(&mut first).map_err(cannot)?;
    // No other format begins with it.
    let is_recording = first.first() == Some(&MAGIC[0]);
    let from = io::Cursor::new(first).chain(from);
    let opened = match is_recording {
        true => Opened::open(Box::new(from)).map_err(|fault| fault.to_string()),
        false => {
            let mut remarks = Vec::new();
            let read = formats::read_with_remarks(from, &mut remarks);
            let mut saved = read.map_err(|fault| format!("cannot be shown: {fault}"))?;
            saved.demangle();
            let opened = Opened::of_saved(&saved, name.rsplit('/').next().unwrap_or(name));
            opened.map(|mut opened| {
                opened.add_remarks(remarks);
                opened
            })
        }
    };
    Ok(Found { opened: opened?, is_recording })
}

/// Plays a recording to its end and makes a profile of it; sentences on what is wrong with it go to
/// `tell`. The profile has the times of its samples if the session keeps them.
///
/// # Errors
/// Why there is none: one sentence.
pub fn played(session: Session, tell: impl Fn(&str)) -> Result<tally::saved::Saved, String> {
    let mut is_played = false;
    let mut is_named = false;
    let mut due = never();
    while !is_played || !is_named {
        select! {
            recv(session.notices) -> notice => match notice {
                Ok(Notice::Answer(answer)) => is_named = answer.facts.symbolizing.0 == 0,
                Ok(Notice::Banner(sentence)) => tell(&sentence),
                Ok(Notice::Played) => (is_played, due) = (true, after(NAMES)),
                Ok(_) => {}
                Err(_) => break,
            },
            recv(due) -> _ => break,
        }
    }
    let _ = session.commands.send(Command::Leave);
    let gone = || "what played it is gone".to_owned();
    let mut finished = session.finish().ok_or_else(gone)?;
    if finished.desk.profile.timed_samples().is_some() {
        return finished.converted(kinds::profile);
    }
    let form = kind_called("proto").and_then(|kind| kind.form).ok_or_else(gone)?;
    formats::read(finished.made(form)?.as_slice()).map_err(|error| error.to_string())
}

/// What a watch is to become.
#[derive(Debug)]
pub enum Goal {
    /// The recording that is written as it goes.
    Recording,
    /// A file of another format, made at the end; until then a recording lies in its part.
    File(PathBuf, Form),
    /// The same on a stream.
    Stream(fs::File, Form),
}

/// Why it did not become that.
#[derive(Debug)]
pub enum GoalError {
    /// It could not be written.
    Write(AsideError),
    /// There is nothing to write: a sentence.
    Made(String),
    /// The file's ending names no format.
    UnknownEnding(PathBuf),
}

impl From<AsideError> for GoalError {
    fn from(error: AsideError) -> GoalError {
        GoalError::Write(error)
    }
}

impl std::fmt::Display for GoalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GoalError::Write(error) => write!(f, "{error}"),
            GoalError::Made(sentence) => f.write_str(sentence),
            GoalError::UnknownEnding(path) => {
                let (ending, known) = (path.extension().unwrap_or_default().display(), kinds::endings());
                write!(
                    f,
                    "{}: .{ending} is the ending of no format; a recording ends in .sigtop, and there are {known}; \
                     --format names one whatever the ending",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for GoalError {}

impl GoalError {
    /// Whether it is only that nobody reads any more.
    pub fn is_hangup(&self) -> bool {
        matches!(self, GoalError::Write(error) if error.is_hangup())
    }
}

impl Goal {
    /// What a file is to become, by the format asked for or by its ending, and where the recording goes until then.
    ///
    /// # Errors
    /// If the file cannot be written, or its ending names no format and none is asked for. A
    /// regular file without an ending becomes a recording.
    pub fn of_file(path: &Path, format: Option<Kind>) -> Result<(Goal, Option<Output>), GoalError> {
        let kind = format.or(kind_of(path).map(|(kind, _)| kind));
        if kind.is_none() && path.extension().is_some_and(|ending| !ending.is_empty()) {
            return Err(GoalError::UnknownEnding(path.to_owned()));
        }
        let aside = Aside::create(path)?;
        let Some(form) = kind.and_then(|kind| kind.form) else {
            return Ok((Goal::Recording, Some(Output::File(aside))));
        };
        // Into what is no file only what is asked for is written.
        let draft = aside.part().is_some().then_some(Output::Draft(aside));
        Ok((Goal::File(path.to_owned(), form), draft))
    }

    /// The same of a stream.
    pub fn of_stream(stream: fs::File, format: Option<Kind>) -> (Goal, Option<Output>) {
        match format.and_then(|kind| kind.form) {
            None => (Goal::Recording, Some(Output::Stream(stream))),
            Some(form) => (Goal::Stream(stream, form), None),
        }
    }

    /// Whether names are needed before it is over.
    pub fn needs_names(&self) -> bool {
        !matches!(self, Goal::Recording)
    }

    /// Whether the time of every sample is needed.
    pub fn needs_sample_times(&self) -> bool {
        match self {
            Goal::Recording => false,
            Goal::File(_, form) | Goal::Stream(_, form) => form.name == "firefox",
        }
    }

    /// Makes it; `None` if nothing was recorded.
    ///
    /// # Errors
    /// Why not. What was recorded lies in the file's part then.
    pub fn reach(self, mut finished: Finished) -> Result<Option<Saved>, GoalError> {
        let recorded = finished.recording.take().transpose();
        match self {
            Goal::Recording => Ok(recorded?),
            Goal::File(path, form) => {
                let bytes = finished.made(form).map_err(GoalError::Made)?;
                let written = aside::write(&path, &[bytes])?;
                if let Ok(Some(Saved { path: Some(part), .. })) = recorded {
                    // Nobody needs it any more; if it stays, it is in nobody's way.
                    let _ = fs::remove_file(part);
                }
                Ok(Some(Saved { path: Some(path), bytes: written }))
            }
            Goal::Stream(mut stream, form) => {
                let bytes = finished.made(form).map_err(GoalError::Made)?;
                let written = stream.write_all(&bytes).and_then(|()| stream.flush());
                written.map_err(|cause| AsideError { path: "stdout".into(), cause })?;
                Ok(Some(Saved { path: None, bytes: bytes.len() as u64 }))
            }
        }
    }
}

/// When it is over, and what is said until then.
pub struct Options {
    /// Whether the target was launched.
    pub launched: bool,
    /// Whether names are waited for at the end.
    pub names: bool,
    /// How long at most.
    pub duration: Option<Duration>,
    /// The signal by which the user ends it.
    pub interrupt: Receiver<i32>,
    /// Say how far it is.
    pub progress: bool,
    /// Say nothing of what the session tells.
    pub quiet: bool,
}

/// How it ended.
#[derive(Debug, Default)]
pub struct Done {
    /// How the target ended, if it did.
    pub ending: Option<Ending>,
    /// The signal by which the user ended it.
    pub interrupted: Option<i32>,
    /// How long it was to be, if it was over by then.
    duration: Option<Duration>,
    /// The last numbers.
    answer: Option<Arc<Answer>>,
}

/// Waits for the end: of the target, of the time given, or by the user.
pub fn run(session: &Session, options: &Options) -> Done {
    let mut done = Done::default();
    let start = Instant::now();
    let mut due = options.duration.map(|duration| start + duration);
    let mut is_last = false;
    loop {
        let timer = due.map_or_else(never, |due| after(due.saturating_duration_since(Instant::now())));
        select! {
            recv(session.notices) -> notice => match notice {
                Ok(Notice::Answer(answer)) => {
                    if options.progress {
                        say(&format!("\r{}\x1b[K", progress(&answer)));
                    }
                    done.answer = Some(answer);
                }
                Ok(Notice::Banner(sentence)) if !options.quiet => {
                    let clear = if options.progress { "\r\x1b[K" } else { "" };
                    say(&format!("{clear}sigtop: {sentence}\n"));
                }
                Ok(Notice::Ended(ending)) => {
                    done.ending = Some(ending);
                    due = Some(Instant::now() + NAMES);
                    is_last = true;
                }
                Ok(_) => {}
                Err(_) => break,
            },
            recv(options.interrupt) -> signal => {
                let is_second = done.interrupted.is_some();
                done.interrupted = signal.ok();
                if is_second || !options.launched || done.ending.is_some() {
                    break;
                }
                due = Some(Instant::now() + END);
            }
            recv(timer) -> _ => {
                done.duration = options.duration;
                if is_last || !options.names {
                    break;
                }
                // What comes from here on does not count; the names of what came do.
                let _ = session.commands.send(Command::Freeze);
                (is_last, due) = (true, Some(Instant::now() + NAMES));
                continue;
            }
        }
        let is_named = done.answer.as_ref().is_some_and(|answer| answer.facts.symbolizing.0 == 0);
        if is_last && (!options.names || is_named) {
            break;
        }
    }
    if options.progress {
        say("\r\x1b[K");
    }
    let _ = session.commands.send(Command::Leave);
    done
}

/// If nobody reads there, the recording goes on all the same.
fn say(words: &str) {
    let mut stderr = io::stderr();
    let _ = stderr.write_all(words.as_bytes()).and_then(|()| stderr.flush());
}

fn progress(answer: &Answer) -> String {
    let facts = &answer.facts;
    let (up, samples) = (measure::duration(facts.up), measure::count(facts.stacks.samples));
    let lost = match facts.losses.lost() {
        0 => String::new(),
        lost => format!(" · {} lost", measure::count(lost)),
    };
    let pids: Vec<String> = facts.pids.iter().map(u32::to_string).collect();
    let label = if pids.len() == 1 { "pid" } else { "pids" };
    format!("recording {label} {} · {up} · {samples} samples{lost} · Ctrl-C ends", pids.join(", "))
}

/// One line on what was recorded.
pub fn summary(done: &Done, saved: &Saved) -> String {
    let place = saved.path.as_ref().map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
    let bytes = measure::bytes(saved.bytes);
    match &done.answer {
        Some(answer) => {
            let facts = &answer.facts;
            // What came while names were waited for is not in it.
            let samples = measure::count(facts.stacks.samples - facts.waiting.unwrap_or(0));
            let up = measure::duration(done.duration.map_or(facts.up, |duration| duration.min(facts.up)));
            let unsampled = facts.unsampled.as_ref().map(|unsampled| format!("; {unsampled}")).unwrap_or_default();
            format!("{samples} samples in {up}: {place} ({bytes}){unsampled}")
        }
        None => format!("recorded: {place} ({bytes})"),
    }
}
