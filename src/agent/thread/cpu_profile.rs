//! The agent thread's part of writing a profile to a file, with or without a viewer: it carries out
//! the [requests](crate::agent::cpuprofile::control).
//!
//! There is one engine. If a viewer samples with the clock of the profile, the viewer sets the rate
//! and both get every sample. If the viewer requests another clock, the clock of the profile stays,
//! and the viewer is informed.

use crate::agent::cpuprofile::aggregate::ProfileAggregate;
use crate::agent::cpuprofile::control::{self, NextStep, ProfileRequest};
use crate::agent::os::socket::{PeerGone, Socket};
use crate::agent::os::syscall;
use crate::agent::sampling::counters;
use crate::agent::sampling::ring::RING;
use crate::agent::sampling::unaccounted::CpuBalance;
use crate::agent::state;
use crate::agent::thread::{Agent, EndReason};
use core::sync::atomic::Ordering;

use crate::wire::{Clock, Engaged, Engine, EngineState, Request};

impl Agent {
    /// Runs without a viewer, until there is no profile to write or a viewer sends a wake signal.
    pub(crate) fn serve_without_viewer(&mut self) -> EndReason {
        let mut no_viewer = Socket::unconnected();
        self.requested = None;
        if RING.load(Ordering::Acquire).is_null() {
            RING.store(core::ptr::from_ref(self.ring).cast_mut(), Ordering::SeqCst);
            counters::copy_configs_to_ring();
            counters::move_early_counters();
        }
        state::WATCHED.store(true, Ordering::Relaxed);
        if let Some(request) = self.collector.as_ref().map(ProfileAggregate::request) {
            self.engage_for_profile(request);
        }
        while state::KNOCK.load(Ordering::Relaxed) == 0 && control::needs_agent() {
            match self.run_once(&mut no_viewer) {
                Ok(None) => {}
                Ok(Some(end)) => return end,
                Err(PeerGone) => break,
            }
        }
        if state::KNOCK.load(Ordering::Relaxed) != 0 {
            // The viewer gets an empty ring.
            self.ticker.disengage();
            self.drain(&mut no_viewer, syscall::monotonic_ns());
            self.ring.release();
        }
        EndReason::Left
    }

    fn engage_for_profile(&mut self, request: ProfileRequest) {
        let period_ns = request.period_us * 1_000;
        self.ticker.preferred_signal = control::tick_signal();
        if request.manual {
            self.ticker.by_hand(request.clock, period_ns);
        } else {
            self.ticker.engage(request.clock, Engine::Threads, period_ns);
        }
        self.balance = CpuBalance::begin();
        counters::remember_epoch(self.ticker.epoch());
    }

    /// Starts, continues or stops the profile, as requested.
    pub(crate) fn update_profile(&mut self, socket: &mut Socket, now_ns: u64) {
        match control::next_step() {
            NextStep::Nothing => {}
            // After a fork, or in a newly spawned agent thread, the profile may be running already.
            NextStep::Start | NextStep::Continue if self.collector.is_none() => {
                let request = control::request();
                self.collector = ProfileAggregate::new(request);
                if self.collector.is_none() {
                    return control::set_idle();
                }
                // A viewer with the same clock has set the rate. The file counts ticks of its own
                // period in any case.
                match self.requested {
                    Some(Request::Engage { clock, .. }) if clock == request.clock && !request.manual => {}
                    Some(Request::Engage { clock, engine, period_ns, .. }) => {
                        self.refuse_clock(socket, clock, engine, period_ns, request);
                    }
                    Some(Request::Leave) | None => self.engage_for_profile(request),
                }
                control::set_running();
            }
            NextStep::Start => control::set_running(),
            NextStep::Continue => {
                if let Some(collector) = &mut self.collector {
                    collector.flush_if_due(now_ns);
                }
            }
            NextStep::Stop => {
                if let Some(mut collector) = self.collector.take() {
                    collector.update_losses(false);
                    collector.flush();
                }
                match self.requested {
                    Some(request) => {
                        let _ = self.handle_request(socket, request);
                    }
                    None => {
                        self.ticker.disengage();
                        state::WATCHED.store(false, Ordering::Relaxed);
                    }
                }
                control::set_idle();
            }
        }
    }

    /// Tells a viewer that its clock is not available, because the profile in a file uses another
    /// one.
    pub(crate) fn refuse_clock(
        &mut self,
        socket: &mut Socket,
        clock: Clock,
        engine: Engine,
        period_ns: u64,
        request: ProfileRequest,
    ) {
        if self.ticker.engaged.clock != request.clock || self.ticker.engaged.state != EngineState::Running {
            self.engage_for_profile(request);
        }
        let engaged = Engaged { clock, engine, state: EngineState::ClockTaken, period_ns, signal: 0 };
        let _ = socket.write(|w| w.write_engaged(&engaged));
    }

    /// Writes everything to the file of the profile, because the process ends.
    pub(crate) fn flush_profile(&mut self) {
        if let Some(collector) = &mut self.collector {
            collector.update_losses(false);
            collector.flush();
        }
    }
}
