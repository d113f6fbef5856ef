//! Unwind rules by address range, compiled by the agent thread for the functions that handlers met.
//! Another address in such a function then costs a search in a small table instead of the file's
//! own.
//!
//! A handler that finds no rule here looks it up in the file's tables and records the miss
//! ([`record_miss`]). The agent thread compiles all rows of that function and publishes a new table
//! with the next snapshot. A published table is immutable, sorted and bounded. It has two parts, so
//! that a program that meets new functions all the time does not cost a copy of all rows each time.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::agent::os::memory::PageAligned;
use crate::agent::unwind::rules::{RuleLookup, TableContext, UnwindTables};

/// Maximum number of rows: 2.5 MiB, and as much again for the index. Most programs execute some
/// hundreds of functions repeatedly. Functions beyond the limit are looked up in the file's tables.
const MAX_ROWS: usize = 64 * 1024;
/// Maximum number of rows of one function.
const MAX_FUNCTION: usize = 4096;
/// Maximum number of misses between two iterations of the agent thread. Later ones replace earlier
/// ones.
const NOTES: usize = 128;
/// Number of recent rows that are always allowed: they fit in a small block of memory, which is
/// used again.
const RECENT: usize = 256;
/// The recent rows are merged with the settled ones when they are more than this part of them.
const RECENT_PART: usize = 4;
/// Bytes of code for which the index has one entry.
const BLOCK: u64 = 256;
/// Approximate maximum number of entries for one row. Addresses in the middle of a longer row are
/// searched for.
const MAX_BLOCKS: u64 = 16;

const _: () = assert!(size_of::<Row>() <= 40 && NOTES.is_power_of_two());

/// The lookup result for a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    start: u64,
    end: u64,
    found: RuleLookup,
}

/// The table.
#[derive(Default)]
pub(crate) struct RuleTable {
    /// Shared with the tables before and after this one.
    settled: Arc<IndexedRows>,
    /// Rows that have come since.
    recent: IndexedRows,
}

/// Rows with an index.
#[derive(Default)]
struct IndexedRows {
    /// Sorted and disjoint.
    rows: Vec<Row>,
    /// Hash table of blocks: the number of a block, and the first row that overlaps it; number 0 is
    /// free. A binary search of the rows would touch more distant memory. Without entries before
    /// the rows are complete.
    index: Vec<(u64, u32)>,
}

/// Addresses without a row; 0 is none. Written by handlers, taken by the agent thread. An address
/// that is overwritten is recorded again later.
#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
static NOTED: PageAligned<[AtomicU64; NOTES]> = PageAligned([const { AtomicU64::new(0) }; NOTES]);
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Records an address of the process that has no row.
pub(crate) fn record_miss(pc: u64) {
    NOTED[NEXT.fetch_add(1, Ordering::Relaxed) & (NOTES - 1)].store(pc, Ordering::Relaxed);
}

/// Takes the recorded addresses.
pub(crate) fn take_misses() -> impl Iterator<Item = u64> {
    NOTED.iter().map(|note| note.swap(0, Ordering::Relaxed)).filter(|&pc| pc != 0)
}

impl RuleTable {
    /// Returns the lookup result for an address.
    #[inline]
    pub(crate) fn find(&self, pc: u64) -> Option<RuleLookup> {
        self.settled.find(pc).or_else(|| self.recent.find(pc))
    }

    /// Returns a table with the same rows, to be changed.
    pub(crate) fn to_change(&self) -> RuleTable {
        RuleTable {
            settled: self.settled.clone(),
            recent: IndexedRows { rows: self.recent.rows.clone(), index: Vec::new() },
        }
    }

    /// Compiles the functions around addresses, each with how much higher it lies in the process
    /// than in the file's tables. False when nothing is gained: what is not known yet has no
    /// tables, or there is no room.
    pub(crate) fn learn<'a>(
        &mut self,
        addresses: impl Iterator<Item = (u64, u64, &'a UnwindTables)>,
        context: &mut TableContext,
    ) -> bool {
        let mut gained = false;
        for (pc, bias, lookup) in addresses {
            gained |= self.learn_function(pc, bias, lookup, context);
        }
        if self.recent.rows.len() > RECENT.max(self.settled.rows.len() / RECENT_PART) {
            self.settle(|_| true);
        } else if gained {
            self.recent.make_index();
        }
        gained
    }

    fn learn_function(&mut self, pc: u64, bias: u64, lookup: &UnwindTables, context: &mut TableContext) -> bool {
        if self.settled.rows.len() + self.recent.rows.len() >= MAX_ROWS || self.find(pc).is_some() {
            return false;
        }
        let mut fresh: Vec<Row> = Vec::new();
        lookup.function(pc.wrapping_sub(bias), context, &mut |start, end, found| {
            fresh.push(Row { start: start.wrapping_add(bias), end: end.wrapping_add(bias), found });
            fresh.len() < MAX_FUNCTION
        });
        let (Some(first), Some(last)) = (fresh.first(), fresh.last()) else { return false };
        let sound =
            fresh.iter().all(|row| row.start < row.end) && fresh.windows(2).all(|pair| pair[0].end <= pair[1].start);
        // Functions do not overlap, but hostile tables may. Then only the first one is kept.
        let is_free = self.settled.place_for(first.start, last.end).is_some();
        match self.recent.place_for(first.start, last.end) {
            Some(place) if is_free && sound => {
                self.recent.rows.splice(place..place, fresh);
                self.recent.index.clear();
                true
            }
            _ => false,
        }
    }

    /// Removes the rows between two addresses, whose module was unloaded.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        self.settle(|row| !(start..end).contains(&row.start));
    }

    /// Makes one part of both, of the rows that are to be kept.
    fn settle(&mut self, keep: impl Fn(&Row) -> bool) {
        let mut all = IndexedRows::default();
        all.rows.reserve_exact(self.settled.rows.len() + self.recent.rows.len());
        let mut recent = self.recent.rows.iter().filter(|row| keep(row)).peekable();
        for row in self.settled.rows.iter().filter(|row| keep(row)) {
            while let Some(&earlier) = recent.next_if(|recent| recent.start < row.start) {
                all.rows.push(earlier);
            }
            all.rows.push(*row);
        }
        all.rows.extend(recent);
        all.make_index();
        *self = RuleTable { settled: Arc::new(all), recent: IndexedRows::default() };
    }
}

impl IndexedRows {
    #[inline]
    fn find(&self, pc: u64) -> Option<RuleLookup> {
        let first = self.first_in(pc / BLOCK).unwrap_or_else(|| self.rows.partition_point(|row| row.end <= pc));
        let row = self.rows.get(first..)?.iter().find(|row| pc < row.end)?;
        (row.start <= pc).then_some(row.found)
    }

    /// Returns the first row that overlaps a block, if the index has it.
    #[inline]
    fn first_in(&self, block: u64) -> Option<usize> {
        let places = self.index.len();
        let mut place = place(block, places);
        // At least a quarter of the entries is free.
        for _ in 0..places {
            match self.index[place] {
                (0, _) => return None,
                (number, row) if number == block => return Some(row as usize),
                _ => place = (place + 1) % places,
            }
        }
        None
    }

    /// Returns the place of rows between two addresses, if none overlaps them.
    fn place_for(&self, start: u64, end: u64) -> Option<usize> {
        let place = self.rows.partition_point(|row| row.start < start);
        let is_free = self.rows.get(place).is_none_or(|row| row.start >= end)
            && (place == 0 || self.rows[place - 1].end <= start);
        is_free.then_some(place)
    }

    /// Builds the index of the rows.
    fn make_index(&mut self) {
        // The last block is always included, because other rows may overlap it.
        let blocks = |row: &Row| {
            let (first, last) = (row.start / BLOCK, (row.end - 1) / BLOCK);
            (first..last.min(first + MAX_BLOCKS)).chain([last])
        };
        let most: usize = self.rows.iter().map(|row| blocks(row).count()).sum();
        let places = (most + most / 3 + 1).next_power_of_two();
        self.index.clear();
        self.index.resize(places, (0, 0));
        for (number, row) in self.rows.iter().enumerate() {
            for block in blocks(row).filter(|&block| block != 0) {
                let mut place = place(block, places);
                while self.index[place].0 != 0 && self.index[place].0 != block {
                    place = (place + 1) % places;
                }
                // Rows are in order, so an existing entry names an earlier row.
                if self.index[place].0 == 0 {
                    self.index[place] = (block, number as u32);
                }
            }
        }
    }
}

/// Returns the index at which the search for a block starts.
fn place(block: u64, places: usize) -> usize {
    (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & places.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::unwind::modules::Modules;
    use crate::agent::unwind::rules::new_context;
    use crate::process::unwind::{CallerValue, PackedRule};

    fn rows(table: &RuleTable) -> Vec<Row> {
        table.settled.rows.iter().chain(&table.recent.rows).copied().collect()
    }

    /// Every rule of the table is the one that the file's tables give, at every address of
    /// functions all over the modules of this process.
    #[test]
    fn rows_say_what_the_tables_say() {
        let mut modules = Modules::new();
        assert!(modules.refresh().is_some_and(|update| update.has_new_code));
        let snapshot = modules.snapshot();
        let (mut rule_table, mut context) = (RuleTable::default(), new_context());
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
                functions += usize::from(rule_table.learn([(pc, bias, lookup)].into_iter(), &mut context));
                for near in pc.saturating_sub(40)..pc + 40 {
                    if let Some(found) = rule_table.find(near) {
                        compared += 1;
                        assert_eq!(found, lookup.find(near.wrapping_sub(bias), &mut context), "at {near:#x}");
                    }
                }
                if expected != RuleLookup::Missing && rows(&rule_table).len() < MAX_ROWS {
                    covered += 1;
                    has_row += usize::from(rule_table.find(pc).is_some());
                }
            }
        }
        // All but stubs of linkage tables, whose rule depends on the address itself.
        assert!(has_row * 100 >= covered * 97, "{has_row} of {covered} addresses have a row");
        assert!(functions > 1_000 && compared > 100_000, "{functions} functions, {compared} addresses");
        let mut all = rows(&rule_table);
        assert!(all.len() <= MAX_ROWS + MAX_FUNCTION);
        let parts = [&*rule_table.settled, &rule_table.recent].map(|part| &part.rows);
        assert!(parts.iter().all(|part| !part.is_empty() && part.is_sorted_by_key(|row| row.start)));
        all.sort_unstable_by_key(|row| row.start);
        assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
        let middle = all[all.len() / 2].start;
        rule_table.forget(middle, u64::MAX);
        assert_eq!(rows(&rule_table), all[..all.len() / 2]);
        assert!(rule_table.find(middle).is_none());
        assert!(rows(&rule_table).iter().all(|row| rule_table.find(row.start) == Some(row.found)));
    }

    /// Rows of all lengths, with and without gaps between them, at every address.
    #[test]
    fn the_index_finds_what_a_search_finds() {
        let mut random = 88_172_645_463_325_252u64;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        let mut table = IndexedRows::default();
        let mut at = 1;
        for number in 0..400 {
            let start = at + if below(2) == 0 { 0 } else { below(700) };
            let longest = if below(20) == 0 { (MAX_BLOCKS + 4) * BLOCK } else { 90 };
            at = start + 1 + below(longest);
            let found = RuleLookup::Rule(PackedRule {
                cfa: CallerValue::Register(7, number),
                return_address: CallerValue::AtCfa(-8),
                saved: [CallerValue::Same],
            });
            table.rows.push(Row { start, end: at, found });
        }
        table.make_index();
        let (mut held, mut not) = (0, 0);
        for pc in 0..at + 1000 {
            let expected = table.rows.iter().find(|row| (row.start..row.end).contains(&pc)).map(|row| row.found);
            assert_eq!(table.find(pc), expected, "at {pc}");
            *(if expected.is_some() { &mut held } else { &mut not }) += 1;
        }
        assert!(held > 10_000 && not > 10_000, "{held} addresses have a row, {not} have none");
        assert_eq!(RuleTable::default().find(5), None);
    }

    #[test]
    fn notes_are_taken_once() {
        take_misses().for_each(drop);
        (1..=3).for_each(record_miss);
        let mut noted: Vec<u64> = take_misses().filter(|pc| (1..=3).contains(pc)).collect();
        noted.sort_unstable();
        assert_eq!(noted, [1, 2, 3]);
        assert!(!take_misses().any(|pc| (1..=3).contains(&pc)));
    }
}
