//! Collects the facts in the header.

use std::time::Duration;

use super::{SampleSource, SessionThread, monotonic_ns};
use crate::profile::Profile;
use crate::profile::process::Process;
use crate::profile::thread::ThreadId;
use crate::session::header_facts::{Facts, MAX_FILES};
use crate::session::sampling_cost::CostReading;
use crate::session::settings::WatchTarget;
use crate::symbols::coverage::coverage;
use crate::symbols::worker::SymbolState;
use crate::wire::{AgentCounters, Clock, Engine, EngineState, LossCause};

/// Interval at which the shares of samples with names are computed, ns.
const COVERAGE_NS: u64 = 1_000_000_000;
/// Time that names may take until the screen shows that they are awaited, ns.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Minimum number of periods in which a sampling frequency is measured.
const MIN_RATE_PERIODS: f64 = 20.0;

impl SessionThread {
    /// Collects the facts at a time.
    pub(super) fn facts(&self, now_ns: u64) -> Facts {
        let profile = &self.model.profile;
        let connected = || profile.processes().iter().filter(|process| process.connected);
        let own = || connected().filter_map(|process| process.engaged.as_ref());
        let clock = self.model.clock;
        // A process that is not running as requested determines the state.
        let state = own().map(|engaged| engaged.state).max_by_key(|&state| state != EngineState::Running);
        let is_refusal = |state: &EngineState| !matches!(state, EngineState::Off | EngineState::Running);
        let mut states = profile.processes().iter().rev().filter_map(|process| Some(process.engaged.as_ref()?.state));
        let refusal = states.find(is_refusal);
        let mut losses = profile.losses();
        let (uncounted_ns, unsampled) = match &self.feed {
            SampleSource::Live(live) => (live.ledger.outside_ns, live.ledger.found.clone()),
            SampleSource::Recording(player) => player.unsampled(),
        };
        losses.add_unaccounted(uncounted_ns, self.settings.period_ns);
        let from_ns = |since_ns: u64, until_ns: u64| Duration::from_nanos(until_ns.saturating_sub(since_ns));
        let origin = match &self.feed {
            SampleSource::Live(_) => None,
            SampleSource::Recording(player) => player.about.origin.clone(),
        };
        let (pids, started_ns, cpu_history, cpu_now, cpu_used) = match &self.feed {
            SampleSource::Live(live) => {
                (live.target.pids(), self.started_ns, live.meter.history(), live.meter.now(), live.cpu_used)
            }
            SampleSource::Recording(player) => (
                Some(player.about.pid).filter(|_| profile.recordings().is_empty()).into_iter().collect(),
                player.about.started_ns,
                player.cpu_history(),
                player.cpu_now(),
                player.cpu_used(),
            ),
        };
        // Nothing runs after the end of a recording.
        let state = state.filter(|_| !matches!(&self.feed, SampleSource::Recording(player) if player.is_over));
        let window_ns = self.model.question().window_ns;
        let until_ns = self.ended.map_or(now_ns, |(_, at_ns)| at_ns);
        let cost = self.cost.within(self.cpu_reading(), window_ns, until_ns);
        let up = from_ns(started_ns, until_ns);
        Facts {
            command: self.settings.command.clone(),
            title: self.title(),
            pids,
            processes: connected().count(),
            threads: (connected().count() > 0).then(|| connected().map(|process| process.account.threads).sum()),
            up,
            age: self.age_at_start.map(|age| age.saturating_add(up)),
            ended: self.ended.map(|(ending, at_ns)| (ending, from_ns(started_ns, at_ns))),
            clock,
            engine: self.settings.engine_in_use(),
            sampler: sampler(profile).filter(|_| self.settings.engine.is_external()),
            engine_state: state,
            refusal,
            period_ns: self.settings.period(),
            interval_bytes: profile.sampling_interval(window_ns.is_none()),
            origin,
            effective_hz: rate(profile, clock, self.settings.period_ns),
            halved_for: self.halved_for,
            window_ns,
            overhead: cost.of_target,
            samplers_of_a_cpu: cost.of_samplers,
            sigtop_of_a_cpu: cost.of_sigtop,
            losses,
            unsampled,
            stacks: profile.stack_quality(),
            overflows: profile.overflows(),
            interpreters: profile.interpreters(),
            files: self.files(),
            coverage: self.coverage.1.clone(),
            cpu_history,
            cpu_now,
            cpu_used,
            symbolizing: self.model.names.progress(),
            waits_for_names: self.waits_for_names(),
            download: self.download.clone(),
            deadlock: self.deadlock(now_ns).into_iter().map(|id| profile.thread(id).name.clone()).collect(),
            own_allocator: self.own_allocator.filter(|_| clock.is_memory()),
            java: self.generated.java,
            clock_unix_ns: self.unix_ns(now_ns).saturating_sub(now_ns),
            waiting: self.model.samples_since_freeze(),
            merged: profile.recordings().len(),
        }
    }

    /// The title of the only process that is attached to: its arguments, over which servers write
    /// what they do.
    fn title(&self) -> Option<String> {
        let is_attached = |feed: &SampleSource| match feed {
            SampleSource::Live(live) => matches!(live.target, WatchTarget::Attached(_)),
            SampleSource::Recording(_) => false,
        };
        let [process] = self.model.profile.processes() else { return None };
        let has_title = is_attached(&self.feed) && !process.title.is_empty();
        has_title.then(|| process.title.join(" ").split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The CPU time that was used so far.
    pub(super) fn cpu_reading(&self) -> CostReading {
        CostReading::new(&self.model.profile, matches!(self.feed, SampleSource::Live(_)))
    }

    /// Computes the shares of samples with names and the advice for Java again, if that is due.
    pub(super) fn update_coverage(&mut self, now_ns: u64) {
        if now_ns >= self.coverage.0 {
            let mut files = coverage(&self.model.profile, &self.model.names, self.model.clock);
            files.truncate(MAX_FILES);
            self.coverage = (now_ns + COVERAGE_NS, files);
            self.update_java_advice();
        }
    }

    /// Whether more than a twentieth of the frames have had no name for more than [`PATIENCE_NS`].
    fn waits_for_names(&self) -> bool {
        let (pending, all) = self.model.names.progress();
        let waited_ns = self.unnamed_since_ns.map_or(0, |since_ns| monotonic_ns().saturating_sub(since_ns));
        waited_ns > PATIENCE_NS && pending.saturating_mul(20) > all
    }

    /// Reads the progress of a download. A change is shown in the next answer.
    pub(super) fn note_download(&mut self) {
        let progress = self.settings.symbols.servers.as_ref().and_then(|servers| servers.progress());
        if progress != self.download {
            self.download = progress;
            self.scheduler.note_news();
        }
    }

    /// The threads that wait for each other's locks.
    fn deadlock(&self, now_ns: u64) -> Vec<ThreadId> {
        let (profile, names) = (&self.model.profile, &self.model.names);
        profile.deadlock(now_ns, |frame| names.wait(profile, frame)?.holder_id)
    }

    /// The state of each file's symbols.
    fn files(&self) -> Vec<(String, SymbolState)> {
        let modules = &self.model.profile.modules;
        let states = self.model.names.states();
        let mut files: Vec<(String, SymbolState)> =
            states.map(|(id, state)| (modules.file(id).name(), state.clone())).collect();
        files.sort_by(|a, b| (a.1.is_usable(), &a.0).cmp(&(b.1.is_usable(), &b.0)));
        files.truncate(MAX_FILES);
        files
    }
}

/// Returns the engine of samplers outside of the processes that are connected, or were at the end.
fn sampler(profile: &Profile) -> Option<Engine> {
    let engine = |process: &Process| Some(process.engaged.as_ref()?.engine).filter(|engine| engine.is_external());
    let connected = profile.processes().iter().filter(|process| process.connected).filter_map(engine).max();
    connected.or_else(|| profile.processes().iter().filter_map(engine).max())
}

/// Number of signals that reached a handler since the counters before the last, per second of the
/// clock: CPU time of the process or wall time of a thread. Ticks that agents count without a
/// signal are excluded. A few periods say nothing.
fn rate(profile: &Profile, clock: Clock, period_ns: u64) -> Option<f64> {
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
            let signals = |account: &AgentCounters| {
                let unsent = [LossCause::Unaccounted, LossCause::NoTimer].map(|loss| account.lost_ticks[loss as usize]);
                unsent.into_iter().fold(account.ticks, u64::saturating_sub)
            };
            ticks += signals(now).saturating_sub(signals(before));
            seconds += passed_ns as f64 / 1e9;
        }
    }
    let periods = seconds * 1e9 / period_ns.max(1) as f64;
    (ticks > 0 && periods >= MIN_RATE_PERIODS).then(|| ticks as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Arrival, ConnectionEvent, Engaged, Hello, Message, SourceId, SpawnCause};

    #[test]
    fn ticks_without_a_signal_are_not_in_the_effective_rate() {
        let mut profile = Profile::default();
        fn say(profile: &mut Profile, message: Message) {
            profile.apply(Arrival { source: SourceId(1), pid: 7, at_ns: 1, event: ConnectionEvent::Received(message) });
        }
        let bytes = || Box::<[u8]>::from(b"a".as_slice());
        say(
            &mut profile,
            Message::Hello(Hello {
                token: 0,
                pid: 7,
                parent: 1,
                start_ticks: 0,
                monotonic_ns: 1,
                cpu_ns: 0,
                spawn_cause: SpawnCause::Tick,
                executable: bytes(),
                argv: bytes(),
            }),
        );
        let mut account = AgentCounters { monotonic_ns: 1, ticks: 10, ..AgentCounters::default() };
        say(&mut profile, Message::Counters(account.clone()));
        // There are 250 signals in a second at 1000 Hz, and half a second without any.
        account.ticks += 250 + 400 + 100;
        account.lost_ticks[LossCause::Unaccounted as usize] = 400;
        account.lost_ticks[LossCause::NoTimer as usize] = 100;
        (account.monotonic_ns, account.process_cpu_ns) = (1_000_000_001, 1_000_000_000);
        say(&mut profile, Message::Counters(account.clone()));
        assert_eq!(rate(&profile, Clock::Prof, 1_000_000), Some(250.0));

        // What another clock counted is no part of the rate.
        let (clock, engine, period_ns) = (Clock::Prof, Engine::Threads, 1_000_000);
        say(
            &mut profile,
            Message::Engaged(Engaged { clock, engine, period_ns, state: EngineState::Running, signal: 23 }),
        );
        assert_eq!(rate(&profile, Clock::Prof, 1_000_000), None);
        account.ticks += 100_000;
        account.monotonic_ns += 1_000_000_000;
        say(&mut profile, Message::Counters(account));
        assert_eq!(rate(&profile, Clock::Prof, 1_000_000), None);
    }
}
