//! The line over the footer, the footer, and the sentences for an empty list.
//!
//! ```text
//!  ./server exited with status 3 after 2m14s                              (or a question, a banner, the selected function)
//!  Tab pane  f focus  i ignore  / find  c flat/cum  w window  p PROF  r REAL  Space freeze  Esc back  ? help  q quit
//! ```

use std::time::Duration;

use nix::sys::signal::Signal;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use super::header::{clock_name, window_words};
use super::source;
use super::threads;
use crate::link::wire::{Clock, Engine, EngineState};
use crate::tally::diff::{Change, Difference};
use crate::tally::flame::FlameBox;
use crate::tally::measure;
use crate::tally::query::Filters;
use crate::track::{Answer, Command, Ending};
use crate::tui::action::Action;
use crate::tui::app::{App, Mode};
use crate::tui::canvas::Canvas;
use crate::tui::filters;
use crate::tui::keys::{Binding, Place};
use crate::tui::layout::{Layout, Pane, View};
use crate::tui::roster::Entry;
use crate::tui::segments::{self, Segment};
use crate::tui::text;
use crate::tui::theme::Role;

/// Columns that a name on the line over the footer has, or nothing stands beside it.
const NAME_COLUMNS: usize = 30;

/// Draws the line over the footer.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    if app.frozen && app.message.is_none() && matches!(app.mode, Mode::Panes | Mode::Page(..)) {
        return super::timeline::draw(canvas, area, app);
    }
    let [prompt, notable, strong, dim, key] =
        [Role::Prompt, Role::Notable, Role::Strong, Role::Dim, Role::Key].map(|role| canvas.style(role));
    let target = program(app);
    let choice = |letter: &str, rest: &str| {
        vec![
            Span::styled("[", dim),
            Span::styled(letter.to_owned(), key),
            Span::styled("]", dim),
            Span::styled(rest.to_owned(), strong),
        ]
    };
    let choices = |choices: &[(&str, &str)]| {
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (letter, rest) in choices {
            spans.push("  ".into());
            spans.extend(choice(letter, rest));
        }
        spans
    };
    let room: usize = area.width.saturating_sub(2).into();
    let spans = match &app.mode {
        Mode::ConfirmItimer(command) => {
            let signal = itimer_signal(if let Command::Clock(clock) = command { *clock } else { app.clock() });
            let ways = [
                format!(
                    "use setitimer? it kills a target that resets {signal}, ends waits (EINTR), is inexact by thread"
                ),
                format!("use setitimer? it kills a target that resets {signal}"),
                "setitimer can kill the target".to_owned(),
            ];
            question(room, ways, prompt, choices(&[("y", "es"), ("c", "ancel")]))
        }
        Mode::Question => {
            let choices = choices(&[("e", "nd it"), ("l", "et it run"), ("c", "ancel")]);
            question(room, [format!("{target} is running:"), "it is running:".to_owned()], prompt, choices)
        }
        Mode::Ending(times) => {
            let (words, choices) = match times {
                0 | 1 => ("was told to end:", choices(&[("e", "nd it the hard way"), ("l", "eave")])),
                _ => ("is being killed:", choices(&[("l", "eave without waiting")])),
            };
            question(room, [format!("{target} {words}"), format!("it {words}")], prompt, choices)
        }
        _ => match (&app.message, app.ended) {
            (Some(message), None) => vec![Span::styled(message.text.clone(), notable)],
            (Some(message), Some(_)) if !message.stays => vec![Span::styled(message.text.clone(), notable)],
            (_, Some(ending)) => {
                let words = ended(app, ending);
                let wide = text::columns(&words, room);
                let mut spans = vec![Span::styled(words, notable)];
                // What is selected is named too, where a name has room.
                if let Some(left) = room.checked_sub(wide + 3).filter(|left| *left >= NAME_COLUMNS) {
                    spans.push("   ".into());
                    spans.extend(selected(canvas, app, left));
                }
                spans
            }
            (None, None) => selected(canvas, app, room),
        },
    };
    canvas.spans(area.x + 1, area.y, room as u16, &spans);
}

/// The signal of setitimer for a clock. Its default action ends the process.
fn itimer_signal(clock: Clock) -> &'static str {
    match clock {
        Clock::Prof => "SIGPROF",
        Clock::Real => "SIGALRM",
        Clock::Virtual => "SIGVTALRM",
    }
}

/// What is asked, as long as there is room for it, and the answers that can be given.
fn question<const N: usize>(
    room: usize,
    ways: [String; N],
    style: Style,
    choices: Vec<Span<'static>>,
) -> Vec<Span<'static>> {
    let question = ways.into_iter().fold(Segment::new(1), |question, way| question.or_text(way, style)).or_nothing();
    segments::fit(&[question, Segment::new(2).gap(0).or(choices)], room)
}

/// What the keys stand on: a function in full, where it is, and how sure its shares are; in the flame, a box.
fn selected(canvas: &Canvas<'_>, app: &App, room: usize) -> Vec<Span<'static>> {
    let Some(answer) = &app.answer else { return Vec::new() };
    let line = if app.pane == Pane::Source { source::line_under_cursor(app) } else { None };
    let (name, module, numbers) = match app.pane {
        Pane::Flame => {
            let Some(flame) = &answer.flame else { return Vec::new() };
            let tiles = app.flame.tiles(flame);
            let Some(tile) = app.flame.at(flame, &tiles, app.list.selected_name()).or(tiles.first().copied()) else {
                return Vec::new();
            };
            let shown = &flame.boxes[tile.index];
            let name = if shown.full.is_empty() { &shown.short } else { &shown.full };
            (name.as_str(), shown.module.as_str(), vec![box_weight(app, shown)])
        }
        Pane::Callers => {
            let edge = answer.callers.as_ref().and_then(|callers| Some((callers, app.neighbours.edge(callers)?)));
            match edge {
                Some((callers, edge)) => {
                    let part = weight(app, (edge.weight_ns, edge.change), callers.whole_ns);
                    (edge.full.as_str(), edge.module.as_str(), vec![part])
                }
                None => function(app),
            }
        }
        Pane::Threads => return thread(canvas, app, answer, room),
        Pane::Source if line.is_some() => {
            let base_ns = app.window_base_ns();
            let share = |label: &str, ns, change: Option<Change>| match change {
                Some(change) => format!("{label} {}", measure::signed(ns, app.unit, change.negative)),
                None => format!("{label} {}", measure::percentage(ns, base_ns).trim_start()),
            };
            line.as_ref().map_or(("", "", Vec::new()), |(words, weight)| {
                let flat = share("flat", weight.flat_ns, weight.changes.map(|changes| changes.flat));
                let cum = share("cum", weight.cum_ns, weight.changes.map(|changes| changes.cum));
                (words.as_str(), "", vec![flat, cum])
            })
        }
        Pane::Top | Pane::Source | Pane::Output => function(app),
    };
    let dim = canvas.style(Role::Dim);
    let numbers = numbers.join("  ");
    // Numbers matter less than the name that they are of.
    let numbers = if text::columns(&numbers, room) + NAME_COLUMNS > room { String::new() } else { numbers };
    let left = room - text::columns(&numbers, room) - if numbers.is_empty() { 0 } else { 2 };
    let module = if module.is_empty() || module == name { String::new() } else { format!("  {module}") };
    let module = text::cut_right(&module, left / 3).into_owned();
    // Of a name both ends tell; of what a line calls, the first is the most.
    let cut = if line.is_some() { text::cut_right } else { text::cut_middle };
    let full = cut(name, left - text::columns(&module, left)).into_owned();
    let used = text::columns(&full, room) + text::columns(&module, room);
    let pad = " ".repeat(room - used - text::columns(&numbers, room));
    let hue = canvas.theme.module(if module.is_empty() { "" } else { module.trim_start() });
    vec![Span::styled(full, hue), Span::styled(module, dim), pad.into(), Span::styled(numbers, dim)]
}

/// The selected thread or process, and what it took.
fn thread(canvas: &Canvas<'_>, app: &App, answer: &Answer, room: usize) -> Vec<Span<'static>> {
    let (name, of, load) = match app.roster.selection() {
        Some((_, Entry::Process(process, _))) => {
            (threads::process_words(process, answer.now_ns, room), format!("  process {}", process.pid), &process.load)
        }
        Some((_, Entry::Thread(thread, process))) => {
            let what = match &thread.load.top_full {
                top if top.is_empty() => String::new(),
                top => format!(", most in {top}"),
            };
            (thread.name.clone(), format!("  thread {} of {}{what}", thread.tid, process.name), &thread.load)
        }
        _ => return Vec::new(),
    };
    let weight = load.weight;
    let share = threads::signed_share(weight.ns, answer.measured_ns, load.change);
    let negative = load.change.is_some_and(|change| change.weight.negative);
    let numbers = format!("{}  {share} of a CPU", measure::signed(weight.ns, app.unit, negative));
    let numbers = if text::columns(&numbers, room) + NAME_COLUMNS > room { String::new() } else { numbers };
    let left = room - text::columns(&numbers, room) - if numbers.is_empty() { 0 } else { 2 };
    let name = text::cut_middle(&name, left).into_owned();
    let of = text::cut_middle(&of, left - text::columns(&name, left)).into_owned();
    let used = text::columns(&name, room) + text::columns(&of, room);
    let pad = " ".repeat(room - used - text::columns(&numbers, room));
    let [strong, dim] = [Role::Strong, Role::Dim].map(|role| canvas.style(role));
    vec![Span::styled(name, strong), Span::styled(of, dim), pad.into(), Span::styled(numbers, dim)]
}

/// The selected function: full name, module, and its shares with their margins.
fn function(app: &App) -> (&str, &str, Vec<String>) {
    let Some((_, line)) = app.list.selection() else {
        let module = app.list.selected_names().map_or("", |(_, module)| module);
        return (app.list.selected_name().unwrap_or(""), module, Vec::new());
    };
    let base_ns = app.window_base_ns();
    let samples = app.answer.as_ref().map_or(0, |answer| match app.relative {
        true => answer.window.kept_samples,
        false => answer.window.samples,
    });
    let share = |label: &str, ns: u64, change: Option<Change>| match change {
        Some(change) => {
            let chance = if change.sure || ns == 0 { "" } else { " (may be chance)" };
            format!("{label} {}{chance}", measure::signed(ns, app.unit, change.negative))
        }
        None => {
            let margin = margin(ns, base_ns, samples).map_or(String::new(), |margin| format!(" ±{margin}"));
            format!("{label} {}{margin}", measure::percentage(ns, base_ns).trim_start())
        }
    };
    let (flat_ns, cum_ns) = line.window;
    let changes = line.changes.0;
    let flat = share("flat", flat_ns, changes.map(|changes| changes.flat));
    let cum = share("cum", cum_ns, changes.map(|changes| changes.cum));
    let shares = if base_ns == 0 { Vec::new() } else { vec![flat, cum] };
    (line.row.full.as_str(), line.row.module.as_str(), shares)
}

/// A weight, which may be the size of a difference, and its part.
fn weight(app: &App, (ns, change): (u64, Option<Change>), base_ns: u64) -> String {
    let negative = change.is_some_and(|change| change.negative);
    format!("{}  {}", measure::signed(ns, app.unit, negative), measure::percentage(ns, base_ns).trim_start())
}

/// What a box of the flame weighs; where it is compared, what it weighed too.
fn box_weight(app: &App, shown: &FlameBox) -> String {
    let Some(Difference { ns, change }) = shown.difference else {
        return weight(app, (shown.weight_ns, None), app.window_base_ns());
    };
    let more = shown.weight_ns.saturating_sub(ns) / 2;
    let (now_ns, before_ns) = if change.negative { (more, more + ns) } else { (more + ns, more) };
    let value = |ns| measure::value(ns, app.unit);
    let words = match (now_ns, before_ns) {
        (0, was) => format!("gone, was {}", value(was)),
        (now, 0) => format!("{}, was not there", value(now)),
        (now, was) => format!("{}, was {}", value(now), value(was)),
    };
    let chance = if change.sure || ns == 0 { "" } else { ": may be chance" };
    format!("{words}{chance}")
}

/// By how many hundredths a share may be wrong by chance (19 times of 20), where samples are so few that it shows: half
/// the width of Agresti and Coull's interval, which is honest near 0 and near everything too.
fn margin(part_ns: u64, base_ns: u64, samples: u64) -> Option<String> {
    if samples == 0 || base_ns == 0 {
        return None;
    }
    let share = (part_ns as f64 / base_ns as f64).clamp(0.0, 1.0);
    let trials = samples as f64 + 4.0;
    let centre = (share * samples as f64 + 2.0) / trials;
    let margin = 196.0 * (centre * (1.0 - centre) / trials).sqrt();
    let shows = margin >= 0.5 || margin >= share * 10.0;
    shows.then(|| format!("{margin:.*}", usize::from(margin < 10.0)))
}

/// How the target is called in a sentence.
fn program(app: &App) -> &str {
    app.options.command.split_whitespace().next().unwrap_or("the target")
}

fn ended(app: &App, ending: Ending) -> String {
    let facts = app.answer.as_ref().map(|answer| &answer.facts);
    let after = facts.map(|facts| facts.ended.map_or(facts.up, |(_, after)| after));
    let after = after.map_or(String::new(), |after| format!(" after {}", measure::duration(after)));
    match ending {
        Ending::Exited(status) => format!("{} exited with status {status}{after}", program(app)),
        Ending::Killed(signal) => format!("{} was killed by {}{after}", program(app), signal_name(signal)),
        Ending::Gone => format!("{} ended{after}", program(app)),
    }
}

fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}

/// The sentences that stand where there is no row: what is waited for, or why there will be none.
pub fn waiting(app: &App) -> Vec<(String, Role)> {
    let Some(answer) = &app.answer else {
        return vec![(format!("waiting for {}", program(app)), Role::Dim)];
    };
    let facts = &answer.facts;
    let (clock, _) = clock_name(facts.clock);
    let used = measure::duration(facts.cpu_used);
    let period = measure::duration(Duration::from_nanos(facts.period_ns));
    if answer.window.samples > 0 && answer.question.filters != Filters::default() {
        let chips: Vec<String> = filters::chips(&answer.question.filters).collect();
        let all = measure::count(answer.window.samples);
        return vec![
            (format!("no sample of {all} is left by {}", chips.join(" ")), Role::Notable),
            ("u takes the last filter back, U all of them".to_owned(), Role::Dim),
        ];
    }
    if answer.total.samples > 0 {
        let window = window_words(facts.window_ns);
        let total = measure::count(answer.total.samples);
        return vec![
            (format!("no sample in the last {window}"), Role::Text),
            (format!("{total} in total: w makes the window longer"), Role::Dim),
        ];
    }
    if let Some(ending) = app.ended {
        let how = match ending {
            Ending::Exited(status) => format!("ended with status {status}"),
            Ending::Killed(signal) => format!("was killed by {}", signal_name(signal)),
            Ending::Gone => "ended".to_owned(),
        };
        let words = format!("{} {how} after {used} of CPU: no sample ({})", program(app), facts.why_no_sample());
        return vec![(words, Role::Notable)];
    }
    match facts.engine_state {
        Some(EngineState::SignalTaken) => vec![
            (
                "the target has a handler for every signal that sampling could use: sampling is off".to_owned(),
                Role::Bad,
            ),
            ("the target's own handlers are left as they are".to_owned(), Role::Dim),
        ],
        Some(EngineState::TimerTaken) => vec![
            (format!("the target uses the timer ITIMER_{clock} itself: sampling is off"), Role::Bad),
            ("E takes a timer for each thread instead".to_owned(), Role::Dim),
        ],
        Some(EngineState::Unsupported) => vec![
            (format!("{clock} cannot be had with this engine: sampling is off"), Role::Bad),
            ("E takes the other engine".to_owned(), Role::Dim),
        ],
        Some(EngineState::TimerRefused) => vec![
            ("the kernel refused every timer (ulimit -i, or seccomp): sampling is off".to_owned(), Role::Bad),
            match facts.engine {
                Engine::Threads => ("E takes the classic setitimer instead".to_owned(), Role::Dim),
                Engine::Itimer => ("E takes a timer for each thread instead".to_owned(), Role::Dim),
            },
        ],
        Some(EngineState::ClockTaken) => vec![
            ("a profile is being written into a file by another clock, which samples come by".to_owned(), Role::Bad),
            ("r takes that clock here too; CPUPROFILE or ProfilerStart asked for the file".to_owned(), Role::Dim),
        ],
        None | Some(EngineState::Off | EngineState::Running) => match facts.clock {
            Clock::Prof | Clock::Virtual => vec![
                (format!("waiting for CPU time ({used} used)"), Role::Text),
                (format!("a sample takes {period} of it; r shows where it waits"), Role::Dim),
            ],
            Clock::Real => vec![("waiting for the first tick".to_owned(), Role::Text)],
        },
    }
}

/// Draws the footer, from the key table.
pub fn draw_footer(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let (key, dim) = (canvas.style(Role::Key), canvas.style(Role::Dim));
    let places = app.places();
    let here =
        app.options.keys.bindings().iter().filter(|binding| binding.hint.1 > 0 && places.contains(&binding.place));
    let segments: Vec<Segment> = here
        .filter(|binding| applies(app, binding))
        .map(|binding| {
            let label = binding.label.split(' ').next().unwrap_or_default().to_owned();
            let spans = vec![Span::styled(label, key), Span::styled(format!(" {}", binding.hint.0), dim)];
            Segment::new(binding.hint.1).gap(2).or(spans).or_nothing()
        })
        .collect();
    let line = segments::fit(&segments, area.width.saturating_sub(2).into());
    canvas.spans(area.x + 1, area.y, area.width.saturating_sub(1), &line);
}

/// Whether a key has something to do now, as far as the footer goes.
fn applies(app: &App, binding: &Binding) -> bool {
    match binding.action {
        Action::Back if binding.place == Place::Everywhere => match app.mode {
            Mode::Panes => app.message.as_ref().is_some_and(|message| message.stays) || app.view != View::Dashboard,
            Mode::Question | Mode::ConfirmItimer(_) | Mode::Ending(_) => false,
            _ => true,
        },
        Action::Accept => app.places().first() == Some(&binding.place),
        Action::Clock(clock) => clock != app.clock(),
        Action::Zoom => {
            let dashboard = Layout::new(app.size, View::Dashboard, app.options.output);
            dashboard.is_some_and(|layout| layout.panes.len() > 1)
        }
        Action::Enter if app.pane == Pane::Output => app.options.output && app.ended.is_none(),
        Action::Out if binding.place == Place::Flame => app.flame.zoom().next().is_some(),
        Action::Out => app.pane != Pane::Flame && app.neighbours.has_past(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_have_a_margin_and_many_none() {
        assert_eq!(margin(500, 1000, 100).as_deref(), Some("9.6"));
        assert_eq!(margin(0, 1000, 10).as_deref(), Some("18"), "nothing seen in ten samples is not nothing");
        assert_eq!(margin(500, 1000, 1_000_000), None);
        assert_eq!((margin(1, 0, 5), margin(1, 5, 0)), (None, None));
        assert!(margin(u64::MAX, 1, u64::MAX).is_none());
    }
}
