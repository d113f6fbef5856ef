//! Decides when the session computes an answer. New data is shown at the interval that the user
//! chose, and less often if answers are expensive: they take at most 2 % of a core while that
//! allows one answer per second, and never more than 20 %, so that samples are not delayed. A key
//! press is answered immediately from the data of the last answer; newer data waits until it is
//! due. While the empty screen fills, answers come more often. While the cursor moves, new data
//! waits for a second.

/// Minimum time between the starts of two answers with new data, ns: ten per second. A screen has
/// fewer.
pub const ANSWER_NS: u64 = 100_000_000;
/// The same while names are awaited on a screen that has just been opened, ns.
const EAGER_NS: u64 = 20_000_000;
/// The interval between answers as a multiple of the time that the last one took, as long as that
/// is below [`SLOW_NS`].
const USUAL_FACTOR: u64 = 50;
/// The smallest such multiple.
const MIN_FACTOR: u64 = 5;
/// Interval between answers that take between 2 % and 20 % of a core, ns: one per second.
const SLOW_NS: u64 = 1_000_000_000;

/// Time for which new data waits after a move of the cursor, ns.
const HOLD_NS: u64 = 1_000_000_000;
/// Maximum time for which it waits while the cursor goes on moving, ns.
const MAX_HOLD_NS: u64 = 3_000_000_000;

/// The data that an answer is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerScope {
    /// All data received so far.
    Latest,
    /// The data of the last answer.
    Previous,
}

/// The start and the cost of the last answer with new data, and what is pending.
pub(super) struct Scheduler {
    started_ns: u64,
    cost_ns: u64,
    has_news: bool,
    /// Whether the screen has just been opened and lacks names.
    is_eager: bool,
    /// The first of the moves of the cursor since the last answer with new data, and the time until
    /// which new data waits for them.
    hold: Option<(u64, u64)>,
    /// The answer that the user waits for.
    requested: Option<AnswerScope>,
}

impl Default for Scheduler {
    fn default() -> Scheduler {
        let requested = Some(AnswerScope::Latest);
        Scheduler { started_ns: 0, cost_ns: 0, has_news: false, is_eager: false, hold: None, requested }
    }
}

impl Scheduler {
    /// Requests an answer from the latest data.
    pub(super) fn request_latest(&mut self) {
        self.requested = Some(AnswerScope::Latest);
    }

    /// Requests an answer from the data of the last one, for another view of it.
    pub(super) fn request_previous(&mut self) {
        self.requested.get_or_insert(AnswerScope::Previous);
    }

    /// Notes that there is new data that the user does not wait for.
    pub(super) fn note_news(&mut self) {
        self.has_news = true;
    }

    /// Lets new data wait, because the cursor moves.
    pub(super) fn hold(&mut self, now_ns: u64) {
        let since_ns = self.hold.filter(|hold| now_ns <= hold.1).map_or(now_ns, |hold| hold.0);
        self.hold = Some((since_ns, (now_ns + HOLD_NS).min(since_ns + MAX_HOLD_NS)));
    }

    /// Makes answers come more often, as far as their cost allows, or no longer.
    pub(super) fn set_eager(&mut self, is_eager: bool) {
        self.is_eager = is_eager;
    }

    /// Returns the answer to compute now, if any. Answers from the latest data are at least
    /// `least_ns` apart. `news` says whether there is new data besides what was noted. A requested
    /// answer that is computed later than that uses the latest data, because the window has moved.
    pub(super) fn due(&self, news: bool, least_ns: u64, now_ns: u64) -> Option<AnswerScope> {
        let times_cost = |factor| self.cost_ns.saturating_mul(factor);
        let rest_ns = match self.is_eager {
            true => EAGER_NS.min(least_ns),
            false => least_ns.max(times_cost(USUAL_FACTOR).min(SLOW_NS)),
        };
        let rest_ns = rest_ns.max(times_cost(MIN_FACTOR));
        let is_held = self.hold.is_some_and(|(since_ns, until_ns)| (since_ns..until_ns).contains(&now_ns));
        let is_time = !is_held && now_ns.saturating_sub(self.started_ns) >= rest_ns;
        let is_wanted = news || self.has_news || self.requested.is_some();
        if is_time && is_wanted { Some(AnswerScope::Latest) } else { self.requested }
    }

    /// Notes that an answer was computed.
    pub(super) fn answered(&mut self, scope: AnswerScope, started_ns: u64, ended_ns: u64) {
        self.requested = None;
        if scope == AnswerScope::Latest {
            (self.started_ns, self.cost_ns, self.has_news) = (started_ns, ended_ns.saturating_sub(started_ns), false);
            self.hold = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_take_a_small_fraction_of_the_time() {
        for (cost_ns, expected) in
            [(2_000_000, 100), (5_000_000, 40), (10_000_000, 20), (100_000_000, 10), (1_000_000_000, 2)]
        {
            let (mut scheduler, mut answers, mut now_ns) = (Scheduler::default(), 0, 0);
            while now_ns < 10_000_000_000 {
                if let Some(due) = scheduler.due(true, ANSWER_NS, now_ns) {
                    scheduler.answered(due, now_ns, now_ns + cost_ns);
                    (answers, now_ns) = (answers + 1, now_ns + cost_ns);
                }
                now_ns += 500_000;
            }
            assert!((expected - 1..=expected).contains(&answers), "{answers} of {cost_ns} ns in 10 s");
        }
    }

    #[test]
    fn requests_are_answered_immediately_and_nothing_is_without_news() {
        let mut scheduler = Scheduler::default();
        assert_eq!(scheduler.due(false, ANSWER_NS, 0), Some(AnswerScope::Latest), "the first answer");
        scheduler.answered(AnswerScope::Latest, 0, 1_000_000_000);
        assert!(
            scheduler.due(false, ANSWER_NS, u64::MAX).is_none()
                && scheduler.due(true, ANSWER_NS, 4_999_999_999).is_none()
        );
        scheduler.note_news();
        assert_eq!(scheduler.due(false, ANSWER_NS, 4_999_999_999), None);
        assert_eq!(scheduler.due(false, ANSWER_NS, 5_000_000_000), Some(AnswerScope::Latest));
        scheduler.request_latest();
        assert_eq!(scheduler.due(false, ANSWER_NS, 1_000_000_000), Some(AnswerScope::Latest));
        scheduler.answered(AnswerScope::Latest, 1_000_000_000, 1_000_000_001);
        assert_eq!(scheduler.due(false, ANSWER_NS, u64::MAX), None);
    }

    #[test]
    fn an_empty_screen_fills_soon() {
        let mut scheduler = Scheduler::default();
        scheduler.answered(AnswerScope::Latest, 0, 2_000_000);
        assert_eq!(scheduler.due(true, ANSWER_NS, 20_000_000), None);
        scheduler.set_eager(true);
        assert_eq!(scheduler.due(true, ANSWER_NS, 19_000_000), None);
        assert_eq!(scheduler.due(true, ANSWER_NS, 20_000_000), Some(AnswerScope::Latest));
        scheduler.answered(AnswerScope::Latest, 20_000_000, 120_000_000);
        assert_eq!(scheduler.due(true, ANSWER_NS, 519_000_000), None, "not beyond a fifth of a core");
    }

    #[test]
    fn new_data_waits_while_the_cursor_moves_but_not_for_ever() {
        const MS: u64 = 1_000_000;
        let mut scheduler = Scheduler::default();
        scheduler.answered(AnswerScope::Latest, 0, MS);
        let mut latest = Vec::new();
        for now_ms in (0..10_000).step_by(100) {
            if (900..6_000).contains(&now_ms) {
                scheduler.hold(now_ms * MS);
                scheduler.request_previous();
            }
            if let Some(due) = scheduler.due(true, 1_000 * MS, now_ms * MS) {
                scheduler.answered(due, now_ms * MS, now_ms * MS + MS);
                latest.extend((due == AnswerScope::Latest).then_some(now_ms));
            }
        }
        assert_eq!(latest, [3_900, 6_900, 7_900, 8_900, 9_900]);
        let mut scheduler = Scheduler::default();
        scheduler.answered(AnswerScope::Latest, 0, MS);
        scheduler.hold(900 * MS);
        scheduler.request_latest();
        assert_eq!(scheduler.due(false, 1_000 * MS, 950 * MS), Some(AnswerScope::Latest), "the user waits for it");
    }

    #[test]
    fn answers_from_previous_data_do_not_delay_new_data() {
        let mut scheduler = Scheduler::default();
        scheduler.answered(AnswerScope::Latest, 0, 10_000_000);
        scheduler.note_news();
        for now_ns in [100_000_000, 200_000_000, 300_000_000] {
            scheduler.request_previous();
            assert_eq!(scheduler.due(false, ANSWER_NS, now_ns), Some(AnswerScope::Previous));
            scheduler.answered(AnswerScope::Previous, now_ns, now_ns + 1);
            assert_eq!(scheduler.due(false, ANSWER_NS, now_ns + 1), None);
        }
        assert_eq!(scheduler.due(false, ANSWER_NS, 500_000_000), Some(AnswerScope::Latest));
        scheduler.answered(AnswerScope::Latest, 500_000_000, 510_000_000);
        scheduler.request_previous();
        assert_eq!(scheduler.due(false, ANSWER_NS, 900_000_000), Some(AnswerScope::Previous));
        assert_eq!(
            scheduler.due(false, ANSWER_NS, 1_000_000_000),
            Some(AnswerScope::Latest),
            "even without news the window has moved"
        );
        let mut scheduler = Scheduler::default();
        scheduler.answered(AnswerScope::Latest, 0, 10_000_000);
        scheduler.request_previous();
        scheduler.request_latest();
        scheduler.request_previous();
        assert_eq!(
            scheduler.due(false, ANSWER_NS, 300_000_000),
            Some(AnswerScope::Latest),
            "a request for the latest data takes precedence"
        );
    }
}
