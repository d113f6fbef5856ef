//! Help that is shorter than all options: ten lines for `sigtop -h`, the options of one topic for
//! `sigtop help TOPIC`, and only its own options for `-h` of a subcommand.

use std::ffi::OsString;

use clap::{Command, CommandFactory};

use super::cli::Cli;
use super::hoist::find_option;

/// The text of `sigtop -h`, without the topics.
const SUMMARY: &str = "\
top for stacks: a live profiler in the terminal for any native Linux program

  sigtop -- COMMAND               start a program and profile it
  sigtop [--pid PID|NAME]         profile a running process, or choose one
  sigtop record -o FILE COMMAND   record to a file (.sigtop, .pb.gz, .svg …)
  sigtop view|report|check|explain FILES  show; print as pprof; compare; explain
  sigtop demo|symbols|env|dump|push|mcp|man|completions  try it; names; …
  --clock wall, -F N              waiting included; N samples a second
Help: sigtop SUBCOMMAND -h; all options: sigtop --help; keys: ? on the screen
Topics, with sigtop help TOPIC: ";

/// The headings of options that a subcommand shares with `sigtop -- COMMAND`. Its `-h` omits them.
const SHARED_HEADINGS: [(&str, &[&str]); 8] = [
    ("check", &["Symbols", "Configuration"]),
    ("explain", &["Sampling", "Configuration"]),
    ("demo", &["Sampling", "Display", "Symbols", "Screen", "Recording", "Batch mode", "Limits", "Configuration"]),
    ("push", &["Symbols", "Configuration"]),
    ("record", &["Sampling", "Display", "Symbols", "Limits", "Configuration"]),
    ("report", &["Symbols", "Configuration"]),
    ("symbols", &["Symbols", "Configuration"]),
    ("view", &["Display", "Symbols", "Screen", "Limits", "Configuration"]),
];

/// The command line as clap reads it, with short help for subcommands.
pub fn command() -> Command {
    SHARED_HEADINGS.iter().fold(Cli::command(), |command, (name, headings)| {
        command.mut_subcommand(name, |subcommand| {
            let topics: Vec<String> = headings.iter().map(|heading| topic(heading)).collect();
            let more = format!("More options: sigtop help {}, or all: sigtop {name} --help", topics.join("|"));
            let is_shared = |heading: Option<&str>| heading.is_some_and(|heading| headings.contains(&heading));
            subcommand
                .mut_args(|arg| if is_shared(arg.get_help_heading()) { arg.hide_short_help(true) } else { arg })
                .after_help(more)
                .after_long_help("")
        })
    })
}

/// Returns the text that the arguments ask for, if it is the summary or a topic. The first argument
/// is the name of the program.
pub fn find_text(arguments: &[OsString]) -> Option<String> {
    let words: Vec<&str> = arguments.iter().skip(1).map(|word| word.to_str().unwrap_or_default()).collect();
    match words[..] {
        ["help", topic] => format_topic(topic),
        _ => asks_for_summary(arguments).then(|| format!("{SUMMARY}{}\n", wrap_topics(&topics()))),
    }
}

/// Returns whether `-h` stands among the options before the first other word.
fn asks_for_summary(arguments: &[OsString]) -> bool {
    let mut command = Cli::command();
    command.build();
    let mut at = 1;
    while let Some(word) = arguments.get(at).and_then(|word| word.to_str()).filter(|word| word.starts_with('-')) {
        match find_option(&command, word) {
            _ if word == "-h" => return true,
            Some((_, words)) => at += words,
            None => return false,
        }
    }
    false
}

/// The word for a heading: `batch` for `Batch mode`.
fn topic(heading: &str) -> String {
    heading.split(' ').next().unwrap_or_default().to_lowercase()
}

/// The topics, in the order of `sigtop --help`.
fn topics() -> Vec<String> {
    let mut topics = Vec::new();
    for heading in Cli::command().get_arguments().filter_map(|arg| arg.get_help_heading()) {
        let topic = topic(heading);
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    topics
}

/// The topics on two lines.
fn wrap_topics(topics: &[String]) -> String {
    let (first, second) = topics.split_at(topics.len() / 2);
    format!("{},\n  {}", first.join(", "), second.join(", "))
}

/// The options of one topic.
fn format_topic(name: &str) -> Option<String> {
    let is_of_topic = |heading: Option<&str>| heading.is_some_and(|heading| topic(heading) == name);
    let command = Cli::command().disable_help_flag(true).disable_version_flag(true).help_template("{options}");
    let mut command = command.mut_args(|arg| match is_of_topic(arg.get_help_heading()) {
        true => arg.help_heading(None),
        false => arg.hide(true),
    });
    let text = command.render_help().to_string();
    (!text.trim().is_empty()).then(|| format!("{}\n", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &str) -> Option<String> {
        find_text(&["sigtop"].into_iter().chain(words.split_whitespace()).map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_summary_is_short_and_has_all_subcommands_and_topics() {
        let summary = text("-h").expect("the summary");
        assert_eq!((text("--hz 99 -h"), text("-h record")), (Some(summary.clone()), Some(summary.clone())));
        assert!(summary.lines().all(|line| line.chars().count() <= 80), "{summary}");
        assert_eq!(summary.lines().count(), 11, "{summary}");
        for subcommand in Cli::command().get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            assert!(summary.contains(subcommand.get_name()), "{}", subcommand.get_name());
        }
        for topic in topics() {
            let options = text(&format!("help {topic}")).expect("a topic");
            assert!(summary.contains(&topic) && options.contains("  --"), "{topic}: {options}");
        }
        for other in ["record -h", "--help", "-- app -h", "app -h", "help record", "help nothing", ""] {
            assert_eq!(text(other), None, "{other}");
        }
    }

    #[test]
    fn short_help_of_a_subcommand_has_its_own_options_and_names_the_others() {
        let mut command = command();
        command.build();
        let mut help = |name: &str| {
            let subcommand = command.find_subcommand_mut(name).expect("a subcommand");
            [subcommand.render_help(), subcommand.render_long_help()].map(|help| help.to_string())
        };
        let [short, long] = help("record");
        assert!(short.contains("--duration") && !short.contains("--clock") && short.contains("sigtop help sampling|"));
        assert!(long.contains("--clock") && !long.contains("sigtop help"));
        let [short, _] = help("report");
        assert!(short.contains("--nodecount") && short.contains("--focus") && !short.contains("--debuginfod"));
        assert!(help("view")[0].contains("--batch") && !help("demo")[0].contains("--batch"));
    }
}
