//! State of the callers pane: the rows of the tree of callers and callees, the cursor among them,
//! and a history of previously selected functions with back and forward, as in a browser.
//!
//! The selected function is the center. The heaviest callers and callees are next to it, so that a
//! light one that appears or disappears does not move the others. The callers of a caller are
//! behind it, seen from the center.

use crate::tally::call_paths::CallPath;
use crate::tally::callers::{CallEdge, Callers};
use crate::tally::query::Pattern;
use crate::tui::action::Motion;
use crate::tui::name_style::NameStyle;

/// Maximum length of the history.
const HISTORY: usize = 100;
/// Maximum number of rows that are unfolded at a time.
const MAX_UNFOLDED: usize = 200;

/// A row of the tree.
#[derive(Clone, Debug)]
pub struct TreeRow {
    /// The way to it from the center.
    pub path: CallPath,
    /// The same as positions in the answer.
    positions: Vec<usize>,
    /// Whether it was unfolded.
    pub is_unfolded: bool,
}

impl TreeRow {
    /// Number of rows between it and the center.
    pub fn depth(&self) -> usize {
        self.positions.len().saturating_sub(1)
    }
}

/// The state of the pane.
#[derive(Clone, Debug, Default)]
pub struct CallersState {
    /// Full name of the center that the cursor belongs to.
    centre: String,
    /// The row under the cursor; `None` for the center.
    at: Option<CallPath>,
    /// Current or last known number of that row: callers are -1, -2, … from the center, callees 1,
    /// 2, …, the center 0.
    row: isize,
    /// The rows of callers and of callees, from the center.
    rows: [Vec<TreeRow>; 2],
    unfolded: Vec<CallPath>,
    /// Rows scrolled out above and below, next to the center.
    above: usize,
    below: usize,
    /// Visible rows above and below.
    rooms: (usize, usize),
    past: Vec<String>,
    future: Vec<String>,
}

impl CallersState {
    /// Sets the number of visible rows above and below the center.
    pub fn fit(&mut self, above: usize, below: usize) {
        if self.rooms != (above, below) {
            self.rooms = (above, below);
            self.reveal();
        }
    }

    /// Updates rows and cursor for a new answer.
    pub fn take(&mut self, callers: &Callers) {
        if callers.full != self.centre {
            self.centre.clone_from(&callers.full);
            (self.at, self.row, self.above, self.below) = (None, 0, 0, 0);
            self.unfolded.clear();
        }
        for (is_callee, edges) in [(false, &callers.callers), (true, &callers.callees)] {
            let mut rows = Vec::new();
            let root = CallPath { is_callee, names: Vec::new() };
            self.add_rows(&mut rows, edges, (&root, &[]));
            self.rows[usize::from(is_callee)] = rows;
        }
        let Some(at) = &self.at else { return };
        match self.rows[usize::from(at.is_callee)].iter().position(|row| row.path == *at) {
            Some(index) => self.row = (index as isize + 1) * self.row.signum(),
            None => self.move_to(self.row),
        }
    }

    /// Adds the rows behind a path, in their order.
    fn add_rows(&self, rows: &mut Vec<TreeRow>, edges: &[CallEdge], (path, positions): (&CallPath, &[usize])) {
        for (position, edge) in edges.iter().enumerate() {
            let mut path = path.clone();
            path.names.push(edge.full.clone());
            let positions = [positions, &[position]].concat();
            let is_unfolded = self.unfolded.contains(&path);
            rows.push(TreeRow { path: path.clone(), positions: positions.clone(), is_unfolded });
            if is_unfolded {
                self.add_rows(rows, &edge.children, (&path, &positions));
            }
        }
    }

    /// The paths of the rows that are unfolded, for the question.
    pub fn unfolded(&self) -> &[CallPath] {
        &self.unfolded
    }

    /// The rows of callers and of callees, from the center.
    pub fn tree_rows(&self) -> impl Iterator<Item = &TreeRow> {
        self.rows.iter().flatten()
    }

    /// The cursor's row: negative for callers, positive for callees, 0 for the center.
    pub fn row(&self) -> isize {
        self.row
    }

    /// Rows scrolled out above and below the center.
    pub fn scrolled(&self) -> (usize, usize) {
        (self.above, self.below)
    }

    /// The row with this number.
    pub fn tree_row(&self, row: isize) -> Option<&TreeRow> {
        self.rows[usize::from(row > 0)].get(row.unsigned_abs().checked_sub(1)?)
    }

    /// The caller or callee of a row.
    pub fn edge_of<'a>(&self, callers: &'a Callers, row: &TreeRow) -> Option<&'a CallEdge> {
        let (first, rest) = row.positions.split_first()?;
        let side = if row.path.is_callee { &callers.callees } else { &callers.callers };
        let edge = rest.iter().try_fold(side.get(*first)?, |edge, &position| edge.children.get(position));
        edge.filter(|edge| row.path.names.last() == Some(&edge.full))
    }

    /// The caller or callee at a row.
    pub fn edge_at<'a>(&self, callers: &'a Callers, row: isize) -> Option<&'a CallEdge> {
        self.edge_of(callers, self.tree_row(row)?)
    }

    /// The caller or callee under the cursor.
    pub fn edge<'a>(&self, callers: &'a Callers) -> Option<&'a CallEdge> {
        self.edge_at(callers, self.row)
    }

    /// Moves the cursor to a row.
    pub fn move_to(&mut self, row: isize) {
        let [callers, callees] = [0, 1].map(|side: usize| self.rows[side].len() as isize);
        self.row = row.clamp(-callers, callees);
        self.at = self.tree_row(self.row).map(|row| row.path.clone());
        self.reveal();
    }

    fn reveal(&mut self) {
        let (above, below) = self.rooms;
        let see = |scrolled: usize, room: usize, row: isize| {
            let row = row.max(0) as usize;
            if row == 0 { 0 } else { scrolled.min(row - 1).max(row.saturating_sub(room.max(1))) }
        };
        (self.above, self.below) = (see(self.above, above, -self.row), see(self.below, below, self.row));
    }

    /// Moves the cursor.
    pub fn go(&mut self, motion: Motion) {
        let page = self.rooms.0.max(self.rooms.1).max(1) as isize;
        let row = match motion {
            Motion::Rows(rows) => self.row.saturating_add(rows.into()),
            Motion::Pages(pages) => self.row.saturating_add(isize::from(pages) * page),
            Motion::First => isize::MIN + 1,
            Motion::Last => isize::MAX,
            Motion::Columns(_) => return,
        };
        self.move_to(row);
    }

    /// Unfolds or folds the row under the cursor; returns whether there is one.
    pub fn toggle(&mut self) -> bool {
        let Some(row) = self.tree_row(self.row) else { return false };
        let (path, is_unfolded) = (row.path.clone(), row.is_unfolded);
        if is_unfolded {
            self.fold(&path)
        } else {
            self.unfold(path)
        }
        true
    }

    /// Unfolds the row under the cursor, or moves to the first row behind it. Returns whether the
    /// cursor is on a row.
    pub fn step_out(&mut self) -> bool {
        let Some(row) = self.tree_row(self.row) else { return false };
        let next = self.row + self.row.signum();
        let depth = row.depth();
        match row.is_unfolded {
            false => self.unfold(row.path.clone()),
            true if self.tree_row(next).is_some_and(|behind| behind.depth() > depth) => self.move_to(next),
            true => {}
        }
        true
    }

    /// Folds the row under the cursor, or moves to the one that it is behind. Returns whether the
    /// cursor is on a row.
    pub fn step_in(&mut self) -> bool {
        let Some(row) = self.tree_row(self.row) else { return false };
        if row.is_unfolded {
            self.fold(&row.path.clone());
            return true;
        }
        let (depth, side) = (row.depth(), self.row.signum());
        let before = (1..self.row.abs()).rev().map(|number| number * side);
        let parent = before.into_iter().find(|&row| self.tree_row(row).is_some_and(|row| row.depth() < depth));
        if let Some(parent) = parent {
            self.move_to(parent);
        }
        true
    }

    fn unfold(&mut self, path: CallPath) {
        if self.unfolded.len() < MAX_UNFOLDED {
            self.mark_unfolded(&path, true);
            self.unfolded.push(path);
        }
    }

    fn fold(&mut self, path: &CallPath) {
        let is_behind = |other: &CallPath| other.is_callee == path.is_callee && other.names.starts_with(&path.names);
        self.unfolded.retain(|other| !is_behind(other));
        let side = &mut self.rows[usize::from(path.is_callee)];
        side.retain(|row| row.path == *path || !is_behind(&row.path));
        self.mark_unfolded(path, false);
        self.move_to(self.row);
    }

    /// Marks a row. The next answer has the rows behind it.
    fn mark_unfolded(&mut self, path: &CallPath, is_unfolded: bool) {
        let side = &mut self.rows[usize::from(path.is_callee)];
        if let Some(row) = side.iter_mut().find(|row| row.path == *path) {
            row.is_unfolded = is_unfolded;
        }
    }

    /// Adds the center `from` to the history before another function is selected.
    pub fn leave(&mut self, from: Option<&str>) {
        let Some(from) = from else { return };
        if self.past.len() == HISTORY {
            self.past.remove(0);
        }
        self.past.push(from.to_owned());
        self.future.clear();
    }

    /// Whether there is a previous function.
    pub fn has_past(&self) -> bool {
        !self.past.is_empty()
    }

    /// Goes back in the history; returns the previous function.
    pub fn back(&mut self, from: Option<&str>) -> Option<String> {
        let centre = self.past.pop()?;
        self.future.extend(from.map(str::to_owned));
        Some(centre)
    }

    /// Goes forward in the history; returns the function that `back` left.
    pub fn forward(&mut self, from: Option<&str>) -> Option<String> {
        let centre = self.future.pop()?;
        self.past.extend(from.map(str::to_owned));
        Some(centre)
    }

    /// Moves the cursor to the next row whose name matches, wrapping around at the end; returns
    /// whether there is one. Direction 0 starts at the row under the cursor.
    pub fn find(&mut self, pattern: &Pattern, names: NameStyle, direction: i8, callers: &Callers) -> bool {
        let (first, count) = self.numbers();
        let here = self.row - first;
        let step = if direction < 0 { -1 } else { 1 };
        let start = if direction == 0 { here } else { here + step };
        let row = |turn: isize| first + (start + turn * step).rem_euclid(count);
        let found = (0..count).map(row).find(|&row| self.matches(pattern, names, callers, row));
        found.inspect(|&row| self.move_to(row)).is_some()
    }

    /// Number of rows whose name matches.
    pub fn count(&self, pattern: &Pattern, names: NameStyle, callers: &Callers) -> usize {
        let (first, count) = self.numbers();
        (first..first + count).filter(|&row| self.matches(pattern, names, callers, row)).count()
    }

    /// The first number of a row, and the number of rows.
    fn numbers(&self) -> (isize, isize) {
        let [callers, callees] = [0, 1].map(|side: usize| self.rows[side].len() as isize);
        (-callers, callers + 1 + callees)
    }

    fn matches(&self, pattern: &Pattern, names: NameStyle, callers: &Callers, row: isize) -> bool {
        let edge = self.edge_at(callers, row);
        let (full, short) = edge
            .map_or((callers.full.as_str(), callers.short.as_str()), |edge| (edge.full.as_str(), edge.short.as_str()));
        pattern.matches(names.pick(full, short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::text::Text;

    fn edges(names: &str) -> Vec<CallEdge> {
        let edge = |(index, name): (usize, &str)| CallEdge {
            full: name.into(),
            short: name.into(),
            module: "server".into(),
            is_own: true,
            inlined: false,
            weight_ns: 100 - index as u64,
            change: None,
            before_ns: 0,
            children: Vec::new(),
        };
        names.split_whitespace().enumerate().map(edge).collect()
    }

    fn callers(centre: &str, callers: &str, callees: &str) -> Callers {
        let (callers, callees) = (edges(callers), edges(callees));
        Callers { full: centre.to_owned(), short: centre.into(), callers, callees, ..Callers::default() }
    }

    fn under<'a>(view: &CallersState, callers: &'a Callers) -> &'a str {
        view.edge(callers).map_or("", |edge| &edge.full)
    }

    /// The rows of callees, each with its depth.
    fn callees(view: &CallersState) -> String {
        let row = |row: &TreeRow| format!("{}{}", row.depth(), row.path.names.last().map_or("", Text::as_str));
        view.rows[1].iter().map(row).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_cursor_follows_its_name() {
        let mut view = CallersState::default();
        view.fit(3, 3);
        let before = callers("f", "a b", "x y z");
        view.take(&before);
        assert_eq!(under(&view, &before), "", "initially the cursor is on the center");
        view.go(Motion::Rows(2));
        assert_eq!(under(&view, &before), "y");
        let after = callers("f", "a b", "y z w x");
        view.take(&after);
        assert_eq!(under(&view, &after), "y", "the cursor follows the name when rows are re-sorted");
        view.take(&callers("f", "a", ""));
        assert_eq!(view.row(), 0);
        view.take(&before);
        view.go(Motion::Rows(-9));
        assert_eq!(under(&view, &before), "b", "the lightest caller is farthest from the center");
        view.take(&callers("g", "a b", "x"));
        assert_eq!(view.row(), 0, "a new center resets the cursor");
    }

    #[test]
    fn callers_and_callees_scroll_independently() {
        let mut view = CallersState::default();
        view.fit(2, 2);
        let many = callers("f", "a b c d e", "v w x y z");
        view.take(&many);
        view.go(Motion::Last);
        assert_eq!((under(&view, &many), view.scrolled()), ("z", (0, 3)));
        view.go(Motion::Rows(-1));
        assert_eq!(view.scrolled(), (0, 3));
        view.go(Motion::First);
        assert_eq!((under(&view, &many), view.scrolled()), ("e", (3, 0)));
    }

    #[test]
    fn rows_unfold_over_all_levels() {
        let mut view = CallersState::default();
        view.fit(9, 9);
        let mut tree = callers("f", "a", "x y");
        view.take(&tree);
        assert!(!view.toggle(), "the center does not unfold");
        view.go(Motion::Rows(1));
        assert!(view.toggle());
        assert_eq!(view.unfolded()[0].names, [Text::from("x")]);
        assert_eq!(callees(&view), "0x 0y", "the answer has the rows");
        tree.callees[0].children = edges("p q");
        view.take(&tree);
        assert_eq!(callees(&view), "0x 1p 1q 0y");
        assert!(view.step_out() && under(&view, &tree) == "p", "Right moves on from what is unfolded");
        assert!(view.step_out() && view.unfolded().len() == 2);
        tree.callees[0].children[0].children = edges("deep");
        view.take(&tree);
        assert_eq!(callees(&view), "0x 1p 2deep 1q 0y");
        view.go(Motion::Rows(2));
        assert_eq!(under(&view, &tree), "q");
        assert!(view.step_in() && under(&view, &tree) == "x", "Left goes to the row that it is behind");
        assert!(view.step_in());
        assert_eq!((callees(&view).as_str(), view.unfolded().len()), ("0x 0y", 0), "folding folds all behind");
        view.toggle();
        view.take(&callers("g", "", "x"));
        assert!(view.unfolded().is_empty(), "another center begins anew");
    }

    #[test]
    fn history_goes_back_and_forward() {
        let mut view = CallersState::default();
        assert_eq!(view.back(Some("a")), None);
        view.leave(Some("a"));
        view.leave(Some("b"));
        assert_eq!(view.back(Some("c")).as_deref(), Some("b"));
        assert_eq!(view.back(Some("b")).as_deref(), Some("a"));
        assert_eq!(view.forward(Some("a")).as_deref(), Some("b"));
        view.leave(Some("b"));
        assert_eq!(view.forward(Some("z")), None, "a new selection clears the forward history");
        for _ in 0..500 {
            view.leave(Some("x"));
        }
        assert!(view.past.len() <= HISTORY);
    }

    #[test]
    fn search_wraps_around() {
        let mut view = CallersState::default();
        view.fit(5, 5);
        let all = callers("centre", "ab b", "x xb");
        view.take(&all);
        let pattern = Pattern::new("b").unwrap();
        assert_eq!(view.count(&pattern, NameStyle::Full, &all), 3);
        let mut seen = Vec::new();
        for _ in 0..4 {
            assert!(view.find(&pattern, NameStyle::Full, 1, &all));
            seen.push(under(&view, &all));
        }
        assert_eq!(seen, ["xb", "b", "ab", "xb"]);
        assert!(view.find(&pattern, NameStyle::Full, -1, &all));
        assert_eq!(under(&view, &all), "ab");
        assert!(!view.find(&Pattern::new("nobody").unwrap(), NameStyle::Full, 1, &all));
    }
}
