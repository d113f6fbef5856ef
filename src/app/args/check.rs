//! The arguments of `sigtop check`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::groups::{ConfigArgs, SymbolArgs};
use super::parsers::parse_own;
use crate::check::rules::{GrowthRule, parse_limit};
use crate::tally::query::OwnCode;

/// The arguments of `sigtop check`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("format").multiple(false)))]
pub struct CheckArgs {
    /// The base: a recording or a profile in any format, or a directory of them
    #[arg(value_name = "BASE")]
    pub base_file: Option<PathBuf>,

    /// The new build: likewise
    #[arg(value_name = "NEW", requires = "base_file")]
    pub new_file: Option<PathBuf>,

    /// Files of the base; five or more a side show how much runs differ
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "new", conflicts_with = "base_file")]
    pub base: Vec<PathBuf>,

    /// Files of the new build
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "base")]
    pub new: Vec<PathBuf>,

    /// Run both commands this number of times, in turns, and compare the runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000), requires = "commands", conflicts_with_all = ["base", "base_file"])]
    pub runs: Option<u32>,

    /// Sampling frequency of the runs in Hz [default: 99]
    #[arg(long, short = 'F', visible_alias = "freq", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "runs")]
    pub hz: Option<u32>,

    /// Fail if a matching function has grown by more than this, and chance does not explain it,
    /// such as 'parse>+3%' [default: any growth of any function]
    #[arg(long, value_name = "REGEX>PERCENT", value_parser = GrowthRule::parse, help_heading = "Verdict")]
    pub fail_on: Vec<GrowthRule>,

    /// Fail if the total of a run or file has grown by more than this, such as '+2%' [default with
    /// --runs: by anything]
    #[arg(long, value_name = "PERCENT", value_parser = parse_limit, help_heading = "Verdict")]
    pub total: Option<f64>,

    /// Compare shares in the total, or values per run or file [default: share; with --runs, time]
    #[arg(long, value_enum, value_name = "MEASURE", help_heading = "Verdict")]
    pub by: Option<MeasureChoice>,

    /// Count what a function calls as its own
    #[arg(long, help_heading = "Verdict")]
    pub cum: bool,

    /// Compare own functions, to which the values of libraries and runtimes that they call belong.
    /// Own code is what REGEX matches (functions, files, modules) or, without it, the same as in
    /// reports
    #[arg(
        long,
        value_name = "REGEX",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_own,
        help_heading = "Verdict"
    )]
    pub own: Option<OwnCode>,

    /// Sample type to compare: a name, or an index from 0 [default: the profile's own]
    #[arg(
        long,
        alias = "sample_index",
        value_name = "VALUE",
        default_value = "",
        hide_default_value = true,
        help_heading = "Verdict"
    )]
    pub sample_index: String,

    /// Print Markdown
    #[arg(long, group = "format", help_heading = "Output")]
    pub markdown: bool,

    /// Print JSON
    #[arg(long, group = "format", help_heading = "Output")]
    pub json: bool,

    /// Print annotations for GitHub Actions, and the text
    #[arg(long, group = "format", help_heading = "Output")]
    pub github: bool,

    /// Whether debug information is downloaded.
    #[command(flatten)]
    pub debug_information: SymbolArgs,

    /// The config file to use.
    #[command(flatten)]
    pub config: ConfigArgs,

    /// The commands of --runs: the base's, `--`, and the new build's
    #[arg(last = true, value_name = "OLD... -- NEW", requires = "runs")]
    pub commands: Vec<OsString>,
}

/// The number that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MeasureChoice {
    /// The share of a function in the total
    Share,
    /// The value of a function per run or file
    Time,
}
