//! The commands of the screen.

use super::{SampleSource, SessionThread, monotonic_ns};
use crate::session::conclusion::Conclusion;
use crate::session::protocol::{Command, Notice};
use crate::wire::{Clock, Engine};

impl SessionThread {
    /// Executes a command of the screen.
    pub(super) fn execute(&mut self, order: Command) {
        match order {
            Command::Ask(question) => {
                if *question != *self.model.question() {
                    self.model.set_question(*question);
                    self.scheduler.request_previous();
                }
            }
            Command::AskOnce(questions) => {
                let answers = questions.into_iter().map(|question| self.answer_once(question)).collect();
                self.notify(Notice::Answers(answers));
                self.scheduler.request_latest();
            }
            Command::Hold => self.scheduler.hold(monotonic_ns()),
            Command::Clock(Clock::Virtual) if self.is_external() => {
                self.warn("user CPU time cannot be sampled from outside; p samples CPU time".to_owned());
            }
            Command::Clock(clock) if clock.is_memory() && self.is_external() => {
                self.warn("allocations cannot be sampled from outside: they need the agent".to_owned());
            }
            Command::Clock(clock) => {
                let is_view = self.settings.clock.sampled() == clock.sampled();
                self.settings.clock = clock;
                match self.feed {
                    SampleSource::Live(_) if !is_view => self.model.select_clock(clock),
                    SampleSource::Live(_) | SampleSource::Recording(_) => self.model.select_recorded_clock(clock),
                }
                self.turned = true;
                self.scheduler.request_latest();
                // Engaged again, an agent would forget what it knows of memory in use.
                if !is_view || !clock.is_memory() {
                    self.engage();
                }
            }
            Command::Engine(engine) => self.select_engine(engine),
            Command::Period(period_ns) => {
                self.settings.set_period(period_ns);
                self.halved_for = None;
                self.engage();
            }
            Command::Freeze => {
                self.model.freeze(self.now_ns());
                self.scheduler.request_latest();
            }
            Command::Thaw => {
                self.model.thaw();
                self.scheduler.request_latest();
            }
            Command::Baseline(on) => {
                self.model.set_baseline(on, monotonic_ns());
                self.scheduler.request_latest();
            }
            Command::Reset => {
                self.model.reset();
                self.scheduler.request_latest();
            }
            Command::Input(bytes) => {
                if let SampleSource::Live(live) = &self.feed
                    && let Some(sentence) = live.input(&bytes)
                {
                    self.warn(sentence);
                }
            }
            Command::Resize(columns, rows) => {
                if let SampleSource::Live(live) = &self.feed {
                    live.resize(columns, rows);
                }
            }
            Command::Save(save) => self.save(save),
            Command::SaveKept { path, since_ns } => self.save_kept(path, since_ns),
            Command::TakeIncrement => self.take_increment(),
            Command::End => self.end(),
            Command::HangUp => {
                if let SampleSource::Live(live) = &self.feed {
                    live.hang_up();
                }
            }
            Command::Why { module } => self.explain_symbols(&module),
            Command::Conclude => self.conclude(Conclusion::Notify),
            Command::Leave => self.conclude(Conclusion::Leave),
        }
    }

    /// Returns whether a running target is sampled from outside.
    fn is_external(&self) -> bool {
        matches!(self.feed, SampleSource::Live(_)) && self.settings.engine.is_external()
    }

    fn select_engine(&mut self, engine: Engine) {
        if let SampleSource::Live(live) = &mut self.feed
            && let Err(sentence) = live.select_engine(engine)
        {
            return self.warn(sentence);
        }
        self.settings.engine = engine;
        self.engage();
    }

    pub(super) fn engage(&mut self) {
        if let SampleSource::Live(live) = &mut self.feed {
            live.agents.engage(self.settings.request());
            live.ledger.change();
        }
        self.scheduler.request_latest();
    }

    pub(super) fn end(&mut self) {
        if let (SampleSource::Live(live), None) = (&mut self.feed, self.ended)
            && let Some(sentence) = live.end(monotonic_ns())
        {
            self.warn(sentence);
        }
    }
}
