//! The agent's account: its counters, which it sends about once a second and at its end.

use core::sync::atomic::Ordering;

use crate::agent::interpreter;
use crate::agent::os::socket::Socket;
use crate::agent::os::syscall;
use crate::agent::sampling::counters;
use crate::agent::thread::Agent;
use crate::wire::AgentCounters;
use crate::wire::ring::word;

/// Estimated cost of a tick's delivery and return in the kernel and of the handler without its
/// walk, ns; and the cost of a frame.
const TICK_COST_NS: u64 = 2_500;
const FRAME_COST_NS: u64 = 40;

impl Agent {
    /// Writes the counters of the agent and those of the interpreter, as far as there is room.
    pub(super) fn write_account(&mut self, socket: &mut Socket, now_ns: u64) {
        let account = self.account(now_ns);
        let _ = socket.write(|w| w.write_counters(&account));
        if let Some(found) = self.finder.found()
            && let Some(interpreter) = self.functions.news(found.version, interpreter::access(found.is_readable))
        {
            let _ = socket.write(|w| w.write_interpreter(&interpreter));
        }
    }

    fn account(&mut self, now_ns: u64) -> AgentCounters {
        counters::move_early_counters();
        self.balance.settle(&self.ticker.engaged, &self.ticker.threads, self.leaving);
        let [lost_ticks, lost_ns, lost_bytes] = counters::losses();
        let read = |index| counters::counter(index).load(Ordering::Relaxed);
        let ticks = read(word::TICKS);
        let (threads, timers) = self.ticker.threads.count();
        AgentCounters {
            monotonic_ns: now_ns,
            ticks,
            sent: self.sent,
            lost_ticks,
            lost_ns,
            lost_bytes,
            agent_cpu_ns: syscall::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID),
            handler_cpu_ns: ticks.saturating_sub(counters::unhandled()) * TICK_COST_NS
                + read(word::FRAMES) * FRAME_COST_NS,
            process_cpu_ns: syscall::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID),
            threads,
            timers,
            foreign_signals: read(word::FOREIGN),
        }
    }
}
