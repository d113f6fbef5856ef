//! The viewer's look at a sampler that gives no sign of life during a stop: it hangs, or waits for
//! a CPU.
//!
//! One that waits for a CPU is left alone. It would need one to end, too, so that its end would
//! not let the stopped threads run any earlier; and the kernel, which then lets them run, does not
//! repair the system calls that the stops have interrupted.

use std::fs::File;
use std::time::Duration;

use super::heartbeat;
use crate::attach::proc::{self, ProcStat};

/// The time between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// CPU time of a silent sampler between two looks, ns, from which on it is in an endless loop.
const LOOPS_NS: u64 = LOOK.as_nanos() as u64 / 2;

/// Watches over one sampler.
#[derive(Debug)]
pub(super) struct Watchdog {
    heartbeat: File,
    /// The CPU time that the sampler had used at the last look if it was silent then, ns.
    silent_at_ns: Option<u64>,
}

impl Watchdog {
    pub(super) fn new(heartbeat: File) -> Watchdog {
        Watchdog { heartbeat, silent_at_ns: None }
    }

    /// Returns whether this sampler hangs while stops are under way: it is silent at two looks in a
    /// row. After one, the whole machine may have stood still. To be asked once in [`LOOK`].
    pub(super) fn finds_hanging(&mut self, sampler: u32) -> bool {
        if !heartbeat::is_silent(&self.heartbeat) {
            self.silent_at_ns = None;
            return false;
        }
        let state = ProcStat::of_thread(sampler, sampler).map_or(b'X', |stat| stat.state);
        let used_ns = proc::schedule(sampler).map_or(0, |schedule| schedule.ran_ns);
        let Some(before_ns) = self.silent_at_ns.replace(used_ns) else { return false };
        // It may have got its CPU meanwhile.
        !waits_for_cpu(state, used_ns.saturating_sub(before_ns)) && heartbeat::is_silent(&self.heartbeat)
    }
}

/// Returns whether a silent thread waits for a CPU: by its state, and by the CPU time that it has
/// used since the last look, ns.
fn waits_for_cpu(state: u8, used_ns: u64) -> bool {
    state == b'R' && used_ns < LOOPS_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use std::os::unix::fs::FileExt;
    use std::process::{Child, Command};

    struct StoppedChild(Child);

    impl Drop for StoppedChild {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_thread_without_a_cpu_waits_and_one_with_a_cpu_loops() {
        assert!(waits_for_cpu(b'R', LOOPS_NS - 1));
        assert!(!waits_for_cpu(b'R', LOOPS_NS));
        for state in *b"TtSDZX" {
            assert!(!waits_for_cpu(state, 0));
        }
    }

    #[test]
    fn a_stopped_sampler_hangs_only_while_stops_are_under_way() {
        let child = StoppedChild(Command::new("sleep").arg("60").spawn().unwrap());
        let pid = child.0.id();
        kill(Pid::from_raw(pid as i32), Signal::SIGSTOP).unwrap();
        while ProcStat::of(pid).unwrap().state != b'T' {
            std::thread::yield_now();
        }
        let file = File::from(memfd_create(c"heartbeat", MFdFlags::MFD_CLOEXEC).unwrap());
        let mut watchdog = Watchdog::new(file.try_clone().unwrap());
        assert!(!watchdog.finds_hanging(pid), "no stop is under way");
        // A time long ago.
        file.write_all_at(&1_u64.to_ne_bytes(), 0).unwrap();
        assert!(!watchdog.finds_hanging(pid), "the machine may have stood still");
        assert!(watchdog.finds_hanging(pid));
    }
}
