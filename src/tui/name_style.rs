//! Styles of function names; [`fit_names`](super::fit_names) has the rule of each.

use super::name_parts::bare_name;
use crate::keyword::{Keyword, Word};
use crate::tally::top::TopRow;

/// Style of function names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameStyle {
    /// As much of the path as fits, without generics and arguments.
    #[default]
    Short,
    /// The whole name; `…` replaces generics and arguments that do not fit.
    Full,
    /// The last part of the path.
    Bare,
}

impl Keyword for NameStyle {
    const ALL: &'static [NameStyle] = &[NameStyle::Short, NameStyle::Full, NameStyle::Bare];

    fn word(self) -> Word {
        match self {
            NameStyle::Short => Word::new("short", "as much of the path as fits, without generics and arguments"),
            NameStyle::Full => {
                Word::new("full", "with generics and arguments, the innermost elided where they do not fit")
            }
            NameStyle::Bare => Word::new("bare", "the last part of the path"),
        }
    }
}

impl NameStyle {
    /// The name of a row in this style.
    pub fn of(self, row: &TopRow) -> &str {
        self.pick(&row.full, &row.short)
    }

    /// One of a function's names in this style.
    pub fn pick<'a>(self, full: &'a str, short: &'a str) -> &'a str {
        match self {
            NameStyle::Short => short,
            NameStyle::Full => full,
            NameStyle::Bare => bare_name(short),
        }
    }
}
