//! Counters of ticks and losses, and the configurations of timers. They are kept in the header of
//! the ring, where they outlive the process, and in this module before there is a ring.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::agent::sampling::ring::RING;
use crate::wire::ring::{self, EPOCHS, word};
use crate::wire::{Clock, LossCause};

/// Counters by their [`word`] while there is no ring. Written by handlers, emptied by the agent
/// thread.
static EARLY: [AtomicU64; EARLY_WORDS] = [const { AtomicU64::new(0) }; EARLY_WORDS];
/// An agent that times itself uses more words.
const EARLY_WORDS: usize = if cfg!(sigtop_timed) { word::ENDED } else { word::CONFIGS };

/// Returns the counter of a [`word`]: in the ring as soon as there is one.
pub(crate) fn counter(index: usize) -> &'static AtomicU64 {
    let ring = RING.load(Ordering::Acquire);
    // SAFETY: published once and never freed.
    if ring.is_null() { &EARLY[index] } else { unsafe { (*ring).header(index) } }
}

/// Adds to a counter.
pub(crate) fn count(index: usize, more: u64) {
    counter(index).fetch_add(more, Ordering::Relaxed);
}

/// Number of ticks that the agent thread has counted, because no handler ran for them. Written by
/// the agent thread.
static UNHANDLED: AtomicU64 = AtomicU64::new(0);

/// Counts ticks for which no handler ran.
pub(crate) fn count_unhandled(ticks: u64) {
    count(word::TICKS, ticks);
    UNHANDLED.fetch_add(ticks, Ordering::Relaxed);
}

/// Returns how many ticks had no handler since the last [`reset_unhandled`].
pub(crate) fn unhandled() -> u64 {
    UNHANDLED.load(Ordering::Relaxed)
}

/// Resets the number of ticks without a handler, for an empty ring.
pub(crate) fn reset_unhandled() {
    UNHANDLED.store(0, Ordering::Relaxed);
}

/// Counts a sample of a clock that is lost.
pub(crate) fn count_lost_sample(cause: LossCause, clock: Clock, weight: u64) {
    let weights = if clock.is_memory() { word::LOST_BYTES } else { word::LOST_NS };
    count(word::LOST_TICKS + cause as usize, 1);
    count(weights + cause as usize, weight);
}

/// Counts ticks of a clock of time that become no sample.
pub(crate) fn count_loss(cause: LossCause, ticks: u64, weight_ns: u64) {
    count(word::LOST_TICKS + cause as usize, ticks);
    count(word::LOST_NS + cause as usize, weight_ns);
}

/// Moves the counts from before there was a ring into the ring.
pub(crate) fn move_early_counters() {
    for (index, early) in EARLY.iter().enumerate().filter(|(_, early)| early.load(Ordering::Relaxed) != 0) {
        count(index, early.swap(0, Ordering::Relaxed));
    }
}

/// Returns the ticks lost so far by cause, and their weights in ns and in bytes.
pub(crate) fn losses() -> [[u64; LossCause::ALL.len()]; 3] {
    [word::LOST_TICKS, word::LOST_NS, word::LOST_BYTES]
        .map(|first| core::array::from_fn(|cause| counter(first + cause).load(Ordering::Relaxed)))
}

static CONFIGS: [AtomicU64; EPOCHS] = [const { AtomicU64::new(0) }; EPOCHS];

/// Configuration of the timers in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerConfig {
    /// The clock.
    pub(crate) clock: Clock,
    /// The period, ns.
    pub(crate) period_ns: u64,
}

impl TimerConfig {
    /// The period, ns. It is 0 for a clock of memory: then the first tick of the scheduler will do
    /// to spawn the agent thread.
    pub(crate) fn time_ns(self) -> u64 {
        if self.clock.is_memory() { 0 } else { self.period_ns }
    }
}

/// Publishes a configuration, before a timer of its epoch is armed. The period must be below 2^60
/// ns.
pub(crate) fn publish_config(epoch: u32, config: TimerConfig) {
    CONFIGS[epoch as usize % EPOCHS].store(config.period_ns << 2 | config.clock as u64, Ordering::Release);
    copy_configs_to_ring();
}

/// Copies the configurations into the ring, if there is one, for a viewer that reads it after the
/// process has ended.
pub(crate) fn copy_configs_to_ring() {
    if !RING.load(Ordering::Acquire).is_null() {
        for (index, config) in CONFIGS.iter().enumerate() {
            counter(word::CONFIGS + index).store(config.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// Returns the configuration of an epoch.
pub(crate) fn config(epoch: u32) -> TimerConfig {
    let (clock, period_ns) = ring::unpack_config(CONFIGS[epoch as usize % EPOCHS].load(Ordering::Acquire));
    TimerConfig { clock, period_ns }
}

/// Epoch of the configuration in force; 0 before there is one. Written by the agent thread; a fork
/// child starts with its parent's.
static CURRENT_EPOCH: AtomicU32 = AtomicU32::new(0);

/// The epoch of the configuration in force.
pub(crate) fn current_epoch() -> u32 {
    CURRENT_EPOCH.load(Ordering::Relaxed)
}

/// Remembers the epoch of the configuration in force, for fork children and for the next agent
/// thread.
pub(crate) fn remember_epoch(epoch: u32) {
    CURRENT_EPOCH.store(epoch, Ordering::Relaxed);
}

/// Resets the counters of a process that has no ring yet: for a fork child.
pub(crate) fn forget() {
    EARLY.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_sample_of_memory_is_bytes_and_no_time() {
        let of =
            |weights: [[u64; LossCause::ALL.len()]; 3]| weights.map(|by_cause| by_cause[LossCause::NoTimer as usize]);
        let before = of(losses());
        count_lost_sample(LossCause::NoTimer, Clock::Alloc, 1 << 50);
        count_lost_sample(LossCause::NoTimer, Clock::Real, 1 << 40);
        let after = of(losses());
        assert!(after[0] >= before[0] + 2);
        assert_eq!([1, 2].map(|index| (after[index] - before[index]) >> 30), [1 << 10, 1 << 20]);
    }
}
