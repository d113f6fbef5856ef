//! The flame as it is looked at: which way up, zoomed into which box, with the cursor on which box.
//!
//! Boxes are known by their path of names, never by a place: after a refresh the cursor is where it was. A cursor belongs
//! to a selection; when another pane selects another function, it goes to the widest box of that function.

use super::action::Motion;
use super::list::NameStyle;
use super::tiling::{self, Tile};
use crate::tally::flame::{Flame, FlameBox, FlameQuery};
use crate::tally::query::Pattern;

/// What the colour of a box means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Its module.
    #[default]
    Module,
    /// The time that ends in it.
    Heat,
}

/// A box that the keys stand on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursor {
    /// Full names from the root shown.
    path: Vec<String>,
    /// What was selected while it stood there.
    selected: Option<String>,
}

/// The state of the pane.
#[derive(Clone, Debug, Default)]
pub struct FlameView {
    /// Whether leaves come first.
    pub bottom_up: bool,
    /// Whether the root is at the bottom of the pane.
    pub root_below: bool,
    /// What colours mean.
    pub colour: Colour,
    /// Steps into boxes, each a path from where the last one led.
    zoom: Vec<Vec<String>>,
    cursor: Option<Cursor>,
    /// Levels scrolled out, next to the root.
    first: usize,
    /// Whether the first level in view was chosen, by somebody or for good.
    placed: bool,
    columns: u16,
    rows: usize,
}

impl FlameView {
    /// The view has this size.
    pub fn fit(&mut self, columns: u16, rows: usize) {
        (self.columns, self.rows) = (columns, rows);
    }

    /// What to ask for it.
    pub fn query(&self) -> FlameQuery {
        // Half a cell is the least that may become one. A screen that is drawn wider by its corner asks in few steps.
        let columns = u32::from(self.columns).max(1).next_power_of_two();
        let least_share = 0.5 / f64::from(columns);
        FlameQuery { bottom_up: self.bottom_up, zoom: self.zoom.concat(), least_share }
    }

    /// Full names from the root to the root shown.
    pub fn zoom(&self) -> impl Iterator<Item = &str> {
        self.zoom.iter().flatten().map(String::as_str)
    }

    /// First level in view.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The box that is shown as root; `None` while it is not in the flame.
    pub fn root(&self, flame: &Flame) -> Option<usize> {
        flame.boxes.first()?;
        let mut index = 0;
        for name in self.zoom() {
            index = tiling::child(flame, index, name)?.0;
        }
        Some(index)
    }

    /// Takes in new numbers, which stand on enough samples to be `settled` or not. The first of them choose what is in view:
    /// levels of one box over the whole width tell nothing, and are scrolled out where others need the room.
    pub fn take(&mut self, flame: &Flame, settled: bool) {
        if !self.placed && self.rows > 0 {
            self.place(flame);
            self.placed = settled;
        }
    }

    fn place(&mut self, flame: &Flame) {
        let tiles = self.tiles(flame);
        let levels = tiles.last().map_or(0, |tile| tile.depth + 1);
        // A box beside it may have a few cells: the main thread, which waits for the others.
        let wide = |tile: &&Tile| u32::from(tile.width) * 50 >= u32::from(self.columns) * 49;
        let chain = tiles.iter().filter(wide).map(|tile| tile.depth).max().unwrap_or(0);
        self.first = chain.min(levels.saturating_sub(self.rows));
    }

    /// Another pane selected a function: scrolls as little as it takes to see its widest box.
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

    /// All that is shown.
    pub fn tiles(&self, flame: &Flame) -> Vec<Tile> {
        self.root(flame).map(|root| tiling::tiles(flame, root, self.columns)).unwrap_or_default()
    }

    /// The tile under the cursor, of these.
    pub fn at(&self, flame: &Flame, tiles: &[Tile], selected: Option<&str>) -> Option<Tile> {
        let root = *tiles.first()?;
        match &self.cursor {
            Some(cursor) if cursor.selected.as_deref() == selected => {
                let mut index = root.index;
                let known = |tile: &&Tile, index| tile.index == index;
                let mut found = root;
                for name in &cursor.path {
                    // A box that is gone now may come back; until then the one above it stands for it.
                    let Some((next, _)) = tiling::child(flame, index, name) else { break };
                    let Some(tile) = tiles.iter().find(|tile| known(tile, next)) else { break };
                    (index, found) = (next, *tile);
                }
                Some(found)
            }
            _ => {
                let selected = selected?;
                let named = tiles.iter().filter(|tile| flame.boxes[tile.index].full == selected);
                Some(named.copied().max_by_key(|tile| (tile.width, std::cmp::Reverse(tile.index))).unwrap_or(root))
            }
        }
    }

    /// Puts the cursor on a box; returns the function to be selected.
    pub fn stand(&mut self, flame: &Flame, tile: Tile, selected: Option<&str>) -> Option<String> {
        let path = self.path(flame, tile.index);
        let selected = path.last().cloned().or_else(|| selected.map(str::to_owned));
        self.cursor = Some(Cursor { path, selected: selected.clone() });
        self.see(tile.depth);
        selected
    }

    /// Full names from the root shown to a box.
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

    /// Moves the cursor; returns the function to be selected.
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

    /// Scrolls by so many rows of the screen.
    pub fn scroll(&mut self, rows: i16, flame: &Flame) {
        let levels = self.tiles(flame).last().map_or(0, |tile| tile.depth + 1);
        let rows = isize::from(if self.root_below { -rows } else { rows });
        self.placed = true;
        self.first = self.first.saturating_add_signed(rows).min(levels.saturating_sub(self.rows));
    }

    /// The tile at a cell, counted from the top left of the view.
    pub fn tile_at(&self, flame: &Flame, column: u16, row: usize) -> Option<Tile> {
        let row = if self.root_below { self.rows.checked_sub(row + 1)? } else { row };
        let depth = row + self.first;
        let hit = |tile: &Tile| tile.depth == depth && (tile.x..tile.x + tile.width).contains(&column);
        self.tiles(flame).into_iter().find(hit)
    }

    /// Makes the box under the cursor the root; whether it was not already.
    pub fn zoom_in(&mut self, flame: &Flame, selected: Option<&str>) -> bool {
        let tiles = self.tiles(flame);
        let Some(at) = self.at(flame, &tiles, selected).filter(|at| at.depth > 0) else { return false };
        let path = self.path(flame, at.index);
        self.zoom.push(path);
        self.cursor = Some(Cursor { path: Vec::new(), selected: selected.map(str::to_owned) });
        self.place(flame);
        true
    }

    /// Back to the root before; whether there was one.
    pub fn zoom_out(&mut self, selected: Option<&str>) -> bool {
        let Some(path) = self.zoom.pop() else { return false };
        self.see(path.len());
        self.cursor = Some(Cursor { path, selected: selected.map(str::to_owned) });
        true
    }

    /// Back to the root of all: paths have become others.
    pub fn leave_zooms(&mut self) {
        (self.zoom, self.cursor) = (Vec::new(), None);
        (self.first, self.placed) = (0, false);
    }

    /// Shows the first levels, whatever they tell.
    pub fn show_root(&mut self) {
        (self.first, self.placed) = (0, true);
    }

    /// Turns stacks over: leaves first, or roots first.
    pub fn turn_over(&mut self) {
        self.bottom_up = !self.bottom_up;
        self.leave_zooms();
    }

    /// Boxes shown whose name matches, and the weight of what lies in any of them, ns.
    pub fn count(&self, pattern: &Pattern, names: NameStyle, flame: &Flame) -> (usize, u64) {
        let tiles = self.tiles(flame);
        let mut inside = vec![false; flame.boxes.len()];
        let (mut boxes, mut weight_ns) = (0, 0_u64);
        for tile in tiles {
            let found = matches(pattern, names, &flame.boxes[tile.index]);
            let covered = tile.depth > 0 && inside[flame.boxes[tile.index].parent];
            boxes += usize::from(found);
            if found && !covered {
                weight_ns = weight_ns.saturating_add(flame.boxes[tile.index].weight_ns);
            }
            inside[tile.index] = found || covered;
        }
        (boxes, weight_ns)
    }

    /// Puts the cursor on the next box whose name matches, around the end; returns the function to be selected. Direction 0
    /// looks at the box under the cursor first.
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
        let here = at.and_then(|at| tiles.iter().position(|tile| tile.index == at.index)).unwrap_or(0);
        let step = if direction < 0 { tiles.len().saturating_sub(1) } else { 1 };
        let start = if direction == 0 { here } else { here + step };
        let found = (0..tiles.len()).map(|count| tiles[(start + count * step) % tiles.len()]);
        let target = found.into_iter().find(|tile| matches(pattern, names, &flame.boxes[tile.index]))?;
        self.stand(flame, target, selected)
    }
}

/// Whether a box is a function whose name, as it is written, matches.
pub fn matches(pattern: &Pattern, names: NameStyle, shown: &FlameBox) -> bool {
    !shown.full.is_empty() && pattern.matches(names.pick(&shown.full, &shown.short))
}

/// So many levels deeper, by the widest child each time, or so many nearer to the root.
fn climb(flame: &Flame, tiles: &[Tile], mut at: Tile, steps: isize) -> Tile {
    for _ in 0..steps.unsigned_abs() {
        let next = if steps < 0 {
            let parent = flame.boxes[at.index].parent;
            tiles.iter().find(|tile| tile.index == parent && tile.depth + 1 == at.depth)
        } else {
            let child = |tile: &&Tile| tile.depth == at.depth + 1 && flame.boxes[tile.index].parent == at.index;
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
    use crate::tui::tiling::tests::flame;

    const STACKS: &[&str] = &["main;parse;value 30", "main;parse 10", "main;render;value 20", "main;render;blend 25"];

    fn name(view: &FlameView, flame: &Flame, selected: Option<&str>) -> String {
        let tiles = view.tiles(flame);
        let tile = view.at(flame, &tiles, selected).expect("a box");
        let boxes: Vec<&str> = view
            .path(flame, tile.index)
            .iter()
            .map(|full| flame.boxes.iter().find(|b| b.full == *full).unwrap().short.as_str())
            .collect();
        boxes.join(";")
    }

    fn view() -> FlameView {
        let mut view = FlameView::default();
        view.fit(80, 10);
        view
    }

    #[test]
    fn the_cursor_moves_between_boxes() {
        let (mut view, flame) = (view(), flame(STACKS));
        let mut selected = None;
        let mut go = |view: &mut FlameView, motion| {
            selected = view.go(motion, &flame, selected.as_deref());
            name(view, &flame, selected.as_deref())
        };
        assert_eq!(go(&mut view, Motion::Rows(1)), "main");
        assert_eq!(go(&mut view, Motion::Rows(1)), "main;render", "the widest child");
        assert_eq!(go(&mut view, Motion::Columns(-1)), "main;parse");
        assert_eq!(go(&mut view, Motion::Last), "main;parse;value");
        assert_eq!(go(&mut view, Motion::Columns(1)), "main;render;blend", "the next on this level");
        assert_eq!(go(&mut view, Motion::Columns(9)), "main;render;value");
        view.root_below = true;
        assert_eq!(go(&mut view, Motion::Rows(1)), "main;render", "down is to the root, where that lies below");
        assert_eq!(go(&mut view, Motion::First), "");
    }

    #[test]
    fn the_cursor_follows_the_selection_of_others() {
        let (mut view, flame) = (view(), flame(STACKS));
        assert_eq!(name(&view, &flame, Some("value")), "main;parse;value", "the widest box of the function");
        let tile = view.tiles(&flame)[6];
        assert_eq!(view.stand(&flame, tile, None).as_deref(), Some("value"));
        assert_eq!(name(&view, &flame, Some("value")), "main;render;value", "this one was chosen");
        assert_eq!(name(&view, &flame, Some("blend")), "main;render;blend");
        assert_eq!(name(&view, &flame, Some("unheard")), "");
    }

    #[test]
    fn a_box_that_is_gone_is_stood_for_by_its_parent() {
        let (mut view, full) = (view(), flame(STACKS));
        view.go(Motion::Last, &full, None);
        let selected = Some("blend");
        assert_eq!(name(&view, &full, selected), "main;render;blend");
        assert_eq!(name(&view, &flame(&STACKS[..3]), selected), "main;render");
        assert_eq!(name(&view, &full, selected), "main;render;blend", "and it comes back");
    }

    #[test]
    fn zooms_are_taken_back_one_by_one() {
        let (mut view, flame) = (view(), flame(STACKS));
        assert!(!view.zoom_in(&flame, None), "the root is the root already");
        view.go(Motion::Rows(2), &flame, None);
        assert!(view.zoom_in(&flame, Some("render")));
        assert_eq!(view.query().zoom, ["main", "render"]);
        assert_eq!(view.tiles(&flame)[0].width, 80);
        let selected = view.go(Motion::Rows(1), &flame, Some("render"));
        assert_eq!(selected.as_deref(), Some("blend"));
        assert!(view.zoom_in(&flame, Some("blend")));
        assert_eq!(view.query().zoom, ["main", "render", "blend"]);
        assert!(view.zoom_out(Some("blend")) && view.zoom_out(Some("render")));
        assert_eq!(name(&view, &flame, Some("render")), "main;render");
        assert!(!view.zoom_out(None));
    }

    #[test]
    fn what_is_found_twice_counts_once() {
        let (mut view, flame) = (view(), flame(&["main;re;re 5", "main;re 2", "main;x;re 4", "main 9"]));
        let pattern = Pattern::new("re").unwrap();
        assert_eq!(view.count(&pattern, NameStyle::Full, &flame), (3, 11));
        assert_eq!(view.find(&pattern, NameStyle::Full, 1, &flame, None).as_deref(), Some("re"));
        assert_eq!(name(&view, &flame, Some("re")), "main;re");
        view.find(&pattern, NameStyle::Full, -1, &flame, Some("re"));
        assert_eq!(name(&view, &flame, Some("re")), "main;x;re", "around the end");
    }
}
