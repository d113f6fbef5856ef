//! Stays below the memory limit. Most memory is taken by stacks, and by what `tally` derives from
//! each of them. When the limit is reached, the oldest history is dropped, and the stacks that
//! neither the rest of the history nor much weight needs are cut: of `main > a > b > c` may remain
//! `main > a > [memory limit] > c`. Totals, flat weights and threads stay right; the weight of
//! callers that were cut is that of the mark.

use super::apply::Profile;
use super::change_log::ChangeLog;
use super::memory::{CHECK_EVERY, FRAME_BYTES, MemoryLimit};
use super::stack::{Frame, Node, StackId};
use super::totals::{Span, Totals};

impl Profile {
    /// Sets the memory limit in bytes.
    pub fn set_memory_limit(&mut self, bytes: u64) {
        self.memory = MemoryLimit::new(bytes);
        self.stacks.set_max_nodes(self.memory.max_nodes.saturating_mul(2));
    }

    /// The memory limit in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.memory.bytes
    }

    /// Whether history or stacks were dropped because of the memory limit.
    pub fn has_reached_memory_limit(&self) -> bool {
        self.memory.is_reached
    }

    /// Maximum number of stacks, for tables with copies of them.
    pub fn max_stacks(&self) -> usize {
        self.memory.max_nodes
    }

    /// Makes room for a new stack.
    pub(super) fn stay_below_memory_limit(&mut self) {
        self.memory.check_in -= 1;
        if self.memory.check_in == 0 {
            self.memory.check_in = CHECK_EVERY;
            let history_bytes = self.all_totals().map(|totals| totals.history_bytes() as u64).sum::<u64>();
            if history_bytes > self.memory.bytes / 4 {
                self.halve_history();
            }
            let key_bytes = self.all_totals().map(|totals| totals.key_bytes() as u64).sum::<u64>();
            let times_bytes = self.times.as_ref().map_or(0, |times| times.bytes() as u64);
            let frame_bytes = self.stacks.frames().len() as u64 * FRAME_BYTES;
            self.memory.reserve(history_bytes + key_bytes + times_bytes + frame_bytes);
        }
        if self.stacks.len() >= self.memory.cut_at {
            self.cut_stacks();
        }
    }

    /// Drops the older half of the history.
    fn halve_history(&mut self) {
        let numbers = || self.all_totals().flat_map(Totals::bucket_numbers);
        let (oldest, newest) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
        self.memory.is_reached = true;
        self.each_totals(|totals| totals.drop_history_before(oldest.midpoint(newest)));
        self.change_logs.values_mut().for_each(ChangeLog::invalidate);
    }

    /// Drops old history and cuts light stacks, until half of the nodes that fit are left.
    fn cut_stacks(&mut self) {
        self.memory.is_reached = true;
        let goal = self.memory.max_nodes / 2;
        // Stacks that are cut take up to two nodes each, and few of them may be the same. The less
        // is kept, the more are.
        for part in [1, 4, 64, 0] {
            let is_kept = match goal.checked_div(part) {
                Some(goal) => self.nodes_to_keep(goal),
                None => vec![false; self.stacks.len()],
            };
            self.drop_nodes(is_kept);
            if self.stacks.len() <= goal + goal / 2 {
                break;
            }
        }
        self.memory.cut_at = self.memory.max_nodes.max(self.stacks.len() + goal / 2);
        self.overflows.memory = self.cut_samples();
    }

    /// Returns the nodes that are kept: those of the newest history, and the heaviest of the
    /// others. Drops the history before.
    fn nodes_to_keep(&mut self, goal: usize) -> Vec<bool> {
        let oldest = self.history_that_fits(goal / 2);
        self.each_totals(|totals| totals.drop_history_before(oldest));
        let mut is_kept = vec![false; self.stacks.len()];
        let (mut count, nodes) = (0, self.stacks.nodes());
        for totals in self.all_totals() {
            totals.visit_buckets(0, u64::MAX, |_, (_, stack), _| count += mark_path(nodes, stack, &mut is_kept));
        }
        self.keep_heaviest(&mut is_kept, goal.saturating_sub(count) / 2);
        is_kept
    }

    /// The number of the oldest bucket such that the stacks from there on have `goal` nodes. The
    /// newest bucket always fits.
    fn history_that_fits(&self, goal: usize) -> u64 {
        let all: Vec<&Totals> = self.all_totals().collect();
        let numbers = all.iter().enumerate().flat_map(|(at, totals)| totals.bucket_numbers().map(move |of| (of, at)));
        let mut buckets: Vec<(u64, usize)> = numbers.collect();
        buckets.sort_unstable_by(|a, b| b.cmp(a));
        let (mut is_kept, mut count) = (vec![false; self.stacks.len()], 0);
        let Some(&(newest, _)) = buckets.first() else { return 0 };
        for (number, at) in buckets {
            all[at].visit_buckets(number, number, |_, (_, stack), _| {
                count += mark_path(self.stacks.nodes(), stack, &mut is_kept);
            });
            if count > goal {
                return newest.min(number + 1);
            }
        }
        0
    }

    /// Marks the `room` nodes with the heaviest subtrees among those that are not marked.
    fn keep_heaviest(&self, is_kept: &mut [bool], room: usize) {
        let nodes = self.stacks.nodes();
        let mut subtree_ns = vec![0u64; nodes.len()];
        for totals in self.all_totals() {
            totals.visit(Span::Total, |(_, stack), weight| {
                subtree_ns[stack.index()] = subtree_ns[stack.index()].saturating_add(weight.ns);
            });
        }
        for index in (1..nodes.len()).rev() {
            let parent = nodes[index].parent.index();
            subtree_ns[parent] = subtree_ns[parent].saturating_add(subtree_ns[index]);
        }
        let mut rest: Vec<u64> = (1..nodes.len()).filter(|&index| !is_kept[index]).map(|at| subtree_ns[at]).collect();
        if room >= rest.len() {
            return is_kept.fill(true);
        }
        let (_, &mut heaviest_cut_ns, _) = rest.select_nth_unstable_by(room, |a, b| b.cmp(a));
        // A node is never lighter than its descendants, so their ancestors are marked, too.
        (1..nodes.len()).for_each(|index| is_kept[index] |= subtree_ns[index] > heaviest_cut_ns);
    }

    /// Drops all nodes but these, and cuts the stacks that need them.
    fn drop_nodes(&mut self, is_kept: Vec<bool>) {
        let mut stacks = std::mem::take(&mut self.stacks);
        let renumbering = stacks.prune(is_kept);
        self.each_totals(|totals| totals.renumber(|stack| renumbering.stack(stack, &mut stacks)));
        for live in self.processes.iter_mut().flat_map(|process| process.live.values_mut()) {
            live.key.1 = renumbering.stack(live.key.1, &mut stacks);
        }
        if let Some(times) = &mut self.times {
            times.renumber(|stack| renumbering.stack(stack, &mut stacks));
        }
        self.stacks = stacks;
        self.processes.iter_mut().for_each(|process| process.cache.clear_samples());
        self.change_logs.values_mut().for_each(ChangeLog::invalidate);
    }

    /// The number of samples whose stack is cut.
    fn cut_samples(&self) -> u64 {
        let nodes = self.stacks.nodes();
        let mark = self.stacks.find(Frame::MemoryLimit);
        let mut is_cut = vec![false; nodes.len()];
        for (index, node) in nodes.iter().enumerate().skip(1) {
            is_cut[index] = Some(node.frame) == mark || is_cut[node.parent.index()];
        }
        let (mut samples, live) = (0u64, self.processes.iter().flat_map(|process| process.totals.values()));
        live.for_each(|totals| {
            totals.visit(Span::Total, |(_, stack), weight| {
                samples += if is_cut[stack.index()] { weight.samples } else { 0 };
            });
        });
        samples
    }

    /// The totals of all processes and clocks, with the copies of a freeze and a baseline.
    fn all_totals(&self) -> impl Iterator<Item = &Totals> {
        let copies = self.frozen.iter().flatten().chain(&self.baseline);
        copies.chain(self.processes.iter().map(|process| &process.totals)).flat_map(|totals| totals.values())
    }

    fn each_totals(&mut self, each: impl FnMut(&mut Totals)) {
        let copies = self.frozen.iter_mut().flatten().chain(&mut self.baseline);
        let live = self.processes.iter_mut().map(|process| &mut process.totals);
        copies.chain(live).flat_map(|totals| totals.values_mut()).for_each(each);
    }
}

/// Marks the nodes from a stack to the root. Returns the number of those that were not marked.
fn mark_path(nodes: &[Node], stack: StackId, is_marked: &mut [bool]) -> usize {
    let (mut index, mut count) = (stack.index(), 0);
    while index > 0 && !is_marked[index] {
        is_marked[index] = true;
        count += 1;
        index = nodes[index].parent.index();
    }
    count
}
