//! Numbers of stacks. Encoder and decoder count in the same way, so a number is never written.

use std::collections::HashMap;
use std::hint::black_box;

use super::format::{MAX_STACK_FRAMES, MAX_STACKS};
use crate::wire::StackHash;

/// The encoder's side: the number of each stack written so far, by hash.
#[derive(Default)]
pub(super) struct StackNumbers {
    numbers: HashMap<StackHash, u32, foldhash::quality::RandomState>,
    frames: usize,
}

impl StackNumbers {
    /// The number of the stack with this hash, if it has one.
    pub(super) fn find(&self, hash: StackHash) -> Option<u32> {
        self.numbers.get(&hash).copied()
    }

    /// Loads the table slots of these hashes into the cache. The loads do not depend on each other,
    /// so their cache misses overlap.
    pub(super) fn prefetch<'a>(&self, hashes: impl Iterator<Item = &'a StackHash>) {
        black_box(hashes.fold(0, |all, &hash| all ^ self.find(hash).unwrap_or(0)));
    }

    /// Returns whether there is room for this stack.
    pub(super) fn has_room(&self, frames: &[u64]) -> bool {
        self.numbers.len() < MAX_STACKS && self.frames + frames.len() <= MAX_STACK_FRAMES
    }

    /// Assigns the next number to a stack with this hash and number of frames.
    pub(super) fn add(&mut self, hash: StackHash, frames: usize) {
        self.frames += frames;
        let number = self.numbers.len() as u32;
        self.numbers.insert(hash, number);
    }

    /// Starts again from 0.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.frames = 0;
    }
}

/// The decoder's side: the frames of each numbered stack.
#[derive(Default)]
pub(super) struct NumberedStacks {
    ends: Vec<u32>,
    frames: Vec<u64>,
    /// Number of stacks before the last [`clear`](Self::clear).
    cleared: u32,
}

impl NumberedStacks {
    /// The frames of a stack.
    pub(super) fn get(&self, number: u32) -> Option<&[u64]> {
        let end = *self.ends.get(number as usize)?;
        let start = if number == 0 { 0 } else { self.ends[number as usize - 1] };
        self.frames.get(start as usize..end as usize)
    }

    /// Assigns the next number to a stack of the frames `fresh`, leaf first, followed by the
    /// outermost `kept` frames of an earlier stack. Returns `None` if the limits are reached or the
    /// earlier stack does not have that many frames.
    pub(super) fn add(&mut self, fresh: &[u64], earlier: Option<u32>, kept: usize) -> Option<u32> {
        let end = match earlier {
            Some(number) => {
                self.get(number)?;
                self.ends[number as usize] as usize
            }
            None => 0,
        };
        let depth = earlier.and_then(|number| self.get(number)).map_or(0, <[u64]>::len);
        let is_room = self.ends.len() < MAX_STACKS && self.frames.len() + fresh.len() + kept <= MAX_STACK_FRAMES;
        if kept > depth || !is_room {
            return None;
        }
        self.frames.extend_from_slice(fresh);
        self.frames.extend_from_within(end - kept..end);
        self.ends.push(self.frames.len() as u32);
        Some(self.ends.len() as u32 - 1)
    }

    /// The number of a stack counted from the start of the recording, unique within it.
    pub(super) fn unique(&self, number: u32) -> u32 {
        self.cleared.wrapping_add(number)
    }

    /// Starts again from 0.
    pub(super) fn clear(&mut self) {
        self.cleared = self.cleared.wrapping_add(self.ends.len() as u32);
        self.ends.clear();
        self.frames.clear();
    }
}
