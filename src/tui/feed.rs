//! The target's output on its way into the emulator: a slice at a time and so much between two frames, so that keys, numbers
//! and frames are never late. While a flood waits here its source is not read, and makes it shorter.

use std::time::Duration;

/// Bytes that the emulator gets at once: of the shortest lines, work for a millisecond or two.
const SLICE: usize = 4 * 1024;
/// Time for the emulator between two frames.
const WORK: Duration = Duration::from_millis(20);
/// After this much of it no more is taken before the next frame: nobody reads faster.
const ENOUGH: Duration = Duration::from_millis(3);

/// Output that waits for the emulator.
#[derive(Debug, Default)]
pub struct Feed {
    bytes: Vec<u8>,
    /// The first that the emulator has not seen.
    at: usize,
    /// Time that the emulator took since the last frame.
    spent: Duration,
}

impl Feed {
    /// Whether more can be taken from the source.
    pub fn is_open(&self) -> bool {
        self.at == self.bytes.len() && self.spent < ENOUGH
    }

    /// Whether there is something to do before the next frame.
    pub fn is_busy(&self) -> bool {
        self.at < self.bytes.len() && self.spent < WORK
    }

    /// Takes what the source had.
    pub fn take(&mut self, bytes: Vec<u8>) {
        if self.at == self.bytes.len() {
            (self.bytes, self.at) = (bytes, 0);
        } else {
            self.bytes.extend_from_slice(&bytes);
        }
    }

    /// The next slice for the emulator.
    pub fn slice(&mut self) -> Vec<u8> {
        let end = self.bytes.len().min(self.at + SLICE);
        let slice = self.bytes[self.at..end].to_vec();
        self.at = end;
        slice
    }

    /// All that is left.
    pub fn rest(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(self.at);
        *self = Feed::default();
        rest
    }

    /// The emulator took so long for a slice.
    pub fn spend(&mut self, time: Duration) {
        self.spent += time;
    }

    /// A frame was drawn.
    pub fn drawn(&mut self) {
        self.spent = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_comes_through_in_order() {
        let (mut feed, mut seen) = (Feed::default(), Vec::new());
        let pieces: Vec<Vec<u8>> = [1, SLICE, 3 * SLICE + 5, 0, 7].iter().map(|&size| vec![size as u8; size]).collect();
        for piece in &pieces {
            feed.take(piece.clone());
            if piece.len() > SLICE {
                seen.extend(feed.slice());
            }
        }
        while feed.is_busy() {
            seen.extend(feed.slice());
        }
        assert_eq!(seen, pieces.concat());
    }

    #[test]
    fn a_flood_waits_for_the_frame() {
        let mut feed = Feed::default();
        assert!(feed.is_open() && !feed.is_busy());
        feed.take(vec![b'y'; 100 * SLICE]);
        assert!(!feed.is_open() && feed.is_busy());
        let mut slices = 0;
        while feed.is_busy() {
            feed.slice();
            feed.spend(Duration::from_millis(1));
            slices += 1;
        }
        assert_eq!(slices, WORK.as_millis());
        feed.drawn();
        assert!(feed.is_busy());
    }
}
