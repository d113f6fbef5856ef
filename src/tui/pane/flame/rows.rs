//! The levels of the flame graph for which the dashboard has rows. A level more gets its row at
//! once. A row that is no longer needed is given up after a while, so that the border of the pane
//! does not follow every stack that comes and goes.

/// The time for which a row is kept that is not needed, ns.
const KEPT_NS: u64 = 10_000_000_000;

/// The number of levels that have rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlameRows {
    levels: u16,
    /// The last time when all of them were needed, ns.
    needed_ns: u64,
    /// The most levels since then.
    most_since: u16,
}

impl FlameRows {
    /// Takes the number of levels of a new answer and its time.
    pub fn update(&mut self, levels: usize, now_ns: u64) {
        let levels = u16::try_from(levels).unwrap_or(u16::MAX);
        if levels >= self.levels {
            *self = FlameRows { levels, needed_ns: now_ns, most_since: 0 };
        } else if now_ns.saturating_sub(self.needed_ns) > KEPT_NS {
            *self = FlameRows { levels: self.most_since.max(levels), needed_ns: now_ns, most_since: 0 };
        } else {
            self.most_since = self.most_since.max(levels);
        }
    }

    /// The number of levels that have rows.
    pub fn levels(self) -> u16 {
        self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_at_once_and_go_after_a_while() {
        let mut rows = FlameRows::default();
        let mut at = |seconds: u64, levels| {
            rows.update(levels, seconds * 1_000_000_000);
            rows.levels()
        };
        assert_eq!([at(1, 5), at(2, 9), at(3, 5), at(9, 6), at(11, 5)], [5, 9, 9, 9, 9]);
        assert_eq!([at(13, 5), at(14, 5)], [6, 6], "the most that were needed in the meantime");
        assert_eq!([at(22, 5), at(24, 5), at(25, 7)], [6, 5, 7]);
    }
}
