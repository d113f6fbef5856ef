//! What the header says of a watch under way.

use std::time::Duration;

use super::{Feed, Watcher};
use crate::link::wire::{Account, Clock, EngineState, Loss};
use crate::profile::Profile;
use crate::symbols::worker::SymbolState;
use crate::track::facts::{Facts, MAX_FILES, Stacks};

impl Watcher {
    /// Collects them as of a time.
    pub(super) fn facts(&self, now_ns: u64) -> Facts {
        let profile = &self.desk.profile;
        let connected = || profile.processes().iter().filter(|process| process.connected);
        let own = || connected().filter_map(|process| process.engaged.as_ref());
        let clock = self.desk.clock;
        // The worst that any process says; the others are as asked.
        let state = own().map(|engaged| engaged.state).max_by_key(|&state| state != EngineState::Running);
        let is_refusal = |state: &EngineState| !matches!(state, EngineState::Off | EngineState::Running);
        let mut states = profile.processes().iter().rev().filter_map(|process| Some(process.engaged.as_ref()?.state));
        let refusal = states.find(is_refusal);
        let mut losses = profile.losses();
        let mut unsampled = None;
        if let Feed::Live(live) = &self.feed {
            losses.add_unseen(live.ledger.outside_ns, self.settings.period_ns);
            unsampled = live.ledger.found.clone();
        }
        let (truncated, samples) = profile.truncated();
        let share = (losses.agent_cpu_ns + losses.handler_cpu_ns) as f64 / losses.process_cpu_ns as f64;
        let from_ns = |since_ns: u64, until_ns: u64| Duration::from_nanos(until_ns.saturating_sub(since_ns));
        let origin = match &self.feed {
            Feed::Live(_) => None,
            Feed::Recording(player) => player.about.origin.clone(),
        };
        let (pids, started_ns, cpu_history, cpu_now, cpu_used) = match &self.feed {
            Feed::Live(live) => {
                (live.target.pids(), self.started_ns, live.meter.history(), live.meter.now(), live.cpu_used)
            }
            Feed::Recording(player) => (
                vec![player.about.pid],
                player.about.started_ns,
                player.cpu_history(),
                player.cpu_now(),
                player.cpu_used(),
            ),
        };
        // Of a recording that is over nothing runs.
        let state = state.filter(|_| !matches!(&self.feed, Feed::Recording(player) if player.is_over));
        let window_ns = self.desk.question().window_ns;
        let of_a_cpu = self.cost.of_a_cpu(&losses, window_ns, self.ended.map_or(now_ns, |(_, at_ns)| at_ns));
        Facts {
            command: self.settings.command.clone(),
            pids,
            processes: connected().count(),
            threads: (connected().count() > 0).then(|| connected().map(|process| process.account.threads).sum()),
            up: from_ns(started_ns, self.ended.map_or(now_ns, |(_, at_ns)| at_ns)),
            ended: self.ended.map(|(ending, at_ns)| (ending, from_ns(started_ns, at_ns))),
            clock,
            engine: self.settings.engine_in_use(),
            engine_state: state,
            refusal,
            period_ns: self.settings.period_ns,
            origin,
            effective_hz: rate(profile, clock),
            window_ns,
            agent_share: (losses.process_cpu_ns > 0).then_some(share),
            agent_of_a_cpu: of_a_cpu.filter(|_| losses.process_cpu_ns > 0),
            losses,
            unsampled,
            stacks: Stacks { samples, truncated, unreadable: profile.unreadable() },
            overflows: profile.overflows(),
            files: self.files(),
            cpu_history,
            cpu_now,
            cpu_used,
            symbolizing: self.desk.names.progress(),
            waiting: self.desk.waiting(),
        }
    }

    /// What was found of each file.
    fn files(&self) -> Vec<(String, SymbolState)> {
        let modules = &self.desk.profile.modules;
        let states = self.desk.names.states();
        let mut files: Vec<(String, SymbolState)> =
            states.map(|(id, state)| (modules.file(id).name(), state.clone())).collect();
        files.sort_by(|a, b| (a.1.is_usable(), &a.0).cmp(&(b.1.is_usable(), &b.0)));
        files.truncate(MAX_FILES);
        files
    }
}

/// Signals that reached a handler in the last second or so, a second of the clock: of CPU time, or
/// of a thread's wall time. Agents also count ticks that no signal came for.
fn rate(profile: &Profile, clock: Clock) -> Option<f64> {
    let (mut ticks, mut seconds) = (0, 0.0);
    for process in profile.processes().iter().filter(|process| process.connected) {
        let (now, before) = (&process.account, &process.earlier_account);
        let passed_ns = match clock {
            Clock::Real => {
                (now.monotonic_ns - before.monotonic_ns.min(now.monotonic_ns)) * u64::from(now.threads.max(1))
            }
            _ => now.process_cpu_ns - before.process_cpu_ns.min(now.process_cpu_ns),
        };
        if before.monotonic_ns > 0 {
            let signals = |account: &Account| {
                let unsent = [Loss::Unseen, Loss::NoTimer].map(|loss| account.lost_ticks[loss as usize]);
                unsent.into_iter().fold(account.ticks, u64::saturating_sub)
            };
            ticks += signals(now).saturating_sub(signals(before));
            seconds += passed_ns as f64 / 1e9;
        }
    }
    (ticks > 0 && seconds > 0.0).then(|| ticks as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::wire::{Arrival, Birth, Event, Hello, Message, SourceId};

    #[test]
    fn ticks_without_a_signal_are_not_in_the_effective_rate() {
        let mut profile = Profile::default();
        let mut say = |message| {
            profile.apply(Arrival { source: SourceId(1), pid: 7, at_ns: 1, event: Event::Said(message) });
        };
        let bytes = || Box::<[u8]>::from(b"a".as_slice());
        say(Message::Hello(Hello {
            token: 0,
            pid: 7,
            parent: 1,
            start_ticks: 0,
            monotonic_ns: 1,
            cpu_ns: 0,
            birth: Birth::Tick,
            executable: bytes(),
            argv: bytes(),
        }));
        let mut account = Account { monotonic_ns: 1, ticks: 10, ..Account::default() };
        say(Message::Account(account.clone()));
        // 250 signals in a second at 1000 Hz, and half a second without one.
        account.ticks += 250 + 400 + 100;
        account.lost_ticks[Loss::Unseen as usize] = 400;
        account.lost_ticks[Loss::NoTimer as usize] = 100;
        (account.monotonic_ns, account.process_cpu_ns) = (1_000_000_001, 1_000_000_000);
        say(Message::Account(account));
        assert_eq!(rate(&profile, Clock::Prof), Some(250.0));
    }
}
