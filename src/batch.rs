//! Without a screen: tables as text, every interval and once at the end.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select};
use nix::sys::signal::Signal;

use crate::link::wire::{Clock, Loss};
use crate::tally::measure;
use crate::tally::table::{Row, Table};
use crate::track::session::Session;
use crate::track::{Answer, Command, Ending, Facts, Notice};
use crate::write::text::{self, Heading, Limits};

/// How long names may be waited for at the end.
const NAMES: Duration = Duration::from_secs(20);

/// When and where to write.
pub struct Options {
    /// Between two tables; `None`: only at the end.
    pub interval: Option<Duration>,
    /// Tables until the watch ends.
    pub count: Option<u64>,
    /// What to write to.
    pub sink: Sink,
    /// Told once when the user wants the watch to end.
    pub interrupt: Receiver<i32>,
    /// Leave out everything but tables that were asked for.
    pub quiet: bool,
    /// Which of a row's names is printed.
    pub names: fn(&Row) -> &str,
}

/// Where tables go.
pub enum Sink {
    /// For a launched target, whose stdout is its own.
    Stderr,
    /// For one attached to.
    Stdout,
    /// Where `--table` says.
    File(File),
}

impl Sink {
    fn write(&mut self, text: &str) -> io::Result<()> {
        match self {
            Sink::Stderr => io::stderr().write_all(text.as_bytes()),
            Sink::Stdout => io::stdout().write_all(text.as_bytes()),
            Sink::File(file) => file.write_all(text.as_bytes()),
        }
    }

    /// One sentence beside the tables: on stderr, or in the file, where nothing of ours is to be on stderr.
    fn remark(&mut self, sentence: &str) -> io::Result<()> {
        let line = format!("sigtop: {sentence}\n");
        match self {
            Sink::File(_) => self.write(&line),
            Sink::Stderr | Sink::Stdout => io::stderr().write_all(line.as_bytes()),
        }
    }
}

/// Prints until the target ends, enough tables were printed, or the user interrupts. Returns how the target ended, if it did.
///
/// # Errors
/// When a table cannot be written.
pub fn run(session: &Session, mut options: Options) -> io::Result<Option<Ending>> {
    let mut latest: Option<Arc<Answer>> = None;
    let mut ended: Option<(Ending, Instant)> = None;
    let mut played = false;
    let mut printed = 0;
    let mut due = options.interval.map(|interval| Instant::now() + interval);
    loop {
        let names_due = ended.map(|(_, at)| at + NAMES);
        let next = [due.filter(|_| ended.is_none()), names_due].into_iter().flatten().min();
        let timer = next.map_or_else(never, |next| after(next.saturating_duration_since(Instant::now())));
        select! {
            recv(session.notices) -> notice => match notice {
                Ok(Notice::Answer(answer)) => latest = Some(answer),
                // If nobody reads there, the watch goes on all the same.
                Ok(Notice::Banner(sentence)) if !options.quiet => drop(options.sink.remark(&sentence)),
                Ok(Notice::Ended(ending)) => ended = Some((ending, Instant::now())),
                // How the target ended is not known, or was told before.
                Ok(Notice::Played) => {
                    ended.get_or_insert((Ending::Gone, Instant::now()));
                    played = true;
                }
                Ok(_) => {}
                Err(_) => break,
            },
            recv(options.interrupt) -> _ => break,
            recv(timer) -> _ => {
                if ended.is_some() {
                    break;
                }
                due = options.interval.map(|interval| Instant::now() + interval);
                if let Some(answer) = &latest {
                    options.sink.write(&table(answer, &rename(&answer.window, options.names), &Limits::default()))?;
                    printed += 1;
                }
                if options.count.is_some_and(|count| printed >= count) {
                    let _ = session.commands.send(Command::Leave);
                    return Ok(None);
                }
            }
        }
        let named = latest
            .as_ref()
            .is_some_and(|answer| answer.facts.symbolizing.0 == 0 && (played || answer.facts.ended.is_some()));
        if ended.is_some() && named {
            break;
        }
    }
    let _ = session.commands.send(Command::Leave);
    if let Some(answer) = latest {
        let last = last(&answer, options.names);
        options.sink.write(&last)?;
        if let Some(unsampled) = answer.facts.unsampled.as_ref().filter(|_| !options.quiet) {
            if !last.ends_with('\n') {
                options.sink.write("\n")?;
            }
            options.sink.remark(&unsampled.to_string())?;
        }
    }
    Ok(ended.map(|(ending, _)| ending))
}

/// The last table, of everything; or why there is none.
fn last(answer: &Answer, names: fn(&Row) -> &str) -> String {
    let facts = &answer.facts;
    if answer.total.samples > 0 {
        return table(answer, &rename(&answer.total, names), &Limits::default());
    }
    no_samples(facts)
}

/// The same table with the chosen name of each row in the place of its full one, which is what is
/// printed.
fn rename(table: &Table, names: fn(&Row) -> &str) -> Table {
    let mut table = table.clone();
    for row in &mut table.rows {
        row.full = names(row).into();
    }
    table
}

/// One sentence on a target that was over before a tick.
pub fn no_samples(facts: &Facts) -> String {
    let cpu = measure::duration(facts.cpu_used);
    let how = match facts.ended {
        Some((Ending::Exited(status), _)) => format!("ended with status {status} after {cpu} of CPU"),
        Some((Ending::Killed(signal), _)) => format!("was killed by {} after {cpu} of CPU", signal_name(signal)),
        Some((Ending::Gone, _)) => format!("ended after {cpu} of CPU"),
        None => format!("has used {cpu} of CPU"),
    };
    let why = facts.why_no_sample();
    let program = facts.command.split_whitespace().next().unwrap_or("the target");
    format!("sigtop: {program} {how}: no sample ({why})\n")
}

fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}

/// One of an answer's tables in pprof's text form.
pub fn table(answer: &Answer, table: &Table, limits: &Limits) -> String {
    let facts = &answer.facts;
    let whole = table.samples == answer.total.samples;
    let duration = match facts.window_ns {
        Some(window_ns) if !whole => facts.up.min(Duration::from_nanos(window_ns)),
        _ => facts.up,
    };
    let file = facts.command.split_whitespace().next().unwrap_or("");
    let heading = Heading {
        file: file.rsplit('/').next().unwrap_or(file),
        clock: facts.clock,
        // Of a profile nobody may have said how long it took.
        duration_ns: (facts.clock != Clock::Virtual && !duration.is_zero()).then_some(duration.as_nanos() as u64),
        lost_ticks: if whole { facts.losses.lost_ticks } else { [0; Loss::ALL.len()] },
        lost_ns: if whole { facts.losses.lost_ns } else { [0; Loss::ALL.len()] },
        filters: &answer.question.filters,
    };
    let mut out = String::new();
    text::top(&mut out, &heading, table, limits);
    out
}
