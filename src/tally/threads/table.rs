//! The rows of processes and threads, and the query that asks for them.

use crate::profile::process::ProcessId;
use crate::profile::thread::{ThreadId, ThreadState};
use crate::profile::totals::Weight;
use crate::profile::waits::WaitReason;
use crate::tally::change::Change;
use crate::tally::measure;
use crate::tally::text::Text;
use crate::tally::trend::PARTS;

/// The order of processes, and of threads in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadSort {
    /// Sorts by id.
    Id,
    /// Sorts by name, then id.
    Name,
    /// Sorts by state, running ones first, then weight.
    State,
    /// Sorts by weight, then name and id.
    #[default]
    Weight,
    /// Sorts by samples, then name and id.
    Samples,
    /// Sorts by the function with most of the weight, then weight.
    Function,
}

/// The rows to show, and their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadsQuery {
    /// The order of rows.
    pub sort: ThreadSort,
    /// Processes whose ended threads are shown. Those of other processes are folded.
    pub ended_threads_of: Vec<ProcessId>,
    /// Whether ended processes are shown.
    pub ended_processes: bool,
    /// Whether each idle thread has a row.
    pub idle_threads: bool,
    /// The threads whose newest stack is requested.
    pub stacks_of: Vec<ThreadId>,
    /// The threads whose newest stack is requested to be compared, each of which may wait for the
    /// next.
    pub chain: Vec<ThreadId>,
    /// The threads whose deepest stack is requested with its frames.
    pub deepest_of: FrameRequest,
}

/// Threads for which the frames of their deepest stack are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameRequest {
    /// None.
    #[default]
    None,
    /// One thread.
    One(ThreadId),
    /// All threads.
    All,
}

/// The kind of a difference between two loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadChange {
    /// The change of the weight.
    pub weight: Change,
    /// Whether there are fewer samples.
    pub fewer: bool,
}

/// A part of the time for which threads wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitShare {
    /// The reason.
    pub reason: WaitReason,
    /// The name of the lock's variable; empty if that is not known.
    pub variable: Text,
    /// The name of the thread that holds the lock; empty if that is not known.
    pub holder: Text,
    /// The short name of the innermost function of the program itself that waits for the lock;
    /// empty for other reasons.
    pub within: Text,
    /// The weight of the samples in such waits, ns.
    pub weight_ns: u64,
}

impl WaitShare {
    /// The reason and the lock: `lock cache_mutex`.
    pub fn words(&self) -> String {
        let word = self.reason.word();
        if self.variable.is_empty() { word.to_owned() } else { format!("{word} {}", self.variable) }
    }
}

/// The samples of a thread or process, summed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Their weight.
    pub weight: Weight,
    /// The weight of those that do not wait, ns; of a difference, the size of its weight.
    pub running_ns: u64,
    /// Their weight in each part of the window, oldest first, ns; 0 for a query of the session.
    pub parts_ns: [u64; PARTS],
    /// The short name of the function with the greatest flat; empty if there is none.
    pub top: Text,
    /// The full name of that function.
    pub top_full: Text,
    /// The module of that function.
    pub top_module: Text,
    /// The kind of the difference, if the weight is the size of a difference.
    pub change: Option<LoadChange>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadRow {
    /// Its index in the profile.
    pub id: ThreadId,
    /// Its id in the target's namespace; 0 stands for the threads of a process beyond the limit of
    /// threads.
    pub tid: u32,
    /// Its latest name. It may contain any characters.
    pub name: String,
    /// Its scheduling state.
    pub state: ThreadState,
    /// Its samples.
    pub load: Load,
    /// Whether the thread filters keep it.
    pub inside: bool,
    /// The wait on its newest stack, if it waits there.
    pub wait: Option<WaitRow>,
    /// Its waits in the period, the longest first.
    pub waits: Vec<WaitShare>,
    /// Its newest stack in the period, the leaf first, if it was requested.
    pub stack: Vec<StackRow>,
    /// Its deepest stack since the start, if it was measured.
    pub deepest: Option<DeepestRow>,
}

/// The deepest stack of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeepestRow {
    /// Its size in bytes.
    pub used: u64,
    /// The size to which it may grow, in bytes; 0 if that is not known.
    pub size: u64,
    /// Its functions and the sizes of their frames in bytes, leaf first, if they were requested.
    pub frames: Vec<(StackRow, u64)>,
}

/// The wait of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitRow {
    /// The wait in a few words: `[lock] held by compactor`.
    pub name: Text,
    /// The reason.
    pub reason: WaitReason,
    /// The time since which it has not run, on the viewer's clock, ns; `None` if that is not known.
    pub since_ns: Option<u64>,
    /// The thread that holds the lock for which it waits, if that is known.
    pub holder: Option<ThreadId>,
    /// The innermost function of the program itself that waits, or the leaf.
    pub within: StackRow,
}

/// One function of a thread's newest stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackRow {
    /// The full name.
    pub full: Text,
    /// The short name.
    pub short: Text,
    /// The last component of the module's path.
    pub module: Text,
    /// Whether it is own code.
    pub is_own: bool,
}

/// Rows that are not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldedRows {
    /// The number of rows.
    pub count: usize,
    /// Their total weight.
    pub weight: Weight,
    /// The kind of the difference, if the weight is the size of a difference.
    pub change: Option<LoadChange>,
}

/// A process: all its images, if it called exec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessRow {
    /// The index of its first image in the profile.
    pub id: ProcessId,
    /// Its id in the viewer's namespace.
    pub pid: u32,
    /// The id of its parent in the target's namespace.
    pub parent: u32,
    /// Whether its parent is among the processes too.
    pub is_child: bool,
    /// Its nearest ancestor that has a row.
    pub ancestor: Option<ProcessId>,
    /// The number of ancestors that have a row.
    pub depth: usize,
    /// The last component of its executable's path.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// The time of its first message on the viewer's clock, ns.
    pub since_ns: u64,
    /// Whether it has ended.
    pub ended: bool,
    /// The samples of its threads.
    pub load: Load,
    /// Whether the thread filters keep any of its threads.
    pub inside: bool,
    /// Its threads, sorted.
    pub threads: Vec<ThreadRow>,
    /// Its ended threads that are not shown.
    pub folded: FoldedRows,
    /// Its idle threads, if the query folds them.
    pub idle: FoldedRows,
}

/// All processes and threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadTable {
    /// The processes, sorted.
    pub processes: Vec<ProcessRow>,
    /// The ended processes that are not shown.
    pub folded: FoldedRows,
}

impl DeepestRow {
    /// Formats its size and the limit, if that is known: `48.0 KiB of 8.0 MiB`.
    pub fn size_words(&self) -> String {
        match self.size {
            0 => measure::bytes(self.used),
            size => format!("{} of {}", measure::bytes(self.used), measure::bytes(size)),
        }
    }
}
