//! Draws processes and their threads with state, share of a CPU and top function.
//!
//! ```text
//! ─ 5 Threads ──────────────────────────────────────────────────────────────────────────────── 3/11 by cpu% ─
//!        tid  name             state      cpu%  samples  trend     top function
//!  ▾   41273  server           running  187.0%    1 833  ▇▇▆▇▅▇▇▇  ./server --port 8080
//! ▸    41280  worker-0         running   98.0%      970  ▇▇▇▇▇▇▇▇  json::Parser::parse_value
//!      41281  worker-1         sleeping  86.0%      851  ▇▇▆▇▅▇▇▇  sha256_block
//!             + 9 812 ended threads       3.0%       12
//!             idle: 4 threads           400.0%    4 000
//!  ▸   41302  resize           sleeping   0.1%        1         ▁  └ resize -w 800 (1.2 s ago)
//! ```
//!
//! By wall-clock time, the share is that of the time in which a thread runs, and the last column is
//! what it [waits](super::waits) for. A process has a row only if there are several. If there is
//! little room, the size of the deepest stack is omitted first, then trend, samples and state.

use std::time::Duration;

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use crate::profile::thread::ThreadState;
use crate::profile::totals::Weight;
use crate::session::Answer;
use crate::tally::measure;
use crate::tally::threads::{DeepestRow, FoldedRows, Load, LoadChange, ProcessRow, StackRow, ThreadRow, ThreadSort};
use crate::tally::trend::PARTS;
use crate::tui::canvas::Canvas;
use crate::tui::fit_names::{NameToFit, fit_name};
use crate::tui::layout::{self, Pane};
use crate::tui::pane::bars::draw_bars;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::labels::without_folder;
use crate::tui::pane::sentences;
use crate::tui::pane::threads::state::ListItem;
use crate::tui::pane::threads::waits::{self, shows_waits};
use crate::tui::pane::title;
use crate::tui::pane::waiting;
use crate::tui::text;
use crate::tui::theme::Role;
use crate::wire::Clock;

/// Columns before an ID, for the selection and folding markers.
const MARGIN: u16 = 4;
/// Column of the folding marker.
const FOLD: u16 = 2;
/// Columns of an ID. Linux limits IDs to 2^22.
const ID_COLUMNS: u16 = 7;
/// Columns of a name. The kernel limits names to 15 bytes.
const NAME_COLUMNS: u16 = 15;
/// Columns of the other cells, without the gap before them.
const STATE_COLUMNS: u16 = 8;
const SHARE_COLUMNS: u16 = 7;
const SAMPLES_COLUMNS: u16 = 8;
const TREND_COLUMNS: u16 = PARTS as u16;
const STACK_COLUMNS: u16 = 10;
const GAP: u16 = 2;
/// Maximum levels of the tree of processes that are indented.
const MAX_INDENT: usize = 8;
/// Minimum columns of a function; other columns are omitted for it.
const FUNCTION_COLUMNS: u16 = 24;

/// Start of each column, relative to the pane; `None` for an omitted column.
struct ThreadColumns {
    name: u16,
    name_columns: u16,
    state: Option<u16>,
    share: u16,
    samples: Option<u16>,
    trend: Option<u16>,
    stack: Option<u16>,
    function: u16,
}

impl ThreadColumns {
    /// The columns that fit. `states`, `trends` and `stacks` say whether there is something for
    /// theirs.
    fn new(width: u16, [states, trends, stacks]: [bool; 3]) -> ThreadColumns {
        let ways = [
            [states, true, trends, stacks],
            [states, true, trends, false],
            [states, true, false, false],
            [states, false, false, false],
            [false; 4],
        ];
        let plans = ways.map(|optional| ThreadColumns::with_columns(optional, GAP, NAME_COLUMNS));
        let fits = |plan: &ThreadColumns| plan.function + FUNCTION_COLUMNS <= width;
        let narrow = || ThreadColumns::with_columns([false; 4], 1, NAME_COLUMNS - 3);
        plans.into_iter().find(fits).unwrap_or_else(narrow)
    }

    fn with_columns([state, samples, trend, stack]: [bool; 4], gap: u16, name_columns: u16) -> ThreadColumns {
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
        let stack = stack.then(|| place(STACK_COLUMNS));
        ThreadColumns { name, name_columns, state, share, samples, trend, stack, function: end + gap }
    }
}

/// Draws the pane.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let active = context.is_active(Pane::Threads);
    let remarks = remarks(canvas, context, area.width);
    title::draw_title(canvas, area, Some(Pane::Threads), Pane::Threads.name(), active, &remarks);
    let Some(answer) = context.answer.filter(|_| !context.panes.threads.is_empty()) else {
        let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        return sentences::draw_sentences(canvas, body, &waiting::waiting(context));
    };
    // All time of a thread is wall-clock time, and its state is only that of an instant.
    let is_wall = shows_waits(answer);
    let trends = answer.question.window_ns.is_some() && !is_wall;
    let plan = ThreadColumns::new(area.width, [!is_wall, trends, context.panes.threads.has_deepest()]);
    heads(canvas, area, context, answer, &plan);
    let selected = context.panes.threads.selection().map(|(index, _)| index);
    for (y, (index, entry)) in (area.y + 2..area.bottom()).zip(context.panes.threads.view()) {
        let place = Rect { y, height: 1, ..area };
        RowPainter { place, context, answer, plan: &plan }.draw(canvas, entry);
        if selected == Some(index) {
            canvas.put(area.x, y, 1, "▸", canvas.style(Role::TitleActive));
            canvas.tint(place, canvas.theme.selected(active));
        }
    }
}

/// The visible row at a row of the screen, and whether the column is the folding marker's.
pub fn line_at(area: Rect, column: u16, row: u16) -> Option<(usize, bool)> {
    let line = layout::top_row(area, row)?;
    Some((line, (area.x + FOLD..area.x + MARGIN).contains(&column)))
}

/// Title of the share column.
fn share_word(context: &PaneContext<'_>) -> &'static str {
    match context.answer.map_or(context.session.clock.value(), |answer| answer.facts.clock) {
        _ if context.answer.is_some_and(shows_waits) => "runs%",
        clock => clock.names().share,
    }
}

/// Title of the column of numbers. A sample of memory stands for many allocations.
fn samples_word(clock: Clock) -> &'static str {
    if clock.is_memory() { "count" } else { "samples" }
}

fn remarks(canvas: &Canvas<'_>, context: &PaneContext<'_>, width: u16) -> Vec<Span<'static>> {
    let clock = context.answer.map_or(context.session.clock.value(), |answer| answer.facts.clock);
    let mut words: Vec<(u8, String, Role)> = Vec::new();
    if let Some((index, _)) = context.panes.threads.selection().filter(|_| context.panes.threads.is_cut()) {
        let place =
            format!("{}/{}", measure::count(index as u64 + 1), measure::count(context.panes.threads.len() as u64));
        words.push((1, place, Role::Title));
    }
    let by = match context.panes.threads.sort() {
        ThreadSort::Id => "tid",
        ThreadSort::Name => "name",
        ThreadSort::State => "state",
        ThreadSort::Weight => share_word(context),
        ThreadSort::Samples => samples_word(clock),
        ThreadSort::Function => "function",
    };
    words.push((2, format!("by {by}"), Role::Title));
    title::fit_remarks(canvas, words, width)
}

fn heads(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>, answer: &Answer, plan: &ThreadColumns) {
    let y = area.y + 1;
    let style = |canvas: &Canvas<'_>, sort: Option<ThreadSort>| match sort == Some(context.panes.threads.sort()) {
        true => canvas.style(Role::ColumnSorted),
        false => canvas.style(Role::Column),
    };
    let share = share_word(context);
    let numbers = [
        (Some(MARGIN), ID_COLUMNS, "tid", ThreadSort::Id),
        (Some(plan.share), SHARE_COLUMNS, share, ThreadSort::Weight),
        (plan.samples, SAMPLES_COLUMNS, samples_title(answer), ThreadSort::Samples),
    ];
    for (at, columns, words, sort) in numbers {
        let style = style(canvas, Some(sort));
        at.into_iter().for_each(|at| right(canvas, area.x + at, y, columns, words, style));
    }
    if let Some(at) = plan.stack {
        right(canvas, area.x + at, y, STACK_COLUMNS, "max stack", canvas.style(Role::Column));
    }
    let function_head = if shows_waits(answer) { "waits for, or top function" } else { "top function" };
    let names = [
        (Some(plan.name), "name", Some(ThreadSort::Name)),
        (plan.state, "state", Some(ThreadSort::State)),
        (plan.trend, "trend", None),
        (Some(plan.function), function_head, Some(ThreadSort::Function)),
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

/// Whether differences of times stand in the column of samples.
fn shows_times(answer: &Answer) -> bool {
    answer.baseline_ns.is_some() && !answer.facts.clock.is_memory()
}

fn samples_title(answer: &Answer) -> &'static str {
    if shows_times(answer) { "time" } else { samples_word(answer.facts.clock) }
}

/// Returns the whole of which threads have shares: the measured time, or all bytes of the window.
pub fn share_base(answer: &Answer) -> u64 {
    if answer.facts.clock.is_memory() { answer.window.total_ns } else { answer.measured_ns }
}

/// Formats a weight as a share of one CPU (`98.0%`); `–` if nothing has been measured.
pub fn share(weight_ns: u64, measured_ns: u64) -> String {
    match measured_ns {
        0 => "–".to_owned(),
        _ => format!("{:.1}%", (weight_ns as f64 / measured_ns as f64 * 100.0).min(99_999.0)),
    }
}

/// Formats a weight that may be a difference as a share of one CPU.
pub fn signed_share(weight_ns: u64, measured_ns: u64, change: Option<LoadChange>) -> String {
    let sign = if weight_ns > 0 && change.is_some_and(|change| change.weight.negative) { "-" } else { "" };
    format!("{sign}{}", share(weight_ns, measured_ns))
}

/// The time of a load that its share refers to: by wall-clock time, that in which it ran.
pub fn shown_ns(load: &Load, answer: &Answer) -> u64 {
    if shows_waits(answer) { load.running_ns } else { load.weight.ns }
}

/// The name of a thread state.
pub fn state_word(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "running",
        ThreadState::Waiting => "blocked",
        ThreadState::Sleeping => "sleeping",
        ThreadState::Stopped => "stopped",
        ThreadState::IoUring => "io_uring",
        ThreadState::Unknown => "–",
        ThreadState::Ended => "ended",
    }
}

/// Describes a process in at most `room` columns: its place in the tree of processes, its command
/// and, if there is room, its age if a watched process started it. Processes of two recordings have
/// no common time.
pub fn process_words(process: &ProcessRow, (now_ns, watched): (Option<u64>, &[u32]), room: usize) -> String {
    let indent = match process.depth.min(MAX_INDENT) {
        0 => String::new(),
        depth => format!("{}└ ", "  ".repeat(depth - 1)),
    };
    let left = room.saturating_sub(text::columns(&indent, room));
    // The watched program's own command is written as it was typed, without a wrapper's folder.
    let command = match watched.contains(&process.pid) {
        true => text::cut_right(without_folder(&process.command), left).into_owned(),
        false => fit_command(&process.command, left),
    };
    let ago = now_ns.map(|now_ns| Duration::from_nanos(now_ns.saturating_sub(process.since_ns)));
    let age = ago.map_or(String::new(), |ago| format!(" ({} ago)", measure::duration(ago)));
    let has_room = text::columns(&command, left) + age.len() <= left;
    let age = if process.is_child && has_room { &*age } else { "" };
    format!("{indent}{command}{age}")
}

/// A command without the directory of its program, in at most `room` columns. If it is longer, the
/// files among its arguments are shown without the options.
fn fit_command(command: &str, room: usize) -> String {
    let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    let whole = if arguments.is_empty() { program.to_owned() } else { format!("{program} {arguments}") };
    if text::columns(&whole, room) <= room {
        return whole;
    }
    let is_file = |word: &&str| !word.starts_with('-') && word.contains(['.', '/']);
    let files: Vec<&str> = arguments.split(' ').filter(is_file).collect();
    let short = format!("{program} … {}", files.join(" "));
    text::cut_right(if files.is_empty() { &whole } else { &short }, room).into_owned()
}

/// Names a number of ended threads or processes.
fn ended_words(count: usize, what: &str, plural: &str) -> String {
    format!("+ {} ended {what}{}", measure::count(count as u64), if count == 1 { "" } else { plural })
}

/// Draws one row.
struct RowPainter<'a> {
    place: Rect,
    context: &'a PaneContext<'a>,
    answer: &'a Answer,
    plan: &'a ThreadColumns,
}

impl RowPainter<'_> {
    fn draw(&self, canvas: &mut Canvas<'_>, entry: ListItem<'_>) {
        match entry {
            ListItem::Process(process, folded) => self.process(canvas, process, folded),
            ListItem::Thread(thread, _) => self.thread(canvas, thread),
            ListItem::StackRow(row, level) => self.stack_row(canvas, row, level),
            ListItem::DeepestStack(stack) => self.deepest_stack(canvas, stack),
            ListItem::IdleThreads(folded) => {
                let threads = if folded.count == 1 { "thread" } else { "threads" };
                self.folded(canvas, folded, &format!("idle: {} {threads}", measure::count(folded.count as u64)));
            }
            ListItem::EndedThreads(folded) => self.folded(canvas, folded, &ended_words(folded.count, "thread", "s")),
            ListItem::EndedProcesses(folded) => {
                self.folded(canvas, folded, &ended_words(folded.count, "process", "es"));
            }
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
        let state = if process.ended { ThreadState::Ended } else { ThreadState::Unknown };
        if process.ended {
            self.state(canvas, state);
        }
        let room = self.place.width.saturating_sub(self.plan.function);
        let now_ns = self.context.options.base.is_none().then_some(self.answer.now_ns);
        let words = process_words(process, (now_ns, &self.answer.facts.pids), room.into());
        canvas.put(x + self.plan.function, y, room, &words, style);
    }

    fn thread(&self, canvas: &mut Canvas<'_>, thread: &ThreadRow) {
        let Rect { x, y, .. } = self.place;
        let dim = canvas.style(Role::Dim);
        let ended = thread.state == ThreadState::Ended;
        let style = if thread.inside && !ended { canvas.style(Role::Text) } else { dim };
        let id = if thread.tid == 0 { "–".to_owned() } else { thread.tid.to_string() };
        right(canvas, x + MARGIN, y, ID_COLUMNS, &id, style);
        self.name(canvas, &thread.name, style);
        self.state(canvas, thread.state);
        self.load(canvas, &thread.load, thread.inside);
        if let (Some(at), Some(deepest)) = (self.plan.stack, &thread.deepest) {
            right(canvas, x + at, y, STACK_COLUMNS, &measure::bytes(deepest.used), style);
        }
        let room = self.place.width.saturating_sub(self.plan.function);
        let place = Rect { x: x + self.plan.function, width: room, ..self.place };
        if waits::draw(canvas, place, self.context, thread) {
            return;
        }
        let Load { top, top_full, top_module, .. } = &thread.load;
        let name = NameToFit { full: top_full, short: top, room: room.into() };
        let name = fit_name(&name, self.context.screen.names);
        let style = if thread.inside { canvas.theme.module(top_module) } else { dim };
        canvas.put(x + self.plan.function, y, room, &name, style);
    }

    /// A function of a thread's newest stack.
    fn stack_row(&self, canvas: &mut Canvas<'_>, row: Option<&StackRow>, level: usize) {
        let Rect { x, y, .. } = self.place;
        let dim = canvas.style(Role::Dim);
        if level == 0 {
            let words = if row.is_some() { "newest stack" } else { "no sample" };
            canvas.put(x + self.plan.name, y, self.plan.name_columns, words, dim);
        }
        let Some(row) = row else { return };
        let room = self.place.width.saturating_sub(self.plan.function + 2);
        let name =
            fit_name(&NameToFit { full: &row.full, short: &row.short, room: room.into() }, self.context.screen.names)
                .into_owned();
        let style = canvas.theme.module(&row.module);
        canvas.put(x + self.plan.function + 2, y, room, &name, style);
    }

    /// The size of a thread's deepest stack.
    fn deepest_stack(&self, canvas: &mut Canvas<'_>, stack: &DeepestRow) {
        let Rect { x, y, .. } = self.place;
        let dim = canvas.style(Role::Dim);
        canvas.put(x + self.plan.name, y, self.plan.name_columns, "deepest stack", dim);
        let room = self.place.width.saturating_sub(self.plan.function + 2);
        canvas.put(x + self.plan.function + 2, y, room, &stack.size_words(), canvas.style(Role::Text));
    }

    fn folded(&self, canvas: &mut Canvas<'_>, folded: FoldedRows, words: &str) {
        let style = canvas.style(Role::Dim);
        let end = self.plan.share.saturating_sub(1);
        // The text extends over the state column.
        let room = end.saturating_sub(self.plan.name);
        let short = words.rsplit_once(' ').map_or(words, |(short, _)| short);
        let words = if text::columns(words, 99) > room.into() { short } else { words };
        canvas.put(self.place.x + self.plan.name, self.place.y, room, words, style);
        if shows_waits(self.answer) {
            // How long they ran is not summed.
            let time = format!("{} of wall time", measure::shown(folded.weight.ns, self.context.session.unit()));
            canvas.put(self.place.x + self.plan.function, self.place.y, self.place.width, &time, style);
        } else {
            self.weight(canvas, (folded.weight.ns, folded.weight), folded.change, false);
        }
    }

    fn name(&self, canvas: &mut Canvas<'_>, name: &str, style: Style) {
        let found = self.context.search_pattern();
        let matched = found.is_some_and(|pattern| pattern.matches(name));
        let style = if matched { style.patch(canvas.style(Role::Match)) } else { style };
        let cut = text::cut_middle(name, self.plan.name_columns.into());
        canvas.put(self.place.x + self.plan.name, self.place.y, self.plan.name_columns, &cut, style);
    }

    fn state(&self, canvas: &mut Canvas<'_>, state: ThreadState) {
        let Some(at) = self.plan.state else { return };
        let style = match state {
            ThreadState::Running => canvas.style(Role::Good),
            ThreadState::Stopped | ThreadState::Waiting => canvas.style(Role::Notable),
            ThreadState::Sleeping | ThreadState::IoUring | ThreadState::Unknown | ThreadState::Ended => {
                canvas.style(Role::Dim)
            }
        };
        canvas.put(self.place.x + at, self.place.y, STATE_COLUMNS, state_word(state), style);
    }

    /// Draws the share of `ns` and the number of samples of `weight`.
    fn weight(&self, canvas: &mut Canvas<'_>, (ns, weight): (u64, Weight), change: Option<LoadChange>, inside: bool) {
        let Rect { x, y, .. } = self.place;
        let measured_ns = share_base(self.answer);
        let part = if measured_ns == 0 { 0.0 } else { ns as f64 / measured_ns as f64 };
        let style = match change {
            _ if ns == 0 || !inside => canvas.style(Role::Dim),
            Some(change) => canvas.theme.change(change.weight),
            None => canvas.theme.heat(part.min(1.0)),
        };
        right(canvas, x + self.plan.share, y, SHARE_COLUMNS, &signed_share(ns, measured_ns, change), style);
        let times = change.filter(|_| shows_times(self.answer));
        if let (Some(at), Some(change)) = (self.plan.samples, times) {
            let negative = change.weight.negative;
            let sign = if negative || ns == 0 { "" } else { "+" };
            let words = format!("{sign}{}", measure::signed(ns, self.context.session.unit(), negative));
            right(canvas, x + at, y, SAMPLES_COLUMNS, &words, canvas.style(Role::Dim));
        } else if let Some(at) = self.plan.samples {
            let sign = if change.is_some_and(|change| change.fewer) { "-" } else { "" };
            let number = weight.count(self.answer.facts.clock);
            let words = match format!("{sign}{}", measure::count(number)) {
                words if words.len() <= SAMPLES_COLUMNS.into() => words,
                _ => format!("{sign}{}", measure::brief_count(number)),
            };
            right(canvas, x + at, y, SAMPLES_COLUMNS, &words, style);
        }
    }

    fn load(&self, canvas: &mut Canvas<'_>, load: &Load, inside: bool) {
        self.weight(canvas, (shown_ns(load, self.answer), load.weight), load.change, inside);
        let (Some(at), Some(window_ns)) = (self.plan.trend, self.answer.question.window_ns) else { return };
        // Full height is one CPU, or the maximum if it is more.
        let part_ns = (window_ns as f64 / PARTS as f64).max(1.0);
        let shares = load.parts_ns.map(|ns| ns as f64 / part_ns);
        let most = shares.iter().copied().fold(1.0, f64::max);
        draw_bars(canvas, self.place.x + at, self.place.y, shares.map(|share| share / most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_lose_directory_then_options() {
        let cc1 = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -imultiarch x86_64-linux-gnu src/a.c -O2 -o /tmp/cc.s";
        assert_eq!(fit_command("/bin/sleep 5", 40), "sleep 5");
        assert_eq!(fit_command(cc1, 90), cc1.trim_start_matches("/usr/lib/gcc/x86_64-linux-gnu/12/"));
        assert_eq!(fit_command(cc1, 40), "cc1 … src/a.c /tmp/cc.s");
        assert_eq!(fit_command(cc1, 15), "cc1 … src/a.c …");
        assert_eq!(fit_command("./server --port 8080", 10), "server --…");
        assert_eq!(fit_command("", 10), "");
    }

    #[test]
    fn processes_are_indented_by_their_level() {
        let process = ProcessRow { command: "sh -c make".to_owned(), is_child: true, ..ProcessRow::default() };
        let words =
            |depth, room| process_words(&ProcessRow { depth, ..process.clone() }, (Some(1_000_000_000), &[]), room);
        assert_eq!(words(0, 60), "sh -c make (1 s ago)");
        assert_eq!(words(1, 60), "└ sh -c make (1 s ago)");
        assert_eq!(words(3, 60), "    └ sh -c make (1 s ago)");
        assert_eq!(words(3, 16), "    └ sh -c make", "the age is dropped first");
        // The parent of this one is not watched.
        let other = ProcessRow { pid: 7, command: "/usr/bin/cc1 -O2 -g a.c".to_owned(), ..ProcessRow::default() };
        let words = |watched| process_words(&other, (Some(0), watched), 10);
        assert_eq!((words(&[]), words(&[7])), ("cc1 … a.c".to_owned(), "cc1 -O2 -…".to_owned()));
    }
}
