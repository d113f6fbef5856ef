//! The arguments of `sigtop record` and `sigtop view`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::groups::{ConfigArgs, DisplayArgs, LimitArgs, SamplingArgs, ScreenArgs, StackArgs, SymbolArgs};
use super::parsers::{ProcessSelector, keyword_parser, parse_selector};
use super::push::RecordPushArgs;
use super::watch::WatchArgs;
use crate::app::metrics::parse_address;
use crate::app::trigger::Trigger;
use crate::pprof::format::SaveFormat;
use crate::tui::OnQuit;
use crate::tui::command::options::duration;

/// The arguments of `sigtop record`.
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// Output file; its extension selects the format, .sigtop is a recording. `-` is stdout, with
    /// symbols, to pipe a recording into `sigtop view -`. With --keep or --when, %t is the time; with
    /// --repeat, %n is the number
    #[arg(long, short, value_name = "FILE", required_unless_present = "push")]
    pub output: Option<PathBuf>,

    /// Write this format, regardless of the extension
    #[arg(long, value_name = "FORMAT", value_parser = keyword_parser::<SaveFormat>())]
    pub format: Option<SaveFormat>,

    /// Stop after this time [default: when the program exits, or on Ctrl-C]
    #[arg(long, short, value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,

    /// Start to sample this long after the program was started, or after the call with --pid
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with_all = ["keep", "when"])]
    pub delay: Option<Duration>,

    /// Record so many times, one after the other, each into its file: -o 'base-%n.sigtop'. With
    /// --pid, each takes the --duration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=9999), requires = "output", conflicts_with_all = ["keep", "when", "push", "metrics"])]
    pub repeat: Option<u32>,

    /// Action on a launched program that still runs when the recording stops [default: leave]
    #[arg(long, value_parser = keyword_parser::<OnQuit>(), value_name = "ACTION")]
    pub on_quit: Option<OnQuit>,

    /// Attach to these processes, by PID or name; without the agent, they are sampled from outside
    #[arg(long, short, value_name = "PID|NAME", value_delimiter = ',', value_parser = parse_selector, required_unless_present = "command", conflicts_with = "command")]
    pub pid: Vec<ProcessSelector>,

    /// Do not follow child processes
    #[arg(long)]
    pub no_follow: bool,

    /// Store symbols in the recording, so that it can be read without the binaries
    #[arg(long)]
    pub symbols: bool,

    /// Print errors only
    #[arg(long)]
    pub quiet: bool,

    /// Options of a recorder that keeps the last minutes.
    #[command(flatten)]
    pub black_box: BlackBoxArgs,

    /// Options of a recording that is pushed.
    #[command(flatten)]
    pub push: RecordPushArgs,

    /// Serve Prometheus at this port of this machine, or at an address such as 0.0.0.0:9100: rate,
    /// losses, costs, and counters of the hottest functions, at /metrics
    #[arg(long, help_heading = "Stores", value_name = "[ADDR:]PORT", value_parser = parse_address)]
    pub metrics: Option<SocketAddr>,

    /// Options of the sampling.
    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// Options of the stacks.
    #[command(flatten)]
    pub stacks: StackArgs,

    /// Options of the symbols.
    #[command(flatten)]
    pub debug_information: SymbolArgs,

    /// Limits of sigtop itself.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// The config file to use.
    #[command(flatten)]
    pub config: ConfigArgs,

    /// The program to start, and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = false)]
    pub command: Vec<OsString>,
}

/// The heading of [`BlackBoxArgs`].
const BLACK_BOX: &str = "Black box";

/// Options of a recorder that keeps the last minutes in memory.
#[derive(Args, Clone, Debug)]
pub struct BlackBoxArgs {
    /// Keep the last minutes in memory, and write them at the end or when `sigtop dump` asks
    /// [default: 10m with --when]
    #[arg(long, help_heading = BLACK_BOX, value_name = "DURATION", value_parser = duration, requires = "output")]
    pub keep: Option<Duration>,

    /// Write a file around each moment when this is true: 'cpu>90%' (of one CPU), 'FUNCTION>40%'
    /// (of all samples), 'wait=lock>30%' (of wall-clock time), signal=USR1. ',5s' behind a limit:
    /// for 5 s
    #[arg(long, help_heading = BLACK_BOX, value_name = "CONDITION", value_parser = Trigger::parse, requires = "output")]
    pub when: Vec<Trigger>,

    /// Time in a file before its trigger
    #[arg(long, help_heading = BLACK_BOX, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub before: Duration,

    /// Time in a file after its trigger
    #[arg(long, help_heading = BLACK_BOX, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    pub after: Duration,

    /// Minimum time between a file and the next trigger
    #[arg(long, help_heading = BLACK_BOX, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub cooldown: Duration,

    /// Maximum number of files; the oldest of this run is removed
    #[arg(long, help_heading = BLACK_BOX, value_name = "N", default_value = "20", value_parser = parse_file_count)]
    pub max_files: usize,
}

/// Parses a number of files.
fn parse_file_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| "expected a number from 1 on".to_owned())
}

impl RecordArgs {
    /// Whether the last minutes are kept instead of everything.
    pub fn is_black_box(&self) -> bool {
        self.black_box.keep.is_some() || !self.black_box.when.is_empty()
    }

    /// The equivalent arguments of a watch.
    pub fn watch(&self) -> WatchArgs {
        let RecordArgs { pid, no_follow, symbols, quiet, on_quit, sampling, stacks, .. } = self.clone();
        let RecordArgs { debug_information, limits, config, command, .. } = self.clone();
        let screen = ScreenArgs { quiet, ..ScreenArgs::default() };
        WatchArgs {
            pid,
            no_follow,
            symbols,
            on_quit,
            sampling,
            stacks,
            debug_information,
            limits,
            config,
            command,
            screen,
            ..WatchArgs::default()
        }
    }
}

/// The arguments of `sigtop view`.
#[derive(Args, Clone, Debug)]
pub struct ViewArgs {
    /// Recordings, also those of perf (perf.data), or profiles in any supported format. Several are
    /// shown as one, with the tag `source`. `-` is stdin. From stdin or a pipe, a recording is shown
    /// while it arrives
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Show the differences from this recording or profile
    #[arg(long, alias = "diff_base", value_name = "OLD", conflicts_with = "batch")]
    pub diff_base: Option<PathBuf>,

    /// Options that select samples and how they are shown.
    #[command(flatten)]
    pub display: DisplayArgs,

    /// Options of the stacks.
    #[command(flatten)]
    pub stacks: StackArgs,

    /// Options of the symbols.
    #[command(flatten)]
    pub debug_information: SymbolArgs,

    /// The screen.
    #[command(flatten)]
    pub screen: ScreenArgs,

    /// Print a table instead of showing the screen
    #[arg(long, conflicts_with = "tui", help_heading = "Batch mode")]
    pub batch: bool,

    /// Print the table as JSON
    #[arg(long, conflicts_with = "tui", help_heading = "Batch mode")]
    pub json: bool,

    /// Limits of sigtop itself.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// The config file to use.
    #[command(flatten)]
    pub config: ConfigArgs,
}

impl ViewArgs {
    /// The equivalent arguments of a watch without a target.
    pub fn watch(&self) -> WatchArgs {
        let ViewArgs { display, stacks, debug_information, screen, batch, json, limits, config, .. } = self.clone();
        WatchArgs { display, stacks, debug_information, screen, batch, json, limits, config, ..WatchArgs::default() }
    }
}
