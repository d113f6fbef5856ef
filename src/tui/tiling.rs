//! Which cells each box of the flame takes: pure, from a flame and a width.
//!
//! Widths are shared out by largest remainder: the children of a box and what ends in the box itself take its width to
//! the last cell, in the children's order, so that no gap opens between them and none is wider than its parent.

use std::cmp::Reverse;

use crate::tally::flame::{Flame, FlameBox};

/// Levels that are laid out at most; an agent cuts stacks long before.
const MAX_LEVELS: usize = 2048;

/// Where a box is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Its index in [`Flame::boxes`].
    pub index: usize,
    /// Levels between it and the root shown.
    pub depth: usize,
    /// Columns to its left.
    pub x: u16,
    /// Columns that it takes; never 0.
    pub width: u16,
}

/// The boxes below a box, itself first, level by level and from left to right. A box without a cell is left out with all
/// that lies below it.
pub fn tiles(flame: &Flame, root: usize, width: u16) -> Vec<Tile> {
    let mut tiles = Vec::new();
    if width > 0 && root < flame.boxes.len() {
        tiles.push(Tile { index: root, depth: 0, x: 0, width });
    }
    let (mut next, mut shares) = (0, Shares::default());
    while let Some(&parent) = tiles.get(next) {
        next += 1;
        if parent.depth + 1 >= MAX_LEVELS {
            break;
        }
        let weights = children(flame, parent.index).map(|child| flame.boxes[child].weight_ns);
        let widths = shares.out(weights, flame.boxes[parent.index].weight_ns, parent.width);
        let mut x = parent.x;
        for (index, &width) in children(flame, parent.index).zip(widths) {
            if width > 0 {
                tiles.push(Tile { index, depth: parent.depth + 1, x, width });
            }
            x += width;
        }
    }
    tiles
}

/// The children of a box. They lie behind it, so that whoever goes from child to child comes to an end.
pub fn children(flame: &Flame, index: usize) -> impl Iterator<Item = usize> + Clone + '_ {
    let range = flame.boxes.get(index).map_or(0..0, |parent| parent.children.clone());
    let range = range.start.max(index + 1)..range.end.min(flame.boxes.len());
    range.filter(move |&child| flame.boxes[child].parent == index)
}

/// The child with this full name.
pub fn child<'a>(flame: &'a Flame, index: usize, full: &str) -> Option<(usize, &'a FlameBox)> {
    let found = children(flame, index).find(|&child| flame.boxes[child].full == full)?;
    Some((found, &flame.boxes[found]))
}

/// Shares widths out; it keeps its room from one parent to the next.
#[derive(Default)]
struct Shares {
    cells: Vec<u16>,
    /// What of each part is less than a cell, and whose it is.
    rests: Vec<(Reverse<u128>, usize)>,
}

impl Shares {
    /// Shares `width` out among `weights` and what is left of `whole`: the parts of `weights`, in cells.
    fn out(&mut self, weights: impl Iterator<Item = u64> + Clone, whole: u64, width: u16) -> &[u16] {
        self.cells.clear();
        self.rests.clear();
        let weights = weights.map(u128::from);
        let sum: u128 = weights.clone().sum();
        let whole = u128::from(whole).max(sum).max(1);
        for (index, part) in weights.chain([whole - sum]).enumerate() {
            let (cells, rest) = divided(part * u128::from(width), whole);
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

/// Quotient and rest. Of words they cost a tenth.
fn divided(part: u128, whole: u128) -> (u128, u128) {
    match (u64::try_from(part), u64::try_from(whole)) {
        (Ok(part), Ok(whole)) => ((part / whole).into(), (part % whole).into()),
        _ => (part / whole, part % whole),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A flame of stacks written as `a;b;c 12`, children by name.
    pub(in crate::tui) fn flame(stacks: &[&str]) -> Flame {
        let root = FlameBox {
            parent: 0,
            children: 0..0,
            full: "".into(),
            short: "all".into(),
            module: "".into(),
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
    fn children_fill_their_parent_but_for_its_own_part() {
        let flame = flame(&["a;b 1", "a;c 1", "a;d 1", "a 1", "z 2"]);
        let names: Vec<(&str, usize, u16, u16)> = tiles(&flame, 0, 9)
            .iter()
            .map(|tile| (flame.boxes[tile.index].short.as_str(), tile.depth, tile.x, tile.width))
            .collect();
        assert_eq!(
            names,
            [("all", 0, 0, 9), ("a", 1, 0, 6), ("z", 1, 6, 3), ("b", 2, 0, 2), ("c", 2, 2, 2), ("d", 2, 4, 1)]
        );
    }

    #[test]
    fn a_flame_that_points_anywhere_comes_to_an_end() {
        let mut flame = flame(&["a;b;c 5", "a;d 9"]);
        for (index, range) in [(0, 0..9), (1, 0..usize::MAX), (2, 1..3), (3, 9..9)] {
            flame.boxes[index].children = range;
            flame.boxes[index].weight_ns = u64::MAX;
            tiles(&flame, 0, 400);
        }
        assert!(tiles(&flame, 77, 10).is_empty() && tiles(&flame, 0, 0).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn widths_sum(weights in prop::collection::vec(prop_oneof![0..50_u64, any::<u64>()], 0..40),
                      own in prop_oneof![Just(0), 0..50_u64, any::<u64>()], width in 1..400_u16) {
            let whole = weights.iter().fold(own, |sum, weight| sum.saturating_add(*weight));
            let mut shares = Shares::default();
            let cells = shares.out(weights.iter().copied(), whole, width);
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
