//! Lets options precede a subcommand: `sigtop --no-config demo` is `sigtop demo --no-config`.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::cli::Cli;

/// Options that select the config file. They are dropped before a subcommand that does not read
/// one.
const CONFIG_OPTIONS: [&str; 2] = ["config", "no_config"];

/// Moves options in front of a subcommand behind it, if the subcommand accepts them. Arguments
/// without such options, and those that clap will refuse, are not changed. The first argument is
/// the name of the program.
pub fn move_options_behind_subcommand(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut command = Cli::command();
    command.build();
    if let Some((at, kept)) = find_subcommand(&command, &arguments) {
        let rest = arguments.split_off(at + 1);
        let subcommand = arguments.remove(at);
        let options = arguments.split_off(1);
        let options = options.into_iter().zip(kept).filter_map(|(option, keep)| keep.then_some(option));
        arguments.push(subcommand);
        arguments.extend(options.chain(rest));
    }
    arguments
}

/// Returns the index of the subcommand, and for each argument before it whether the subcommand
/// accepts it.
fn find_subcommand(command: &Command, arguments: &[OsString]) -> Option<(usize, Vec<bool>)> {
    let mut options = Vec::new();
    let mut at = 1;
    while let Some(word) = arguments.get(at).and_then(|word| word.to_str()).filter(|word| word.starts_with('-')) {
        let (option, words) = find_option(command, word)?;
        options.push((option, words));
        at += words;
    }
    let subcommand = command.find_subcommand(arguments.get(at)?)?;
    let mut kept = Vec::new();
    for (option, words) in options {
        let is_known = subcommand.get_arguments().any(|other| other.get_id() == option.get_id());
        if !is_known && !CONFIG_OPTIONS.contains(&option.get_id().as_str()) {
            return None;
        }
        kept.extend(std::iter::repeat_n(is_known, words));
    }
    Some((at, kept))
}

/// Returns the option that a word names, and the number of words that it and its value take.
pub(super) fn find_option<'a>(command: &'a Command, word: &str) -> Option<(&'a Arg, usize)> {
    let (arg, has_value) = match word.strip_prefix("--") {
        Some(long) => {
            let (name, has_value) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
            let is_named = |arg: &&Arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long() == Some(name) || aliases.contains(&name)
            };
            (command.get_arguments().find(is_named)?, has_value)
        }
        None => {
            let mut letters = word.chars().skip(1);
            let letter = letters.next()?;
            (command.get_arguments().find(|arg| arg.get_short() == Some(letter))?, letters.next().is_some())
        }
    };
    match arg.get_action() {
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version => None,
        action if action.takes_values() => Some((arg, if has_value { 1 } else { 2 })),
        // Combined short flags are left to clap.
        _ => (!has_value).then_some((arg, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(words: &str) -> String {
        let words = ["sigtop"].into_iter().chain(words.split_whitespace()).map(OsString::from);
        let words = move_options_behind_subcommand(words);
        words[1..].iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_before_a_subcommand_are_moved_behind_it() {
        assert_eq!(moved("--no-config demo"), "demo --no-config");
        assert_eq!(moved("--hz 500 --config=x demo --cum"), "demo --hz 500 --config=x --cum");
        assert_eq!(moved("--quiet record -o x -- demo"), "record --quiet -o x -- demo");
        assert_eq!(moved("-p 12 record -o x"), "record -p 12 -o x");
        assert_eq!(moved("-F 500 --freq 9 demo"), "demo -F 500 --freq 9");
        assert_eq!(moved("--no-config symbols 12"), "symbols --no-config 12");
    }

    #[test]
    fn config_options_are_dropped_before_a_subcommand_without_config() {
        assert_eq!(moved("--no-config env --path"), "env --path");
        assert_eq!(moved("--config x env"), "env");
    }

    #[test]
    fn other_arguments_are_not_changed() {
        for words in [
            "",
            "demo --no-config",
            "--no-config -- demo",
            "--table demo -- ./app",
            "--hz 99 ./app demo",
            "--hz 99 env",
            "--version demo",
            "--no-such-option demo",
            "--hz",
        ] {
            assert_eq!(moved(words), words);
        }
    }
}
