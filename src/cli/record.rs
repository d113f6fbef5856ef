//! The arguments of `sigtop record` and `sigtop view`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Sampling, Screen, Shown, Source, Watch, Whom, format, whom};
use crate::tui::kinds::Kind;
use crate::tui::setting::duration;

/// What to record, and where to.
#[derive(Args, Clone, Debug)]
pub struct Record {
    /// Write to this file; its ending is the format, .sigtop is a recording. `-` is stdout, for `sigtop view -` at the other
    /// end of a pipe, with names
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// Write this format, whatever the ending
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    pub format: Option<Kind>,

    /// End the recording after so long [default: with the program, or at Ctrl-C]
    #[arg(long, short, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,

    /// Record these processes, by pid or name, which were started with the agent
    #[arg(long, short, value_name = "PID|NAME", value_delimiter = ',', value_parser = whom, required_unless_present = "command", conflicts_with = "command")]
    pub pid: Vec<Whom>,

    /// Record one process only, not its children
    #[arg(long)]
    pub no_follow: bool,

    /// Record names too, so that nobody needs the binaries to read them
    #[arg(long)]
    pub symbols: bool,

    /// Say nothing but what goes wrong
    #[arg(long)]
    pub quiet: bool,

    /// How samples are taken.
    #[command(flatten)]
    pub sampling: Sampling,

    /// Where settings come from.
    #[command(flatten)]
    pub source: Source,

    /// The program to start, and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = false)]
    pub command: Vec<OsString>,
}

impl Record {
    /// The watch that is recorded.
    pub fn watch(&self) -> Watch {
        let Record { pid, no_follow, symbols, quiet, sampling, source, command, .. } = self.clone();
        let screen = Screen { quiet, ..Screen::default() };
        Watch { pid, no_follow, symbols, sampling, source, command, screen, ..Watch::default() }
    }
}

/// What to show, and how.
#[derive(Args, Clone, Debug)]
pub struct View {
    /// A recording or a profile of any format that is read: a file, or `-` for stdin, where a recording is shown as it comes
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// What is shown of it.
    #[command(flatten)]
    pub shown: Shown,

    /// The screen.
    #[command(flatten)]
    pub screen: Screen,

    /// No screen: print a table
    #[arg(long, conflicts_with = "tui", help_heading = "Without a screen")]
    pub batch: bool,

    /// Where settings come from.
    #[command(flatten)]
    pub source: Source,
}

impl View {
    /// As a watch that has no target.
    pub fn watch(&self) -> Watch {
        let View { shown, screen, batch, source, .. } = self.clone();
        Watch { shown, screen, batch, source, ..Watch::default() }
    }
}
