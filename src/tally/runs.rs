//! A tree that is mostly threads: places in runs. A place of a run other than its last has one child, the next number, and nothing of its
//! own, so that whatever the last weighs all of them weigh: what is known by run needs no room by place. A run is cut in two where
//! something branches off, or ends.

use std::hint::black_box;

/// What is known by run.
pub(super) trait Load: Clone + Default {
    /// The same of the part towards the root, when the run is cut and the other part keeps what there was.
    fn above(&self) -> Self;
}

/// A run.
#[derive(Clone)]
struct Run<L> {
    first: u32,
    last: u32,
    /// The run whose last place is the parent of the first.
    parent: u32,
    /// The first places of its children's runs are a list: the head of that, and what comes behind this run in its parent's. 0 is none.
    children: u32,
    next: u32,
    /// Whether the last place's next child begins a run of its own.
    closed: bool,
    load: L,
}

/// The runs of a tree whose places have numbers above their parents'. Place 0 is the root, and run 0 it alone. A run's number stays that of
/// its last place, once that is [cut](Runs::cut) or has two children.
pub(super) struct Runs<L> {
    /// By place.
    of: Vec<u32>,
    runs: Vec<Run<L>>,
}

impl<L: Load> Default for Runs<L> {
    fn default() -> Self {
        let root = Run { first: 0, last: 0, parent: 0, children: 0, next: 0, closed: true, load: L::default() };
        Runs { of: vec![0], runs: vec![root] }
    }
}

impl<L: Load> Runs<L> {
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

    /// What is known of a run.
    pub(super) fn load(&self, run: usize) -> &L {
        &self.runs[run].load
    }

    /// The same, to be changed.
    pub(super) fn load_mut(&mut self, run: usize) -> &mut L {
        &mut self.runs[run].load
    }

    /// All that is known, by run, to be changed.
    pub(super) fn loads_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.runs.iter_mut().map(|run| &mut run.load)
    }

    /// Reads what is known of the runs of these places, so that it is near when it is asked for one by one: reads that wait for nothing
    /// wait together.
    pub(super) fn look_ahead(&self, places: impl Iterator<Item = usize>) {
        black_box(places.fold(0, |seen, place| seen ^ self.runs[self.of[place] as usize].last));
    }

    /// The same of runs.
    pub(super) fn look_ahead_at(&self, runs: impl Iterator<Item = usize>) {
        black_box(runs.fold(0, |seen, run| seen ^ self.runs[run].last));
    }

    /// The parent of a place; the root's is itself.
    pub(super) fn parent(&self, place: usize) -> usize {
        let run = &self.runs[self.of(place)];
        match (run.first as usize) < place {
            true => place - 1,
            false => self.runs[run.parent as usize].last as usize,
        }
    }

    /// The children of a place, the latest first.
    pub(super) fn children(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let run = &self.runs[self.of(place)];
        let mut next = if run.last as usize > place { place as u32 + 1 } else { run.children };
        std::iter::from_fn(move || {
            let child = Some(next as usize).filter(|&child| child != 0)?;
            let run = &self.runs[self.of(child)];
            next = if run.first as usize == child { run.next } else { 0 };
            Some(child)
        })
    }

    /// Adds the next place, a child of `parent`.
    pub(super) fn push(&mut self, parent: usize) {
        let (place, above) = (self.of.len(), self.of(parent));
        let run = &mut self.runs[above];
        if !run.closed && run.last as usize == parent && parent + 1 == place {
            run.last = place as u32;
            self.of.push(above as u32);
            return;
        }
        let (above, place, run) = (self.cut(parent), place as u32, self.runs.len() as u32);
        let next = std::mem::replace(&mut self.runs[above].children, place);
        let (parent, load) = (above as u32, L::default());
        self.runs.push(Run { first: place, last: place, parent, children: 0, next, closed: false, load });
        self.of.push(run);
    }

    /// The run that ends with this place, whatever comes. Where it was in the middle of one, that one keeps its number for what is behind
    /// the place, and the part that ends with it gets the next new number.
    pub(super) fn cut(&mut self, place: usize) -> usize {
        let (lower, upper, end) = (self.of(place), self.runs.len() as u32, place as u32);
        let run = &mut self.runs[lower];
        if run.last == end {
            run.closed = true;
            return lower;
        }
        let (first, parent, next, load) = (run.first, run.parent, run.next, run.load.above());
        (run.first, run.parent, run.next) = (end + 1, upper, 0);
        self.runs.push(Run { first, last: end, parent, children: end + 1, next, closed: true, load });
        self.of[first as usize..=place].fill(upper);
        upper as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Load for () {
        fn above(&self) {}
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Parents and children are those that were given; runs are threads; a cut place is the last of its run.
        #[test]
        fn a_tree_in_runs_is_the_tree(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<bool>()), 0..60)) {
            let (mut runs, mut parents, mut cuts) = (Runs::<()>::default(), vec![0], vec![(0, 0)]);
            for (goes_on, parent, is_cut) in steps {
                let parent = if goes_on { parents.len() - 1 } else { parent.index(parents.len()) };
                runs.push(parent);
                parents.push(parent);
                if is_cut {
                    let place = parent.min(parents.len() / 2);
                    let run = runs.cut(place);
                    prop_assert_eq!((runs.of(place), runs.ends(run).1), (run, place));
                    cuts.push((place, run));
                }
            }
            prop_assert_eq!(runs.places(), parents.len());
            for place in 0..parents.len() {
                prop_assert_eq!(runs.parent(place), parents[place]);
                let children: Vec<usize> = (place + 1..parents.len()).rev().filter(|&child| parents[child] == place).collect();
                prop_assert_eq!(runs.children(place).collect::<Vec<_>>(), children);
                let (first, last) = runs.ends(runs.of(place));
                prop_assert!((first..=last).contains(&place));
                prop_assert!((first + 1..=last).all(|place| parents[place] == place - 1));
            }
            for (place, run) in cuts {
                prop_assert_eq!((runs.of(place), runs.ends(run).1), (run, place), "numbers stay");
            }
            for run in 1..runs.len() {
                prop_assert_eq!(runs.ends(runs.above(run)).1, parents[runs.ends(run).0]);
            }
        }
    }

    #[test]
    fn a_thread_is_one_run_until_something_branches_off() {
        let mut runs = Runs::<()>::default();
        (0..10).for_each(|parent| runs.push(parent));
        assert_eq!((runs.len(), runs.ends(1)), (2, (1, 10)));
        runs.push(4);
        assert_eq!([2, 1, 3].map(|run| runs.ends(run)), [(1, 4), (5, 10), (11, 11)]);
        assert_eq!([2, 1, 3].map(|run| runs.above(run)), [0, 2, 2]);
        assert_eq!((runs.cut(4), runs.len()), (2, 4), "it is the last of its run");
    }
}
