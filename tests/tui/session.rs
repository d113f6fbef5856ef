//! A session without a target: a scenario answers the screen's questions.

use std::sync::Arc;
use std::time::Duration;

use sigtop::profile::loss::{Losses, Overflows};
use sigtop::profile::thread::{ThreadId, ThreadState};
use sigtop::session::MAX_COPIES;
use sigtop::session::Model;
use sigtop::session::StackQuality;
use sigtop::session::{Answer, Command, Facts, Question, TargetExit};
use sigtop::symbols::scenario::{Scenario, Script, scenario};
use sigtop::symbols::source;
use sigtop::symbols::worker::{CodeRequest, SymbolState};
use sigtop::wire::{Clock, Engine, EngineState};

/// A fake session: a model that a scenario fills.
pub(crate) struct Session {
    model: Model,
    script: Script,
    now_ns: u64,
    /// The facts in the header; tests change them.
    pub(crate) facts: Facts,
    /// All commands that were received, in order, except questions.
    pub(crate) heard: Vec<Command>,
    question: Option<Question>,
    /// The number of requests to hold the numbers because the cursor moves.
    pub(crate) holds: usize,
}

impl Session {
    /// Creates a session that plays a scenario.
    pub(crate) fn new(text: &str) -> Session {
        let scenario = scenario(text).expect("a scenario");
        let facts = Facts {
            interval_bytes: 0,
            origin: None,
            command: "./server --port 8080".to_owned(),
            title: None,
            pids: vec![41273],
            processes: 1,
            threads: Some(8),
            up: Duration::from_secs(134),
            ended: None,
            clock: Clock::Prof,
            engine: Engine::Threads,
            sampler: None,
            refusal: None,
            engine_state: Some(EngineState::Running),
            period_ns: 10_101_010,
            effective_hz: Some(98.97),
            window_ns: None,
            losses: Losses {
                ticks: 4021,
                agent_cpu_ns: 21_000_000,
                handler_cpu_ns: 27_500_000,
                process_cpu_ns: 40_210_000_000,
                ..Losses::default()
            },
            overhead: Some(0.0012),
            samplers_of_a_cpu: Some(0.0),
            sigtop_of_a_cpu: Some(0.018),
            halved_for: None,
            age: None,
            unsampled: None,
            stacks: StackQuality { samples: 3984, truncated: 21, unreadable: 2 },
            overflows: Overflows::default(),
            interpreters: Vec::new(),
            coverage: Vec::new(),
            files: vec![
                ("libz.so.1".to_owned(), SymbolState::Missing("it was deleted, and nothing of it is left".to_owned())),
                ("libc.so.6".to_owned(), SymbolState::Exports),
                ("libcrypto.so.3".to_owned(), SymbolState::Symbols),
                ("server".to_owned(), SymbolState::Lines),
            ],
            cpu_history: (0..60).map(|second| 95.0 + 90.0 * (f32::sin(second as f32 / 4.0))).collect(),
            cpu_now: Some((171.3, 15.8)),
            cpu_used: Duration::from_millis(40_210),
            symbolizing: (0, 1480),
            deadlock: Vec::new(),
            own_allocator: None,
            java: None,
            waits_for_names: false,
            download: None,
            clock_unix_ns: 0,
            waiting: None,
            merged: 0,
        };
        let mut model = Model::new(Clock::Prof, Question::default());
        let Scenario { profile, names, now_ns, script } = scenario;
        (model.profile, model.names) = (profile, names);
        Session { model, script, now_ns, facts, heard: Vec::new(), question: None, holds: 0 }
    }

    /// Creates a session with the model of a real one.
    pub(crate) fn of_model(model: Model) -> Session {
        Session { model, ..Session::new(crate::stage::SCREEN) }
    }

    /// Executes a command; returns an answer once a question was asked.
    pub(crate) fn obey(&mut self, command: Command) -> Option<Arc<Answer>> {
        match &command {
            Command::Ask(question) => {
                self.question = Some(Question::clone(question));
                return self.answer();
            }
            Command::Hold => {
                self.holds += 1;
                return None;
            }
            Command::Clock(clock) => self.facts.clock = *clock,
            Command::Engine(engine) => self.facts.engine = *engine,
            Command::Period(period_ns) => self.facts.period_ns = *period_ns,
            Command::Freeze => {
                self.model.freeze(self.now_ns);
                self.facts.waiting = Some(312);
            }
            Command::Thaw => {
                self.model.thaw();
                self.facts.waiting = None;
            }
            Command::Baseline(on) => self.model.set_baseline(*on, self.now_ns),
            _ => {}
        }
        self.heard.push(command);
        self.answer()
    }

    /// Sets the observed state of a thread.
    pub(crate) fn see(&mut self, tid: u32, state: ThreadState) {
        let profile = &mut self.model.profile;
        let found = profile.threads().iter().position(|thread| thread.tid == tid).expect("a thread of the scenario");
        profile.set_thread_state(ThreadId(found as u32), state);
    }

    /// Lets time pass, ns.
    pub(crate) fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    /// Ends the target.
    pub(crate) fn end(&mut self, ending: TargetExit) {
        self.facts.ended = Some((ending, self.facts.up));
        self.facts.cpu_now = Some((0.0, 0.0));
    }

    /// Answers the current question; `None` before the first one.
    pub(crate) fn answer(&mut self) -> Option<Arc<Answer>> {
        let question = self.question.clone()?;
        let facts = Facts { origin: None, window_ns: question.window_ns, ..self.facts.clone() };
        let measured_ns = question.window_ns.map_or(self.now_ns, |ns| ns.min(self.now_ns));
        self.model.clock = facts.clock;
        self.model.set_question(question);
        if self.model.question().listing.is_some() {
            // One iteration for each possible copy, and one for their sources.
            for _ in 0..MAX_COPIES + 1 {
                self.model.answer(self.now_ns, facts.clone());
                let (mut codes, mut files) = (Vec::new(), Vec::new());
                let ask_code = |request: CodeRequest| {
                    codes.push(self.script.code(&request));
                    Ok(())
                };
                let ask_file = |request: source::SourceRequest| {
                    files.push(self.script.source(&request));
                    Ok(())
                };
                self.model.request_listing(ask_code, ask_file);
                codes.into_iter().for_each(|code| self.model.apply_code(code));
                files.into_iter().for_each(|file| self.model.apply_source(file));
            }
        }
        Some(Arc::new(Answer { measured_ns, ..self.model.answer(self.now_ns, facts) }))
    }
}
