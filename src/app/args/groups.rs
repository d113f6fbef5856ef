//! Groups of options that several subcommands share.

use std::path::PathBuf;

use clap::Args;

use super::parsers::{keyword_parser, parse_own, parse_pattern, parse_process, parse_tag, parse_thread, parse_window};
use crate::app::jit_maps::JitMaps;
use crate::profile::interpreter_view::InterpreterView;
use crate::profile::kernel_frames::KernelFrames;
use crate::tally::query::tags::TagFilter;
use crate::tally::query::{OwnCode, Pattern, Sort};
use crate::tui::command::options::{self, Window};
use crate::tui::theme::ThemeName;
use crate::tui::{Keymap, NameStyle};
use crate::wire::{Clock, Engine};

/// Options of the sampling.
#[derive(Args, Clone, Debug, Default)]
pub struct SamplingArgs {
    /// Sampling clock: CPU time, wall-clock time of all threads, or memory: allocated bytes, or
    /// those of them that are not freed yet [default: cpu]
    #[arg(long, value_parser = keyword_parser::<Clock>(), value_name = "CLOCK", help_heading = "Sampling")]
    pub clock: Option<Clock>,

    /// Timer source: one POSIX timer per thread, one setitimer(2) per process, or sampling from
    /// outside without the agent, by perf events or by ptrace(2). With itimer, a target that resets
    /// SIGPROF to its default action is killed, blocking system calls fail with EINTR, and time is
    /// attributed to threads inexactly [default: threads; external for a process without the agent]
    #[arg(long, value_parser = keyword_parser::<Engine>(), value_name = "ENGINE", help_heading = "Sampling")]
    pub engine: Option<Engine>,

    /// Sampling frequency in Hz [default: 99]
    #[arg(long, short = 'F', visible_alias = "freq", value_name = "N", value_parser = options::period_ns_of_hz, conflicts_with = "period", help_heading = "Sampling")]
    pub hz: Option<u64>,

    /// Sampling period, such as 10ms
    #[arg(long, value_name = "DURATION", value_parser = options::period_ns, help_heading = "Sampling")]
    pub period: Option<u64>,

    /// Mean number of allocated bytes between two samples of the clocks of memory, such as 64k.
    /// More in threads that allocate very quickly (see --budget) [default: 512k]
    #[arg(long, value_name = "SIZE", value_parser = options::interval_bytes, help_heading = "Sampling")]
    pub bytes: Option<u64>,

    /// Halve the sampling frequency while sampling (signal handlers, or stops from outside) takes
    /// more than this share of the target's CPU time. Of memory, sample each thread at most 1 000
    /// times a second for each percent; 100% is no limit [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = options::percent, help_heading = "Sampling")]
    pub budget: Option<f64>,

    /// Have a launched Python 3.12 or Node.js name the code that it generates, in
    /// /tmp/perf-PID.map, unless the environment sets the variable already [default: auto]
    #[arg(long, value_name = "MODE", value_parser = keyword_parser::<JitMaps>(), help_heading = "Sampling")]
    pub jit: Option<JitMaps>,
}

/// Options that select samples and how they are shown.
#[derive(Args, Clone, Debug, Default)]
pub struct DisplayArgs {
    /// Keep only samples with a matching function, file or module
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Display")]
    pub focus: Vec<Pattern>,

    /// Drop samples with a matching function, file or module
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Display")]
    pub ignore: Vec<Pattern>,

    /// Keep only samples of matching threads: tid=N, pid=N, thread=REGEX, process=REGEX, or of
    /// those that wait: wait=REGEX (lock, read, poll …), holder=REGEX, or of one of several files:
    /// source=NAME
    #[arg(long, value_name = "TAG", value_parser = parse_tag, help_heading = "Display")]
    pub tagfocus: Vec<TagFilter>,

    /// Keep only samples of threads with a matching name; same as --tagfocus thread=REGEX
    #[arg(long, value_name = "REGEX", value_parser = parse_thread, help_heading = "Display")]
    pub thread: Vec<TagFilter>,

    /// Keep only samples of processes with a matching name; same as --tagfocus process=REGEX
    #[arg(long, value_name = "REGEX", value_parser = parse_process, help_heading = "Display")]
    pub process: Vec<TagFilter>,

    /// Drop samples of matching threads
    #[arg(long, value_name = "TAG", value_parser = parse_tag, help_heading = "Display")]
    pub tagignore: Vec<TagFilter>,

    /// Length of the rolling window, at most 60s, or `all` [default: 10s, and all of a file]
    #[arg(long, value_name = "DURATION", value_parser = parse_window, help_heading = "Display")]
    pub window: Option<Window>,

    /// Sort rows by this column [default: flat]
    #[arg(long, value_parser = keyword_parser::<Sort>(), value_name = "COLUMN", conflicts_with = "cum", help_heading = "Display")]
    pub sort: Option<Sort>,

    /// Sort rows by cum; same as --sort cum
    #[arg(long, help_heading = "Display")]
    pub cum: bool,

    /// Show own code alone: the time of libraries and runtimes belongs to the own function that
    /// called them. Own code is what REGEX matches (functions, files, modules) or, without it, what
    /// has its source outside of /usr, of packages and of the language's library; without debug
    /// information, the executable less known runtimes. On the screen, o does the same
    #[arg(
        long,
        value_name = "REGEX",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_own,
        help_heading = "Display"
    )]
    pub own: Option<OwnCode>,

    /// The pattern of own code, unless `--own` has one; only the config file sets it.
    #[arg(skip)]
    pub own_pattern: Option<Pattern>,

    /// Style of function names [default: short; full in tables]
    #[arg(long, value_parser = keyword_parser::<NameStyle>(), value_name = "STYLE", help_heading = "Display")]
    pub names: Option<NameStyle>,

    /// Search these directories for source files first, separated by colons
    #[arg(long, value_name = "DIR", value_delimiter = ':', help_heading = "Display")]
    pub source_path: Vec<PathBuf>,
}

/// Options of the symbols.
#[derive(Args, Clone, Debug, Default)]
pub struct SymbolArgs {
    /// Download missing debug information from the debuginfod servers in DEBUGINFOD_URLS, with
    /// curl. The servers learn the build ids of the files
    #[arg(long, conflicts_with = "no_debuginfod", help_heading = "Symbols")]
    pub debuginfod: bool,

    /// Download nothing, overriding the config file
    #[arg(long, help_heading = "Symbols")]
    pub no_debuginfod: bool,
}

/// Options of the stacks.
#[derive(Args, Clone, Debug, Default)]
pub struct StackArgs {
    /// Frames to show of Python programs: Python functions, both, or native frames only [default:
    /// functions]
    #[arg(long, value_parser = keyword_parser::<InterpreterView>(), value_name = "FRAMES", help_heading = "Display")]
    pub python: Option<InterpreterView>,

    /// Functions of the kernel, which perf events sample if the user may know them [default: on on
    /// the screen, off in tables and saved profiles; recordings keep them]
    #[arg(long, value_parser = keyword_parser::<KernelFrames>(), value_name = "WHEN", help_heading = "Display")]
    pub kernel: Option<KernelFrames>,
}

/// The screen.
#[derive(Args, Clone, Debug, Default)]
pub struct ScreenArgs {
    /// Color theme [default: dark, or light if the terminal reports a light background]
    #[arg(long, value_parser = keyword_parser::<ThemeName>(), value_name = "NAME", help_heading = "Screen")]
    pub theme: Option<ThemeName>,

    /// Minimum time between two updates of the numbers and of the order of rows [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = options::refresh_ns, help_heading = "Screen")]
    pub refresh: Option<u64>,

    /// Use the mouse, overriding the config file
    #[arg(long, conflicts_with = "no_mouse", help_heading = "Screen")]
    pub mouse: bool,

    /// Leave the mouse to the terminal
    #[arg(long, help_heading = "Screen")]
    pub no_mouse: bool,

    /// Draw on /dev/tty, even if stdin or stdout is redirected
    #[arg(long, help_heading = "Screen")]
    pub tui: bool,

    /// Print nothing on the terminal after the screen closes
    #[arg(long, help_heading = "Screen")]
    pub quiet: bool,

    /// The key table; only the config file changes it.
    #[arg(skip)]
    pub keys: Keymap,
}

/// Limits of sigtop itself.
#[derive(Args, Clone, Debug, Default)]
pub struct LimitArgs {
    /// Memory for stacks and history. Beyond it, the oldest history is dropped, and callers of
    /// rare stacks are replaced by `[memory limit]` [default: 512MB, or 64MB with --keep]
    #[arg(long, value_name = "SIZE", value_parser = options::memory_bytes, help_heading = "Limits")]
    pub memory: Option<u64>,

    /// Memory for debug information. Beyond it, and while no name is asked for, large debug
    /// information is freed, and read again when it is needed. A single file may take more while
    /// its names are asked for: it is read as a whole, not mapped [default: 300MB, or 64MB with
    /// --keep]
    #[arg(long, value_name = "SIZE", value_parser = options::memory_bytes, help_heading = "Limits")]
    pub symbol_memory: Option<u64>,
}

/// The config file to use.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigArgs {
    /// Read this config file instead of $XDG_CONFIG_HOME/sigtop/config.toml
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub config: Option<PathBuf>,

    /// Do not read a config file
    #[arg(long, conflicts_with = "config", help_heading = "Configuration")]
    pub no_config: bool,
}
