//! What stands [ordered](super::order) is delivered: the agent thread's part in writing a profile into a file, with a viewer or without.
//!
//! There is one engine. While a viewer watches by the clock that the file wants too, the viewer sets the rate and both get every sample;
//! where it wants another clock, the file's stays and the viewer is told.

use core::sync::atomic::Ordering;

use super::collector::Collector;
use super::order::{self, Now, Order};
use super::sender::{Agent, End};
use super::socket::{Gone, Socket};
use super::unseen::Balance;
use super::{start, state, sys};
use crate::link::wire::{Clock, Engaged, Engine, EngineState, Request};

impl Agent {
    /// Goes on without a viewer, as long as there is a profile to be written and nobody knocks.
    pub(super) fn serve_nobody(&mut self) -> End {
        let mut nobody = Socket::to_nobody();
        self.asked = None;
        if state::RING.load(Ordering::Acquire).is_null() {
            state::RING.store(core::ptr::from_ref(self.ring).cast_mut(), Ordering::SeqCst);
            state::show_configs();
            state::settle_counters();
        }
        state::WATCHED.store(true, Ordering::Relaxed);
        if let Some(order) = self.collector.as_ref().map(Collector::order) {
            self.engage_for(order);
        }
        while state::KNOCK.load(Ordering::Relaxed) == 0 && order::needs_agent() {
            match self.turn(&mut nobody) {
                Ok(None) => {}
                Ok(Some(end)) => return end,
                Err(Gone) => break,
            }
        }
        if state::KNOCK.load(Ordering::Relaxed) != 0 {
            // The ring begins anew for the viewer.
            self.ticker.disengage();
            self.drain(&mut nobody, sys::monotonic_ns());
            self.ring.release();
        }
        End::Left
    }

    fn engage_for(&mut self, order: Order) {
        let period_ns = order.period_us * 1_000;
        if order.by_hand {
            self.ticker.by_hand(order.clock, period_ns);
        } else {
            self.ticker.engage(order.clock, Engine::Threads, period_ns);
        }
        self.balance = Balance::begin();
        start::remember_epoch(self.ticker.epoch());
    }

    /// Looks whether a profile is to be begun or ended, and writes what is new.
    pub(super) fn look_at_orders(&mut self, socket: &mut Socket, now_ns: u64) {
        match order::look() {
            Now::Nothing => {}
            // After a fork, or in another life of the agent, it may be on already.
            Now::Begin | Now::Going if self.collector.is_none() => {
                let order = order::order();
                self.collector = Collector::new(order);
                if self.collector.is_none() {
                    return order::is_over();
                }
                // A viewer that has the same clock has set the rate; for the file it makes no difference.
                match self.asked {
                    Some((clock, ..)) if clock == order.clock && !order.by_hand => {}
                    Some((clock, engine, period_ns)) => self.refuse(socket, clock, engine, period_ns, order),
                    None => self.engage_for(order),
                }
                order::is_begun();
            }
            Now::Begin => order::is_begun(),
            Now::Going => {
                if let Some(collector) = &mut self.collector {
                    collector.look(now_ns);
                }
            }
            Now::End => {
                if let Some(mut collector) = self.collector.take() {
                    collector.look_at_losses(false);
                    collector.flush();
                }
                match self.asked {
                    Some((clock, engine, period_ns)) => {
                        let _ = self.obey(socket, Request::Engage { clock, engine, period_ns });
                    }
                    None => {
                        self.ticker.disengage();
                        state::WATCHED.store(false, Ordering::Relaxed);
                    }
                }
                order::is_over();
            }
        }
    }

    /// Tells a viewer that the clock it asks for cannot be had beside the file's.
    pub(super) fn refuse(&mut self, socket: &mut Socket, clock: Clock, engine: Engine, period_ns: u64, order: Order) {
        if self.ticker.engaged.clock != order.clock || self.ticker.engaged.state != EngineState::Running {
            self.engage_for(order);
        }
        let engaged = Engaged { clock, engine, state: EngineState::ClockTaken, period_ns, signal: 0 };
        let _ = socket.write(|w| w.engaged(&engaged));
    }

    /// Writes everything into the file that a profile goes to: nothing may come after.
    pub(super) fn write_all(&mut self) {
        if let Some(collector) = &mut self.collector {
            collector.look_at_losses(false);
            collector.flush();
        }
    }
}
