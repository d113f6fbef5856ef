//! Decides what is sent when, what is tried again and what is given up. It has neither a clock nor
//! a thread: times are durations since any start, so that tests run an hour in no time.
//!
//! Every sample that is added is delivered, still here, or counted as lost by one cause. A request
//! whose answer is lost is repeated, so a store may get its samples twice.

use std::collections::VecDeque;
use std::time::Duration;

use super::parts::PushPart;
use super::response::RequestOutcome;

/// Maximum size of the parts that wait, in bytes. An hour of a busy server at one part of 50 KB
/// every ten seconds is 18 MB.
const MAX_BYTES: usize = 32 << 20;
/// Maximum number of parts that wait.
const MAX_PARTS: usize = 4096;
/// Time to wait after the first failure; it doubles with each one that follows.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum time to wait, unless the server asks for more.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The reason why samples are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushLoss {
    /// Newer samples needed the room.
    BufferFull,
    /// The store does not take them.
    Refused,
    /// A single stack is too large for the store.
    TooLarge,
    /// The recording has ended, and no request has succeeded since.
    NotInTime,
}

impl PushLoss {
    /// All causes.
    pub const ALL: [PushLoss; 4] = [PushLoss::BufferFull, PushLoss::Refused, PushLoss::TooLarge, PushLoss::NotInTime];

    /// A few words for messages.
    pub fn words(self) -> &'static str {
        match self {
            PushLoss::BufferFull => "buffer full",
            PushLoss::Refused => "refused",
            PushLoss::TooLarge => "too large",
            PushLoss::NotInTime => "not in time",
        }
    }
}

/// The numbers of samples that were delivered and lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Samples that the store has.
    pub delivered: u64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Samples that wait.
    pub waiting: u64,
    /// Samples that were lost, in the order of [`PushLoss::ALL`].
    pub lost: [u64; PushLoss::ALL.len()],
    /// The reason of the last failure, unless a request has succeeded since.
    pub failure: Option<String>,
    /// The reason of the last refusal.
    pub refusal: Option<String>,
}

impl PushCounts {
    /// The number of samples that were lost.
    pub fn lost(&self) -> u64 {
        self.lost.iter().sum()
    }
}

/// The parts that wait, and when the next one is sent.
#[derive(Debug, Default)]
pub struct Delivery {
    waiting: VecDeque<PushPart>,
    /// The part of the request that runs.
    in_flight: Option<PushPart>,
    /// The size of the parts that wait.
    bytes: usize,
    /// The time before which nothing is sent.
    not_before: Duration,
    /// The number of failures in a row.
    failures: u32,
    counts: PushCounts,
}

impl Delivery {
    /// Adds a part that has at most `max_entries`. Parts that are larger are divided. If there is
    /// no room, the oldest parts are lost.
    pub fn add(&mut self, part: PushPart, max_entries: usize) {
        if part.entries > max_entries
            && let Some(halves) = part.halve()
        {
            return halves.into_iter().for_each(|half| self.add(half, max_entries));
        }
        self.bytes += part.pprof.len();
        self.waiting.push_back(part);
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.bytes > MAX_BYTES || self.waiting.len() > MAX_PARTS {
            match self.pop() {
                Some(oldest) => self.lose(PushLoss::BufferFull, oldest.samples),
                None => return,
            }
        }
    }

    fn pop(&mut self) -> Option<PushPart> {
        let part = self.waiting.pop_front()?;
        self.bytes -= part.pprof.len();
        Some(part)
    }

    fn lose(&mut self, cause: PushLoss, samples: u64) {
        self.counts.lost[cause as usize] += samples;
    }

    /// Whether nothing waits and no request runs.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_none()
    }

    /// The time at which the next request is due; `None` while nothing waits or a request runs.
    pub fn due(&self) -> Option<Duration> {
        (!self.waiting.is_empty() && self.in_flight.is_none()).then_some(self.not_before)
    }

    /// Takes the part of the next request, if it is due at `now`. [`finish`](Self::finish) follows.
    pub fn start(&mut self, now: Duration) -> Option<PushPart> {
        self.due().filter(|&due| due <= now)?;
        self.in_flight = self.pop();
        self.in_flight.clone()
    }

    /// Notes the result of the request that ran until `now`. `jitter` is a random number from 0 to
    /// 1: many recorders whose store comes back do not all ask it at the same moment.
    pub fn finish(&mut self, outcome: RequestOutcome, now: Duration, jitter: f64) {
        let Some(part) = self.in_flight.take() else { return };
        match outcome {
            RequestOutcome::Delivered => {
                self.counts.delivered += part.samples;
                self.counts.requests += 1;
                self.succeed();
            }
            RequestOutcome::Refused(why) => {
                self.lose(PushLoss::Refused, part.samples);
                self.counts.refusal = Some(why);
                // The server answers.
                self.succeed();
            }
            RequestOutcome::TooLarge(why) => {
                match part.halve() {
                    Some(halves) => halves.into_iter().rev().for_each(|half| self.put_back(half)),
                    None => {
                        self.lose(PushLoss::TooLarge, part.samples);
                        self.counts.refusal = Some(why);
                    }
                }
                self.succeed();
            }
            RequestOutcome::Retry(after, why) => {
                self.put_back(part);
                self.counts.failure = Some(why);
                let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(16)).min(MAX_WAIT);
                let wait = wait.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
                self.failures += 1;
                self.not_before = now + after.unwrap_or_default().max(wait);
            }
        }
    }

    fn succeed(&mut self) {
        (self.failures, self.counts.failure) = (0, None);
    }

    fn put_back(&mut self, part: PushPart) {
        self.bytes += part.pprof.len();
        self.waiting.push_front(part);
        self.make_room();
    }

    /// Makes the next request due at `now`: no other chance follows.
    pub fn hurry(&mut self, now: Duration) {
        self.not_before = self.not_before.min(now);
    }

    /// Gives everything up.
    pub fn give_up(&mut self) {
        let rest: u64 = self.in_flight.take().iter().chain(&self.waiting).map(|part| part.samples).sum();
        self.waiting.clear();
        self.bytes = 0;
        self.lose(PushLoss::NotInTime, rest);
    }

    /// Counts samples that could not be encoded.
    pub fn refuse(&mut self, samples: u64, why: String) {
        self.lose(PushLoss::Refused, samples);
        self.counts.refusal = Some(why);
    }

    /// The counts so far.
    pub fn counts(&self) -> PushCounts {
        let waiting = self.in_flight.iter().chain(&self.waiting).map(|part| part.samples).sum();
        PushCounts { waiting, ..self.counts.clone() }
    }
}

#[cfg(test)]
mod tests;
