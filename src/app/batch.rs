//! Batch mode: prints tables as text, at an interval and at the end.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select};
use serde_json::{Value, json};

use super::leave::leave_program;
use super::progress::ProgressLine;
use crate::keyword::Keyword;
use crate::pprof::live_top::{
    TopHeader, TopLimits, columns_before_name, inline_mark, library_call, write_rows, write_top,
};
use crate::pprof::live_top_json::{TopJsonFacts, to_json};
use crate::session::{Answer, Command, Notice, Session, TargetExit, Unsampled};
use crate::symbols::sanitize::sanitize;
use crate::tally::top::TopTable;
use crate::tui::fit_names::{NameToFit, fit_names};
use crate::tui::{NameStyle, OnQuit, terminal_columns};
use crate::wire::{Clock, LossCause};

/// Maximum time to wait for symbols at the end.
const MAX_SYMBOL_WAIT: Duration = Duration::from_secs(20);
/// Maximum time that a launched target has to end after a signal. `timeout`, a shell and a terminal
/// send it to both.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(1);

/// Options of batch mode: the times at which tables are printed, and their destination.
pub(super) struct BatchOptions {
    /// Time between two tables; `None` prints only the last one.
    pub(super) interval: Option<Duration>,
    /// Number of tables after which the watch ends.
    pub(super) count: Option<u64>,
    /// Destination of the tables.
    pub(super) sink: TableSink,
    /// Receives a signal when the user ends the watch.
    pub(super) interrupt: Receiver<i32>,
    /// Whether to suppress warnings.
    pub(super) quiet: bool,
    /// Style of function names.
    pub(super) names: NameStyle,
    /// Whether tables, warnings and reasons are JSON, one object per line.
    pub(super) json: bool,
    /// The pid of a launched target, and its fate if the watch ends first.
    pub(super) launched: Option<(u32, OnQuit)>,
    /// The progress of a replay, which is shown until the first table.
    pub(super) progress: Option<ProgressLine>,
}

/// The end of a watch with tables.
#[derive(Default)]
pub(super) struct BatchEnd {
    /// The end of the target, if it has ended.
    pub(super) exit: Option<TargetExit>,
    /// The signal that ended the watch of a launched target.
    pub(super) signal: Option<i32>,
}

/// Minimum columns of a name, however narrow the terminal is.
const MIN_NAME_COLUMNS: usize = 20;
/// Columns of a line where it need not fit on a terminal.
const UNLIMITED_COLUMNS: usize = 1 << 20;

/// Destination of the tables.
pub(super) enum TableSink {
    /// The default for a launched target, which owns stdout.
    Stderr,
    /// The default for an attached target.
    Stdout,
    /// The file that `--table` names.
    File(File),
}

impl TableSink {
    fn write(&mut self, text: &str) -> io::Result<()> {
        match self {
            TableSink::Stderr => io::stderr().write_all(text.as_bytes()),
            TableSink::Stdout => io::stdout().write_all(text.as_bytes()),
            TableSink::File(file) => file.write_all(text.as_bytes()),
        }
    }

    /// Columns of a line: those of the terminal, if it is one.
    fn columns(&self) -> usize {
        let is_terminal = match self {
            TableSink::Stderr => io::stderr().is_terminal(),
            TableSink::Stdout => io::stdout().is_terminal(),
            TableSink::File(_) => false,
        };
        let columns = if is_terminal { terminal_columns() } else { None };
        columns.unwrap_or(UNLIMITED_COLUMNS)
    }
}

impl BatchOptions {
    /// Writes a warning on stderr, or to the file if tables go there: then stderr belongs to the
    /// target alone. A warning between objects is one, too.
    fn write_warning(&mut self, warning: &str) -> io::Result<()> {
        let is_among_tables = matches!(self.sink, TableSink::File(_) | TableSink::Stderr);
        if self.json && is_among_tables {
            let object = json!({"schema": "sigtop.warning.v1", "message": warning});
            return self.sink.write(&format!("{object}\n"));
        }
        let line = format!("sigtop: {warning}\n");
        if is_among_tables { self.sink.write(&line) } else { io::stderr().write_all(line.as_bytes()) }
    }

    /// Writes a table of the answer. The last one is that of all samples.
    fn write_table(&mut self, answer: &Answer, is_last: bool) -> io::Result<()> {
        let table = if is_last { &answer.total } else { &answer.window };
        if self.json {
            return self.sink.write(&format!("{}\n", table_json(answer, table, is_last)));
        }
        let mut table = (**table).clone();
        fit_row_names(answer, &mut table, usize::MAX, self.names, self.sink.columns());
        self.sink.write(&format_table(answer, &table, &TopLimits::default()))
    }
}

/// Prints tables until the target ends, `count` is reached, or the user interrupts.
///
/// # Errors
/// A table cannot be written.
pub(super) fn run(session: &Session, mut options: BatchOptions) -> io::Result<BatchEnd> {
    let mut latest: Option<Arc<Answer>> = None;
    let mut signalled: Option<(i32, Instant)> = None;
    let mut exit: Option<(TargetExit, Instant)> = None;
    let mut is_played = false;
    let mut printed = 0;
    let mut warnings = Vec::new();
    let mut due = options.interval.map(|interval| Instant::now() + interval);
    loop {
        let deadline = match (&exit, &signalled) {
            (Some((_, at)), _) => Some(*at + MAX_SYMBOL_WAIT),
            (None, Some((_, at))) => Some(*at + MAX_EXIT_WAIT),
            (None, None) => None,
        };
        let next = [due.filter(|_| deadline.is_none()), deadline].into_iter().flatten().min();
        let timer = next.map_or_else(never, |next| after(next.saturating_duration_since(Instant::now())));
        select! {
            recv(session.notices) -> notice => match notice {
                Ok(Notice::Answer(answer)) => {
                    // Until then, the progress is that of reading.
                    if let Some(progress) = options.progress.as_ref().filter(|_| is_played) {
                        progress.state().set_symbolizing(answer.facts.symbolizing);
                    }
                    latest = Some(answer);
                }
                Ok(Notice::Banner(warning)) if !options.quiet => {
                    // A warning that cannot be written does not end the watch.
                    let _ = options.write_warning(&sanitize(&warning));
                    warnings.push(warning);
                }
                Ok(Notice::Ended(how)) => exit = Some((how, Instant::now())),
                // The recording may not contain how the target ended.
                Ok(Notice::Played) => {
                    exit.get_or_insert((TargetExit::Gone, Instant::now()));
                    is_played = true;
                }
                Ok(_) => {}
                Err(_) => break,
            },
            recv(options.interrupt) -> signal => {
                let is_second = signalled.is_some();
                signalled = signal.ok().map(|signal| (signal, Instant::now()));
                if is_second || options.launched.is_none() {
                    break;
                }
            }
            recv(timer) -> _ => {
                if deadline.is_some() {
                    break;
                }
                due = options.interval.map(|interval| Instant::now() + interval);
                if let Some(answer) = &latest {
                    options.progress = None;
                    options.write_table(answer, false)?;
                    printed += 1;
                }
                if options.count.is_some_and(|count| printed >= count) {
                    leave(session, latest.map(|answer| without_reasons(answer, &warnings)), &mut options)?;
                    return Ok(BatchEnd::default());
                }
            }
        }
        let is_symbolized = latest
            .as_ref()
            .is_some_and(|answer| answer.facts.symbolizing.0 == 0 && (is_played || answer.facts.ended.is_some()));
        if exit.is_some() && is_symbolized {
            break;
        }
    }
    options.progress = None;
    if exit.is_none() {
        latest = conclude(session).or(latest);
    }
    let still_runs = match options.launched {
        Some((pid, on_quit)) if exit.is_none() => leave_program(session, pid, on_quit),
        _ => None,
    };
    let _ = session.commands.send(Command::Leave);
    if let Some(answer) = latest {
        write_last_table(&without_reasons(answer, &warnings), &mut options)?;
    }
    if let Some(sentence) = still_runs.filter(|_| !options.quiet) {
        options.write_warning(&sentence)?;
    }
    let signal = signalled.map(|(signal, _)| signal).filter(|_| options.launched.is_some());
    Ok(BatchEnd { exit: exit.map(|(exit, _)| exit), signal })
}

/// Has the last samples taken, and returns the answer that has them.
fn conclude(session: &Session) -> Option<Arc<Answer>> {
    let _ = session.commands.send(Command::Conclude);
    let mut latest = None;
    for notice in &session.notices {
        match notice {
            Notice::Answer(answer) => latest = Some(answer),
            Notice::Concluded => break,
            _ => {}
        }
    }
    latest
}

/// Leaves out reasons that were given in warnings.
fn without_reasons(answer: Arc<Answer>, warnings: &[String]) -> Answer {
    Answer { facts: answer.facts.without_reasons_in(warnings), ..Arc::unwrap_or_clone(answer) }
}

/// Leaves a target that has not ended. Says what was not sampled.
fn leave(session: &Session, latest: Option<Answer>, options: &mut BatchOptions) -> io::Result<()> {
    match latest {
        Some(answer) if answer.total.samples == 0 => options.write_warning(&answer.facts.explain_no_samples())?,
        Some(answer) => warn_of_unsampled(&answer, options)?,
        None => {}
    }
    let still_runs = options.launched.and_then(|(pid, on_quit)| leave_program(session, pid, on_quit));
    let _ = session.commands.send(Command::Leave);
    still_runs.filter(|_| !options.quiet).map_or(Ok(()), |sentence| options.write_warning(&sentence))
}

/// Writes the table of all samples, or why there are none.
fn write_last_table(answer: &Answer, options: &mut BatchOptions) -> io::Result<()> {
    if answer.total.samples == 0 {
        let reason = answer.facts.explain_no_samples();
        if options.json {
            options.write_table(answer, true)?;
            return options.write_warning(&reason);
        }
        return options.sink.write(&format!("sigtop: {reason}\n"));
    }
    options.write_table(answer, true)?;
    warn_of_unsampled(answer, options)
}

/// Writes which part of the CPU time has no samples, and why.
fn warn_of_unsampled(answer: &Answer, options: &mut BatchOptions) -> io::Result<()> {
    let unsampled = answer.facts.unsampled.as_ref().filter(|_| !options.quiet);
    unsampled.map_or(Ok(()), |unsampled| options.write_warning(&unsampled.to_string()))
}

/// Replaces the full names of the first rows of an answer's table, which are printed, by names that
/// fit into a line of this many columns.
pub(super) fn fit_row_names(answer: &Answer, table: &mut TopTable, rows: usize, style: NameStyle, columns: usize) {
    let columns =
        columns.saturating_sub(columns_before_name(answer.facts.clock, answer.question.sort, &answer.question.own));
    let rows = rows.min(table.rows.len());
    let mut names = Vec::with_capacity(rows);
    for row in &table.rows[..rows] {
        let room = columns.saturating_sub(inline_mark(row.inline).len() + library_call(row).chars().count());
        names.push(NameToFit { full: &row.full, short: &row.short, room: room.max(MIN_NAME_COLUMNS) });
    }
    let fitted = fit_names(&names, style);
    for (row, name) in table.rows.iter_mut().zip(fitted) {
        row.full = name.into();
    }
}

/// Formats one of an answer's tables as `pprof -top` does.
pub(super) fn format_table(answer: &Answer, table: &TopTable, limits: &TopLimits) -> String {
    let mut out = String::new();
    write_top(&mut out, &header(answer, table), table, limits);
    out
}

/// Formats the rows alone.
pub(super) fn format_rows(answer: &Answer, table: &TopTable, limits: &TopLimits) -> String {
    let mut out = String::new();
    write_rows(&mut out, &header(answer, table), table, limits);
    out
}

/// Returns one of an answer's tables as JSON.
fn table_json(answer: &Answer, table: &TopTable, is_last: bool) -> Value {
    let facts = &answer.facts;
    let is_sampled = facts.origin.is_none();
    let facts = TopJsonFacts {
        command: sanitize(&facts.command),
        pids: facts.pids.clone(),
        engine: if is_sampled { facts.sampler.unwrap_or(facts.engine).word().name } else { "" },
        period: if facts.clock.is_memory() { facts.interval_bytes } else { facts.period_ns },
        achieved_hz: facts.effective_hz,
        unsampled_percent: facts.unsampled.as_ref().map(Unsampled::percent),
        is_last,
    };
    to_json(&header(answer, table), &facts, table, &TopLimits::default())
}

fn header<'a>(answer: &'a Answer, table: &TopTable) -> TopHeader<'a> {
    let facts = &answer.facts;
    let is_total = table.samples == answer.total.samples;
    let duration = match facts.window_ns {
        Some(window_ns) if !is_total => facts.up.min(Duration::from_nanos(window_ns)),
        _ => facts.up,
    };
    let file = facts.command.split_whitespace().next().unwrap_or("");
    TopHeader {
        file: file.rsplit('/').next().unwrap_or(file),
        clock: facts.clock,
        // A saved profile may not contain its duration.
        duration_ns: (facts.clock != Clock::Virtual && !duration.is_zero()).then_some(duration.as_nanos() as u64),
        lost_ticks: if is_total { facts.losses.lost_ticks } else { [0; LossCause::ALL.len()] },
        lost_ns: if is_total { facts.losses.lost_weight(facts.clock) } else { [0; LossCause::ALL.len()] },
        filters: &answer.question.filters,
        own: &answer.question.own,
        sort: answer.question.sort,
    }
}
