//! The commands that a `:` line is parsed into. [`App`](crate::tui::app::App) executes them.

use jiff::civil::Time;

use crate::tally::query::tags::TagFilter;
use crate::tally::query::{Filters, Grouping, Pattern, Sort, TagRoot};
use crate::tui::action::Action;
use crate::tui::name_style::NameStyle;
use crate::wire::{Clock, Engine};

/// A filter that takes a regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind {
    /// Keeps samples with a matching frame.
    Focus,
    /// Drops samples with a matching frame.
    Ignore,
    /// Removes matching frames.
    Hide,
    /// Removes frames that do not match.
    Show,
    /// Starts stacks at the matching frame nearest to the root.
    ShowFrom,
}

impl FilterKind {
    /// The patterns of this kind.
    pub fn patterns_mut(self, filters: &mut Filters) -> &mut Vec<Pattern> {
        match self {
            FilterKind::Focus => &mut filters.focus,
            FilterKind::Ignore => &mut filters.ignore,
            FilterKind::Hide => &mut filters.hide,
            FilterKind::Show => &mut filters.show,
            FilterKind::ShowFrom => &mut filters.show_from,
        }
    }
}

/// A filter that takes a tag: a thread or a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagFilterKind {
    /// Keeps samples of matching threads.
    Focus,
    /// Drops samples of matching threads.
    Ignore,
}

impl TagFilterKind {
    /// The tags of this kind.
    pub fn tags_mut(self, filters: &mut Filters) -> &mut Vec<TagFilter> {
        match self {
            TagFilterKind::Focus => &mut filters.tagfocus,
            TagFilterKind::Ignore => &mut filters.tagignore,
        }
    }
}

/// A time of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePoint {
    /// So long ago, ns.
    Ago(u64),
    /// The last time when the clock showed this time of day.
    OfDay(Time),
}

/// A parsed `:` line.
#[derive(Clone, Debug)]
pub enum ColonCommand {
    /// Replaces the patterns of a kind by this one, or removes them.
    Filter(FilterKind, Option<Pattern>),
    /// Replaces the tags of a kind by this one, or removes them.
    Tag(TagFilterKind, Option<TagFilter>),
    /// Removes all filters.
    ClearFilters,
    /// Shows the Top pane alone.
    Top {
        /// Maximum number of rows; `None` shows all.
        rows: Option<usize>,
        /// New sort order, if the line names one.
        sort: Option<Sort>,
        /// Patterns to add to focus.
        focus: Vec<Pattern>,
        /// Patterns to add to ignore.
        ignore: Vec<Pattern>,
    },
    /// Shows callers and callees of the first matching function.
    Peek(Pattern),
    /// Shows the source of the first matching function.
    List(Pattern),
    /// Shows the assembly of the first matching function.
    Disasm(Pattern),
    /// Switches to this clock.
    Clock(Clock),
    /// Switches to this timer source.
    Engine(Engine),
    /// Sets the sampling period, in ns.
    Period(u64),
    /// Sets the length of the window, in ns; `None` is everything since the start.
    Window(Option<u64>),
    /// Shows the window that ends at this time.
    At(TimePoint),
    /// Sorts rows in this order.
    Sort(Sort),
    /// Writes function names in this style.
    Names(NameStyle),
    /// Groups samples into these rows.
    Group(Grouping),
    /// Puts these frames at the root of every stack.
    Roots(TagRoot),
    /// Folds foreign code. The pattern says what is own; `None` leaves that to sigtop.
    OwnCode(Option<Pattern>),
    /// Does what a key does.
    Act(Action),
}
