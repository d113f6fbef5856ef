//! The timers that sample threads, and the signals they send.

pub(crate) mod engine;
pub(crate) mod first_tick;
pub(crate) mod interval_timer;
pub(crate) mod new_threads;
pub(crate) mod phase;
pub(crate) mod signal_handover;
pub(crate) mod sleepers;
pub(crate) mod stops;
pub(crate) mod thread;
pub(crate) mod threads;
pub(crate) mod timer;
