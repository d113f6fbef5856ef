//! The inputs of [`App`](super::app::App) ([`Action`]) and its outputs ([`Effect`]).

use std::sync::Arc;

use super::layout::Pane;
use crate::session::{Answer, Command, SavedFile, TargetExit};
use crate::symbols::explain::Explanation;
use crate::tally::query::Sort;
use crate::wire::Clock;

/// The length of a step in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepSize {
    /// 0.1 s.
    Tick,
    /// A tenth of the window.
    Tenth,
    /// The whole window.
    Window,
}

/// An event: a key, translated by the key table, or a notice of the session.
#[derive(Clone, Debug)]
pub enum Action {
    /// A new answer of the session.
    Answer(Arc<Answer>),
    /// The target wrote to its terminal.
    Output(Vec<u8>),
    /// A warning of the session, for the status line.
    Banner(String),
    /// Explanations of the files that the last [`Command::Why`] names.
    Found(Vec<Explanation>),
    /// The answers to the questions of the last [`Command::AskOnce`].
    Answers(Vec<Answer>),
    /// A new process with the name of the ended target has this pid.
    Successor(u32),
    /// Leave the screen to watch the new process.
    Attach,
    /// The target has ended.
    Ended(TargetExit),
    /// A save has completed or failed.
    Saved(Result<SavedFile, String>),
    /// The session has ended; there will be no more answers.
    SessionOver,
    /// The terminal has this size (columns, rows).
    Resize(u16, u16),

    /// Show the help page.
    Help,
    /// Show the lost samples and the agent's overhead.
    Losses,
    /// Explain the name of the selected function.
    Why,
    /// Say in sentences where the time goes.
    Explain,
    /// Show the stacks of a thread that waits for a lock and of the thread that holds it.
    Holder,
    /// Show the deepest stack of the selected thread.
    DeepestStack,
    /// Quit, or ask whether to.
    Quit,
    /// Quit; if that question is already shown, terminate the target.
    Interrupt,
    /// Terminate the launched target and leave.
    End,
    /// Leave, and leave the launched target running.
    LetRun,
    /// Close the innermost prompt, page or filter; never quits.
    Back,
    /// Move the focus by this number of panes.
    NextPane(i8),
    /// Show all panes.
    Dashboard,
    /// Show this pane alone.
    Alone(Pane),
    /// Maximize or restore the focused pane.
    Zoom,
    /// Move the selection, or scroll.
    Move(Motion),
    /// Open the selected row.
    Enter,
    /// Make the selected caller or callee the center.
    Center,
    /// Go back.
    Out,
    /// Go forward again.
    Forward,
    /// Draw the root of the flame graph at the other end.
    TurnFlame,
    /// Switch the flame graph between top-down and bottom-up.
    BottomUp,
    /// Switch between source, assembly and both.
    TurnListing,
    /// Switch the flame graph's colors between modules and heat.
    Colour,

    /// Switch to this clock.
    Clock(Clock),
    /// Switch to the next timer source.
    Engine,
    /// Confirm the question.
    Confirm,
    /// Increase or decrease the sampling frequency by one step.
    Rate(i8),
    /// Open a prompt for a pattern.
    Prompt(Subject),
    /// Open the `:` line.
    Colon,
    /// Open the prompt for saving.
    Save,
    /// Select the next or previous file format.
    SaveFormat(i8),
    /// Switch between saving everything and only the time that is shown.
    SaveSpan,
    /// Filter by the selected function.
    FilterSelected(Subject),
    /// Hide the module of the selected function.
    HideModule,
    /// Undo the last change of the filters.
    Undo,
    /// Redo the change.
    Redo,
    /// Clear all filters.
    ClearFilters,
    /// Select the next match in this direction.
    FindNext(i8),
    /// Sort by the column this number of columns to the right.
    SortColumn(i8),
    /// Sort by flat or by cum.
    FlatOrCum,
    /// Sort by this.
    Sort(Sort),
    /// Switch to the next grouping of rows.
    Group,
    /// Switch to the next grouping of waits.
    GroupWaits,
    /// Switch to the next choice of frames at the root of every stack.
    Roots,
    /// Switch to the next style of function names.
    Names,
    /// Switch percentages between the total and what is shown.
    Base,
    /// Fold idle threads by wall-clock time, or show them.
    Idle,
    /// Show functions of the kernel, or hide them.
    Kernel,
    /// Fold foreign code into own code, or unfold it.
    OwnCode,
    /// Show or close the detail card of the selected function.
    Card,
    /// Switch to the next longer or shorter window.
    Window(i8),
    /// Reset the totals of this clock.
    Reset,
    /// Freeze or resume the display; sampling continues.
    Freeze,
    /// Move in the history.
    Step {
        /// Whether to move towards now.
        newer: bool,
        /// The length of the step.
        size: StepSize,
    },
    /// Set the start or the end of a time span, or clear it.
    Mark,
    /// Mark all processes of the list, or remove the marks.
    MarkAll,
    /// Switch the diff against the current view on or off.
    Baseline,
    /// Copy the selected name to the clipboard.
    Copy,
    /// Redraw the screen in full.
    Redraw,
    /// Suspend the job, as Ctrl-Z does in a shell.
    Suspend,

    /// Type a character into the prompt.
    Insert(char),
    /// Paste text into the prompt or the target.
    Paste(String),
    /// Edit the line of the prompt.
    Edit(Edit),
    /// Apply the prompt, or execute the command.
    Accept,
    /// Complete the command.
    Complete,
    /// Recall an older or newer command.
    Recall(i8),
    /// Send bytes to the target.
    Type(Vec<u8>),
    /// Stop typing into the target.
    StopTyping,

    /// A mouse click (column, row).
    Click(u16, u16),
    /// A turn of the mouse wheel (column, row), up (-1) or down (1).
    Wheel(u16, u16, i8),
}

impl Action {
    /// Whether the user caused it, by a key or the mouse.
    pub fn is_by_user(&self) -> bool {
        !matches!(
            self,
            Action::Answer(_)
                | Action::Output(_)
                | Action::Banner(_)
                | Action::Found(_)
                | Action::Answers(_)
                | Action::Ended(_)
                | Action::Successor(_)
                | Action::Saved(_)
                | Action::SessionOver
                | Action::Resize(..)
        )
    }

    /// Whether it moves the cursor of a pane.
    pub fn moves_cursor(&self) -> bool {
        matches!(self, Action::Move(_) | Action::FindNext(_) | Action::Click(..) | Action::Wheel(..))
    }
}

/// The use of a pattern.
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
    /// The name, as in pprof.
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

/// A movement of the selection or the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// Move by a number of rows; negative numbers move up.
    Rows(i16),
    /// Move by a number of pages.
    Pages(i8),
    /// Move by a number of steps to the right.
    Columns(i8),
    /// Move to the first row.
    First,
    /// Move to the last row.
    Last,
}

/// An edit of an input line.
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
    /// Move the cursor left.
    Left,
    /// Move the cursor right.
    Right,
    /// Move the cursor to the start.
    Home,
    /// Move the cursor to the end.
    End,
}

/// A request to the event loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a command to the session.
    Send(Command),
    /// Copy text to the clipboard.
    Copy(String),
    /// Search for a new process of this name, see [`Action::Successor`].
    FindSuccessor(String),
    /// Clear the terminal and redraw the screen in full.
    Redraw,
    /// Restore the terminal and stop until the shell continues this job.
    Suspend,
    /// Leave the screen.
    Leave(Departure),
}

/// The way in which the screen was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The target was asked to terminate ([`Command::End`] is sent); it has, or will.
    Ended,
    /// The target was left running ([`Command::Leave`] is sent).
    Left,
    /// The target had ended before.
    Over,
    /// The target had ended before, and this process of its name is to be watched.
    Attach(u32),
    /// This signal terminated sigtop; a target still alive was left running ([`Command::Leave`] is
    /// sent).
    Signal(i32),
}
