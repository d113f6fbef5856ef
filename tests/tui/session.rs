//! A session without a target: a scenario answers the screen's questions.

use std::sync::Arc;
use std::time::Duration;

use sigtop::link::wire::{Clock, Engine, EngineState};
use sigtop::profile::loss::{Losses, Overflows};
use sigtop::profile::thread::{State, ThreadId};
use sigtop::profile::window::Span;
use sigtop::symbols::scenario::{Scenario, scenario};
use sigtop::symbols::source;
use sigtop::symbols::worker::{CodeRequest, SymbolState};
use sigtop::tally::crowd;
use sigtop::tally::query::Query;
use sigtop::tally::tallier::{Besides, Tallier, Tallies};
use sigtop::track::facts::Stacks;
use sigtop::track::listing::{MAX_COPIES, Shelf};
use sigtop::track::{Answer, Command, Ending, Facts, Question};

/// What a fake session knows.
pub(crate) struct Session {
    scenario: Scenario,
    /// The header's material; tests change it.
    pub(crate) facts: Facts,
    /// Every command that was sent, in order, but questions.
    pub(crate) heard: Vec<Command>,
    question: Option<Question>,
    shelf: Shelf,
}

impl Session {
    /// Plays a scenario.
    pub(crate) fn new(text: &str) -> Session {
        let scenario = scenario(text).expect("a scenario");
        let facts = Facts {
            command: "./server --port 8080".to_owned(),
            pid: 41273,
            processes: 1,
            threads: Some(8),
            up: Duration::from_secs(134),
            ended: None,
            clock: Clock::Prof,
            engine: Engine::Threads,
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
            agent_share: Some(0.0012),
            stacks: Stacks { samples: 3984, truncated: 21, unreadable: 2 },
            overflows: Overflows::default(),
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
            waiting: None,
        };
        Session { scenario, facts, heard: Vec::new(), question: None, shelf: Shelf::default() }
    }

    /// Takes a command; answers when there is something new to say.
    pub(crate) fn obey(&mut self, command: Command) -> Option<Arc<Answer>> {
        match &command {
            Command::Ask(question) => {
                self.question = Some(Question::clone(question));
                return self.answer();
            }
            Command::Clock(clock) => self.facts.clock = *clock,
            Command::Engine(engine) => self.facts.engine = *engine,
            Command::Period(period_ns) => self.facts.period_ns = *period_ns,
            Command::Freeze => self.facts.waiting = Some(312),
            Command::Thaw => self.facts.waiting = None,
            _ => {}
        }
        self.heard.push(command);
        self.answer()
    }

    /// Somebody looked what a thread does.
    pub(crate) fn see(&mut self, tid: u32, state: State) {
        let profile = &mut self.scenario.profile;
        let found = profile.threads().iter().position(|thread| thread.tid == tid).expect("a thread of the scenario");
        profile.see_state(ThreadId(found as u32), state);
    }

    /// The target ends.
    pub(crate) fn end(&mut self, ending: Ending) {
        self.facts.ended = Some((ending, self.facts.up));
        self.facts.cpu_now = Some((0.0, 0.0));
    }

    /// The newest numbers.
    pub(crate) fn answer(&mut self) -> Option<Arc<Answer>> {
        let question = self.question.clone()?;
        let Scenario { profile, names, now_ns, script } = &self.scenario;
        let span = question.window_ns.map_or(Span::Total, |ns| Span::Last { ns, now_ns: *now_ns });
        let query = |span| Query {
            clock: self.facts.clock,
            span,
            filters: question.filters.clone(),
            sort: question.sort,
            group: question.group,
        };
        let mut tallier = Tallier::default();
        let besides = Besides {
            centre: question.centre.as_deref(),
            lines: question.listing.as_deref(),
            flame: question.flame.as_ref(),
            total: span != Span::Total,
            trends: true,
        };
        let Tallies { table: window, total, callers, lines, flame, trends } =
            tallier.answer(profile, names, &query(span), besides);
        let threads = question.threads.as_ref().map(|asked| tallier.threads(profile, names, &query(span), asked));
        let tagged = crowd::told(&question.filters, profile);
        let total = total.unwrap_or_else(|| window.clone());
        let listing = lines.map(|lines| {
            // As many turns as there may be copies, and one for their sources.
            for _ in 0..MAX_COPIES + 1 {
                self.shelf.listing(profile, names, lines.clone());
                let (mut codes, mut files) = (Vec::new(), Vec::new());
                let ask_code = |request: CodeRequest| {
                    codes.push(script.code(&request));
                    Ok(())
                };
                let ask_file = |request: source::Request| {
                    files.push(script.source(&request));
                    Ok(())
                };
                self.shelf.ask(ask_code, ask_file);
                codes.into_iter().for_each(|code| self.shelf.take_code(code));
                files.into_iter().for_each(|file| self.shelf.take_source(file));
            }
            self.shelf.listing(profile, names, lines)
        });
        let facts = Facts { window_ns: question.window_ns, ..self.facts.clone() };
        let now_ns = *now_ns;
        let measured_ns = question.window_ns.map_or(now_ns, |ns| ns.min(now_ns));
        Some(Arc::new(Answer {
            question,
            window,
            total,
            callers,
            listing,
            flame,
            threads,
            tagged,
            now_ns,
            measured_ns,
            trends,
            facts,
        }))
    }
}
