//! A recording without a screen: how far it is on stderr, and when it is over.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select};

use crate::tally::measure;
use crate::track::session::Session;
use crate::track::{Answer, Command, Ending, Notice, Saved};

/// Between two words on how far it is, ns.
pub const PROGRESS_NS: u64 = 1_000_000_000;
/// How long names may be waited for at the end.
const NAMES: Duration = Duration::from_secs(20);
/// After Ctrl-C, which a launched target hears too, how long its end is waited for.
const END: Duration = Duration::from_secs(2);

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
    /// The last numbers.
    answer: Option<Arc<Answer>>,
}

/// Waits for the end: of the target, of the time given, or by the user.
pub fn run(session: &Session, options: &Options) -> Done {
    let mut done = Done::default();
    let start = Instant::now();
    let mut due = options.duration.map(|duration| start + duration);
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
            recv(timer) -> _ => break,
        }
        let is_named = done.answer.as_ref().is_some_and(|answer| answer.facts.symbolizing.0 == 0);
        if done.ending.is_some() && (!options.names || is_named) {
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
    format!("recording pid {} · {up} · {samples} samples{lost} · Ctrl-C ends", facts.pid)
}

/// One line on what was recorded.
pub fn summary(done: &Done, saved: &Saved) -> String {
    let place = saved.path.as_ref().map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
    let bytes = measure::bytes(saved.bytes);
    match &done.answer {
        Some(answer) => {
            let (samples, up) = (measure::count(answer.facts.stacks.samples), measure::duration(answer.facts.up));
            format!("{samples} samples in {up}: {place} ({bytes})")
        }
        None => format!("recorded: {place} ({bytes})"),
    }
}
