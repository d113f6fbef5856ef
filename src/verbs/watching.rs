//! `sigtop -- COMMAND`, `sigtop --pid` and `sigtop` alone: a watch, from its beginning to its exit status.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;

use clap::CommandFactory;
use crossbeam_channel::never;
use sigtop::attach::find::{self, Carrier};
use sigtop::attach::launch::Stdio;
use sigtop::attach::program;
use sigtop::batch::{self, Sink};
use sigtop::cli::{Cli, Watch};
use sigtop::demo;
use sigtop::record::Goal;
use sigtop::tally::measure;
use sigtop::tally::table::Row;
use sigtop::track::session::{Session, Target};
use sigtop::track::{Ending, Recording, Saved};
use sigtop::tui::nearest::nearest;
use sigtop::tui::{NameStyle, Picked};
use sigtop::write::raw;

use super::screen::{Shown, has_screen, show};
use super::starting::{Begun, Chosen, attach, begin, carriers, choose, interrupts, start_command};
use super::{Failure, complain};

/// The command that starts this very program as the demo's target.
pub(crate) fn own_demo() -> Result<Vec<OsString>, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::own("cannot find its own file for the demo", error))?;
    Ok(vec![own.into(), "demo-target".into(), format!("--viewer={}", std::process::id()).into()])
}

/// Whether the arguments had a `--`: then what follows is a command, whatever it looks like.
pub(crate) fn has_dashes() -> bool {
    std::env::args_os().any(|argument| argument == "--")
}

/// Without `--`, a word that is no subcommand is a command only if there is such a program: a path
/// to a file, or a name that is found on the PATH.
pub(super) fn check_bare_word(word: &OsString) -> Result<(), Failure> {
    if has_dashes() || is_program(word) {
        return Ok(());
    }
    let word = word.to_string_lossy();
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    let sentence = match nearest(&word, verbs) {
        Some(verb) => format!("`{word}` is neither a subcommand nor a program; did you mean: sigtop {verb}?"),
        None => format!("`{word}` is neither a subcommand nor a program on the PATH; see sigtop --help"),
    };
    Err(Failure { sentence, status: 2 })
}

/// A subcommand behind options that it does not take is not run as a program of its name.
fn check_not_subcommand(word: &OsString) -> Result<(), Failure> {
    match Cli::command().find_subcommand(word) {
        Some(verb) if !has_dashes() => {
            let name = verb.get_name();
            let sentence = format!(
                "an option before `{name}` is not one of this subcommand (sigtop {name} --help); \
                 for a program of this name: sigtop -- {name}"
            );
            Err(Failure { sentence, status: 2 })
        }
        _ => Ok(()),
    }
}

/// Whether a command that begins with this word has something to run. A path that cannot be run is
/// reported as one when it is started.
fn is_program(word: &OsString) -> bool {
    match program::find(word, std::env::var_os("PATH").as_deref()) {
        Ok(path) => std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()),
        Err(_) => false,
    }
}

/// `sigtop -- COMMAND`
pub(crate) fn watch_command(watch: Watch, is_demo: bool) -> Result<u8, Failure> {
    if !is_demo {
        check_not_subcommand(&watch.command[0])?;
        check_bare_word(&watch.command[0])?;
    }
    let sink = sink(&watch, Sink::Stderr)?;
    let screen = has_screen(&watch);
    let recording = recording(&watch, screen)?;
    // The screen says what size its pane has as soon as it is there.
    let stdio = if screen { Stdio::Terminal { rows: 24, columns: 80 } } else { Stdio::Inherit };
    let mut begun = start_command(&watch, stdio)?;
    if is_demo {
        begun.settings.command = "demo".to_owned();
        begun.settings.name = "demo".to_owned();
        begun.settings.sources.embedded = demo::SOURCES;
    }
    run(begun, &watch, screen, sink, recording)
}

/// `sigtop --pid PID|NAME,...`
pub(crate) fn watch_named(watch: Watch) -> Result<u8, Failure> {
    match carriers(&watch)? {
        Chosen::These(carriers) => watch_carriers(&watch, carriers),
        Chosen::Nobody(status) => Ok(status),
    }
}

/// `sigtop` alone
pub(crate) fn watch_chosen(watch: Watch) -> Result<u8, Failure> {
    match choose(&watch, "")? {
        Picked::Process(pid) => {
            let carrier = find::check(pid)?;
            watch_carriers(&watch, vec![carrier])
        }
        other => Ok(other.exit_status()),
    }
}

fn watch_carriers(watch: &Watch, carriers: Vec<Carrier>) -> Result<u8, Failure> {
    let sink = sink(watch, Sink::Stdout)?;
    let screen = has_screen(watch);
    let recording = recording(watch, screen)?;
    run(attach(watch, carriers)?, watch, screen, sink, recording)
}

/// What is recorded along with a watch: what a screen may save later, and what goes to a file at once, and what that becomes.
fn recording(watch: &Watch, screen: bool) -> Result<(Goal, Recording), Failure> {
    let saved = watch.save.as_deref().map(|path| Goal::of_file(path, watch.format)).transpose()?;
    let (goal, output) = saved.unwrap_or((Goal::Recording, None));
    Ok((goal, Recording { output, names: watch.symbols, keep: screen }))
}

pub(super) fn sink(watch: &Watch, default: Sink) -> Result<Sink, Failure> {
    let Some(path) = &watch.table else { return Ok(default) };
    if path.as_os_str() == "-" {
        return Ok(Sink::Stdout);
    }
    File::create(path).map(Sink::File).map_err(|error| Failure::own(&format!("cannot write {}", path.display()), error))
}

fn run(
    mut begun: Begun,
    watch: &Watch,
    screen: bool,
    sink: Sink,
    (goal, recording): (Goal, Recording),
) -> Result<u8, Failure> {
    let launched = matches!(begun.target, Target::Launched(_));
    begun.settings.sample_times = goal.needs_sample_times();
    let given = begun.settings.clone();
    let mut session = begin(begun, recording)?;
    let shown = if screen {
        show(&mut session, watch, given, launched, None)?
    } else {
        print(&session, watch, sink)?.map_or(Shown::Left, Shown::Ended)
    };
    if let Some(mut finished) = session.finish() {
        if let Some(path) = &watch.raw {
            let (profile, names) = (&finished.desk.profile, &finished.desk.names);
            let text = raw::raw(profile, names);
            let written = if path.as_os_str() == "-" {
                std::io::stdout().write_all(text.as_bytes())
            } else {
                std::fs::write(path, text)
            };
            written.map_err(|error| Failure::own(&format!("cannot write {}", path.display()), error))?;
        }
        finished.desk.thaw();
        match goal.reach(finished)? {
            Some(Saved { path: Some(path), bytes }) if !watch.screen.quiet => {
                complain(&format!("recorded: {} ({})", path.display(), measure::bytes(bytes)));
            }
            _ => {}
        }
    }
    Ok(match shown {
        Shown::Ended(ending) if launched => ending.exit_status(),
        Shown::Signalled(signal) => 128u8.saturating_add(signal as u8),
        _ => 0,
    })
}

pub(super) fn print(session: &Session, watch: &Watch, sink: Sink) -> Result<Option<Ending>, Failure> {
    // Ctrl-C under a launched target is the target's; a watch of somebody else's process ends by it, with its table.
    let interrupt = if watch.command.is_empty() { interrupts()? } else { never() };
    // A table has room for whole names, as pprof's has.
    let names: fn(&Row) -> &str = match watch.shown.names.unwrap_or(NameStyle::Full) {
        NameStyle::Short => |row| NameStyle::Short.of(row),
        NameStyle::Full => |row| NameStyle::Full.of(row),
        NameStyle::Bare => |row| NameStyle::Bare.of(row),
    };
    let (interval, count, quiet) = (watch.interval, watch.count, watch.screen.quiet);
    let options = batch::Options { interval, count, sink, interrupt, quiet, names };
    batch::run(session, options).map_err(|error| Failure::own("cannot write a table", error))
}
