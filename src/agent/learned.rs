//! Unwind rules by address range: what the agent thread has compiled for the functions that handlers met, so that an address a little
//! further on in the same function costs a search of a small table, and not of the file's own.
//!
//! A handler that finds no rule here looks it up in the file's tables and notes the address ([`note`]); the agent thread compiles all
//! rows of that function and publishes a new table with the next snapshot. The table is immutable, sorted, and bounded.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::rules::{Context, Found, Lookup};

/// Rows kept, at most: 2 MiB. A program walks through some hundreds of functions again and again; one with more is looked up as before.
const MAX_ROWS: usize = 64 * 1024;
/// Rows of one function, at most.
const MAX_FUNCTION: usize = 4096;
/// Addresses noted between two looks of the agent thread; later ones take the place of earlier ones.
const NOTES: usize = 128;

const _: () = assert!(size_of::<Row>() <= 32 && NOTES.is_power_of_two());

/// What holds from one address to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    end: u64,
    found: Found,
}

/// The table.
#[derive(Clone, Default)]
pub(super) struct Learned {
    /// First address of each row, sorted.
    starts: Vec<u64>,
    rows: Vec<Row>,
}

/// Addresses without a row. Written by handlers, taken by the agent thread; 0 is none. One that two write at once is seen again.
static NOTED: [AtomicU64; NOTES] = [const { AtomicU64::new(0) }; NOTES];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Notes an address of the process that has no row.
pub(super) fn note(pc: u64) {
    NOTED[NEXT.fetch_add(1, Ordering::Relaxed) & (NOTES - 1)].store(pc, Ordering::Relaxed);
}

/// Takes the addresses that were noted.
pub(super) fn take_notes() -> impl Iterator<Item = u64> {
    NOTED.iter().map(|note| note.swap(0, Ordering::Relaxed)).filter(|&pc| pc != 0)
}

impl Learned {
    /// What holds at an address.
    #[inline]
    pub(super) fn find(&self, pc: u64) -> Option<Found> {
        let next = self.starts.partition_point(|&start| start <= pc);
        let row = self.rows.get(next.checked_sub(1)?)?;
        (pc < row.end).then_some(row.found)
    }

    /// Compiles the function around an address that lies `bias` higher in the process than in the file's tables. False when nothing
    /// is gained: it is known, has no tables, or there is no room.
    pub(super) fn learn(&mut self, pc: u64, bias: u64, lookup: &Lookup, context: &mut Context) -> bool {
        if self.starts.len() >= MAX_ROWS || self.find(pc).is_some() {
            return false;
        }
        let mut fresh: Vec<(u64, Row)> = Vec::new();
        lookup.function(pc.wrapping_sub(bias), context, &mut |start, end, found| {
            let row = Row { end: end.wrapping_add(bias), found };
            fresh.push((start.wrapping_add(bias), row));
            fresh.len() < MAX_FUNCTION
        });
        let (Some(&(first, _)), Some(&(_, last))) = (fresh.first(), fresh.last()) else { return false };
        let place = self.starts.partition_point(|&start| start < first);
        // Functions do not overlap, but hostile tables may: then the first that was learned stays alone.
        let free = self.starts.get(place).is_none_or(|&start| start >= last.end)
            && (place == 0 || self.rows[place - 1].end <= first);
        let sound = fresh.iter().all(|(start, row)| *start < row.end)
            && fresh.windows(2).all(|pair| pair[0].1.end <= pair[1].0);
        if free && sound {
            self.starts.splice(place..place, fresh.iter().map(|&(start, _)| start));
            self.rows.splice(place..place, fresh.iter().map(|&(_, row)| row));
        }
        free && sound
    }

    /// Forgets what lies between two addresses: its module is gone.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        let from = self.starts.partition_point(|&first| first < start);
        let to = self.starts.partition_point(|&first| first < end).max(from);
        self.starts.drain(from..to);
        self.rows.drain(from..to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::modules::Modules;
    use super::super::rules::context;
    use super::super::slot::Pool;
    use super::*;

    /// Every rule of the table is the one that the file's tables give, at every address of functions all over the modules of this process.
    #[test]
    fn rows_say_what_the_tables_say() {
        let pool = Box::leak(Box::new(Pool::new().expect("memory")));
        let mut modules = Modules::new(pool);
        assert!(modules.refresh());
        let snapshot = modules.snapshot();
        let (mut learned, mut context) = (Learned::default(), context());
        let (mut compared, mut functions, mut covered, mut has_row) = (0, 0, 0, 0);
        let mut random = 88_172_645_463_325_252u64;
        for module in 0..snapshot.module_count() {
            let Some((start, end, bias, lookup)) = snapshot.tables_of(module) else { continue };
            for _ in 0..3_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let pc = start + random % (end - start);
                let expected = lookup.find(pc.wrapping_sub(bias), &mut context);
                functions += usize::from(learned.learn(pc, bias, lookup, &mut context));
                for near in pc.saturating_sub(40)..pc + 40 {
                    if let Some(found) = learned.find(near) {
                        compared += 1;
                        assert_eq!(found, lookup.find(near.wrapping_sub(bias), &mut context), "at {near:#x}");
                    }
                }
                if expected != Found::Nothing && learned.starts.len() < MAX_ROWS {
                    covered += 1;
                    has_row += usize::from(learned.find(pc).is_some());
                }
            }
        }
        // All but stubs of linkage tables, whose rule depends on the address itself.
        assert!(has_row * 100 >= covered * 97, "{has_row} of {covered} addresses have a row");
        assert!(functions > 1_000 && compared > 100_000, "{functions} functions, {compared} addresses");
        assert!(learned.starts.is_sorted() && learned.starts.len() <= MAX_ROWS + MAX_FUNCTION);
        let rows = learned.starts.len();
        let middle = learned.starts[rows / 2];
        learned.forget(middle, u64::MAX);
        assert_eq!(learned.starts.len(), rows / 2);
        assert!(learned.find(middle).is_none() && learned.starts.last().is_some_and(|&last| last < middle));
    }

    #[test]
    fn notes_are_taken_once() {
        take_notes().for_each(drop);
        (1..=3).for_each(note);
        let mut noted: Vec<u64> = take_notes().filter(|pc| (1..=3).contains(pc)).collect();
        noted.sort_unstable();
        assert_eq!(noted, [1, 2, 3]);
        assert!(!take_notes().any(|pc| (1..=3).contains(&pc)));
    }
}
