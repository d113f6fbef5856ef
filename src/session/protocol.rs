//! Messages between the session and its user interface: questions and answers, commands and
//! notices.

use std::path::PathBuf;
use std::sync::Arc;

use super::code_cache::SourceListing;
use super::header_facts::{Facts, TargetExit};
use super::recording_writer::SavedFile;
use super::save::SaveRequest;
use crate::pprof::profile::SavedProfile;
use crate::symbols::explain::Explanation;
use crate::tally::activity::RowActivity;
use crate::tally::call_paths::CallPath;
use crate::tally::callers::Callers;
use crate::tally::flame::{Flame, FlameQuery};
use crate::tally::query::{Filters, Grouping, OwnCode, Sort, TagRoot};
use crate::tally::threads::{ThreadTable, ThreadsQuery, WaitShare};
use crate::tally::timeline::Timeline;
use crate::tally::top::TopTable;
use crate::tally::trend::Trends;
use crate::wire::{Clock, Engine};

/// A request for everything that the screen shows. The answer is computed again at every refresh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// Length of the window in ns, or `None` for everything since the start or the last reset.
    pub window_ns: Option<u64>,
    /// Filters on samples and frames.
    pub filters: Filters,
    /// Order of the rows.
    pub sort: Sort,
    /// The grouping of frames into rows.
    pub group: Grouping,
    /// Frames that are added at the root of every stack.
    pub roots: TagRoot,
    /// Whether the differences by which rows are sorted are those of shares of the samples that the
    /// filters keep, not of all samples.
    pub relative: bool,
    /// Whether idle threads are folded, see [`Query::fold_idle`](crate::tally::query::Query). Saved
    /// profiles contain their samples in any case.
    pub fold_idle: bool,
    /// Whether the functions of the kernel are left out of stacks.
    pub hides_kernel: bool,
    /// The choice of own code, and whether foreign code is folded into it.
    pub own: OwnCode,
    /// Full name of the function whose callers and callees are shown.
    pub centre: Option<String>,
    /// The callers and callees whose own callers and callees are shown.
    pub unfolded: Vec<CallPath>,
    /// Whether the centre's heaviest way from the root and its activity are shown.
    pub details: bool,
    /// Full name of the function whose source and assembly are shown.
    pub listing: Option<String>,
    /// Parameters of the flame graph, if it is shown.
    pub flame: Option<FlameQuery>,
    /// Parameters of the list of processes and threads, if it is shown.
    pub threads: Option<ThreadsQuery>,
    /// Whether it is shown what threads wait for.
    pub waits: bool,
    /// The part of the history to show while frozen, if it is not the last window.
    pub past: Option<HistoryWindow>,
    /// Whether the timeline is shown.
    pub timeline: bool,
}

/// A span of the history before the freeze, in buckets of
/// [`BUCKET_NS`](crate::profile::totals::BUCKET_NS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryWindow {
    /// Number of buckets between its end and the freeze.
    pub back: u64,
    /// Length in buckets.
    pub buckets: u64,
}

/// Everything the screen shows.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The question that this answers.
    pub question: Question,
    /// Rows of the window, sorted.
    pub window: Arc<TopTable>,
    /// Rows of the total, sorted.
    pub total: Arc<TopTable>,
    /// Callers and callees of the centre in the window, if the question has a centre.
    pub callers: Option<Callers>,
    /// When and where the centre ran, if its details are shown.
    pub activity: Option<RowActivity>,
    /// Source lines and code of the function in the question, with their weights in the window.
    pub listing: Option<SourceListing>,
    /// Flame graph of the window, if it is shown.
    pub flame: Option<Arc<Flame>>,
    /// The timeline, if it is shown.
    pub timeline: Option<Timeline>,
    /// Age of the baseline in ns, or `None` if numbers are not differences from a baseline.
    pub baseline_ns: Option<u64>,
    /// The length of the time that is both in the window and in the baseline, ns.
    pub overlap_ns: u64,
    /// Processes and threads in the window, if they are shown.
    pub threads: Option<ThreadTable>,
    /// The waits of all threads in the window, the longest first; empty if that is not shown, or if
    /// the clock counts no waits.
    pub waits: Vec<WaitShare>,
    /// The threads that each thread filter matches now. Focus filters come first.
    pub tagged: Vec<String>,
    /// The time of the answer on the viewer's clock, ns.
    pub now_ns: u64,
    /// Time within the window during which an agent was connected, ns.
    pub measured_ns: u64,
    /// Trends of the flat weights, in the order of the window's rows. It is empty if the window is
    /// the total.
    pub trends: Arc<Trends>,
    /// The facts in the header.
    pub facts: Facts,
}

/// A command from the screen or the batch loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Answer this question from now on: immediately, and whenever there is something new.
    Ask(Box<Question>),
    /// Answer these questions once: see [`Notice::Answers`].
    AskOnce(Vec<Question>),
    /// Answer from the data of the last answer for a second: the cursor moves.
    Hold,
    /// Sample with this clock.
    Clock(Clock),
    /// Sample with this engine.
    Engine(Engine),
    /// Sample with this period, ns.
    Period(u64),
    /// Freeze the profile: answers do not change, sampling continues.
    Freeze,
    /// Undo the freeze.
    Thaw,
    /// Show all numbers as differences from the current view, or stop doing so.
    Baseline(bool),
    /// Reset the totals of the clock.
    Reset,
    /// Explain where the symbols of a file come from, see [`Notice::Why`].
    Why {
        /// File name without its directory.
        module: String,
    },
    /// Write to the target's terminal.
    Input(Vec<u8>),
    /// Set the size of the target's terminal (columns, rows).
    Resize(u16, u16),
    /// End the launched target with SIGTERM, and with SIGKILL if it still runs after two seconds or
    /// if the command is repeated.
    End,
    /// Hang up the launched target's terminal, because the screen's terminal is gone.
    HangUp,
    /// Save to a file. [`Notice::Saved`] has the result.
    Save(SaveRequest),
    /// Save what the black box has kept since a time, ns. [`Notice::Saved`] has the result.
    SaveKept {
        /// The path of the file.
        path: PathBuf,
        /// The time on the session's clock, ns.
        since_ns: u64,
    },
    /// Convert what is new since the last of these commands: see [`Notice::Increment`].
    TakeIncrement,
    /// Take the last samples and stop sampling: see [`Notice::Concluded`].
    Conclude,
    /// The same, then leave the target running and end the session.
    Leave,
}

/// A message from the session to the screen or the batch loop.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A new answer.
    Answer(Arc<Answer>),
    /// The answers to the questions of [`Command::AskOnce`], in their order.
    Answers(Vec<Answer>),
    /// A warning of one sentence, such as a refusal.
    Banner(String),
    /// The explanations for all files of the name.
    Why(Vec<Explanation>),
    /// The saved file, or the reason why it could not be saved: one sentence.
    Saved(Result<SavedFile, String>),
    /// The samples since the last [`Command::TakeIncrement`].
    Increment(Box<SavedProfile>),
    /// The recording was played to its end. The session continues to answer.
    Played,
    /// The last samples have arrived, and the answer before has them. The session continues to
    /// answer.
    Concluded,
    /// The target has ended. The session continues to answer.
    Ended(TargetExit),
}
