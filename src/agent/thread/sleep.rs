//! The sleep of the agent thread between two iterations.

use core::sync::atomic::Ordering;

use crate::agent::os::socket::Socket;
use crate::agent::os::syscall;
use crate::agent::state;
use crate::agent::thread::{ACCOUNT_NS, Agent, EARLY_NAP_NS, FIRST_NAP_NS, LONG_NAP_NS, MODULES_NS, NAP_NS};

impl Agent {
    /// Returns whether nothing but a request or the end of the last thread can have happened.
    pub(super) fn is_idle(&self, socket: &Socket, now_ns: u64) -> bool {
        self.nap_ns > NAP_NS
            && self.collector.is_none()
            && now_ns - self.last_account_ns < ACCOUNT_NS
            && !self.ring.has_record()
            && !self.allocations.has_news()
            && socket.is_flushed()
            && self.ticker.is_at_rest(now_ns)
            && !self.ticker.is_to_move()
    }

    /// The sleep between two iterations while ticks come, ns.
    pub(super) fn usual_nap_ns(&self, now_ns: u64) -> u64 {
        match self.first_is_due {
            true => FIRST_NAP_NS,
            false if now_ns < self.early_until_ns => EARLY_NAP_NS,
            false => NAP_NS,
        }
    }

    /// Sleeps until the next tick, the next wall tick, or until requests have to be read.
    pub(super) fn sleep(&mut self, ticks_flow: bool, now_ns: u64) {
        let nap_ns = if state::is_reread_wanted() { MODULES_NS } else { self.nap_ns };
        let timeout_ns = self.ticker.until_wall_tick(now_ns).map_or(nap_ns, |wall_ns| wall_ns.min(nap_ns.min(NAP_NS)));
        let timeout_ns =
            self.ticker.until_new_threads(now_ns).map_or(timeout_ns, |search_ns| search_ns.min(timeout_ns));
        state::SLEEP_STATE.store(1, Ordering::SeqCst);
        let nothing = ticks_flow || !self.ring.has_record();
        let slept = nothing && !self.ticker.are_threads_wanted() && timeout_ns > 0;
        let mut woken = false;
        if slept {
            woken = self.nap(ticks_flow, now_ns + timeout_ns);
        }
        state::SLEEP_STATE.store(0, Ordering::SeqCst);
        let undisturbed = slept && !woken && !ticks_flow;
        let usual_ns = self.usual_nap_ns(now_ns);
        self.nap_ns = if undisturbed { (2 * self.nap_ns).min(LONG_NAP_NS) } else { usual_ns };
    }

    /// Sleeps until `until_ns`, or until it is woken. While ticks come, only a request or a thread
    /// that came or went wakes it. Returns whether it was woken.
    fn nap(&mut self, ticks_flow: bool, until_ns: u64) -> bool {
        loop {
            let left_ns = until_ns.saturating_sub(syscall::monotonic_ns());
            if left_ns == 0 {
                return false;
            }
            self.ticker.release();
            let woken = syscall::await_wake(left_ns);
            self.ticker.hold(self.ring.has_record());
            let asked = state::SLEEP_STATE.load(Ordering::Relaxed) == 0;
            if woken && (asked || !ticks_flow || self.ticker.has_other_threads()) {
                return true;
            }
        }
    }
}
