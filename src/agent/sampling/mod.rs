//! The path from a tick to a sample in the ring.

pub(crate) mod counters;
pub(crate) mod deepest;
pub(crate) mod deferred;
#[cfg(sigtop_timed)]
pub(crate) mod handler_time;
pub(crate) mod ring;
pub(crate) mod sample;
pub(crate) mod sleeping;
pub(crate) mod slot;
pub(crate) mod snapshots;
pub(crate) mod unaccounted;
pub(crate) mod waits;
