//! Assigns cells to the boxes of a flame graph of a given width.
//!
//! Widths are apportioned by the largest-remainder method: the children of a box and its own flat
//! weight take the width of the box exactly, in the children's order, so there are no gaps between
//! children and no child exceeds its parent.

use std::cmp::Reverse;

use super::folds::TrunkFolds;
use crate::tally::flame::Flame;

/// Maximum number of levels. The agent truncates stacks long before.
const MAX_LEVELS: usize = 2048;

/// The relation of a row to the chain that its box belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileKind {
    /// A box that is not part of a foldable chain.
    Box,
    /// A folded chain of this many boxes.
    Folded(usize),
    /// The first box of a chain that the user has unfolded.
    Unfolded,
    /// One of its other boxes.
    InUnfolded,
}

/// Position of a box, or of a folded chain of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The index of the box in [`Flame::boxes`], or of the first box of the chain.
    pub index: usize,
    /// The last box of the chain.
    pub last: usize,
    /// The box that the row stands for: the one under the cursor, else the end of the chain that is
    /// farthest from the root of the target's stacks.
    pub focus: usize,
    /// Whether it is a folded chain.
    pub kind: TileKind,
    /// Level, counted from the shown root.
    pub depth: usize,
    /// First column.
    pub x: u16,
    /// Width in columns, at least 1.
    pub width: u16,
}

impl Tile {
    /// The boxes of the row, the last first.
    pub fn boxes(self, flame: &Flame) -> impl Iterator<Item = usize> + '_ {
        let parent = move |&index: &usize| {
            let above = flame.boxes.get(index)?.parent;
            (index > self.index && above < index).then_some(above)
        };
        std::iter::successors(Some(self.last), parent)
    }

    /// Whether the row contains a box.
    pub fn contains(self, flame: &Flame, index: usize) -> bool {
        index == self.index || (self.index < index && index <= self.last && self.boxes(flame).any(|own| own == index))
    }
}

/// The boxes below a box, itself first, level by level and from left to right. A box without a cell
/// is left out with all that lies below it. The shown root is not folded.
pub fn tiles(flame: &Flame, root: usize, width: u16, folds: &TrunkFolds) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let tile = |index, depth, x, width| Tile { index, last: index, focus: index, kind: TileKind::Box, depth, x, width };
    if width > 0 && root < flame.boxes.len() {
        tiles.push(tile(root, 0, 0, width));
    }
    let (mut next, mut shares) = (0, Shares::default());
    while let Some(&parent) = tiles.get(next) {
        next += 1;
        if parent.depth + 1 >= MAX_LEVELS {
            break;
        }
        let weights = flame.children_of(parent.last).map(|child| flame.boxes[child].weight_ns);
        // The first box of a chain is as wide as the row; its last one may be slightly narrower.
        let widths = shares.apportion(weights, flame.boxes[parent.index].weight_ns, parent.width);
        let is_unfolded = matches!(parent.kind, TileKind::Unfolded | TileKind::InUnfolded);
        let continues = if is_unfolded { folds.next(flame, parent.index) } else { None };
        let mut x = parent.x;
        for (index, &width) in flame.children_of(parent.last).zip(widths) {
            if width > 0 {
                let mut child = tile(index, parent.depth + 1, x, width);
                match folds.chain(flame, index) {
                    _ if continues == Some(index) => child.kind = TileKind::InUnfolded,
                    Some(_) if folds.is_unfolded(index) => child.kind = TileKind::Unfolded,
                    Some((last, count)) => {
                        (child.last, child.focus, child.kind) = (last, last, TileKind::Folded(count));
                    }
                    None => {}
                }
                tiles.push(child);
            }
            x += width;
        }
    }
    tiles
}

/// Apportions widths. The buffers are reused from one parent to the next.
#[derive(Default)]
struct Shares {
    cells: Vec<u16>,
    /// Remainder of each part in fractions of a cell, and its index.
    rests: Vec<(Reverse<u128>, usize)>,
}

impl Shares {
    /// Apportions `width` to `weights` and the rest of `whole`; returns the cells of `weights`.
    fn apportion(&mut self, weights: impl Iterator<Item = u64> + Clone, whole: u64, width: u16) -> &[u16] {
        self.cells.clear();
        self.rests.clear();
        let weights = weights.map(u128::from);
        let sum: u128 = weights.clone().sum();
        let whole = u128::from(whole).max(sum).max(1);
        for (index, part) in weights.chain([whole - sum]).enumerate() {
            let (cells, rest) = div_rem(part * u128::from(width), whole);
            self.cells.push(cells as u16);
            self.rests.push((Reverse(rest), index));
        }
        let given: u16 = self.cells.iter().sum();
        self.rests.sort_unstable();
        self.rests.iter().take((width - given).into()).for_each(|&(_, index)| self.cells[index] += 1);
        self.cells.pop();
        &self.cells
    }
}

/// Quotient and remainder. A 64-bit division takes a tenth of the time of a 128-bit one.
fn div_rem(part: u128, whole: u128) -> (u128, u128) {
    match (u64::try_from(part), u64::try_from(whole)) {
        (Ok(part), Ok(whole)) => ((part / whole).into(), (part % whole).into()),
        _ => (part / whole, part % whole),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::property::property;
    use crate::tally::flame::FlameBox;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Builds a flame graph from folded stacks (`a;b;c 12`), children sorted by name.
    pub(in crate::tui) fn flame(stacks: &[&str]) -> Flame {
        let root = FlameBox {
            parent: 0,
            children: 0..0,
            full: "".into(),
            short: "all".into(),
            module: "".into(),
            is_own: false,
            inlined: false,
            weight_ns: 0,
            self_ns: 0,
            difference: None,
        };
        let mut level: Vec<(Vec<&str>, usize)> = vec![(Vec::new(), 0)];
        let stacks: Vec<(Vec<&str>, u64)> = stacks
            .iter()
            .map(|line| {
                let (stack, weight) = line.rsplit_once(' ').expect("a weight");
                (stack.split(';').collect(), weight.parse().expect("a number"))
            })
            .collect();
        let below = |path: &[&str]| {
            let under = stacks.iter().filter(move |(stack, _)| stack.starts_with(path));
            under.map(|(_, weight)| weight).sum::<u64>()
        };
        let mut boxes = vec![FlameBox { weight_ns: below(&[]), ..root.clone() }];
        while !level.is_empty() {
            let mut next = Vec::new();
            for (path, parent) in level {
                let under = stacks.iter().filter(|(stack, _)| stack.starts_with(&path) && stack.len() > path.len());
                let names: std::collections::BTreeSet<&str> = under.map(|(stack, _)| stack[path.len()]).collect();
                let start = boxes.len();
                for name in names {
                    let path: Vec<&str> = path.iter().copied().chain([name]).collect();
                    let own = stacks.iter().filter(|(stack, _)| *stack == path).map(|(_, weight)| weight).sum();
                    let (full, short, module) = (name.into(), name.into(), "server".into());
                    let weight_ns = below(&path);
                    next.push((path, boxes.len()));
                    boxes.push(FlameBox { parent, full, short, module, weight_ns, self_ns: own, ..root.clone() });
                }
                boxes[parent].children = start..boxes.len();
            }
            level = next;
        }
        Flame { boxes, hidden: 0 }
    }

    #[test]
    fn children_and_flat_weight_fill_the_parent() {
        let flame = flame(&["a;b 1", "a;c 1", "a;d 1", "a 1", "z 2"]);
        let names: Vec<(&str, usize, u16, u16)> = tiles(&flame, 0, 9, &TrunkFolds::default())
            .iter()
            .map(|tile| (flame.boxes[tile.index].short.as_str(), tile.depth, tile.x, tile.width))
            .collect();
        assert_eq!(
            names,
            [("all", 0, 0, 9), ("a", 1, 0, 6), ("z", 1, 6, 3), ("b", 2, 0, 2), ("c", 2, 2, 2), ("d", 2, 4, 1)]
        );
    }

    #[test]
    fn invalid_child_ranges_terminate() {
        let mut flame = flame(&["a;b;c 5", "a;d 9"]);
        for (index, range) in [(0, 0..9), (1, 0..usize::MAX), (2, 1..3), (3, 9..9)] {
            flame.boxes[index].children = range;
            flame.boxes[index].weight_ns = u64::MAX;
            tiles(&flame, 0, 400, &TrunkFolds::default());
        }
        let none = TrunkFolds::default();
        assert!(tiles(&flame, 77, 10, &none).is_empty() && tiles(&flame, 0, 0, &none).is_empty());
    }

    /// The rows as text: `a` for a box, `a-c` for a folded chain.
    fn rows(folds: &mut TrunkFolds, stacks: &[&str]) -> String {
        let flame = Arc::new(flame(stacks));
        folds.update(&flame);
        let name = |index: usize| flame.boxes[index].short.as_str();
        let write = |tile: &Tile| match tile.kind {
            TileKind::Folded(count) => format!("{}-{}({count})", name(tile.index), name(tile.last)),
            _ => name(tile.index).to_owned(),
        };
        tiles(&flame, 0, 80, folds).iter().map(write).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_trunk_is_one_row() {
        let folds = &mut TrunkFolds::default();
        assert_eq!(rows(folds, &["a;b;c;x 60", "a;b;c;y;v;w 40"]), "all a-c(3) x y-w(3)");
        assert_eq!(rows(folds, &["a;b;x 60", "a;b;y 40"]), "all a b x y", "two boxes are not folded");
        assert_eq!(rows(folds, &["a;b;c;d 50", "a;b 50"]), "all a b c d", "own time ends a trunk");
    }

    #[test]
    fn links_are_folded_and_unfolded_at_different_shares() {
        let folds = &mut TrunkFolds::default();
        assert_eq!(rows(folds, &["a;b;c;d 97", "a;b 3"]), "all a b c d", "97 % is too little to fold");
        assert_eq!(rows(folds, &["a;b;c;d 99", "a;b 1"]), "all a-d(4)");
        assert_eq!(rows(folds, &["a;b;c;d 96", "a;b 4"]), "all a-d(4)", "96 % is enough to stay folded");
        assert_eq!(rows(folds, &["a;b;c;d 94", "a;b 6"]), "all a b c d");
        assert_eq!(rows(folds, &["a;b;c;d 97", "a;b 3"]), "all a b c d");
    }

    #[test]
    fn many_small_losses_end_a_trunk() {
        let folds = &mut TrunkFolds::default();
        let steps = ["a;b;c;d;e;f 94", "a;b;c;d;e 2", "a;b;c;d 2", "a;b;c 1", "a;b 1"];
        assert_eq!(rows(folds, &steps), "all a-d(4) e f", "each link loses 2 %, all four lose 6 %");
    }

    #[test]
    fn unfolded_chains_remain_unfolded() {
        let folds = &mut TrunkFolds::default();
        let stacks = ["a;b;c;x 60", "a;b;c;y 40"];
        rows(folds, &stacks);
        folds.toggle(1);
        assert_eq!(rows(folds, &stacks), "all a b c x y");
        assert_eq!(rows(folds, &["a;b;c;x 60", "a;b;c;z 40"]), "all a b c x z");
        folds.toggle(1);
        assert_eq!(rows(folds, &stacks), "all a-c(3) x y");
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn widths_add_up(weights in prop::collection::vec(prop_oneof![0..50_u64, any::<u64>()], 0..40),
                      own in prop_oneof![Just(0), 0..50_u64, any::<u64>()], width in 1..400_u16) {
            let whole = weights.iter().fold(own, |sum, weight| sum.saturating_add(*weight));
            let mut shares = Shares::default();
            let cells = shares.apportion(weights.iter().copied(), whole, width);
            let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            let used: u64 = cells.iter().map(|&cells| u64::from(cells)).sum();
            prop_assert!(used <= u64::from(width));
            if own == 0 && sum > 0 {
                prop_assert_eq!(used, u64::from(width), "no gap");
            }
            let whole = u128::from(whole).max(sum).max(1);
            for (&weight, &cells) in weights.iter().zip(cells) {
                let exact = u128::from(weight) * u128::from(width);
                prop_assert!(u128::from(cells) * whole < exact + whole && exact < (u128::from(cells) + 1) * whole);
            }
        }
    }
}
