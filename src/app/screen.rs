//! The screen of a watch, and what is printed on the terminal after it closes.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use super::args::WatchArgs;
use super::batch::{self, fit_row_names};
use super::failure::{Failure, print_message};
use super::leave::wait_for_exit;
use crate::pprof::live_top::{TopLimits, format_losses};
use crate::session::{Answer, Session, Settings, TargetExit};
use crate::tally::measure;
use crate::tui::term::terminal::is_background_light;
use crate::tui::theme::Depth;
use crate::tui::{self, Departure, Device, Theme};

/// Whether the arguments and the terminal call for the screen.
pub(super) fn uses_screen(args: &WatchArgs) -> bool {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    args.screen.tui || (is_terminal && is_able_terminal() && !asks_for_tables(args))
}

fn is_able_terminal() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

fn asks_for_tables(args: &WatchArgs) -> bool {
    args.batch || args.json || args.table.is_some() || args.interval.is_some() || args.count.is_some()
}

/// Says why there is no screen on a terminal that cannot show one.
pub(super) fn explain_missing_screen(args: &WatchArgs) {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if is_terminal && !args.screen.quiet && !args.screen.tui && !asks_for_tables(args) && !is_able_terminal() {
        print_message("the terminal cannot show a screen (TERM is dumb or not set): printing a table at the end");
    }
}

/// The device that the screen is drawn on.
pub(super) fn device(args: &WatchArgs) -> Device {
    if args.screen.tui { Device::Tty } else { Device::Stdout }
}

/// The theme that the arguments, the terminal or the environment select.
pub(super) fn theme(args: &WatchArgs) -> Theme {
    let theme = Theme::from_environment(args.screen.theme, |name| std::env::var(name).ok());
    // With sixteen colours, they are the terminal's own.
    let has_palette = matches!(theme.depth, Depth::True | Depth::Indexed);
    let is_light = if args.screen.theme.is_none() && has_palette { is_background_light(device(args)) } else { None };
    is_light.map_or(theme, |is_light| theme.with_background(is_light))
}

/// A watch with a screen that has ended.
pub(super) struct ClosedScreen {
    /// The way in which it ended.
    pub(super) exit: ScreenExit,
    device: Device,
    output: Vec<String>,
    /// The file that was saved from the screen.
    saved: Option<String>,
    /// Whether a file was shown, which needs no other.
    is_replay: bool,
}

/// The way in which a watch with a screen ended.
pub(super) enum ScreenExit {
    /// The target ended.
    TargetExited(TargetExit),
    /// The target ended, and the user wants to watch this process of its name.
    Attach(u32),
    /// The user left, and the target runs on.
    Detached,
    /// This signal ended sigtop.
    Signalled(i32),
}

/// Shows the screen until the user leaves. `recording` is the name of the recording that is
/// replayed, if any; `successor` that of the process whose successor can be watched.
pub(super) fn run_screen(
    session: &mut Session,
    args: &WatchArgs,
    settings: Settings,
    launched: bool,
    recording: Option<String>,
    successor: Option<String>,
) -> Result<ClosedScreen, Failure> {
    let (device, is_replay) = (device(args), recording.is_some());
    let options = tui::Options {
        command: settings.command.clone(),
        launched,
        recording,
        successor,
        base: settings.base.clone(),
        output: launched,
        on_quit: args.on_quit.unwrap_or_default(),
        mouse: !args.screen.no_mouse,
        device,
        theme: theme(args),
        keys: args.screen.keys.clone(),
        names: args.display.names.unwrap_or_default(),
        question: settings.question,
        clock: settings.clock,
        engine: settings.engine,
        period_ns: settings.period_ns,
    };
    let outcome = tui::run(options, session.commands.clone(), session.notices.clone(), session.output.take())
        .map_err(|error| Failure::new(Failure::INTERNAL, error))?;
    let reported = || outcome.answer.as_ref().and_then(|answer| answer.facts.ended).map(|(exit, _)| exit);
    let exit = |exit: Option<TargetExit>| exit.map_or(ScreenExit::Detached, ScreenExit::TargetExited);
    let exit = match outcome.departure {
        Departure::Signal(signal) => ScreenExit::Signalled(signal),
        Departure::Attach(pid) => ScreenExit::Attach(pid),
        Departure::Left => ScreenExit::Detached,
        Departure::Over => exit(reported()),
        Departure::Ended => exit(reported().or_else(|| wait_for_exit(session))),
    };
    Ok(ClosedScreen { exit, device, output: outcome.output, saved: outcome.saved, is_replay })
}

/// The length of the watch, and the sampled time: `58.7 s watched, 22.4 s of CPU time`.
fn describe_watch(answer: &Answer) -> String {
    let (facts, total) = (&answer.facts, &answer.total);
    let amount = match facts.clock.is_memory() {
        true => measure::bytes(total.total_ns),
        false => measure::duration(Duration::from_nanos(total.total_ns)),
    };
    let weight = format!("{amount} {}", facts.clock.names().amount);
    let losses = format_losses(&facts.losses.lost_ticks, &facts.losses.lost_weight(facts.clock), total.total_ns);
    // A saved profile may not contain its duration.
    let watched = if facts.up.is_zero() { String::new() } else { format!("{} watched, ", measure::duration(facts.up)) };
    format!("{watched}{weight} in {} samples ({losses})", measure::count(total.samples))
}

/// Says what became of the samples, if they are not in a file already: `; nothing saved (e saves)`.
fn describe_file(closed: &ClosedScreen, args: &WatchArgs) -> String {
    match &closed.saved {
        _ if closed.is_replay || args.save.is_some() => String::new(),
        Some(path) => format!("; saved to {path}"),
        None => "; nothing saved (`e` saves)".to_owned(),
    }
}

/// Prints the closing summary on the terminal: the last lines of the target's output, the top ten
/// functions of everything that was sampled, whatever the screen showed, and what was lost.
pub(super) fn print_summary(closed: &ClosedScreen, answer: &Answer, args: &WatchArgs) {
    const LINES: usize = 10;
    const ROWS: usize = 10;
    if args.screen.quiet {
        return;
    }
    let first = closed.output.len().saturating_sub(LINES);
    let mut text: String = closed.output[first..].iter().flat_map(|line| [line, "\n"]).collect();
    if answer.total.samples == 0 {
        text += &format!("sigtop: {}\n", answer.facts.explain_no_samples());
    } else {
        let mut table = (*answer.total).clone();
        text += &format!("{}{}\n", describe_watch(answer), describe_file(closed, args));
        let columns = tui::terminal_columns().unwrap_or(80);
        let limits = TopLimits { nodecount: Some(ROWS), ..TopLimits::default() };
        fit_row_names(answer, &mut table, ROWS, args.display.names.unwrap_or_default(), columns);
        text += &batch::format_rows(answer, &table, &limits);
        if let Some(unsampled) = &answer.facts.unsampled {
            text += &format!("sigtop: {unsampled}\n");
        }
    }
    // With --tui, stdout belongs to the target. If the terminal is gone, the write fails and
    // nothing is lost.
    let _ = match closed.device {
        Device::Stdout => std::io::stdout().write_all(text.as_bytes()),
        Device::Tty => File::options().write(true).open("/dev/tty").and_then(|mut tty| tty.write_all(text.as_bytes())),
    };
}
