//! The end of the target.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};

use super::{SampleSource, SessionThread, monotonic_ns};
use crate::attach::launch;
use crate::link::recording::CpuReading;
use crate::link::wire::{Arrival, Clock, ConnectionEvent, Message};
use crate::session::facts::TargetExit;
use crate::session::protocol::Notice;
use crate::session::scheduler::AnswerScope;

/// Maximum time that last samples may take before the session ends.
const LAST_SAMPLES: Duration = Duration::from_millis(700);
/// Time between two looks at what is still to come.
const LAST_LOOK: Duration = Duration::from_millis(5);
/// Maximum time that the last messages of agents may take after the target's end, ns.
const LAST_MESSAGES_NS: u64 = 1_000_000_000;

impl SessionThread {
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

    /// Receives the samples of the wall-clock time up to now, of a target that goes on. Threads
    /// that sleep are looked at up to once a second, and in a crowd less often.
    pub(super) fn take_last_samples(&mut self, arrivals: &Receiver<Vec<Arrival>>) {
        let SampleSource::Live(live) = &mut self.feed else { return };
        if self.settings.clock != Clock::Real || self.ended.is_some() {
            return;
        }
        let agents = match self.settings.engine.is_external() {
            true => 0,
            false => self.model.profile.processes().iter().filter(|process| process.connected).count(),
        };
        // An agent looks at all threads before it is configured anew.
        live.agents.engage(self.settings.request());
        let sampler = live.end_sampler();
        let mut answers = 0;
        let until = Instant::now() + LAST_SAMPLES;
        while (answers < agents || sampler.as_ref().is_some_and(|sampler| !sampler.is_finished()))
            && Instant::now() < until
        {
            if let Ok(batch) = arrivals.recv_timeout(LAST_LOOK) {
                let is_answer =
                    |arrival: &&Arrival| matches!(arrival.event, ConnectionEvent::Received(Message::Engaged(_)));
                answers += batch.iter().filter(is_answer).count();
                self.apply_all(batch);
            }
        }
        let SampleSource::Live(live) = &mut self.feed else { return };
        let flushed = live.agents.flush();
        while flushed.try_recv().is_err_and(|error| error == TryRecvError::Empty) && Instant::now() < until {
            if let Ok(batch) = arrivals.recv_timeout(LAST_LOOK) {
                self.apply_all(batch);
            }
        }
        arrivals.try_iter().for_each(|batch| self.apply_all(batch));
    }

    /// Sends the notice of the end once the agents' last messages and the last names of generated
    /// code have arrived, so that the final answer is complete. Processes that outlive the target
    /// have [`LAST_MESSAGES_NS`].
    pub(super) fn notify_end(&mut self, now_ns: u64) {
        let Some((ending, at_ns)) = self.ended else { return };
        if self.end_notified {
            return;
        }
        let quiet = !self.model.profile.processes().iter().any(|process| process.connected);
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
        self.answer(AnswerScope::Latest, monotonic_ns());
        self.notify(Notice::Ended(ending));
        self.end_notified = true;
    }
}
