//! The config file: `$XDG_CONFIG_HOME/sigtop/config.toml`, else `~/.config/sigtop/config.toml`. It says what the command line
//! leaves open, and which keys do what. Whatever is wrong in it is said with file, line and column before anything starts.
//!
//! [`SETTINGS`] is the one table of what can be set; reading, suggestions and the man page are made from it.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::cli::Window;
use crate::link::wire::{Clock, Engine};
use crate::tally::query::Sort;
use crate::tui::keymap::{self, KeymapError};
use crate::tui::keys::TABLE;
use crate::tui::nearest::nearest;
use crate::tui::setting::{self, chosen};
use crate::tui::theme::ThemeName;
use crate::tui::{Keymap, NameStyle, OnQuit, text};

/// Bytes of a config file, at most.
const MAX_BYTES: u64 = 64 << 10;
/// Characters of what is quoted from it in a message, at most.
const MAX_QUOTED: usize = 60;

/// What a config file says.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// What the command line may leave open.
    pub defaults: Defaults,
    /// Which keys do what.
    pub keys: Keymap,
}

/// What the command line may leave open; `None` is left open here too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    /// Colours.
    pub theme: Option<ThemeName>,
    /// What to measure.
    pub clock: Option<Clock>,
    /// Who ticks.
    pub engine: Option<Engine>,
    /// Time between two samples, ns.
    pub period: Option<u64>,
    /// Length of the window.
    pub window: Option<Window>,
    /// Order of rows.
    pub sort: Option<Sort>,
    /// How names are written.
    pub names: Option<NameStyle>,
    /// Directories to look for source files below.
    pub source_path: Vec<PathBuf>,
    /// Whether the mouse is listened to.
    pub mouse: Option<bool>,
    /// What quitting does to a launched program.
    pub on_quit: Option<OnQuit>,
}

/// Something that can be set.
pub struct Setting {
    /// Its table in the file; empty for the file's beginning.
    pub table: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// Example of a value.
    pub example: &'static str,
    /// What it is.
    pub words: &'static str,
    set: fn(&mut Defaults, &str) -> Result<(), String>,
}

const fn setting(
    table: &'static str,
    name: &'static str,
    example: &'static str,
    words: &'static str,
    set: fn(&mut Defaults, &str) -> Result<(), String>,
) -> Setting {
    Setting { table, name, example, words, set }
}

const DEFAULTS: &str = "defaults";
const KEYS: &str = "keys";

/// All that can be set, besides keys.
pub static SETTINGS: [Setting; 11] = [
    setting("", "theme", "\"light\"", "colours of the screen: dark, light, 16, colour-blind", |defaults, text| {
        put(&mut defaults.theme, chosen(text, &setting::THEMES))
    }),
    setting(DEFAULTS, "clock", "\"real\"", "what to measure: prof, real", |defaults, text| {
        put(&mut defaults.clock, chosen(text, &setting::CLOCKS))
    }),
    setting(DEFAULTS, "engine", "\"itimer\"", "who ticks: threads, itimer", |defaults, text| {
        put(&mut defaults.engine, chosen(text, &setting::ENGINES))
    }),
    setting(DEFAULTS, "hz", "249", "samples a second of the clock", |defaults, text| {
        put(&mut defaults.period, setting::hertz(text))
    }),
    setting(DEFAULTS, "period", "\"4ms\"", "time between two samples, instead of hz", |defaults, text| {
        put(&mut defaults.period, setting::period_ns(text))
    }),
    setting(DEFAULTS, "window", "\"10s\"", "length of the rolling window, or all", |defaults, text| {
        put(&mut defaults.window, setting::window_ns(text).map(Window))
    }),
    setting(DEFAULTS, "sort", "\"cum\"", "column that sorts: flat, cum, name", |defaults, text| {
        put(&mut defaults.sort, chosen(text, &setting::SORTS))
    }),
    setting(DEFAULTS, "names", "\"full\"", "how names are written: short, full, bare", |defaults, text| {
        put(&mut defaults.names, chosen(text, &setting::NAMES))
    }),
    setting(DEFAULTS, "source-path", "\"/src/app:/src/lib\"", "directories with source files", |defaults, text| {
        defaults.source_path = text.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect();
        Ok(())
    }),
    setting(DEFAULTS, "mouse", "false", "whether the mouse is listened to", |defaults, text| {
        put(&mut defaults.mouse, text.parse().map_err(|_| "use true or false".to_owned()))
    }),
    setting(
        DEFAULTS,
        "on-quit",
        "\"leave\"",
        "what q does with a launched program: ask, end, leave",
        |defaults, text| put(&mut defaults.on_quit, chosen(text, &setting::ON_QUIT)),
    ),
];

fn put<T>(place: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    value.map(|value| *place = Some(value))
}

/// Why a config file is not used.
#[derive(Debug)]
pub enum ConfigError {
    /// It cannot be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It is a directory, a device, a pipe.
    NoFile {
        /// Which.
        path: PathBuf,
    },
    /// It is longer than any config file.
    TooLarge {
        /// Which.
        path: PathBuf,
    },
    /// Something in it is wrong.
    Wrong {
        /// Which.
        path: PathBuf,
        /// Where, counted from 1.
        line: usize,
        /// Which character there, counted from 1.
        column: usize,
        /// What, and what would be right.
        words: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clean = |text: &str| text.chars().map(text::shown).collect::<String>();
        let name = |path: &Path| clean(&path.to_string_lossy());
        match self {
            ConfigError::Unreadable { path, cause } => {
                write!(f, "cannot read {}: {cause}; --no-config goes on without it", name(path))
            }
            ConfigError::NoFile { path } => {
                write!(f, "{} is no regular file; --no-config goes on without it", name(path))
            }
            ConfigError::TooLarge { path } => {
                write!(f, "{} has more than {MAX_BYTES} bytes: that is no config file", name(path))
            }
            ConfigError::Wrong { path, line, column, words } => {
                write!(f, "{}:{line}:{column}: {}", name(path), clean(words))
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

/// Where the user's config file is, as the environment says; `None` if it says nothing.
pub fn usual_path(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("sigtop/config.toml"))
}

impl Config {
    /// Reads the file at `path`. If it is not `required`, one that is not there says nothing.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub fn read(path: &Path, required: bool) -> Result<Config, ConfigError> {
        let missing =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        let unreadable = |cause| ConfigError::Unreadable { path: path.to_owned(), cause };
        match fs::metadata(path) {
            Err(error) if !required && missing(&error) => return Ok(Config::default()),
            Err(error) => return Err(unreadable(error)),
            // Opening a pipe would wait for somebody to write.
            Ok(metadata) if !metadata.is_file() => return Err(ConfigError::NoFile { path: path.to_owned() }),
            Ok(_) => {}
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(ConfigError::TooLarge { path: path.to_owned() });
        }
        let wrong = |text: &str, Fault { at, words }: Fault| {
            let (line, column) = position(text, at);
            ConfigError::Wrong { path: path.to_owned(), line, column, words }
        };
        match std::str::from_utf8(&bytes) {
            Ok(text) => Config::parse(text).map_err(|fault| wrong(text, fault)),
            Err(error) => {
                let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                Err(wrong(&good, Fault { at: good.len(), words: "this is no UTF-8 text".to_owned() }))
            }
        }
    }

    fn parse(text: &str) -> Result<Config, Fault> {
        let root = DeTable::parse(text).map_err(|error| Fault {
            at: error.span().map_or(text.len(), |span| span.start),
            words: error.message().lines().collect::<Vec<_>>().join(", "),
        })?;
        let mut reading = Reading::default();
        reading.table("", root.get_ref());
        reading.check_keys();
        // The first in the file, whatever the order of looking was.
        match reading.faults.into_iter().min_by_key(|fault| fault.at) {
            Some(fault) => Err(fault),
            None => Ok(reading.config),
        }
    }
}

/// What is wrong, and at which byte.
#[derive(Debug)]
struct Fault {
    at: usize,
    words: String,
}

/// A file half read.
#[derive(Default)]
struct Reading {
    config: Config,
    faults: Vec<Fault>,
    /// Actions that were given keys, and where.
    rebound: Vec<(String, usize)>,
    /// Where the rate was set.
    rate: Option<&'static str>,
}

impl Reading {
    fn fault(&mut self, span: &Range<usize>, words: String) {
        self.faults.push(Fault { at: span.start, words });
    }

    fn table(&mut self, table: &str, entries: &DeTable<'_>) {
        for (key, value) in entries {
            let (name, span) = (key.get_ref().as_ref(), key.span());
            let known = SETTINGS.iter().find(|setting| setting.table == table && setting.name == name);
            match (known, value.get_ref()) {
                (Some(setting), _) => self.set(setting, value),
                (None, DeValue::Table(entries)) if table.is_empty() && name == DEFAULTS => {
                    self.table(DEFAULTS, entries)
                }
                (None, DeValue::Table(entries)) if table.is_empty() && name == KEYS => self.keys(entries),
                (None, _) if table.is_empty() && [DEFAULTS, KEYS].contains(&name) => {
                    self.fault(&span, format!("`{name}` is a table: write [{name}], and its settings below it"));
                }
                (None, _) => self.fault(&span, unknown(table, name)),
            }
        }
    }

    fn set(&mut self, setting: &'static Setting, value: &Spanned<DeValue<'_>>) {
        let name = setting.name;
        let Some(text) = scalar(value.get_ref()) else {
            let words = format!("`{name}` is {}; write {name} = {}", value.get_ref().type_str(), setting.example);
            return self.fault(&value.span(), words);
        };
        if let Err(remedy) = (setting.set)(&mut self.config.defaults, &text) {
            self.fault(&value.span(), format!("`{name}` cannot be `{}`: {remedy}", quoted(&text)));
        }
        if ["hz", "period"].contains(&name) {
            if let Some(other) = self.rate {
                self.fault(&value.span(), format!("`{name}` and `{other}` say the same: use one of them"));
            }
            self.rate = Some(name);
        }
    }

    fn keys(&mut self, entries: &DeTable<'_>) {
        for (key, value) in entries {
            let keys: Option<Vec<&str>> = match value.get_ref() {
                DeValue::String(text) => Some(vec![text]),
                DeValue::Array(array) => array.iter().map(|item| item.get_ref().as_str()).collect(),
                _ => None,
            };
            let (name, span) = (key.get_ref().as_ref(), key.span());
            match keys.map(|keys| self.config.keys.rebind(name, &keys)) {
                None => self.fault(&value.span(), format!("a key is a text: write {name} = \"f\", or [\"f\", \"F5\"]")),
                Some(Ok(())) => self.rebound.push((name.to_owned(), value.span().start)),
                Some(Err(error @ KeymapError::UnknownAction { .. })) => self.fault(&span, error.to_string()),
                Some(Err(error)) => self.fault(&value.span(), error.to_string()),
            }
        }
    }

    fn check_keys(&mut self) {
        // In the order of the file, so that the later of two that quarrel is not always the one to blame.
        for (name, at) in std::mem::take(&mut self.rebound) {
            if let Err(error) = self.config.keys.check(&name) {
                self.faults.push(Fault { at, words: error.to_string() });
            }
        }
    }
}

/// The text of a value that is a text, a number, or true or false.
fn scalar<'a>(value: &'a DeValue<'_>) -> Option<std::borrow::Cow<'a, str>> {
    match value {
        DeValue::String(text) => Some(text.as_ref().into()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().into()),
        DeValue::Float(number) => Some(number.as_str().into()),
        DeValue::Boolean(is) => Some(if *is { "true" } else { "false" }.into()),
        _ => None,
    }
}

fn unknown(table: &str, name: &str) -> String {
    let quoted = quoted(name);
    let mut here: Vec<&str> = SETTINGS.iter().filter(|setting| setting.table == table).map(|it| it.name).collect();
    if table.is_empty() {
        here.extend([DEFAULTS, KEYS]);
    }
    // What is right elsewhere is more often misplaced than misspelt.
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) {
        return match setting.table {
            "" => format!("`{quoted}` stands before all tables: write it above [{table}]"),
            other => format!("`{quoted}` belongs below [{other}]"),
        };
    }
    if table.is_empty() && TABLE.iter().filter_map(keymap::name).any(|action| action == name) {
        return format!("`{quoted}` is an action: its keys belong below [{KEYS}]");
    }
    match nearest(name, here.iter().copied()) {
        Some(meant) => format!("there is no setting `{quoted}`; did you mean `{meant}`?"),
        None => format!("there is no setting `{quoted}` here, but {}", setting::listed(&here)),
    }
}

fn quoted(text: &str) -> String {
    text::cut_right(text, MAX_QUOTED).into_owned()
}

/// Line and character of a byte, counted from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}
