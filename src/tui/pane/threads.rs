//! Processes and their threads: who runs, how much of a CPU each takes, and where most of it goes.
//!
//! ```text
//! ─ 5 Threads ──────────────────────────────────────────────────────────────────────────────── 3/11 by cpu% ─
//!        tid  name             state      cpu%  samples  trend     top function
//!  ▾   41273  server           running  187.0%    1 833  ▇▇▆▇▅▇▇▇  ./server --port 8080
//! ▸    41280  worker-0         running   98.0%      970  ▇▇▇▇▇▇▇▇  json::Parser::parse_value
//!      41281  worker-1         sleeping  86.0%      851  ▇▇▆▇▅▇▇▇  sha256_block
//!             + 9 812 ended threads       3.0%       12
//!  ▸   41302  resize           sleeping   0.1%        1         ▁  child: ./resize -w 800 (forked by 41273, 1.2 s ago)
//! ```
//!
//! A process has a line where there are several. With less room the trend goes first, then samples and state.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use crate::link::wire::Clock;
use crate::profile::thread::State;
use crate::profile::window::Weight;
use crate::tally::measure;
use crate::tally::threads::{Folded, Load, LoadChange, ProcessRow, ThreadRow, ThreadSort};
use crate::tally::trend::PARTS;
use crate::track::Answer;
use crate::tui::action::Subject;
use crate::tui::app::{App, Mode};
use crate::tui::canvas::Canvas;
use crate::tui::layout::{self, Pane};
use crate::tui::roster::Entry;
use crate::tui::text;
use crate::tui::theme::Role;

/// Columns before an id: the mark of the selection, and that of folding.
const MARGIN: u16 = 4;
/// Where the mark of folding is.
const FOLD: u16 = 2;
/// Columns of an id: 2^22 at most, unless it is hostile.
const ID_COLUMNS: u16 = 7;
/// Columns of a name: the kernel's are at most 15 bytes.
const NAME_COLUMNS: u16 = 15;
/// Columns of other things, without the gap before them.
const STATE_COLUMNS: u16 = 8;
const SHARE_COLUMNS: u16 = 7;
const SAMPLES_COLUMNS: u16 = 8;
const TREND_COLUMNS: u16 = PARTS as u16;
const GAP: u16 = 2;
/// Columns that a command has beside when it was forked.
const COMMAND_COLUMNS: usize = 16;
/// What a command of a child stands behind.
const CHILD: &str = "child: ";
/// Columns that a function has, or something else goes.
const FUNCTION_COLUMNS: u16 = 24;

/// Where columns start, from the left; nowhere where there is no room.
struct Plan {
    name: u16,
    name_columns: u16,
    state: Option<u16>,
    share: u16,
    samples: Option<u16>,
    trend: Option<u16>,
    function: u16,
}

impl Plan {
    fn new(width: u16, trends: bool) -> Plan {
        let ways = [(true, true, trends), (true, true, false), (true, false, false), (false, false, false)];
        let plans = ways.map(|(state, samples, trend)| Plan::with(state, samples, trend, GAP, NAME_COLUMNS));
        let fits = |plan: &Plan| plan.function + FUNCTION_COLUMNS <= width;
        let narrow = || Plan::with(false, false, false, 1, NAME_COLUMNS - 3);
        plans.into_iter().find(fits).unwrap_or_else(narrow)
    }

    fn with(state: bool, samples: bool, trend: bool, gap: u16, name_columns: u16) -> Plan {
        let name = MARGIN + ID_COLUMNS + gap;
        let mut end = name + name_columns;
        let mut place = |columns: u16| {
            let at = end + gap;
            end = at + columns;
            at
        };
        let state = state.then(|| place(STATE_COLUMNS));
        let share = place(SHARE_COLUMNS);
        let samples = samples.then(|| place(SAMPLES_COLUMNS));
        let trend = trend.then(|| place(TREND_COLUMNS));
        Plan { name, name_columns, state, share, samples, trend, function: end + gap }
    }
}

/// Draws it.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let active = app.pane == Pane::Threads && matches!(app.mode, Mode::Panes);
    let remarks = remarks(canvas, app, area.width);
    super::title(canvas, area, Some(Pane::Threads), Pane::Threads.name(), active, &remarks);
    let Some(answer) = app.answer.as_ref().filter(|_| !app.roster.is_empty()) else {
        let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        return super::sentences(canvas, body, &super::status::waiting(app));
    };
    let plan = Plan::new(area.width, answer.question.window_ns.is_some());
    heads(canvas, area, app, answer, &plan);
    let selected = app.roster.selection().map(|(index, _)| index);
    for (y, (index, entry)) in (area.y + 2..area.bottom()).zip(app.roster.view()) {
        let place = Rect { y, height: 1, ..area };
        Row { place, app, answer, plan: &plan }.draw(canvas, entry);
        if selected == Some(index) {
            canvas.put(area.x, y, 1, "▸", canvas.style(Role::TitleActive));
            canvas.tint(place, canvas.theme.selected(active));
        }
    }
}

/// The line at a row of the screen, counted from the first in view, and whether the mark of folding is there.
pub fn line_at(area: Rect, column: u16, row: u16) -> Option<(usize, bool)> {
    let line = layout::top_row(area, row)?;
    Some((line, (area.x + FOLD..area.x + MARGIN).contains(&column)))
}

/// What a share is of, in a word.
fn share_word(clock: Clock) -> &'static str {
    match clock {
        Clock::Prof => "cpu%",
        Clock::Real => "wall%",
        Clock::Virtual => "user%",
    }
}

fn remarks(canvas: &Canvas<'_>, app: &App, width: u16) -> Vec<Span<'static>> {
    let clock = app.answer.as_ref().map_or(app.clock(), |answer| answer.facts.clock);
    let mut words: Vec<(u8, String, Role)> = Vec::new();
    if let Some((index, _)) = app.roster.selection().filter(|_| app.roster.is_cut()) {
        let place = format!("{}/{}", measure::count(index as u64 + 1), measure::count(app.roster.len() as u64));
        words.push((1, place, Role::Title));
    }
    let by = match app.roster.sort() {
        ThreadSort::Id => "tid",
        ThreadSort::Name => "name",
        ThreadSort::State => "state",
        ThreadSort::Weight => share_word(clock),
        ThreadSort::Samples => "samples",
        ThreadSort::Function => "function",
    };
    words.push((2, format!("by {by}"), Role::Title));
    super::remarks(canvas, words, width)
}

fn heads(canvas: &mut Canvas<'_>, area: Rect, app: &App, answer: &Answer, plan: &Plan) {
    let y = area.y + 1;
    let style = |canvas: &Canvas<'_>, sort: Option<ThreadSort>| match sort == Some(app.roster.sort()) {
        true => canvas.style(Role::ColumnSorted),
        false => canvas.style(Role::Column),
    };
    let share = share_word(answer.facts.clock);
    let numbers = [
        (Some(MARGIN), ID_COLUMNS, "tid", ThreadSort::Id),
        (Some(plan.share), SHARE_COLUMNS, share, ThreadSort::Weight),
        (plan.samples, SAMPLES_COLUMNS, "samples", ThreadSort::Samples),
    ];
    for (at, columns, words, sort) in numbers {
        let style = style(canvas, Some(sort));
        at.into_iter().for_each(|at| right(canvas, area.x + at, y, columns, words, style));
    }
    let names = [
        (Some(plan.name), "name", Some(ThreadSort::Name)),
        (plan.state, "state", Some(ThreadSort::State)),
        (plan.trend, "trend", None),
        (Some(plan.function), "top function", Some(ThreadSort::Function)),
    ];
    for (at, words, sort) in names {
        let style = style(canvas, sort);
        at.into_iter().for_each(|at| {
            canvas.put(area.x + at, y, area.width.saturating_sub(at), words, style);
        });
    }
}

fn right(canvas: &mut Canvas<'_>, x: u16, y: u16, wide: u16, words: &str, style: Style) {
    let words_wide = text::columns(words, 99) as u16;
    canvas.put(x + wide.saturating_sub(words_wide), y, wide, words, style);
}

/// A weight as a share of one CPU: `98.0%`; `–` while nothing was measured.
pub fn share(weight_ns: u64, measured_ns: u64) -> String {
    match measured_ns {
        0 => "–".to_owned(),
        _ => format!("{:.1}%", (weight_ns as f64 / measured_ns as f64 * 100.0).min(99_999.0)),
    }
}

/// The same of a weight that may be the size of a difference.
pub fn signed_share(weight_ns: u64, measured_ns: u64, change: Option<LoadChange>) -> String {
    let sign = if weight_ns > 0 && change.is_some_and(|change| change.weight.negative) { "-" } else { "" };
    format!("{sign}{}", share(weight_ns, measured_ns))
}

/// What a state is called.
pub fn state_word(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Waiting => "blocked",
        State::Sleeping => "sleeping",
        State::Stopped => "stopped",
        State::Unknown => "–",
        State::Ended => "ended",
    }
}

/// What a process is, in a sentence of so many columns: of a long command its ends, of its birth all or nothing.
pub fn process_words(process: &ProcessRow, now_ns: u64, room: usize) -> String {
    if !process.is_child {
        return text::cut_middle(&process.command, room).into_owned();
    }
    let ago = std::time::Duration::from_nanos(now_ns.saturating_sub(process.since_ns));
    let birth = format!(" (forked by {}, {} ago)", process.parent, measure::duration(ago));
    let left = room.saturating_sub(CHILD.len() + birth.len());
    let (left, birth) = if left < COMMAND_COLUMNS { (room.saturating_sub(CHILD.len()), "") } else { (left, &*birth) };
    format!("{CHILD}{}{birth}", text::cut_middle(&process.command, left))
}

/// One line of the list.
struct Row<'a> {
    place: Rect,
    app: &'a App,
    answer: &'a Answer,
    plan: &'a Plan,
}

impl Row<'_> {
    fn draw(&self, canvas: &mut Canvas<'_>, entry: Entry<'_>) {
        match entry {
            Entry::Process(process, folded) => self.process(canvas, process, folded),
            Entry::Thread(thread, _) => self.thread(canvas, thread),
            Entry::EndedThreads(folded) => self.folded(canvas, folded, "ended thread"),
            Entry::EndedProcesses(folded) => self.folded(canvas, folded, "ended process"),
        }
    }

    fn process(&self, canvas: &mut Canvas<'_>, process: &ProcessRow, folded: bool) {
        let Rect { x, y, .. } = self.place;
        let dim = canvas.style(Role::Dim);
        canvas.put(x + FOLD, y, 1, if folded { "▸" } else { "▾" }, dim);
        let style = if process.inside { canvas.style(Role::Strong) } else { dim };
        right(canvas, x + MARGIN, y, ID_COLUMNS, &process.pid.to_string(), style);
        self.name(canvas, &process.name, style);
        self.load(canvas, &process.load, process.inside);
        let state = if process.ended { State::Ended } else { State::Unknown };
        if process.ended {
            self.state(canvas, state);
        }
        let room = self.place.width.saturating_sub(self.plan.function);
        let words = process_words(process, self.answer.now_ns, room.into());
        canvas.put(x + self.plan.function, y, room, &words, style);
    }

    fn thread(&self, canvas: &mut Canvas<'_>, thread: &ThreadRow) {
        let Rect { x, y, .. } = self.place;
        let dim = canvas.style(Role::Dim);
        let ended = thread.state == State::Ended;
        let style = if thread.inside && !ended { canvas.style(Role::Text) } else { dim };
        let id = if thread.tid == 0 { "–".to_owned() } else { thread.tid.to_string() };
        right(canvas, x + MARGIN, y, ID_COLUMNS, &id, style);
        self.name(canvas, &thread.name, style);
        self.state(canvas, thread.state);
        self.load(canvas, &thread.load, thread.inside);
        let room = self.place.width.saturating_sub(self.plan.function);
        let Load { top, top_full, top_module, .. } = &thread.load;
        let name = text::cut_left(self.app.names.pick(top_full, top), room.into(), 0).into_owned();
        let style = if thread.inside { canvas.theme.module(top_module) } else { dim };
        canvas.put(x + self.plan.function, y, room, &name, style);
    }

    fn folded(&self, canvas: &mut Canvas<'_>, folded: Folded, what: &str) {
        let plural = match (folded.count, what.ends_with('s')) {
            (1, _) => "",
            (_, true) => "es",
            (_, false) => "s",
        };
        let count = measure::count(folded.count as u64);
        let style = canvas.style(Role::Dim);
        let end = self.plan.share.saturating_sub(1);
        // Over the column of states.
        let room = end.saturating_sub(self.plan.name);
        let words = format!("+ {count} {what}{plural}");
        let words = if text::columns(&words, 99) > room.into() { format!("+ {count} ended") } else { words };
        canvas.put(self.place.x + self.plan.name, self.place.y, room, &words, style);
        self.weight(canvas, folded.weight, folded.change, false);
    }

    fn name(&self, canvas: &mut Canvas<'_>, name: &str, style: Style) {
        let found = match &self.app.mode {
            Mode::Prompt(prompt, _) if prompt.subject == Subject::Find => prompt.pattern(),
            _ => self.app.found.as_ref(),
        };
        let matched = found.is_some_and(|pattern| pattern.matches(name));
        let style = if matched { style.patch(canvas.style(Role::Match)) } else { style };
        let cut = text::cut_middle(name, self.plan.name_columns.into());
        canvas.put(self.place.x + self.plan.name, self.place.y, self.plan.name_columns, &cut, style);
    }

    fn state(&self, canvas: &mut Canvas<'_>, state: State) {
        let Some(at) = self.plan.state else { return };
        let style = match state {
            State::Running => canvas.style(Role::Good),
            State::Stopped | State::Waiting => canvas.style(Role::Notable),
            State::Sleeping | State::Unknown | State::Ended => canvas.style(Role::Dim),
        };
        canvas.put(self.place.x + at, self.place.y, STATE_COLUMNS, state_word(state), style);
    }

    fn weight(&self, canvas: &mut Canvas<'_>, weight: Weight, change: Option<LoadChange>, inside: bool) {
        let Rect { x, y, .. } = self.place;
        let measured_ns = self.answer.measured_ns;
        let part = if measured_ns == 0 { 0.0 } else { weight.ns as f64 / measured_ns as f64 };
        let style = match change {
            _ if weight.ns == 0 || !inside => canvas.style(Role::Dim),
            Some(change) => canvas.theme.change(change.weight),
            None => canvas.theme.heat(part.min(1.0)),
        };
        right(canvas, x + self.plan.share, y, SHARE_COLUMNS, &signed_share(weight.ns, measured_ns, change), style);
        if let Some(at) = self.plan.samples {
            let sign = if change.is_some_and(|change| change.fewer) { "-" } else { "" };
            let words = format!("{sign}{}", measure::count(weight.samples));
            right(canvas, x + at, y, SAMPLES_COLUMNS, &words, style);
        }
    }

    fn load(&self, canvas: &mut Canvas<'_>, load: &Load, inside: bool) {
        self.weight(canvas, load.weight, load.change, inside);
        let (Some(at), Some(window_ns)) = (self.plan.trend, self.answer.question.window_ns) else { return };
        const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
        // One CPU is the full height, unless there was more.
        let part_ns = (window_ns as f64 / PARTS as f64).max(1.0);
        let shares = load.parts_ns.map(|ns| ns as f64 / part_ns);
        let most = shares.iter().copied().fold(1.0, f64::max);
        for (x, share) in (self.place.x + at..).zip(shares) {
            if share > 0.0 {
                let level = ((share / most * 8.0).ceil() as usize).clamp(1, 8) - 1;
                let style = if inside { canvas.theme.heat(share.min(1.0)) } else { canvas.style(Role::Dim) };
                canvas.put(x, self.place.y, 1, BARS[level], style);
            }
        }
    }
}
