//! The arguments of a watch, and the defaults of its options.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::groups::{ConfigArgs, DisplayArgs, LimitArgs, SamplingArgs, ScreenArgs, StackArgs, SymbolArgs};
use super::parsers::{ProcessSelector, keyword_parser, parse_selector};
use crate::app::config::Config;
use crate::pprof::format::SaveFormat;
use crate::profile::DEFAULT_MEMORY_BYTES;
use crate::profile::interpreter_view::InterpreterView;
use crate::symbols::worker::DEFAULT_MEMORY_BYTES as DEFAULT_SYMBOL_MEMORY_BYTES;
use crate::tally::query::{OwnCode, Sort};
use crate::tui::OnQuit;
use crate::tui::command::options::duration;
use crate::wire::{Clock, Engine};

/// The target and the options of a watch.
#[derive(Args, Clone, Debug, Default)]
pub struct WatchArgs {
    /// Attach to these processes, by PID or name
    #[arg(long, short, value_name = "PID|NAME", value_delimiter = ',', value_parser = parse_selector, conflicts_with = "command")]
    pub pid: Vec<ProcessSelector>,

    /// Wait for the first process of a name given to --pid
    #[arg(long, requires = "pid")]
    pub wait: bool,

    /// Do not follow child processes
    #[arg(long)]
    pub no_follow: bool,

    /// Options of the sampling.
    #[command(flatten)]
    pub sampling: SamplingArgs,

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

    /// Action of `q`, or of the last table of `--count`, on a launched program that still runs; with
    /// `leave`, the program also survives a closed terminal [default: ask; in batch mode, leave]
    #[arg(long, value_parser = keyword_parser::<OnQuit>(), value_name = "ACTION", help_heading = "Screen")]
    pub on_quit: Option<OnQuit>,

    /// Also save all samples to this file; its extension selects the format, .sigtop is a recording
    /// for `sigtop view`
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    pub save: Option<PathBuf>,

    /// Save in this format, regardless of the extension
    #[arg(long, value_name = "FORMAT", value_parser = keyword_parser::<SaveFormat>(), requires = "save", help_heading = "Recording")]
    pub format: Option<SaveFormat>,

    /// Store symbols in the recording, so that it can be read without the binaries
    #[arg(long, help_heading = "Recording")]
    pub symbols: bool,

    /// Print tables instead of showing the screen
    #[arg(long, conflicts_with = "tui", help_heading = "Batch mode")]
    pub batch: bool,

    /// Print tables as JSON, one object per line: values as integers, percentages unrounded.
    /// Without a target, print the processes that can be watched
    #[arg(long, conflicts_with = "tui", help_heading = "Batch mode")]
    pub json: bool,

    /// Time between two tables [default: only one, at the end]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Batch mode")]
    pub interval: Option<Duration>,

    /// Exit after this number of tables
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Batch mode")]
    pub count: Option<u64>,

    /// Write tables to this file (`-` is stdout) [default: stderr; with --pid, stdout]
    #[arg(long, conflicts_with = "tui", value_name = "FILE", help_heading = "Batch mode")]
    pub table: Option<PathBuf>,

    /// Limits of sigtop itself.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// The config file to use.
    #[command(flatten)]
    pub config: ConfigArgs,

    /// Write all stacks and the loss counters to this file at the end
    #[arg(long, value_name = "FILE", hide = true)]
    pub raw: Option<PathBuf>,

    /// The program to start, and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = false)]
    pub command: Vec<OsString>,
}

/// 99 Hz: no divisor or multiple of the usual timer frequencies, so that samples do not fall into
/// step with a periodic target.
const DEFAULT_PERIOD_NS: u64 = 1_000_000_000 / 99;
/// The interval of tcmalloc and heapprofd. A sample costs a few microseconds, and a program that
/// allocates 1 GiB/s has 2000 a second.
const DEFAULT_INTERVAL_BYTES: u64 = 512 << 10;
const DEFAULT_WINDOW_NS: u64 = 10_000_000_000;
/// Rows that change their place more often cannot be read.
const REFRESH_NS: u64 = 1_000_000_000;

impl WatchArgs {
    /// Takes the options that the command line does not set from the config file.
    pub fn merge(self, Config { defaults, keys }: Config) -> WatchArgs {
        let WatchArgs { sampling, display, screen, .. } = self;
        // --hz and --period both override the file's period.
        let has_period = sampling.hz.is_some() || sampling.period.is_some();
        let sampling = SamplingArgs {
            clock: sampling.clock.or(defaults.clock),
            engine: sampling.engine.or(defaults.engine),
            period: sampling.period.or(defaults.period.filter(|_| !has_period)),
            ..sampling
        };
        let display = DisplayArgs {
            window: display.window.or(defaults.window),
            sort: display.sort.or(defaults.sort.filter(|_| !display.cum)),
            own_pattern: defaults.own,
            names: display.names.or(defaults.names),
            source_path: [display.source_path, defaults.source_path].concat(),
            ..display
        };
        let screen = ScreenArgs {
            theme: screen.theme.or(defaults.theme),
            refresh: screen.refresh.or(defaults.refresh),
            no_mouse: screen.no_mouse || (!screen.mouse && defaults.mouse == Some(false)),
            keys,
            ..screen
        };
        let limits = LimitArgs {
            memory: self.limits.memory.or(defaults.memory),
            symbol_memory: self.limits.symbol_memory.or(defaults.symbol_memory),
        };
        let python = self.stacks.python.or(defaults.python);
        let kernel = self.stacks.kernel.or(defaults.kernel);
        let stacks = StackArgs { python, kernel };
        let symbols = self.debug_information;
        let asks = symbols.debuginfod || (!symbols.no_debuginfod && defaults.debuginfod == Some(true));
        let debug_information = SymbolArgs { debuginfod: asks, ..symbols };
        let on_quit = self.on_quit.or(defaults.on_quit);
        WatchArgs { sampling, display, stacks, screen, debug_information, limits, on_quit, ..self }
    }

    /// The frames that are shown of threads that run an interpreter.
    pub fn interpreter_view(&self) -> InterpreterView {
        self.stacks.python.unwrap_or_default()
    }

    /// The choice of own code, and whether foreign code is folded into it.
    pub fn own_code(&self) -> OwnCode {
        let OwnCode { folds, pattern } = self.display.own.clone().unwrap_or_default();
        OwnCode { folds, pattern: pattern.or_else(|| self.display.own_pattern.clone()) }
    }

    /// The sampling clock.
    pub fn clock(&self) -> Clock {
        self.sampling.clock.unwrap_or(Clock::Prof)
    }

    /// The timer source.
    pub fn engine(&self) -> Engine {
        self.sampling.engine.unwrap_or(Engine::Threads)
    }

    /// The sampling period, in ns.
    pub fn period_ns(&self) -> u64 {
        self.sampling.hz.or(self.sampling.period).unwrap_or(DEFAULT_PERIOD_NS)
    }

    /// The mean number of bytes between two samples of a clock of memory.
    pub fn interval_bytes(&self) -> u64 {
        self.sampling.bytes.unwrap_or(DEFAULT_INTERVAL_BYTES)
    }

    /// The share of the target's CPU time that the signal handlers may use, 0 to 1.
    pub fn budget(&self) -> f64 {
        self.sampling.budget.unwrap_or(0.01)
    }

    /// The memory limit for stacks and history, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.limits.memory.unwrap_or(DEFAULT_MEMORY_BYTES)
    }

    /// The memory for debug information, in bytes.
    pub fn symbol_memory_bytes(&self) -> u64 {
        self.limits.symbol_memory.unwrap_or(DEFAULT_SYMBOL_MEMORY_BYTES)
    }

    /// Whether debuginfod servers are asked.
    pub fn uses_debuginfod(&self) -> bool {
        self.debug_information.debuginfod
    }

    /// Length of the window in ns; `None` is everything since the start.
    pub fn window_ns(&self) -> Option<u64> {
        self.display.window.map_or(Some(DEFAULT_WINDOW_NS), |window| window.0)
    }

    /// The time between two updates of the numbers on the screen, in ns.
    pub fn refresh_ns(&self) -> u64 {
        self.screen.refresh.unwrap_or(REFRESH_NS)
    }

    /// The sort order of rows.
    pub fn sort(&self) -> Sort {
        if self.display.cum { Sort::Cum } else { self.display.sort.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::args::Cli;
    use crate::app::config::Defaults;
    use crate::tally::query::Pattern;
    use crate::tui::command::options::Window;
    use clap::Parser;

    #[test]
    fn argument_definitions_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_after_the_dashes_belong_to_the_program() {
        let cli = Cli::try_parse_from(["sigtop", "--hz", "250", "--", "./app", "--pid", "-x"]).expect("valid");
        assert_eq!(cli.watch.period_ns(), 4_000_000);
        assert_eq!(cli.watch.command, ["./app", "--pid", "-x"]);
        assert!(Cli::try_parse_from(["sigtop", "--pid", "1", "--", "x"]).is_err());
        assert!(Cli::try_parse_from(["sigtop", "--focus", "("]).is_err());
    }

    #[test]
    fn options_have_the_names_that_other_profilers_use() {
        let arguments = "-F 100 --clock wall --sort total --thread ^worker --process srv -- x";
        let watch = Cli::try_parse_from(["sigtop"].into_iter().chain(arguments.split(' '))).expect("valid").watch;
        assert_eq!((watch.period_ns(), watch.clock(), watch.sort()), (10_000_000, Clock::Real, Sort::Cum));
        let tags = watch.display.thread.iter().chain(&watch.display.process).map(|tag| tag.text());
        assert_eq!(tags.collect::<Vec<_>>(), ["thread=^worker", "process=srv"]);
        let watch =
            Cli::try_parse_from(["sigtop", "--freq", "50", "--clock", "real", "--sort", "self"]).expect("valid").watch;
        assert_eq!((watch.period_ns(), watch.clock(), watch.sort()), (20_000_000, Clock::Real, Sort::Flat));
    }

    #[test]
    fn own_code_is_an_option_with_or_without_a_pattern() {
        let own = |arguments: &[&str], file: Option<&str>| {
            let own = file.map(|text| Pattern::new(text).expect("valid"));
            let config = Config { defaults: Defaults { own, ..Defaults::default() }, ..Config::default() };
            let cli = Cli::try_parse_from(["sigtop"].iter().chain(arguments)).expect("valid");
            let OwnCode { folds, pattern } = cli.watch.merge(config).own_code();
            (folds, pattern.map(|pattern| pattern.text().to_owned()))
        };
        let pattern = |text: &str| Some(text.to_owned());
        assert_eq!(own(&[], None), (false, None));
        assert_eq!(own(&["--own", "--", "./app"], None), (true, None));
        assert_eq!(own(&["--own=^app::"], None), (true, pattern("^app::")));
        assert_eq!(own(&[], Some("^lib")), (false, pattern("^lib")), "the file says what is own, and folds nothing");
        assert_eq!(own(&["--own"], Some("^lib")), (true, pattern("^lib")));
        assert_eq!(own(&["--own=^app::"], Some("^lib")), (true, pattern("^app::")));
        assert!(Cli::try_parse_from(["sigtop", "--own=("]).is_err());
    }

    #[test]
    fn command_line_overrides_the_config_file() {
        let file = || {
            let defaults = Defaults {
                clock: Some(Clock::Real),
                period: Some(1_000_000),
                window: Some(Window(None)),
                sort: Some(Sort::Name),
                mouse: Some(false),
                refresh: Some(300_000_000),
                debuginfod: Some(true),
                ..Defaults::default()
            };
            Config { defaults, ..Config::default() }
        };
        let watch = |arguments: &[&str]| {
            let arguments = ["sigtop"].iter().chain(arguments);
            Cli::try_parse_from(arguments).expect("valid").watch.merge(file())
        };
        let unset = watch(&[]);
        assert_eq!((unset.clock(), unset.engine(), unset.period_ns()), (Clock::Real, Engine::Threads, 1_000_000));
        assert_eq!((unset.window_ns(), unset.sort(), unset.screen.no_mouse), (None, Sort::Name, true));
        let set = watch(&["--clock", "prof", "--hz", "100", "--window", "2s", "--cum", "--mouse"]);
        assert_eq!((set.clock(), set.period_ns()), (Clock::Prof, 10_000_000));
        assert_eq!((set.window_ns(), set.sort(), set.screen.no_mouse), (Some(2_000_000_000), Sort::Cum, false));
        assert!(unset.uses_debuginfod() && !watch(&["--no-debuginfod"]).uses_debuginfod());
        assert!(!WatchArgs::default().uses_debuginfod());
        assert_eq!(watch(&["--period", "2ms"]).period_ns(), 2_000_000);
        assert_eq!((unset.refresh_ns(), watch(&["--refresh", "0.2"]).refresh_ns()), (300_000_000, 200_000_000));
        assert_eq!(WatchArgs::default().refresh_ns(), 1_000_000_000);
    }
}
