//! The flame graph: all stacks as one tree of functions, from the root or, bottom-up, from the
//! leaves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::change::Difference;
use super::rows::RowId;
use super::stacks::call_tree::{CallCursor, CallGroup, CallTree};
use super::text::Text;

/// A box: a function as called by its parent's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameBox {
    /// The index of the parent in [`Flame::boxes`]. The root, box 0, is its own parent.
    pub parent: usize,
    /// The indices of the children. They are in the order of their names, so that boxes keep their
    /// places from one answer to the next.
    pub children: std::ops::Range<usize>,
    /// The full name; empty for the root.
    pub full: Text,
    /// The short name; `all` for the root.
    pub short: Text,
    /// The last component of the module's path.
    pub module: Text,
    /// Whether the function is own code; the root is not.
    pub is_own: bool,
    /// Whether every such call is inlined.
    pub inlined: bool,
    /// The weight of samples with this path, ns: the sum of its children's and `self_ns`, unless
    /// boxes were left out.
    pub weight_ns: u64,
    /// The weight of samples that end here (bottom-up: that begin here), ns.
    pub self_ns: u64,
    /// The difference from the baseline, if there is one. The weights are then those of both
    /// together.
    pub difference: Option<Difference>,
}

impl FlameBox {
    /// The weights in the baseline and now, ns. Without a baseline, the first is 0.
    pub fn before_and_now(&self) -> (u64, u64) {
        let Some(Difference { ns, change }) = self.difference else { return (0, self.weight_ns) };
        let both_ns = self.weight_ns.saturating_sub(ns) / 2;
        if change.negative { (both_ns + ns, both_ns) } else { (both_ns, both_ns + ns) }
    }
}

/// A flame graph. Its boxes are stored level by level, so that children are a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flame {
    /// The boxes, the root first; empty without samples.
    pub boxes: Vec<FlameBox>,
    /// The number of boxes left out because they were too narrow or too many, not counting their
    /// descendants.
    pub hidden: u64,
}

impl Flame {
    /// The children of a box. Only boxes with a greater index are returned, so a walk from child to
    /// child always ends.
    pub fn children_of(&self, index: usize) -> impl Iterator<Item = usize> + Clone + '_ {
        let range = self.boxes.get(index).map_or(0..0, |parent| parent.children.clone());
        let range = range.start.max(index + 1)..range.end.min(self.boxes.len());
        range.filter(move |&child| self.boxes[child].parent == index)
    }

    /// The child of a box with this full name.
    pub fn child_of(&self, index: usize, full: &str) -> Option<usize> {
        self.children_of(index).find(|&child| self.boxes[child].full == full)
    }
}

/// The parameters of a flame graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameQuery {
    /// Whether the graph begins with the leaves, and callers stand on their callees.
    pub bottom_up: bool,
    /// Restricts the graph to samples whose path begins with these full names, from the root
    /// (bottom-up: from the leaf). The boxes of this path are each as wide as the whole.
    pub zoom: Vec<String>,
    /// Boxes narrower than this share of the (zoomed) whole are left out.
    pub least_share: f64,
}

/// Maximum number of boxes in a flame graph; the widest are kept. A screen shows some hundreds.
pub const MAX_BOXES: usize = 20_000;

/// A box while the graph is built, and the paths it stands for.
struct OpenBox {
    row: RowId,
    inlined: bool,
    weight_ns: u64,
    self_ns: u64,
    /// The indices of its children.
    children: Vec<usize>,
    cursors: Vec<CallCursor>,
}

/// Builds a flame graph. The widest remaining box is always added next, so that boxes that exceed
/// the limit are narrower than all others. Its parent is at least as wide, so it was added before.
struct FlameBuilder<'a> {
    tree: CallTree<'a>,
    bottom_up: bool,
    least_ns: u64,
    boxes: Vec<OpenBox>,
    hidden: u64,
}

impl FlameBuilder<'_> {
    fn add(&mut self, parent: usize, group: CallGroup) -> usize {
        let index = self.boxes.len();
        let CallGroup { row, inlined, weight_ns, cursors } = group;
        self.boxes.push(OpenBox { row, inlined, weight_ns, self_ns: 0, children: Vec::new(), cursors });
        if index != parent {
            self.boxes[parent].children.push(index);
        }
        index
    }

    /// Adds the descendants of a box.
    fn add_descendants(&mut self, top: usize) {
        let mut waiting = BinaryHeap::new();
        let mut groups: Vec<Option<(usize, CallGroup)>> = Vec::new();
        let mut next = Some(top);
        while let Some(parent) = next {
            let cursors = std::mem::take(&mut self.boxes[parent].cursors);
            let children = self.tree.children(&cursors, self.bottom_up);
            // Whatever has no child ends here.
            let OpenBox { weight_ns, self_ns, .. } = &mut self.boxes[parent];
            *self_ns = children.iter().fold(*weight_ns, |left_ns, child| left_ns.saturating_sub(child.weight_ns));
            for group in children {
                if group.weight_ns < self.least_ns {
                    self.hidden += 1;
                    continue;
                }
                waiting.push((group.weight_ns, Reverse(groups.len())));
                groups.push(Some((parent, group)));
            }
            if self.boxes.len() >= MAX_BOXES {
                break;
            }
            let widest = waiting.pop().and_then(|(_, Reverse(index))| groups[index].take());
            next = widest.map(|(parent, group)| self.add(parent, group));
        }
        self.hidden += waiting.len() as u64;
    }

    /// Puts the boxes into their final order, level by level.
    fn finish(mut self) -> Flame {
        let mut order = vec![(0, 0)];
        let mut flame = Flame { boxes: Vec::with_capacity(self.boxes.len()), hidden: self.hidden };
        let mut at = 0;
        while let Some(&(parent, index)) = order.get(at) {
            let mut children = std::mem::take(&mut self.boxes[index].children);
            children.sort_unstable_by_key(|&child| self.tree.rows.rank(self.boxes[child].row));
            let start = order.len();
            order.extend(children.into_iter().map(|child| (at, child)));
            let OpenBox { row, inlined, weight_ns, self_ns, .. } = self.boxes[index];
            let (full, short, module, is_own, shows_inline) = match row {
                RowId::NONE => (Text::default(), Text::from("all"), Text::default(), false, false),
                row => {
                    let label = self.tree.rows.label(row);
                    (label.full.clone(), label.short.clone(), label.module.clone(), label.is_own, label.shows_inline)
                }
            };
            flame.boxes.push(FlameBox {
                parent,
                children: start..order.len(),
                full,
                short,
                module,
                is_own,
                inlined: inlined && shows_inline,
                weight_ns,
                self_ns,
                difference: None,
            });
            at += 1;
        }
        flame
    }
}

/// Builds the flame graph of a call tree.
pub(super) fn build(tree: CallTree<'_>, query: &FlameQuery) -> Flame {
    let bottom_up = query.bottom_up;
    let Some(zoomed) = tree.zoom(&query.zoom, bottom_up) else { return Flame::default() };
    let Some(whole) = zoomed.last() else { return Flame::default() };
    let least_ns = (whole.weight_ns as f64 * query.least_share).ceil() as u64;
    let mut builder = FlameBuilder { tree, bottom_up, least_ns, boxes: Vec::new(), hidden: 0 };
    let mut top = 0;
    for group in zoomed {
        top = builder.add(top, group);
    }
    builder.add_descendants(top);
    builder.finish()
}
