//! The config file: settings take effect, and an error is reported with file, line, column and
//! remedy before anything is launched. Also usage errors of the command line.

#[path = "../src/property.rs"]
mod property;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::property::property;
use proptest::prelude::*;
use sigtop::app::config::{Config, ConfigError, SETTINGS, default_path};
use sigtop::tally::query::Sort;
use sigtop::tui::command::options::Window;
use sigtop::tui::theme::ThemeName;
use sigtop::tui::theme::palette::Palette;
use sigtop::tui::{NameStyle, OnQuit};
use sigtop::wire::{Clock, Engine};

/// Writes a temporary file for one test.
fn write_file(name: &str, text: &[u8]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("config");
    fs::create_dir_all(&directory).expect("writable");
    let path = directory.join(format!("{name}-{}.toml", std::process::id()));
    fs::write(&path, text).expect("writable");
    path
}

fn read(name: &str, text: &str) -> Result<Config, ConfigError> {
    let path = write_file(name, text.as_bytes());
    let config = Config::read(&path, true);
    fs::remove_file(path).expect("removable");
    config
}

/// Line, column and message of the error in a file.
fn error_of(name: &str, text: &str) -> (usize, usize, String) {
    match read(name, text) {
        Err(ConfigError::Invalid { line, column, message, .. }) => (line, column, message),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn every_setting_takes_effect() {
    let text = "\
        theme = 'colour-blind'\n\
        [defaults]\n\
        clock = 'real'\n\
        engine = 'itimer'\n\
        hz = 250\n\
        window = 2\n\
        sort = 'cum'\n\
        names = 'full'\n\
        mouse = false\n\
        on-quit = 'leave'\n\
        [keys]\n\
        freeze = ['F5', 'Ctrl-s']\n";
    let config = read("all", text).expect("valid");
    let defaults = config.defaults;
    assert_eq!(defaults.theme, Some(ThemeName::Palette(Palette::ColourBlind)));
    assert_eq!((defaults.clock, defaults.engine), (Some(Clock::Real), Some(Engine::Itimer)));
    assert_eq!((defaults.period, defaults.window), (Some(4_000_000), Some(Window(Some(2_000_000_000)))));
    assert_eq!((defaults.sort, defaults.names), (Some(Sort::Cum), Some(NameStyle::Full)));
    assert_eq!((defaults.mouse, defaults.on_quit), (Some(false), Some(OnQuit::LetRun)));
    assert!(config.keys.bindings().iter().any(|binding| binding.label == "F5 Ctrl-s"));
    assert_eq!(read("empty", "").expect("valid").defaults, Default::default());
}

#[test]
fn every_example_is_valid() {
    for setting in &SETTINGS {
        let table = if setting.table.is_empty() { String::new() } else { format!("[{}]\n", setting.table) };
        let text = format!("{table}{} = {}\n", setting.name, setting.example);
        read(&format!("example-{}", setting.name), &text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn errors_have_line_column_and_remedy() {
    for (text, line, column, expected) in [
        ("thmee = 'dark'", 1, 1, "did you mean `theme`?"),
        ("theme = 'drak'", 1, 9, "did you mean dark?"),
        ("theme = 'solarized'", 1, 9, "use dark, light, 16 or colour-blind"),
        ("theme = {}", 1, 9, "write theme = \"light\""),
        ("clock = 'real'", 1, 1, "belongs in [defaults]"),
        ("[defaults]\ntheme = 'dark'", 2, 1, "above [defaults]"),
        ("[defaults]\n  widnow = 3", 2, 3, "did you mean `window`?"),
        ("[defaults]\nwindow = '2m'", 2, 10, "at most 60s"),
        ("[defaults]\nhz = 'fast'", 2, 6, "expected a number"),
        ("[defaults]\nhz = 1000000", 2, 6, "20 000 Hz"),
        ("[defaults]\nhz = 99\nperiod = '1ms'", 3, 10, "use one of them"),
        ("[defaults]\nmouse = 'yes'", 2, 9, "true or false"),
        ("defaults = 3", 1, 1, "write [defaults]"),
        ("[default]\n", 1, 2, "did you mean `defaults`?"),
        ("freeze = 'F5'", 1, 1, "belong in [keys]"),
        ("[keys]\nfreze = 'F5'", 2, 1, "did you mean `freeze`?"),
        ("[keys]\nfreeze = 'Hyper-x'", 2, 10, "keys are written"),
        ("[keys]\nfreeze = 'f'", 2, 10, "assigned to `focus`"),
        ("[keys]\nfreeze = 5", 2, 10, "keys are strings"),
        ("[keys]\nfreeze = []", 2, 10, "1 to 8 keys"),
        ("[keys]\nhelp = 'é'\nquit = 'é'", 2, 8, "assigned to `quit`"),
        ("# ä\n[defaults]\nclock = 'ä' 5", 3, 13, "newline"),
        ("theme = 'dark'\ntheme = 'dark'", 2, 1, "duplicate"),
        ("xyzzy = 1\nthmee = 2", 1, 1, "expected theme, defaults or keys"),
    ] {
        let (at_line, at_column, message) = error_of("invalid", text);
        assert_eq!((at_line, at_column), (line, column), "{text}: {message}");
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn devices_and_files_that_are_too_large_or_binary_are_refused() {
    let error = |path: &Path| Config::read(path, true).expect_err("refused").to_string();
    let large = write_file("large", &[b'#'; 70_000]);
    assert!(error(&large).contains("65536 bytes"), "{}", error(&large));
    let bytes = write_file("bytes", b"theme = 'dark'\n# \xff\n");
    assert!(error(&bytes).contains(":2:3: invalid UTF-8"), "{}", error(&bytes));
    assert!(error(Path::new("/dev/zero")).contains("not a regular file"));
    assert!(error(Path::new("/nowhere/x.toml")).contains("--no-config"));
    assert!(Config::read(Path::new("/nowhere/x.toml"), false).is_ok());
    assert!(Config::read(Path::new("/dev/null/x.toml"), false).is_ok());
    let escape = write_file("escape", b"\"\\u001b]52;c;\\u0007\" = 1");
    assert!(!error(&escape).contains(['\x1b', '\x07']), "{:?}", error(&escape));
}

#[test]
fn default_path_follows_the_xdg_variables() {
    let path = |variables: &'static [(&str, &str)]| {
        default_path(move |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    };
    assert_eq!(path(&[("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")]), Some("/c/sigtop/config.toml".into()));
    assert_eq!(path(&[("HOME", "/h")]), Some("/h/.config/sigtop/config.toml".into()));
    assert_eq!(path(&[("XDG_CONFIG_HOME", "here"), ("HOME", "/h")]), Some("/h/.config/sigtop/config.toml".into()));
    assert_eq!(path(&[("XDG_CONFIG_HOME", "")]), None);
}

/// Runs sigtop with this `XDG_CONFIG_HOME`.
fn sigtop(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigtop"));
    command.env("XDG_CONFIG_HOME", home).args(arguments).output().expect("sigtop starts")
}

#[test]
fn invalid_file_prevents_the_launch() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("config-home-{}", std::process::id()));
    fs::create_dir_all(home.join("sigtop")).expect("writable");
    let path = home.join("sigtop/config.toml");
    fs::write(&path, "[defaults]\nclok = 'real'\n").expect("writable");
    let touched = home.join("touched");
    let touch = ["--batch", "--", "/usr/bin/touch", touched.to_str().expect("text")];

    let refused = sigtop(&home, &touch);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    let expected = format!("sigtop: {}:2:1: unknown setting `clok`; did you mean `clock`?\n", path.display());
    assert_eq!((refused.status.code(), stderr), (Some(2), expected));
    assert!(!touched.exists(), "nothing was launched");

    let without = sigtop(&home, &[&["--no-config"], &touch[..]].concat());
    assert_eq!(without.status.code(), Some(0), "{}", String::from_utf8_lossy(&without.stderr));
    assert!(touched.exists());

    let other = home.join("other.toml");
    fs::write(&other, "[defaults]\nhz = 499\n").expect("writable");
    let explicit = sigtop(&home, &[&["--config", other.to_str().expect("text")], &touch[..]].concat());
    assert_eq!(explicit.status.code(), Some(0), "{}", String::from_utf8_lossy(&explicit.stderr));
    let missing = sigtop(&home, &[&["--config", "/nowhere"], &touch[..]].concat());
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read /nowhere"));
    fs::remove_dir_all(home).expect("removable");
}

proptest! {
    #![proptest_config(property(256))]

    /// Every file is read or refused, and the position of the error lies in the file.
    #[test]
    fn arbitrary_files_are_read_or_refused(pieces in prop::collection::vec(prop_oneof![
        Just("[defaults]\n".to_owned()), Just("[keys]\n".to_owned()), Just("freeze = ".to_owned()),
        Just("hz = ".to_owned()), Just("1e99\n".to_owned()), Just("'Ctrl-x'\n".to_owned()), Just("[[[[".to_owned()),
        Just("{a={a={".to_owned()), Just("\"\\u0000\"\n".to_owned()), ".{0,8}", any::<char>().prop_map(String::from),
    ], 0..40)) {
        let text = pieces.concat();
        if let Err(ConfigError::Invalid { line, column, .. }) = read("any", &text) {
            let lines: Vec<&str> = text.split('\n').collect();
            prop_assert!((1..=lines.len()).contains(&line));
            prop_assert!((1..=lines[line - 1].chars().count() + 1).contains(&column));
        }
    }
}

/// Usage errors exit with status 2 and a line that says how to correct them.
#[test]
fn usage_errors_exit_with_2_and_a_remedy() {
    let home = Path::new("/nowhere");
    for (arguments, expected) in [
        (&["--pid", "99999999999"][..], "too large for a PID"),
        (&["--pid", "12,"], "expected a PID or a name"),
        (&["--focus", "a(", "--", "true"], "unclosed group"),
        (&["--thme", "dark", "--", "true"], "'--theme'"),
        (&["--clock", "wlal", "--", "true"], "'wall'"),
        (&["demmo"], "did you mean: sigtop demo?"),
        (&["top"], "sigtop --pid PID (to run a program of this name: sigtop -- top)"),
        (&["--hz", "9", "flamegraph", "./app"], "sigtop record -o flame.svg -- COMMAND"),
        (&["attach", "123"], "sigtop --pid PID|NAME"),
        (&["--thread", "(", "--", "true"], "unclosed group"),
        (&["--"], "try: sigtop -- ./app"),
    ] {
        let refused = sigtop(home, arguments);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

/// Messages that cannot be written are dropped; the exit status is correct.
#[test]
fn closed_stderr_does_not_panic() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigtop"));
    let status = command.args(["--no-config", "--", "no-such-command-anywhere"]).stderr(writer).status();
    assert_eq!(status.expect("sigtop starts").code(), Some(127));
}
