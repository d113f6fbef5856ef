//! Draws the status line and the footer.
//!
//! ```text
//!  ./server exited with status 3 after 2m14s    (or a question, a banner, the selected function)
//!  Tab pane  f focus  i ignore  / find  c flat/cum  w window  Space pause  ? help  q quit
//! ```

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use super::labels::{self, program};
use super::row_names;
use super::source::draw as source;
use super::threads::draw as threads;
use crate::attach::proc::signal_name;
use crate::session::{Answer, Command, TargetExit};
use crate::tally::change::{Change, Difference};
use crate::tally::flame::FlameBox;
use crate::tally::measure;
use crate::tui::action::{Action, StepSize};
use crate::tui::canvas::Canvas;
use crate::tui::fit_line::{self, Segment};
use crate::tui::fit_names::{self, NameToFit};
use crate::tui::keys::{Binding, KeyContext};
use crate::tui::layout::{Layout, Pane, View};
use crate::tui::name_style::NameStyle;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::mode::{Mode, StatusMessage};
use crate::tui::pane::threads::state::ListItem;
use crate::tui::pane::timeline::state::TimelineState;
use crate::tui::text;
use crate::tui::theme::Role;

/// The importance of the keys of the history while the display is paused.
const HISTORY_IMPORTANCE: u8 = 11;
/// Minimum columns of a name beside other text on the status line.
const NAME_COLUMNS: usize = 30;

/// Draws the status line.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    if context.panes.timeline.is_frozen()
        && context.screen.message.is_none()
        && matches!(context.screen.mode, Mode::Panes | Mode::Help(..))
    {
        return super::timeline::draw::draw(canvas, area, context);
    }
    let [prompt, notable, strong, dim, key] =
        [Role::Prompt, Role::Notable, Role::Strong, Role::Dim, Role::Key].map(|role| canvas.style(role));
    let target = program(context);
    // The words of the answers are those of the footer, or the first of each.
    let choices = |asks: KeyContext, is_short: bool| {
        let answers = context.options.keys.bindings().iter().filter(move |binding| binding.context == asks);
        let shown = answers.filter(|binding| binding.hint.1 > 0 && applies(context, binding));
        let choice = |binding: &Binding| {
            let words = binding.hint.0;
            [
                Span::styled("  [", dim),
                Span::styled(binding.label.clone().into_owned(), key),
                Span::styled("] ", dim),
                Span::styled(if is_short { words.split(' ').next().unwrap_or(words) } else { words }, strong),
            ]
        };
        shown.flat_map(choice).collect::<Vec<Span<'static>>>()
    };
    let room: usize = area.width.saturating_sub(2).into();
    let spans = match &context.screen.mode {
        Mode::ConfirmItimer(command) => {
            let clock = if let Command::Clock(clock) = command { *clock } else { context.session.clock.value() };
            let signal = clock.names().timer.1;
            let ways = [
                format!(
                    "use setitimer? it kills targets that reset {signal}, interrupts system calls (EINTR), is imprecise per thread"
                ),
                format!("use setitimer? it kills targets that reset {signal}"),
                "setitimer can kill the target".to_owned(),
            ];
            question(room, ways, prompt, [false, true].map(|is_short| choices(KeyContext::Confirm, is_short)))
        }
        Mode::ConfirmQuit => {
            let ways = [format!("{target} is running:"), "it is running:".to_owned()];
            question(room, ways, prompt, [false, true].map(|is_short| choices(KeyContext::Question, is_short)))
        }
        Mode::Ending(times) => {
            let words = if *times < 2 { "was asked to terminate:" } else { "is being killed:" };
            question(
                room,
                [format!("{target} {words}"), format!("it {words}")],
                prompt,
                [false, true].map(|is_short| choices(KeyContext::Ending, is_short)),
            )
        }
        _ => {
            match (
                context.screen.message.as_ref().filter(|message| !hides_deadlock(context, message)),
                context.session.ended,
            ) {
                (Some(message), None) => vec![Span::styled(message.text.clone(), notable)],
                (Some(message), Some(_)) if !message.is_sticky => vec![Span::styled(message.text.clone(), notable)],
                (_, Some(ending)) => {
                    let words = format!("{}{}", ended(context, ending), describe_successor(context));
                    let wide = text::columns(&words, room);
                    let mut spans = vec![Span::styled(words, notable)];
                    // The selected function is named too, if there is room.
                    if let Some(left) = room.checked_sub(wide + 3).filter(|left| *left >= NAME_COLUMNS) {
                        spans.push("   ".into());
                        spans.extend(selected(canvas, context, left));
                    }
                    spans
                }
                (None, None) => match deadlock(context) {
                    Some(sentences) => {
                        let ways = |segment: Segment, sentence| segment.or_text(sentence, notable);
                        fit_line::fit(&[sentences.into_iter().fold(Segment::new(1), ways)], room)
                    }
                    None => with_download(canvas, context, room),
                },
            }
        }
    };
    canvas.spans(area.x + 1, area.y, room as u16, &spans);
}

/// Whether a message that stays would hide a deadlock.
fn hides_deadlock(context: &PaneContext<'_>, message: &StatusMessage) -> bool {
    message.is_sticky && deadlock(context).is_some()
}

/// Sentences about threads that wait for each other's locks, the longest first.
fn deadlock(context: &PaneContext<'_>) -> Option<[String; 3]> {
    let threads = &context.answer?.facts.deadlock;
    let (last, others) = threads.split_last().filter(|(_, others)| !others.is_empty())?;
    let names = format!("{} and {last}", others.join(", "));
    let keys = if context.is_active(Pane::Threads) { "H" } else { "5 H" };
    Some([
        format!("deadlock: {names} wait for each other's locks ({keys} shows their stacks)"),
        format!("deadlock: {names} ({keys} shows their stacks)"),
        format!("deadlock: {names}"),
    ])
}

/// Describes what is under the cursor, or the download of debug information that is running: names
/// are still to come then.
fn with_download(canvas: &Canvas<'_>, context: &PaneContext<'_>, room: usize) -> Vec<Span<'static>> {
    match context.answer.and_then(|answer| answer.facts.download.as_ref()) {
        Some(download) => {
            let words = text::cut_middle(&download.to_string(), room).into_owned();
            vec![Span::styled(words, canvas.style(Role::Notable))]
        }
        None => selected(canvas, context, room),
    }
}

/// The longest form of a question that fits, and its answers, long or short.
fn question<const N: usize>(
    room: usize,
    ways: [String; N],
    style: Style,
    [long, short]: [Vec<Span<'static>>; 2],
) -> Vec<Span<'static>> {
    let question = ways.into_iter().fold(Segment::new(1), |question, way| question.or_text(way, style)).or_nothing();
    fit_line::fit(&[question, Segment::new(2).gap(0).or(long).or(short)], room)
}

/// A function, or what else is under the cursor, and its weights.
#[derive(Default)]
pub(super) struct Described<'a> {
    /// The whole name.
    pub(super) full: &'a str,
    short: &'a str,
    /// The module, or empty.
    pub(super) module: &'a str,
    /// The weights with their units.
    pub(super) numbers: Vec<String>,
}

/// Describes what is under the cursor: the full name of a function, its module and its shares with
/// their margins; in the flame graph, a box.
fn selected(canvas: &Canvas<'_>, context: &PaneContext<'_>, room: usize) -> Vec<Span<'static>> {
    let Some(answer) = context.answer else { return Vec::new() };
    let line = if context.screen.pane == Pane::Source { source::line_under_cursor(context) } else { None };
    let Described { full, short, module, numbers } = match (context.screen.pane, &line) {
        (Pane::Threads, _) => return thread(canvas, context, answer, room),
        (Pane::Flame, _) => {
            let Some(flame) = &answer.flame else { return Vec::new() };
            let tiles = context.panes.flame.tiles(flame);
            let Some(tile) =
                context.panes.flame.at(flame, &tiles, context.panes.top.selected_name()).or(tiles.first().copied())
            else {
                return Vec::new();
            };
            let shown = &flame.boxes[tile.focus];
            let full = if shown.full.is_empty() { &shown.short } else { &shown.full };
            Described { full, short: &shown.short, module: &shown.module, numbers: vec![box_weight(context, shown)] }
        }
        (Pane::Callers, _) => {
            let edge =
                answer.callers.as_ref().and_then(|callers| Some((callers, context.panes.callers.edge(callers)?)));
            match edge {
                Some((callers, edge)) => {
                    let part = weight(context, (edge.weight_ns, edge.change), callers.whole_ns);
                    Described { full: &edge.full, short: &edge.short, module: &edge.module, numbers: vec![part] }
                }
                None => function(context),
            }
        }
        (Pane::Source, Some((words, weight))) => {
            let base_ns = context.window_base_ns();
            let share = |label: &str, ns, change: Option<Change>| match change {
                Some(change) => format!("{label} {}", measure::signed(ns, context.session.unit(), change.negative)),
                None => format!("{label} {}", measure::percentage(ns, base_ns).trim_start()),
            };
            let flat = share("flat", weight.flat_ns, weight.changes.map(|changes| changes.flat));
            let cum = share("cum", weight.cum_ns, weight.changes.map(|changes| changes.cum));
            Described { full: words, short: words, module: "", numbers: vec![flat, cum] }
        }
        _ => function(context),
    };
    let dim = canvas.style(Role::Dim);
    let numbers = numbers.join("  ");
    // The name has priority over the numbers.
    let numbers = if text::columns(&numbers, room) + NAME_COLUMNS > room { String::new() } else { numbers };
    let left = room - text::columns(&numbers, room) - if numbers.is_empty() { 0 } else { 2 };
    let module = if module.is_empty() || module == full { String::new() } else { format!("  {module}") };
    let module = text::cut_right(&module, left / 3).into_owned();
    let left = left - text::columns(&module, left);
    let name = match line {
        // A list of callees is cut at its end, where they are lightest.
        Some(_) => text::cut_right(full, left),
        None => {
            let short = &*row_names::name_with_owner(context, short, full);
            fit_names::fit_name(&NameToFit { full, short, room: left }, NameStyle::Full).into_owned().into()
        }
    };
    let used = text::columns(&name, room) + text::columns(&module, room);
    let pad = " ".repeat(room - used - text::columns(&numbers, room));
    let hue = canvas.theme.module(module.trim_start());
    vec![Span::styled(name.into_owned(), hue), Span::styled(module, dim), pad.into(), Span::styled(numbers, dim)]
}

/// Describes the selected thread or process and its load.
fn thread(canvas: &Canvas<'_>, context: &PaneContext<'_>, answer: &Answer, room: usize) -> Vec<Span<'static>> {
    let (name, of, load) = match context.panes.threads.selection() {
        Some((_, ListItem::Process(process, _))) => {
            let when = (context.options.base.is_none().then_some(answer.now_ns), &*answer.facts.pids);
            (threads::process_words(process, when, room), format!("  process {}", process.pid), &process.load)
        }
        Some((_, ListItem::Thread(thread, process))) => {
            let what = match &thread.load.top_full {
                top if top.is_empty() => String::new(),
                top => format!(", most in {top}"),
            };
            (thread.name.clone(), format!("  thread {} of {}{what}", thread.tid, process.name), &thread.load)
        }
        _ => return Vec::new(),
    };
    let weight = load.weight;
    let share = threads::signed_share(threads::shown_ns(load, answer), threads::share_base(answer), load.change);
    let whole = if answer.facts.clock.is_memory() { "of all bytes" } else { "of a CPU" };
    let negative = load.change.is_some_and(|change| change.weight.negative);
    let numbers = format!("{}  {share} {whole}", measure::signed(weight.ns, context.session.unit(), negative));
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
pub(super) fn function<'a>(context: &PaneContext<'a>) -> Described<'a> {
    let Some((_, line)) = context.panes.top.selection() else {
        let full = context.panes.top.selected_name().unwrap_or("");
        let (short, module) = context.panes.top.selected_names().unwrap_or((full, ""));
        return Described { full, short, module, numbers: Vec::new() };
    };
    let base_ns = context.window_base_ns();
    let window = context.answer.map(|answer| &answer.window);
    let objects = line.latency_ns;
    let samples = |ns: u64| {
        // The allocations of a function itself are as large as those of its callees.
        let own = (u128::from(objects) * u128::from(ns)).checked_div(line.window.1.into()).unwrap_or(0);
        window.map_or(0, |window| window.independent_samples(ns, own as u64, context.question.relative))
    };
    let share = |label: &str, ns: u64, change: Option<Change>| match change {
        Some(change) => {
            let chance = if change.significant || ns == 0 { "" } else { " (not significant)" };
            format!("{label} {}{chance}", measure::signed(ns, context.session.unit(), change.negative))
        }
        None => {
            let margin = margin(ns, base_ns, samples(ns)).map_or(String::new(), |margin| format!(" ±{margin}"));
            format!("{label} {}{margin}", measure::percentage(ns, base_ns).trim_start())
        }
    };
    let (flat_ns, cum_ns) = line.window;
    let changes = line.changes;
    let flat = share("flat", flat_ns, changes.map(|changes| changes.flat));
    let cum = share("cum", cum_ns, changes.map(|changes| changes.cum));
    let mut numbers = if base_ns == 0 { Vec::new() } else { vec![flat, cum] };
    if let Some(window) = window.filter(|window| window.interval > 0 && base_ns > 0 && changes.is_none()) {
        numbers.push(format!("count {}", measure::rough_count(objects, window.count_margin(cum_ns, objects))));
    }
    Described { full: &line.row.full, short: &line.row.short, module: &line.row.module, numbers }
}

/// Formats a weight, which may be a difference, and its share.
fn weight(context: &PaneContext<'_>, (ns, change): (u64, Option<Change>), base_ns: u64) -> String {
    let negative = change.is_some_and(|change| change.negative);
    format!(
        "{}  {}",
        measure::signed(ns, context.session.unit(), negative),
        measure::percentage(ns, base_ns).trim_start()
    )
}

/// Formats the weight of a box; in a diff, also its weight in the baseline.
fn box_weight(context: &PaneContext<'_>, shown: &FlameBox) -> String {
    let Some(Difference { ns, change }) = shown.difference else {
        return weight(context, (shown.weight_ns, None), context.window_base_ns());
    };
    let (before_ns, now_ns) = shown.before_and_now();
    let (base_before_ns, base_now_ns) = context.diff_bases_ns();
    let share = |ns, base_ns| measure::percentage(ns, base_ns).trim_start().to_owned();
    let words = match (before_ns, now_ns) {
        (was, 0) => format!("gone, was {}", share(was, base_before_ns)),
        (0, now) => format!("new: {}", share(now, base_now_ns)),
        (was, now) => {
            let points = measure::points((was, now), context.diff_bases_ns());
            format!("{} → {}  {points}", share(was, base_before_ns), share(now, base_now_ns))
        }
    };
    let chance = if change.significant || ns == 0 { "" } else { ", not significant" };
    format!("{words}{chance}")
}

/// The margin of error of a share in percentage points (95 % confidence), if samples are so few
/// that it is visible: half the width of the Agresti-Coull interval, which is also valid near 0 and
/// 1.
fn margin(part_ns: u64, base_ns: u64, samples: u64) -> Option<String> {
    let margin = measure::margin(part_ns, base_ns, samples)? * 100.0;
    let share = (part_ns as f64 / base_ns as f64).clamp(0.0, 1.0);
    let shows = margin >= 0.5 || margin >= share * 10.0;
    shows.then(|| format!("{margin:.*}", usize::from(margin < 10.0)))
}

fn ended(context: &PaneContext<'_>, ending: TargetExit) -> String {
    let facts = context.answer.map(|answer| &answer.facts);
    let after = facts.map(|facts| facts.ended.map_or(facts.up, |(_, after)| after));
    let after = after.map_or(String::new(), |after| format!(" after {}", measure::duration(after)));
    let program = context.options.successor.as_deref().unwrap_or_else(|| program(context));
    match ending {
        TargetExit::Exited(status) => format!("{program} exited with status {status}{after}"),
        TargetExit::Killed(signal) => format!("{program} was killed by {}{after}", signal_name(signal)),
        TargetExit::Gone => format!("{program} ended{after}"),
    }
}

/// Says that a new process of the target's name is awaited, or that it runs.
fn describe_successor(context: &PaneContext<'_>) -> String {
    match (&context.options.successor, context.session.successor) {
        (Some(_), None) => " · waiting for a new one".to_owned(),
        (Some(_), Some(pid)) => {
            let mut bindings = context.options.keys.bindings().iter();
            let key =
                bindings.find(|binding| matches!(binding.action, Action::Attach)).map_or("", |binding| &*binding.label);
            format!(" · a new one runs ({pid}): {key} attaches")
        }
        (None, _) => String::new(),
    }
}

/// Draws the footer, from the key table.
pub fn draw_footer(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let (key, dim) = (canvas.style(Role::Key), canvas.style(Role::Dim));
    let places = context.key_contexts();
    let here = context.options.keys.bindings().iter().filter(|binding| places.contains(&binding.context));
    let hints = here.filter(|binding| applies(context, binding)).filter_map(|binding| {
        let (label, words, importance) = history_hint(context, binding).or_else(|| {
            let label = binding.label.split(' ').next().unwrap_or_default().to_owned();
            (binding.hint.1 > 0).then(|| (label, binding.hint.0.to_owned(), binding.hint.1))
        })?;
        let spans = vec![Span::styled(label, key), Span::styled(format!(" {words}"), dim)];
        Some((importance, Segment::new(importance).gap(2).or(spans).or_nothing()))
    });
    // Those of the history come first.
    let (history, others): (Vec<_>, Vec<_>) = hints.partition(|(importance, _)| *importance == HISTORY_IMPORTANCE);
    let segments: Vec<Segment> = history.into_iter().chain(others).map(|(_, segment)| segment).collect();
    let line = fit_line::fit(&segments, area.width.saturating_sub(2).into());
    canvas.spans(area.x + 1, area.y, area.width.saturating_sub(1), &line);
}

/// The label, words and importance of a key of the history while the display is paused: `[ ] 1 s`.
fn history_hint(context: &PaneContext<'_>, binding: &Binding) -> Option<(String, String, u8)> {
    if !context.panes.timeline.is_frozen() || !matches!(context.screen.mode, Mode::Panes) {
        return None;
    }
    let label = binding.label.split(' ').next().unwrap_or_default();
    let (label, words) = match binding.action {
        Action::Step { newer: false, size: size @ (StepSize::Tick | StepSize::Tenth) } => {
            let is_back = |other: &&Binding| matches!(other.action, Action::Step { newer: true, size: s } if s == size);
            let back = context.options.keys.bindings().iter().find(is_back);
            let label = back.map_or(label.to_owned(), |back| format!("{label} {}", back.label));
            (label, labels::length(TimelineState::step_ticks(size, context.question.window_ns)))
        }
        Action::Mark => (label.to_owned(), "mark".to_owned()),
        Action::Colon => (format!("{label}at"), "14:05".to_owned()),
        Action::Freeze => (label.to_owned(), "live".to_owned()),
        _ => return None,
    };
    Some((label, words, HISTORY_IMPORTANCE))
}

/// Whether the footer shows a key: it has an effect at the moment.
fn applies(context: &PaneContext<'_>, binding: &Binding) -> bool {
    match binding.action {
        Action::Back if binding.context == KeyContext::Everywhere => match &context.screen.mode {
            Mode::Panes => {
                context.screen.card
                    || context.screen.message.as_ref().is_some_and(|message| message.is_sticky)
                    || context.screen.view != View::Dashboard
            }
            Mode::ConfirmQuit | Mode::ConfirmItimer(_) | Mode::Ending(_) => false,
            _ => true,
        },
        Action::Accept => context.key_contexts().first() == Some(&binding.context),
        // A second SIGKILL has no effect.
        Action::End => !matches!(context.screen.mode, Mode::Ending(2..)),
        Action::Clock(clock) => clock != context.session.clock.value(),
        Action::Zoom => {
            let dashboard = Layout::new(context.screen.size, View::Dashboard, context.output_rows(), 0);
            dashboard.is_some_and(|layout| layout.panes.len() > 1)
        }
        Action::Enter if context.screen.pane == Pane::Output => {
            context.options.output && context.session.ended.is_none()
        }
        Action::Out if binding.context == KeyContext::Pane(Pane::Flame) => context.panes.flame.zoom().next().is_some(),
        Action::Out => context.screen.pane != Pane::Flame && context.panes.callers.has_past(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_few_samples_have_a_margin() {
        assert_eq!(margin(500, 1000, 100).as_deref(), Some("9.6"));
        assert_eq!(margin(0, 1000, 10).as_deref(), Some("18"), "0 of 10 samples has a margin");
        assert_eq!(margin(500, 1000, 1_000_000), None);
        assert_eq!((margin(1, 0, 5), margin(1, 5, 0)), (None, None));
        assert!(margin(u64::MAX, 1, u64::MAX).is_none());
    }
}
