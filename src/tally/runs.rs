//! A tree that is mostly threads: places in runs. A place of a run other than its last has one child, the next number, and nothing of its
//! own, so that whatever the last weighs all of them weigh: what is known by run needs no room by place. A run is cut in two where
//! something branches off, or ends.

/// A run.
#[derive(Clone, Copy)]
struct Run {
    first: u32,
    last: u32,
    /// The run whose last place is the parent of the first.
    parent: u32,
    /// Whether the last place's next child begins a run of its own.
    closed: bool,
    /// The first places of its children's runs are a list: the head of that, and what comes behind this run in its parent's. 0 is none.
    children: u32,
    next: u32,
}

/// A run that was cut: the part towards the root has a new number, the other one keeps its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The new number: one more than there was.
    pub(super) upper: usize,
    /// The old one.
    pub(super) lower: usize,
}

/// The runs of a tree whose places have numbers above their parents'. Place 0 is the root, and run 0 it alone.
pub(super) struct Runs {
    /// By place.
    of: Vec<u32>,
    runs: Vec<Run>,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs { of: vec![0], runs: vec![Run { first: 0, last: 0, parent: 0, closed: true, children: 0, next: 0 }] }
    }
}

impl Runs {
    /// How many places there are.
    pub(super) fn places(&self) -> usize {
        self.of.len()
    }

    /// How many runs there are.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The run of a place.
    pub(super) fn of(&self, place: usize) -> usize {
        self.of[place] as usize
    }

    /// The first and the last place of a run.
    pub(super) fn ends(&self, run: usize) -> (usize, usize) {
        (self.runs[run].first as usize, self.runs[run].last as usize)
    }

    /// The run that a run hangs on; the root's own for the root.
    pub(super) fn above(&self, run: usize) -> usize {
        self.runs[run].parent as usize
    }

    /// The parent of a place; the root's is itself.
    pub(super) fn parent(&self, place: usize) -> usize {
        let Run { first, parent, .. } = self.runs[self.of(place)];
        match (first as usize) < place {
            true => place - 1,
            false => self.runs[parent as usize].last as usize,
        }
    }

    /// The children of a place, the latest first.
    pub(super) fn children(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let Run { last, children, .. } = self.runs[self.of(place)];
        let mut next = if (last as usize) > place { place as u32 + 1 } else { children };
        std::iter::from_fn(move || {
            let child = Some(next as usize).filter(|&child| child != 0)?;
            let run = self.runs[self.of(child)];
            next = if run.first as usize == child { run.next } else { 0 };
            Some(child)
        })
    }

    /// Adds the next place, a child of `parent`. A run may be cut for that.
    pub(super) fn push(&mut self, parent: usize) -> Option<Cut> {
        let (place, above) = (self.of.len(), self.of(parent));
        let Run { last, closed, .. } = self.runs[above];
        if !closed && last as usize == parent && parent + 1 == place {
            self.runs[above].last = place as u32;
            self.of.push(above as u32);
            return None;
        }
        let cut = self.cut(parent);
        let (above, run, place) = (self.of(parent), self.runs.len() as u32, place as u32);
        let next = std::mem::replace(&mut self.runs[above].children, place);
        self.runs.push(Run { first: place, last: place, parent: above as u32, closed: false, children: 0, next });
        self.of.push(run);
        cut
    }

    /// Lets a run end with this place, whatever comes. The run with its own number that it was in may be cut for that.
    pub(super) fn cut(&mut self, place: usize) -> Option<Cut> {
        let lower = self.of(place);
        let Run { first, last, parent, next, .. } = self.runs[lower];
        if last as usize == place {
            self.runs[lower].closed = true;
            return None;
        }
        let (upper, end) = (self.runs.len(), place as u32);
        self.runs.push(Run { first, last: end, parent, closed: true, children: end + 1, next });
        self.runs[lower] = Run { first: end + 1, parent: upper as u32, next: 0, ..self.runs[lower] };
        self.of[first as usize..=place].fill(upper as u32);
        Some(Cut { upper, lower })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Parents and children are those that were given; runs are threads; a cut place is the last of its run.
        #[test]
        fn a_tree_in_runs_is_the_tree(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<bool>()), 0..60)) {
            let (mut runs, mut parents, mut cuts) = (Runs::default(), vec![0], vec![0]);
            for (goes_on, parent, is_cut) in steps {
                let parent = if goes_on { parents.len() - 1 } else { parent.index(parents.len()) };
                let before = runs.len();
                if let Some(cut) = runs.push(parent) {
                    prop_assert_eq!((cut.upper, runs.len()), (before, before + 2));
                }
                parents.push(parent);
                if is_cut {
                    let place = parent.min(parents.len() / 2);
                    runs.cut(place);
                    cuts.push(place);
                }
            }
            prop_assert_eq!(runs.places(), parents.len());
            for place in 0..parents.len() {
                prop_assert_eq!(runs.parent(place), parents[place]);
                let children: Vec<usize> = (place + 1..parents.len()).rev().filter(|&child| parents[child] == place).collect();
                prop_assert_eq!(runs.children(place).collect::<Vec<_>>(), children);
                let (first, last) = runs.ends(runs.of(place));
                prop_assert!((first..=last).contains(&place));
                prop_assert!((first + 1..=last).all(|place| parents[place] == place - 1 && !cuts.contains(&(place - 1))));
            }
            for run in 1..runs.len() {
                prop_assert_eq!(runs.ends(runs.above(run)).1, parents[runs.ends(run).0]);
            }
        }
    }

    #[test]
    fn a_thread_is_one_run_until_something_branches_off() {
        let mut runs = Runs::default();
        (0..10).for_each(|parent| assert_eq!(runs.push(parent), None));
        assert_eq!((runs.len(), runs.ends(1)), (2, (1, 10)));
        assert_eq!(runs.push(4), Some(Cut { upper: 2, lower: 1 }));
        assert_eq!([2, 1, 3].map(|run| runs.ends(run)), [(1, 4), (5, 10), (11, 11)]);
        assert_eq!([2, 1, 3].map(|run| runs.above(run)), [0, 2, 2]);
        assert_eq!(runs.cut(4), None, "it is the last of its run");
    }
}
