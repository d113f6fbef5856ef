//! The terminal interface. It sends questions to a session and shows the answers; two channels
//! connect it to the session, and nothing else does.
//!
//! [`App`](app::App) holds the state: that of the screen
//! ([`ScreenState`](pane::screen_state::ScreenState)), the question that is sent to the session, a
//! copy of the session's state ([`SessionMirror`](session_mirror::SessionMirror)), and the states
//! of all [`Panes`](pane::panes::Panes). A key or a message of the session becomes an
//! [`Action`](action::Action); `App::update` changes the state and returns
//! [`Effect`](action::Effect)s to be carried out. [`screen::draw`] draws the state without changing
//! it: it passes each [`pane`] a [`PaneContext`](pane::context::PaneContext). All keys are in one
//! table, [`keys::TABLE`]. Only [`mod@run`] reads clocks, the terminal and channels.

#![allow(missing_docs, reason = "the state of a screen has fields whose names say all")]

pub mod action;
pub mod app;
pub mod canvas;
pub mod command;
pub mod filters;
pub mod fit_line;
pub mod fit_names;
pub mod frame_pacer;
pub mod keymap;
pub mod keys;
pub mod layout;
pub mod line_editor;
pub mod name_parts;
pub mod name_style;
mod name_tags;
pub mod options;
pub mod pane;
pub mod pending;
pub mod run;
pub mod run_picker;
pub mod screen;
pub mod scroll;
pub mod session_mirror;
mod successor;
pub mod surface;
pub mod term;
pub mod text;
pub mod theme;

use std::sync::Arc;

pub use action::Departure;
pub use keymap::Keymap;
pub use name_style::NameStyle;
pub use options::{OnQuit, Options};
pub use run::run;
pub use run_picker::{Picked, pick};
pub use term::error::TuiError;
pub use term::terminal::{Device, terminal_columns};
pub use theme::Theme;

use crate::session::Answer;

/// Result of the terminal interface.
#[derive(Debug)]
pub struct Outcome {
    /// The way in which the screen was left.
    pub departure: Departure,
    /// The last answer of the session.
    pub answer: Option<Arc<Answer>>,
    /// The target's last lines of output, at most [`LAST_LINES`], without control characters.
    pub output: Vec<String>,
    /// The last file that was saved.
    pub saved: Option<String>,
}

/// Maximum number of lines in [`Outcome::output`].
pub const LAST_LINES: usize = 200;
