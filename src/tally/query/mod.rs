//! A query as a value: which samples count, what makes a row, and how rows are sorted.

mod own_code;
mod pattern;
pub mod tags;

use std::sync::Arc;

pub use own_code::OwnCode;
pub use pattern::Pattern;
use tags::TagFilter;

use crate::keyword::{Keyword, Word};
use crate::profile::Generation;
use crate::profile::totals::Span;
use crate::wire::Clock;

/// The filters that select samples and frames, with pprof's semantics. Patterns match names of
/// functions, files and modules; tag filters match threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filters {
    /// Keep samples with a match of any of these.
    pub focus: Vec<Pattern>,
    /// Drop samples with a match. It takes precedence over `focus`.
    pub ignore: Vec<Pattern>,
    /// Delete matching frames.
    pub hide: Vec<Pattern>,
    /// Delete frames that do not match.
    pub show: Vec<Pattern>,
    /// Drop the frames above the rootmost match, and samples without a match.
    pub show_from: Vec<Pattern>,
    /// Keep samples of threads with a match of any of these.
    pub tagfocus: Vec<TagFilter>,
    /// Drop samples of threads with a match. It takes precedence over `tagfocus`.
    pub tagignore: Vec<TagFilter>,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sort {
    /// Sorts by flat, then name.
    #[default]
    Flat,
    /// Sorts by cum, then name.
    Cum,
    /// Sorts by cum divided by the number of threads that ran at that moment, then name.
    Latency,
    /// Sorts by name.
    Name,
}

impl Sort {
    /// Returns whether the order is by a weight that includes callees: by cum rather than by flat.
    pub fn is_by_cum(self) -> bool {
        matches!(self, Sort::Cum | Sort::Latency)
    }
}

impl Keyword for Sort {
    const ALL: &'static [Sort] = &[Sort::Flat, Sort::Cum, Sort::Latency, Sort::Name];

    fn word(self) -> Word {
        match self {
            Sort::Flat => Word::new("flat", "time in the function itself").with_alias("self"),
            Sort::Cum => Word::new("cum", "time in the function and its callees").with_alias("total"),
            Sort::Latency => {
                Word::new("latency", "share of the wall-clock time in which the process ran").with_alias("lat")
            }
            Sort::Name => Word::new("name", "function name"),
        }
    }
}

/// The unit that one row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grouping {
    /// A function: its full name.
    #[default]
    Function,
    /// A source file: its path. Code of it that is inlined has a row of its own,
    /// `src/s_sin.c (inline)`. Code of unknown source is `[libc.so.6]`, or `<unknown>` if it is in
    /// no module.
    File,
    /// A line: `name file:line`.
    Line,
    /// An address in the module's file: `0000000000401a2b name file:line`, or
    /// `0000000000401a2b [libc.so.6]` if it has no name.
    Address,
    /// A module: its path.
    Module,
    /// A function in one thread: `parse [worker-0 41280]`. Its thread is the root of each stack.
    Thread,
    /// A function in one process. Its process is the root of each stack.
    Process,
    /// A function under one title of its process, which is the root of each stack: what a server
    /// said that it did.
    Title,
    /// A function, or what a thread waits for: that is the leaf of each stack of a sleeping thread.
    Wait,
    /// A function, or the reason why a thread waits.
    WaitReason,
    /// A function, or the thread that holds a lock; waits without a known holder by their reason.
    WaitHolder,
}

impl Keyword for Grouping {
    const ALL: &'static [Grouping] = &[
        Grouping::Function,
        Grouping::File,
        Grouping::Line,
        Grouping::Address,
        Grouping::Module,
        Grouping::Thread,
        Grouping::Process,
        Grouping::Title,
        Grouping::Wait,
        Grouping::WaitReason,
        Grouping::WaitHolder,
    ];

    fn word(self) -> Word {
        match self {
            Grouping::Function => Word::new("functions", "one row per function, inlined functions included"),
            Grouping::File => Word::new("files", "one row per source file"),
            Grouping::Line => Word::new("lines", "one row per source line"),
            Grouping::Address => Word::new("addresses", "one row per address"),
            Grouping::Module => Word::new("modules", "one row per executable or library"),
            Grouping::Thread => Word::new("threads", "one row per function and thread").with_label("by thread"),
            Grouping::Process => Word::new("processes", "one row per function and process").with_label("by process"),
            Grouping::Title => Word::new("titles", "one row per function and title of its process, such as a query")
                .with_label("by title"),
            Grouping::Wait => {
                Word::new("waits", "like functions; what a thread waits for is a row too").with_label("with waits")
            }
            Grouping::WaitReason => Word::new("wait-reasons", "like functions; why a thread waits is a row too")
                .with_label("waits by reason"),
            Grouping::WaitHolder => {
                Word::new("lock-holders", "like functions; who holds a lock is a row too").with_label("waits by holder")
            }
        }
    }
}

impl Grouping {
    /// The title of the column of names: what a row stands for, in the singular.
    pub fn row_title(self) -> &'static str {
        match self {
            Grouping::Function | Grouping::Thread | Grouping::Process | Grouping::Title => "function",
            Grouping::Wait | Grouping::WaitReason | Grouping::WaitHolder => "function",
            Grouping::File => "file",
            Grouping::Line => "line",
            Grouping::Address => "address",
            Grouping::Module => "module",
        }
    }

    /// The owner whose rows are kept apart, if any.
    pub fn owner(self) -> Option<Owner> {
        match self {
            Grouping::Thread => Some(Owner::Thread),
            Grouping::Process => Some(Owner::Process),
            Grouping::Title => Some(Owner::Title),
            Grouping::Function
            | Grouping::File
            | Grouping::Line
            | Grouping::Address
            | Grouping::Module
            | Grouping::Wait
            | Grouping::WaitReason
            | Grouping::WaitHolder => None,
        }
    }

    /// Whether waits are rows.
    pub fn shows_waits(self) -> bool {
        matches!(self, Grouping::Wait | Grouping::WaitReason | Grouping::WaitHolder)
    }

    /// The grouping of waits after this one: by reason, by what is waited for, by holder, and none.
    pub fn next_of_waits(self) -> Grouping {
        match self {
            Grouping::WaitReason => Grouping::Wait,
            Grouping::Wait => Grouping::WaitHolder,
            Grouping::WaitHolder => Grouping::Function,
            _ => Grouping::WaitReason,
        }
    }
}

/// The owner of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The thread that was sampled.
    Thread,
    /// The process of that thread.
    Process,
    /// The title of that process.
    Title,
    /// The wait of that thread, if it waits. It is no longer the leaf.
    Wait,
    /// The recording that the process comes from, if several are merged.
    Recording,
}

/// Frames added at the root of every stack, as pprof's `-tagroot` does. Filters treat them as they
/// treat other frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TagRoot {
    /// None.
    #[default]
    Plain,
    /// The thread.
    Threads,
    /// The process.
    Processes,
    /// The process, and the thread as its child.
    Both,
    /// The wait of the thread.
    Waits,
    /// The recording that the process comes from, and the process as its child.
    Sources,
}

impl Keyword for TagRoot {
    const ALL: &'static [TagRoot] =
        &[TagRoot::Plain, TagRoot::Threads, TagRoot::Processes, TagRoot::Both, TagRoot::Waits, TagRoot::Sources];

    fn word(self) -> Word {
        match self {
            TagRoot::Plain => Word::new("none", "sampled frames only").with_alias(""),
            TagRoot::Threads => Word::new("thread", "the thread").with_label("threads at the root"),
            TagRoot::Processes => Word::new("process", "the process").with_label("processes at the root"),
            TagRoot::Both => {
                Word::new("process,thread", "the process, then the thread").with_label("processes, threads at the root")
            }
            TagRoot::Waits => Word::new("wait", "what the thread waits for").with_label("waits at the root"),
            TagRoot::Sources => Word::new("source", "the file or host, if several are shown, then the process")
                .with_label("sources, processes at the root"),
        }
    }
}

impl TagRoot {
    /// The added frames, from the root on.
    pub fn owners(self) -> &'static [Owner] {
        match self {
            TagRoot::Plain => &[],
            TagRoot::Threads => &[Owner::Thread],
            TagRoot::Processes => &[Owner::Process],
            TagRoot::Both => &[Owner::Process, Owner::Thread],
            TagRoot::Waits => &[Owner::Wait],
            TagRoot::Sources => &[Owner::Recording, Owner::Process],
        }
    }
}

/// Threads that do something else than to wait, by number: in the query's span, and in the session.
pub type BusyThreads = Arc<[[bool; 2]]>;

/// A query of the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The totals that are queried: the current (or frozen) ones, or those of the baseline.
    pub generation: Generation,
    /// The clock whose samples are queried.
    pub clock: Clock,
    /// The period of time.
    pub span: Span,
    /// The samples and frames that count.
    pub filters: Filters,
    /// The order of rows.
    pub sort: Sort,
    /// The unit that one row stands for.
    pub group: Grouping,
    /// Frames added at the root of every stack. The profile must have
    /// frames for threads and processes.
    pub roots: TagRoot,
    /// Whether samples of idle threads are counted apart; see [`Query::folds_idle`].
    pub fold_idle: bool,
    /// The threads that are not idle although they wait: they work in the period that this one is
    /// compared with.
    pub busy_elsewhere: BusyThreads,
    /// Whether the functions of the kernel are frames.
    pub shows_kernel: bool,
    /// The choice of own code, and whether foreign code is folded into it.
    pub own: OwnCode,
}

impl Query {
    /// The owners added at the root of every stack, from the root on. Rows of one owner imply it.
    pub fn owners(&self) -> &'static [Owner] {
        match (self.group.owner(), self.roots) {
            (Some(Owner::Thread), TagRoot::Plain) => TagRoot::Threads.owners(),
            (Some(Owner::Process), TagRoot::Plain) => TagRoot::Processes.owners(),
            (Some(Owner::Title), _) => &[Owner::Title],
            (_, roots) => roots.owners(),
        }
    }

    /// Whether threads that wait are folded: if requested, and if the clock counts waiting.
    pub fn folds_idle(&self) -> bool {
        self.fold_idle && self.clock == Clock::Real
    }

    /// Whether waits are frames: rows, or the roots of stacks.
    pub fn shows_waits(&self) -> bool {
        self.group.shows_waits() || self.roots == TagRoot::Waits
    }

    /// Whether the query needs frames for threads and processes.
    pub fn has_owners(&self) -> bool {
        !self.owners().is_empty()
    }
}

impl Default for Query {
    fn default() -> Query {
        Query {
            generation: Generation::Current,
            clock: Clock::Prof,
            span: Span::Total,
            filters: Filters::default(),
            sort: Sort::default(),
            group: Grouping::default(),
            roots: TagRoot::default(),
            fold_idle: false,
            busy_elsewhere: BusyThreads::default(),
            shows_kernel: true,
            own: OwnCode::default(),
        }
    }
}

/// The name of the function in a row that belongs to one thread or process: its full name without
/// the owner that [`Grouping`] appends.
pub fn without_owner(full: &str) -> &str {
    full.rsplit_once(" [").map_or(full, |(function, _)| function)
}
