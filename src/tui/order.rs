//! What a line of commands can ask for. What follows from it is the state's business.

use super::action::Action;
use super::list::NameStyle;
use crate::link::wire::{Clock, Engine};
use crate::tally::query::{Filters, Group, Pattern, Roots, Sort};
use crate::tally::tag::Tag;

/// A kind of filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Keep samples with a match.
    Focus,
    /// Drop samples with a match.
    Ignore,
    /// Delete matching frames.
    Hide,
    /// Delete frames that do not match.
    Show,
    /// Cut what is above the rootmost match.
    ShowFrom,
}

impl Kind {
    /// The patterns of this kind.
    pub fn of(self, filters: &mut Filters) -> &mut Vec<Pattern> {
        match self {
            Kind::Focus => &mut filters.focus,
            Kind::Ignore => &mut filters.ignore,
            Kind::Hide => &mut filters.hide,
            Kind::Show => &mut filters.show,
            Kind::ShowFrom => &mut filters.show_from,
        }
    }
}

/// A kind of filter of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagKind {
    /// Keep samples with a match.
    Focus,
    /// Drop samples with a match.
    Ignore,
}

impl TagKind {
    /// The tags of this kind.
    pub fn of(self, filters: &mut Filters) -> &mut Vec<Tag> {
        match self {
            TagKind::Focus => &mut filters.tagfocus,
            TagKind::Ignore => &mut filters.tagignore,
        }
    }
}

/// What a line asks for.
#[derive(Clone, Debug)]
pub enum Order {
    /// This pattern alone of a kind; `None` for no pattern of it.
    Filter(Kind, Option<Pattern>),
    /// This tag alone of a kind; `None` for no tag of it.
    Tag(TagKind, Option<Tag>),
    /// No filters.
    ClearFilters,
    /// The top list alone.
    Top {
        /// Rows at most; `None` for all.
        rows: Option<usize>,
        /// In this order, if it says so.
        sort: Option<Sort>,
        /// Filters to add.
        focus: Vec<Pattern>,
        /// Filters to add.
        ignore: Vec<Pattern>,
    },
    /// The first function that matches, its callers and callees.
    Peek(Pattern),
    /// The first function that matches, its source.
    List(Pattern),
    /// The first function that matches, its assembly.
    Disasm(Pattern),
    /// Sample with this clock.
    Clock(Clock),
    /// Sample with this engine.
    Engine(Engine),
    /// Sample with this period, ns.
    Period(u64),
    /// A window of this length, ns; `None` for all.
    Window(Option<u64>),
    /// In this order.
    Sort(Sort),
    /// Names in this style.
    Names(NameStyle),
    /// Rows of this kind.
    Group(Group),
    /// What lies at the root of every stack.
    Roots(Roots),
    /// What a key does too.
    Act(Action),
}
