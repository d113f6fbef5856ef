//! One handler's cache of unwind rules, by exact address.

use crate::agent::unwind::rule_table::{self, RuleTable};
use crate::agent::unwind::rules::{RuleLookup, TableContext, UnwindTables};

/// Number of entries; they take some 20 KiB of a slot.
const ENTRIES: usize = 512;

/// Cache of rules by exact address. It is direct-mapped, and is emptied when the edition of the
/// modules changes.
pub(crate) struct RuleCache {
    edition: u32,
    entries: [(u64, RuleLookup); ENTRIES],
    context: TableContext,
    /// Lookups that were answered from this cache, from the rule table and from the file's tables.
    #[cfg(sigtop_timed)]
    pub(crate) lookups: [u64; 3],
}

impl RuleCache {
    /// An empty cache.
    pub(crate) fn new() -> RuleCache {
        RuleCache {
            edition: 0,
            entries: [(0, RuleLookup::Missing); ENTRIES],
            context: TableContext::new_in(),
            #[cfg(sigtop_timed)]
            lookups: [0; 3],
        }
    }

    /// Empties the cache if it belongs to another edition.
    pub(crate) fn set_edition(&mut self, edition: u32) {
        if edition != self.edition {
            self.entries.fill((0, RuleLookup::Missing));
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
        (entry.0 == pc).then_some(entry.1)
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
        self.entries[(pc ^ pc >> 9) as usize % ENTRIES] = (pc, found);
        found
    }
}
