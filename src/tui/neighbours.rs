//! The callers pane as it is looked at: the cursor among callers and callees, and the functions that were the centre
//! before, as a browser keeps its pages.
//!
//! The heaviest stand next to the centre on both sides, so that a light one that comes or goes moves nobody.

use super::action::Motion;
use super::list::NameStyle;
use crate::tally::callers::{Callers, Edge};
use crate::tally::query::Pattern;

/// Centres to go back to, at most.
const HISTORY: usize = 100;

/// The state of the pane.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    /// Full name of the centre that the cursor is for.
    centre: String,
    /// Full name under the cursor; `None` for the centre.
    name: Option<String>,
    /// Where that is, or was when it was last seen: callers are -1, -2 … by weight, callees 1, 2 …, the centre 0.
    row: isize,
    /// Rows scrolled out on each side, next to the centre.
    above: usize,
    below: usize,
    /// Rows in view on each side.
    rooms: (usize, usize),
    past: Vec<String>,
    future: Vec<String>,
}

impl Neighbours {
    /// The view has so many rows above and below the centre.
    pub fn fit(&mut self, above: usize, below: usize) {
        if self.rooms != (above, below) {
            self.rooms = (above, below);
            self.reveal();
        }
    }

    /// Takes in new numbers.
    pub fn take(&mut self, callers: &Callers) {
        if callers.full != self.centre {
            self.centre.clone_from(&callers.full);
            (self.name, self.row, self.above, self.below) = (None, 0, 0, 0);
        }
        let Some(name) = &self.name else { return };
        let side = if self.row < 0 { &callers.callers } else { &callers.callees };
        match side.iter().position(|edge| edge.full == *name) {
            Some(index) => self.row = (index as isize + 1) * self.row.signum(),
            None => self.row = self.row.clamp(-(callers.callers.len() as isize), callers.callees.len() as isize),
        }
        if self.row == 0 {
            self.name = None;
        }
    }

    /// The row under the cursor: callers are below 0, callees above, the centre 0.
    pub fn row(&self) -> isize {
        self.row
    }

    /// Rows scrolled out above and below the centre.
    pub fn scrolled(&self) -> (usize, usize) {
        (self.above, self.below)
    }

    /// The caller or callee under the cursor.
    pub fn edge<'a>(&self, callers: &'a Callers) -> Option<&'a Edge> {
        edge(callers, self.row)
    }

    /// Puts the cursor on a row.
    pub fn stand(&mut self, callers: &Callers, row: isize) {
        self.row = row.clamp(-(callers.callers.len() as isize), callers.callees.len() as isize);
        self.name = edge(callers, self.row).map(|edge| edge.full.to_string());
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
    pub fn go(&mut self, motion: Motion, callers: &Callers) {
        let page = self.rooms.0.max(self.rooms.1).max(1) as isize;
        let row = match motion {
            Motion::Rows(rows) => self.row.saturating_add(rows.into()),
            Motion::Pages(pages) => self.row.saturating_add(isize::from(pages) * page),
            Motion::First => isize::MIN + 1,
            Motion::Last => isize::MAX,
            Motion::Columns(_) => return,
        };
        self.stand(callers, row);
    }

    /// Leaves the centre `from` for another, to come back to it.
    pub fn leave(&mut self, from: Option<&str>) {
        let Some(from) = from else { return };
        if self.past.len() == HISTORY {
            self.past.remove(0);
        }
        self.past.push(from.to_owned());
        self.future.clear();
    }

    /// Whether there is one to go back to.
    pub fn has_past(&self) -> bool {
        !self.past.is_empty()
    }

    /// The centre before this one.
    pub fn back(&mut self, from: Option<&str>) -> Option<String> {
        let centre = self.past.pop()?;
        self.future.extend(from.map(str::to_owned));
        Some(centre)
    }

    /// The centre that was left by going back.
    pub fn forward(&mut self, from: Option<&str>) -> Option<String> {
        let centre = self.future.pop()?;
        self.past.extend(from.map(str::to_owned));
        Some(centre)
    }

    /// Puts the cursor on the next row whose name matches, from top to bottom and around the end; whether there is one.
    /// Direction 0 looks at the row under the cursor first.
    pub fn find(&mut self, pattern: &Pattern, names: NameStyle, direction: i8, callers: &Callers) -> bool {
        let (first, count) = (-(callers.callers.len() as isize), rows(callers));
        let here = self.row - first;
        let step = if direction < 0 { -1 } else { 1 };
        let start = if direction == 0 { here } else { here + step };
        let row = |turn: isize| first + (start + turn * step).rem_euclid(count);
        let found = (0..count).map(row).find(|&row| matches(pattern, names, callers, row));
        found.inspect(|&row| self.stand(callers, row)).is_some()
    }
}

/// Rows whose name matches.
pub fn count(pattern: &Pattern, names: NameStyle, callers: &Callers) -> usize {
    let first = -(callers.callers.len() as isize);
    (first..first + rows(callers)).filter(|&row| matches(pattern, names, callers, row)).count()
}

fn rows(callers: &Callers) -> isize {
    (callers.callers.len() + 1 + callers.callees.len()) as isize
}

/// The caller or callee at a row.
pub fn edge(callers: &Callers, row: isize) -> Option<&Edge> {
    let side = if row < 0 { &callers.callers } else { &callers.callees };
    side.get(row.unsigned_abs().checked_sub(1)?)
}

fn matches(pattern: &Pattern, names: NameStyle, callers: &Callers, row: isize) -> bool {
    let (full, short) = edge(callers, row)
        .map_or((callers.full.as_str(), callers.short.as_str()), |edge| (edge.full.as_str(), edge.short.as_str()));
    pattern.matches(names.pick(full, short))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(names: &str) -> Vec<Edge> {
        let edge = |(index, name): (usize, &str)| Edge {
            full: name.into(),
            short: name.into(),
            module: "server".into(),
            inlined: false,
            weight_ns: 100 - index as u64,
            change: None,
        };
        names.split_whitespace().enumerate().map(edge).collect()
    }

    fn callers(centre: &str, callers: &str, callees: &str) -> Callers {
        let (callers, callees) = (edges(callers), edges(callees));
        Callers { full: centre.to_owned(), short: centre.into(), callers, callees, ..Callers::default() }
    }

    fn under<'a>(view: &Neighbours, callers: &'a Callers) -> &'a str {
        view.edge(callers).map_or("", |edge| &edge.full)
    }

    #[test]
    fn the_cursor_keeps_to_a_name() {
        let mut view = Neighbours::default();
        view.fit(3, 3);
        let before = callers("f", "a b", "x y z");
        view.take(&before);
        assert_eq!(under(&view, &before), "", "at first it stands on the centre");
        view.go(Motion::Rows(2), &before);
        assert_eq!(under(&view, &before), "y");
        let after = callers("f", "a b", "y z w x");
        view.take(&after);
        assert_eq!(under(&view, &after), "y", "sorted anew, it is still there");
        view.take(&callers("f", "a", ""));
        assert_eq!(view.row(), 0);
        view.take(&before);
        view.go(Motion::Rows(-9), &before);
        assert_eq!(under(&view, &before), "b", "the lightest caller is farthest from the centre");
        view.take(&callers("g", "a b", "x"));
        assert_eq!(view.row(), 0, "another centre");
    }

    #[test]
    fn each_side_scrolls_by_itself() {
        let mut view = Neighbours::default();
        view.fit(2, 2);
        let many = callers("f", "a b c d e", "v w x y z");
        view.take(&many);
        view.go(Motion::Last, &many);
        assert_eq!((under(&view, &many), view.scrolled()), ("z", (0, 3)));
        view.go(Motion::Rows(-1), &many);
        assert_eq!(view.scrolled(), (0, 3));
        view.go(Motion::First, &many);
        assert_eq!((under(&view, &many), view.scrolled()), ("e", (3, 0)));
    }

    #[test]
    fn centres_are_gone_back_to() {
        let mut view = Neighbours::default();
        assert_eq!(view.back(Some("a")), None);
        view.leave(Some("a"));
        view.leave(Some("b"));
        assert_eq!(view.back(Some("c")).as_deref(), Some("b"));
        assert_eq!(view.back(Some("b")).as_deref(), Some("a"));
        assert_eq!(view.forward(Some("a")).as_deref(), Some("b"));
        view.leave(Some("b"));
        assert_eq!(view.forward(Some("z")), None, "a new way makes the old one forgotten");
        for _ in 0..500 {
            view.leave(Some("x"));
        }
        assert!(view.past.len() <= HISTORY);
    }

    #[test]
    fn names_are_found_around_the_end() {
        let mut view = Neighbours::default();
        view.fit(5, 5);
        let all = callers("centre", "ab b", "x xb");
        view.take(&all);
        let pattern = Pattern::new("b").unwrap();
        assert_eq!(count(&pattern, NameStyle::Full, &all), 3);
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
