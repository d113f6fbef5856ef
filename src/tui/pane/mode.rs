//! Input modes of the screen: what receives the keys, and what is restored when the mode ends.

use super::callers::state::CallersState;
use super::flame::state::FlameState;
use super::help::pages::HelpPage;
use super::prompt::state::Prompt;
use super::save::state::SaveState;
use super::source::state::SourceState;
use super::top::state::SavedSelection;
use crate::session::Command;
use crate::tui::command::command_line::CommandLine;
use crate::tui::keys::KeyContext;
use crate::tui::layout::Pane;

/// The part of the screen that receives the keys.
#[derive(Clone, Debug)]
pub enum Mode {
    /// The panes.
    Panes,
    /// A help page over the panes, scrolled by this many rows.
    Help(HelpPage, usize),
    /// A prompt for a pattern, and the cursors to restore when it is cancelled.
    Prompt(Prompt, Box<SavedCursors>),
    /// The `:` command line.
    Command(CommandLine),
    /// The line that asks for a file name.
    Save(SaveState),
    /// The question about the action on the target when quitting.
    ConfirmQuit,
    /// The question whether to sample with setitimer, and the command to send if so.
    ConfirmItimer(Command),
    /// Waiting for the target to terminate, after this many requests.
    Ending(u32),
    /// The target's terminal.
    Typing,
}

impl Mode {
    /// The sections of the key table that apply, innermost first; `pane` is the active pane.
    pub fn key_contexts(&self, pane: Pane) -> Vec<KeyContext> {
        match self {
            Mode::Prompt(..) => vec![KeyContext::Prompt, KeyContext::Everywhere],
            Mode::Command(_) => vec![KeyContext::Colon, KeyContext::Prompt, KeyContext::Everywhere],
            Mode::Save(_) => vec![KeyContext::Save, KeyContext::Prompt, KeyContext::Everywhere],
            Mode::ConfirmQuit => vec![KeyContext::Question, KeyContext::Everywhere],
            Mode::ConfirmItimer(_) => vec![KeyContext::Confirm, KeyContext::Everywhere],
            Mode::Ending(_) => vec![KeyContext::Ending, KeyContext::Everywhere],
            Mode::Typing => vec![KeyContext::Typing],
            Mode::Help(..) => vec![KeyContext::Panes, KeyContext::Screen, KeyContext::Everywhere],
            Mode::Panes => {
                vec![KeyContext::Pane(pane), KeyContext::Panes, KeyContext::Screen, KeyContext::Everywhere]
            }
        }
    }
}

/// Selection and cursors of the panes, saved while a search previews its matches.
#[derive(Clone, Debug)]
pub struct SavedCursors {
    /// Selection of the top pane.
    pub top: SavedSelection,
    /// State of the callers pane.
    pub callers: CallersState,
    /// State of the flame graph.
    pub flame: FlameState,
    /// State of the source pane.
    pub source: SourceState,
}

/// A message on the status line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusMessage {
    /// The message.
    pub text: String,
    /// Whether it stays until Esc is pressed (messages of the session). Otherwise the next key
    /// removes it (the echo of an action).
    pub is_sticky: bool,
}
