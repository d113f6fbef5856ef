//! The numbers of stacks, the same on both ends.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

use super::{MAX_STACK_FRAMES, MAX_STACKS};

/// Of words that are hashes themselves.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "{bytes:?} is no hash");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What the writer knows: the number of each stack that was written.
#[derive(Default)]
pub(super) struct Numbers {
    /// By mark.
    numbers: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    frames: usize,
}

impl Numbers {
    /// The number of the stack with a mark, counted from the first, if it has one.
    pub(super) fn find(&self, mark: u64) -> Option<u32> {
        self.numbers.get(&mark).copied()
    }

    /// Reads what [`find`](Self::find) will ask for: reads that do not wait for each other wait together.
    pub(super) fn look_ahead(&self, marks: &[u64]) {
        black_box(marks.iter().fold(0, |seen, mark| seen ^ self.numbers.get(mark).copied().unwrap_or(0)));
    }

    /// Whether there is room for one more.
    pub(super) fn takes(&self, frames: &[u64]) -> bool {
        self.numbers.len() < MAX_STACKS && self.frames + frames.len() <= MAX_STACK_FRAMES
    }

    /// Gives the next number to the stack with a mark, of so many frames.
    pub(super) fn add(&mut self, mark: u64, frames: usize) {
        self.frames += frames;
        let number = self.numbers.len() as u32;
        self.numbers.insert(mark, number);
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.frames = 0;
    }
}

/// What the reader knows: the stack of each number.
#[derive(Default)]
pub(super) struct Stacks {
    ends: Vec<u32>,
    frames: Vec<u64>,
    /// Stacks before those that have numbers now.
    forgotten: u32,
}

impl Stacks {
    /// The frames of a number.
    pub(super) fn get(&self, number: u32) -> Option<&[u64]> {
        let end = *self.ends.get(number as usize)?;
        let start = if number == 0 { 0 } else { self.ends[number as usize - 1] };
        self.frames.get(start as usize..end as usize)
    }

    /// Gives the next number to a stack of the first frames from `fresh`, the rest as the outermost `kept` of an earlier
    /// one. `None` if there is no room or no such.
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

    /// A number that no other stack of the recording has, for a number of now.
    pub(super) fn unique(&self, number: u32) -> u32 {
        self.forgotten.wrapping_add(number)
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.forgotten = self.forgotten.wrapping_add(self.ends.len() as u32);
        self.ends.clear();
        self.frames.clear();
    }
}
