//! A sign of life while stops are under way, in a memory file that the viewer reads. If it stays
//! away, the viewer ends the sampler, and the kernel lets the stopped threads run on.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::clock::monotonic_ns;
use crate::attach::launch_gate;

/// Longest time between two signs of life while stops are under way.
pub(super) const MAX_SILENCE: Duration = Duration::from_millis(50);

/// The sampler's side.
pub(super) struct Heartbeat {
    file: File,
    /// Whether the last sign said that stops are under way.
    is_stopping: Cell<bool>,
}

impl Heartbeat {
    pub(super) fn new(file: File) -> Heartbeat {
        Heartbeat { file, is_stopping: Cell::new(false) }
    }

    /// Lets a program go on that is launched.
    pub(super) fn open_gate(&self, pid: u32) {
        launch_gate::open(&self.file, pid);
    }

    /// Gives a sign of life. Nothing is written while no stop is under way.
    pub(super) fn beat(&self, is_stopping: bool) {
        if is_stopping || self.is_stopping.get() {
            let at_ns = if is_stopping { monotonic_ns() } else { 0 };
            // A failed write is silence, and the viewer ends this process.
            let _ = self.file.write_all_at(&at_ns.to_ne_bytes(), 0);
            self.is_stopping.set(is_stopping);
        }
    }
}

/// Returns whether a sampler is silent although stops are under way.
pub(super) fn is_silent(file: &File) -> bool {
    let mut bytes = [0; 8];
    let at_ns = file.read_exact_at(&mut bytes, 0).map_or(0, |()| u64::from_ne_bytes(bytes));
    at_ns != 0 && monotonic_ns().saturating_sub(at_ns) > MAX_SILENCE.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};

    #[test]
    fn silence_counts_only_while_stops_are_under_way() {
        let file = File::from(memfd_create(c"heartbeat", MFdFlags::MFD_CLOEXEC).unwrap());
        let heartbeat = Heartbeat::new(file.try_clone().unwrap());
        assert!(!is_silent(&file), "nothing was written");
        heartbeat.beat(true);
        assert!(!is_silent(&file));
        let long_ago_ns = monotonic_ns() - 2 * MAX_SILENCE.as_nanos() as u64;
        file.write_all_at(&long_ago_ns.to_ne_bytes(), 0).unwrap();
        assert!(is_silent(&file));
        heartbeat.beat(false);
        assert!(!is_silent(&file));
    }
}
