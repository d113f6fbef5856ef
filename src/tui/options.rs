//! Settings that the screen starts with.

use super::keymap::Keymap;
use super::name_style::NameStyle;
use super::term::terminal::Device;
use super::theme::Theme;
use crate::keyword::{Keyword, Word};
use crate::session::Question;
use crate::wire::{Clock, Engine};

/// Action on a launched target that is still alive when the user quits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnQuit {
    /// Ask the user.
    #[default]
    Ask,
    /// Terminate the target.
    End,
    /// Detach and leave the target running.
    LetRun,
}

impl Keyword for OnQuit {
    const ALL: &'static [OnQuit] = &[OnQuit::Ask, OnQuit::End, OnQuit::LetRun];

    fn word(self) -> Word {
        match self {
            OnQuit::Ask => Word::new("ask", "ask what to do"),
            OnQuit::End => Word::new("end", "terminate the program"),
            OnQuit::LetRun => Word::new("leave", "detach and leave it running"),
        }
    }
}

/// Settings that the screen starts with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The target's command line, for the header and for messages.
    pub command: String,
    /// Whether sigtop launched the target and may therefore terminate it.
    pub launched: bool,
    /// Name of the recording that is shown; `None` for a live target.
    pub recording: Option<String>,
    /// Name of the process whose successor can be watched after its end; `None` if none can.
    pub successor: Option<String>,
    /// Name of the file that is the baseline of the recording.
    pub base: Option<String>,
    /// Whether the target writes to a pseudo-terminal that sigtop owns.
    pub output: bool,
    /// Action on the target when the user quits.
    pub on_quit: OnQuit,
    /// Whether mouse events are enabled.
    pub mouse: bool,
    /// The terminal to draw on.
    pub device: Device,
    /// Colors and glyphs.
    pub theme: Theme,
    /// Key bindings.
    pub keys: Keymap,
    /// Initial style of function names.
    pub names: NameStyle,
    /// The first query.
    pub question: Question,
    /// Initial clock.
    pub clock: Clock,
    /// Initial timer source.
    pub engine: Engine,
    /// Initial sampling period, ns. It also determines the unit of values for the whole session.
    pub period_ns: u64,
}
