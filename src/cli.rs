//! Arguments as typed to options as meant. What the command line leaves open the config file says, and then the defaults
//! that stand here.

pub mod ordering;
pub mod record;
pub mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::config::Config;
use crate::link::wire::{Clock, Engine};
use crate::tally::query::{Pattern, Sort};
use crate::tally::tag::Tag;
use crate::tui::kinds::{self, Kind};
use crate::tui::setting::{self, Choice, duration};
use crate::tui::theme::ThemeName;
use crate::tui::{Keymap, NameStyle, OnQuit};

const EXAMPLES: &str = "\
Examples:
  sigtop -- ./app --its --arguments     start a program and watch it
  sigtop                                choose from what was started with the agent
  sigtop --pid 4123                     watch one of them; by name: --pid redis-server
  eval $(sigtop env); ./server          start one with the agent, to watch it later
  LD_PRELOAD=$(sigtop env --path) CPUPROFILE=out.prof ./app    as with gperftools: a profile in a file
  sigtop --clock real -- ./app          where it waits, not only where it computes
  sigtop --batch -- ./app               no screen: a table on stderr at the end
  sigtop record -o a.sigtop -- ./app    no screen: everything into a file
  sigtop view a.sigtop                  the screen, of what was recorded
  ssh HOST sigtop record -o - --pid 4123 | sigtop view -    watch from afar

Times: a bare number is seconds; 10us, 500ms, 10s, 2m, 1h are understood.
Exit status: the program's own, or 128+n if signal n ended it; with --pid 0; 125 if sigtop failed,
126 if it cannot be run or watched, 127 if it was not found, 2 for wrong arguments or settings.
Keys, columns, config file: ? on the screen, and man sigtop.";

/// top for stacks: a live profiler in the terminal for any native Linux program.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    override_usage = "sigtop [OPTIONS] -- COMMAND [ARGUMENTS]...\n       sigtop [OPTIONS] --pid PID|NAME\n       \
                      sigtop record [OPTIONS] -o FILE -- COMMAND [ARGUMENTS]...\n       \
                      sigtop view [OPTIONS] FILE\n       sigtop report [OPTIONS] FILE...\n       \
                      sigtop demo [OPTIONS]\n       sigtop env [--path|--libprofiler DIR|--header]\n       sigtop symbols PID|FILE",
    after_help = EXAMPLES
)]
pub struct Cli {
    /// What else sigtop does.
    #[command(subcommand)]
    pub verb: Option<Verb>,

    /// How to watch.
    #[command(flatten)]
    pub watch: Watch,
}

/// What else sigtop does.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Watch a small program with known hot functions, to see what the screen says
    Demo(Box<Watch>),
    /// Print the line that preloads the agent into what a shell starts from then on
    Env {
        /// Print only the path of the agent's library
        #[arg(long)]
        path: bool,

        /// Put the agent into this directory as libprofiler.so.0 and libprofiler.so, and print the
        /// line that has programs linked with -lprofiler find it there
        #[arg(long, value_name = "DIR", conflicts_with = "path")]
        libprofiler: Option<PathBuf>,

        /// Print the C header sigtop.h
        #[arg(long, conflicts_with_all = ["path", "libprofiler"])]
        header: bool,
    },
    /// Print a saved profile as pprof does: functions, callers, graphs, folded stacks
    Report(Box<report::Report>),
    /// Say where the names of functions come from, file by file, and what would give better ones
    Symbols {
        /// A process, whose files are meant, or a file
        #[arg(value_name = "PID|FILE")]
        what: OsString,
    },
    /// Record samples into a file, without a screen
    Record(Box<record::Record>),
    /// Show a recording as if it were running: the same screen, with its past
    View(Box<record::View>),
    /// What `demo` starts
    #[command(hide = true)]
    DemoTarget {
        /// End when this process has
        #[arg(long, value_name = "PID")]
        viewer: Option<u32>,
        /// Run so long only
        #[arg(value_parser = duration)]
        duration: Option<Duration>,
    },
}

/// How samples are taken.
#[derive(Args, Clone, Debug, Default)]
pub struct Sampling {
    /// What to measure: CPU time, or wall time of sleeping threads too [default: prof]
    #[arg(long, value_parser = one_of(&setting::CLOCKS), value_name = "CLOCK", help_heading = "Sampling")]
    pub clock: Option<Clock>,

    /// Timer source: one POSIX timer per thread, or one setitimer(2) per process. With itimer a
    /// target that resets SIGPROF to its default is killed, system calls that wait fail with EINTR,
    /// and time is charged to threads inexactly [default: threads]
    #[arg(long, value_parser = one_of(&setting::ENGINES), value_name = "ENGINE", help_heading = "Sampling")]
    pub engine: Option<Engine>,

    /// Samples a second of the clock [default: 99]
    #[arg(long, value_name = "N", value_parser = setting::hertz, conflicts_with = "period", help_heading = "Sampling")]
    pub hz: Option<u64>,

    /// Time between two samples
    #[arg(long, value_name = "TIME", value_parser = setting::period_ns, help_heading = "Sampling")]
    pub period: Option<u64>,

    /// Halve the rate while the signal handlers cost more than this part of the target's CPU time [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = setting::percent, help_heading = "Sampling")]
    pub budget: Option<f64>,
}

/// What is shown of them.
#[derive(Args, Clone, Debug, Default)]
pub struct Shown {
    /// Keep samples with a function, file or module that matches
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "What is shown")]
    pub focus: Vec<Pattern>,

    /// Drop samples with a function, file or module that matches
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "What is shown")]
    pub ignore: Vec<Pattern>,

    /// Keep samples of threads with this tag: tid=N, pid=N, thread=REGEX or process=REGEX
    #[arg(long, value_name = "TAG", value_parser = tag, help_heading = "What is shown")]
    pub tagfocus: Vec<Tag>,

    /// Drop samples of threads with this tag
    #[arg(long, value_name = "TAG", value_parser = tag, help_heading = "What is shown")]
    pub tagignore: Vec<Tag>,

    /// Length of the rolling window, at most 60s, or `all` [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = window, help_heading = "What is shown")]
    pub window: Option<Window>,

    /// Sort by this column [default: flat]
    #[arg(long, value_parser = one_of(&setting::SORTS), value_name = "COLUMN", conflicts_with = "cum", help_heading = "What is shown")]
    pub sort: Option<Sort>,

    /// Sort by cum: the same as --sort cum
    #[arg(long, help_heading = "What is shown")]
    pub cum: bool,

    /// How function names are written [default: short; full in tables]
    #[arg(long, value_parser = one_of(&setting::NAMES), value_name = "STYLE", help_heading = "What is shown")]
    pub names: Option<NameStyle>,

    /// Look for source files below this directory first; several are separated by colons
    #[arg(long, value_name = "DIR", value_delimiter = ':', help_heading = "What is shown")]
    pub source_path: Vec<PathBuf>,
}

/// The screen.
#[derive(Args, Clone, Debug, Default)]
pub struct Screen {
    /// Colours of the screen [default: dark, or light where the terminal says so]
    #[arg(long, value_parser = one_of(&setting::THEMES), value_name = "NAME", help_heading = "Screen")]
    pub theme: Option<ThemeName>,

    /// Listen to the mouse, whatever the config file says
    #[arg(long, conflicts_with = "no_mouse", help_heading = "Screen")]
    pub mouse: bool,

    /// Leave the mouse to the terminal
    #[arg(long, help_heading = "Screen")]
    pub no_mouse: bool,

    /// Show the screen on /dev/tty, whatever stdin and stdout are
    #[arg(long, help_heading = "Screen")]
    pub tui: bool,

    /// Leave nothing on the terminal after the screen
    #[arg(long, help_heading = "Screen")]
    pub quiet: bool,

    /// Which keys do what: the config file's alone.
    #[arg(skip)]
    pub keys: Keymap,
}

/// Where settings come from.
#[derive(Args, Clone, Debug, Default)]
pub struct Source {
    /// Read settings from this file, not from $XDG_CONFIG_HOME/sigtop/config.toml
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    pub config: Option<PathBuf>,

    /// Read no settings from a file
    #[arg(long, conflicts_with = "config", help_heading = "Settings")]
    pub no_config: bool,
}

/// How to watch, and what.
#[derive(Args, Clone, Debug, Default)]
pub struct Watch {
    /// Watch these processes, by pid or name, which were started with the agent
    #[arg(long, short, value_name = "PID|NAME", value_delimiter = ',', value_parser = whom, conflicts_with = "command")]
    pub pid: Vec<Whom>,

    /// Watch one process only, not its children
    #[arg(long)]
    pub no_follow: bool,

    /// How samples are taken.
    #[command(flatten)]
    pub sampling: Sampling,

    /// What is shown of them.
    #[command(flatten)]
    pub shown: Shown,

    /// The screen.
    #[command(flatten)]
    pub screen: Screen,

    /// What `q` does with a launched program that still runs; with `leave` it also outlives a
    /// closed terminal [default: ask]
    #[arg(long, value_parser = one_of(&setting::ON_QUIT), value_name = "WHAT", help_heading = "Screen")]
    pub on_quit: Option<OnQuit>,

    /// Keep everything in this file too; its ending is the format, .sigtop is a recording for `sigtop view`
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    pub save: Option<PathBuf>,

    /// Save in this format, whatever the ending
    #[arg(long, value_name = "FORMAT", value_parser = format(), requires = "save", help_heading = "Recording")]
    pub format: Option<Kind>,

    /// Record names too, so that nobody needs the binaries to read them
    #[arg(long, help_heading = "Recording")]
    pub symbols: bool,

    /// No screen: print tables
    #[arg(long, conflicts_with = "tui", help_heading = "Without a screen")]
    pub batch: bool,

    /// Time between two tables [default: only one, at the end]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Without a screen")]
    pub interval: Option<Duration>,

    /// End the watch after so many tables
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Without a screen")]
    pub count: Option<u64>,

    /// Write tables to this file (- for stdout), not to stderr (with --pid: stdout)
    #[arg(long, conflicts_with = "tui", value_name = "FILE", help_heading = "Without a screen")]
    pub table: Option<PathBuf>,

    /// Where settings come from.
    #[command(flatten)]
    pub source: Source,

    /// Write every stack and the account to this file at the end
    #[arg(long, value_name = "FILE", hide = true)]
    pub raw: Option<PathBuf>,

    /// The program to start, and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = false)]
    pub command: Vec<OsString>,
}

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// With this pid.
    Pid(u32),
    /// Called so.
    Name(String),
}

/// Length of the window, ns; `None` is all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(pub Option<u64>);

/// 99 Hz: not in step with clocks of 100 or 250.
const DEFAULT_PERIOD_NS: u64 = 1_000_000_000 / 99;
const DEFAULT_WINDOW_NS: u64 = 10_000_000_000;

impl Watch {
    /// What the command line leaves open is as the config file says.
    pub fn or(self, Config { defaults, keys }: Config) -> Watch {
        let Watch { sampling, shown, screen, .. } = self;
        // A rate on the command line, in either form, stands against the file's.
        let rate_given = sampling.hz.is_some() || sampling.period.is_some();
        let sampling = Sampling {
            clock: sampling.clock.or(defaults.clock),
            engine: sampling.engine.or(defaults.engine),
            period: sampling.period.or(defaults.period.filter(|_| !rate_given)),
            ..sampling
        };
        let shown = Shown {
            window: shown.window.or(defaults.window),
            sort: shown.sort.or(defaults.sort.filter(|_| !shown.cum)),
            names: shown.names.or(defaults.names),
            source_path: [shown.source_path, defaults.source_path].concat(),
            ..shown
        };
        let screen = Screen {
            theme: screen.theme.or(defaults.theme),
            no_mouse: screen.no_mouse || (!screen.mouse && defaults.mouse == Some(false)),
            keys,
            ..screen
        };
        Watch { sampling, shown, screen, on_quit: self.on_quit.or(defaults.on_quit), ..self }
    }

    /// Which clock.
    pub fn clock(&self) -> Clock {
        self.sampling.clock.unwrap_or(Clock::Prof)
    }

    /// Which engine.
    pub fn engine(&self) -> Engine {
        self.sampling.engine.unwrap_or(Engine::Threads)
    }

    /// Time between two samples, ns.
    pub fn period_ns(&self) -> u64 {
        self.sampling.hz.or(self.sampling.period).unwrap_or(DEFAULT_PERIOD_NS)
    }

    /// Part of the target's CPU time that the handlers may cost.
    pub fn budget(&self) -> f64 {
        self.sampling.budget.unwrap_or(0.01)
    }

    /// Length of the window, ns; `None` is all.
    pub fn window_ns(&self) -> Option<u64> {
        self.shown.window.map_or(Some(DEFAULT_WINDOW_NS), |window| window.0)
    }

    /// Order of rows.
    pub fn sort(&self) -> Sort {
        if self.shown.cum { Sort::Cum } else { self.shown.sort.unwrap_or_default() }
    }
}

/// A word that is one of a setting's values.
fn one_of<T: Copy + Send + Sync + 'static>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = T> {
    let value = |choice: &Choice<T>| PossibleValue::new(choice.word).help(choice.words).aliases(choice.also);
    PossibleValuesParser::new(choices.iter().map(value)).try_map(move |word| setting::chosen(&word, choices))
}

/// A word that is the name of a format.
fn format() -> impl TypedValueParser<Value = Kind> {
    let value = |kind: Kind| PossibleValue::new(kind.name).help(kind.words);
    PossibleValuesParser::new(kinds::kinds().map(value))
        .try_map(|word| kinds::kind_called(&word).ok_or("no such format"))
}

fn whom(text: &str) -> Result<Whom, String> {
    match text.trim() {
        "" => Err("a pid or a name".to_owned()),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map(Whom::Pid).map_err(|_| "no pid is so large".to_owned())
        }
        text => Ok(Whom::Name(text.to_owned())),
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    // The last line says what is wrong; those before draw it.
    Pattern::new(text).map_err(|error| {
        let words = error.to_string();
        words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

fn tag(text: &str) -> Result<Tag, String> {
    Tag::new(text).map_err(|error| error.to_string())
}

fn window(text: &str) -> Result<Window, String> {
    setting::window_ns(text).map(Window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Defaults;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_dashes_is_the_programs() {
        let cli = Cli::try_parse_from(["sigtop", "--hz", "250", "--", "./app", "--pid", "-x"]).expect("valid");
        assert_eq!(cli.watch.period_ns(), 4_000_000);
        assert_eq!(cli.watch.command, ["./app", "--pid", "-x"]);
        assert!(Cli::try_parse_from(["sigtop", "--pid", "1", "--", "x"]).is_err());
        assert!(Cli::try_parse_from(["sigtop", "--focus", "("]).is_err());
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let file = || {
            let defaults = Defaults {
                clock: Some(Clock::Real),
                period: Some(1_000_000),
                window: Some(Window(None)),
                sort: Some(Sort::Name),
                mouse: Some(false),
                ..Defaults::default()
            };
            Config { defaults, ..Config::default() }
        };
        let watch = |arguments: &[&str]| {
            let arguments = ["sigtop"].iter().chain(arguments);
            Cli::try_parse_from(arguments).expect("valid").watch.or(file())
        };
        let open = watch(&[]);
        assert_eq!((open.clock(), open.engine(), open.period_ns()), (Clock::Real, Engine::Threads, 1_000_000));
        assert_eq!((open.window_ns(), open.sort(), open.screen.no_mouse), (None, Sort::Name, true));
        let given = watch(&["--clock", "prof", "--hz", "100", "--window", "2s", "--cum", "--mouse"]);
        assert_eq!((given.clock(), given.period_ns()), (Clock::Prof, 10_000_000));
        assert_eq!((given.window_ns(), given.sort(), given.screen.no_mouse), (Some(2_000_000_000), Sort::Cum, false));
        assert_eq!(watch(&["--period", "2ms"]).period_ns(), 2_000_000);
    }
}
