//! Facts about stacks that queries are answered from, each computed once for a stack and kept
//! until names or filters change. [`chains`] compresses a tree; [`propagate`] and [`call_tree`]
//! keep weights on compressed trees.

pub(crate) mod call_tree;
pub(crate) mod chains;
pub(crate) mod neighbors;
pub(crate) mod owner_stacks;
pub(crate) mod propagate;
pub(crate) mod stack_facts;

/// The number of sums that are kept side by side: those of the query's span and, if requested,
/// those of the whole session, and the latencies of both.
pub(crate) const SUMS: usize = 4;
/// The index of the sums of the query's span.
pub(crate) const SPAN: usize = 0;
/// The index of the sums of the session.
pub(crate) const TOTAL: usize = 1;
/// The index of the sums of latencies, from the index of sums of weights on.
pub(crate) const LATENCY: usize = 2;

/// The number of items that are prefetched together. What is read of so many fits into the L1 or L2
/// cache.
pub(crate) const PREFETCH: usize = 256;
