//! The program: parse, run, exit status.

mod verbs;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use nix::sys::signal::Signal;
use sigtop::cli::{Cli, Verb, Watch, ordering};
use sigtop::demo;

fn main() -> ExitCode {
    let cli = Cli::parse_from(ordering::move_options_behind_subcommand(std::env::args_os()));
    // A file that outgrows its limit (ulimit -f) is an error like others, and no reason to die. Nobody inherits this.
    let _ = signal_hook::flag::register(Signal::SIGXFSZ as i32, Arc::default());
    let result = match cli.verb {
        Some(Verb::Env { path, libprofiler, header }) => verbs::env(path, libprofiler.as_deref(), header),
        Some(Verb::Symbols { what }) => verbs::symbols(&what),
        Some(Verb::Demo(watch)) => verbs::configured(*watch)
            .and_then(|watch| Ok(Watch { command: verbs::own_demo()?, ..watch }))
            .and_then(|watch| verbs::watch_command(watch, true)),
        Some(Verb::Report(report)) => verbs::report(&report),
        Some(Verb::Record(asked)) => verbs::record(&asked),
        Some(Verb::View(asked)) => verbs::view(&asked),
        Some(Verb::DemoTarget { viewer, duration }) => {
            demo::run(duration, viewer);
            Ok(0)
        }
        None if !cli.watch.pid.is_empty() => verbs::configured(cli.watch).and_then(verbs::watch_named),
        None if cli.watch.command.is_empty() && !verbs::has_dashes() => verbs::configured(cli.watch)
            .and_then(|watch| if verbs::has_screen(&watch) { verbs::watch_chosen(watch) } else { verbs::overview() }),
        None if cli.watch.command.is_empty() => {
            Err(verbs::Failure { sentence: "nothing to start behind `--`; try: sigtop -- ./app".to_owned(), status: 2 })
        }
        None => verbs::configured(cli.watch).and_then(|watch| verbs::watch_command(watch, false)),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            verbs::complain(&failure.sentence);
            ExitCode::from(failure.status)
        }
    }
}
