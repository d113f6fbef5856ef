//! Completes the command line with the config file, and derives the session's settings from both.

use std::ffi::OsString;

use super::args::WatchArgs;
use super::config::{self, Config};
use super::failure::Failure;
use super::screen::uses_screen;
use crate::profile::kernel_frames::KernelFrames;
use crate::session::{ANSWER_NS, Question, Settings};
use crate::symbols::download::DebuginfodClient;
use crate::symbols::source::SourceFinder;
use crate::symbols::worker::SymbolOptions;
use crate::tally::query::Filters;

/// Reads the config file and takes the options from it that the command line does not set.
pub(super) fn apply_config(args: WatchArgs) -> Result<WatchArgs, Failure> {
    let config = match &args.config.config {
        _ if args.config.no_config => Ok(Config::default()),
        Some(path) => Config::read(path, true),
        None => config::default_path(|name| std::env::var_os(name))
            .map_or_else(|| Ok(Config::default()), |path| Config::read(&path, false)),
    };
    config.map(|config| args.merge(config)).map_err(|error| Failure::new(Failure::USAGE, error))
}

/// The settings of a session that watches `command`.
pub(super) fn session_settings(args: &WatchArgs, command: &[OsString]) -> Settings {
    let arguments: Vec<_> = command.iter().map(|argument| argument.to_string_lossy()).collect();
    // An argument may be a script of several lines; the header has one.
    let words: Vec<&str> = arguments.iter().flat_map(|argument| argument.split_whitespace()).collect();
    Settings {
        command: words.join(" "),
        name: arguments.join(" "),
        answer_ns: if uses_screen(args) { args.refresh_ns() } else { ANSWER_NS },
        clock: args.clock(),
        engine: args.engine(),
        period_ns: args.period_ns(),
        interval_bytes: args.interval_bytes(),
        question: Question {
            window_ns: args.window_ns(),
            filters: Filters {
                focus: args.display.focus.clone(),
                ignore: args.display.ignore.clone(),
                tagfocus: [&args.display.tagfocus, &args.display.thread, &args.display.process]
                    .into_iter()
                    .flatten()
                    .cloned()
                    .collect(),
                tagignore: args.display.tagignore.clone(),
                ..Filters::default()
            },
            sort: args.sort(),
            own: args.own_code(),
            hides_kernel: args.stacks.kernel == Some(KernelFrames::Off),
            ..Question::default()
        },
        follow: !args.no_follow,
        sources: SourceFinder {
            directories: args.display.source_path.clone(),
            current: std::env::current_dir().ok(),
            embedded: &[],
        },
        symbols: SymbolOptions {
            servers: args.uses_debuginfod().then(DebuginfodClient::from_environment),
            memory_bytes: args.symbol_memory_bytes(),
            reads_files: true,
        },
        budget: args.budget(),
        memory_bytes: args.memory_bytes(),
        interpreter_view: args.interpreter_view(),
        // On the screen, a key shows or hides them.
        keeps_kernel: uses_screen(args) || args.stacks.kernel == Some(KernelFrames::On),
        base: None,
        sample_times: false,
    }
}
