//! Options of `sigtop report` with one dash, as pprof's users type them: `-top` is `--top`.

use std::ffi::OsString;

use clap::CommandFactory;

use super::cli::Cli;
use super::hoist::find_option;

/// The subcommand whose options are pprof's.
const SUBCOMMAND: &str = "report";
/// pprof's option for its server, which sigtop does not have.
pub(super) const SERVER: &str = "--http";

/// Doubles the dash of the long options of `report`. Go's `-cum=true` is `--cum`; an option that is
/// `=false` is left out, but `-trim=false` is `--no-trim`. The first argument is the name of the
/// program.
pub fn double_dashes(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_none_or(|word| word != SUBCOMMAND) {
        return arguments;
    }
    let mut command = Cli::command();
    command.build();
    let Some(report) = command.find_subcommand(SUBCOMMAND) else { return arguments };
    let rest = arguments.split_off(2);
    let mut rest = rest.into_iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            arguments.push(word);
            break;
        }
        let long = word.to_str().filter(|word| word.starts_with('-') && word.len() > 2);
        let long = long.map(|word| format!("--{}", word.trim_start_matches('-'))).unwrap_or_default();
        let (name, value) = long.split_once('=').map_or((long.as_str(), None), |(name, value)| (name, Some(value)));
        match (find_option(report, name), value) {
            _ if name == SERVER => arguments.push(long.into()),
            (None, Some("false")) if name == "--trim" => arguments.push("--no-trim".into()),
            // A short option with its value, unless its letters are a long option's.
            (None, _) => arguments.push(word),
            (Some((option, _)), Some(flag @ ("true" | "false"))) if !option.get_action().takes_values() => {
                arguments.extend((flag == "true").then(|| name.into()));
            }
            (Some(_), Some(_)) => arguments.push(long.into()),
            (Some((_, words)), None) => {
                arguments.push(name.into());
                // The value of an option may begin with a dash.
                arguments.extend(rest.by_ref().take(words - 1));
            }
        }
    }
    arguments.extend(rest);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubled(words: &str) -> String {
        let words = ["sigtop"].into_iter().chain(words.split_whitespace()).map(OsString::from);
        let words = double_dashes(words.collect());
        words[1..].iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_of_report_may_have_one_dash() {
        for (typed, read) in [
            ("report -top -nodecount=5 f", "report --top --nodecount=5 f"),
            ("report -focus -top -cum f", "report --focus -top --cum f"),
            ("report -cum=true -mean=false f", "report --cum f"),
            ("report -trim=false -output x.svg f", "report --no-trim --output x.svg f"),
            ("report -show_from=a -diff_base b f", "report --show_from=a --diff_base b f"),
            ("report --top -ox.svg -o y f", "report --top -ox.svg -o y f"),
            ("report -h", "report -h"),
            ("report -nonsense -", "report -nonsense -"),
            ("report -http=:80 f", "report --http=:80 f"),
            ("report -- -top", "report -- -top"),
            ("record -top", "record -top"),
        ] {
            assert_eq!(doubled(typed), read);
        }
    }
}
