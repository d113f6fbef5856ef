//! Arrows for jumps beside a list of instructions: the lane of each arrow, and the glyphs of a row.
//! Short arrows are next to the instructions, so nested loops look nested. Arrows that find no free
//! lane are not drawn.

/// A jump from one row to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Row of the jump.
    pub from: usize,
    /// Row that it jumps to.
    pub to: usize,
    /// Lane, counted from the instructions, from 0.
    pub lane: usize,
}

/// Maximum number of lanes.
pub const LANES: usize = 4;

impl Arrow {
    fn ends(&self) -> (usize, usize) {
        (self.from.min(self.to), self.from.max(self.to))
    }
}

/// Assigns lanes to jumps (from row, to row). Jumps without a free lane are omitted.
pub fn arrows(jumps: impl Iterator<Item = (usize, usize)>) -> Box<[Arrow]> {
    let mut jumps: Vec<(usize, usize)> = jumps.filter(|(from, to)| from != to).collect();
    jumps.sort_by_key(|&(from, to)| (from.abs_diff(to), from.min(to)));
    let mut lanes: [Vec<(usize, usize)>; LANES] = Default::default();
    let mut drawn = Vec::new();
    for (from, to) in jumps {
        let (first, last) = (from.min(to), from.max(to));
        // Arrows in a lane must not overlap.
        let free = |lane: &[(usize, usize)]| lane.iter().all(|&(above, below)| last < above || below < first);
        if let Some(lane) = lanes.iter().position(|lane| free(lane)) {
            lanes[lane].push((first, last));
            drawn.push(Arrow { from, to, lane });
        }
    }
    drawn.into()
}

/// The glyphs of a row, from the left: one column for each lane and one for arrow heads, each with
/// whether it belongs to the arrow `lit`.
pub fn columns(arrows: &[Arrow], row: usize, lit: Option<usize>) -> [(char, bool); LANES + 1] {
    let mut columns = [(' ', false); LANES + 1];
    for (index, arrow) in arrows.iter().enumerate() {
        let (first, last) = arrow.ends();
        if row < first || row > last {
            continue;
        }
        let is_lit = lit == Some(index);
        let at = LANES - 1 - arrow.lane;
        if row != arrow.from && row != arrow.to {
            // A horizontal line covers a vertical one.
            if columns[at].0 == ' ' {
                columns[at] = ('│', is_lit);
            }
            continue;
        }
        let corner = if row == first { '╭' } else { '╰' };
        columns[at] = (corner, is_lit || columns[at].1);
        for column in &mut columns[at + 1..LANES] {
            // Corners of inner lanes stay.
            if !matches!(column.0, '╭' | '╰') {
                *column = ('─', is_lit || column.1);
            }
        }
        let head = &mut columns[LANES];
        let drawn = if row == arrow.to { '▸' } else { '─' };
        if head.0 != '▸' {
            *head = (drawn, is_lit || head.1);
        } else {
            head.1 |= is_lit;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::property;
    use proptest::prelude::*;

    fn picture(jumps: &[(usize, usize)], rows: usize) -> Vec<String> {
        let arrows = arrows(jumps.iter().copied());
        let line = |row| columns(&arrows, row, None).iter().map(|(c, _)| *c).collect::<String>().trim_end().to_owned();
        (0..rows).map(line).collect()
    }

    #[test]
    fn nested_loops_are_nested_arrows() {
        assert_eq!(picture(&[(4, 0), (3, 1)], 5), ["  ╭─▸", "  │╭▸", "  ││", "  │╰─", "  ╰──"]);
        assert_eq!(picture(&[(0, 1), (2, 3)], 4), ["   ╭─", "   ╰▸", "   ╭─", "   ╰▸"]);
    }

    #[test]
    fn jumps_to_the_same_row_join() {
        assert_eq!(picture(&[(0, 3), (1, 3)], 4), ["  ╭──", "  │╭─", "  ││", "  ╰╰▸"]);
    }

    #[test]
    fn jumps_without_a_lane_are_omitted() {
        let nested: Vec<(usize, usize)> = (0..9).map(|depth| (depth, 20 - depth)).collect();
        assert_eq!(arrows(nested.into_iter()).len(), LANES);
        assert!(arrows([(3, 3)].into_iter()).is_empty());
    }

    proptest! {
        #![proptest_config(property(256))]
        #[test]
        fn arrows_in_a_lane_do_not_overlap(jumps in prop::collection::vec((0..40usize, 0..40usize), 0..30)) {
            let arrows = arrows(jumps.into_iter());
            for (index, one) in arrows.iter().enumerate() {
                for other in arrows[index + 1..].iter().filter(|other| other.lane == one.lane) {
                    let ((a, b), (c, d)) = (one.ends(), other.ends());
                    prop_assert!(b < c || d < a);
                }
            }
            for row in 0..40 {
                columns(&arrows, row, Some(0));
            }
        }
    }
}
