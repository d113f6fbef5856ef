//! One handler's cache of unwind rules, by exact address.

use core::mem::MaybeUninit;

use crate::agent::unwind::rule_table::{self, RuleTable};
use crate::agent::unwind::rules::{RuleLookup, TableContext, UnwindTables};

/// Number of entries; they take some 20 KiB of a slot.
const ENTRIES: usize = 512;

/// Cache of rules by exact address. It is direct-mapped, and is emptied when the edition of the
/// modules changes.
///
/// All bytes zero but those of `context` are a valid, empty cache of edition 0.
pub(crate) struct RuleCache {
    edition: u32,
    entries: [CachedRule; ENTRIES],
    context: TableContext,
    /// Lookups that were answered from this cache, from the rule table and from the file's tables.
    #[cfg(sigtop_timed)]
    pub(crate) lookups: [u64; 3],
}

struct CachedRule {
    /// The address; 0 if there is none.
    pc: u64,
    /// The result of its lookup. It is initialized if there is an address.
    found: MaybeUninit<RuleLookup>,
}

impl RuleCache {
    /// Makes an empty cache of memory that is all zero. It leaves most of it untouched.
    ///
    /// # Safety
    /// The memory must be zero, aligned and writable.
    pub(crate) unsafe fn init(place: *mut RuleCache) {
        // SAFETY: the caller vouches.
        unsafe { (&raw mut (*place).context).write(TableContext::new_in()) };
    }

    /// Empties the cache if it belongs to another edition.
    pub(crate) fn set_edition(&mut self, edition: u32) {
        if edition != self.edition {
            // A cache of edition 0 is empty.
            if self.edition != 0 {
                self.entries.iter_mut().for_each(|entry| entry.pc = 0);
            }
            self.edition = edition;
        }
    }

    /// Counts a lookup that was answered from this cache.
    #[cfg(sigtop_timed)]
    pub(crate) fn note_hit(&mut self) {
        self.lookups[0] += 1;
    }

    /// Returns the cached lookup result for an address of the process.
    #[inline]
    pub(crate) fn known(&self, pc: u64) -> Option<RuleLookup> {
        let entry = &self.entries[(pc ^ pc >> 9) as usize % ENTRIES];
        // SAFETY: an entry with an address is initialized.
        (entry.pc == pc && pc != 0).then(|| unsafe { entry.found.assume_init() })
    }

    /// Looks up the rule for an address that is not cached: in the rule table, or in the file's
    /// tables, which records a miss. The result is cached.
    pub(crate) fn rule(&mut self, pc: u64, rule_table: &RuleTable, lookup: Option<(&UnwindTables, u64)>) -> RuleLookup {
        let found = match (rule_table.find(pc), lookup) {
            (Some(found), _) => {
                #[cfg(sigtop_timed)]
                {
                    self.lookups[1] += 1;
                }
                found
            }
            (None, None) => RuleLookup::Missing,
            (None, Some((lookup, address))) => {
                #[cfg(sigtop_timed)]
                {
                    self.lookups[2] += 1;
                }
                rule_table::record_miss(pc);
                lookup.find(address, &mut self.context)
            }
        };
        self.entries[(pc ^ pc >> 9) as usize % ENTRIES] = CachedRule { pc, found: MaybeUninit::new(found) };
        found
    }
}
