//! When to answer. News are answered ten times a second, and less often where answers are dear: they take a fiftieth of a core at most,
//! as long as one a second fits into that, and never more than a fifth, so that samples are not kept waiting. What a key asks for is
//! answered at once, and from what the last answer knew: what came since has to wait for its time.

/// Between the beginnings of two answers, at least, ns: ten a second.
pub const ANSWER_NS: u64 = 100_000_000;
/// Time for each part of it that the last answer took, up to [`SLOW_NS`]; and beyond.
const PARTS: u64 = 50;
const FEWEST_PARTS: u64 = 5;
/// Between the beginnings of two answers, if they leave most of the time to others, ns: one a second.
const SLOW_NS: u64 = 1_000_000_000;

/// What an answer is to be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// All that is known by now.
    News,
    /// What the last one knew.
    Known,
}

/// What the last answer of news cost, and when it was.
pub(super) struct Pace {
    begun_ns: u64,
    cost_ns: u64,
    news: bool,
    /// What somebody waits for.
    asked: Option<Due>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { begun_ns: 0, cost_ns: 0, news: false, asked: Some(Due::News) }
    }
}

impl Pace {
    /// Somebody waits for another state of things.
    pub(super) fn ask(&mut self) {
        self.asked = Some(Due::News);
    }

    /// Somebody waits for another view of the same.
    pub(super) fn ask_of_known(&mut self) {
        self.asked.get_or_insert(Due::Known);
    }

    /// There is something that nobody waits for.
    pub(super) fn tell(&mut self) {
        self.news = true;
    }

    /// What to answer now: news `least_ns` after the last ones at least; `news` is whether there are any besides those told. By then time
    /// itself is news to whoever asks: a window ends elsewhere.
    pub(super) fn due(&self, news: bool, least_ns: u64, now_ns: u64) -> Option<Due> {
        let parts = |count| self.cost_ns.saturating_mul(count);
        let rest_ns = least_ns.max(parts(PARTS).min(SLOW_NS)).max(parts(FEWEST_PARTS));
        let is_time = now_ns.saturating_sub(self.begun_ns) >= rest_ns;
        let is_wanted = news || self.news || self.asked.is_some();
        if is_time && is_wanted { Some(Due::News) } else { self.asked }
    }

    /// An answer was made.
    pub(super) fn answered(&mut self, of: Due, begun_ns: u64, ended_ns: u64) {
        self.asked = None;
        if of == Due::News {
            (self.begun_ns, self.cost_ns, self.news) = (begun_ns, ended_ns.saturating_sub(begun_ns), false);
        }
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
                if let Some(due) = pace.due(true, ANSWER_NS, now_ns) {
                    pace.answered(due, now_ns, now_ns + cost_ns);
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
        assert_eq!(pace.due(false, ANSWER_NS, 0), Some(Due::News), "the first answer");
        pace.answered(Due::News, 0, 1_000_000_000);
        assert!(pace.due(false, ANSWER_NS, u64::MAX).is_none() && pace.due(true, ANSWER_NS, 4_999_999_999).is_none());
        pace.tell();
        assert_eq!(pace.due(false, ANSWER_NS, 4_999_999_999), None);
        assert_eq!(pace.due(false, ANSWER_NS, 5_000_000_000), Some(Due::News));
        pace.ask();
        assert_eq!(pace.due(false, ANSWER_NS, 1_000_000_000), Some(Due::News));
        pace.answered(Due::News, 1_000_000_000, 1_000_000_001);
        assert_eq!(pace.due(false, ANSWER_NS, u64::MAX), None);
    }

    #[test]
    fn another_view_of_the_same_does_not_put_news_off() {
        let mut pace = Pace::default();
        pace.answered(Due::News, 0, 10_000_000);
        pace.tell();
        for now_ns in [100_000_000, 200_000_000, 300_000_000] {
            pace.ask_of_known();
            assert_eq!(pace.due(false, ANSWER_NS, now_ns), Some(Due::Known));
            pace.answered(Due::Known, now_ns, now_ns + 1);
            assert_eq!(pace.due(false, ANSWER_NS, now_ns + 1), None);
        }
        assert_eq!(pace.due(false, ANSWER_NS, 500_000_000), Some(Due::News));
        pace.answered(Due::News, 500_000_000, 510_000_000);
        pace.ask_of_known();
        assert_eq!(pace.due(false, ANSWER_NS, 900_000_000), Some(Due::Known));
        assert_eq!(pace.due(false, ANSWER_NS, 1_000_000_000), Some(Due::News), "without any news the time is another");
        let mut pace = Pace::default();
        pace.answered(Due::News, 0, 10_000_000);
        pace.ask_of_known();
        pace.ask();
        pace.ask_of_known();
        assert_eq!(pace.due(false, ANSWER_NS, 300_000_000), Some(Due::News), "whoever asks for more gets it");
    }
}
