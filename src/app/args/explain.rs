//! The arguments of `sigtop explain`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::groups::{ConfigArgs, SamplingArgs};
use crate::tui::command::options::duration;

/// The arguments of `sigtop explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// A recording, a profile in any supported format, or a process by PID or name
    #[arg(value_name = "FILE|PID|NAME")]
    pub target: OsString,

    /// Sample a process for this time, by wall-clock time unless --clock says otherwise
    #[arg(long, short, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    pub duration: Duration,

    /// Options of the sampling.
    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// The config file to use.
    #[command(flatten)]
    pub config: ConfigArgs,
}
