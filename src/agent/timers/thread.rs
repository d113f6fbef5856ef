//! One thread of the process as the agent thread knows it: its name, its timer, and the time that
//! no sample stands for yet.

use alloc::vec::Vec;

use crate::agent::os::syscall::{self, File, PathBuffer};
use crate::agent::os::user_dispatch;
use crate::agent::sampling::counters;
use crate::agent::sampling::sleeping;
use crate::agent::timers::phase::Phase;
use crate::agent::timers::timer::Timer;
use crate::process::waits::{SleepLocation, SleeperWait};
use crate::wire::{LossCause, MAX_COMM, Schedule, flag, parse_number};

/// Minimum time waited for a CPU that has a sample of its own, ns.
const LEAST_DELAY_NS: u64 = 200_000;

/// The last known stack of a thread, packed.
#[derive(Default)]
pub(crate) struct SleeperStack {
    /// The frames, leaf first.
    pub(crate) frames: Vec<u64>,
    /// Bits of [`flag`](crate::wire::flag).
    pub(crate) flags: u32,
    /// Module generation of the frames.
    pub(crate) generation: u32,
}

impl SleeperStack {
    /// Replaces the stack by this one.
    pub(crate) fn remember(&mut self, flags: u32, generation: u32, frames: &[u64]) {
        self.frames.clear();
        self.frames.extend_from_slice(frames);
        (self.flags, self.generation) = (flags, generation);
    }

    /// Returns whether the stack may be whole by other modules than those it was walked by.
    pub(super) fn is_outdated(&self, generation: u32) -> bool {
        self.flags & flag::TRUNCATED != 0 && self.generation != generation
    }
}

/// One thread.
pub(crate) struct Thread {
    /// The thread's id.
    pub(crate) tid: u32,
    name: [u8; MAX_COMM],
    pub(super) named: bool,
    pub(super) announced: bool,
    pub(super) timer: Option<Timer>,
    /// The phase of its timer.
    pub(crate) phase: Phase,
    /// Whether the last search or wall tick found it.
    pub(super) alive: bool,
    /// Whether nobody has asked for it as a new one yet.
    pub(super) is_new: bool,
    /// CPU time that the thread used before it had a timer, ns. Its first sample stands for it too.
    pub(crate) used_before_ns: u64,
    /// The clock of its CPU time, once it has a timer.
    pub(super) clock: i32,
    /// CPU time of the thread up to which it was sampled or had no timer, ns.
    pub(crate) sampled_to_ns: u64,
    /// CPU time of the thread when its timer was last found overdue, ns; 0 if it was not.
    pub(super) overdue_at_ns: u64,
    /// Wall time of this thread that no sample stands for yet, ns; negative if its last sample
    /// weighed more than was owed.
    pub(crate) owed_ns: i64,
    /// Wall ticks that found the thread running since its last sample.
    pub(crate) owed_ticks: u64,
    /// The part of that time for which it waited for a CPU, ns.
    pub(super) delayed_ns: u64,
    /// Time for which the process was stopped while the thread ran, and that is in no sample, ns.
    pub(super) stopped_ns: u64,
    /// The total of that when it was last read, ns.
    pub(super) known_delay_ns: Option<u64>,
    /// The scheduler's figures if the last wall tick found the thread asleep, with the stack in
    /// `last`. The thread has not run for as long as they stay the same.
    pub(crate) sleeping_since: Option<Schedule>,
    /// CPU time of the thread then, ns, if it has a timer.
    slept_at_ns: Option<u64>,
    /// `CLOCK_MONOTONIC` time up to which wall ticks have counted its time, ns; 0 before the first.
    pub(super) counted_to_ns: u64,
    /// Number of looks in a row since which it has not run, and the time of the next one, ns.
    pub(super) rests: u32,
    pub(super) next_look_ns: u64,
    /// The stack on which the thread was last found asleep; empty before.
    pub(crate) last: SleeperStack,
    /// The wait in which it was last found.
    pub(crate) wait: SleeperWait,
    statistics: Option<File>,
    location: Option<File>,
}

/// Returns the time at which a thread started, field 22 of its `stat`. The name, the second field,
/// may contain anything.
fn start_ticks(text: &[u8]) -> Option<u64> {
    let end = text.iter().rposition(|&byte| byte == b')')?;
    text.get(end + 2..)?.split(|&byte| byte == b' ').nth(19).and_then(|digits| parse_number(digits, 10))
}

impl Thread {
    pub(super) fn new(tid: u32) -> Thread {
        Thread {
            tid,
            name: [0; MAX_COMM],
            named: false,
            announced: false,
            timer: None,
            phase: Phase::default(),
            alive: true,
            is_new: true,
            used_before_ns: 0,
            clock: 0,
            sampled_to_ns: 0,
            overdue_at_ns: 0,
            owed_ns: 0,
            owed_ticks: 0,
            delayed_ns: 0,
            stopped_ns: 0,
            known_delay_ns: None,
            sleeping_since: None,
            slept_at_ns: None,
            counted_to_ns: 0,
            rests: 0,
            next_look_ns: 0,
            last: SleeperStack::default(),
            wait: SleeperWait::default(),
            statistics: None,
            location: None,
        }
    }

    /// Returns whether the thread has no timer, and nothing speaks against one.
    pub(super) fn may_have_timer(&self) -> bool {
        self.timer.is_none() && !user_dispatch::excludes(self.tid)
    }

    fn path(&self, file: &[u8]) -> PathBuffer<64> {
        PathBuffer::new().text(b"/proc/self/task/").number(self.tid.into()).text(file)
    }

    pub(super) fn read_name(&mut self) {
        let mut name = [0; MAX_COMM];
        let length = File::open(self.path(b"/comm").terminated(), 0).map_or(0, |file| file.read(&mut name));
        let end = name[..length].iter().position(|&byte| byte == b'\n').unwrap_or(length);
        name[end..].fill(0);
        if !self.named || name != self.name {
            self.name = name;
            self.named = true;
            self.announced = false;
        }
    }

    /// Returns the thread's name, without padding.
    pub(crate) fn name(&self) -> &[u8] {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(MAX_COMM);
        &self.name[..end]
    }

    /// Returns the time since the thread started, ns, accurate to 5 ms; `None` if it cannot be
    /// read. Field 22 of /proc/PID/task/TID/stat
    pub(crate) fn age_ns(&self) -> Option<u64> {
        /// A tick of `/proc`, ns, whatever the kernel's own tick is.
        const TICK_NS: u64 = 10_000_000;
        let mut text = [0; 512];
        let length = File::open(self.path(b"/stat").terminated(), 0)?.read(&mut text);
        let started_ns = start_ticks(&text[..length])?.saturating_mul(TICK_NS).saturating_add(TICK_NS / 2);
        Some(syscall::clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(started_ns))
    }

    /// Returns whether the thread is gone, and nothing else keeps its files from being opened.
    pub(super) fn has_ended(&self) -> bool {
        File::try_open(self.path(b"").terminated(), libc::O_PATH).is_err_and(|error| error == libc::ENOENT)
    }

    /// Returns the scheduler's present figures; `None` if they cannot be read.
    pub(crate) fn schedule(&mut self, keep_open: bool) -> Option<Schedule> {
        if self.statistics.is_none() {
            self.statistics = File::open(self.path(b"/schedstat").terminated(), 0);
        }
        let mut text = [0; 96];
        // The first byte of the file exists whenever the thread does; the rest is as long as its
        // numbers.
        let file = self.statistics.as_ref()?;
        let length = file.read_at(&mut text, 0);
        let schedule = Schedule::parse(&text[..length])?;
        if !keep_open {
            self.statistics = None;
        }
        Some(schedule)
    }

    /// Returns whether the thread was found asleep before.
    pub(super) fn was_found(&self) -> bool {
        !self.last.frames.is_empty()
    }

    /// Returns the thread's CPU time, ns, if it has a timer. It costs a tenth of reading a file.
    pub(super) fn cpu_ns(&self) -> Option<u64> {
        self.timer.map(|_| syscall::clock_ns(self.clock)).filter(|&ns| ns > 0)
    }

    /// Returns the scheduler's figures of the last wall tick if that found the thread asleep and it
    /// has not run since.
    pub(super) fn unchanged_schedule(&self) -> Option<Schedule> {
        self.sleeping_since.filter(|_| self.slept_at_ns.is_some() && self.cpu_ns() == self.slept_at_ns)
    }

    /// Returns for how much of an interval the thread was asleep where it was found before, ns, by
    /// its CPU time; `None` if it was not asleep then.
    pub(super) fn slept_by_clock_ns(&self, interval_ns: u64) -> Option<u64> {
        let ran_ns = self.cpu_ns()?.saturating_sub(self.slept_at_ns?);
        self.sleeping_since.map(|_| interval_ns.saturating_sub(ran_ns))
    }

    /// Notes that the thread sleeps, with the scheduler's figures and its CPU time.
    pub(super) fn note_sleep(&mut self, schedule: Schedule, cpu_ns: Option<u64>) {
        (self.sleeping_since, self.slept_at_ns) = (Some(schedule), cpu_ns);
    }

    /// Returns where the thread sleeps, or `None` if it runs.
    pub(super) fn location(&mut self, keep_open: bool) -> Option<SleepLocation> {
        if self.location.is_none() {
            self.location = sleeping::open_location(self.tid);
        }
        let location = sleeping::read_location(self.location.as_ref()?);
        if !keep_open {
            self.location = None;
        }
        location
    }

    /// Returns for how much of an interval the thread slept on where it was found before, ns. It
    /// has run since, and the scheduler's present figures are `schedule`. If it is awake now, that
    /// is when it did not run; otherwise it sleeps elsewhere, and may have gone there at any time.
    /// `None` if it was not asleep at the last wall tick.
    pub(super) fn slept_on(&self, interval_ns: u64, schedule: Option<Schedule>, is_awake: bool) -> Option<u64> {
        let (before, now) = (self.sleeping_since?, schedule?);
        let ran_ns = now.ran_ns.saturating_sub(before.ran_ns);
        let delayed_ns = now.delayed_ns.saturating_sub(before.delayed_ns);
        let asleep_ns = interval_ns.saturating_sub(ran_ns.saturating_add(delayed_ns));
        Some(if is_awake { asleep_ns } else { asleep_ns / 2 })
    }

    /// Notes for how long the thread has waited for a CPU. One that `sleeps` was sampled where it
    /// does: its wake-ups are part of that.
    pub(crate) fn note_delay(&mut self, schedule: Option<Schedule>, sleeps: bool) {
        let Some(Schedule { delayed_ns, .. }) = schedule else { return };
        let before_ns = self.known_delay_ns.replace(delayed_ns).unwrap_or(delayed_ns);
        self.delayed_ns = if sleeps { 0 } else { self.delayed_ns.saturating_add(delayed_ns.saturating_sub(before_ns)) };
    }

    /// Returns for how much of the time that a sample stands for the thread waited for a CPU, ns.
    /// Less than [`LEAST_DELAY_NS`] is kept for a later sample.
    pub(crate) fn take_delay(&mut self, weight_ns: u64) -> u64 {
        let delayed_ns = self.delayed_ns.min(weight_ns);
        if delayed_ns < LEAST_DELAY_NS {
            return 0;
        }
        self.delayed_ns -= delayed_ns;
        delayed_ns
    }

    /// Returns whether the thread has a timer of its own.
    pub(crate) fn is_timed(&self) -> bool {
        self.timer.is_some()
    }

    /// Notes that the process was stopped for a time since the last wall tick, ns. Returns the part
    /// that has a sample now because the thread slept; otherwise its next one on a CPU has it.
    pub(super) fn note_stop(&mut self, stopped_ns: u64) -> Option<u64> {
        if stopped_ns == 0 {
            return None;
        }
        self.counted_to_ns += stopped_ns;
        if self.sleeping_since.is_some() {
            return Some(stopped_ns);
        }
        self.stopped_ns += stopped_ns;
        None
    }

    /// Notes wall time for which the thread ran. The next tick of its timer carries it; without a
    /// timer it is lost.
    pub(super) fn owe(&mut self, ns: u64) {
        if self.is_timed() {
            self.owed_ns += ns as i64;
            self.owed_ticks += 1;
        } else {
            counters::count_unhandled(1);
            counters::count_loss(LossCause::NoTimer, 1, ns);
        }
    }

    /// Notes wall time of an ended thread that waited for a look and was not found asleep before.
    pub(super) fn lose_uncounted(&mut self) {
        if self.counted_to_ns > 0 && self.sleeping_since.is_none() {
            let ns = syscall::monotonic_ns().saturating_sub(self.counted_to_ns);
            self.owe(ns / 2);
        }
    }

    /// Counts the wall time as lost for which the thread was found running and that no sample will
    /// carry.
    pub(super) fn lose_owed(&self) {
        if let Ok(ns @ 1..) = u64::try_from(self.owed_ns) {
            counters::count_unhandled(self.owed_ticks);
            // `Unaccounted` is CPU time, and is compared with the CPU time of the process.
            counters::count_loss(LossCause::NoTimer, self.owed_ticks, ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_thread_slept_on_while_it_did_not_run() {
        let figures = |ran_ns, delayed_ns| Some(Schedule { ran_ns, delayed_ns, slices: 7 });
        let mut thread = Thread::new(1);
        assert_eq!(thread.slept_on(40_000, figures(0, 0), true), None, "it was not asleep");
        thread.sleeping_since = figures(1_000, 500);
        assert_eq!(thread.slept_on(40_000, None, true), None, "it has ended");
        assert_eq!(thread.slept_on(40_000, figures(9_000, 2_500), true), Some(30_000));
        assert_eq!(thread.slept_on(40_000, figures(9_000, 2_500), false), Some(15_000));
        for figures in [figures(u64::MAX, u64::MAX), figures(u64::MAX, 0)] {
            assert_eq!(thread.slept_on(40_000, figures, true), Some(0));
        }
        assert_eq!(thread.slept_on(40_000, figures(0, 0), true), Some(40_000));
    }

    #[test]
    fn start_times_are_read() {
        let mut stat = b"4130 (a) S 1 (b) c) S".to_vec();
        (4..30).for_each(|field| stat.extend_from_slice(format!(" {field}").as_bytes()));
        assert_eq!(start_ticks(&stat), Some(22));
        assert_eq!(start_ticks(b"4130 (a)"), None);
    }

    proptest! {
        #[test]
        fn hostile_files_of_threads_do_no_harm(text in "([0-9]{0,25}[ \\)\n(-]{0,3}){0,40}|.{0,60}", delays in any::<[u64; 3]>()) {
            let _ = start_ticks(text.as_bytes());
            let mut thread = Thread::new(1);
            let parsed = Schedule::parse(text.as_bytes());
            for delayed_ns in delays {
                thread.note_delay(parsed.map(|schedule| Schedule { delayed_ns, ..schedule }), false);
                thread.note_delay(Some(Schedule { delayed_ns, ..Schedule::default() }), false);
                prop_assert!(thread.take_delay(1_000) <= 1_000);
            }
        }
    }
}
