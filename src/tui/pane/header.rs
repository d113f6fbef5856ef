//! Draws the header: two lines about the target and the sampling. An unknown value is shown as `–`,
//! never as 0.
//!
//! ```text
//!  sigtop  ./server  pid 41273 · running 1.9 of 8 threads · watched 12 s (running 3h02m)  cpu ▃▅▇
//!  ● CPU time  1 851 samples in 10 s (185/s)  lost 0  overhead 0.12 % of the target  focus=parse ✕
//! ```
//!
//! The timer source is shown unless it is the usual one, and the sampling frequency if it is not
//! what was asked for. Changing numbers have a fixed width, so
//! that nothing to their right moves.

use std::time::Duration;

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use super::labels::{format_window, length, without_folder};
use crate::profile::totals::BUCKET_NS;
use crate::session::{Answer, Facts};
use crate::tally::measure::{self, ValueUnit};
use crate::tui::action::Subject;
use crate::tui::canvas::Canvas;
use crate::tui::filters;
use crate::tui::fit_line::{self, Segment};
use crate::tui::pane::context::PaneContext;
use crate::tui::text;
use crate::tui::theme::{Role, Theme};
use crate::wire::{Clock, Engine, EngineState};

/// Maximum columns of a recording's name.
const NAME_COLUMNS: usize = 24;
/// Maximum columns of a filter's pattern.
const CHIP_COLUMNS: usize = 28;
/// Minimum columns for wide gaps.
const ROOMY_COLUMNS: u16 = 96;
/// Columns of `187% (171 user 16 sys)`.
const CPU_COLUMNS: u16 = 23;
/// Time by which a watch is shorter than its window if that is said, ns.
const YOUNG_NS: u64 = 1_000_000_000;
/// Maximum number of PIDs; for more processes only their number is shown.
const MAX_PIDS: usize = 3;

/// Draws the header.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let facts = context.answer.map(|answer| &answer.facts);
    watched(canvas, Rect { height: 1, ..area }, context, facts);
    let line = second_line(context, facts, area.width);
    canvas.spans(area.x + 1, area.y + 1, area.width.saturating_sub(1), &line);
}

fn second_line(context: &PaneContext<'_>, facts: Option<&Facts>, width: u16) -> Vec<Span<'static>> {
    let roomy = width >= ROOMY_COLUMNS;
    let gap = if roomy { 3 } else { 2 };
    let sampling: Vec<Segment> = sampling(context, facts).into_iter().map(|segment| segment.gap_at_most(gap)).collect();
    fit_line::fit(&sampling, width.saturating_sub(2).into())
}

/// The filter whose chip is at a column of the second line: its kind, and its index among the
/// filters of that kind.
pub fn chip_at(context: &PaneContext<'_>, column: u16) -> Option<(Subject, usize)> {
    let facts = context.answer.map(|answer| &answer.facts);
    let line = second_line(context, facts, context.screen.size.0);
    let chips = chip_spans(context, context.options.theme);
    // Chips are last: all of them, or none.
    let first = line.len().checked_sub(chips.len()).filter(|_| !chips.is_empty())?;
    if line[first..] != chips[..] {
        return None;
    }
    let mut x = 1 + fit_line::width(&line[..first]);
    let chip = chips.iter().position(|chip| {
        let start = x;
        x += fit_line::width(std::slice::from_ref(chip));
        (start..x).contains(&column.into())
    })?;
    // Every other span is a separator.
    let index = chip.is_multiple_of(2).then_some(chip / 2)?;
    let kept: Vec<Subject> = filters::texts(context.filters).map(|(subject, _)| subject).collect();
    let subject = *kept.get(index)?;
    Some((subject, kept[..index].iter().filter(|other| **other == subject).count()))
}

fn watched(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>, facts: Option<&Facts>) {
    let theme = canvas.theme;
    let plain = theme.style(Role::Text);
    let right = cpu(canvas, area, facts);
    let room = usize::from(area.width.saturating_sub(right + 2));

    let name = match &context.options.recording {
        Some(recording) => text::cut_left(recording, NAME_COLUMNS).into_owned() + "  ",
        None => "sigtop  ".to_owned(),
    };
    let used = 1 + canvas.put(area.x + 1, area.y, area.width, &name, theme.style(Role::Strong));
    let room = room.saturating_sub(used.into());
    let title = context.answer.and_then(|answer| answer.facts.title.as_ref());
    let full_command = title.unwrap_or(&context.options.command);
    let full_command = if context.options.launched { full_command } else { without_folder(full_command) };
    let command = text::columns(full_command, 60);
    let whole = lifetime(facts, theme);
    // The command takes at most half of the line; the other facts take the rest.
    let others = room.saturating_sub(command.min(room / 2) + 3);
    let others = fit_line::fit(&whole, others);
    let wide = fit_line::width(&others);
    let room_for_command = if wide == 0 { room } else { room.saturating_sub(wide + 3) };
    let command = text::cut_right(full_command, room_for_command);
    let mut x = area.x + used + canvas.put(area.x + used, area.y, room_for_command as u16, &command, plain);
    let free = room.saturating_sub(text::columns(&command, 999) + wide);
    x += free.min(6) as u16;
    canvas.spans(x, area.y, (wide as u16).min(area.right().saturating_sub(x + right)), &others);
}

/// Draws the recent CPU usage at the right; returns its columns.
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

/// The last values as bars, the newest at the right. Full height is one CPU, or the maximum if it
/// is more.
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
    let running = facts.and_then(|facts| Some((running_threads(facts)?, threads?)));
    let threads = threads.map_or_else(dash, |threads| measure::count(threads.into()));
    let time = match facts {
        Some(Facts { ended: Some((_, after)), age: None, .. }) => pair("ran ", measure::duration(*after), ""),
        Some(facts) => pair("watched ", measure::duration(facts.up), ""),
        None => pair("watched ", dash(), ""),
    };
    let age = facts.filter(|facts| facts.ended.is_none()).and_then(|facts| facts.age);
    let long_time = age.map(|age| [time.clone(), pair(" (running ", measure::duration(age), ")")].concat());
    let processes = || pair("", measure::count(count as u64), " processes");
    let mut segments = Vec::new();
    if pids.len() > 1 {
        // A few processes are shown by PID, more by number.
        let all: Vec<String> = pids.iter().take(MAX_PIDS).map(u32::to_string).collect();
        let one = Segment::new(5);
        let one = if pids.len() > MAX_PIDS { one } else { one.or(pair("pids ", all.join(", "), "")) };
        segments.push(one.or(processes()).or_nothing());
    } else {
        let pid = pids.first().map_or_else(dash, u32::to_string);
        segments.push(Segment::new(5).or(pair("pid ", pid, "")).or_nothing());
    }
    // The number of processes is shown unless it is the number of the PIDs above.
    if count > 1 && (pids.len() == 1 || (pids.len() <= MAX_PIDS && count > pids.len())) {
        segments.push(dotted(3, [processes()], dim));
    }
    let running = running.filter(|(running, threads)| (0.0..=f64::from(*threads)).contains(running));
    let running =
        running.map(|(running, _)| pair("running ", format!("{running:.1}"), &format!(" of {threads}{plural}")));
    segments.push(dotted(3, running.into_iter().chain([pair("", threads, plural)]), dim));
    segments.push(dotted(4, long_time.into_iter().chain([time]), dim));
    segments
}

/// A segment behind a dot, with its variants.
fn dotted(rank: u8, variants: impl IntoIterator<Item = Vec<Span<'static>>>, dim: Style) -> Segment {
    let dotted = |spans: Vec<Span<'static>>| [Span::styled("· ", dim)].into_iter().chain(spans).collect();
    variants.into_iter().map(dotted).fold(Segment::new(rank).gap(1), Segment::or).or_nothing()
}

/// The mean number of threads that ran in the last second.
fn running_threads(facts: &Facts) -> Option<f64> {
    let (user, system) = facts.cpu_now.filter(|_| facts.ended.is_none())?;
    Some(f64::from(user + system) / 100.0)
}

/// The system call behind an engine, or how it samples, unless it is the usual one: in full, and
/// where that has no room.
fn system_call(engine: Engine, clock: Clock) -> Option<[String; 2]> {
    let timer = || format!("setitimer({})", clock.names().timer.0);
    match engine {
        Engine::Threads => None,
        Engine::Itimer => Some([timer(), timer()]),
        Engine::External => Some(["sampling from outside", "outside"].map(str::to_owned)),
        Engine::Events => Some(["sampling from outside (perf events)", "perf events"].map(str::to_owned)),
        Engine::Ptrace => Some(["sampling from outside (ptrace)", "ptrace"].map(str::to_owned)),
    }
}

fn sampling(context: &PaneContext<'_>, facts: Option<&Facts>) -> Vec<Segment> {
    let theme = context.options.theme;
    let style = |role| theme.style(role);
    let (dim, plain) = (style(Role::Dim), style(Role::Text));
    let state = facts.and_then(|facts| facts.engine_state);
    let dot = match state {
        _ if context.session.ended.is_some() => Span::styled("○ ", dim),
        _ if context.panes.timeline.is_frozen() => Span::styled("‖ ", style(Role::Notable)),
        Some(EngineState::Running) => Span::styled("● ", style(Role::Good)),
        None | Some(EngineState::Off) => Span::styled("○ ", dim),
        Some(_) => Span::styled("○ ", style(Role::Bad)),
    };
    let (clock, engine) =
        facts.map_or((context.options.clock, context.options.engine), |facts| (facts.clock, facts.engine));
    let name = Span::styled(clock.names().header, style(Role::Strong));
    let mut segments = vec![Segment::new(10).or(vec![dot, name])];
    // Only a profile itself knows the profiler and the timer that made it.
    let origin = facts.and_then(|facts| facts.origin.clone());
    let sampler = facts.and_then(|facts| facts.sampler);
    let source = origin.clone().map(|origin| [origin.clone(), origin]);
    if let Some([how, short]) = source.or_else(|| system_call(sampler.unwrap_or(engine), clock)) {
        segments.push(Segment::new(1).gap(2).or_text(how, dim).or_text(short, dim).or_nothing());
    }

    let asked = match facts.map_or(context.options.period_ns, |facts| facts.period_ns) {
        0 => "–".to_owned(),
        bytes if clock.is_memory() => measure::interval(bytes),
        period_ns => measure::hertz(period_ns),
    };
    let asked = Span::styled(asked, plain);
    let longer = facts.and_then(Facts::longer_interval);
    let longer = longer.map_or(String::new(), |bytes| format!(", got {}", measure::interval(bytes)));
    let measured = match clock {
        Clock::Alloc => format!("{longer}, {}", allocation_rate(context).unwrap_or_else(|| "–".to_owned())),
        Clock::Live => longer.clone(),
        _ => facts.and_then(explain_rate).unwrap_or_default(),
    };
    // A profile does not know the rate that was achieved.
    let is_rate_shown =
        clock.is_memory() || origin.is_some() || !measured.is_empty() || is_rate_changed(context, facts);
    let rate = match origin {
        Some(_) => Segment::new(4),
        None => Segment::new(4).or(vec![asked.clone(), Span::styled(measured, dim)]),
    };
    let rate = if longer.is_empty() { rate } else { rate.or(vec![asked.clone(), Span::styled(longer, dim)]) };
    if is_rate_shown {
        segments.push(rate.or(vec![asked]).or_nothing());
    }

    segments.push(samples(context, theme));
    segments.extend(allocations(context, theme));

    if let Some(function) = facts.and_then(|facts| facts.own_allocator) {
        let bad = style(Role::Bad);
        let words = Segment::new(9).or_text(format!("{function} of the program is not seen"), bad);
        segments.push(words.or_text(format!("{function} unseen"), bad));
    }
    if let Some(advice) = facts.and_then(|facts| facts.java) {
        segments.push(Segment::new(2).or_text(advice.short(), dim).or_nothing());
    }
    let lost = facts.map(|facts| facts.losses.lost());
    let lost_bytes = facts.filter(|facts| facts.clock.is_memory()).map(|facts| facts.losses.lost_bytes);
    // An allocation whose end is not watched is not in the memory in use.
    let unwatched = facts.filter(|facts| facts.clock == Clock::Live).map_or(0, |facts| facts.overflows.allocated_bytes);
    let lost_bytes = lost_bytes.map_or(0, |bytes| bytes.into_iter().fold(unwatched, u64::saturating_add));
    let is_any_lost = lost.is_some_and(|lost| lost > 0) || lost_bytes > 0;
    let lost_style = if is_any_lost { style(Role::Bad) } else { plain };
    let number = match lost_bytes {
        0 => lost.map_or("–".to_owned(), measure::count),
        bytes => measure::bytes(bytes),
    };
    let rank = if is_any_lost { 9 } else { 5 };
    let words = vec![Span::styled("lost ", dim), Span::styled(number, lost_style)];
    segments.push(Segment::new(rank).columns(8).or(words).or_nothing());
    if let Some(unsampled) = facts.and_then(|facts| facts.unsampled.as_ref()) {
        let (percent, bad) = (unsampled.percent(), style(Role::Bad));
        let long = format!("{percent} % of CPU time not sampled");
        let words = Segment::new(9).or_text(long, bad).or_text(format!("{percent} % not sampled"), bad);
        segments.push(words.or_text(format!("−{percent} %"), bad));
        if let Some(why) = &unsampled.why {
            segments.push(Segment::new(3).gap(0).or_text(format!(": {why}"), bad).or_nothing());
        }
    }

    if origin.is_none() {
        segments.push(overhead(facts, theme));
    }

    if let Some(baseline_ns) = context.answer.and_then(|answer| answer.baseline_ns) {
        let ago = measure::duration(Duration::from_nanos(baseline_ns / BUCKET_NS * BUCKET_NS));
        let words =
            context.options.base.as_ref().map_or(format!("baseline {ago} ago"), |base| format!("baseline {base}"));
        let notable = style(Role::Notable);
        segments.push(Segment::new(9).or_text(words, notable).or_text("diff", notable));
    }
    if context.panes.timeline.is_frozen() {
        let waiting = facts.and_then(|facts| facts.waiting).map_or("–".to_owned(), measure::count);
        let words = format!("paused · {waiting} new samples");
        let notable = style(Role::Notable);
        segments.push(Segment::new(9).or_text(words, notable).or_text(format!("paused +{waiting}"), notable));
    }
    segments.extend(chips(context, theme));
    segments
}

/// Explains why the sampling frequency is not what was asked for: `: halved to stay under 1 %`.
fn explain_rate(facts: &Facts) -> Option<String> {
    if let Some(budget) = facts.halved_for {
        return Some(format!(": halved to stay under {} %", 100.0 * budget));
    }
    let got = facts.low_rate()?;
    let reason = if facts.rate_limit().is_some() { ": the sampler rests" } else { "" };
    Some(format!(", got {}{reason}", measure::whole_rate(got)))
}

/// Whether the frequency is another than at the start.
fn is_rate_changed(context: &PaneContext<'_>, facts: Option<&Facts>) -> bool {
    facts.is_some_and(|facts| facts.period_ns > 0 && facts.period_ns != context.options.period_ns)
}

/// The share of its time that the target loses, and what sigtop takes beside it.
fn overhead(facts: Option<&Facts>, theme: Theme) -> Segment {
    let (dim, plain) = (theme.style(Role::Dim), theme.style(Role::Text));
    let lost = facts.and_then(|facts| facts.overhead);
    let beside = facts.and_then(|facts| facts.sigtop_of_a_cpu);
    let words = |unit: &'static str| {
        let number = lost.map_or("–".to_owned(), measure::percents);
        let unit = if lost.is_some() { unit } else { "" };
        vec![Span::styled("overhead ", dim), Span::styled(number, plain), Span::styled(unit, dim)]
    };
    let of_target = words(" % of the target");
    let segment = Segment::new(2);
    let segment = match beside {
        Some(beside) => {
            let number = Span::styled(measure::percents(beside), plain);
            let beside = vec![Span::styled(", sigtop ", dim), number, Span::styled(" % of a CPU", dim)];
            segment.or([of_target.clone(), beside].concat())
        }
        None => segment,
    };
    segment.or(of_target).or(words(" %")).or_nothing()
}

/// The bytes that were allocated per second of the window: `1.2GB/s`.
fn allocation_rate(context: &PaneContext<'_>) -> Option<String> {
    let answer = context.answer.filter(|answer| answer.measured_ns > 0 && answer.baseline_ns.is_none())?;
    let bytes = (answer.window.total_ns as f64 / answer.measured_ns as f64 * 1e9) as u64;
    Some(format!("{}/s", measure::value(bytes, ValueUnit::largest_in(Clock::Alloc, bytes))))
}

/// The number of samples, the time in which they were taken, and their number a second:
/// `219 samples in 10 s (22/s)`.
fn samples(context: &PaneContext<'_>, theme: Theme) -> Segment {
    let (dim, plain) = (theme.style(Role::Dim), theme.style(Role::Text));
    let Some(answer) = context.answer else {
        return Segment::new(8).columns(20).or_text("– samples", dim).or_text("–", dim);
    };
    let past = answer.question.past.filter(|_| context.panes.timeline.has_span());
    let time = match (past, answer.facts.window_ns) {
        (Some(past), _) => format!("in a span of {}", length(past.buckets)),
        (None, None) => "in total".to_owned(),
        // A watch may be shorter than its window.
        (None, Some(window_ns)) if answer.measured_ns.saturating_add(YOUNG_NS) < window_ns && past.is_none() => {
            let measured = measure::duration(Duration::from_secs(answer.measured_ns / 1_000_000_000));
            format!("in {measured} of {}", format_window(Some(window_ns)))
        }
        (None, window_ns) => format!("in {}", format_window(window_ns)),
    };
    let (kept, all) = (measure::count(answer.window.kept_samples), measure::count(answer.window.samples));
    let unit = if answer.window.samples == 1 { "sample" } else { "samples" };
    let number = if answer.question.filters == crate::tally::query::Filters::default() {
        vec![Span::styled(all, plain)]
    } else {
        vec![Span::styled(kept, plain), Span::styled(format!(" of {all}"), dim)]
    };
    let with = |words: String| [number.clone(), vec![Span::styled(words, dim)]].concat();
    let is_memory = answer.facts.clock.is_memory();
    let is_rate_known = !is_memory && past.is_none() && answer.baseline_ns.is_none() && answer.facts.origin.is_none();
    let seconds = answer.measured_ns as f64 / 1e9;
    let rate = (is_rate_known && seconds >= 1.0).then(|| answer.window.samples as f64 / seconds);
    let segment = match rate {
        Some(rate) => {
            let rate = format!(" {unit} {time} ({}/s)", measure::count(rate.round() as u64));
            Segment::new(8).columns(30).or(with(rate))
        }
        None if is_memory => Segment::new(8),
        None => Segment::new(8).columns(22),
    };
    let longest = with(format!(" {unit} {time}"));
    segment.or(longest).or(with(format!(" {unit}"))).or(number)
}

/// The number of allocations that the samples stand for: `, of 9 123 allocations`.
fn allocations(context: &PaneContext<'_>, theme: Theme) -> Option<Segment> {
    let answer = context.answer.filter(|answer| answer.facts.clock.is_memory())?;
    let words = format!(", of {} allocations", measure::count(answer.window.latency_ns));
    Some(Segment::new(3).gap(0).or_text(words, theme.style(Role::Dim)).or_nothing())
}

/// The filters in force: each of them, or only their number if there is no room.
fn chips(context: &PaneContext<'_>, theme: Theme) -> Option<Segment> {
    let count = filters::texts(context.filters).count();
    let number = if count == 1 { "1 filter".to_owned() } else { format!("{count} filters") };
    let spans = chip_spans(context, theme);
    (count > 0).then(|| Segment::new(7).or(spans).or_text(number, theme.style(Role::Chip)))
}

fn chip_spans(context: &PaneContext<'_>, theme: Theme) -> Vec<Span<'static>> {
    let chip = theme.style(Role::Chip);
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut meant = meant(context);
    for (subject, text) in filters::texts(context.filters) {
        if !spans.is_empty() {
            spans.push("  ".into());
        }
        let text = text::cut_middle(text, CHIP_COLUMNS);
        // A tag with its key needs no prefix.
        let words = match subject {
            Subject::TagFocus if text.contains('=') => text.into_owned(),
            _ => format!("{}={text}", subject.word()),
        };
        let words = match subject {
            Subject::TagFocus | Subject::TagIgnore => match meant.next() {
                Some(name) if !name.is_empty() => format!("{words} {} ✕", text::cut_middle(name, CHIP_COLUMNS)),
                _ => format!("{words} ✕"),
            },
            _ => format!("{words} ✕"),
        };
        spans.push(Span::styled(words, chip));
    }
    spans
}

/// Names of the threads that filters by thread refer to, in their order, if the answer belongs to
/// these filters.
fn meant<'a>(context: &PaneContext<'a>) -> impl Iterator<Item = &'a str> {
    let now = context.filters;
    let same = |answer: &&Answer| {
        let then = &answer.question.filters;
        then.tagfocus == now.tagfocus && then.tagignore == now.tagignore
    };
    let answer = context.answer.filter(same);
    answer.into_iter().flat_map(|answer| answer.tagged.iter().map(String::as_str))
}
