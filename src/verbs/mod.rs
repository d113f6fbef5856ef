//! What the words of the command line do, each from its arguments to its exit status. Here is what they share: why nothing came of one, and
//! the command line as the config file completes it.

mod playing;
mod recording;
mod report;
mod screen;
mod starting;
mod telling;
mod watching;

use std::ffi::OsString;
use std::io::Write;

use sigtop::attach::AttachError;
use sigtop::cli::Watch;
use sigtop::config::{self, Config};
use sigtop::link::aside::AsideError;
use sigtop::record::GoalError;
use sigtop::symbols::source::Sources;
use sigtop::tally::query::Filters;
use sigtop::track::Question;
use sigtop::track::session::{ANSWER_NS, Settings};

pub(crate) use playing::view;
pub(crate) use recording::record;
pub(crate) use report::report;
pub(crate) use screen::has_screen;
pub(crate) use telling::{env, overview, symbols};
pub(crate) use watching::{has_dashes, own_demo, watch_chosen, watch_command, watch_named};

/// A sentence on stderr. If nobody reads there, nobody needs to know, and the exit status still says what happened.
pub(crate) fn complain(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "sigtop: {sentence}");
}

/// Why nothing came of it.
pub(crate) struct Failure {
    pub(crate) sentence: String,
    pub(crate) status: u8,
}

impl Failure {
    /// 125: sigtop itself failed.
    fn own(doing: &str, error: impl std::fmt::Display) -> Failure {
        Failure { sentence: format!("{doing}: {error}"), status: 125 }
    }
}

impl From<AsideError> for Failure {
    fn from(error: AsideError) -> Failure {
        Failure { sentence: error.to_string(), status: 125 }
    }
}

impl From<GoalError> for Failure {
    fn from(error: GoalError) -> Failure {
        let status = if matches!(error, GoalError::UnknownEnding(_)) { 2 } else { 125 };
        Failure { sentence: error.to_string(), status }
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Failure {
        Failure { sentence: error.to_string(), status: error.exit_status() }
    }
}

/// The command line, and what the config file says where it leaves things open.
pub(crate) fn configured(watch: Watch) -> Result<Watch, Failure> {
    let usual = || config::usual_path(|name| std::env::var_os(name));
    let config = match &watch.source.config {
        _ if watch.source.no_config => Ok(Config::default()),
        Some(path) => Config::read(path, true),
        None => usual().map_or_else(|| Ok(Config::default()), |path| Config::read(&path, false)),
    };
    config.map(|config| watch.or(config)).map_err(|error| Failure { sentence: error.to_string(), status: 2 })
}

fn settings(watch: &Watch, command: &[OsString]) -> Settings {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    // A script on the command line is many lines: here it is one.
    let command: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    Settings {
        command: command.join(" "),
        name: words.join(" "),
        answer_ns: ANSWER_NS,
        clock: watch.clock(),
        engine: watch.engine(),
        period_ns: watch.period_ns(),
        question: Question {
            window_ns: watch.window_ns(),
            filters: Filters {
                focus: watch.shown.focus.clone(),
                ignore: watch.shown.ignore.clone(),
                tagfocus: watch.shown.tagfocus.clone(),
                tagignore: watch.shown.tagignore.clone(),
                ..Filters::default()
            },
            sort: watch.sort(),
            ..Question::default()
        },
        follow: !watch.no_follow,
        sources: Sources {
            directories: watch.shown.source_path.clone(),
            current: std::env::current_dir().ok(),
            embedded: &[],
        },
        budget: watch.budget(),
        sample_times: false,
    }
}
