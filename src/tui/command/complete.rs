//! Completes a `:` line, and finds the help for it while it is typed.

use super::parse::{SplitLine, find_command, split};
use super::table::{COMMANDS, CommandSpec, Syntax};

/// Maximum number of completions that are offered.
const MAX_COMPLETIONS: usize = 50;

/// The command that a line starts with, for the hint next to the line.
pub fn find_hint(line: &str) -> Option<&'static CommandSpec> {
    find_command(split(line).head).map(|(command, _)| command)
}

/// The complete lines that an unfinished one can become. `functions` are the names that a pattern
/// may be completed to.
pub fn complete<'a>(line: &str, functions: impl Iterator<Item = &'a str>) -> Vec<String> {
    let SplitLine { head, rest, .. } = split(line);
    let Some((command, _)) = find_command(head).filter(|_| line.contains(['=', ' '])) else {
        let matches = COMMANDS.iter().filter(|command| command.name.starts_with(line.trim_start()));
        return matches.map(stem).collect();
    };
    let stem = match command.syntax {
        Syntax::Top => line.strip_suffix(rest).unwrap_or_default().to_owned(),
        _ => stem(command),
    };
    let matching = |words: &[&str]| -> Vec<String> {
        words.iter().filter(|word| word.starts_with(rest)).map(|word| format!("{stem}{word}")).collect()
    };
    let lower = rest.to_lowercase();
    match command.syntax {
        Syntax::Bare(_) => Vec::new(),
        Syntax::TagFilter(_) => matching(&["thread=", "process=", "tid=", "pid="]),
        Syntax::Keyword(_, values) => matching(&values()),
        Syntax::Value(_, examples) => matching(examples),
        Syntax::Top => matching(&["-cum", "-flat"]),
        Syntax::Filter(_) | Syntax::Function(_) => functions
            .filter(|name| name.to_lowercase().contains(&lower))
            .take(MAX_COMPLETIONS)
            .map(|name| format!("{stem}{}", regex::escape(name)))
            .collect(),
    }
}

/// The start of a line with this command, up to its argument.
fn stem(command: &CommandSpec) -> String {
    match command.syntax {
        Syntax::Keyword(..) | Syntax::Value(..) | Syntax::Filter(_) | Syntax::TagFilter(_) => {
            format!("{}=", command.name)
        }
        Syntax::Function(_) => format!("{} ", command.name),
        Syntax::Bare(_) | Syntax::Top => command.name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;
    use crate::property::property;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(property(256))]
        /// Every line is parsed or refused, and the fault lies on the line or right after it.
        #[test]
        fn arbitrary_lines_are_parsed_or_refused(pieces in prop::collection::vec(prop_oneof![
            Just("top".to_owned()), Just(" -cum".to_owned()), Just("=".to_owned()), Just("focus".to_owned()),
            Just("peek ".to_owned()), Just(" ".to_owned()), Just("9".to_owned()), ".{0,4}", any::<char>().prop_map(String::from),
        ], 0..8)) {
            let line = pieces.concat();
            if let Err(fault) = parse(&line) {
                prop_assert!(fault.at <= line.chars().count(), "{:?}", fault);
            }
            for offer in complete(&line, ["main", "a\u{1b}b"].into_iter()) {
                prop_assert!(offer.len() <= line.len() + 40);
            }
        }
    }
}
