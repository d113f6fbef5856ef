//! A queue of the target's output in front of the emulator.
//!
//! The emulator processes it in slices, for a limited time between two frames, so that keys and
//! frames are never late. While output is queued its source is not read; the source then drops
//! lines that would scroll off anyway.

use std::time::Duration;

/// Size of a slice in bytes. With the shortest lines, one takes the emulator 1 to 2 ms.
const SLICE: usize = 4 * 1024;
/// Maximum time that the emulator works between two frames.
const MAX_WORK: Duration = Duration::from_millis(20);
/// After this much work, the source is not read again before the next frame.
const MAX_WORK_BEFORE_READ: Duration = Duration::from_millis(3);

/// Output that the emulator has not processed yet.
#[derive(Debug, Default)]
pub struct OutputQueue {
    bytes: Vec<u8>,
    /// Index of the first byte that the emulator has not processed.
    position: usize,
    /// Time that the emulator worked since the last frame.
    worked: Duration,
}

impl OutputQueue {
    /// Whether to read the source.
    pub fn is_open(&self) -> bool {
        self.position == self.bytes.len() && self.worked < MAX_WORK_BEFORE_READ
    }

    /// Whether the emulator should process a slice before the next frame.
    pub fn is_busy(&self) -> bool {
        self.position < self.bytes.len() && self.worked < MAX_WORK
    }

    /// Appends output of the source.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if self.position == self.bytes.len() {
            (self.bytes, self.position) = (bytes, 0);
        } else {
            self.bytes.extend_from_slice(&bytes);
        }
    }

    /// Removes and returns the next slice.
    pub fn pop_slice(&mut self) -> Vec<u8> {
        let end = self.bytes.len().min(self.position + SLICE);
        let slice = self.bytes[self.position..end].to_vec();
        self.position = end;
        slice
    }

    /// Removes and returns everything.
    pub fn drain(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(self.position);
        *self = OutputQueue::default();
        rest
    }

    /// Adds to the time that the emulator worked.
    pub fn add_work(&mut self, time: Duration) {
        self.worked += time;
    }

    /// Starts a new frame.
    pub fn start_frame(&mut self) {
        self.worked = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_passes_in_order() {
        let (mut queue, mut seen) = (OutputQueue::default(), Vec::new());
        let pieces: Vec<Vec<u8>> = [1, SLICE, 3 * SLICE + 5, 0, 7].iter().map(|&size| vec![size as u8; size]).collect();
        for piece in &pieces {
            queue.push(piece.clone());
            if piece.len() > SLICE {
                seen.extend(queue.pop_slice());
            }
        }
        while queue.is_busy() {
            seen.extend(queue.pop_slice());
        }
        assert_eq!(seen, pieces.concat());
    }

    #[test]
    fn flood_waits_for_the_frame() {
        let mut queue = OutputQueue::default();
        assert!(queue.is_open() && !queue.is_busy());
        queue.push(vec![b'y'; 100 * SLICE]);
        assert!(!queue.is_open() && queue.is_busy());
        let mut slices = 0;
        while queue.is_busy() {
            queue.pop_slice();
            queue.add_work(Duration::from_millis(1));
            slices += 1;
        }
        assert_eq!(slices, MAX_WORK.as_millis());
        queue.start_frame();
        assert!(queue.is_busy());
    }
}
