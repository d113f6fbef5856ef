//! One watched thread: everything that `/proc` tells of it without stopping it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::correction::SystemShare;
use super::cut_short::Patience;
use super::stack_extent::{StackExtent, SteadyParts};
use super::supervision::ThreadFilters;
use crate::process::waits::SleepLocation;
use crate::wire::Schedule;

/// Number of bytes that a line of `schedstat` or `syscall` has at most.
const MAX_LINE: usize = 256;
/// Minimum time waited for a CPU that has a sample of its own, ns.
const LEAST_DELAY_NS: u64 = 200_000;

/// Time after which the kernel has counted what a running thread has used, ns: it does so at least
/// once in 10 ms.
const COUNTED_NS: u64 = 20_000_000;

/// The files of a thread in `/proc`. The one that is read most stays open, as reading is cheaper
/// than opening, and an open file is never that of a later thread with the same number. A second
/// open file would halve the number of threads that the limit of descriptors has room for.
struct ThreadFiles {
    schedstat: File,
    syscall: PathBuf,
}

/// The activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// The thread runs, or waits for a processor.
    Running,
    /// The thread sleeps here, if the kernel shows that.
    Sleeping(Option<SleepLocation>),
}

/// A request to a thread to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopRequest {
    /// Time of the request, ns.
    pub(super) at_ns: u64,
    /// Time of the tick that it belongs to, ns.
    tick_ns: u64,
    /// Times of the thread when it was made.
    schedule: Schedule,
}

impl StopRequest {
    /// Returns whether the thread waited for a CPU at the time of the tick, and stopped when it got
    /// one. `schedule` is that of the stop, which was noticed at a time in ns.
    fn met_waiting(&self, schedule: &Schedule, noticed_ns: u64) -> bool {
        let waited_ns = schedule.delayed_ns.saturating_sub(self.schedule.delayed_ns);
        schedule.slices != self.schedule.slices && noticed_ns.saturating_sub(waited_ns) < self.tick_ns
    }
}

/// A thread of a watched process.
pub(super) struct WatchedThread {
    files: ThreadFiles,
    pub(super) schedule: Schedule,
    /// CPU time that is in no sample yet, ns.
    pub(super) unsampled_ns: u64,
    /// Time up to which its wall-clock time was sampled, ns.
    pub(super) wall_ns: u64,
    /// Time for which it waited for a CPU and that is in no sample yet, ns.
    delayed_ns: u64,
    /// CPU time less the weights of its samples by events, ns. It is kept by the wall clock alone.
    owed_ns: i64,
    /// System time that samples stand for, clock ticks.
    pub(super) system_ticks: Option<u64>,
    /// Whether it slept when it was last looked at.
    pub(super) is_asleep: bool,
    /// Whether the walker knows the stack on which it sleeps.
    pub(super) is_stack_known: bool,
    /// Whether it is among those that are looked at in each tick.
    pub(super) is_active: bool,
    /// Whether it has a sample by the wall clock.
    pub(super) is_sampled: bool,
    /// Number of the last tick at which it had run, and its time, ns.
    pub(super) ran_at: u64,
    pub(super) ran_ns: u64,
    /// The request to stop that is under way.
    pub(super) stop_request: Option<StopRequest>,
    /// Whether it has been on a CPU since it was last stopped. If not, it has waited for one.
    pub(super) has_run_since_stop: bool,
    /// The time for which it is not stopped.
    pub(super) patience: Patience,
    /// Its seccomp filters.
    pub(super) filters: ThreadFilters,
    /// Whether the kernel samples it, if it does so with its process.
    pub(super) has_events: bool,
    /// Whether it is traced.
    pub(super) is_seized: bool,
    /// The parts of its stack that are copied.
    pub(super) extent: StackExtent,
    /// The parts of them that are read while it runs.
    pub(super) steady_parts: SteadyParts,
    pub(super) system_share: SystemShare,
    /// The thread's id in its own namespace of pids; 0 if it was not read.
    pub(super) inner_tid: u32,
    /// Address of the interpreter's state of the thread; 0 if it is not known.
    pub(super) interpreter_state: u64,
}

impl WatchedThread {
    /// Opens the files of a thread. `is_new` says that it has started since its process is watched,
    /// so that all its CPU time is to be sampled.
    pub(super) fn open(pid: u32, tid: u32, is_new: bool, now_ns: u64, tick: u64) -> io::Result<WatchedThread> {
        let path = |name: &str| PathBuf::from(format!("/proc/{pid}/task/{tid}/{name}"));
        let files = ThreadFiles { schedstat: File::open(path("schedstat"))?, syscall: path("syscall") };
        let mut thread = WatchedThread {
            files,
            schedule: Schedule::default(),
            unsampled_ns: 0,
            wall_ns: now_ns,
            delayed_ns: 0,
            owed_ns: 0,
            system_ticks: is_new.then_some(0),
            is_asleep: false,
            is_stack_known: false,
            is_active: false,
            is_sampled: false,
            ran_at: tick,
            ran_ns: now_ns,
            stop_request: None,
            has_run_since_stop: true,
            patience: Patience::default(),
            filters: ThreadFilters::default(),
            has_events: true,
            is_seized: false,
            extent: StackExtent::new(),
            steady_parts: SteadyParts::default(),
            system_share: SystemShare::default(),
            inner_tid: 0,
            interpreter_state: 0,
        };
        if !is_new {
            thread.schedule = thread.read_schedule()?;
        }
        Ok(thread)
    }

    fn read_schedule(&self) -> io::Result<Schedule> {
        let mut buffer = [0; MAX_LINE];
        let length = self.files.schedstat.read_at(&mut buffer, 0)?;
        Schedule::parse(&buffer[..length]).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Reads the thread's CPU time. Returns what it has used since the last reading, ns, and
    /// whether it has run.
    ///
    /// # Errors
    /// If the thread has ended.
    pub(super) fn update_run_time(&mut self) -> io::Result<(u64, bool)> {
        let now = self.read_schedule()?;
        let used_ns = now.ran_ns.saturating_sub(self.schedule.ran_ns);
        let has_run = now != self.schedule;
        self.delayed_ns += now.delayed_ns.saturating_sub(self.schedule.delayed_ns);
        self.schedule = now;
        self.unsampled_ns += used_ns;
        self.is_stack_known &= !has_run;
        self.has_run_since_stop |= has_run;
        Ok((used_ns, has_run))
    }

    /// Leaves CPU time that the thread has used, ns, to an agent's samples.
    pub(super) fn leave_run_time(&mut self, used_ns: u64) {
        self.unsampled_ns = 0;
        self.wall_ns += used_ns;
    }

    /// Leaves CPU time that the thread has used, ns, to samples by events.
    pub(super) fn leave_to_events(&mut self, used_ns: u64) {
        self.unsampled_ns = 0;
        self.owed_ns = self.owed_ns.saturating_add_unsigned(used_ns);
    }

    /// Takes the wall-clock time of a sample by an event, which stands for CPU time, ns. Returns
    /// that and the time for which the thread waited for a CPU before, ns.
    pub(super) fn take_event(&mut self, cpu_ns: u64, now_ns: u64) -> (u64, u64) {
        self.owed_ns = self.owed_ns.saturating_sub_unsigned(cpu_ns);
        let weight_ns = cpu_ns.min(now_ns.saturating_sub(self.wall_ns));
        self.wall_ns += weight_ns;
        (weight_ns, self.take_delay(now_ns))
    }

    /// Takes the time that a sample of a sleeping thread stands for, ns: everything since the last
    /// one but the CPU time that samples by events are to stand for.
    pub(super) fn take_sleep_beside_events(&mut self, now_ns: u64, period_ns: u64) -> u64 {
        let owed_ns = self.owed_ns.clamp(0, 2 * period_ns as i64) as u64;
        let weight_ns = now_ns.saturating_sub(self.wall_ns).saturating_sub(owed_ns);
        self.wall_ns += weight_ns;
        self.delayed_ns = 0;
        weight_ns
    }

    /// Notes that the thread is asked to stop in the tick of this time.
    pub(super) fn request_stop(&mut self, now_ns: u64, tick_ns: u64) {
        self.stop_request = Some(StopRequest { at_ns: now_ns, tick_ns, schedule: self.schedule });
    }

    /// Notes a stop after whose beginning the times were read. Returns whether the thread waited
    /// for a CPU when it was asked.
    pub(super) fn note_stop(&mut self, noticed_ns: u64) -> bool {
        self.has_run_since_stop = false;
        self.stop_request.is_some_and(|request| request.met_waiting(&self.schedule, noticed_ns))
    }

    /// Returns whether a thread that is ready to run has had no CPU for a while.
    pub(super) fn waits_for_cpu(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.ran_ns) >= COUNTED_NS
    }

    /// Returns whether wall-clock time has passed since its last sample.
    pub(super) fn has_wall_time(&self, now_ns: u64) -> bool {
        now_ns > self.wall_ns
    }

    /// Takes half of the CPU time that is in no sample yet, ns.
    pub(super) fn take_half(&mut self) -> u64 {
        let half_ns = self.unsampled_ns / 2;
        self.unsampled_ns -= half_ns;
        half_ns
    }

    /// Takes the wall-clock time that a sample stands for, ns: one period, for the same reason as
    /// with CPU time (see [`SystemShare`]), or everything since the last sample of a thread that is
    /// looked at less often than that.
    pub(super) fn take_wall_time(&mut self, now_ns: u64, period_ns: u64) -> u64 {
        let all_ns = now_ns.saturating_sub(self.wall_ns);
        let wall_ns = if all_ns < 2 * period_ns { all_ns.min(period_ns) } else { all_ns };
        self.wall_ns += wall_ns;
        wall_ns
    }

    /// Takes the wall-clock time that a sample of a sleeping thread stands for, ns: everything
    /// since the last one if it has not run since. It waits for something else than a CPU, its
    /// wake-ups included.
    pub(super) fn take_sleep(&mut self, now_ns: u64, period_ns: u64, has_run: bool) -> u64 {
        self.delayed_ns = 0;
        if has_run {
            return self.take_wall_time(now_ns, period_ns);
        }
        now_ns.saturating_sub(std::mem::replace(&mut self.wall_ns, now_ns))
    }

    /// Takes the time for which it waited for a CPU from wall-clock time that was taken, ns.
    pub(super) fn take_delay_within(&mut self, wall_ns: u64) -> u64 {
        // The sample on a CPU has the stack, so some weight is left for it.
        let delayed_ns = self.delayed_ns.min(wall_ns.saturating_sub(1));
        self.delayed_ns -= delayed_ns;
        if delayed_ns < LEAST_DELAY_NS { 0 } else { delayed_ns }
    }

    /// Returns the time for which it waited for a CPU since its last sample, ns, and leaves the
    /// rest of its wall-clock time to a sample of what it does on one.
    pub(super) fn take_delay(&mut self, now_ns: u64) -> u64 {
        let delayed_ns = self.delayed_ns.min(now_ns.saturating_sub(self.wall_ns));
        if delayed_ns < LEAST_DELAY_NS {
            return 0;
        }
        self.wall_ns += delayed_ns;
        self.delayed_ns = 0;
        delayed_ns
    }

    /// Reads what the thread does.
    ///
    /// # Errors
    /// If the thread has ended, or the kernel does not tell.
    pub(super) fn read_activity(&self) -> io::Result<Activity> {
        let mut buffer = [0; MAX_LINE];
        let line = read_line(&File::open(&self.files.syscall)?, &mut buffer)?;
        Ok(if line.starts_with("running") {
            Activity::Running
        } else {
            Activity::Sleeping(SleepLocation::parse(line.as_bytes()))
        })
    }

    /// Reads the thread's id in its own namespace, unless it is known.
    pub(super) fn read_inner_tid(&mut self) {
        if self.inner_tid == 0 {
            let text = std::fs::read_to_string(self.files.syscall.with_file_name("status")).unwrap_or_default();
            let ids = text.lines().find_map(|line| line.strip_prefix("NSpid:"));
            self.inner_tid = ids.and_then(|ids| ids.split_ascii_whitespace().last()?.parse().ok()).unwrap_or(0);
        }
    }
}

fn read_line<'a>(file: &File, buffer: &'a mut [u8; MAX_LINE]) -> io::Result<&'a str> {
    let length = file.read_at(buffer, 0)?;
    std::str::from_utf8(&buffer[..length]).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn own_tid() -> u32 {
        nix::unistd::gettid().as_raw() as u32
    }

    /// Regression test: a thread that waited for a CPU was sampled where it had lost its CPU.
    #[test]
    fn a_thread_that_waited_for_a_cpu_at_the_tick_is_known() {
        let before = Schedule { ran_ns: 500, delayed_ns: 7_000, slices: 3 };
        let request = StopRequest { at_ns: 10_100, tick_ns: 10_000, schedule: before };
        // It ran, and stopped 200 ns later.
        assert!(!request.met_waiting(&Schedule { ran_ns: 700, ..before }, 10_300));
        // It got a CPU after the tick, and had waited since long before it.
        assert!(request.met_waiting(&Schedule { delayed_ns: 12_000, slices: 4, ..before }, 13_000));
        // It lost its CPU to the sampler, at the tick, and waited until the sampler slept.
        assert!(!request.met_waiting(&Schedule { delayed_ns: 9_000, slices: 4, ..before }, 13_000));
    }

    #[test]
    fn a_busy_thread_runs_and_a_waiting_one_sleeps() {
        let own = std::process::id();
        let (send_tid, tids) = std::sync::mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let busy = std::thread::spawn({
            let (send_tid, is_over) = (send_tid.clone(), is_over.clone());
            move || {
                send_tid.send(own_tid()).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        let mut thread = WatchedThread::open(own, tids.recv().unwrap(), true, 0, 0).unwrap();
        while thread.read_activity().unwrap() != Activity::Running {
            std::thread::yield_now();
        }
        // The kernel updates the time of a running thread at its scheduler tick.
        let (used_ns, has_run) = loop {
            let (used_ns, has_run) = thread.update_run_time().unwrap();
            if used_ns > 0 {
                break (used_ns, has_run);
            }
        };
        assert!(has_run && thread.unsampled_ns == used_ns);
        is_over.store(true, Ordering::Relaxed);
        busy.join().unwrap();

        let (end, ended) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            send_tid.send(own_tid()).unwrap();
            let _ = ended.recv();
        });
        let sleeper = WatchedThread::open(own, tids.recv().unwrap(), false, 0, 0).unwrap();
        // The thread goes to sleep as soon as it is scheduled.
        while sleeper.read_activity().unwrap() == Activity::Running {
            std::thread::yield_now();
        }
        let activity = sleeper.read_activity().unwrap();
        assert!(matches!(activity, Activity::Sleeping(Some(SleepLocation { call: Some(_), .. }))));
        assert_eq!(sleeper.unsampled_ns, 0);
        drop(end);
        waiting.join().unwrap();
        // Its number may be used again, but the open file stays that of the ended thread.
        while sleeper.read_schedule().is_ok() {
            std::thread::yield_now();
        }
    }
}
