//! How is sampled, and what of it is asked for: clock, engine, rate, window, order.

use super::{App, Mode};
use crate::link::wire::{Clock, Engine, PERIODS_NS};
use crate::tally::query::{Group, Roots, Sort};
use crate::track::Command;
use crate::tui::action::Effect;

/// Windows that `w` steps through, ns; `None` is all.
const WINDOWS_NS: [Option<u64>; 4] = [Some(2_000_000_000), Some(10_000_000_000), Some(60_000_000_000), None];
/// Rates that `+` and `-` step through, Hz. None is a divisor of a usual tick: no sampling in step with the target.
const RATES_HZ: [u64; 8] = [9, 19, 49, 99, 249, 499, 999, 1999];
/// Columns that can sort, from left to right.
const SORTS: [Sort; 3] = [Sort::Flat, Sort::Cum, Sort::Name];
/// Kinds of rows, from the usual one on.
const GROUPS: [Group; 7] =
    [Group::Function, Group::File, Group::Line, Group::Address, Group::Module, Group::Thread, Group::Process];
/// What can lie at the root of every stack.
const ROOTS: [Roots; 4] = [Roots::Plain, Roots::Threads, Roots::Processes, Roots::Both];

impl App {
    pub(super) fn switch_clock(&mut self, clock: Clock) -> Vec<Effect> {
        if clock != self.clock.value() && std::mem::take(&mut self.compares) {
            self.note("the baseline was of the other clock: differences are left");
        }
        self.sample_by(Command::Clock(clock))
    }

    /// Sends a command that sets the clock or the engine. Before the first one that needs setitimer
    /// the user is asked: the target can be killed by it.
    pub(super) fn sample_by(&mut self, command: Command) -> Vec<Effect> {
        let needs_itimer = matches!(command, Command::Engine(Engine::Itimer) | Command::Clock(Clock::Virtual));
        let is_live = self.options.recording.is_none() && self.ended.is_none() && !self.session_over;
        if needs_itimer && is_live && !self.accepts_itimer {
            self.mode = Mode::ConfirmItimer(command);
            return Vec::new();
        }
        match command {
            Command::Engine(engine) => self.engine.want(engine),
            Command::Clock(clock) => self.clock.want(clock),
            _ => {}
        }
        vec![Effect::Send(command)]
    }

    /// The user chose what was asked about.
    pub(super) fn confirm(&mut self) -> Vec<Effect> {
        let Mode::ConfirmItimer(command) = std::mem::replace(&mut self.mode, Mode::Panes) else { return Vec::new() };
        self.accepts_itimer = true;
        self.sample_by(command)
    }

    /// Whether this is a recording, whose samples are as they were taken; says so.
    fn is_recorded(&mut self) -> bool {
        let is_recorded = self.options.recording.is_some();
        if is_recorded {
            self.note("this is a recording: how it was sampled cannot be changed");
        }
        is_recorded
    }

    pub(super) fn switch_engine(&mut self) -> Vec<Effect> {
        if self.is_recorded() {
            return Vec::new();
        }
        if self.clock.value() == Clock::Virtual {
            self.note("user time is ticked by setitimer alone; p and r have both engines");
            return Vec::new();
        }
        let engine = match self.engine.value() {
            Engine::Threads => Engine::Itimer,
            Engine::Itimer => Engine::Threads,
        };
        self.sample_by(Command::Engine(engine))
    }

    pub(super) fn step_rate(&mut self, step: i8) -> Vec<Effect> {
        if self.is_recorded() {
            return Vec::new();
        }
        let hz = 1e9 / self.period_ns.value().max(1) as f64;
        // A rate between two steps goes to the next in that direction; a step is not taken for its own neighbour.
        let next = match step {
            1.. => RATES_HZ.iter().find(|&&rate| rate as f64 > hz * 1.005),
            _ => RATES_HZ.iter().rev().find(|&&rate| (rate as f64) < hz * 0.995),
        };
        let Some(rate) = next else {
            self.note(if step > 0 { "this is the highest rate" } else { "this is the lowest rate" });
            return Vec::new();
        };
        let period_ns = (1_000_000_000 / rate).clamp(*PERIODS_NS.start(), *PERIODS_NS.end());
        self.period_ns.want(period_ns);
        vec![Effect::Send(Command::Period(period_ns))]
    }

    pub(super) fn step_window(&mut self, step: i8) {
        let length = |window: &Option<u64>| window.unwrap_or(u64::MAX);
        let now = length(&self.window_ns);
        let next = match step {
            1.. => WINDOWS_NS.iter().find(|window| length(window) > now).unwrap_or(&WINDOWS_NS[0]),
            _ => WINDOWS_NS.iter().rev().find(|window| length(window) < now).unwrap_or(&WINDOWS_NS[3]),
        };
        self.window_ns = *next;
    }

    pub(super) fn step_sort(&mut self, step: i8) {
        let at = SORTS.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = SORTS[at.saturating_add_signed(step.into()).min(SORTS.len() - 1)];
    }

    pub(super) fn step_roots(&mut self) {
        let at = ROOTS.iter().position(|roots| *roots == self.roots).unwrap_or(0);
        self.turn_roots(ROOTS[(at + 1) % ROOTS.len()]);
    }

    /// Puts something else at the root of every stack, and says what.
    pub(super) fn turn_roots(&mut self, roots: Roots) {
        if self.roots == roots {
            return;
        }
        self.roots = roots;
        self.flame.leave_zooms();
        if roots != Roots::Plain {
            self.flame.show_root();
        }
        self.note(match roots {
            Roots::Plain => "stacks begin with what was sampled",
            Roots::Threads => "every stack begins with its thread; T goes on to processes",
            Roots::Processes => "every stack begins with its process; T goes on to both",
            Roots::Both => "every stack begins with its process and its thread; T ends that",
        });
    }

    pub(super) fn step_group(&mut self) {
        let at = GROUPS.iter().position(|group| *group == self.group).unwrap_or(0);
        self.turn_group(GROUPS[(at + 1) % GROUPS.len()]);
    }

    /// Other rows: names from before mean nothing in them.
    pub(super) fn turn_group(&mut self, group: Group) {
        if self.group != group {
            self.group = group;
            self.list.forget();
            self.flame.leave_zooms();
            if group.owner().is_some() {
                self.flame.show_root();
            }
        }
    }
}
