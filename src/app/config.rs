//! The config file: `$XDG_CONFIG_HOME/sigtop/config.toml`, else `~/.config/sigtop/config.toml`.
//!
//! It sets options that the command line does not, and the keys of actions. Errors are reported
//! with file, line and column before anything starts. [`SETTINGS`] is the table of all settings;
//! parsing, suggestions and the man page read it.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::keyword::did_you_mean::did_you_mean;
use crate::keyword::{self, Keyword};
use crate::profile::interpreter_view::InterpreterView;
use crate::profile::kernel_frames::KernelFrames;
use crate::tally::query::{Pattern, Sort};
use crate::tui::command::options::{self, Window};
use crate::tui::keymap::{self, KeymapError};
use crate::tui::keys::TABLE;
use crate::tui::theme::ThemeName;
use crate::tui::{Keymap, NameStyle, OnQuit, text};
use crate::wire::{Clock, Engine};

/// Maximum size of a config file in bytes.
const MAX_BYTES: u64 = 64 << 10;
/// Maximum number of characters quoted from the file in a message.
const MAX_QUOTED: usize = 60;

/// The contents of a config file.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The options that the file sets.
    pub defaults: Defaults,
    /// The key table, with the keys that the file changes.
    pub keys: Keymap,
}

/// Options that a config file can set; `None` if it does not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    /// The colour theme.
    pub theme: Option<ThemeName>,
    /// The sampling clock.
    pub clock: Option<Clock>,
    /// The timer source.
    pub engine: Option<Engine>,
    /// The sampling period in ns.
    pub period: Option<u64>,
    /// The length of the window.
    pub window: Option<Window>,
    /// The sort order of rows.
    pub sort: Option<Sort>,
    /// The style of function names.
    pub names: Option<NameStyle>,
    /// The frames to show of Python programs.
    pub python: Option<InterpreterView>,
    /// Whether stacks have functions of the kernel.
    pub kernel: Option<KernelFrames>,
    /// The pattern of own code.
    pub own: Option<Pattern>,
    /// Directories that are searched for source files.
    pub source_path: Vec<PathBuf>,
    /// Whether debuginfod servers are asked.
    pub debuginfod: Option<bool>,
    /// The time between two updates of the screen's numbers in ns.
    pub refresh: Option<u64>,
    /// Whether the mouse is used.
    pub mouse: Option<bool>,
    /// The memory limit for stacks and history, in bytes.
    pub memory: Option<u64>,
    /// The memory for debug information, in bytes.
    pub symbol_memory: Option<u64>,
    /// The action of `q` on a launched program.
    pub on_quit: Option<OnQuit>,
}

/// A setting of the config file.
pub struct Setting {
    /// The TOML table it belongs to; empty for the root table.
    pub table: &'static str,
    /// Its key in the table.
    pub name: &'static str,
    /// An example of a value, as TOML.
    pub example: &'static str,
    /// The effect of the setting, without the list of values.
    summary: &'static str,
    /// The names of its values, if they are a fixed list.
    values: Option<fn() -> Vec<&'static str>>,
    set: fn(&mut Defaults, &str) -> Result<(), String>,
}

impl Setting {
    /// Describes the setting, with the list of its values if that is fixed.
    pub fn help(&self) -> String {
        match self.values {
            Some(values) => format!("{}: {}", self.summary, values().join(", ")),
            None => self.summary.to_owned(),
        }
    }
}

type SetValue = fn(&mut Defaults, &str) -> Result<(), String>;

const fn setting(
    table: &'static str,
    name: &'static str,
    example: &'static str,
    summary: &'static str,
    set: SetValue,
) -> Setting {
    Setting { table, name, example, summary, values: None, set }
}

/// A setting of [`DEFAULTS`] whose values are the keywords of `T`.
const fn keyword_setting<T: Keyword>(
    name: &'static str,
    example: &'static str,
    summary: &'static str,
    set: SetValue,
) -> Setting {
    Setting { table: DEFAULTS, name, example, summary, values: Some(keyword::names::<T>), set }
}

const DEFAULTS: &str = "defaults";
const KEYS: &str = "keys";

/// All settings except keys.
pub static SETTINGS: [Setting; 18] = [
    Setting {
        table: "",
        ..keyword_setting::<ThemeName>("theme", "\"light\"", "colour theme", |defaults, text| {
            store(&mut defaults.theme, keyword::parse(text))
        })
    },
    keyword_setting::<Clock>("clock", "\"wall\"", "sampling clock", |defaults, text| {
        store(&mut defaults.clock, keyword::parse(text))
    }),
    keyword_setting::<Engine>("engine", "\"itimer\"", "timer source", |defaults, text| {
        store(&mut defaults.engine, keyword::parse(text))
    }),
    setting(DEFAULTS, "hz", "249", "sampling frequency in Hz", |defaults, text| {
        store(&mut defaults.period, options::period_ns_of_hz(text))
    }),
    setting(DEFAULTS, "period", "\"4ms\"", "sampling period, instead of hz", |defaults, text| {
        store(&mut defaults.period, options::period_ns(text))
    }),
    setting(DEFAULTS, "window", "\"10s\"", "length of the rolling window, or all", |defaults, text| {
        store(&mut defaults.window, options::window_ns(text).map(Window))
    }),
    keyword_setting::<Sort>("sort", "\"cum\"", "sort order of rows", |defaults, text| {
        store(&mut defaults.sort, keyword::parse(text))
    }),
    keyword_setting::<NameStyle>("names", "\"full\"", "style of function names", |defaults, text| {
        store(&mut defaults.names, keyword::parse(text))
    }),
    keyword_setting::<InterpreterView>("python", "\"mixed\"", "frames of Python programs", |defaults, text| {
        store(&mut defaults.python, keyword::parse(text))
    }),
    keyword_setting::<KernelFrames>("kernel", "\"off\"", "functions of the kernel", |defaults, text| {
        store(&mut defaults.kernel, keyword::parse(text))
    }),
    setting(
        DEFAULTS,
        "own",
        "\"^/srv/app/|^app::\"",
        "functions, files and modules that are own code",
        |defaults, text| store(&mut defaults.own, Pattern::parse(text)),
    ),
    setting(DEFAULTS, "source-path", "\"/src/app:/src/lib\"", "directories with source files", |defaults, text| {
        defaults.source_path = text.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect();
        Ok(())
    }),
    setting(DEFAULTS, "debuginfod", "true", "whether to ask debuginfod servers: true, false", |defaults, text| {
        store(&mut defaults.debuginfod, text.parse().map_err(|_| "use true or false".to_owned()))
    }),
    setting(DEFAULTS, "refresh", "\"500ms\"", "minimum time between two updates of the numbers", |defaults, text| {
        store(&mut defaults.refresh, options::refresh_ns(text))
    }),
    setting(DEFAULTS, "mouse", "false", "whether to use the mouse: true, false", |defaults, text| {
        store(&mut defaults.mouse, text.parse().map_err(|_| "use true or false".to_owned()))
    }),
    setting(DEFAULTS, "memory", "\"1GB\"", "memory for stacks and history", |defaults, text| {
        store(&mut defaults.memory, options::memory_bytes(text))
    }),
    setting(DEFAULTS, "symbol-memory", "\"500MB\"", "memory for debug information", |defaults, text| {
        store(&mut defaults.symbol_memory, options::memory_bytes(text))
    }),
    keyword_setting::<OnQuit>("on-quit", "\"leave\"", "fate of a launched program on quit", |defaults, text| {
        store(&mut defaults.on_quit, keyword::parse(text))
    }),
];

fn store<T>(slot: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    value.map(|value| *slot = Some(value))
}

/// The reason why a config file cannot be used.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// The path is a directory, a device or a pipe.
    NotAFile {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is larger than 64 KiB.
    TooLarge {
        /// The path of the file.
        path: PathBuf,
    },
    /// A line of the file is invalid.
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// Column in characters, counted from 1.
        column: usize,
        /// The mistake and its correction.
        message: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sanitize = |text: &str| text.chars().map(text::shown).collect::<String>();
        let name = |path: &Path| sanitize(&path.to_string_lossy());
        match self {
            ConfigError::Unreadable { path, cause } => {
                write!(f, "cannot read {}: {cause}; use --no-config to start without it", name(path))
            }
            ConfigError::NotAFile { path } => {
                write!(f, "{} is not a regular file; use --no-config to start without it", name(path))
            }
            ConfigError::TooLarge { path } => {
                write!(f, "{} is larger than {MAX_BYTES} bytes, the limit for a config file", name(path))
            }
            ConfigError::Invalid { path, line, column, message } => {
                write!(f, "{}:{line}:{column}: {}", name(path), sanitize(message))
            }
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Unreadable { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// Returns the path of the user's config file, or `None` if neither `XDG_CONFIG_HOME` nor `HOME` is
/// an absolute path. `variable` reads the environment.
pub fn default_path(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("sigtop/config.toml"))
}

impl Config {
    /// Reads the file at `path`. A missing file is an empty one, unless it is `required`.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid.
    pub fn read(path: &Path, required: bool) -> Result<Config, ConfigError> {
        let missing =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        let unreadable = |cause| ConfigError::Unreadable { path: path.to_owned(), cause };
        match fs::metadata(path) {
            Err(error) if !required && missing(&error) => return Ok(Config::default()),
            Err(error) => return Err(unreadable(error)),
            // Opening a pipe would block until it has a writer.
            Ok(metadata) if !metadata.is_file() => return Err(ConfigError::NotAFile { path: path.to_owned() }),
            Ok(_) => {}
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(ConfigError::TooLarge { path: path.to_owned() });
        }
        let invalid = |text: &str, TomlFault { at, message }: TomlFault| {
            let (line, column) = position(text, at);
            ConfigError::Invalid { path: path.to_owned(), line, column, message }
        };
        match std::str::from_utf8(&bytes) {
            Ok(text) => Config::parse(text).map_err(|fault| invalid(text, fault)),
            Err(error) => {
                let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                Err(invalid(&valid, TomlFault { at: valid.len(), message: "invalid UTF-8".to_owned() }))
            }
        }
    }

    fn parse(text: &str) -> Result<Config, TomlFault> {
        let root = DeTable::parse(text).map_err(|error| TomlFault {
            at: error.span().map_or(text.len(), |span| span.start),
            message: error.message().lines().collect::<Vec<_>>().join(", "),
        })?;
        let mut parser = Parser::default();
        parser.parse_table("", root.get_ref());
        parser.check_keys();
        // Report the first error in the file.
        match parser.faults.into_iter().min_by_key(|fault| fault.at) {
            Some(fault) => Err(fault),
            None => Ok(parser.config),
        }
    }
}

/// An error and the byte offset at which it is.
#[derive(Debug)]
struct TomlFault {
    at: usize,
    message: String,
}

/// The state of parsing a file. Errors are collected, so that the first one in the file is
/// reported.
#[derive(Default)]
struct Parser {
    config: Config,
    faults: Vec<TomlFault>,
    /// Actions with changed keys, each with its byte offset.
    rebound: Vec<(String, usize)>,
    /// `hz` or `period`, whichever was set.
    rate: Option<&'static str>,
}

impl Parser {
    fn push_fault(&mut self, span: &Range<usize>, message: String) {
        self.faults.push(TomlFault { at: span.start, message });
    }

    fn parse_table(&mut self, table: &str, entries: &DeTable<'_>) {
        for (key, value) in entries {
            let (name, span) = (key.get_ref().as_ref(), key.span());
            let setting = SETTINGS.iter().find(|setting| setting.table == table && setting.name == name);
            match (setting, value.get_ref()) {
                (Some(setting), _) => self.set(setting, value),
                (None, DeValue::Table(entries)) if table.is_empty() && name == DEFAULTS => {
                    self.parse_table(DEFAULTS, entries)
                }
                (None, DeValue::Table(entries)) if table.is_empty() && name == KEYS => self.parse_keys(entries),
                (None, _) if table.is_empty() && [DEFAULTS, KEYS].contains(&name) => {
                    self.push_fault(&span, format!("`{name}` is a table: write [{name}] with its settings below"));
                }
                (None, _) => self.push_fault(&span, explain_unknown(table, name)),
            }
        }
    }

    fn set(&mut self, setting: &'static Setting, value: &Spanned<DeValue<'_>>) {
        let name = setting.name;
        let Some(text) = scalar(value.get_ref()) else {
            let message = format!(
                "`{name}` cannot be of type {}; write {name} = {}",
                value.get_ref().type_str(),
                setting.example
            );
            return self.push_fault(&value.span(), message);
        };
        if let Err(error) = (setting.set)(&mut self.config.defaults, &text) {
            self.push_fault(&value.span(), format!("invalid value `{}` for `{name}`: {error}", truncate(&text)));
        }
        if ["hz", "period"].contains(&name) {
            if let Some(other) = self.rate {
                self.push_fault(&value.span(), format!("`{name}` and `{other}` exclude each other; use one of them"));
            }
            self.rate = Some(name);
        }
    }

    fn parse_keys(&mut self, entries: &DeTable<'_>) {
        for (key, value) in entries {
            let keys: Option<Vec<&str>> = match value.get_ref() {
                DeValue::String(text) => Some(vec![text]),
                DeValue::Array(array) => array.iter().map(|item| item.get_ref().as_str()).collect(),
                _ => None,
            };
            let (name, span) = (key.get_ref().as_ref(), key.span());
            match keys.map(|keys| self.config.keys.rebind(name, &keys)) {
                None => self.push_fault(
                    &value.span(),
                    format!("keys are strings: write {name} = \"f\" or {name} = [\"f\", \"F5\"]"),
                ),
                Some(Ok(())) => self.rebound.push((name.to_owned(), value.span().start)),
                Some(Err(error @ KeymapError::UnknownAction { .. })) => self.push_fault(&span, error.to_string()),
                Some(Err(error)) => self.push_fault(&value.span(), error.to_string()),
            }
        }
    }

    fn check_keys(&mut self) {
        // Checked after all keys are set, so that two actions can exchange their keys.
        for (name, at) in std::mem::take(&mut self.rebound) {
            if let Err(error) = self.config.keys.check_conflicts(&name) {
                self.faults.push(TomlFault { at, message: error.to_string() });
            }
        }
    }
}

/// The text of a string, a decimal number or a boolean.
fn scalar<'a>(value: &'a DeValue<'_>) -> Option<std::borrow::Cow<'a, str>> {
    match value {
        DeValue::String(text) => Some(text.as_ref().into()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().into()),
        DeValue::Float(number) => Some(number.as_str().into()),
        DeValue::Boolean(is) => Some(if *is { "true" } else { "false" }.into()),
        _ => None,
    }
}

fn explain_unknown(table: &str, name: &str) -> String {
    let quoted = truncate(name);
    let mut here: Vec<&str> =
        SETTINGS.iter().filter(|setting| setting.table == table).map(|setting| setting.name).collect();
    if table.is_empty() {
        here.extend([DEFAULTS, KEYS]);
    }
    // A name that exists in another table is misplaced rather than misspelled.
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) {
        return match setting.table {
            "" => format!("`{quoted}` belongs to the root table; move it above [{table}]"),
            other => format!("`{quoted}` belongs in [{other}]"),
        };
    }
    if table.is_empty() && TABLE.iter().filter_map(keymap::action_name).any(|action| action == name) {
        return format!("`{quoted}` is an action; its keys belong in [{KEYS}]");
    }
    match did_you_mean(name, here.iter().copied()) {
        Some(name) => format!("unknown setting `{quoted}`; did you mean `{name}`?"),
        None => format!("unknown setting `{quoted}`; expected {}", keyword::join_with_or(&here)),
    }
}

fn truncate(text: &str) -> String {
    text::cut_right(text, MAX_QUOTED).into_owned()
}

/// The line and the column of a byte offset, both counted from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}
