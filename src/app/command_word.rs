//! Checks that the first word after the options is meant as a program, so that a misspelled
//! subcommand is not executed.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::CommandFactory;
use nix::unistd::{AccessFlags, eaccess};

use super::args::Cli;
use super::failure::Failure;
use crate::attach::proc::ProcStat;
use crate::attach::{program, quote_command};
use crate::keyword::did_you_mean::did_you_mean;

/// Words of other profilers that are no subcommands, and how sigtop does the same.
const OTHER_WAYS: [(&[&str], &str); 8] = [
    (
        &["top", "live", "watch", "monitor"],
        "the screen is a live table of functions: sigtop -- COMMAND, or sigtop --pid PID",
    ),
    (&["attach"], "to attach to a process: sigtop --pid PID|NAME"),
    (&["run", "exec", "launch", "start"], "to start a program: sigtop -- COMMAND"),
    (
        &["flamegraph", "flame", "svg"],
        "for a flame graph in a file: sigtop record -o flame.svg -- COMMAND; on the screen, press 3",
    ),
    (
        &["annotate", "list", "disasm"],
        "for source and assembly, press 4 on the screen, or: sigtop report --list REGEX FILE",
    ),
    (&["replay", "open", "load", "show"], "to show a recording or a profile: sigtop view FILE"),
    (&["dump", "stat", "script"], "for tables without a screen: sigtop --batch -- COMMAND"),
    (
        &["diff", "compare"],
        "to compare profiles: sigtop check BASE NEW, or sigtop view --diff-base BEFORE AFTER; on the screen, press d",
    ),
];

/// Interpreters of scripts, by extension.
const INTERPRETERS: [(&[&str], &str); 7] = [
    (&["py"], "python3"),
    (&["js", "mjs", "cjs"], "node"),
    (&["rb"], "ruby"),
    (&["pl"], "perl"),
    (&["php"], "php"),
    (&["lua"], "lua"),
    (&["sh", "bash"], "bash"),
];

/// Whether the command line contains `--`. What follows it is always a program.
pub(super) fn has_dashes() -> bool {
    std::env::args_os().any(|argument| argument == "--")
}

/// Without `--`, a word is a program only if it is the path of a file or is found on the PATH.
///
/// # Errors
/// A usage error that suggests a subcommand.
pub(super) fn check_is_program(word: &OsString) -> Result<(), Failure> {
    if has_dashes() {
        return Ok(());
    }
    let other_way = word.to_str().and_then(find_other_way);
    let is_program = is_program(word);
    let is_path = word.as_encoded_bytes().contains(&b'/');
    if (!is_program || is_path)
        && let Some(sentence) = explain_process(word).or_else(|| explain_script(word, std::env::args_os().skip(1)))
    {
        return Err(Failure::new(Failure::USAGE, sentence));
    }
    if is_program && other_way.is_none() {
        return Ok(());
    }
    let word = word.to_string_lossy();
    if let Some(way) = other_way {
        let program = format!("to run a program of this name: sigtop -- {word}");
        return Err(Failure::new(Failure::USAGE, format!("`{word}` is not a subcommand; {way} ({program})")));
    }
    let cli = Cli::command();
    let subcommands = cli.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    let message = match did_you_mean(&word, subcommands) {
        Some(name) => format!("`{word}` is neither a subcommand nor a program; did you mean: sigtop {name}?"),
        None => format!("`{word}` is neither a subcommand nor a program on the PATH; see sigtop --help"),
    };
    Err(Failure::new(Failure::USAGE, message))
}

/// Explains a number that is the pid of a process.
fn explain_process(word: &OsStr) -> Option<String> {
    let pid: u32 = word.to_str()?.parse().ok()?;
    ProcStat::of(pid).is_ok().then(|| format!("{pid} is a running process: sigtop --pid {pid}"))
}

/// Explains a script that cannot be executed, if its extension tells the interpreter. `arguments`
/// are those of the command line.
fn explain_script(word: &OsStr, arguments: impl Iterator<Item = OsString>) -> Option<String> {
    let path = Path::new(word);
    let extension = path.extension()?.to_str()?;
    let (_, interpreter) = INTERPRETERS.iter().find(|(extensions, _)| extensions.contains(&extension))?;
    let is_executable = eaccess(path, AccessFlags::X_OK).is_ok();
    if !path.is_file() || (is_executable && word.as_encoded_bytes().contains(&b'/')) {
        return None;
    }
    let mut arguments: Vec<OsString> = arguments.collect();
    let at = arguments.iter().position(|argument| argument == word)?;
    arguments.splice(at..at, ["--".into(), (*interpreter).into()]);
    let how = if is_executable { "is not on the PATH" } else { "is not executable" };
    Some(format!("{} {how}: sigtop {}", path.display(), quote_command(&arguments)))
}

fn find_other_way(word: &str) -> Option<&'static str> {
    OTHER_WAYS.iter().find(|(words, _)| words.contains(&word)).map(|(_, way)| *way)
}

/// A subcommand's name after options that it does not take is not executed as a program.
///
/// # Errors
/// A usage error that says how to run either.
pub(super) fn check_is_no_subcommand(word: &OsString) -> Result<(), Failure> {
    match Cli::command().find_subcommand(word) {
        Some(subcommand) if !has_dashes() => {
            let name = subcommand.get_name();
            let message = format!(
                "`{name}` does not accept an option given before it (see sigtop {name} --help); \
                 to run a program of this name: sigtop -- {name}"
            );
            Err(Failure::new(Failure::USAGE, message))
        }
        _ => Ok(()),
    }
}

/// Whether there is a file to execute. Whether it can be executed shows when it is launched.
fn is_program(word: &OsString) -> bool {
    match program::find(word, std::env::var_os("PATH").as_deref()) {
        Ok(path) => std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()),
        Err(_) => false,
    }
}
