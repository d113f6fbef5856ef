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
/// Number of looks in a row at which a sampler that hangs is silent. A virtual machine may lose a
/// CPU for a tenth of a second, and the sampler alone repairs a system call that a stop has
/// interrupted.
const SILENT_LOOKS: u32 = 10;
/// CPU time of a silent sampler between two looks, ns, from which on it is in an endless loop.
const LOOPS_NS: u64 = LOOK.as_nanos() as u64 / 2;

/// Watches over one sampler.
#[derive(Debug)]
pub(super) struct Watchdog {
    heartbeat: File,
    /// Number of looks in a row at which it was silent and did not wait for a CPU.
    silent_looks: u32,
    /// The CPU time that it had used at the last of them, ns.
    used_ns: u64,
}

impl Watchdog {
    pub(super) fn new(heartbeat: File) -> Watchdog {
        Watchdog { heartbeat, silent_looks: 0, used_ns: 0 }
    }

    /// The memory file that the sampler shares with this process.
    pub(super) fn heartbeat(&self) -> &File {
        &self.heartbeat
    }

    /// Returns whether this sampler hangs while stops are under way. To be asked once in [`LOOK`].
    pub(super) fn finds_hanging(&mut self, sampler: u32) -> bool {
        if !heartbeat::is_silent(&self.heartbeat) {
            self.silent_looks = 0;
            return false;
        }
        let state = ProcStat::of_thread(sampler, sampler).map_or(b'X', |stat| stat.state);
        let used_ns = proc::schedule(sampler).map_or(0, |schedule| schedule.ran_ns);
        let since_ns = used_ns.saturating_sub(std::mem::replace(&mut self.used_ns, used_ns));
        self.silent_looks = if waits_for_cpu(state, since_ns) { 0 } else { self.silent_looks + 1 };
        // It may have got its CPU meanwhile.
        self.silent_looks >= SILENT_LOOKS && heartbeat::is_silent(&self.heartbeat)
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
        for look in 1..SILENT_LOOKS {
            assert!(!watchdog.finds_hanging(pid), "the machine may have stood still for {look} looks");
        }
        assert!(watchdog.finds_hanging(pid));
    }
}
