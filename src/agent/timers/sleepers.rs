//! Finds out where threads sleep and what they wait for, for the samples of wall ticks.

use crate::agent::sampling::sleeping::SleeperWalker;
use crate::agent::sampling::waits::{self, OwnWaits};
use crate::agent::timers::thread::Thread;
use crate::agent::unwind::modules::Snapshot;
use crate::process::waits::WaitReader;
use crate::wire::{MAX_FRAMES, Schedule};

/// Finds out where threads sleep, and what they wait for.
pub(super) struct SleeperFinder {
    walker: SleeperWalker,
    pub(super) waits: WaitReader<OwnWaits>,
}

/// A wall tick of a sleeping thread.
pub(crate) struct SleeperSample<'a> {
    /// The thread, with its last stack and wait.
    pub(crate) thread: &'a mut Thread,
    /// The time that the tick stands for, ns.
    pub(crate) weight_ns: u64,
    /// Whether the thread has not run since its previous sample.
    pub(crate) is_repeated: bool,
    /// Whether the process did not run for that time because it was stopped.
    pub(crate) is_stopped: bool,
}

impl SleeperSample<'_> {
    /// Returns a sample of a thread that has slept on where it was found before, for a time, ns.
    pub(super) fn again(thread: &mut Thread, weight_ns: u64) -> SleeperSample<'_> {
        SleeperSample { thread, weight_ns, is_repeated: true, is_stopped: false }
    }
}

/// The wall time of a thread that does not sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WallTime {
    /// Time on a CPU, ns.
    pub(crate) ran_ns: u64,
    /// Time waiting for a CPU, ns.
    pub(crate) delayed_ns: u64,
    /// Time for which the process was stopped, ns.
    pub(crate) stopped_ns: u64,
}

impl SleeperFinder {
    pub(super) fn new() -> SleeperFinder {
        SleeperFinder { walker: SleeperWalker::new(), waits: waits::reader() }
    }

    /// Finds out where a thread sleeps, and keeps its stack and what it waits for. Returns false if
    /// it runs. `count` is the number of threads, and `few` whether their files may stay open.
    pub(super) fn find(
        &mut self,
        thread: &mut Thread,
        schedule: Option<Schedule>,
        snapshot: &Snapshot,
        (count, few): (usize, bool),
    ) -> bool {
        let (Some(before), Some(place)) = (schedule, thread.location(few)) else { return false };
        let cpu_ns = thread.cpu_ns();
        let mut frames = [0; MAX_FRAMES];
        let found = self.walker.walk_sleeper(snapshot, thread.tid, place, &mut frames);
        self.waits.read(&mut thread.wait, thread.tid, place.call, |_| count);
        // What was read is of one sleep only if the thread did not move meanwhile.
        let Some((depth, flags)) = found.filter(|_| thread.schedule(true) == Some(before)) else { return false };
        thread.note_sleep(before, cpu_ns);
        thread.last.remember(flags, snapshot.generation(), &frames[..depth]);
        true
    }
}
