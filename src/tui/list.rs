//! The top list: the rows of window and total joined, which function is selected, and what part of it is in view.
//!
//! The selection is a function, not a row: it stays when the table is sorted anew. Nothing scrolls by itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::action::Motion;
use super::text::bare;
use crate::tally::diff::Changes;
use crate::tally::query::Pattern;
use crate::tally::table::Row;
use crate::tally::text::Text;
use crate::tally::trend::Trend;
use crate::track::Answer;

/// Samples that make the first selection firm. Before, ranks are chance, and names are being found.
const FIRM_SAMPLES: u64 = 20;
/// Columns that a step to the side moves a cut name.
const PAN_STEP: u16 = 8;
/// Columns that names can be moved at most.
const MAX_PAN: u16 = 2000;

/// How names are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameStyle {
    /// Without arguments and generics.
    #[default]
    Short,
    /// With everything.
    Full,
    /// The last part alone.
    Bare,
}

impl NameStyle {
    /// The one after it.
    pub fn next(self) -> NameStyle {
        match self {
            NameStyle::Short => NameStyle::Full,
            NameStyle::Full => NameStyle::Bare,
            NameStyle::Bare => NameStyle::Short,
        }
    }

    /// The name of a row in this style.
    pub fn of(self, row: &Row) -> &str {
        self.pick(&row.full, &row.short)
    }

    /// One of a function's names in this style.
    pub fn pick<'a>(self, full: &'a str, short: &'a str) -> &'a str {
        match self {
            NameStyle::Short => short,
            NameStyle::Full => full,
            NameStyle::Bare => bare(short),
        }
    }
}

/// A function's place in both tables.
#[derive(Clone, Copy, Debug)]
struct Entry {
    window: Option<usize>,
    total: Option<usize>,
    /// Flat of this row and all above it, ns.
    sum_ns: u64,
}

/// A row of the list.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Its name and module.
    pub row: &'a Row,
    /// Flat and cum in the window, ns.
    pub window: (u64, u64),
    /// Flat and cum in the total, ns.
    pub total: (u64, u64),
    /// Where these are sizes of differences: which, in the window and in the total.
    pub changes: (Option<Changes>, Option<Changes>),
    /// Flat of this row and all above it in the window, ns.
    pub sum_ns: u64,
    /// Where its share goes, if that is known.
    pub trend: Option<&'a Trend>,
}

/// The top list.
#[derive(Debug, Default)]
pub struct List {
    answer: Option<Arc<Answer>>,
    entries: Vec<Entry>,
    /// Entries with a row in the window; the others follow them.
    in_window: usize,
    /// Whether functions seen in the total alone are shown too.
    with_total: bool,
    /// Rows that can be seen by scrolling, at most; `None` for all.
    most: Option<usize>,
    /// Rows in view.
    height: usize,
    /// Full name of the selected function.
    selected: Option<String>,
    /// Its short name and its module, as last seen.
    known: Option<(Text, Text)>,
    /// Whether the selection was made by the user, or stands on enough samples.
    firm: bool,
    /// Where the selection is, or was when it was last seen.
    row: usize,
    /// First row in view.
    offset: usize,
    /// Columns by which names are moved to show their heads.
    pan: u16,
}

impl List {
    /// Takes in new numbers.
    pub fn take(&mut self, answer: Arc<Answer>) {
        let is_known = |known: &Arc<Answer>| {
            Arc::ptr_eq(&known.window, &answer.window) && Arc::ptr_eq(&known.total, &answer.total)
        };
        if !self.answer.as_ref().is_some_and(is_known) {
            self.put_together(&answer);
        }
        let settled = answer.facts.symbolizing.0 == 0 && answer.window.kept_samples >= FIRM_SAMPLES;
        self.answer = Some(answer);
        if !self.firm {
            self.selected = self.line(0).map(|line| line.row.full.to_string());
            self.firm = settled && self.selected.is_some();
        }
        self.follow();
    }

    /// Finds each row of the window in the total, and those that are in the total alone.
    fn put_together(&mut self, answer: &Answer) {
        self.entries.clear();
        let window = &answer.window.rows;
        let totals: HashMap<&str, usize> =
            answer.total.rows.iter().enumerate().map(|(index, row)| (row.full.as_str(), index)).collect();
        let mut sum = 0_i128;
        self.entries.extend(window.iter().enumerate().map(|(index, row)| {
            let less = row.changes.is_some_and(|changes| changes.flat.negative);
            sum += i128::from(row.flat_ns) * if less { -1 } else { 1 };
            let sum_ns = u64::try_from(sum.unsigned_abs()).unwrap_or(u64::MAX);
            Entry { window: Some(index), total: totals.get(row.full.as_str()).copied(), sum_ns }
        }));
        self.in_window = self.entries.len();
        let seen: HashSet<&str> = window.iter().map(|row| row.full.as_str()).collect();
        let rest = answer.total.rows.iter().enumerate().filter(|(_, row)| !seen.contains(row.full.as_str()));
        let sum_ns = self.entries.last().map_or(0, |entry| entry.sum_ns);
        self.entries.extend(rest.map(|(index, _)| Entry { window: None, total: Some(index), sum_ns }));
    }

    /// The view has this many rows, and shows functions of the total or not.
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
            self.know();
        }
        self.row = self.row.min(self.len().saturating_sub(1));
        self.offset = self.offset.min(self.len().saturating_sub(self.height));
    }

    fn know(&mut self) {
        let names = self.selection().map(|(_, line)| (line.row.short.clone(), line.row.module.clone()));
        if names.is_some() && names != self.known {
            self.known = names;
        }
    }

    fn find_selected(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        // Most often it is where it was.
        let is_it = |index: &usize| self.line(*index).is_some_and(|line| line.row.full == selected);
        Some(self.row).filter(is_it).or_else(|| (0..self.len()).find(is_it))
    }

    /// Rows that can be seen by scrolling.
    pub fn len(&self) -> usize {
        let rows = if self.with_total { self.entries.len() } else { self.in_window };
        rows.min(self.most.unwrap_or(rows))
    }

    /// Shows so many rows at most; `None` for all.
    pub fn show_at_most(&mut self, rows: Option<usize>) {
        self.most = rows;
        self.follow();
    }

    /// Selects the first row whose name is the pattern's text, or else matches, or else matches with its arguments; whether there is one.
    pub fn select_first(&mut self, pattern: &Pattern) -> bool {
        let text = pattern.text();
        let kinds: [&dyn Fn(&Row) -> bool; 3] =
            [&|row| *row.short == *text || bare(&row.short) == text, &|row| pattern.matches(&row.short), &|row| {
                pattern.matches(&row.full)
            }];
        let first = |is_it: &&dyn Fn(&Row) -> bool| {
            (0..self.len()).find(|&index| self.line(index).is_some_and(|line| is_it(line.row)))
        };
        let found = kinds.iter().find_map(first);
        found.inspect(|&index| self.select(index)).is_some()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A row.
    pub fn line(&self, index: usize) -> Option<Line<'_>> {
        let answer = self.answer.as_ref()?;
        let entry = self.entries.get(index).filter(|_| index < self.len())?;
        let window = entry.window.and_then(|index| answer.window.rows.get(index));
        let total = entry.total.and_then(|index| answer.total.rows.get(index));
        let trend = entry.window.and_then(|index| answer.trends.of(index));
        let numbers = |row: Option<&Row>| row.map_or((0, 0), |row| (row.flat_ns, row.cum_ns));
        Some(Line {
            row: window.or(total)?,
            window: numbers(window),
            total: numbers(total),
            changes: (window.and_then(|row| row.changes), total.and_then(|row| row.changes)),
            sum_ns: entry.sum_ns,
            trend,
        })
    }

    /// The rows in view, with their indices.
    pub fn view(&self) -> impl Iterator<Item = (usize, Line<'_>)> {
        (self.offset..self.offset.saturating_add(self.height)).map_while(|index| Some((index, self.line(index)?)))
    }

    /// The selected function's row, when it has one.
    pub fn selection(&self) -> Option<(usize, Line<'_>)> {
        let line = self.line(self.row)?;
        (Some(line.row.full.as_str()) == self.selected.as_deref()).then_some((self.row, line))
    }

    /// Full name of the selected function, whether it has a row now or not.
    pub fn selected_name(&self) -> Option<&str> {
        self.selected.as_deref()
    }

    /// Whether the selection is there to stay.
    pub fn is_firm(&self) -> bool {
        self.firm
    }

    /// Short name and module of the selected function, as last seen.
    pub fn selected_names(&self) -> Option<(&str, &str)> {
        self.known.as_ref().map(|(short, module)| (short.as_str(), module.as_str()))
    }

    /// Selects a function by its full name, whether it has a row now or not.
    pub fn select_name(&mut self, full: &str) {
        if self.selected.as_deref() != Some(full) {
            self.selected = Some(full.to_owned());
            self.known = None;
            self.firm = true;
            if let Some(row) = self.find_selected() {
                self.row = row;
                self.know();
                self.reveal();
            }
        }
    }

    /// Rows are something else from now on: what was selected says nothing about them.
    pub fn forget(&mut self) {
        (self.selected, self.known, self.firm) = (None, None, false);
        (self.row, self.offset) = (0, 0);
    }

    /// Columns by which names are moved.
    pub fn pan(&self) -> u16 {
        self.pan
    }

    /// Whether there are more rows than fit into the view.
    pub fn is_cut(&self) -> bool {
        self.len() > self.height
    }

    /// First row in view.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Selects a row.
    pub fn select(&mut self, index: usize) {
        let index = index.min(self.len().saturating_sub(1));
        let Some(line) = self.line(index) else { return };
        self.selected = Some(line.row.full.to_string());
        self.row = index;
        self.firm = true;
        self.know();
        self.reveal();
    }

    /// Scrolls as little as it takes to see the selection.
    fn reveal(&mut self) {
        self.offset = self.offset.min(self.row).max((self.row + 1).saturating_sub(self.height.max(1)));
    }

    /// Moves cut names to the side.
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

    /// Selects the next row in a direction whose name, as it is written, matches, around the end; whether there is one.
    /// Direction 0 looks at the selected row first.
    pub fn find(&mut self, pattern: &Pattern, names: NameStyle, direction: i8) -> bool {
        let length = self.len();
        let step = if direction < 0 { length.saturating_sub(1) } else { 1 };
        let start = if direction == 0 { self.row } else { self.row + step };
        let found =
            (0..length).map(|count| (start + count * step) % length).find(|&index| self.matches(pattern, names, index));
        found.inspect(|&index| self.select(index)).is_some()
    }

    /// Rows whose name, as it is written, matches.
    pub fn count(&self, pattern: &Pattern, names: NameStyle) -> usize {
        (0..self.len()).filter(|&index| self.matches(pattern, names, index)).count()
    }

    fn matches(&self, pattern: &Pattern, names: NameStyle, index: usize) -> bool {
        self.line(index).is_some_and(|line| pattern.matches(names.of(line.row)))
    }

    /// What is selected, to come back to it.
    pub fn mark(&self) -> Mark {
        Mark { selected: self.selected.clone(), row: self.row, offset: self.offset }
    }

    /// Back to a mark.
    pub fn return_to(&mut self, mark: Mark) {
        (self.selected, self.row, self.offset) = (mark.selected, mark.row, mark.offset);
        self.follow();
    }
}

/// A place in the list.
#[derive(Clone, Debug)]
pub struct Mark {
    selected: Option<String>,
    row: usize,
    offset: usize,
}
