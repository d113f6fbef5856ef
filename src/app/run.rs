//! Parses the command line, runs the subcommand and turns its result into an exit status.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::FromArgMatches;
use nix::sys::signal::Signal;

use super::args::{Cli, CliSubcommand, dashes, help, hoist, mistakes};
use super::failure::{Failure, print_message};
use super::screen::uses_screen;
use super::settings::apply_config;
use crate::sampler::program;

use super::{
    check, command_word, demo, demo_target, dump, env, explain, installed, mcp, overview, push, repeat, report,
    symbols, view, watch,
};

/// Runs the program.
pub fn run() -> ExitCode {
    let arguments = dashes::double_dashes(hoist::move_options_behind_subcommand(std::env::args_os()));
    if let Some(text) = help::find_text(&arguments) {
        let _ = std::io::stdout().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let matches = help::command().try_get_matches_from(&arguments);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => match mistakes::explain(&error, &arguments) {
            Some(sentence) => {
                print_message(&sentence);
                return ExitCode::from(Failure::USAGE);
            }
            None => error.exit(),
        },
    };
    // Catching SIGXFSZ makes writes beyond `ulimit -f` fail with EFBIG instead of killing sigtop. A
    // caught signal returns to its default in programs that sigtop executes.
    let _ = signal_hook::flag::register(Signal::SIGXFSZ as i32, Arc::default());
    match run_subcommand(cli) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            print_message(&failure.message);
            ExitCode::from(failure.status)
        }
    }
}

fn run_subcommand(cli: Cli) -> Result<u8, Failure> {
    match cli.subcommand {
        Some(CliSubcommand::Demo(args)) => demo::run(*args),
        Some(CliSubcommand::Env { path, libprofiler, header }) => env::run(path, libprofiler.as_deref(), header),
        Some(CliSubcommand::Report(args)) => report::run(&args),
        Some(CliSubcommand::Check(args)) => check::run(&args),
        Some(CliSubcommand::Symbols { target, json, debug_information, config }) => {
            symbols::run(&target, json, &debug_information, &config)
        }
        Some(CliSubcommand::Mcp) => mcp::run(),
        Some(CliSubcommand::Man) => installed::print_man_page(),
        Some(CliSubcommand::Completions { shell }) => installed::print_completions(shell),
        Some(CliSubcommand::Dump { pid }) => dump::run(pid),
        Some(CliSubcommand::Explain(args)) => explain::run(&args),
        Some(CliSubcommand::Push(args)) => push::run(&args),
        Some(CliSubcommand::Record(args)) => repeat::run(&args),
        Some(CliSubcommand::View(args)) => view::run(&args),
        Some(CliSubcommand::Sampler) => match program::run() {
            Ok(()) => Ok(0),
            Err(error) => Err(Failure::internal("cannot sample", error)),
        },
        Some(CliSubcommand::DemoTarget { viewer, duration }) => {
            demo_target::run(duration, viewer);
            Ok(0)
        }
        None if !cli.watch.command.is_empty() => watch::watch_command(apply_config(cli.watch)?),
        None if !cli.watch.pid.is_empty() => watch::watch_selected(&apply_config(cli.watch)?),
        None if command_word::has_dashes() => {
            Err(Failure::new(Failure::USAGE, "no command after `--`; try: sigtop -- ./app"))
        }
        None => {
            let args = apply_config(cli.watch)?;
            if uses_screen(&args) { watch::watch_picked(&args) } else { overview::run(args.json) }
        }
    }
}
