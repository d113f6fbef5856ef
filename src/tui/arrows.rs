//! Jumps as arrows beside a list of instructions: which lane each runs in, and what is drawn at a row. Short ones run close
//! to the instructions, so that loops within loops look like that; what finds no lane is not drawn.

/// A jump from one row to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Row of the jump.
    pub from: usize,
    /// Row that it jumps to.
    pub to: usize,
    /// How far from the instructions, from 0.
    pub lane: usize,
}

/// Lanes at most.
pub const LANES: usize = 4;

impl Arrow {
    fn ends(&self) -> (usize, usize) {
        (self.from.min(self.to), self.from.max(self.to))
    }
}

/// Gives jumps (from row, to row) their lanes; those without one are left out.
pub fn arrows(jumps: impl Iterator<Item = (usize, usize)>) -> Box<[Arrow]> {
    let mut jumps: Vec<(usize, usize)> = jumps.filter(|(from, to)| from != to).collect();
    jumps.sort_by_key(|&(from, to)| (from.abs_diff(to), from.min(to)));
    let mut lanes: [Vec<(usize, usize)>; LANES] = Default::default();
    let mut drawn = Vec::new();
    for (from, to) in jumps {
        let (first, last) = (from.min(to), from.max(to));
        // Jumps to the same row may share a lane: they become one arrow with several tails.
        let free = |lane: &[(usize, usize)]| lane.iter().all(|&(above, below)| last < above || below < first);
        if let Some(lane) = lanes.iter().position(|lane| free(lane)) {
            lanes[lane].push((first, last));
            drawn.push(Arrow { from, to, lane });
        }
    }
    drawn.into()
}

/// What stands in the lanes at a row, from the left: one column for each lane, and one for the arrow's head. Says of each
/// column whether `lit` runs there.
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
            // What crosses from lane to lane is over what runs through.
            if columns[at].0 == ' ' {
                columns[at] = ('│', is_lit);
            }
            continue;
        }
        let corner = if row == first { '╭' } else { '╰' };
        columns[at] = (corner, is_lit || columns[at].1);
        for column in &mut columns[at + 1..LANES] {
            // Corners of inner lanes at this row are their own.
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
    use proptest::prelude::*;

    fn picture(jumps: &[(usize, usize)], rows: usize) -> Vec<String> {
        let arrows = arrows(jumps.iter().copied());
        let line = |row| columns(&arrows, row, None).iter().map(|(c, _)| *c).collect::<String>().trim_end().to_owned();
        (0..rows).map(line).collect()
    }

    #[test]
    fn loops_within_loops_look_like_that() {
        assert_eq!(picture(&[(4, 0), (3, 1)], 5), ["  ╭─▸", "  │╭▸", "  ││", "  │╰─", "  ╰──"]);
        assert_eq!(picture(&[(0, 1), (2, 3)], 4), ["   ╭─", "   ╰▸", "   ╭─", "   ╰▸"]);
    }

    #[test]
    fn jumps_to_one_row_join() {
        assert_eq!(picture(&[(0, 3), (1, 3)], 4), ["  ╭──", "  │╭─", "  ││", "  ╰╰▸"]);
    }

    #[test]
    fn what_finds_no_lane_is_left_out() {
        let nested: Vec<(usize, usize)> = (0..9).map(|depth| (depth, 20 - depth)).collect();
        assert_eq!(arrows(nested.into_iter()).len(), LANES);
        assert!(arrows([(3, 3)].into_iter()).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn arrows_of_one_lane_do_not_touch(jumps in prop::collection::vec((0..40usize, 0..40usize), 0..30)) {
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
