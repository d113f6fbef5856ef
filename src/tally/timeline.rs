//! What the kept samples weigh, bucket by bucket: the heat of the last ten minutes.

use std::sync::Arc;

/// The past of one clock, as the filters leave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Weight of each tick ([`BUCKET_NS`](crate::profile::window::BUCKET_NS) long), ns, the newest last. It begins with the oldest tick
    /// that is kept and has something.
    pub ticks_ns: Arc<[u64]>,
}

impl Timeline {
    /// What the ticks from `oldest` to `newest` weigh, both counted back from the last; `None` before the first.
    pub fn sum(&self, oldest: u64, newest: u64) -> Option<u64> {
        let last = self.ticks_ns.len().checked_sub(1)? as u64;
        let (start, end) = (last.saturating_sub(oldest), last.checked_sub(newest)?);
        Some(self.ticks_ns[start as usize..=end as usize].iter().fold(0, |sum: u64, &ns| sum.saturating_add(ns)))
    }
}
