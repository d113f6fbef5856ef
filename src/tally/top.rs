//! The top list: flat and cum of every row.

use super::change::Changes;
use super::memory_sum::MemorySum;
use super::text::Text;
use crate::symbols::FunctionId;

/// Whether the function of a row is inlined where it was sampled: pprof's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineState {
    /// No call is inlined.
    No,
    /// Some calls are inlined.
    Partial,
    /// Every call is inlined.
    Yes,
}

/// A function, or whatever one row stands for in the query's grouping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopRow {
    /// The first function with this name. Rows are merged by name, over modules and processes. If a
    /// row is not a function, this is one of its functions, and `module` is that one's.
    pub function: FunctionId,
    /// Its full name.
    pub full: Text,
    /// Its short name.
    pub short: Text,
    /// The last component of the module's path.
    pub module: Text,
    /// The thread or process that the row belongs to, where rows have an owner: `worker-0 41280`;
    /// else empty.
    pub owner: Text,
    /// pprof's inline mark.
    pub inline: InlineState,
    /// The weight of samples whose leaf it is, ns.
    pub flat_ns: u64,
    /// The weight of samples that contain it, each counted once, ns.
    pub cum_ns: u64,
    /// The weight of samples that contain it, divided by the number of threads that ran at that
    /// moment, ns; see [`TopTable::latency_ns`]. Of memory, the number of the allocations.
    pub latency_ns: u64,
    /// The part of `flat_ns` that is time of library calls, if foreign code is folded, ns. A row that
    /// is not own has nothing else.
    pub library_ns: u64,
    /// The short name of the heaviest library call, if foreign code is folded; else empty.
    pub library_call: Text,
    /// Whether it is own code. What is no function, such as a thread, is too.
    pub is_own: bool,
    /// The kind of the differences, if the weights are sizes of differences.
    pub changes: Option<Changes>,
}

/// The rows of a query, with the totals that their shares refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopTable {
    /// The rows, sorted as the query says.
    pub rows: Vec<TopRow>,
    /// The weight of all samples of the period, before filters, ns. Percentages are shares of it.
    pub total_ns: u64,
    /// The weight of the samples that the filters keep, ns.
    pub kept_ns: u64,
    /// In a difference, the parts of both weights that are from the baseline, ns; else 0.
    pub before_ns: u64,
    /// See `before_ns`.
    pub before_kept_ns: u64,
    /// The number of samples of the period.
    pub samples: u64,
    /// The number of samples that the filters keep.
    pub kept_samples: u64,
    /// The wall-clock time of the query's span in which the process ran, ns: the weights of all
    /// samples, divided by the number of its threads that ran at that moment. It is 0 if it was not
    /// requested. Of memory, the number of allocations.
    pub latency_ns: u64,
    /// That of the samples that the filters keep.
    pub kept_latency_ns: u64,
    /// The part of the latencies that is not known, because threads begin and end to run between
    /// two samples, in thousandths.
    pub unknown_latency: u64,
    /// The weight of the samples of idle threads, if the query folds them, ns. They are in no other
    /// number.
    pub idle_ns: u64,
    /// The number of these threads.
    pub idle_threads: usize,
    /// The mean number of bytes between two samples of memory; 0 of time.
    pub interval: u64,
}

impl TopTable {
    /// The number of samples of equal weight that tell a part's share as exactly: of the samples,
    /// or of those that the filters keep. `objects` is the number of the part's allocations.
    pub fn independent_samples(&self, ns: u64, objects: u64, kept: bool) -> u64 {
        let (bytes, all_objects, samples) = match kept {
            true => (self.kept_ns, self.kept_latency_ns, self.kept_samples),
            false => (self.total_ns, self.latency_ns, self.samples),
        };
        if self.interval == 0 {
            return samples;
        }
        let (part, all) = (MemorySum { bytes: ns, objects }, MemorySum { bytes, objects: all_objects });
        part.equal_samples(all, self.interval, samples)
    }

    /// The margin of the number of allocations of a part, relative to it; 0 of time.
    pub fn count_margin(&self, bytes: u64, objects: u64) -> f64 {
        if self.interval == 0 { 0.0 } else { MemorySum { bytes, objects }.count_margin(self.interval) }
    }

    /// Returns a table with these totals and no rows.
    pub(super) fn without_rows(&self) -> TopTable {
        TopTable { rows: Vec::new(), ..*self }
    }
}
