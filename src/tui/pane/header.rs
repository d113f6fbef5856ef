//! The header: what is watched, and how. Two lines of facts; one that is not known yet is `–`, never 0.
//!
//! ```text
//!  sigtop  ./server --port 8080      pid 41273 · 8 threads · up 2m14s        cpu ▁▂▃▅▇▇▆▅▃▂▁▂▃ 187% (171 user 16 sys)
//!  ● PROF (cpu)  timer_create per thread  99 Hz (99.0)   window 10 s   1 851 samples   lost 0   agent 0.12% of a CPU   focus=parse ✕
//! ```
//!
//! Numbers that change have columns of their own, so that nothing to their right moves.

use ratatui::layout::Rect;
use ratatui::text::Span;

use super::timeline;
use crate::link::wire::{Clock, Engine, EngineState};
use crate::profile::window::BUCKET_NS;
use crate::tally::measure;
use crate::track::{Answer, Facts};
use crate::tui::action::Subject;
use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::filters;
use crate::tui::segments::{self, Segment};
use crate::tui::text;
use crate::tui::theme::{Role, Theme};

/// Columns that the name of a recording may take.
const NAME_COLUMNS: usize = 24;
/// Columns that a filter's pattern may take.
const CHIP_COLUMNS: usize = 28;
/// Columns from which on facts stand well apart.
const ROOMY_COLUMNS: u16 = 96;
/// Columns of `187% (171 user 16 sys)`.
const CPU_COLUMNS: u16 = 23;
/// Pids that are shown, at most; of more processes only the number is.
const MAX_PIDS: usize = 3;

/// Draws it.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let facts = app.answer.as_ref().map(|answer| &answer.facts);
    watched(canvas, Rect { height: 1, ..area }, app, facts);
    let line = second_line(app, facts, area.width);
    canvas.spans(area.x + 1, area.y + 1, area.width.saturating_sub(1), &line);
}

fn second_line(app: &App, facts: Option<&Facts>, width: u16) -> Vec<Span<'static>> {
    let roomy = width >= ROOMY_COLUMNS;
    let gap = if roomy { 3 } else { 2 };
    let sampling: Vec<Segment> =
        sampling(app, facts, roomy).into_iter().map(|segment| segment.gap_at_most(gap)).collect();
    segments::fit(&sampling, width.saturating_sub(2).into())
}

/// The filter whose chip is at a column of the second line: its kind, and its place among those of its kind.
pub fn chip_at(app: &App, column: u16) -> Option<(Subject, usize)> {
    let facts = app.answer.as_ref().map(|answer| &answer.facts);
    let line = second_line(app, facts, app.size.0);
    let chips = chip_spans(app, app.options.theme);
    // Chips come last, each by itself or not at all.
    let first = line.len().checked_sub(chips.len()).filter(|_| !chips.is_empty())?;
    if line[first..] != chips[..] {
        return None;
    }
    let mut x = 1 + segments::width(&line[..first]);
    let chip = chips.iter().position(|chip| {
        let start = x;
        x += segments::width(std::slice::from_ref(chip));
        (start..x).contains(&column.into())
    })?;
    // Every other span is what parts two chips.
    let index = chip.is_multiple_of(2).then_some(chip / 2)?;
    let kept: Vec<Subject> = filters::texts(app.filters.now()).map(|(subject, _)| subject).collect();
    let subject = *kept.get(index)?;
    Some((subject, kept[..index].iter().filter(|other| **other == subject).count()))
}

fn watched(canvas: &mut Canvas<'_>, area: Rect, app: &App, facts: Option<&Facts>) {
    let theme = canvas.theme;
    let plain = theme.style(Role::Text);
    let right = cpu(canvas, area, facts);
    let room = usize::from(area.width.saturating_sub(right + 2));

    let name = match &app.options.recording {
        Some(recording) => text::cut_left(recording, NAME_COLUMNS, 0).into_owned() + "  ",
        None => "sigtop  ".to_owned(),
    };
    let used = 1 + canvas.put(area.x + 1, area.y, area.width, &name, theme.style(Role::Strong));
    let room = room.saturating_sub(used.into());
    let command = text::columns(&app.options.command, 60);
    let whole = lifetime(facts, theme);
    // The command keeps half of the line, or what it needs of that; the rest is for the other facts.
    let others = room.saturating_sub(command.min(room / 2) + 3);
    let others = segments::fit(&whole, others);
    let wide = segments::width(&others);
    let room_for_command = if wide == 0 { room } else { room.saturating_sub(wide + 3) };
    let command = text::cut_right(&app.options.command, room_for_command);
    let mut x = area.x + used + canvas.put(area.x + used, area.y, room_for_command as u16, &command, plain);
    let free = room.saturating_sub(text::columns(&command, 999) + wide);
    x += free.min(6) as u16;
    canvas.spans(x, area.y, (wide as u16).min(area.right().saturating_sub(x + right)), &others);
}

/// Draws the CPU's recent past at the right; returns the columns it takes.
fn cpu(canvas: &mut Canvas<'_>, area: Rect, facts: Option<&Facts>) -> u16 {
    let theme = canvas.theme;
    let (spark, detailed) = match area.width {
        0..72 => (0, false),
        72..96 => (8, false),
        96..120 => (12, false),
        _ => (20, true),
    };
    let numbers = if detailed { CPU_COLUMNS } else { 5 };
    let wide = 4 + spark + numbers + 1;
    let mut x = area.right() - wide;
    x += canvas.put(x, area.y, 4, "cpu ", theme.style(Role::Dim));
    let history = facts.map_or(&[][..], |facts| &facts.cpu_history);
    x += canvas.put(x, area.y, spark, &sparkline(history, spark.into()), theme.style(Role::Good));
    match facts.and_then(|facts| facts.cpu_now) {
        Some((user, system)) => {
            let total = format!("{:>4}%", (user + system).round().clamp(0.0, 9999.0));
            x += canvas.put(x, area.y, 5, &total, theme.style(Role::Strong));
            if detailed {
                let parts = format!(" ({} user {} sys)", user.round(), system.round());
                canvas.put(x, area.y, numbers - 5, &parts, theme.style(Role::Dim));
            }
        }
        None => {
            canvas.put(x, area.y, 5, "    –", theme.style(Role::Dim));
        }
    }
    wide
}

/// The last values as bars, the newest at the right; one core is the full height unless there was more.
fn sparkline(history: &[f32], columns: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &history[history.len().saturating_sub(columns)..];
    let most = shown.iter().copied().fold(100.0_f32, f32::max);
    let bar = |value: &f32| BARS[((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1];
    let blank = columns - shown.len();
    " ".repeat(blank).chars().chain(shown.iter().map(bar)).collect()
}

fn lifetime(facts: Option<&Facts>, theme: Theme) -> Vec<Segment> {
    let (dim, plain) = (theme.style(Role::Dim), theme.style(Role::Text));
    let dash = || "–".to_owned();
    let pair = |label: &str, value: String, after: &str| {
        vec![Span::styled(label.to_owned(), dim), Span::styled(value, plain), Span::styled(after.to_owned(), dim)]
    };
    let pids = facts.map_or(&[][..], |facts| &facts.pids);
    let count = facts.map_or(0, |facts| facts.processes.max(facts.pids.len()));
    let threads = facts.and_then(|facts| facts.threads);
    let plural = if threads == Some(1) { " thread" } else { " threads" };
    let threads = threads.map_or_else(dash, |threads| measure::count(threads.into()));
    let time = match facts {
        Some(Facts { ended: Some((_, after)), .. }) => pair("ran ", measure::duration(*after), ""),
        Some(facts) => pair("up ", measure::duration(facts.up), ""),
        None => pair("up ", dash(), ""),
    };
    let processes = || pair("", measure::count(count as u64), " processes");
    let mut segments = Vec::new();
    if pids.len() > 1 {
        // Each by its pid, or all by their number.
        let all: Vec<String> = pids.iter().take(MAX_PIDS).map(u32::to_string).collect();
        let one = Segment::new(5);
        let one = if pids.len() > MAX_PIDS { one } else { one.or(pair("pids ", all.join(", "), "")) };
        segments.push(one.or(processes()).or_nothing());
    } else {
        let pid = pids.first().map_or_else(dash, u32::to_string);
        segments.push(Segment::new(5).or(pair("pid ", pid, "")).or_nothing());
    }
    // Said already where it is the number of those that were named.
    if count > 1 && (pids.len() == 1 || (pids.len() <= MAX_PIDS && count > pids.len())) {
        segments.push(dotted(2, processes(), dim));
    }
    segments.push(dotted(3, pair("", threads, plural), dim));
    segments.push(dotted(4, time, dim));
    segments
}

fn dotted(rank: u8, spans: Vec<Span<'static>>, dim: ratatui::style::Style) -> Segment {
    let spans = [Span::styled("· ", dim)].into_iter().chain(spans).collect();
    Segment::new(rank).gap(1).or(spans).or_nothing()
}

/// A clock's name and what it counts.
pub fn clock_name(clock: Clock) -> (&'static str, &'static str) {
    match clock {
        Clock::Prof => ("PROF", "cpu"),
        Clock::Real => ("REAL", "wall"),
        Clock::Virtual => ("VIRTUAL", "user"),
    }
}

/// The system call behind an engine.
fn system_call(engine: Engine, clock: Clock) -> String {
    match engine {
        Engine::Threads => "timer_create per thread".to_owned(),
        Engine::Itimer => format!("setitimer(ITIMER_{})", clock_name(clock).0),
    }
}

fn sampling(app: &App, facts: Option<&Facts>, roomy: bool) -> Vec<Segment> {
    let theme = app.options.theme;
    let style = |role| theme.style(role);
    let (dim, plain) = (style(Role::Dim), style(Role::Text));
    let state = facts.and_then(|facts| facts.engine_state);
    let dot = match state {
        _ if app.ended.is_some() => Span::styled("○ ", dim),
        _ if app.frozen => Span::styled("‖ ", style(Role::Notable)),
        Some(EngineState::Running) => Span::styled("● ", style(Role::Good)),
        None | Some(EngineState::Off) => Span::styled("○ ", dim),
        Some(_) => Span::styled("○ ", style(Role::Bad)),
    };
    let (clock, engine) = facts.map_or((app.options.clock, app.options.engine), |facts| (facts.clock, facts.engine));
    let (name, meaning) = clock_name(clock);
    let name = Span::styled(name, style(Role::Strong));
    // Who made a profile of somebody else's, and how, only that can say.
    let origin = facts.and_then(|facts| facts.origin.clone());
    let how = origin.unwrap_or_else(|| system_call(engine, clock));
    let meaning = Span::styled(format!(" ({meaning})"), plain);
    let mut segments = vec![
        Segment::new(10).or(vec![dot.clone(), name.clone(), meaning]).or(vec![dot, name]),
        Segment::new(1).gap(2).or_text(how, dim).or_nothing(),
    ];

    let asked = match facts.map_or(app.options.period_ns, |facts| facts.period_ns) {
        0 => "–".to_owned(),
        period_ns => measure::hertz(period_ns),
    };
    let effective = facts.and_then(|facts| facts.effective_hz).map_or("–".to_owned(), measure::rate);
    let asked = Span::styled(asked, plain);
    let measured = Span::styled(format!(" ({effective})"), dim);
    segments.push(Segment::new(4).gap(2).columns(13).or(vec![asked.clone(), measured]).or(vec![asked]).or_nothing());

    let past = app.answer.as_ref().and_then(|answer| answer.question.past).filter(|_| app.walk.has_span());
    let window = match past {
        Some(past) => timeline::length(past.ticks),
        None => window_words(facts.map_or(app.window_ns, |facts| facts.window_ns)),
    };
    let label = Span::styled(
        if past.is_some() {
            "span "
        } else if roomy {
            "window "
        } else {
            ""
        },
        dim,
    );
    segments
        .push(Segment::new(6).or(vec![label, Span::styled(window.clone(), plain)]).or_text(window, plain).or_nothing());

    segments.push(samples(app, theme));

    let lost = facts.map(|facts| facts.losses.lost());
    let lost_style = if lost.is_some_and(|lost| lost > 0) { style(Role::Bad) } else { plain };
    let number = lost.map_or("–".to_owned(), measure::count);
    let rank = if lost.is_some_and(|lost| lost > 0) { 9 } else { 5 };
    let words = vec![Span::styled("lost ", dim), Span::styled(number, lost_style)];
    segments.push(Segment::new(rank).columns(8).or(words).or_nothing());
    if let Some(unsampled) = facts.and_then(|facts| facts.unsampled.as_ref()) {
        let (percent, bad) = (unsampled.percent(), style(Role::Bad));
        let long = format!("{percent} % of CPU time not sampled");
        let words = Segment::new(9).or_text(long, bad).or_text(format!("{percent} % not sampled"), bad);
        segments.push(words.or_text(format!("−{percent} %"), bad));
    }

    // Of an idle target's own CPU time any cost would be a large part.
    let part = facts.and_then(|facts| facts.agent_of_a_cpu);
    let number = part.map_or("–".to_owned(), |part| measure::percent(part * 100.0).trim_start().to_owned());
    let words = vec![Span::styled("agent ", dim), Span::styled(number, plain)];
    segments.push(Segment::new(2).columns(12).or(words).or_nothing());
    if part.is_some() {
        // The first that gives way: the page of losses says it too.
        segments.push(Segment::new(0).gap(0).or_text("of a CPU", dim).or_nothing());
    }

    if let Some(baseline_ns) = app.answer.as_ref().and_then(|answer| answer.baseline_ns) {
        let ago = measure::duration(std::time::Duration::from_nanos(baseline_ns / BUCKET_NS * BUCKET_NS));
        let notable = style(Role::Notable);
        segments.push(Segment::new(9).or_text(format!("against {ago} ago"), notable).or_text("diff", notable));
    }
    if app.frozen {
        let waiting = facts.and_then(|facts| facts.waiting).map_or("–".to_owned(), measure::count);
        let words = format!("frozen, {waiting} samples wait");
        let notable = style(Role::Notable);
        segments.push(Segment::new(9).or_text(words, notable).or_text(format!("frozen +{waiting}"), notable));
    }
    segments.extend(chips(app, theme));
    segments
}

fn samples(app: &App, theme: Theme) -> Segment {
    let (dim, plain) = (theme.style(Role::Dim), theme.style(Role::Text));
    let Some(answer) = &app.answer else {
        return Segment::new(8).columns(14).or_text("– samples", dim).or_text("–", dim);
    };
    let (kept, all) = (measure::count(answer.window.kept_samples), measure::count(answer.window.samples));
    let unit = Span::styled(if answer.window.samples == 1 { " sample" } else { " samples" }, dim);
    if answer.question.filters == crate::tally::query::Filters::default() {
        let all = Span::styled(all, plain);
        return Segment::new(8).columns(14).or(vec![all.clone(), unit]).or(vec![all]);
    }
    let words = vec![Span::styled(kept.clone(), plain), Span::styled(format!(" of {all}"), dim), unit];
    Segment::new(8).columns(22).or(words).or(vec![Span::styled(format!("{kept} of {all}"), plain)])
}

/// The filters in force: each by itself, or their number where there is no room.
fn chips(app: &App, theme: Theme) -> Option<Segment> {
    let count = filters::texts(app.filters.now()).count();
    let number = if count == 1 { "1 filter".to_owned() } else { format!("{count} filters") };
    let spans = chip_spans(app, theme);
    (count > 0).then(|| Segment::new(7).or(spans).or_text(number, theme.style(Role::Chip)))
}

fn chip_spans(app: &App, theme: Theme) -> Vec<Span<'static>> {
    let chip = theme.style(Role::Chip);
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut meant = meant(app);
    for (subject, text) in filters::texts(app.filters.now()) {
        if !spans.is_empty() {
            spans.push("  ".into());
        }
        let text = text::cut_middle(text, CHIP_COLUMNS);
        // A tag that names its key says enough.
        let words = match subject {
            Subject::TagFocus if text.contains('=') => text.into_owned(),
            _ => format!("{}={text}", subject.word()),
        };
        let words = match subject {
            Subject::TagFocus | Subject::TagIgnore => match meant.next() {
                Some(name) => format!("{words} {} ✕", text::cut_middle(name, CHIP_COLUMNS)),
                None => format!("{words} ✕"),
            },
            _ => format!("{words} ✕"),
        };
        spans.push(Span::styled(words, chip));
    }
    spans
}

/// Whom filters by thread mean, in their order, as far as the numbers at hand are theirs.
fn meant(app: &App) -> impl Iterator<Item = &str> {
    let now = app.filters.now();
    let same = |answer: &&std::sync::Arc<Answer>| {
        let then = &answer.question.filters;
        then.tagfocus == now.tagfocus && then.tagignore == now.tagignore
    };
    let answer = app.answer.as_ref().filter(same);
    answer.into_iter().flat_map(|answer| answer.tagged.iter().map(String::as_str))
}

/// Which time the numbers at hand are of, and what of it they are.
pub fn span_words(app: &App) -> String {
    let Some(answer) = &app.answer else { return String::new() };
    let diff = if answer.baseline_ns.is_some() { "difference, " } else { "" };
    let window = window_words(answer.facts.window_ns);
    match answer.question.past {
        None => format!("{diff}last {window}"),
        Some(past) => match app.walk.has_span() {
            true => format!("{diff}span of {}", timeline::length(past.ticks)),
            false => format!("{diff}{window}, {} ago", timeline::length(past.back)),
        },
    }
}

/// A window's length in words.
pub fn window_words(window_ns: Option<u64>) -> String {
    match window_ns {
        Some(ns) if ns.is_multiple_of(1_000_000_000) => format!("{} s", ns / 1_000_000_000),
        Some(ns) => measure::duration(std::time::Duration::from_nanos(ns)),
        None => "all".to_owned(),
    }
}
