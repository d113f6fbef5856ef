//! CPU time of the watched processes, read from `/proc`. It needs no agent and costs the target
//! nothing.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

use crate::attach::proc::{self, ProcStat};

/// Length of the history for the header's sparkline, in seconds.
pub(super) const HISTORY: usize = 60;

/// User and system time of one process, in clock ticks.
type Ticks = (u64, u64);

/// CPU use of the watched processes, read once per second.
pub(super) struct CpuMeter {
    ticks_per_second: f32,
    /// The last reading by pid and start time, so that a reused pid is another process.
    last: HashMap<(u32, u64), Ticks>,
    last_ns: Option<u64>,
    history: VecDeque<f32>,
    now: Option<(f32, f32)>,
}

impl CpuMeter {
    /// A meter without a reading.
    pub(super) fn new() -> CpuMeter {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
        CpuMeter {
            ticks_per_second: ticks as f32,
            last: HashMap::new(),
            last_ns: None,
            history: VecDeque::new(),
            now: None,
        }
    }

    /// Reads the CPU time of these processes. A process that started since the last reading counts
    /// from its start.
    pub(super) fn read(&mut self, pids: &[u32], now_ns: u64) {
        let stats = pids.iter().filter_map(|&pid| Some((pid, ProcStat::of(pid).ok()?)));
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

    /// CPU use in each of the last seconds, in percent of one core, oldest first.
    pub(super) fn history(&self) -> Vec<f32> {
        self.history.iter().copied().collect()
    }

    /// User and system time of the last second, in percent of one core.
    pub(super) fn now(&self) -> Option<(f32, f32)> {
        self.now
    }
}

/// CPU time that a process has used since its start.
pub(super) fn cpu_used(pid: u32) -> Duration {
    Duration::from_nanos(proc::cpu_ns(pid).unwrap_or(0))
}
