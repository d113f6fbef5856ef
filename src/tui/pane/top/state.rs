//! State of the top pane: rows of window and total joined by function, the selection, and the
//! visible rows.
//!
//! The selection is a function, not a row: it survives re-sorting. Until the user does something,
//! it is the first row. Nothing scrolls by itself, unless the selection rises above what is shown.
//! An answer to another question shows the selection, and differences begin with the first row.
//! Rows are in the exact order of their numbers; the session changes both together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::trunk::Trunk;
use crate::session::Answer;
use crate::tally::change::Changes;
use crate::tally::query::{Pattern, Sort};
use crate::tally::text::Text;
use crate::tally::top::TopRow;
use crate::tally::trend::Trend;
use crate::tui::action::Motion;
use crate::tui::name_parts::bare_name;
use crate::tui::name_style::NameStyle;

/// Samples after which a key press keeps the automatic selection. With fewer, ranks are random and
/// names are still being resolved.
const FIRM_SAMPLES: u64 = 20;
/// Columns per horizontal scroll step.
const PAN_STEP: u16 = 8;
/// Maximum columns of horizontal scrolling.
const MAX_PAN: u16 = 2000;

/// Row indices of a function in both tables.
#[derive(Clone, Copy, Debug)]
struct JoinedIndex {
    window: Option<usize>,
    total: Option<usize>,
    /// Sum of flat of this row and all above, ns.
    sum_ns: u64,
}

/// A row of the pane: a function's row in the window joined with its row in the total.
#[derive(Clone, Copy, Debug)]
pub struct JoinedRow<'a> {
    /// Name and module.
    pub row: &'a TopRow,
    /// Flat and cum in the window, ns.
    pub window: (u64, u64),
    /// Flat and cum in the total, ns.
    pub total: (u64, u64),
    /// The part of flat in the window that is of libraries, where foreign code is folded, ns.
    pub library_ns: u64,
    /// Signs of the differences in the window, if the values are differences.
    pub changes: Option<Changes>,
    /// Sum of flat in the window of this row and all above, ns.
    pub sum_ns: u64,
    /// Cum in the window, divided by the number of threads that ran at that moment, ns.
    pub latency_ns: u64,
    /// Trend of the share, if known.
    pub trend: Option<&'a Trend>,
}

/// State of the top pane.
#[derive(Debug, Default)]
pub struct TopState {
    answer: Option<Arc<Answer>>,
    entries: Vec<JoinedIndex>,
    /// The rows that come last because nearly all stacks contain them.
    trunk: Trunk,
    /// Number of entries with a row in the window; the others follow them.
    in_window: usize,
    /// Whether functions that only the total has are shown too.
    with_total: bool,
    /// Maximum number of rows; `None` for all.
    most: Option<usize>,
    /// Visible rows.
    height: usize,
    /// Full name of the selected function.
    selected: Option<String>,
    /// Its last known short name and module.
    known: Option<(Text, Text)>,
    /// Whether the selection was made by the user or from enough samples.
    firm: bool,
    /// Whether the selection stays when another row becomes the first.
    kept: bool,
    /// Current or last known row of the selection.
    row: usize,
    /// First visible row.
    offset: usize,
    /// Columns of horizontal scrolling towards the beginning of names.
    pan: u16,
}

impl TopState {
    /// Updates rows and selection for a new answer.
    pub fn take(&mut self, answer: Arc<Answer>) {
        let is_known = |known: &Arc<Answer>| {
            Arc::ptr_eq(&known.window, &answer.window) && Arc::ptr_eq(&known.total, &answer.total)
        };
        if !self.answer.as_ref().is_some_and(is_known) {
            let mut order = sort_rows(&answer);
            self.trunk.sink(&answer, &mut order);
            self.join_tables(&answer, &order);
        }
        let known = self.answer.as_ref();
        let is_other = known.is_some_and(|known| known.question != answer.question);
        let is_turned = known.is_some_and(|known| known.baseline_ns.is_some() != answer.baseline_ns.is_some());
        let settled = answer.facts.symbolizing.0 == 0 && answer.window.kept_samples >= FIRM_SAMPLES;
        self.answer = Some(answer);
        if !self.kept {
            self.selected = self.line(0).map(|line| line.row.full.to_string());
            self.firm |= settled && self.selected.is_some();
        }
        self.follow();
        // The first rows are wanted, differences above all, and also where the selection has risen
        // to them.
        let is_revealed = is_other || self.row < self.offset;
        if is_turned || is_revealed && self.row < self.height {
            self.offset = 0;
        } else if is_revealed && self.height > 0 {
            self.reveal();
        }
    }

    /// Joins the rows of the window, in this order, with those of the total, followed by rows that
    /// only the total has.
    fn join_tables(&mut self, answer: &Answer, order: &[usize]) {
        self.entries.clear();
        let window = &answer.window.rows;
        let totals: HashMap<&str, usize> =
            answer.total.rows.iter().enumerate().map(|(index, row)| (row.full.as_str(), index)).collect();
        let mut sum = 0_i128;
        self.entries.extend(order.iter().map(|&index| (index, &window[index])).map(|(index, row)| {
            let less = row.changes.is_some_and(|changes| changes.flat.negative);
            sum += i128::from(row.flat_ns) * if less { -1 } else { 1 };
            let sum_ns = u64::try_from(sum.unsigned_abs()).unwrap_or(u64::MAX);
            JoinedIndex { window: Some(index), total: totals.get(row.full.as_str()).copied(), sum_ns }
        }));
        self.in_window = self.entries.len();
        let seen: HashSet<&str> = window.iter().map(|row| row.full.as_str()).collect();
        let rest = answer.total.rows.iter().enumerate().filter(|(_, row)| !seen.contains(row.full.as_str()));
        let sum_ns = self.entries.last().map_or(0, |entry| entry.sum_ns);
        self.entries.extend(rest.map(|(index, _)| JoinedIndex { window: None, total: Some(index), sum_ns }));
    }

    /// Sets the number of visible rows, and whether functions that only the total has are shown.
    pub fn fit(&mut self, height: usize, with_total: bool) {
        if (height, with_total) != (self.height, self.with_total) {
            (self.height, self.with_total) = (height, with_total);
            self.follow();
            self.reveal();
        }
    }

    fn follow(&mut self) {
        if let Some(row) = self.find_selected() {
            self.row = row;
            self.remember_names();
        }
        self.row = self.row.min(self.len().saturating_sub(1));
        self.offset = self.offset.min(self.len().saturating_sub(self.height));
    }

    fn remember_names(&mut self) {
        let names = self.selection().map(|(_, line)| (line.row.short.clone(), line.row.module.clone()));
        if names.is_some() && names != self.known {
            self.known = names;
        }
    }

    fn find_selected(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        // Usually the row is unchanged.
        let is_it = |index: &usize| self.line(*index).is_some_and(|line| line.row.full == selected);
        Some(self.row).filter(is_it).or_else(|| (0..self.len()).find(is_it))
    }

    /// Number of rows, visible or not.
    pub fn len(&self) -> usize {
        let rows = if self.with_total { self.entries.len() } else { self.in_window };
        rows.min(self.most.unwrap_or(rows))
    }

    /// Number of rows that come last because nearly all stacks contain them.
    pub fn trunk_len(&self) -> usize {
        self.trunk.len()
    }

    /// Limits the number of rows; `None` for all.
    pub fn show_at_most(&mut self, rows: Option<usize>) {
        self.most = rows;
        self.follow();
    }

    /// Selects the first row whose name equals the pattern's text, else whose short name matches,
    /// else whose full name matches; returns whether there is one.
    pub fn select_first(&mut self, pattern: &Pattern) -> bool {
        let text = pattern.text();
        let kinds: [&dyn Fn(&TopRow) -> bool; 3] =
            [&|row| *row.short == *text || bare_name(&row.short) == text, &|row| pattern.matches(&row.short), &|row| {
                pattern.matches(&row.full)
            }];
        let first = |is_it: &&dyn Fn(&TopRow) -> bool| {
            (0..self.len()).find(|&index| self.line(index).is_some_and(|line| is_it(line.row)))
        };
        let found = kinds.iter().find_map(first);
        found.inspect(|&index| self.select(index)).is_some()
    }

    /// Selects the first row of the next answer, unless the selected row is own code.
    pub fn leave_foreign(&mut self) {
        if self.selection().is_some_and(|(_, line)| !line.row.is_own) {
            (self.kept, self.firm) = (false, false);
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row at an index.
    pub fn line(&self, index: usize) -> Option<JoinedRow<'_>> {
        let answer = self.answer.as_ref()?;
        let entry = self.entries.get(index).filter(|_| index < self.len())?;
        let window = entry.window.and_then(|index| answer.window.rows.get(index));
        let total = entry.total.and_then(|index| answer.total.rows.get(index));
        let trend = entry.window.and_then(|index| answer.trends.get(index));
        let numbers = |row: Option<&TopRow>| row.map_or((0, 0), |row| (row.flat_ns, row.cum_ns));
        Some(JoinedRow {
            row: window.or(total)?,
            window: numbers(window),
            total: numbers(total),
            library_ns: window.map_or(0, |row| row.library_ns),
            changes: window.or(total).and_then(|row| row.changes),
            sum_ns: entry.sum_ns,
            latency_ns: window.map_or(0, |row| row.latency_ns),
            trend,
        })
    }

    /// The visible rows with their indices.
    pub fn view(&self) -> impl Iterator<Item = (usize, JoinedRow<'_>)> {
        (self.offset..self.offset.saturating_add(self.height)).map_while(|index| Some((index, self.line(index)?)))
    }

    /// The selected function's row, if it has one.
    pub fn selection(&self) -> Option<(usize, JoinedRow<'_>)> {
        let line = self.line(self.row)?;
        (Some(line.row.full.as_str()) == self.selected.as_deref()).then_some((self.row, line))
    }

    /// Full name of the selected function, even if it has no row at the moment.
    pub fn selected_name(&self) -> Option<&str> {
        self.selected.as_deref()
    }

    /// Keeps the automatic selection, if it is from enough samples: the user has seen it.
    pub fn keep_selection(&mut self) {
        self.kept |= self.firm;
    }

    /// Whether the selection was made by the user or from enough samples.
    pub fn is_firm(&self) -> bool {
        self.firm
    }

    /// Last known short name and module of the selected function.
    pub fn selected_names(&self) -> Option<(&str, &str)> {
        self.known.as_ref().map(|(short, module)| (short.as_str(), module.as_str()))
    }

    /// Selects a function by its full name, even if it has no row at the moment.
    pub fn select_name(&mut self, full: &str) {
        if self.selected.as_deref() != Some(full) {
            self.selected = Some(full.to_owned());
            self.known = None;
            (self.firm, self.kept) = (true, true);
            if let Some(row) = self.find_selected() {
                self.row = row;
                self.remember_names();
                self.reveal();
            }
        }
    }

    /// Clears the selection after the meaning of rows has changed.
    pub fn clear_selection(&mut self) {
        (self.selected, self.known, self.firm, self.kept) = (None, None, false, false);
        (self.row, self.offset) = (0, 0);
    }

    /// Columns of horizontal scrolling.
    pub fn pan(&self) -> u16 {
        self.pan
    }

    /// Whether there are more rows than are visible.
    pub fn is_cut(&self) -> bool {
        self.len() > self.height
    }

    /// First visible row.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Selects a row.
    pub fn select(&mut self, index: usize) {
        let index = index.min(self.len().saturating_sub(1));
        let Some(line) = self.line(index) else { return };
        self.selected = Some(line.row.full.to_string());
        self.row = index;
        (self.firm, self.kept) = (true, true);
        self.remember_names();
        self.reveal();
    }

    /// Scrolls to the selection by the least amount.
    fn reveal(&mut self) {
        self.offset = self.offset.min(self.row).max((self.row + 1).saturating_sub(self.height.max(1)));
    }

    /// Scrolls truncated names horizontally.
    pub fn pan_by(&mut self, motion: Motion) {
        if let Motion::Columns(steps) = motion {
            let moved = i32::from(self.pan) - i32::from(steps) * i32::from(PAN_STEP);
            self.pan = moved.clamp(0, MAX_PAN.into()) as u16;
        }
    }

    /// Moves the selection.
    pub fn go(&mut self, motion: Motion) {
        let page = self.height.saturating_sub(1).max(1);
        let target = match motion {
            Motion::Rows(rows) => self.row.saturating_add_signed(rows.into()),
            Motion::Pages(pages) => self.row.saturating_add_signed(isize::from(pages) * page as isize),
            Motion::First => 0,
            Motion::Last => self.len(),
            Motion::Columns(_) => return self.pan_by(motion),
        };
        self.select(target);
    }

    /// Selects the next row whose written name matches, wrapping around at the end; returns whether
    /// there is one. Direction 0 starts at the selected row.
    pub fn find(&mut self, pattern: &Pattern, names: NameStyle, direction: i8) -> bool {
        let length = self.len();
        let step = if direction < 0 { length.saturating_sub(1) } else { 1 };
        let start = if direction == 0 { self.row } else { self.row + step };
        let found =
            (0..length).map(|count| (start + count * step) % length).find(|&index| self.matches(pattern, names, index));
        found.inspect(|&index| self.select(index)).is_some()
    }

    /// Number of rows whose written name matches.
    pub fn count(&self, pattern: &Pattern, names: NameStyle) -> usize {
        (0..self.len()).filter(|&index| self.matches(pattern, names, index)).count()
    }

    fn matches(&self, pattern: &Pattern, names: NameStyle, index: usize) -> bool {
        self.line(index).is_some_and(|line| pattern.matches(names.of(line.row)))
    }

    /// Returns the selection, for [`restore`](Self::restore).
    pub fn save(&self) -> SavedSelection {
        SavedSelection { selected: self.selected.clone(), row: self.row, offset: self.offset }
    }

    /// Restores a saved selection.
    pub fn restore(&mut self, saved: SavedSelection) {
        (self.selected, self.row, self.offset) = (saved.selected, saved.row, saved.offset);
        self.follow();
    }
}

/// Returns the order of the window's rows, which are sorted as pprof sorts them: those without flat
/// are by name there, and by cum here.
fn sort_rows(answer: &Answer) -> Vec<usize> {
    let rows = &answer.window.rows;
    let mut sorted: Vec<usize> = (0..rows.len()).collect();
    // Differences are sorted by their size.
    if answer.question.sort == Sort::Flat && answer.baseline_ns.is_none() {
        let with_flat = rows.partition_point(|row| row.flat_ns > 0);
        sorted[with_flat..].sort_by_key(|&index| std::cmp::Reverse(rows[index].cum_ns));
    }
    sorted
}

/// A saved selection.
#[derive(Clone, Debug)]
pub struct SavedSelection {
    selected: Option<String>,
    row: usize,
    offset: usize,
}
