//! What was entered into the books lately, in the order in which it came: who keeps sums adds this to them instead of adding up all
//! anew. It is short; who comes too late for it adds up anew.

use std::collections::VecDeque;

use super::window::{Key, Weight};

/// Entries, at most, at 32 bytes each: four seconds of 8 000 samples a second.
const MAX_ENTRIES: usize = 1 << 15;

/// A sample that was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Time ÷ [`BUCKET_NS`](super::window::BUCKET_NS).
    pub tick: u64,
    /// Who was seen where.
    pub key: Key,
    /// What it weighs.
    pub weight: Weight,
}

/// A place in a journal: entries before it are known. Where the books changed otherwise than by entries (they were emptied, frozen),
/// no place from before is good any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Counts what is no entry.
    epoch: u64,
    /// Counts entries.
    number: u64,
}

/// One clock's entries of all processes.
#[derive(Debug, Default)]
pub struct Journal {
    entries: VecDeque<Entered>,
    end: Mark,
}

impl Journal {
    pub(super) fn enter(&mut self, entered: Entered) {
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entered);
        self.end.number += 1;
    }

    /// Something changed that is no entry.
    pub(super) fn turn(&mut self) {
        self.entries.clear();
        self.end.epoch += 1;
    }

    /// Where it ends now.
    pub fn end(&self) -> Mark {
        self.end
    }

    /// What came since; `None` if that is not known.
    pub fn since(&self, mark: Mark) -> Option<impl Iterator<Item = &Entered>> {
        let count = self.end.number.checked_sub(mark.number)? as usize;
        let start = self.entries.len().checked_sub(count).filter(|_| mark.epoch == self.end.epoch)?;
        Some(self.entries.range(start..))
    }
}

#[cfg(test)]
mod tests {
    use super::super::stack::StackId;
    use super::super::thread::ThreadId;
    use super::*;

    fn entered(tick: u64) -> Entered {
        Entered { tick, key: (ThreadId(0), StackId::EMPTY), weight: Weight { ns: 1, samples: 1 } }
    }

    #[test]
    fn who_comes_in_time_is_told_what_is_new_and_who_comes_late_is_told_so() {
        let mut journal = Journal::default();
        let start = journal.end();
        (0..10).for_each(|tick| journal.enter(entered(tick)));
        let middle = journal.end();
        (10..12).for_each(|tick| journal.enter(entered(tick)));
        let ticks =
            |journal: &Journal, mark| Some(journal.since(mark)?.map(|entered| entered.tick).collect::<Vec<_>>());
        assert_eq!(ticks(&journal, middle), Some(vec![10, 11]));
        assert_eq!(ticks(&journal, start).map(|all| all.len()), Some(12));
        assert_eq!(ticks(&journal, journal.end()), Some(vec![]));
        (0..MAX_ENTRIES as u64).for_each(|tick| journal.enter(entered(tick)));
        assert_eq!((ticks(&journal, start), ticks(&journal, middle)), (None, None));
        let end = journal.end();
        journal.turn();
        assert_eq!(ticks(&journal, end), None);
        assert_eq!(ticks(&journal, journal.end()), Some(vec![]));
    }
}
