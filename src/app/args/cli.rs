//! The whole command line, with its subcommands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::check::CheckArgs;
use super::explain::ExplainArgs;
use super::groups::{ConfigArgs, SymbolArgs};
use super::push::PushArgs;
use super::record::{RecordArgs, ViewArgs};
use super::report;
use super::watch::WatchArgs;
use crate::sampler::supervisor;
use crate::tui::command::options::duration;

const EXAMPLES: &str = "\
Examples:
  sigtop -- ./app --some-argument       start a program and profile it
  sigtop                                choose from the running processes
  sigtop --pid 4123                     profile one of them; by name: --pid redis-server
  eval $(sigtop env); ./server          start a program with the agent, to profile it later at a lower cost
  LD_PRELOAD=$(sigtop env --path) CPUPROFILE=out.prof ./app    write a profile to a file, as gperftools does
  sigtop --clock wall -- ./app          profile wall-clock time, waiting included
  sigtop --batch -- ./app               no screen: print a table to stderr at the end
  sigtop record -o a.sigtop -- ./app    no screen: record to a file
  sigtop record --keep 10m --when 'cpu>90%,5s' -o 'spike-%t.sigtop' --pid 4123    write a file around each spike
  sigtop view a.sigtop                  replay a recording
  sigtop view --diff-base a.sigtop b.sigtop    compare two recordings or saved profiles
  sigtop explain 4123                   say in ten sentences where the time goes; or of a file: sigtop explain a.sigtop
  sigtop push a.sigtop http://localhost:4318    send it to a store: OpenTelemetry, Pyroscope, Parca, Datadog
  sigtop check --runs 10 -- ./old -- ./new    compare two builds; exit with 1 if the new one is slower
  ssh HOST sigtop record -o - --pid 4123 | sigtop view -    profile on a remote host

Durations: 10us, 500ms, 10s, 2m, 1h; without a unit, seconds.
Exit status: that of the program, or 128+n if signal n terminated it; 0 with --pid; 125 if sigtop failed,
126 if the program cannot be run or profiled, 127 if it was not found, 2 for invalid arguments or settings.
sigtop check: 0 if nothing is slower, 1 if something is, 3 if there are too few samples to tell.
Keys, columns, config file: press ? on the screen, or see man sigtop.";

/// top for stacks: a live profiler in the terminal for any native Linux program.
#[derive(Debug, Parser)]
#[command(
    version,
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    override_usage = "sigtop [OPTIONS] -- COMMAND [ARGUMENTS]...\n       sigtop [OPTIONS] --pid PID|NAME\n       \
                      sigtop record [OPTIONS] -o FILE -- COMMAND [ARGUMENTS]...\n       \
                      sigtop dump PID\n       sigtop view [OPTIONS] FILE\n       sigtop report [OPTIONS] FILE...\n       \
                      sigtop check [OPTIONS] BASE NEW\n       sigtop explain [OPTIONS] FILE|PID|NAME\n       \
                      sigtop push [OPTIONS] FILE URL\n       sigtop demo [OPTIONS]\n       sigtop env [--path|--libprofiler DIR|--header]\n       sigtop symbols [--json] [--debuginfod] PID|FILE|RECORDING",
    after_help = EXAMPLES
)]
pub struct Cli {
    /// The subcommand; without one, sigtop profiles a program or a process.
    #[command(subcommand)]
    pub subcommand: Option<CliSubcommand>,

    /// The arguments without a subcommand.
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum CliSubcommand {
    /// Profile a small demo program with known hot functions
    Demo(Box<WatchArgs>),
    /// Print the shell command that preloads the agent into programs started afterwards
    Env {
        /// Print only the path of the agent library
        #[arg(long)]
        path: bool,

        /// Install the agent in this directory as libprofiler.so.0 and libprofiler.so, and print
        /// the command that lets programs linked with -lprofiler find it
        #[arg(long, value_name = "DIR", conflicts_with = "path")]
        libprofiler: Option<PathBuf>,

        /// Print the C header sigtop.h
        #[arg(long, conflicts_with_all = ["path", "libprofiler"])]
        header: bool,
    },
    /// Print a saved profile as pprof does: functions, callers, graphs, folded stacks
    Report(Box<report::Report>),
    /// Compare a build with a base: exit with 1 if a function has grown beyond chance
    Check(Box<CheckArgs>),
    /// Explain a recording, a saved profile or a running process in at most ten sentences
    Explain(Box<ExplainArgs>),
    /// Show where function names come from, per file, and how to get better ones
    Symbols {
        /// A process, for all files that it maps, a file, or a recording, also one of perf
        #[arg(value_name = "PID|FILE|RECORDING")]
        target: OsString,

        /// Print JSON
        #[arg(long)]
        json: bool,

        /// Whether debug information is downloaded.
        #[command(flatten)]
        debug_information: SymbolArgs,

        /// The config file to use.
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Serve a coding assistant by the Model Context Protocol, on stdin and stdout
    Mcp,
    /// Print the manual page: sigtop man | man -l -
    Man,
    /// Print the completions for a shell
    Completions {
        /// The shell.
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Ask a running `sigtop record --keep` for a file of the last minutes, and print its path
    Dump {
        /// The recorder, or the process that it records
        #[arg(value_name = "PID")]
        pid: u32,
    },
    /// Send a recording or a saved profile to a profile store
    Push(Box<PushArgs>),
    /// Record samples to a file, without a screen
    Record(Box<RecordArgs>),
    /// Replay a recording, or show a saved profile, on the same screen
    View(Box<ViewArgs>),
    /// Sample processes for a viewer, which is at standard input
    #[command(hide = true, name = supervisor::SUBCOMMAND)]
    Sampler,
    /// Run the demo program
    #[command(hide = true)]
    DemoTarget {
        /// Exit when this process does
        #[arg(long, value_name = "PID")]
        viewer: Option<u32>,
        /// Exit after this time
        #[arg(value_parser = duration)]
        duration: Option<Duration>,
    },
}
