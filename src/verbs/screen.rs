//! The screen of a watch, and what is left on the terminal after it.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use sigtop::batch;
use sigtop::cli::Watch;
use sigtop::track::session::{Session, Settings};
use sigtop::track::{Ending, Notice};
use sigtop::tui::{self, Departure, Device, Theme};
use sigtop::write::text::Limits;

use super::Failure;

/// Whether the screen can be shown.
pub(crate) fn has_screen(watch: &Watch) -> bool {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    let wanted = !watch.batch && watch.table.is_none() && watch.interval.is_none() && watch.count.is_none();
    watch.screen.tui || (terminal && able && wanted)
}

pub(super) fn device(watch: &Watch) -> Device {
    if watch.screen.tui { Device::Tty } else { Device::Stdout }
}

pub(super) fn theme(watch: &Watch) -> Theme {
    Theme::from_environment(watch.screen.theme, |name| std::env::var(name).ok())
}

/// The screen, and what is left on the terminal after it. Returns how the target ended, if that decides the exit status.
pub(super) fn show(
    session: &mut Session,
    watch: &Watch,
    settings: Settings,
    launched: bool,
    recording: Option<String>,
) -> Result<Shown, Failure> {
    let device = device(watch);
    let options = tui::Options {
        command: settings.command.clone(),
        launched,
        recording,
        output: launched,
        on_quit: watch.on_quit.unwrap_or_default(),
        mouse: !watch.screen.no_mouse,
        device,
        theme: theme(watch),
        keys: watch.screen.keys.clone(),
        names: watch.shown.names.unwrap_or_default(),
        question: settings.question,
        clock: settings.clock,
        engine: settings.engine,
        period_ns: settings.period_ns,
    };
    let outcome = tui::run(options, session.commands.clone(), session.notices.clone(), session.output.take())
        .map_err(|error| Failure { sentence: error.to_string(), status: 125 })?;
    if !watch.screen.quiet {
        let words = farewell(&outcome);
        // Where the screen was: with --tui, stdout is the target's. A terminal that is gone needs no farewell.
        let _ = match device {
            Device::Stdout => std::io::stdout().write_all(words.as_bytes()),
            Device::Tty => {
                File::options().write(true).open("/dev/tty").and_then(|mut tty| tty.write_all(words.as_bytes()))
            }
        };
    }
    let ended = || outcome.answer.as_ref().and_then(|answer| answer.facts.ended).map(|(ending, _)| ending);
    Ok(match outcome.departure {
        Departure::Signal(signal) => Shown::Signalled(signal),
        Departure::Left => Shown::Left,
        Departure::Over => ended().map_or(Shown::Left, Shown::Ended),
        Departure::Ended => ended().or_else(|| await_end(session)).map_or(Shown::Left, Shown::Ended),
    })
}

/// How a watch with a screen ended.
pub(super) enum Shown {
    /// With the target.
    Ended(Ending),
    /// The target runs on.
    Left,
    /// A signal told us to go.
    Signalled(i32),
}

/// How long a target that was told to end may take: it is killed after two seconds.
const END_WITHIN: Duration = Duration::from_secs(10);

fn await_end(session: &Session) -> Option<Ending> {
    let deadline = Instant::now() + END_WITHIN;
    while let Ok(notice) = session.notices.recv_deadline(deadline) {
        if let Notice::Ended(ending) = notice {
            return Some(ending);
        }
    }
    None
}

/// The target's last lines and the five functions at the top.
fn farewell(outcome: &tui::Outcome) -> String {
    const LINES: usize = 10;
    const ROWS: usize = 5;
    let first = outcome.output.len().saturating_sub(LINES);
    let mut out: String = outcome.output[first..].iter().flat_map(|line| [line, "\n"]).collect();
    if let Some(answer) = &outcome.answer {
        let nodecount = Some(ROWS);
        out += &batch::table(answer, &answer.total, &Limits { nodecount, ..Limits::default() });
    }
    out
}
