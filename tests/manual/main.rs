//! The man page and the completions. The page is generated from the tables that the program itself
//! reads, so it cannot disagree with it.
//!
//! `SIGTOP_WRITE_MANUAL=1 cargo test --test manual` writes it to `assets/`; otherwise the test fails
//! if the file differs from the tables. Installing needs none of this.

mod keys;
mod limits;
mod page;
mod prose;
#[path = "../harness/skips.rs"]
mod skips;
mod stores;
mod subcommands;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{bold, roman};
use sigtop::app::args::Cli;
use sigtop::keyword;
use sigtop::tui::keys::TABLE;
use sigtop::tui::theme::ThemeName;

use crate::keys::{commands, key_groups, keys, settings, words};
use crate::page::Manual;
use crate::prose::prose;
use crate::subcommands::{check, json, report};

const WRITE: &str = "SIGTOP_WRITE_MANUAL";

fn assets(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(name)
}

/// Compares a file in `assets/` with this text, or writes it.
fn stands(name: &str, text: &str) {
    let path = assets(name);
    if std::env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().expect("in a directory")).expect("writable");
        fs::write(&path, text).expect("writable");
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_else(|error| panic!("assets/{name}: {error}"));
    let line = there.lines().zip(text.lines()).position(|(old, new)| old != new);
    let line = line.unwrap_or_else(|| there.lines().count().min(text.lines().count()));
    assert!(there == text, "assets/{name} is stale from line {}: {WRITE}=1 cargo test --test manual", line + 1);
}

fn man_page() -> String {
    let command = Cli::command();
    let man = Man::new(command.clone()).section("1").manual("User Commands");
    let mut out = Vec::new();
    man.render_title(&mut out).expect("memory");
    man.render_name_section(&mut out).expect("memory");
    let mut synopsis = Manual::default();
    synopsis.section("SYNOPSIS");
    for (words, rest) in [
        ("sigtop", " [OPTIONS] -- COMMAND [ARGUMENTS]..."),
        ("sigtop", " [OPTIONS] --pid PID"),
        ("sigtop report", " [OPTIONS] FILE..."),
        ("sigtop check", " [OPTIONS] BASE NEW"),
        ("sigtop push", " [OPTIONS] FILE URL"),
        ("sigtop demo", " [OPTIONS]"),
        ("sigtop env", " [--path|--libprofiler DIR|--header]"),
        ("sigtop symbols", " PID|FILE"),
    ] {
        synopsis.0.text([bold(words), roman(rest)]).control("br", []);
    }
    synopsis.section("DESCRIPTION");
    synopsis.text(
        "Samples the stacks of a running program and shows live where its time goes: a list of functions, callers and \
         callees, and a flame graph. It needs no privilege and no rebuild: an agent is preloaded into the program, unwinds \
         the stack at every tick of a timer, and sends it over a socket. A process without the agent is sampled from \
         outside.",
    );
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in verbs {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        synopsis.entry([bold(format!("sigtop {}", verb.get_name()))], &about);
    }
    out.extend(synopsis.0.to_roff().into_bytes());
    man.render_options_section(&mut out).expect("memory");
    let mut rest = Manual::default();
    report(&mut rest, &command);
    check(&mut rest, &command);
    json(&mut rest);
    keys(&mut rest);
    words(&mut rest);
    commands(&mut rest);
    settings(&mut rest);
    prose(&mut rest);
    out.extend(rest.0.to_roff().into_bytes());
    String::from_utf8(out).expect("text")
}

#[test]
fn the_man_page_says_what_the_program_does() {
    stands("sigtop.1", &man_page());
}

fn print(arguments: &[&str]) -> String {
    let printed = Command::new(env!("CARGO_BIN_EXE_sigtop")).args(arguments).output().expect("it runs");
    assert!(printed.status.success(), "{arguments:?}: {printed:?}");
    String::from_utf8(printed.stdout).expect("text")
}

#[test]
fn the_completions_know_every_option() {
    let command = Cli::command();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let printed = print(&["completions", shell]);
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            if let Some(long) = option.get_long() {
                assert!(printed.contains(long), "{shell}: --{long}");
            }
        }
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (shell, ask) in [("bash", "complete -p sigtop"), ("zsh", "true"), ("fish", "complete -C 'sigtop rec'")] {
        let path = directory.join(format!("completions.{shell}"));
        fs::write(&path, print(&["completions", shell])).expect("writable");
        let script = format!(". {} && {ask}", path.display());
        let script = if shell == "zsh" { format!("compdef() {{ :; }}; {script}") } else { script };
        let Ok(read) = Command::new(shell).arg("-c").arg(script).output() else {
            skips::skip(&format!("{shell} is not installed"));
            continue;
        };
        assert!(read.status.success(), "{shell}: {read:?}");
    }
}

/// The manual page in `assets/` is in the program.
#[test]
fn the_program_prints_its_manual_page() {
    assert_eq!(print(&["man"]), fs::read_to_string(assets("sigtop.1")).expect("a page"));
}

#[test]
fn every_option_key_and_word_is_in_the_man_page() {
    let page = man_page().replace('\\', "");
    let command = Cli::command();
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        if let Some(long) = option.get_long() {
            assert!(page.contains(&format!("--{long}")), "--{long}");
        }
    }
    for binding in TABLE {
        assert!(key_groups().iter().any(|(_, places)| places.contains(&binding.context)), "{:?}", binding.context);
    }
    for theme in keyword::names::<ThemeName>() {
        assert!(page.contains(theme), "{theme}");
    }
}

/// If groff is installed, it reports no errors.
#[test]
fn the_man_page_renders_without_a_warning() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sigtop.1");
    fs::write(&path, man_page()).expect("writable");
    let groff = Command::new("groff").args(["-man", "-Tutf8", "-K", "utf8", "-ww", "-z"]).arg(&path).output();
    let Ok(groff) = groff else { return skips::skip("groff is not installed") };
    assert_eq!(String::from_utf8_lossy(&groff.stderr), "");
    assert!(groff.status.success());
}
