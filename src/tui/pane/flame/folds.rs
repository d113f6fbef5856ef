//! Folds trunks: a chain of boxes that each have one child of nearly their own width is one row,
//! `⋯ main › run › worker (17)`, so that rows go to where stacks differ.
//!
//! A link between a box and its child is folded from a share of [`FOLD_PERCENT`] on and remains
//! folded down to [`UNFOLD_PERCENT`], both of the first box of the chain. A chain whose side branch
//! is about as wide as the threshold therefore does not flicker, and a folded row is never narrower
//! at its end than its text claims.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::tally::flame::Flame;

/// Share of the chain's first box at which a link becomes folded, in percent.
const FOLD_PERCENT: u128 = 98;
/// Share below which a folded link is unfolded, in percent.
const UNFOLD_PERCENT: u128 = 95;
/// Minimum boxes of a folded chain. Two rows for two names are as good as one.
const LEAST_BOXES: usize = 3;

/// Identity of a box from one answer to the next: a hash of the full names from the root to it.
type PathHash = u64;

/// The folded links of a flame graph, and the chains that the user has unfolded.
#[derive(Clone, Debug, Default)]
pub struct TrunkFolds {
    /// The flame graph that the links belong to.
    flame: Option<Arc<Flame>>,
    /// Whether each box is folded with its parent.
    folded: Vec<bool>,
    paths: Vec<PathHash>,
    /// The paths of the folded boxes, for the hysteresis.
    folded_paths: HashSet<PathHash>,
    /// The first boxes of the chains that the user has unfolded.
    unfolded: HashSet<PathHash>,
}

impl TrunkFolds {
    /// Updates the links for a new answer.
    pub fn update(&mut self, flame: &Arc<Flame>) {
        if self.flame.as_ref().is_some_and(|known| Arc::ptr_eq(known, flame)) {
            return;
        }
        let boxes = &flame.boxes;
        let before = std::mem::take(&mut self.folded_paths);
        self.folded = vec![false; boxes.len()];
        self.paths = vec![0; boxes.len()];
        // The weight of the first box of the chain that a box belongs to.
        let mut first_ns: Vec<u64> = boxes.iter().map(|shown| shown.weight_ns).collect();
        for parent in 0..boxes.len() {
            // What tells files or hosts apart keeps a row of its own.
            let is_source = boxes[parent].full.starts_with("source:") && boxes[parent].module.is_empty();
            for child in flame.children_of(parent) {
                let mut hasher = DefaultHasher::new();
                (self.paths[parent], boxes[child].full.as_str()).hash(&mut hasher);
                let path = hasher.finish();
                self.paths[child] = path;
                let percent = if before.contains(&path) { UNFOLD_PERCENT } else { FOLD_PERCENT };
                let is_wide = u128::from(boxes[child].weight_ns) * 100 >= u128::from(first_ns[parent]).max(1) * percent;
                if parent > 0 && is_wide && !is_source {
                    self.folded[child] = true;
                    self.folded_paths.insert(path);
                    first_ns[child] = first_ns[parent];
                }
            }
        }
        self.flame = Some(Arc::clone(flame));
    }

    /// The box that a box of a chain continues with, if it does.
    pub fn next(&self, flame: &Flame, index: usize) -> Option<usize> {
        let is_folded = |child: &usize| self.folded.get(*child).copied().unwrap_or(false);
        flame.children_of(index).find(is_folded)
    }

    /// The last box of the chain that begins with a box, and the number of its boxes; `None` if
    /// there are too few.
    pub fn chain(&self, flame: &Flame, first: usize) -> Option<(usize, usize)> {
        let (mut last, mut count) = (first, 1);
        while let Some(next) = self.next(flame, last) {
            (last, count) = (next, count + 1);
        }
        (count >= LEAST_BOXES).then_some((last, count))
    }

    /// Whether the user has unfolded the chain that begins with a box.
    pub fn is_unfolded(&self, first: usize) -> bool {
        self.paths.get(first).is_some_and(|path| self.unfolded.contains(path))
    }

    /// Unfolds the chain that begins with a box, or folds it again.
    pub fn toggle(&mut self, first: usize) {
        let Some(path) = self.paths.get(first) else { return };
        if !self.unfolded.remove(path) {
            self.unfolded.insert(*path);
        }
    }

    /// Folds all chains after paths have changed.
    pub fn fold_all(&mut self) {
        self.unfolded.clear();
    }
}
