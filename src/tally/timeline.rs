//! The weight of the samples that the filters keep, by time. The history of a session is drawn from
//! it.

use std::sync::Arc;

/// The history of one clock after filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The weight of each tick ([`BUCKET_NS`](crate::profile::totals::BUCKET_NS) long), ns, the
    /// newest last. It begins with the oldest tick of the history that has samples.
    pub ticks_ns: Arc<[u64]>,
}

impl Timeline {
    /// The weight of the ticks from `oldest` to `newest`, both counted back from the last. Returns
    /// `None` if `newest` lies before the first tick.
    pub fn sum(&self, oldest: u64, newest: u64) -> Option<u64> {
        let last = self.ticks_ns.len().checked_sub(1)? as u64;
        let (start, end) = (last.saturating_sub(oldest), last.checked_sub(newest)?);
        Some(self.ticks_ns[start as usize..=end as usize].iter().fold(0, |sum: u64, &ns| sum.saturating_add(ns)))
    }
}
