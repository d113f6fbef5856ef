//! `sigtop -- COMMAND`, `sigtop --pid` and `sigtop` alone: a watch, from its beginning to its exit status.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::CommandFactory;
use crossbeam_channel::never;
use sigtop::attach::find::{self, Carrier};
use sigtop::attach::launch::Stdio;
use sigtop::batch::{self, Sink};
use sigtop::cli::{Cli, Watch};
use sigtop::demo;
use sigtop::record::Goal;
use sigtop::tally::measure;
use sigtop::track::session::{Session, Target};
use sigtop::track::{Ending, Recording, Saved};
use sigtop::tui::Picked;
use sigtop::tui::nearest::nearest;
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

/// Without `--`, a word is a command only if it is a file that can be run.
pub(super) fn check_bare_word(word: &OsString) -> Result<(), Failure> {
    let runnable = std::fs::metadata(Path::new(word))
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
    if runnable || has_dashes() {
        return Ok(());
    }
    let word = word.to_string_lossy();
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    let verb = nearest(&word, verbs).map_or(String::new(), |verb| format!("sigtop {verb}, or "));
    Err(Failure { sentence: format!("`{word}` is no subcommand; did you mean: {verb}sigtop -- {word}?"), status: 2 })
}

/// `sigtop -- COMMAND`
pub(crate) fn watch_command(watch: Watch, is_demo: bool) -> Result<u8, Failure> {
    if !is_demo {
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
            std::fs::write(path, raw::raw(profile, names))
                .map_err(|error| Failure::own(&format!("cannot write {}", path.display()), error))?;
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
    let options =
        batch::Options { interval: watch.interval, count: watch.count, sink, interrupt, quiet: watch.screen.quiet };
    batch::run(session, options).map_err(|error| Failure::own("cannot write a table", error))
}
