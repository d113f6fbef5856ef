//! State of the flame graph: orientation, zoom and cursor.
//!
//! A box is identified by its path of names, not by its position, so the cursor stays on its box
//! after a refresh. The cursor belongs to a selection: when another pane selects a different
//! function, the cursor moves to the widest box of that function.
//!
//! A row may be a folded chain of boxes; the cursor still belongs to one of them.

use std::sync::Arc;

use crate::tally::flame::{Flame, FlameBox, FlameQuery};
use crate::tally::query::Pattern;
use crate::tui::action::Motion;
use crate::tui::name_style::NameStyle;
use crate::tui::pane::flame::folds::TrunkFolds;
use crate::tui::pane::flame::tiling::{self, Tile, TileKind};

pub use crate::tui::theme::flame_style::Colour;

/// The box under the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursor {
    /// Full names from the shown root.
    path: Vec<String>,
    /// The selected function at the time the cursor was placed.
    selected: Option<String>,
}

/// The state of the pane.
#[derive(Clone, Debug, Default)]
pub struct FlameState {
    /// Whether stacks start at the leaves.
    pub bottom_up: bool,
    /// Whether the root is at the bottom of the pane.
    pub root_below: bool,
    /// Meaning of colours.
    pub colour: Colour,
    /// Zoom steps, each a path relative to the previous one.
    zoom: Vec<Vec<String>>,
    cursor: Option<Cursor>,
    /// Number of levels scrolled out next to the root.
    first: usize,
    /// Whether the first visible level is final: chosen by the user or from enough samples.
    placed: bool,
    columns: u16,
    rows: usize,
    folds: TrunkFolds,
    /// Whether the next answer scrolls to the cursor.
    reveals_cursor: bool,
}

/// The effect of Enter on the box under the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlameEnter {
    /// It is the root now.
    Zoomed,
    /// Its chain was unfolded, or folded again. The cursor is on the first box.
    Folded,
    /// It is the root already.
    Nothing,
}

impl FlameState {
    /// Sets the size of the pane.
    pub fn fit(&mut self, columns: u16, rows: usize) {
        (self.columns, self.rows) = (columns, rows);
    }

    /// The query for the session.
    pub fn query(&self) -> FlameQuery {
        // A box of half a cell may be rounded up to one. Powers of two keep the query stable while
        // the terminal is resized.
        let columns = u32::from(self.columns).max(1).next_power_of_two();
        let least_share = 0.5 / f64::from(columns);
        FlameQuery { bottom_up: self.bottom_up, zoom: self.zoom.concat(), least_share }
    }

    /// Full names from the root to the shown root.
    pub fn zoom(&self) -> impl Iterator<Item = &str> {
        self.zoom.iter().flatten().map(String::as_str)
    }

    /// First visible level.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The box that is shown as root; `None` if it has no samples at the moment.
    pub fn root(&self, flame: &Flame) -> Option<usize> {
        flame.boxes.first()?;
        let mut index = 0;
        for name in self.zoom() {
            index = flame.child_of(index, name)?;
        }
        Some(index)
    }

    /// The number of levels of a new answer.
    pub fn count_levels(&mut self, flame: &Arc<Flame>) -> usize {
        self.folds.update(flame);
        self.tiles(flame).last().map_or(0, |tile| tile.depth + 1)
    }

    /// Updates the visible levels for a new answer, until an answer is `settled`, that is, based on
    /// enough samples. Levels with a single box of full width carry no information and are scrolled
    /// out if others need the room.
    pub fn take(&mut self, flame: &Arc<Flame>, settled: bool) {
        self.folds.update(flame);
        if !self.placed && self.rows > 0 {
            self.place(flame);
            self.placed = settled;
        }
        if std::mem::take(&mut self.reveals_cursor)
            && let Some(cursor) = &self.cursor
        {
            let tiles = self.tiles(flame);
            if let Some(tile) = self.at(flame, &tiles, cursor.selected.as_deref()) {
                self.see(tile.depth);
            }
        }
    }

    fn place(&mut self, flame: &Flame) {
        let tiles = self.tiles(flame);
        let levels = tiles.last().map_or(0, |tile| tile.depth + 1);
        // A narrow box beside it is tolerated: the main thread that waits for the others.
        let wide = |tile: &&Tile| u32::from(tile.width) * 50 >= u32::from(self.columns) * 49;
        let chain = tiles.iter().filter(wide).map(|tile| tile.depth).max().unwrap_or(0);
        self.first = chain.min(levels.saturating_sub(self.rows));
    }

    /// Scrolls to the widest box of a function that another pane selected, by the least amount.
    pub fn reveal(&mut self, flame: &Flame, selected: Option<&str>) {
        let tiles = self.tiles(flame);
        if let Some(tile) = self.at(flame, &tiles, selected).filter(|tile| tile.depth > 0) {
            self.see(tile.depth);
        }
    }

    fn see(&mut self, depth: usize) {
        self.first = self.first.min(depth).max((depth + 1).saturating_sub(self.rows.max(1)));
        self.placed = true;
    }

    /// The boxes on the screen, visible or scrolled out.
    pub fn tiles(&self, flame: &Flame) -> Vec<Tile> {
        let Some(root) = self.root(flame) else { return Vec::new() };
        let mut tiles = tiling::tiles(flame, root, self.columns, &self.folds);
        if self.bottom_up {
            tiles.iter_mut().for_each(|tile| tile.focus = tile.index);
        }
        tiles
    }

    /// The tile under the cursor. Its `focus` is the box under the cursor.
    pub fn at(&self, flame: &Flame, tiles: &[Tile], selected: Option<&str>) -> Option<Tile> {
        let root = *tiles.first()?;
        match &self.cursor {
            Some(cursor) if cursor.selected.as_deref() == selected => {
                let (mut index, mut found) = (root.index, root);
                for name in &cursor.path {
                    // A box without samples may come back; until then its parent has the cursor.
                    let Some(next) = flame.child_of(index, name) else { break };
                    let holder = Some(found).filter(|tile| tile.contains(flame, next));
                    let holder = holder.or_else(|| tiles.iter().copied().find(|tile| tile.contains(flame, next)));
                    let Some(tile) = holder else { break };
                    (index, found) = (next, Tile { focus: next, ..tile });
                }
                Some(found)
            }
            _ => {
                let selected = selected?;
                let named = tiles.iter().filter_map(|tile| {
                    let focus = tile.boxes(flame).find(|&index| flame.boxes[index].full == selected)?;
                    Some(Tile { focus, ..*tile })
                });
                Some(named.max_by_key(|tile| (tile.width, std::cmp::Reverse(tile.index))).unwrap_or(root))
            }
        }
    }

    /// Moves the cursor to a box; returns the function to select.
    pub fn stand(&mut self, flame: &Flame, tile: Tile, selected: Option<&str>) -> Option<String> {
        let path = self.path(flame, tile.focus);
        let selected = path.last().cloned().or_else(|| selected.map(str::to_owned));
        self.cursor = Some(Cursor { path, selected: selected.clone() });
        self.see(tile.depth);
        selected
    }

    /// Full names from the shown root to a box.
    fn path(&self, flame: &Flame, mut index: usize) -> Vec<String> {
        let mut path = Vec::new();
        let root = self.root(flame).unwrap_or(0);
        while index > root {
            path.push(flame.boxes[index].full.to_string());
            index = flame.boxes[index].parent.min(index - 1);
        }
        path.reverse();
        path
    }

    /// Moves the cursor; returns the function to select.
    pub fn go(&mut self, motion: Motion, flame: &Flame, selected: Option<&str>) -> Option<String> {
        let tiles = self.tiles(flame);
        let at = self.at(flame, &tiles, selected).or(tiles.first().copied())?;
        let deeper = |steps: isize| if self.root_below { -steps } else { steps };
        let page = self.rows.saturating_sub(1).max(1) as isize;
        let target = match motion {
            Motion::Rows(rows) => climb(flame, &tiles, at, deeper(rows.into())),
            Motion::Pages(pages) => climb(flame, &tiles, at, deeper(isize::from(pages) * page)),
            Motion::First => climb(flame, &tiles, at, isize::MIN),
            Motion::Last => climb(flame, &tiles, at, isize::MAX),
            Motion::Columns(steps) => {
                let level: Vec<Tile> = tiles.iter().filter(|tile| tile.depth == at.depth).copied().collect();
                let here = level.iter().position(|tile| tile.index == at.index)?;
                level[here.saturating_add_signed(steps.into()).min(level.len() - 1)]
            }
        };
        self.stand(flame, target, selected)
    }

    /// Scrolls by a number of screen rows.
    pub fn scroll(&mut self, rows: i16, flame: &Flame) {
        let levels = self.tiles(flame).last().map_or(0, |tile| tile.depth + 1);
        let rows = isize::from(if self.root_below { -rows } else { rows });
        self.placed = true;
        self.first = self.first.saturating_add_signed(rows).min(levels.saturating_sub(self.rows));
    }

    /// The tile at a cell, relative to the top left of the visible part.
    pub fn tile_at(&self, flame: &Flame, column: u16, row: usize) -> Option<Tile> {
        let row = if self.root_below { self.rows.checked_sub(row + 1)? } else { row };
        let depth = row + self.first;
        let hit = |tile: &Tile| tile.depth == depth && (tile.x..tile.x + tile.width).contains(&column);
        self.tiles(flame).into_iter().find(hit)
    }

    /// Unfolds the chain under the cursor, or folds it again; else zooms into the box. Returns what
    /// it did, and the function to select.
    pub fn enter(&mut self, flame: &Flame, selected: Option<&str>) -> (FlameEnter, Option<String>) {
        let tiles = self.tiles(flame);
        let Some(at) = self.at(flame, &tiles, selected).filter(|at| at.depth > 0) else {
            return (FlameEnter::Nothing, None);
        };
        if matches!(at.kind, TileKind::Folded(_) | TileKind::Unfolded) {
            self.folds.toggle(at.index);
            let focus = at.index;
            return (FlameEnter::Folded, self.stand(flame, Tile { focus, ..at }, selected));
        }
        let path = self.path(flame, at.index);
        self.zoom.push(path);
        self.cursor = Some(Cursor { path: Vec::new(), selected: selected.map(str::to_owned) });
        self.place(flame);
        (FlameEnter::Zoomed, None)
    }

    /// Undoes the last zoom; returns whether there was one.
    pub fn zoom_out(&mut self, selected: Option<&str>) -> bool {
        let Some(path) = self.zoom.pop() else { return false };
        self.reveals_cursor = true;
        self.cursor = Some(Cursor { path, selected: selected.map(str::to_owned) });
        true
    }

    /// Resets zoom and cursor after paths have changed.
    pub fn leave_zooms(&mut self) {
        (self.zoom, self.cursor) = (Vec::new(), None);
        self.folds.fold_all();
        (self.first, self.placed) = (0, false);
    }

    /// Scrolls to the root.
    pub fn show_root(&mut self) {
        (self.first, self.placed) = (0, true);
    }

    /// Toggles between top-down and bottom-up.
    pub fn toggle_bottom_up(&mut self) {
        self.bottom_up = !self.bottom_up;
        self.leave_zooms();
    }

    /// Number of boxes whose name matches, and the weight of all matching subtrees, ns. Nested
    /// matches count once.
    pub fn count(&self, pattern: &Pattern, names: NameStyle, flame: &Flame) -> (usize, u64) {
        let tiles = self.tiles(flame);
        let mut inside = vec![false; flame.boxes.len()];
        let (mut boxes, mut weight_ns) = (0, 0_u64);
        // Boxes are stored level by level, so a box comes after its parent.
        let mut shown: Vec<usize> = tiles.iter().flat_map(|tile| tile.boxes(flame)).collect();
        shown.sort_unstable();
        let root = tiles.first().map_or(0, |tile| tile.index);
        for index in shown {
            let found = matches(pattern, names, &flame.boxes[index]);
            let covered = index > root && inside[flame.boxes[index].parent];
            boxes += usize::from(found);
            if found && !covered {
                weight_ns = weight_ns.saturating_add(flame.boxes[index].weight_ns);
            }
            inside[index] = found || covered;
        }
        (boxes, weight_ns)
    }

    /// Moves the cursor to the next box whose name matches, wrapping around at the end; returns the
    /// function to select. Direction 0 starts at the box under the cursor.
    pub fn find(
        &mut self,
        pattern: &Pattern,
        names: NameStyle,
        direction: i8,
        flame: &Flame,
        selected: Option<&str>,
    ) -> Option<String> {
        let tiles = self.tiles(flame);
        let at = self.at(flame, &tiles, selected);
        let in_row = |tile: &Tile| {
            let mut boxes: Vec<usize> = tile.boxes(flame).collect();
            boxes.reverse();
            let tile = *tile;
            boxes.into_iter().map(move |focus| Tile { focus, ..tile })
        };
        let boxes: Vec<Tile> = tiles.iter().flat_map(in_row).collect();
        let here = at.and_then(|at| boxes.iter().position(|tile| tile.focus == at.focus)).unwrap_or(0);
        let step = if direction < 0 { boxes.len().saturating_sub(1) } else { 1 };
        let start = if direction == 0 { here } else { here + step };
        let found = (0..boxes.len()).map(|count| boxes[(start + count * step) % boxes.len()]);
        let target = found.into_iter().find(|tile| matches(pattern, names, &flame.boxes[tile.focus]))?;
        self.stand(flame, target, selected)
    }
}

/// Whether a box is a function whose written name matches.
pub fn matches(pattern: &Pattern, names: NameStyle, shown: &FlameBox) -> bool {
    !shown.full.is_empty() && pattern.matches(names.pick(&shown.full, &shown.short))
}

/// Moves a number of levels away from the root, to the widest child each time, or towards the root.
fn climb(flame: &Flame, tiles: &[Tile], mut at: Tile, steps: isize) -> Tile {
    for _ in 0..steps.unsigned_abs() {
        let next = if steps < 0 {
            let parent = flame.boxes[at.index].parent;
            tiles.iter().find(|tile| tile.last == parent && tile.depth + 1 == at.depth)
        } else {
            let child = |tile: &&Tile| tile.depth == at.depth + 1 && flame.boxes[tile.index].parent == at.last;
            tiles.iter().filter(child).max_by_key(|tile| (tile.width, std::cmp::Reverse(tile.index)))
        };
        match next {
            Some(tile) => at = *tile,
            None => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::pane::flame::tiling::tests::flame;

    const STACKS: &[&str] = &["main;parse;value 30", "main;parse 10", "main;render;value 20", "main;render;blend 25"];

    fn name(view: &FlameState, flame: &Flame, selected: Option<&str>) -> String {
        let tiles = view.tiles(flame);
        let tile = view.at(flame, &tiles, selected).expect("a box");
        let boxes: Vec<&str> = view
            .path(flame, tile.focus)
            .iter()
            .map(|full| flame.boxes.iter().find(|b| b.full == *full).unwrap().short.as_str())
            .collect();
        boxes.join(";")
    }

    fn view() -> FlameState {
        let mut view = FlameState::default();
        view.fit(80, 10);
        view
    }

    #[test]
    fn the_cursor_moves_between_boxes() {
        let (mut view, flame) = (view(), flame(STACKS));
        let mut selected = None;
        let mut go = |view: &mut FlameState, motion| {
            selected = view.go(motion, &flame, selected.as_deref());
            name(view, &flame, selected.as_deref())
        };
        assert_eq!(go(&mut view, Motion::Rows(1)), "main");
        assert_eq!(go(&mut view, Motion::Rows(1)), "main;render", "the widest child");
        assert_eq!(go(&mut view, Motion::Columns(-1)), "main;parse");
        assert_eq!(go(&mut view, Motion::Last), "main;parse;value");
        assert_eq!(go(&mut view, Motion::Columns(1)), "main;render;blend", "the next box of the level");
        assert_eq!(go(&mut view, Motion::Columns(9)), "main;render;value");
        view.root_below = true;
        assert_eq!(go(&mut view, Motion::Rows(1)), "main;render", "down moves towards the root if it is at the bottom");
        assert_eq!(go(&mut view, Motion::First), "");
    }

    #[test]
    fn cursor_follows_selection_of_other_panes() {
        let (mut view, flame) = (view(), flame(STACKS));
        assert_eq!(name(&view, &flame, Some("value")), "main;parse;value", "the widest box of the function");
        let tile = view.tiles(&flame)[6];
        assert_eq!(view.stand(&flame, tile, None).as_deref(), Some("value"));
        assert_eq!(name(&view, &flame, Some("value")), "main;render;value", "the chosen box keeps the cursor");
        assert_eq!(name(&view, &flame, Some("blend")), "main;render;blend");
        assert_eq!(name(&view, &flame, Some("unheard")), "");
    }

    #[test]
    fn parent_has_the_cursor_while_a_box_has_no_samples() {
        let (mut view, full) = (view(), flame(STACKS));
        view.go(Motion::Last, &full, None);
        let selected = Some("blend");
        assert_eq!(name(&view, &full, selected), "main;render;blend");
        assert_eq!(name(&view, &flame(&STACKS[..3]), selected), "main;render");
        assert_eq!(name(&view, &full, selected), "main;render;blend", "the box has the cursor again");
    }

    #[test]
    fn zooming_out_undoes_one_zoom_at_a_time() {
        let (mut view, flame) = (view(), flame(STACKS));
        assert_eq!(view.enter(&flame, None).0, FlameEnter::Nothing, "the root cannot be zoomed");
        view.go(Motion::Rows(2), &flame, None);
        assert_eq!(view.enter(&flame, Some("render")).0, FlameEnter::Zoomed);
        assert_eq!(view.query().zoom, ["main", "render"]);
        assert_eq!(view.tiles(&flame)[0].width, 80);
        let selected = view.go(Motion::Rows(1), &flame, Some("render"));
        assert_eq!(selected.as_deref(), Some("blend"));
        assert_eq!(view.enter(&flame, Some("blend")).0, FlameEnter::Zoomed);
        assert_eq!(view.query().zoom, ["main", "render", "blend"]);
        assert!(view.zoom_out(Some("blend")) && view.zoom_out(Some("render")));
        assert_eq!(name(&view, &flame, Some("render")), "main;render");
        assert!(!view.zoom_out(None));
    }

    #[test]
    fn enter_unfolds_a_trunk_and_folds_it_again() {
        let flame = Arc::new(flame(&["a;b;c;x 60", "a;b;c;y 40"]));
        let mut view = view();
        view.take(&flame, true);
        let rows = |view: &FlameState| view.tiles(&flame).len();
        assert_eq!(rows(&view), 4);
        assert_eq!(name(&view, &flame, Some("b")), "a;b", "a box of a folded chain can be selected");
        assert_eq!(view.go(Motion::Rows(1), &flame, None).as_deref(), Some("c"), "the end of the chain is selected");
        let (entered, selected) = view.enter(&flame, Some("c"));
        assert_eq!((entered, selected.as_deref(), rows(&view)), (FlameEnter::Folded, Some("a"), 6));
        assert_eq!(view.go(Motion::Rows(1), &flame, Some("a")).as_deref(), Some("b"));
        assert_eq!(view.go(Motion::Rows(-1), &flame, Some("b")).as_deref(), Some("a"));
        assert_eq!(view.enter(&flame, Some("a")).0, FlameEnter::Folded);
        assert_eq!(rows(&view), 4);
        assert_eq!(view.go(Motion::Rows(1), &flame, Some("a")).as_deref(), Some("x"), "the widest child of its end");
        assert_eq!(view.go(Motion::Rows(-1), &flame, Some("x")).as_deref(), Some("c"));
        let pattern = Pattern::new("b").unwrap();
        assert_eq!(view.count(&pattern, NameStyle::Full, &flame), (1, 100));
        assert_eq!(view.find(&pattern, NameStyle::Full, 1, &flame, Some("c")).as_deref(), Some("b"));
        assert_eq!(name(&view, &flame, Some("b")), "a;b", "a match inside of a folded chain has the cursor");
    }

    #[test]
    fn bottom_up_rows_stand_for_the_leaf() {
        let flame = Arc::new(flame(&["memcpy;parse;main 60", "write;log;main 40"]));
        let mut view = FlameState { bottom_up: true, ..view() };
        view.take(&flame, true);
        assert_eq!(view.go(Motion::Rows(1), &flame, None).as_deref(), Some("memcpy"));
    }

    #[test]
    fn nested_matches_count_once() {
        let (mut view, flame) = (view(), flame(&["main;re;re 5", "main;re 2", "main;x;re 4", "main 9"]));
        let pattern = Pattern::new("re").unwrap();
        assert_eq!(view.count(&pattern, NameStyle::Full, &flame), (3, 11));
        assert_eq!(view.find(&pattern, NameStyle::Full, 1, &flame, None).as_deref(), Some("re"));
        assert_eq!(name(&view, &flame, Some("re")), "main;re");
        view.find(&pattern, NameStyle::Full, -1, &flame, Some("re"));
        assert_eq!(name(&view, &flame, Some("re")), "main;x;re", "around the end");
    }
}
