//! Damaged copies of files, for tests of what reads them: many in CI, fewer elsewhere, and the same
//! in every run.
//!
//! `SIGTOP_FUZZ=10` gives each test ten minutes, with other damages in every run. A failure prints
//! its seed, and `SIGTOP_FUZZ=10 SIGTOP_SEED=…` repeats the run.

use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The rounds in CI for each one elsewhere.
const IN_CI: u64 = 100;

/// A generator of random numbers that are the same in every run with one seed.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// The rounds of one test.
pub struct Rounds {
    /// The numbers that choose the damages of this run.
    pub dice: Dice,
    seed: u64,
    round: u64,
    rounds: u64,
    began: Instant,
    time: Duration,
}

impl Rounds {
    /// Begins the rounds of a test. `in_ci` is their number in CI.
    pub fn new(seed: u64, in_ci: u64) -> Rounds {
        let rounds = if std::env::var_os("CI").is_some() { in_ci } else { in_ci / IN_CI };
        let minutes = variable("SIGTOP_FUZZ");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let seed = minutes.map_or(seed, |_| variable("SIGTOP_SEED").unwrap_or((now << 8 | seed) | 1));
        let time = Duration::from_secs(60 * minutes.unwrap_or_default());
        Rounds { dice: Dice(seed), seed, round: 0, rounds, began: Instant::now(), time }
    }

    /// Returns whether each run has other damages.
    pub fn is_fuzzing(&self) -> bool {
        !self.time.is_zero()
    }

    /// Begins the next round, if there is one.
    pub fn begin_next(&mut self) -> bool {
        self.round += 1;
        self.round <= self.rounds || self.began.elapsed() < self.time
    }

    /// Calls `read` with one damaged copy after the other.
    pub fn read_damaged(mut self, valid: &[u8], mut read: impl FnMut(&[u8])) {
        while self.begin_next() {
            let mut bytes = valid.to_vec();
            damage(&mut bytes, &[], &mut self.dice);
            read(&bytes);
        }
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SIGTOP_SEED={}, round {}", self.seed, self.round);
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Damages a file one to four times, every other time in one of the `telling` parts: flips bits,
/// writes extreme numbers, copies, inserts or removes pieces, or truncates it.
pub fn damage(bytes: &mut Vec<u8>, telling: &[Range<usize>], dice: &mut Dice) {
    const EXTREME: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, u32::MAX as u64, i64::MAX as u64, u64::MAX];
    for _ in 0..1 + dice.below(4) {
        let mut at = dice.below(bytes.len());
        if !telling.is_empty() && dice.below(2) == 0 {
            let part = &telling[dice.below(telling.len())];
            at = part.start + dice.below(part.len());
        }
        if at >= bytes.len() {
            continue;
        }
        let end = |length: usize| bytes.len().min(at + length);
        match dice.below(16) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, 0xff),
            2 => drop(bytes.drain(at..end(1 + dice.below(8)))),
            3 => {
                let piece = bytes[at..end(16)].to_vec();
                let to = dice.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            4..=6 => {
                let from = dice.below(bytes.len());
                let piece = bytes[from..bytes.len().min(from + dice.below(200))].to_vec();
                let length = piece.len().min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&piece[..length]);
            }
            7..=9 => {
                let extreme = EXTREME[dice.below(EXTREME.len())].to_le_bytes();
                let length = extreme.len().min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&extreme[..length]);
            }
            10..=11 => bytes[at] = dice.below(256) as u8,
            _ => bytes[at] ^= 1 << dice.below(8),
        }
    }
}
