//! One thread of the process as the agent thread knows it: its name, its timer, and the time that
//! no sample stands for yet.

use alloc::vec::Vec;

use crate::agent::os::syscall::{self, File, PathBuffer};
use crate::agent::os::user_dispatch;
use crate::agent::sampling::counters;
use crate::agent::sampling::sleeping::SleepLocation;
use crate::agent::sampling::waits::SleeperWait;
use crate::agent::timers::phase::Phase;
use crate::agent::timers::timer::Timer;
use crate::link::wire::{LossCause, MAX_COMM, Schedule, flag, parse_number};

/// Minimum time waited for a CPU that has a sample of its own, ns.
const LEAST_DELAY_NS: u64 = 200_000;

/// The last known stack of a thread, packed.
#[derive(Default)]
pub(crate) struct SleeperStack {
    /// The frames, leaf first.
    pub(crate) frames: Vec<u64>,
    /// Bits of [`flag`](crate::link::wire::flag).
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
    /// The clock of its CPU time, once it was to have a timer; 0 before.
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
    /// The total of the time for which it waited for a CPU when it was last read, ns.
    pub(super) known_delay_ns: Option<u64>,
    /// The thread's CPU time if the last look found it asleep, with the stack in `last`, ns. It has
    /// not run for as long as that stays the same.
    pub(crate) sleeping_since: Option<u64>,
    /// Time up to which looks have counted its wall time, ns.
    pub(super) looked_at_ns: u64,
    /// Time of the next look, ns.
    pub(super) next_look_ns: u64,
    /// Number of looks in a row since which it has not run.
    pub(super) rests: u8,
    /// Time when it ended, ns, once it is known to have.
    pub(super) ended_ns: u64,
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
            looked_at_ns: 0,
            next_look_ns: 0,
            rests: 0,
            ended_ns: 0,
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

    /// Returns the thread's CPU time, ns: of one that sleeps, the figure of its `schedule`. `None`
    /// if it cannot be read. The clock is read in a fraction of the time that a file takes to open.
    pub(super) fn cpu_ns(&mut self, keep_open: bool) -> Option<u64> {
        match self.clock {
            0 => self.schedule(keep_open).map(|schedule| schedule.ran_ns),
            clock => Some(syscall::clock_ns(clock)).filter(|&ns| ns > 0),
        }
    }

    /// Returns the wall time of a thread that has ended that no look has counted, ns.
    pub(super) fn last_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.looked_at_ns)
    }

    /// Takes the wall time that a sample of the sleeping thread stands for, ns: what has passed,
    /// less what its last samples weighed more than was owed.
    pub(super) fn take_sleep(&mut self, elapsed_ns: u64) -> u64 {
        let weight_ns = (elapsed_ns as i64).saturating_add(self.owed_ns.min(0));
        self.owed_ns = if weight_ns < 0 { weight_ns } else { self.owed_ns.max(0) };
        weight_ns.max(0) as u64
    }

    /// Takes the wall time that a tick of its CPU clock stands for, ns: what is owed, or a period
    /// of the time since the last look.
    pub(super) fn take_run(&mut self, now_ns: u64, period_ns: u64) -> u64 {
        let period_ns = period_ns as i64;
        let unseen_ns = (now_ns.saturating_sub(self.looked_at_ns) as i64).max(period_ns);
        let weight_ns = self.owed_ns.max(period_ns.min(self.owed_ns.saturating_add(unseen_ns))).max(0);
        self.owed_ns -= weight_ns;
        self.owed_ticks = 0;
        weight_ns as u64
    }

    /// Returns where the thread sleeps, or `None` if it runs.
    pub(super) fn location(&mut self, keep_open: bool) -> Option<SleepLocation> {
        if self.location.is_none() {
            self.location = SleepLocation::open(self.tid);
        }
        let location = SleepLocation::read(self.location.as_ref()?);
        if !keep_open {
            self.location = None;
        }
        location
    }

    /// Returns for how much of an interval the thread slept on where it was found before, ns. It
    /// has run since, up to its present CPU time, ns, and has waited for a CPU. If it is awake now,
    /// it slept while it did neither; otherwise it sleeps elsewhere, and may have gone there at any
    /// time. `None` if it was not asleep at the last look.
    pub(super) fn slept_on(
        &self,
        interval_ns: u64,
        cpu_ns: Option<u64>,
        delayed_ns: u64,
        is_awake: bool,
    ) -> Option<u64> {
        let ran_ns = cpu_ns?.saturating_sub(self.sleeping_since?);
        let asleep_ns = interval_ns.saturating_sub(ran_ns.saturating_add(delayed_ns));
        Some(if is_awake { asleep_ns } else { asleep_ns / 2 })
    }

    /// Notes for how long the thread has waited for a CPU, and returns for how long it has since
    /// this was last noted, ns. If the figures are not read, what was not noted yet is not known
    /// later.
    pub(crate) fn note_delay(&mut self, schedule: Option<Schedule>) -> u64 {
        let before_ns = core::mem::replace(&mut self.known_delay_ns, schedule.map(|schedule| schedule.delayed_ns));
        let (Some(before_ns), Some(Schedule { delayed_ns, .. })) = (before_ns, schedule) else { return 0 };
        let more_ns = delayed_ns.saturating_sub(before_ns);
        self.delayed_ns = self.delayed_ns.saturating_add(more_ns);
        more_ns
    }

    /// Forgets for how long the thread has waited for a CPU. It sleeps, and is sampled where it
    /// does: its wake-ups are part of that.
    pub(super) fn forget_delay(&mut self) {
        self.delayed_ns = 0;
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
        let mut thread = Thread::new(1);
        assert_eq!(thread.slept_on(40_000, Some(0), 0, true), None, "it was not asleep");
        thread.sleeping_since = Some(1_000);
        assert_eq!(thread.slept_on(40_000, None, 0, true), None, "it has ended");
        assert_eq!(thread.slept_on(40_000, Some(9_000), 2_000, true), Some(30_000));
        assert_eq!(thread.slept_on(40_000, Some(9_000), 2_000, false), Some(15_000));
        for (cpu_ns, delayed_ns) in [(u64::MAX, u64::MAX), (u64::MAX, 0)] {
            assert_eq!(thread.slept_on(40_000, Some(cpu_ns), delayed_ns, true), Some(0));
        }
        assert_eq!(thread.slept_on(40_000, Some(0), 0, true), Some(40_000));
    }

    #[test]
    fn wall_time_is_given_out_once() {
        const MS: u64 = 1_000_000;
        let mut thread = Thread::new(1);
        thread.owed_ns = 25 * MS as i64;
        assert_eq!(thread.take_run(0, 10 * MS), 25 * MS, "all that is owed");
        assert_eq!(thread.take_run(0, 10 * MS), 10 * MS, "a period ahead");
        assert_eq!(thread.take_run(0, 10 * MS), 0, "no more than that");
        // A thread that was not looked at for long has run all that time, as far as its ticks show.
        assert_eq!([25, 35, 36].map(|now| thread.take_run(now * MS, 10 * MS)), [10 * MS, 10 * MS, 6 * MS]);
        assert_eq!(thread.take_sleep(100 * MS), 64 * MS);
        assert_eq!(thread.take_sleep(100 * MS), 100 * MS);
        thread.owed_ns = -30 * MS as i64;
        assert_eq!([10, 10, 15].map(|slept| thread.take_sleep(slept * MS)), [0, 0, 5 * MS]);
        thread.owed_ns = 7 * MS as i64;
        assert_eq!(thread.take_sleep(100 * MS), 100 * MS);
        assert_eq!(thread.owed_ns, 7 * MS as i64, "a tick of its CPU clock is still to carry it");
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
                thread.note_delay(parsed.map(|schedule| Schedule { delayed_ns, ..schedule }));
                thread.note_delay(Some(Schedule { delayed_ns, ..Schedule::default() }));
                prop_assert!(thread.take_delay(1_000) <= 1_000);
            }
        }
    }
}
