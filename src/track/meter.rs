//! CPU time of the watched processes, read from outside: it is there before any agent is, and costs the target nothing.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

use crate::attach::proc::{self, Stat};

/// Seconds of history kept for the header's sparkline.
pub(super) const HISTORY: usize = 60;

/// User and system time of one process, clock ticks.
type Ticks = (u64, u64);

/// A meter read once a second.
pub(super) struct Meter {
    ticks_per_second: f32,
    /// By pid and start, so that a number used again is another process.
    last: HashMap<(u32, u64), Ticks>,
    last_ns: Option<u64>,
    history: VecDeque<f32>,
    now: Option<(f32, f32)>,
}

impl Meter {
    /// Nothing read yet.
    pub(super) fn new() -> Meter {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
        Meter {
            ticks_per_second: ticks as f32,
            last: HashMap::new(),
            last_ns: None,
            history: VecDeque::new(),
            now: None,
        }
    }

    /// Reads the CPU time of these processes. A process that came since the last reading counts from its start.
    pub(super) fn read(&mut self, pids: &[u32], now_ns: u64) {
        let stats = pids.iter().filter_map(|&pid| Some((pid, Stat::of(pid).ok()?)));
        let read: HashMap<(u32, u64), Ticks> =
            stats.map(|(pid, stat)| ((pid, stat.start_ticks), (stat.user_ticks, stat.system_ticks))).collect();
        if let Some(last_ns) = self.last_ns
            && now_ns > last_ns
        {
            let seconds = (now_ns - last_ns) as f32 / 1e9;
            let (mut user, mut system) = (0, 0);
            for (process, ticks) in &read {
                let before = self.last.get(process).copied().unwrap_or_default();
                user += ticks.0.saturating_sub(before.0);
                system += ticks.1.saturating_sub(before.1);
            }
            let percent = |ticks: u64| ticks as f32 / self.ticks_per_second / seconds * 100.0;
            self.now = Some((percent(user), percent(system)));
            self.history.push_back(percent(user + system));
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        self.last_ns = Some(now_ns);
        self.last = read;
    }

    /// Percent of one core in each of the last seconds, oldest first.
    pub(super) fn history(&self) -> Vec<f32> {
        self.history.iter().copied().collect()
    }

    /// The last second's user and system time, percent of one core.
    pub(super) fn now(&self) -> Option<(f32, f32)> {
        self.now
    }
}

/// CPU time that a process has used so far.
pub(super) fn cpu_used(pid: u32) -> Duration {
    Duration::from_nanos(proc::cpu_ns(pid).unwrap_or(0))
}
