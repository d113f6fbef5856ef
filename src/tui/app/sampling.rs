//! Sampling settings and settings of the question: clock, timer source, rate, window, sort order.

use super::{App, Mode};
use crate::keyword::Keyword;
use crate::session::Command;
use crate::tally::query::{Grouping, Sort, TagRoot};
use crate::tui::action::Effect;
use crate::tui::command::options::WindowStep;
use crate::tui::layout::Pane;
use crate::wire::{Clock, Engine, INTERVALS_BYTES, PERIODS_NS};

/// Sampling frequencies of `+` and `-`, Hz. None is a divisor of a common timer frequency, so that
/// samples do not run in step with timers of the target.
const RATES_HZ: [u64; 8] = [9, 19, 49, 99, 249, 499, 999, 1999];

impl App {
    pub(super) fn switch_clock(&mut self, clock: Clock) -> Vec<Effect> {
        // The same key shows the other view of memory.
        let clock =
            if clock == Clock::Alloc && self.session.clock.value() == Clock::Alloc { Clock::Live } else { clock };
        if clock != self.session.clock.value() && std::mem::take(&mut self.session.is_diff) {
            self.screen.note("diff off: the baseline was taken with the other clock");
        }
        self.switch_sampling(Command::Clock(clock))
    }

    /// Sends a command that sets the clock or the timer source. The first one that needs setitimer
    /// requires a confirmation, because setitimer can kill the target.
    pub(super) fn switch_sampling(&mut self, command: Command) -> Vec<Effect> {
        let needs_itimer = matches!(command, Command::Engine(Engine::Itimer) | Command::Clock(Clock::Virtual));
        let is_live = self.options.recording.is_none() && self.session.is_running();
        if is_live && command == Command::Clock(Clock::Virtual) && self.session.engine.value().is_external() {
            self.screen.note("user CPU time cannot be sampled from outside; p samples CPU time, r wall time");
            return Vec::new();
        }
        if let Command::Clock(clock) = command
            && clock.is_memory()
            && is_live
            && self.session.engine.value().is_external()
        {
            self.screen.note("allocations cannot be sampled from outside: they need the agent");
            return Vec::new();
        }
        if needs_itimer && is_live && !self.session.itimer_confirmed {
            self.screen.mode = Mode::ConfirmItimer(command);
            return Vec::new();
        }
        match command {
            Command::Engine(engine) => self.session.engine.request(engine),
            Command::Clock(clock) => {
                if (clock == Clock::Live) != (self.session.clock.value() == Clock::Live) {
                    std::mem::swap(&mut self.question.window_ns, &mut self.other_window_ns);
                }
                self.session.clock.request(clock);
            }
            _ => {}
        }
        vec![Effect::Send(command)]
    }

    /// Switches to setitimer after the user has confirmed it.
    pub(super) fn confirm_itimer(&mut self) -> Vec<Effect> {
        let Mode::ConfirmItimer(command) = std::mem::replace(&mut self.screen.mode, Mode::Panes) else {
            return Vec::new();
        };
        self.session.itimer_confirmed = true;
        self.switch_sampling(command)
    }

    /// Returns whether this is a recording, and shows a message if so: sampling is fixed then.
    fn is_recorded(&mut self) -> bool {
        let is_recorded = self.options.recording.is_some();
        if is_recorded {
            self.screen.note("this is a recording: sampling cannot be changed");
        }
        is_recorded
    }

    pub(super) fn switch_engine(&mut self) -> Vec<Effect> {
        if self.is_recorded() {
            return Vec::new();
        }
        if self.session.clock.value() == Clock::Virtual {
            self.screen.note("user CPU time requires setitimer; p and r support both timer sources");
            return Vec::new();
        }
        let next = match self.session.engine.value() {
            Engine::Threads => Engine::Itimer,
            Engine::Itimer => Engine::External,
            Engine::External | Engine::Events | Engine::Ptrace => Engine::Threads,
        };
        self.switch_sampling(Command::Engine(next))
    }

    pub(super) fn step_rate(&mut self, step: i8) -> Vec<Effect> {
        if self.is_recorded() {
            return Vec::new();
        }
        if self.session.clock.value().is_memory() {
            return self.step_interval(step);
        }
        let hz = 1e9 / self.session.period_ns.value().max(1) as f64;
        // A rate between two steps moves to the next step in that direction. The tolerance keeps a
        // rounded step from being taken for its neighbor.
        let next = match step {
            1.. => RATES_HZ.iter().find(|&&rate| rate as f64 > hz * 1.005),
            _ => RATES_HZ.iter().rev().find(|&&rate| (rate as f64) < hz * 0.995),
        };
        let Some(rate) = next else {
            self.screen.note(if step > 0 {
                "this is the highest sampling frequency"
            } else {
                "this is the lowest sampling frequency"
            });
            return Vec::new();
        };
        let period_ns = (1_000_000_000 / rate).clamp(*PERIODS_NS.start(), *PERIODS_NS.end());
        self.session.period_ns.request(period_ns);
        vec![Effect::Send(Command::Period(period_ns))]
    }

    /// Doubles or halves the bytes between two samples.
    fn step_interval(&mut self, step: i8) -> Vec<Effect> {
        let bytes = self.session.period_ns.value().max(1);
        let next = if step > 0 { bytes / 2 } else { bytes.saturating_mul(2) };
        let next = next.clamp(*INTERVALS_BYTES.start(), *INTERVALS_BYTES.end());
        self.session.period_ns.request(next);
        vec![Effect::Send(Command::Period(next))]
    }

    pub(super) fn step_window(&mut self, step: i8) {
        self.question.window_ns = WindowStep::from(self.question.window_ns, step).length_ns;
    }

    pub(super) fn step_sort(&mut self, step: i8) {
        let sorts = Sort::ALL;
        let index = sorts.iter().position(|sort| *sort == self.question.sort).unwrap_or(0);
        self.question.sort = sorts[index.saturating_add_signed(step.into()).min(sorts.len() - 1)];
    }

    pub(super) fn step_roots(&mut self) {
        self.set_roots(self.next_roots());
    }

    /// The roots after the present ones. A single file has no sources.
    fn next_roots(&self) -> TagRoot {
        let is_merged = self.session.answer.as_ref().is_some_and(|answer| answer.facts.merged > 0);
        match self.question.roots.next() {
            TagRoot::Sources if !is_merged => TagRoot::Sources.next(),
            next => next,
        }
    }

    /// Whether waits are rows: as the leaves of stacks or as their roots.
    pub(super) fn shows_waits(&self) -> bool {
        self.question.group.shows_waits() || self.question.roots == TagRoot::Waits
    }

    /// Sets the pseudo-frames at the root of every stack, and shows a message.
    pub(super) fn set_roots(&mut self, roots: TagRoot) {
        if self.question.roots == roots {
            return;
        }
        self.question.roots = roots;
        self.panes.flame.leave_zooms();
        if roots != TagRoot::Plain {
            self.panes.flame.show_root();
        }
        let clock =
            if roots == TagRoot::Waits && self.session.clock.value() != Clock::Real { "; r samples waits" } else { "" };
        self.screen.note(format!("stack roots: {}{clock} (T: {})", roots.word().help, self.next_roots().word().help));
    }

    pub(super) fn step_group(&mut self) {
        let next = self.question.group.next();
        // `B` steps through the other groupings of waits.
        self.set_group(if next == Grouping::WaitReason { Grouping::Function } else { next });
    }

    /// Shows what threads wait for: by reason, by what is waited for, by holder, and not any more.
    pub(super) fn step_group_of_waits(&mut self) {
        let group = self.question.group.next_of_waits();
        self.set_group(group);
        if self.layout().is_none_or(|layout| layout.pane(Pane::Top).is_none()) {
            self.focus_pane(Pane::Top);
        }
        let words = match group {
            Grouping::WaitReason => "why threads wait (B: what for; Enter: more of a wait)",
            Grouping::Wait => "what threads wait for (B: lock holders; Enter: stacks)",
            Grouping::WaitHolder => "who holds the locks (B: functions again; Enter: stacks)",
            _ => "functions again, without waits",
        };
        self.screen.note(match self.session.clock.value() {
            Clock::Real => words,
            _ if group.shows_waits() => "waits are sampled by wall-clock time: r switches to it",
            _ => words,
        });
    }

    /// Sets what a row stands for. The selection is reset, since names of other rows are unrelated.
    pub(super) fn set_group(&mut self, group: Grouping) {
        if self.question.group != group {
            self.question.group = group;
            self.panes.top.clear_selection();
            self.panes.flame.leave_zooms();
            if group.owner().is_some() {
                self.panes.flame.show_root();
            }
        }
    }
}
