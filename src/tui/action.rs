//! What can happen to the screen ([`Action`]) and what follows for the world outside of it ([`Effect`]).

use std::sync::Arc;

use super::layout::Pane;
use crate::link::wire::Clock;
use crate::symbols::inquiry::Inquiry;
use crate::track::{Answer, Command, Ending, Saved};

/// Something happened: a key, as the key table reads it, or a word of the session.
#[derive(Clone, Debug)]
pub enum Action {
    /// New numbers.
    Answer(Arc<Answer>),
    /// The target wrote to its terminal.
    Output(Vec<u8>),
    /// A sentence of the session's for the line over the footer.
    Banner(String),
    /// What was found of the files that the last question for a why was about.
    Found(Vec<Inquiry>),
    /// The target has ended.
    Ended(Ending),
    /// What was to be saved is, or is not and why.
    Saved(Result<Saved, String>),
    /// The session is gone: nothing more will be answered.
    SessionOver,
    /// The screen has this size (columns, rows).
    Resize(u16, u16),

    /// Show what the keys do.
    Help,
    /// Show what was lost and what the agent costs.
    Losses,
    /// Say why there is no better name.
    Why,
    /// Leave, or ask whether to.
    Quit,
    /// As quit; where quitting is in question already, the short way out.
    Interrupt,
    /// End the launched target and leave.
    End,
    /// Leave the launched target running.
    LetRun,
    /// Leave the innermost thing; never quits.
    Back,
    /// To the pane this many further on.
    NextPane(i8),
    /// All panes.
    Dashboard,
    /// This pane alone.
    Alone(Pane),
    /// The active pane alone, and back.
    Zoom,
    /// Move the selection, or scroll.
    Move(Motion),
    /// Into what is selected.
    Enter,
    /// Back out of it.
    Out,
    /// To where one went back from.
    Forward,
    /// The root of the flame at the other end.
    TurnFlame,
    /// The flame from the leaves up, or from the roots down.
    BottomUp,
    /// Source, assembly, both.
    TurnListing,
    /// The other meaning of the flame's colours.
    Colour,

    /// Sample with this clock.
    Clock(Clock),
    /// The other engine.
    Engine,
    /// Do what was asked to be confirmed.
    Confirm,
    /// The next higher or lower rate.
    Rate(i8),
    /// Ask for a pattern.
    Prompt(Subject),
    /// Ask for a command.
    Colon,
    /// Ask what to save, and where to.
    Save,
    /// The next kind of file, or the one before.
    SaveFormat(i8),
    /// The window alone, or everything.
    SaveSpan,
    /// Filter by the selected function.
    FilterSelected(Subject),
    /// Hide the module of the selected function.
    HideModule,
    /// Take back the last change of the filters.
    Undo,
    /// Do it again.
    Redo,
    /// No filters.
    ClearFilters,
    /// To the next match in this direction.
    FindNext(i8),
    /// Sort by the column this many to the right.
    SortColumn(i8),
    /// Sort by flat or by cum.
    FlatOrCum,
    /// The next kind of rows: functions, files, lines, addresses, modules, functions by thread, by process.
    Group,
    /// The next thing at the root of every stack: nothing, threads, processes, both.
    Roots,
    /// Names bare, short, full.
    Names,
    /// Percentages of the total, or of what is shown.
    Base,
    /// The next longer or shorter window.
    Window(i8),
    /// Forget the totals of this clock.
    Reset,
    /// Stand still, and go on.
    Freeze,
    /// To a newer (or older) time, by a part of the window (or finely).
    Step {
        /// Towards now.
        newer: bool,
        /// By a tenth of a second.
        fine: bool,
    },
    /// Mark an end of a span of time.
    Mark,
    /// Show differences from what is shown now, or no more.
    Baseline,
    /// The selected name to the clipboard.
    Copy,
    /// Draw everything anew.
    Redraw,
    /// Stop, as a shell's job does.
    Suspend,

    /// A character for the prompt.
    Insert(char),
    /// Text for the prompt, or for the target.
    Paste(String),
    /// Edit the line of the prompt.
    Edit(Edit),
    /// Keep what the prompt says; obey the command.
    Accept,
    /// Go on with the command as far as it is clear.
    Complete,
    /// To an older or newer command.
    Recall(i8),
    /// Bytes for the target.
    Type(Vec<u8>),
    /// No more typing into the target.
    StopTyping,

    /// The mouse was pressed here (column, row).
    Click(u16, u16),
    /// The wheel was turned here (column, row), up or down.
    Wheel(u16, u16, i8),
}

/// What a pattern is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Keep samples with a match.
    Focus,
    /// Drop samples with a match.
    Ignore,
    /// Delete frames with a match.
    Hide,
    /// Delete frames without a match.
    Show,
    /// Cut what is above the first match, seen from the root.
    ShowFrom,
    /// Keep samples of threads with a match.
    TagFocus,
    /// Drop samples of threads with a match.
    TagIgnore,
    /// Move the selection to a row with a match; no filter.
    Find,
}

impl Subject {
    /// pprof's word.
    pub fn word(self) -> &'static str {
        match self {
            Subject::Focus => "focus",
            Subject::Ignore => "ignore",
            Subject::Hide => "hide",
            Subject::Show => "show",
            Subject::ShowFrom => "show_from",
            Subject::TagFocus => "tagfocus",
            Subject::TagIgnore => "tagignore",
            Subject::Find => "find",
        }
    }
}

/// A way to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// By so many rows; negative is up.
    Rows(i16),
    /// By so many pages.
    Pages(i8),
    /// By so many steps to the right.
    Columns(i8),
    /// To the first row.
    First,
    /// To the last.
    Last,
}

/// A way to edit a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Erase the character before the cursor.
    Backspace,
    /// Erase the character at the cursor.
    Delete,
    /// Erase the word before the cursor.
    Word,
    /// Erase everything before the cursor.
    All,
    /// Cursor to the left.
    Left,
    /// Cursor to the right.
    Right,
    /// Cursor to the beginning.
    Home,
    /// Cursor to the end.
    End,
}

/// What the world is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this to the session.
    Send(Command),
    /// Put this on the clipboard.
    Copy(String),
    /// Clear the terminal and draw everything anew.
    Redraw,
    /// Restore the terminal and stop until the shell continues this job.
    Suspend,
    /// Leave the screen.
    Leave(Departure),
}

/// How the user left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The target was told to end ([`Command::End`] is sent); it has, or will.
    Ended,
    /// The target was left running ([`Command::Leave`] is sent).
    Left,
    /// The target had ended before.
    Over,
    /// This signal told sigtop to go; a target still alive was left running ([`Command::Leave`] is sent).
    Signal(i32),
}
