//! State of the screen as a whole: the layout, the active pane, the mode, and the status line.

use super::help::pages::HelpPage;
use super::mode::{Mode, StatusMessage};
use crate::tally::query::Pattern;
use crate::tui::layout::{Pane, View};
use crate::tui::name_style::NameStyle;

/// State of the screen as a whole.
#[derive(Clone, Debug)]
pub struct ScreenState {
    /// Columns and rows.
    pub size: (u16, u16),
    pub view: View,
    /// The active pane.
    pub pane: Pane,
    pub mode: Mode,
    /// Whether the detail card of the selected function is shown.
    pub card: bool,
    pub names: NameStyle,
    pub message: Option<StatusMessage>,
    /// Pattern of the last search.
    pub last_search: Option<Pattern>,
    /// The digits typed before a step in the history, with the view and the pane before them.
    pub step_count: Option<(u64, View, Pane)>,
}

impl ScreenState {
    /// The dashboard.
    pub fn new(names: NameStyle) -> ScreenState {
        ScreenState {
            size: (80, 24),
            view: View::Dashboard,
            pane: Pane::Top,
            mode: Mode::Panes,
            card: false,
            names,
            message: None,
            last_search: None,
            step_count: None,
        }
    }

    /// Shows a message until the next key.
    pub fn note(&mut self, text: impl Into<String>) {
        self.message = Some(StatusMessage { text: text.into(), is_sticky: false });
    }

    /// Shows a message until Esc is pressed.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.message = Some(StatusMessage { text: text.into(), is_sticky: true });
    }

    /// Closes the card, and the help page if one is open.
    pub fn leave_page(&mut self) {
        self.card = false;
        if matches!(self.mode, Mode::Help(..)) {
            self.mode = Mode::Panes;
        }
    }

    /// Opens or closes a help page.
    pub fn toggle_page(&mut self, page: HelpPage) {
        self.mode = match self.mode {
            Mode::Help(shown, _) if shown == page => Mode::Panes,
            _ => Mode::Help(page, 0),
        };
    }

    /// Shows a view without a page over it.
    pub fn show_view(&mut self, view: View) {
        self.leave_page();
        self.view = view;
        if let View::Alone(pane) = view {
            self.pane = pane;
        }
    }
}
