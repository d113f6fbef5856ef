//! Text that a pane shows in place of rows: what it waits for, or why it has none.

use std::time::Duration;

use super::context::PaneContext;
use super::labels::{format_window, program};
use crate::tally::measure;
use crate::tally::query::Filters;
use crate::tui::filters;
use crate::tui::fit_names::{NameToFit, fit_name};
use crate::tui::theme::Role;
use crate::wire::{Clock, Engine, EngineState};

/// The remedy for filters that match nothing.
const UNDO_FILTERS: &str = "u undoes the last filter change, U clears all filters";

/// Returns the sentences for a pane without rows, most important first.
pub fn waiting(context: &PaneContext<'_>) -> Vec<(String, Role)> {
    let Some(answer) = context.answer else {
        return vec![(format!("waiting for {}", program(context)), Role::Dim)];
    };
    let facts = &answer.facts;
    if answer.window.samples > 0 && answer.question.filters != Filters::default() {
        let chips: Vec<String> = filters::chips(&answer.question.filters).collect();
        let all = measure::count(answer.window.samples);
        return vec![
            (format!("filters match 0 of {all} samples: {}", chips.join(" ")), Role::Notable),
            (UNDO_FILTERS.to_owned(), Role::Dim),
        ];
    }
    if answer.total.samples > 0 {
        let window = format_window(facts.window_ns);
        let total = measure::count(answer.total.samples);
        return vec![
            (format!("no samples in the last {window}"), Role::Text),
            (format!("{total} samples in total; w selects a longer window"), Role::Dim),
        ];
    }
    if context.session.ended.is_some() {
        return vec![(facts.explain_no_samples(), Role::Notable)];
    }
    let (clock, timer) = (facts.clock.names().header, facts.clock.names().timer.0);
    let used = measure::duration(facts.cpu_used);
    let period = measure::duration(Duration::from_nanos(facts.period_ns));
    let (problem, remedy) = match facts.engine_state {
        Some(EngineState::SignalTaken) => (
            "sampling is off: the target handles every signal that sigtop can use".to_owned(),
            "sigtop never replaces the target's own signal handlers",
        ),
        Some(EngineState::TimerTaken) => {
            (format!("sampling is off: the target uses {timer} itself"), "E switches to one POSIX timer per thread")
        }
        Some(EngineState::Unsupported) if facts.engine.is_external() => {
            (format!("sampling is off: {clock} cannot be sampled from outside"), "p samples CPU time, r wall time")
        }
        Some(EngineState::Unsupported) => (
            format!("sampling is off: this timer source does not support {clock}"),
            "E switches to the other timer source",
        ),
        Some(EngineState::TimerRefused) => (
            "sampling is off: the kernel refuses to create timers (ulimit -i, or seccomp)".to_owned(),
            match facts.engine {
                Engine::Threads => "E switches to setitimer, :engine external samples from outside",
                _ => "E switches to one POSIX timer per thread",
            },
        ),
        Some(EngineState::ClockTaken) => (
            "sampling is off: CPUPROFILE or ProfilerStart writes a profile with the other clock".to_owned(),
            "r switches to that clock",
        ),
        None | Some(EngineState::Off | EngineState::Running) => {
            return match facts.clock {
                Clock::Real => vec![("waiting for the first sample".to_owned(), Role::Text)],
                clock if !clock.is_memory() => vec![
                    (format!("waiting for CPU time ({used} used)"), Role::Text),
                    (format!("first sample after {period} of CPU time; r samples wall time"), Role::Dim),
                ],
                _ => vec![
                    ("waiting for the first sampled allocation".to_owned(), Role::Text),
                    (
                        format!("one sample in {} of allocated memory (--bytes)", measure::interval(facts.period_ns)),
                        Role::Dim,
                    ),
                ],
            };
        }
    };
    vec![(problem, Role::Bad), (remedy.to_owned(), Role::Dim)]
}

/// Returns the sentences for a selected function without samples: the filter that removes it, as
/// far as its name and module show, or the window.
pub(super) fn absent(context: &PaneContext<'_>, full: &str) -> Vec<(String, Role)> {
    let known = context.panes.top.selected_names().filter(|_| context.panes.top.selected_name() == Some(full));
    let name = NameToFit { full, short: known.map_or(full, |(short, _)| short), room: 60 };
    let name = fit_name(&name, context.screen.names).into_owned();
    let mut lines = vec![(name, Role::Strong)];
    let Some(answer) = context.answer else { return lines };
    let active = &answer.question.filters;
    let reason = match filters::culprit(active, full, known.map(|(_, module)| module)) {
        Some(filters::Culprit::Certain(word, pattern)) => format!("removed by {word}={pattern}"),
        Some(filters::Culprit::Among(chips)) => format!("no samples match {chips}"),
        None if answer.question.own.folds => "no samples as own code; o shows all code".to_owned(),
        None => match answer.facts.window_ns {
            Some(_) => format!("no samples in the last {}", format_window(answer.facts.window_ns)),
            None => "no samples".to_owned(),
        },
    };
    let is_filtered = *active != Filters::default();
    lines.push((reason, if is_filtered { Role::Notable } else { Role::Text }));
    if is_filtered {
        lines.push((UNDO_FILTERS.to_owned(), Role::Dim));
    }
    lines
}
