//! Sentences that explain an answer of a session: what is hot, what threads wait for, what grows,
//! what is missing. Each is made by a rule from figures of the tables, and names the row that it
//! comes from. Nothing here computes a figure.

mod evidence;
mod losses;
mod time;
mod waits;

pub use self::evidence::{Evidence, Sentence};
use crate::session::Question;
use crate::tally::flame::FlameQuery;
use crate::tally::threads::{FrameRequest, ThreadsQuery};

/// Maximum number of sentences.
pub const MAX_SENTENCES: usize = 10;
/// Boxes of the flame graph that are narrower than this share are not asked for.
const LEAST_SHARE: f64 = 0.02;

/// Minimum and maximum length of the last part that is compared with the whole, ns: half of the
/// history at most.
const RECENT_NS: (u64, u64) = (1_000_000_000, 30_000_000_000);

/// The length of the last part of `all_ns` that tells what changes, ns.
pub fn recent_ns(all_ns: u64) -> u64 {
    (all_ns / 2).clamp(RECENT_NS.0, RECENT_NS.1)
}

/// The question to ask for. `hot` is the full name of the row with the greatest flat, if it is
/// known: its lines are asked for, too.
pub fn question(window_ns: Option<u64>, hot: Option<&str>) -> Question {
    let threads = ThreadsQuery { ended_processes: true, deepest_of: FrameRequest::None, ..ThreadsQuery::default() };
    Question {
        window_ns,
        listing: hot.map(str::to_owned),
        flame: Some(FlameQuery { least_share: LEAST_SHARE, ..FlameQuery::default() }),
        threads: Some(threads),
        waits: true,
        ..Question::default()
    }
}

/// The rules, in the order of their sentences.
const RULES: [fn(&Evidence<'_>) -> Option<Sentence>; 15] = [
    time::summary,
    time::hottest_function,
    time::hottest_path,
    time::hottest_line,
    waits::computing_or_waiting,
    waits::lock,
    waits::deadlock,
    time::changing,
    time::one_thread,
    time::kernel,
    waits::deepest_stack,
    losses::unsampled,
    losses::truncated,
    losses::nameless,
    losses::few_samples,
];

/// Makes the sentences, at most [`MAX_SENTENCES`], in the order of the rules. Returns them with the
/// number of those that were left out.
pub fn explain(evidence: &Evidence<'_>) -> (Vec<Sentence>, usize) {
    let mut sentences: Vec<Sentence> = RULES.iter().filter_map(|rule| rule(evidence)).collect();
    let omitted = sentences.len().saturating_sub(MAX_SENTENCES);
    for _ in 0..omitted {
        let least = sentences.iter().enumerate().min_by_key(|(_, sentence)| sentence.importance);
        if let Some((index, _)) = least {
            sentences.remove(index);
        }
    }
    (sentences, omitted)
}
