//! The flame: all stacks as one tree of functions, from the root (or, bottom-up, from the leaves).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::branches::{Branches, Cursor, Part};
use super::diff::Difference;
use super::query::Query;
use super::rows::{RowId, Rows};
use super::tallier::Tallier;
use super::text::Text;
use crate::profile::Profile;
use crate::symbols::Names;

/// A box: a function as called by its parent's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameBox {
    /// Index of the parent in [`Flame::boxes`]; its own index for the root, which is number 0.
    pub parent: usize,
    /// Indices of the children, ordered by name, so that they keep their places from one answer to the next.
    pub children: std::ops::Range<usize>,
    /// Full name; empty for the root.
    pub full: Text,
    /// Short name; `all` for the root.
    pub short: Text,
    /// Last part of the module's path.
    pub module: Text,
    /// Whether every such call was inlined.
    pub inlined: bool,
    /// Weight of samples that have this path, ns: that of its children and `self_ns` together, if nothing was left out.
    pub weight_ns: u64,
    /// Of these, what ends here (bottom-up: begins here), ns.
    pub self_ns: u64,
    /// How much more or less it weighs than in the baseline, if there is one; its weights are those of both together then.
    pub difference: Option<Difference>,
}

/// The answer: boxes level by level, so that children of one box are a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flame {
    /// The root first; empty when there is no sample.
    pub boxes: Vec<FlameBox>,
    /// Boxes left out because they were too narrow or too many; what would stand on them is not counted again.
    pub hidden: u64,
}

/// How to draw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameQuery {
    /// From the leaves up: who calls what is hot.
    pub bottom_up: bool,
    /// Only samples whose path begins like this: full names from the root (bottom-up: from the leaf). The boxes of this path
    /// are there, each as wide as the whole.
    pub zoom: Vec<String>,
    /// Boxes narrower than this part of the (zoomed) whole are left out.
    pub least_share: f64,
}

/// Boxes in one answer, at most: the widest. A screen shows some hundreds.
pub const MAX_BOXES: usize = 20_000;

/// Answers `query`. Who asks again and again keeps a [`Tallier`].
pub fn flame(profile: &Profile, names: &Names, query: &Query, form: &FlameQuery) -> Flame {
    let told = Tallier::default().flame(profile, names, query, form);
    Arc::unwrap_or_clone(told)
}

/// Boxes under way: one that has its place in the tree, and the paths that it stands for.
struct Open {
    row: RowId,
    inlined: bool,
    weight_ns: u64,
    self_ns: u64,
    /// Positions of its children, in order of their names.
    children: Vec<usize>,
    group: Vec<Cursor>,
}

/// The tree of one answer. The widest box that is left is the next to get its place, so that what does not fit is narrower
/// than all that does; its parent is always there, being as wide.
struct Growth<'a> {
    paths: &'a Branches,
    rows: &'a Rows,
    bottom_up: bool,
    least_ns: u64,
    boxes: Vec<Open>,
    hidden: u64,
}

impl Growth<'_> {
    fn place(&mut self, parent: usize, part: Part, ancestor: bool) -> usize {
        let position = self.boxes.len();
        let Part { row, inlined, weight_ns, group } = part;
        let self_ns = if ancestor { 0 } else { self.paths.ending(&group, self.bottom_up) };
        self.boxes.push(Open { row, inlined, weight_ns, self_ns, children: Vec::new(), group });
        if position != parent {
            self.boxes[parent].children.push(position);
        }
        position
    }

    fn grow(&mut self, top: usize) {
        let mut waiting = BinaryHeap::new();
        let mut parts: Vec<Option<(usize, Part)>> = Vec::new();
        let mut next = Some(top);
        while let Some(parent) = next {
            let group = std::mem::take(&mut self.boxes[parent].group);
            for part in self.paths.parts(&group, self.bottom_up, self.rows) {
                if part.weight_ns < self.least_ns {
                    self.hidden += 1;
                    continue;
                }
                waiting.push((part.weight_ns, Reverse(parts.len())));
                parts.push(Some((parent, part)));
            }
            if self.boxes.len() >= MAX_BOXES {
                break;
            }
            let widest = waiting.pop().and_then(|(_, Reverse(index))| parts[index].take());
            next = widest.map(|(parent, part)| self.place(parent, part, false));
        }
        self.hidden += waiting.len() as u64;
    }

    /// Level by level, so that children are a range.
    fn told(mut self) -> Flame {
        let mut order = vec![(0, 0)];
        let mut flame = Flame { boxes: Vec::with_capacity(self.boxes.len()), hidden: self.hidden };
        let mut at = 0;
        while let Some(&(parent, position)) = order.get(at) {
            let mut children = std::mem::take(&mut self.boxes[position].children);
            children.sort_unstable_by_key(|&child| self.rows.rank(self.boxes[child].row));
            let start = order.len();
            order.extend(children.into_iter().map(|child| (at, child)));
            let Open { row, inlined, weight_ns, self_ns, .. } = self.boxes[position];
            let (full, short, module) = match row {
                RowId::NONE => (Text::default(), Text::from("all"), Text::default()),
                row => {
                    let label = self.rows.label(row);
                    (label.full.clone(), label.short.clone(), label.module.clone())
                }
            };
            let inlined = inlined && row != RowId::NONE && self.rows.label(row).takes_mark;
            let children = start..order.len();
            flame.boxes.push(FlameBox {
                parent,
                children,
                full,
                short,
                module,
                inlined,
                weight_ns,
                self_ns,
                difference: None,
            });
            at += 1;
        }
        flame
    }
}

/// Draws the tree of what `paths` weigh.
pub(super) fn drawn(paths: &Branches, rows: &Rows, form: &FlameQuery) -> Flame {
    let bottom_up = form.bottom_up;
    let Some(zoomed) = paths.zoom(&form.zoom, bottom_up, rows) else { return Flame::default() };
    let (Some(whole), depth) = (zoomed.last(), zoomed.len() - 1) else { return Flame::default() };
    let least_ns = (whole.weight_ns as f64 * form.least_share).ceil() as u64;
    let mut growth = Growth { paths, rows, bottom_up, least_ns, boxes: Vec::new(), hidden: 0 };
    let mut top = 0;
    for (place, part) in zoomed.into_iter().enumerate() {
        top = growth.place(top, part, place < depth);
    }
    growth.grow(top);
    growth.told()
}
