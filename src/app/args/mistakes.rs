//! Mistakes on the command line for which there is a better answer than clap's: options of other
//! profilers, and options of a subcommand that was left out.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::dashes::SERVER;
use crate::attach::quote_command;

/// Options of other profilers, and sigtop's.
const OTHER_NAMES: [(&[&str], &str); 5] = [
    (&["--attach", "--process-id"], "--pid"),
    (&["--rate", "--frequency", "--sample-rate"], "--hz"),
    (&["--subprocesses", "--children"], "--no-follow"),
    (&["--time", "--seconds"], "--duration"),
    (&["--threads"], "--thread"),
];

/// Options that only `record` has, with their short forms.
const OPTIONS_OF_RECORD: [&str; 4] = ["-o", "--output", "-d", "--duration"];

/// Returns a sentence about a mistake that clap found in these arguments, if there is a better one
/// than clap's. The first argument is the name of the program.
pub fn explain(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let words = arguments.get(1..).unwrap_or_default();
    // Clap names the letter of a short option; the word may go on with its value or other letters.
    let is_it = |word: &OsString| {
        let word = word.to_str().unwrap_or_default();
        word.split('=').next() == Some(option) || (!word.starts_with("--") && word.starts_with(option.as_str()))
    };
    let at = words.iter().position(is_it)?;
    let word = words[at].to_str()?;
    let has_subcommand = words.first().is_some_and(|word| !word.as_encoded_bytes().starts_with(b"-"));
    if !has_subcommand && OPTIONS_OF_RECORD.contains(&option.as_str()) {
        return Some(format!("to record to a file: sigtop record {}", quote_command(words)));
    }
    let name = word.split('=').next().unwrap_or_default();
    if has_subcommand && name == SERVER {
        return Some("to look at a profile on the screen: sigtop view FILE".to_owned());
    }
    let (_, meant) = OTHER_NAMES.iter().find(|(names, _)| names.contains(&name))?;
    let value = match word.split_once('=') {
        Some((_, value)) => Some(value),
        None => words.get(at + 1).and_then(|value| value.to_str()).filter(|value| !value.starts_with('-')),
    };
    let value = value.map_or(String::new(), |value| format!(" {}", quote_command(&[value])));
    Some(format!("unknown option {name}; did you mean `{meant}{value}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(words: &str) -> Option<String> {
        let words: Vec<OsString> = ["sigtop"].into_iter().chain(words.split(' ')).map(OsString::from).collect();
        let error = super::super::help::command().try_get_matches_from(&words).expect_err("a mistake");
        explain(&error, &words)
    }

    #[test]
    fn options_of_other_profilers_and_of_record_are_explained() {
        for (typed, said) in [
            ("--attach 2622", "unknown option --attach; did you mean `--pid 2622`?"),
            ("--attach=2622", "unknown option --attach; did you mean `--pid 2622`?"),
            ("record --rate 50 -o x true", "unknown option --rate; did you mean `--hz 50`?"),
            ("--rate", "unknown option --rate; did you mean `--hz`?"),
            ("-o x.svg -- true", "to record to a file: sigtop record -o x.svg -- true"),
            ("-ox.svg -- true", "to record to a file: sigtop record -ox.svg -- true"),
            ("--hz 5 --duration=3 -- a;b", "to record to a file: sigtop record --hz 5 --duration=3 -- 'a;b'"),
            ("report --http=:8080 f", "to look at a profile on the screen: sigtop view FILE"),
        ] {
            assert_eq!(explained(typed).as_deref(), Some(said), "{typed}");
        }
        for typed in ["--nonsense", "record --nonsense", "--hz many", "report"] {
            assert_eq!(explained(typed), None, "{typed}");
        }
    }
}
