//! The end of the target.

use std::time::Duration;

use crossbeam_channel::{Receiver, after, never};

use super::{SampleSource, SessionThread, monotonic_ns};
use crate::attach::launch;
use crate::link::recording::CpuReading;
use crate::session::conclusion::{Conclusion, LEAVING};
use crate::session::header_facts::TargetExit;
use crate::session::protocol::Notice;
use crate::session::scheduler::AnswerScope;
use crate::wire::Request;

/// Maximum time that the last messages of agents may take after the target's end, ns.
const LAST_MESSAGES_NS: u64 = 1_000_000_000;

impl SessionThread {
    /// Asks agents and samplers to take their last samples and leave.
    pub(super) fn conclude(&mut self, conclusion: Conclusion) {
        match (self.conclusion, &self.feed) {
            (None, SampleSource::Live(live)) => {
                live.agents.engage(Request::Leave);
                self.leaving = after(LEAVING);
            }
            // Those that are still there had their time.
            (Some(Conclusion::Notified), _) => self.leaving = after(Duration::ZERO),
            _ => {}
        }
        self.conclusion = Some(conclusion);
    }

    /// Follows the conclusion, once nobody sends samples any more or `is_late` says that it took
    /// too long.
    pub(super) fn end_conclusion(&mut self, is_late: bool) {
        let Some(conclusion) = self.conclusion.filter(|_| is_late || !self.has_connections()) else { return };
        self.leaving = never();
        match conclusion {
            Conclusion::Leave => self.done = true,
            Conclusion::Notify => {
                self.conclusion = Some(Conclusion::Notified);
                self.answer(AnswerScope::Latest, monotonic_ns());
                self.notify(Notice::Concluded);
            }
            Conclusion::Notified => {}
        }
    }

    fn has_connections(&self) -> bool {
        let is_live = matches!(self.feed, SampleSource::Live(_));
        is_live && self.model.profile.processes().iter().any(|process| process.connected)
    }

    /// Handles an event of the target. At the target's end, returns a channel that reports when all
    /// earlier messages of the agents have arrived.
    pub(super) fn handle_event(&mut self, event: launch::TargetEvent) -> Option<Receiver<()>> {
        match event {
            launch::TargetEvent::OutputLost(bytes) => {
                self.warn(format!("{bytes} bytes of the target's output are missing here"))
            }
            launch::TargetEvent::InputLost(bytes) => {
                self.warn(format!("the target does not read: {bytes} bytes of input were dropped"))
            }
            launch::TargetEvent::Stopped { signal } => self.warn(format!("the target was stopped by signal {signal}")),
            launch::TargetEvent::Continued => {}
            launch::TargetEvent::Ended(ended) => {
                let ending = match ended.how {
                    launch::ExitReason::Exited(status) => TargetExit::Exited(status.into()),
                    launch::ExitReason::Killed { signal, .. } => TargetExit::Killed(signal),
                    launch::ExitReason::Unknown => TargetExit::Gone,
                };
                self.ended = Some((ending, monotonic_ns()));
                self.recorder.ended(monotonic_ns(), ending);
                if let SampleSource::Live(live) = &mut self.feed {
                    live.ended(ended.user_ns + ended.system_ns, ended.own_ns);
                    let used_ns = live.cpu_used.as_nanos() as u64;
                    self.recorder.cpu(&CpuReading { at_ns: monotonic_ns(), used_ns, now: None });
                    return Some(live.agents.flush());
                }
            }
        }
        None
    }

    /// Sends the notice of the end once the agents' last messages and the last names of generated
    /// code have arrived, so that the final answer is complete. Processes that outlive the target
    /// have [`LAST_MESSAGES_NS`].
    pub(super) fn notify_end(&mut self, now_ns: u64) {
        let Some((ending, at_ns)) = self.ended else { return };
        if self.end_notified {
            return;
        }
        let quiet = !self.has_connections();
        let is_whole = matches!(&self.feed, SampleSource::Recording(player) if player.is_over);
        let since_ns = now_ns.saturating_sub(at_ns);
        if since_ns < LAST_MESSAGES_NS && !(quiet && self.is_flushed && self.generated.awaited == 0) && !is_whole {
            return;
        }
        if let SampleSource::Live(live) = &mut self.feed {
            let closed_ns = monotonic_ns();
            live.close_ledger(&self.model.profile, &self.settings, closed_ns);
            self.recorder.unsampled(closed_ns, live.ledger.outside_ns, live.ledger.found.as_ref());
        }
        self.warn_of_daemon();
        self.answer(AnswerScope::Latest, monotonic_ns());
        self.notify(Notice::Ended(ending));
        self.end_notified = true;
    }

    /// Says which process of the target runs on, as a daemon does.
    fn warn_of_daemon(&mut self) {
        if !matches!(self.feed, SampleSource::Live(_)) {
            return;
        }
        let left = self.model.profile.processes().iter().filter(|process| process.connected);
        let left: Vec<(u32, String)> = left.map(|process| (process.pid, process.name().to_owned())).collect();
        if let Some((pid, name)) = left.first() {
            let others = if left.len() > 1 { format!(" (and {} others)", left.len() - 1) } else { String::new() };
            self.warn(format!("{name}{others} runs on; to watch it: sigtop --pid {pid}"));
        }
    }
}
