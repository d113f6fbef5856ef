//! Sums of one question that are kept from one answer to the next: what came since is added, what left the window is taken away, so that
//! an answer costs what changed, not what there is. Where that is not possible (another question, other names, books that were emptied),
//! all is added up anew; the sums are the same.

use super::branches::Branches;
use super::crowd::Crowd;
use super::entries::Entries;
use super::grove::Grove;
use super::paths::Paths;
use super::query::{Filters, Group, Query};
use super::rows::RowId;
use super::table::{Sums, Table};
use super::weights::{Climb, Weights};
use crate::link::wire::Clock;
use crate::profile::journal::Mark;
use crate::profile::stack::StackId;
use crate::profile::window::{Key, Span, Weight};
use crate::profile::{Era, Profile};

/// Whose sums: the question's span, and the total beside it.
pub(super) const SPAN: usize = 0;
pub(super) const TOTAL: usize = 1;
/// How many sides there are.
pub(super) const SIDES: usize = 2;

/// Which samples are summed, but for the time.
#[derive(PartialEq)]
struct Scope {
    era: Era,
    clock: Clock,
    filters: Filters,
    group: Group,
    /// Whether the span is the total itself.
    is_total: bool,
    /// Whether the total is summed beside the span.
    has_total: bool,
    /// See [`Ground::conclusions`].
    conclusions: u64,
}

/// What all sums stand on.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) profile: &'a Profile,
    pub(super) grove: &'a Grove,
    pub(super) paths: &'a Paths,
    pub(super) crowd: &'a Crowd,
    /// How many rows there are.
    pub(super) rows: usize,
    /// How often conclusions about stacks were given up: sums from before are of other rows.
    pub(super) conclusions: u64,
}

/// How sums are asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// Those of the total too.
    pub(super) total: bool,
    /// They may stay as they are.
    pub(super) stands: bool,
}

impl Ground<'_> {
    /// The row that has the flat of an entry, if the filters let it in: see [`Paths::lets_in`].
    pub(super) fn flat(&self, key: Key) -> Option<RowId> {
        self.paths.lets_in(self.grove.stack(key)).filter(|_| self.crowd.lets_in(key.0))
    }
}

/// The sums.
#[derive(Default)]
pub(super) struct Running {
    scope: Option<Scope>,
    /// What is summed: all before this, in these ticks.
    mark: Mark,
    ticks: Option<(u64, u64)>,
    /// Totals of either side; they have no rows.
    heads: [Table; SIDES],
    /// By row.
    pub(super) sums: Sums,
    /// The span's by stack.
    pub(super) weights: Weights,
    entries: Entries,
    /// Counts answers.
    number: u64,
}

impl Running {
    /// The totals of a side, without rows.
    pub(super) fn head(&self, side: usize) -> Table {
        self.heads[side].clone()
    }

    /// Brings the sums to the question's time, and those of `branches` with them; says whether they are as they were.
    pub(super) fn advance(
        &mut self,
        query: &Query,
        Asked { total: has_total, stands }: Asked,
        ground: Ground<'_>,
        mut branches: Option<&mut Branches>,
    ) -> bool {
        let Ground { profile, grove, paths, crowd, rows, conclusions } = ground;
        let (nodes, journal, ticks) =
            (grove.nodes(profile), profile.journal(query.era, query.clock), query.span.ticks());
        let before = self.scope.take();
        let is_total = ticks.is_none();
        let scope = Scope {
            era: query.era,
            clock: query.clock,
            filters: query.filters.clone(),
            group: query.group,
            is_total,
            has_total,
            conclusions,
        };
        let new = journal.and_then(|journal| journal.since(self.mark)).filter(|_| before.as_ref() == Some(&scope));
        let old = self.ticks;
        let kept = match (&new, old, ticks) {
            (Some(_), None, None) => true,
            (Some(_), Some(old), Some(now)) => old.0 <= now.1 && now.0 <= old.1,
            _ => false,
        };
        let stands = stands && kept && old == ticks;
        let fed = match &mut branches {
            Some(branches) => !kept || branches.is_weighed(self.number),
            None => false,
        };
        if !kept {
            (self.heads, self.sums) = (<[Table; SIDES]>::default(), Sums::default());
            self.weights.clear();
        }
        self.sums.catch_up(rows, paths);
        self.weights.catch_up(nodes);
        self.scope = Some(scope);
        self.number += 1;
        if let Some(branches) = branches.as_deref_mut() {
            branches.begin(self.number, !kept);
        }
        let mut feed = branches.as_deref_mut().filter(|_| fed);
        let Running { heads, sums, weights, entries, .. } = self;
        let mut take = |entries: &mut Entries, heads: &mut [Table; SIDES]| {
            entries.take(|all| {
                let stacks = all.iter().map(|entry| entry.stack);
                paths.look_ahead(stacks.clone());
                weights.look_ahead(stacks.clone());
                if let Some(branches) = &feed {
                    branches.look_ahead(stacks.map(StackId::index));
                }
                for entry in all {
                    let stack = entry.stack;
                    let Some(row) = paths.lets_in(stack) else { continue };
                    for (head, side) in heads.iter_mut().zip(&entry.sides) {
                        change(&mut head.kept_ns, side.ns);
                        change(&mut head.kept_samples, side.samples);
                    }
                    let by_ns = entry.sides.map(|side| side.ns);
                    if row != RowId::NONE {
                        sums.change_flat(row, by_ns);
                    }
                    weights.add(stack, by_ns, SPAN);
                    if let Some(branches) = &mut feed {
                        branches.change_own(stack.index(), by_ns[SPAN]);
                    }
                }
            });
        };
        let mut stood = kept;
        let mut enter = |key: Key, weight: Weight, to: [bool; SIDES]| {
            stood = false;
            let sides = to.map(|to| if to { weight } else { Weight::default() });
            for (head, side) in heads.iter_mut().zip(&sides) {
                change(&mut head.total_ns, side.ns);
                change(&mut head.samples, side.samples);
            }
            if crowd.lets_in(key.0) && entries.put(grove.stack(key), sides) {
                take(entries, heads);
            }
        };
        const TO_SPAN: [bool; SIDES] = [true, false];
        const TO_TOTAL: [bool; SIDES] = [false, true];
        match (new.filter(|_| kept), old, ticks) {
            _ if stands => {}
            (Some(new), ..) => {
                for entered in new {
                    let inside = |(first, last): (u64, u64)| (first..=last).contains(&entered.tick);
                    let to = [is_total || old.is_some_and(inside), has_total];
                    if to != [false; SIDES] {
                        enter(entered.key, entered.weight, to);
                    }
                }
            }
            (None, ..) => {
                profile.visit_era(query.era, query.clock, query.span, |key, weight| enter(key, weight, TO_SPAN));
                if has_total {
                    profile.visit_era(query.era, query.clock, Span::Total, |key, weight| enter(key, weight, TO_TOTAL));
                }
            }
        }
        if let (true, Some((first, last)), Some(now)) = (kept, old, ticks) {
            let mut turn = |from: u64, to: u64, away: bool| {
                if from < to {
                    profile.visit_ticks(query.era, query.clock, (from, to - 1), |_, key, weight| {
                        enter(key, if away { negative(weight) } else { weight }, TO_SPAN);
                    });
                }
            };
            // What comes in whole, before and after, and what goes.
            turn(now.0, first, false);
            turn(last + 1, now.1 + 1, false);
            turn(first, now.0.min(last + 1), true);
            turn((now.1 + 1).max(first), last + 1, true);
        }
        take(entries, heads);
        if !stands {
            (self.ticks, self.mark) = (ticks, journal.map(|journal| journal.end()).unwrap_or_default());
        }
        let (sums, mut feed) = (&mut self.sums, branches.as_deref_mut().filter(|_| fed));
        // Where they stand nothing has changed.
        self.weights.climb(SPAN, |step| match step {
            Climb::Ahead(pieces) => {
                paths.look_ahead_between(pieces.iter().map(|piece| piece.ends));
                if let Some(branches) = &feed {
                    branches.look_ahead_of(pieces);
                }
            }
            Climb::Changed(piece, by_ns) => {
                sums.change_piece(paths, piece.ends, by_ns);
                if let Some(branches) = &mut feed {
                    branches.change_sum(piece, by_ns[SPAN]);
                }
            }
        });
        if let Some(branches) = branches.filter(|_| !fed) {
            branches.weigh(&self.weights);
        }
        stood
    }
}

/// What takes a weight away again: sums wrap around.
fn negative(weight: Weight) -> Weight {
    Weight { ns: weight.ns.wrapping_neg(), samples: weight.samples.wrapping_neg() }
}

fn change(sum: &mut u64, by: u64) {
    *sum = sum.wrapping_add(by);
}
