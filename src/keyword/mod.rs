//! Keywords: the fixed words that name the values of an option.
//!
//! Each word list (clocks, timer sources, sort orders, groupings, …) is one enum that implements
//! [`Keyword`]. The command line, the config file, the `:` line, their completion, the help page
//! and the man page all read that implementation, so a new value appears everywhere.

pub mod did_you_mean;
mod sampling;

use did_you_mean::did_you_mean;

/// The spelling and description of one value of an option.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word that users type.
    pub name: &'static str,
    /// Another accepted spelling.
    pub alias: Option<&'static str>,
    /// The text on the screen, where it differs from `name`.
    pub label: &'static str,
    /// A description in a few words, for `--help` and the man page.
    pub help: &'static str,
}

impl Word {
    /// A word whose label is its name.
    pub const fn new(name: &'static str, help: &'static str) -> Word {
        Word { name, alias: None, label: name, help }
    }

    /// The same word with another text on the screen.
    pub const fn with_label(self, label: &'static str) -> Word {
        Word { label, ..self }
    }

    /// The same word with another accepted spelling.
    pub const fn with_alias(self, alias: &'static str) -> Word {
        Word { alias: Some(alias), ..self }
    }
}

/// An option's type: a fixed list of values, each with its [`Word`].
pub trait Keyword: Copy + PartialEq + Send + Sync + 'static {
    /// All values, in the order in which keys step through them and texts list them.
    const ALL: &'static [Self];

    /// The word of this value.
    fn word(self) -> Word;

    /// The word that users type for this value.
    fn name(self) -> &'static str {
        self.word().name
    }

    /// The value after this one, and the first one after the last.
    fn next(self) -> Self {
        let index = Self::ALL.iter().position(|value| *value == self).unwrap_or(0);
        Self::ALL[(index + 1) % Self::ALL.len()]
    }
}

/// The names of all values of an option.
pub fn names<T: Keyword>() -> Vec<&'static str> {
    T::ALL.iter().map(|value| value.name()).collect()
}

/// Parses a word into a value.
///
/// # Errors
/// A sentence that suggests a similar word, or lists them all.
pub fn parse<T: Keyword>(text: &str) -> Result<T, String> {
    let matches = |value: &&T| value.name() == text || value.word().alias == Some(text);
    T::ALL.iter().find(matches).copied().ok_or_else(|| {
        let names = names::<T>();
        match did_you_mean(text, names.iter().copied()) {
            Some(name) => format!("did you mean {name}?"),
            None => format!("use {}", join_with_or(&names)),
        }
    })
}

/// Joins words into an enumeration: `a, b or c`.
pub fn join_with_or(words: &[&str]) -> String {
    match words {
        [first @ .., before, last] => {
            first.iter().map(|word| format!("{word}, ")).collect::<String>() + before + " or " + last
        }
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Clock;

    #[test]
    fn unknown_keyword_suggests_a_similar_one_or_lists_all() {
        assert_eq!((parse("wall"), parse("real")), (Ok(Clock::Real), Ok(Clock::Real)));
        assert_eq!(parse::<Clock>("wlal"), Err("did you mean wall?".to_owned()));
        assert_eq!(parse::<Clock>("solarized"), Err("use cpu, wall, user, alloc or live".to_owned()));
        assert_eq!(join_with_or(&["a"]), "a");
    }

    #[test]
    fn next_wraps_around() {
        assert_eq!([Clock::Prof.next(), Clock::Live.next()], [Clock::Real, Clock::Prof]);
    }
}
