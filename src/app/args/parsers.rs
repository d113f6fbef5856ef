//! Parsers for the values of options.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::keyword::{self, Keyword};
use crate::tally::query::tags::TagFilter;
use crate::tally::query::{OwnCode, Pattern};
use crate::tui::command::options::{self, Window};

/// A reference to a running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessSelector {
    /// The process with this pid.
    Pid(u32),
    /// The process with this name.
    Name(String),
}

/// Parses one of the keywords of `T`, with their help texts in `--help` and completion.
pub(super) fn keyword_parser<T: Keyword>() -> impl TypedValueParser<Value = T> {
    let value = |value: &T| {
        let word = value.word();
        PossibleValue::new(word.name).help(word.help).aliases(word.alias)
    };
    PossibleValuesParser::new(T::ALL.iter().map(value)).try_map(|text| keyword::parse(&text))
}

/// Parses a process: a pid, or a name.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_selector(text: &str) -> Result<ProcessSelector, String> {
    match text.trim() {
        "" => Err("expected a PID or a name".to_owned()),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map(ProcessSelector::Pid).map_err(|_| "this is too large for a PID".to_owned())
        }
        text => Ok(ProcessSelector::Name(text.to_owned())),
    }
}

pub(super) fn parse_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text)
}

/// Parses the value of `--own`: what is own code, or nothing.
pub(super) fn parse_own(text: &str) -> Result<OwnCode, String> {
    let pattern = if text.is_empty() { None } else { Some(parse_pattern(text)?) };
    Ok(OwnCode { folds: true, pattern })
}

pub(super) fn parse_tag(text: &str) -> Result<TagFilter, String> {
    TagFilter::new(text).map_err(|error| error.to_string())
}

pub(super) fn parse_thread(text: &str) -> Result<TagFilter, String> {
    parse_tag(&format!("thread={text}"))
}

pub(super) fn parse_process(text: &str) -> Result<TagFilter, String> {
    parse_tag(&format!("process={text}"))
}

pub(super) fn parse_window(text: &str) -> Result<Window, String> {
    options::window_ns(text).map(Window)
}
