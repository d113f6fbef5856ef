//! What is seen. The screen asks a session for numbers and shows them; it talks to it through two channels only.
//!
//! [`App`](app::App) is the state. A key or a notice becomes an [`Action`](action::Action); `App::update` changes the state
//! and returns [`Effect`](action::Effect)s for the world outside. [`screen::draw`] draws the state and changes nothing. The
//! keys are one table, [`keys::TABLE`]. Time, terminal and channels come in at [`mod@run`] alone.

pub mod action;
pub mod app;
pub mod arrows;
pub mod bounded;
pub mod canvas;
pub mod colon;
pub mod emulator;
pub mod feed;
pub mod fill;
pub mod filters;
pub mod flame;
pub mod input;
pub mod keymap;
pub mod keys;
pub mod kinds;
pub mod layout;
pub mod line;
pub mod list;
pub mod listing;
pub mod nearest;
pub mod neighbours;
pub mod order;
pub mod pace;
pub mod page;
pub mod pane;
pub mod picker;
pub mod picking;
pub mod prompt;
pub mod roster;
pub mod run;
pub mod saving;
pub mod screen;
pub mod scroll;
pub mod segments;
pub mod setting;
pub mod signals;
pub mod terminal;
pub mod text;
pub mod theme;
pub mod tiling;
pub mod typing;
pub mod walk;
pub mod wanted;
pub mod why;
pub mod words;

use std::sync::Arc;

pub use action::Departure;
pub use keymap::Keymap;
pub use list::NameStyle;
pub use picking::{Picked, pick};
pub use run::run;
pub use terminal::{Device, TuiError};
pub use theme::Theme;

use crate::link::wire::{Clock, Engine};
use crate::track::{Answer, Question};

/// What quitting does to a launched target that is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnQuit {
    /// The user is asked.
    #[default]
    Ask,
    /// It is ended.
    End,
    /// It is left running.
    LetRun,
}

/// How the screen starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// The target's command line, for the header and for sentences.
    pub command: String,
    /// Whether the target was launched, and may be ended.
    pub launched: bool,
    /// The recording that is shown; `None` where something runs.
    pub recording: Option<String>,
    /// Whether the target writes to a terminal of ours.
    pub output: bool,
    /// What quitting does to it.
    pub on_quit: OnQuit,
    /// Whether the mouse is listened to.
    pub mouse: bool,
    /// Where to draw.
    pub device: Device,
    /// In which colours.
    pub theme: Theme,
    /// With which keys.
    pub keys: Keymap,
    /// How names are written.
    pub names: NameStyle,
    /// What to ask first.
    pub question: Question,
    /// The clock that sampling starts with.
    pub clock: Clock,
    /// The engine that it starts with.
    pub engine: Engine,
    /// The period that it starts with, ns. It also says for the whole session in which unit values are shown.
    pub period_ns: u64,
}

/// What remains when the screen is left.
#[derive(Debug)]
pub struct Outcome {
    /// How it was left.
    pub departure: Departure,
    /// The last numbers.
    pub answer: Option<Arc<Answer>>,
    /// The target's last lines of output, at most [`LAST_LINES`], without control characters.
    pub output: Vec<String>,
}

/// Lines of output that are given back at most.
pub const LAST_LINES: usize = 200;
