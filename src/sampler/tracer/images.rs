//! Images of processes: each program that a process executes is one, from the beginning of its
//! sampling to the end.

use super::{MAX_PROCESSES, Tracer, TracerReport};
use crate::attach::proc::ProcessIdentity;
use crate::attach::program::elf;
use crate::sampler::clock::monotonic_ns;
use crate::sampler::events::{ImageId, ImageStart, TracerEvent};
use crate::sampler::perf::OpenError;
use crate::sampler::process::{ProcessChange, WatchedProcess};
use crate::sampler::scope::WatchScope;
use crate::wire::{Clock, Engine};

impl Tracer {
    pub(super) fn watch(&mut self, identity: ProcessIdentity, scope: WatchScope) {
        let pid = identity.pid;
        if let Some(process) = self.processes.get_mut(&pid).filter(|_| scope.has_children()) {
            process.widen(monotonic_ns());
            return;
        }
        let is_known = self.processes.contains_key(&pid) || self.given_up.contains(&identity);
        if is_known || self.processes.len() >= MAX_PROCESSES {
            return;
        }
        let image = ImageId(self.next_image);
        let Some(mut process) = WatchedProcess::new(image, identity, scope) else { return };
        if elf::is_32_bit(pid) {
            return self.give_up(identity);
        }
        process.engine = match self.open_events(identity, scope) {
            Ok(()) => Engine::Events,
            Err(OpenError::Refused) if self.engine == Engine::Events && !scope.is_asleep() => {
                return self.give_up(identity);
            }
            Err(OpenError::TooMany) if self.engine == Engine::Events => {
                self.given_up.insert(identity);
                let _ = self.links.reports.send(TracerReport::TooManyThreads { pid });
                return;
            }
            Err(OpenError::Ended) if self.engine == Engine::Events && !scope.is_asleep() => return,
            Err(_) => Engine::Ptrace,
        };
        self.begin(identity, process);
    }

    /// Watches a process that has just begun and has inherited events.
    pub(super) fn watch_born(&mut self, identity: ProcessIdentity) {
        let pid = identity.pid;
        if self.processes.contains_key(&pid) || self.processes.len() >= MAX_PROCESSES {
            return;
        }
        let image = ImageId(self.next_image);
        if let Some(mut process) = WatchedProcess::new(image, identity, WatchScope::FromStart) {
            process.engine = Engine::Events;
            process.follow(true, 0);
            self.begin(identity, process);
        }
    }

    fn begin(&mut self, identity: ProcessIdentity, mut process: WatchedProcess) {
        let (pid, scope, image) = (identity.pid, process.scope, process.image);
        self.next_image += 1;
        let start = ImageStart {
            pid,
            parent: process.parent,
            start_ticks: process.start_ticks,
            cpu_ns: if scope == WatchScope::FromStart { 0 } else { process.cpu_ns },
            engine: process.engine,
            maker: process.is_born().then_some(process.parent),
        };
        self.outbox.push_back((image, TracerEvent::Started(start)));
        let change = process.check(monotonic_ns(), self.tick, true, &mut self.outbox);
        if !process.threads.is_empty() {
            self.processes.insert(pid, process);
            return;
        }
        self.outbox.push_back((image, TracerEvent::Ended));
        match change {
            ProcessChange::Executed => self.watch(identity, scope),
            ProcessChange::Ended => {}
            // The kernel does not let this process be looked into.
            ProcessChange::None => self.give_up(identity),
        }
    }

    /// Ends the image of a process that has executed another program, or is to be sampled in
    /// another way, and begins its next one.
    pub(super) fn restart_image(&mut self, pid: u32) {
        let Some(process) = self.processes.get(&pid) else { return };
        let (identity, scope, is_born) = (process.identity(), process.scope.again(), process.is_born());
        let balance_ns = if process.has_events() { process.balance_ns() } else { 0 };
        let supervision = process.supervision;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.follow(false, process.carried_ns - balance_ns);
        }
        self.end_image(pid);
        if let Some(scope) = scope {
            self.watch(identity, scope);
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            process.follow(is_born, balance_ns);
            process.supervision = supervision;
        }
    }

    /// Reports that a process may not be watched.
    pub(super) fn give_up(&mut self, process: ProcessIdentity) {
        self.given_up.insert(process);
        let _ = self.links.reports.send(TracerReport::Refused { pid: process.pid });
    }

    /// Ends an image, and accounts for what was not sampled.
    pub(super) fn end_image(&mut self, pid: u32) {
        self.carry_balance(pid);
        if let Some(process) = self.processes.get_mut(&pid).filter(|_| self.config.clock == Clock::Prof) {
            process.close();
        }
        self.leave_image(pid);
    }

    /// Sends the last samples of an image, and its counters.
    pub(super) fn leave_image(&mut self, pid: u32) {
        if self.config.clock == Clock::Real {
            self.sample_last_sleeps(pid);
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            let image = process.image;
            let counters = process.counters(self.config.period_ns);
            self.outbox.push_back((image, TracerEvent::Counters(counters)));
            self.outbox.push_back((image, TracerEvent::Ended));
        }
        self.forget(pid);
    }

    /// Leaves the difference between samples and CPU time of a process that ends to its parent, for
    /// its next children: short processes have no samples, or too heavy ones.
    fn carry_balance(&mut self, pid: u32) {
        let Some(process) = self.processes.get(&pid).filter(|process| process.is_born()) else { return };
        let (parent, balance_ns) = (process.parent, process.balance_ns());
        if let Some(parent) = self.processes.get_mut(&parent).filter(|parent| parent.has_events()) {
            parent.carried_ns += balance_ns;
            if let Some(process) = self.processes.get_mut(&pid) {
                process.carried_ns -= balance_ns;
            }
        }
    }

    pub(super) fn forget(&mut self, pid: u32) {
        // Threads of it that were asked to stop are let go when they do.
        self.processes.remove(&pid);
    }
}
