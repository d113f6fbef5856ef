//! When to answer. News are answered ten times a second, and less often where answers are dear: they take a fiftieth of a core at most,
//! as long as one a second fits into that, and never more than a fifth, so that samples are not kept waiting. What a key asks for is
//! answered at once.

/// Between the beginnings of two answers, at least, ns: ten a second.
pub const ANSWER_NS: u64 = 100_000_000;
/// Time for each part of it that the last answer took, up to [`SLOW_NS`]; and beyond.
const PARTS: u64 = 50;
const FEWEST_PARTS: u64 = 5;
/// Between the beginnings of two answers, if they leave most of the time to others, ns: one a second.
const SLOW_NS: u64 = 1_000_000_000;

/// What the last answer cost, and when it was.
#[derive(Default)]
pub(super) struct Pace {
    begun_ns: u64,
    cost_ns: u64,
    news: bool,
    calm: bool,
}

impl Pace {
    /// Somebody waits.
    pub(super) fn ask(&mut self) {
        self.calm = false;
    }

    /// There is something that nobody waits for.
    pub(super) fn tell(&mut self) {
        self.news = true;
    }

    /// Whether to answer now, `least_ns` after the last one at least; `news` is whether there are any besides those told.
    pub(super) fn is_due(&self, news: bool, least_ns: u64, now_ns: u64) -> bool {
        let parts = |count| self.cost_ns.saturating_mul(count);
        let rest_ns = least_ns.max(parts(PARTS).min(SLOW_NS)).max(parts(FEWEST_PARTS));
        !self.calm || (news || self.news) && now_ns.saturating_sub(self.begun_ns) >= rest_ns
    }

    /// An answer was made.
    pub(super) fn answered(&mut self, begun_ns: u64, ended_ns: u64) {
        *self = Pace { begun_ns, cost_ns: ended_ns.saturating_sub(begun_ns), news: false, calm: true };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_take_a_small_part_of_the_time() {
        for (cost_ns, expected) in
            [(2_000_000, 100), (5_000_000, 40), (10_000_000, 20), (100_000_000, 10), (1_000_000_000, 2)]
        {
            let (mut pace, mut answers, mut now_ns) = (Pace::default(), 0, 0);
            while now_ns < 10_000_000_000 {
                if pace.is_due(true, ANSWER_NS, now_ns) {
                    pace.answered(now_ns, now_ns + cost_ns);
                    (answers, now_ns) = (answers + 1, now_ns + cost_ns);
                }
                now_ns += 500_000;
            }
            assert!((expected - 1..=expected).contains(&answers), "{answers} of {cost_ns} ns in 10 s");
        }
    }

    #[test]
    fn who_waits_is_answered_at_once_and_without_news_nobody_is() {
        let mut pace = Pace::default();
        assert!(pace.is_due(false, ANSWER_NS, 0), "the first answer");
        pace.answered(0, 1_000_000_000);
        assert!(!pace.is_due(false, ANSWER_NS, u64::MAX) && !pace.is_due(true, ANSWER_NS, 4_999_999_999));
        pace.tell();
        assert!(!pace.is_due(false, ANSWER_NS, 4_999_999_999) && pace.is_due(false, ANSWER_NS, 5_000_000_000));
        pace.ask();
        assert!(pace.is_due(false, ANSWER_NS, 1_000_000_000));
        pace.answered(1_000_000_000, 1_000_000_001);
        assert!(!pace.is_due(false, ANSWER_NS, u64::MAX));
    }
}
