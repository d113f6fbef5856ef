//! The state that panes draw from, as one value. The panes read it and never see the application
//! that owns it.

use ratatui::layout::Rect;

use super::callers::state::CallersState;
use super::flame::state::FlameState;
use super::help::explain::NameQuestion;
use super::mode::{Mode, StatusMessage};
use super::source::state::SourceState;
use super::threads::state::ThreadsState;
use super::timeline::state::TimelineState;
use super::top::state::TopState;
use crate::session::{Answer, HistoryWindow, TargetExit};
use crate::tally::measure::ValueUnit;
use crate::tally::query::{Filters, Grouping, Pattern, Sort, TagRoot};
use crate::tally::top::TopTable;
use crate::tui::action::Subject;
use crate::tui::keys::KeyContext;
use crate::tui::layout::{Layout, OutputRows, Pane, View};
use crate::tui::name_style::NameStyle;
use crate::tui::options::Options;
use crate::tui::term::emulator::Emulator;
use crate::wire::Clock;

/// Rows of the top pane up to which the table has all of them.
const LEAST_TABLE_ROWS: u16 = 6;

/// The state that panes draw from.
#[derive(Clone, Copy)]
pub struct PaneContext<'a> {
    /// Settings that the screen started with.
    pub options: &'a Options,
    /// Columns and rows of the screen.
    pub size: (u16, u16),
    /// Whether the detail card of the selected function is shown.
    pub card: bool,
    /// Dashboard or a single pane.
    pub view: View,
    /// The active pane.
    pub pane: Pane,
    /// The part of the screen that receives the keys.
    pub mode: &'a Mode,
    /// The newest answer of the session; `None` before the first.
    pub answer: Option<&'a Answer>,
    /// Whether the newest answer belongs to the current question.
    pub is_current: bool,
    /// State of the top pane.
    pub top: &'a TopState,
    /// State of the callers pane.
    pub callers: &'a CallersState,
    /// Levels of the flame graph for which the dashboard has rows.
    pub flame_levels: u16,
    /// State of the flame graph.
    pub flame: &'a FlameState,
    /// State of the source pane.
    pub source: &'a SourceState,
    /// State of the threads pane.
    pub threads: &'a ThreadsState,
    /// Position in the history, while the display is frozen.
    pub timeline: TimelineState,
    /// The name that the explanation page is about.
    pub explanation: Option<&'a NameQuestion>,
    /// The target's terminal.
    pub emulator: &'a Emulator,
    /// Filters in force.
    pub filters: &'a Filters,
    /// Length of the window, ns; `None` for the whole session.
    pub window_ns: Option<u64>,
    /// Sort order of the top pane.
    pub sort: Sort,
    /// Granularity of the rows of the top pane.
    pub group: Grouping,
    /// Pseudo-frames at the root of every stack.
    pub roots: TagRoot,
    /// Style of function names.
    pub names: NameStyle,
    /// ValueUnit of values, fixed for the whole session.
    pub unit: ValueUnit,
    /// Whether percentages are relative to the samples that the filters keep.
    pub relative: bool,
    /// Whether the display is frozen.
    pub frozen: bool,
    /// The span of the history that is shown, if it is not the last window.
    pub past: Option<HistoryWindow>,
    /// The clock in use or requested.
    pub clock: Clock,
    /// The message on the status line.
    pub message: Option<&'a StatusMessage>,
    /// The target's exit, if it has ended.
    pub ended: Option<TargetExit>,
    /// The pid of a new process with the name of the ended target.
    pub successor: Option<u32>,
    /// Pattern of the last search.
    pub last_search: Option<&'a Pattern>,
}

impl<'a> PaneContext<'a> {
    /// The sections of the key table that apply, innermost first.
    pub fn key_contexts(&self) -> Vec<KeyContext> {
        let attach = self.successor.filter(|_| matches!(self.mode, Mode::Panes)).map(|_| KeyContext::Successor);
        attach.into_iter().chain(self.mode.key_contexts(self.pane)).collect()
    }

    /// Whether a pane has the keys.
    pub fn is_active(&self, pane: Pane) -> bool {
        self.pane == pane && matches!(self.mode, Mode::Panes)
    }

    /// The positions of all panes; `None` if the screen is too small.
    pub fn layout(&self) -> Option<Layout> {
        Layout::new(self.size, self.view, self.output_rows(), self.flame_levels)
    }

    /// The rows that the target's output takes on the dashboard.
    pub fn output_rows(&self) -> OutputRows {
        OutputRows::new(self.options.output, matches!(self.mode, Mode::Typing), self.emulator.shown_rows())
    }

    /// Whether the card of the selected function is beside the top pane. The active pane shows the
    /// tree of callers instead, and so do differences.
    pub fn shows_card(&self) -> bool {
        let is_diff = self.answer.is_some_and(|answer| answer.baseline_ns.is_some());
        let has_column = self.layout().is_some_and(|layout| layout.bar.is_some());
        has_column && self.pane != Pane::Callers && !is_diff
    }

    /// The part of the top pane's area that the table has, with a row for the title: not the row of
    /// waits.
    pub fn top_table(&self, area: Rect) -> Rect {
        let has_waits = self.answer.is_some_and(|answer| !answer.waits.is_empty()) && area.height > LEAST_TABLE_ROWS;
        let taken = u16::from(has_waits);
        Rect { y: area.y + taken, height: area.height - taken, ..area }
    }

    /// The number of idle threads that are folded, and their time in the window, ns.
    pub fn idle(&self) -> Option<(usize, u64)> {
        let window = &self.answer?.window;
        (window.idle_threads > 0).then_some((window.idle_threads, window.idle_ns))
    }

    /// The base of a table's percentages, ns.
    pub fn base_ns(&self, table: &TopTable) -> u64 {
        if self.relative { table.kept_ns } else { table.total_ns }
    }

    /// The base of percentages of the window, ns.
    pub fn window_base_ns(&self) -> u64 {
        self.answer.map_or(0, |answer| self.base_ns(&answer.window))
    }

    /// The bases of percentages of the baseline and of now in a diff, ns.
    pub fn diff_bases_ns(&self) -> (u64, u64) {
        let Some(answer) = self.answer else { return (0, 0) };
        let window = &answer.window;
        let before_ns = if self.relative { window.before_kept_ns } else { window.before_ns };
        (before_ns, self.base_ns(window).saturating_sub(before_ns))
    }

    /// The pattern whose matches are highlighted: the one being typed at the search prompt, or that
    /// of the last search.
    pub fn search_pattern(&self) -> Option<&'a Pattern> {
        match self.mode {
            Mode::Prompt(prompt, _) if prompt.subject == Subject::Find => prompt.pattern(),
            _ => self.last_search,
        }
    }

    /// Whether a function is highlighted. A filter that is being typed matches the full name, a
    /// search the name as it is written.
    pub fn is_match(&self, full: &str, written: &str) -> bool {
        match self.mode {
            Mode::Prompt(prompt, _) if prompt.subject != Subject::Find => {
                prompt.pattern().is_some_and(|pattern| pattern.matches(full))
            }
            _ => self.search_pattern().is_some_and(|pattern| pattern.matches(written)),
        }
    }
}
