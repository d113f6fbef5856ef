//! One watch, from launch to last word: the threads between socket and screen, and the channels between them.
//!
//! The screen (or the batch loop) sends [`Command`]s and receives [`Notice`]s. What it asks for is a [`Question`]; the
//! [`Answer`] carries the tables and the [`Facts`] of the header. Nothing here draws.

mod baseline;
mod caller;
mod cost;
pub mod desk;
pub mod facts;
mod governor;
pub mod listing;
mod live;
mod meter;
mod pace;
mod player;
mod remark;
mod save;
mod saver;
pub mod session;
mod spool;
mod states;
mod stopwatch;
mod tape;
mod transcript;
mod unsampled;
mod watcher;

use std::sync::Arc;

use crate::link::wire::{Clock, Engine};
use crate::symbols::inquiry::Inquiry;
use crate::tally::callers::Callers;
use crate::tally::flame::{Flame, FlameQuery};
use crate::tally::query::{Filters, Group, Roots, Sort};
use crate::tally::table::Table;
use crate::tally::threads::{Threads, ThreadsQuery};
use crate::tally::timeline::Timeline;
use crate::tally::trend::Trends;
pub use facts::{Ending, Facts};
use listing::Listing;
pub use player::Opened;
pub use save::{Form, Make, Save, Taken};
pub use saver::{Output, Saved};
pub use tape::Recording;
pub use unsampled::Unsampled;

/// What the screen shows, as a question to be asked again at every refresh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// Length of the window, ns; `None` is all.
    pub window_ns: Option<u64>,
    /// Which samples and frames.
    pub filters: Filters,
    /// In which order.
    pub sort: Sort,
    /// Into which rows.
    pub group: Group,
    /// What lies at the root of every stack.
    pub roots: Roots,
    /// Full name of the function whose callers and callees are shown.
    pub centre: Option<String>,
    /// Full name of the function whose source and assembly are shown.
    pub listing: Option<String>,
    /// How the flame is drawn, if it is shown.
    pub flame: Option<FlameQuery>,
    /// Which processes and threads, if they are shown.
    pub threads: Option<ThreadsQuery>,
    /// While the screen is frozen: another time than the last window before it.
    pub past: Option<Past>,
    /// Whether the heat of the past is shown.
    pub timeline: bool,
}

/// A span of the past, in ticks ([`BUCKET_NS`](crate::profile::window::BUCKET_NS) long) before the freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// How long before the freeze its last tick was.
    pub back: u64,
    /// How many ticks it has.
    pub ticks: u64,
}

/// The screen's material.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What was asked.
    pub question: Question,
    /// The window's rows, in the order asked for.
    pub window: Arc<Table>,
    /// The total's rows, in the order asked for.
    pub total: Arc<Table>,
    /// The window's callers and callees of the centre asked for.
    pub callers: Option<Callers>,
    /// Lines and code of the function asked for, with their weights in the window.
    pub listing: Option<Listing>,
    /// The window's flame, if it was asked for.
    pub flame: Option<Arc<Flame>>,
    /// The heat of the past, if it was asked for.
    pub timeline: Option<Timeline>,
    /// How old the baseline is that numbers are differences from, ns; `None` if they are no differences.
    pub baseline_ns: Option<u64>,
    /// The window's processes and threads, if they were asked for.
    pub threads: Option<Threads>,
    /// For each filter by thread, those to focus on first: whom it means now.
    pub tagged: Vec<String>,
    /// Of which time the answer is, on the viewer's clock, ns.
    pub now_ns: u64,
    /// How much of the window was measured, ns.
    pub measured_ns: u64,
    /// How the flat of the window's rows goes, in their order; empty where the window is all.
    pub trends: Arc<Trends>,
    /// The header's facts.
    pub facts: Facts,
}

/// What the screen wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Answer this from now on: at once, and whenever there is something new (at most 20 times a second).
    Ask(Box<Question>),
    /// Sample with this clock.
    Clock(Clock),
    /// Sample with this engine.
    Engine(Engine),
    /// Sample with this period, ns.
    Period(u64),
    /// Stand still: answer from the books as they are now; sampling goes on.
    Freeze,
    /// Answer from the living books again.
    Thaw,
    /// Show every number as a difference from what is shown now, or no more.
    Baseline(bool),
    /// Forget the shown clock's totals.
    Reset,
    /// Say where the names of a function's file come from.
    Why {
        /// Last part of the file's path.
        module: String,
    },
    /// Type into the target.
    Input(Vec<u8>),
    /// The target's terminal has this size (columns, rows).
    Resize(u16, u16),
    /// End the launched target: SIGTERM, and SIGKILL if it is still there after two seconds or asked twice.
    End,
    /// The screen's terminal is gone: hang up on a launched target, as the terminal would.
    HangUp,
    /// Write what is known to a file; [`Notice::Saved`] tells what came of it.
    Save(Save),
    /// Disarm and leave the target running. The session ends.
    Leave,
}

/// What the session tells the screen.
#[derive(Clone, Debug)]
pub enum Notice {
    /// New numbers.
    Answer(Arc<Answer>),
    /// A sentence for the line above the footer (a refusal, a signal that is taken).
    Banner(String),
    /// What was found of files of the name that was asked about.
    Why(Vec<Inquiry>),
    /// What was to be saved is, or why it is not: one sentence.
    Saved(Result<Saved, String>),
    /// The recording is played to its end; the session goes on answering.
    Played,
    /// The launched target has ended; the session goes on answering.
    Ended(Ending),
}
