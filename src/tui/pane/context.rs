//! The state that panes draw from, as one value. The panes read it and never see the application
//! that owns it.

use ratatui::layout::Rect;

use super::mode::Mode;
use super::panes::Panes;
use super::screen_state::ScreenState;
use crate::session::{Answer, Question};
use crate::tally::query::{Filters, Pattern};
use crate::tally::top::TopTable;
use crate::tui::action::Subject;
use crate::tui::keys::KeyContext;
use crate::tui::layout::{Layout, OutputRows, Pane};
use crate::tui::options::Options;
use crate::tui::session_mirror::SessionMirror;

/// Rows of the top pane up to which the table has all of them.
const LEAST_TABLE_ROWS: u16 = 6;

/// The state that panes draw from.
#[derive(Clone, Copy)]
pub struct PaneContext<'a> {
    /// Settings that the screen started with.
    pub options: &'a Options,
    pub screen: &'a ScreenState,
    pub question: &'a Question,
    /// Filters in force.
    pub filters: &'a Filters,
    pub session: &'a SessionMirror,
    /// The newest answer of the session; `None` before the first.
    pub answer: Option<&'a Answer>,
    pub panes: &'a Panes,
}

impl<'a> PaneContext<'a> {
    /// The sections of the key table that apply, innermost first.
    pub fn key_contexts(&self) -> Vec<KeyContext> {
        let attach =
            self.session.successor.filter(|_| matches!(self.screen.mode, Mode::Panes)).map(|_| KeyContext::Successor);
        attach.into_iter().chain(self.screen.mode.key_contexts(self.screen.pane)).collect()
    }

    /// Whether the newest answer belongs to the current question.
    pub fn is_current(&self) -> bool {
        self.answer.is_some_and(|answer| answer.question == *self.question)
    }

    /// Whether a pane has the keys.
    pub fn is_active(&self, pane: Pane) -> bool {
        self.screen.pane == pane && matches!(self.screen.mode, Mode::Panes)
    }

    /// The positions of all panes; `None` if the screen is too small.
    pub fn layout(&self) -> Option<Layout> {
        Layout::new(self.screen.size, self.screen.view, self.output_rows(), self.panes.flame_rows.levels())
    }

    /// The rows that the target's output takes on the dashboard.
    pub fn output_rows(&self) -> OutputRows {
        OutputRows::new(self.options.output, matches!(self.screen.mode, Mode::Typing), self.panes.emulator.shown_rows())
    }

    /// Whether the card of the selected function is beside the top pane. The active pane shows the
    /// tree of callers instead, and so do differences.
    pub fn shows_card(&self) -> bool {
        let is_diff = self.answer.is_some_and(|answer| answer.baseline_ns.is_some());
        let has_column = self.layout().is_some_and(|layout| layout.bar.is_some());
        has_column && self.screen.pane != Pane::Callers && !is_diff
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
        if self.question.relative { table.kept_ns } else { table.total_ns }
    }

    /// The base of percentages of the window, ns.
    pub fn window_base_ns(&self) -> u64 {
        self.answer.map_or(0, |answer| self.base_ns(&answer.window))
    }

    /// The bases of percentages of the baseline and of now in a diff, ns.
    pub fn diff_bases_ns(&self) -> (u64, u64) {
        let Some(answer) = self.answer else { return (0, 0) };
        let window = &answer.window;
        let before_ns = if self.question.relative { window.before_kept_ns } else { window.before_ns };
        (before_ns, self.base_ns(window).saturating_sub(before_ns))
    }

    /// The pattern whose matches are highlighted: the one being typed at the search prompt, or that
    /// of the last search.
    pub fn search_pattern(&self) -> Option<&'a Pattern> {
        match &self.screen.mode {
            Mode::Prompt(prompt, _) if prompt.subject == Subject::Find => prompt.pattern(),
            _ => self.screen.last_search.as_ref(),
        }
    }

    /// Whether a function is highlighted. A filter that is being typed matches the full name, a
    /// search the name as it is written.
    pub fn is_match(&self, full: &str, written: &str) -> bool {
        match &self.screen.mode {
            Mode::Prompt(prompt, _) if prompt.subject != Subject::Find => {
                prompt.pattern().is_some_and(|pattern| pattern.matches(full))
            }
            _ => self.search_pattern().is_some_and(|pattern| pattern.matches(written)),
        }
    }
}
