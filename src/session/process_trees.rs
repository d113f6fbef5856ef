//! The living descendants of the watched processes. A process starts others, and ends, in CPU time
//! of its own: while none of a tree has used any, `/proc` is not read again. Calls at one time get
//! one answer.

use std::collections::HashMap;

use crate::attach::proc;

/// Maximum time between two readings, ns: some kernels count CPU time in coarse steps.
const MAX_AGE_NS: u64 = 1_000_000_000;

/// The trees of all watched processes, by the pid of their root.
#[derive(Default)]
pub(super) struct ProcessTrees(HashMap<u32, ProcessTree>);

/// The descendants of one process.
#[derive(Default)]
struct ProcessTree {
    /// The root and its descendants, each after its parent, with the CPU time that it had used
    /// before they were read, ns; `None` if it was new then.
    processes: Vec<(u32, Option<u64>)>,
    read_ns: u64,
}

impl ProcessTrees {
    /// The living descendants of a process, see [`proc::descendants`].
    pub(super) fn descendants(&mut self, root: u32, now_ns: u64) -> Vec<u32> {
        self.update(root, now_ns, proc::cpu_ns, proc::descendants)
    }

    fn update(
        &mut self,
        root: u32,
        now_ns: u64,
        cpu_ns: impl Fn(u32) -> Option<u64>,
        read: impl FnOnce(u32) -> Vec<u32>,
    ) -> Vec<u32> {
        let tree = self.0.entry(root).or_default();
        let age_ns = now_ns.saturating_sub(tree.read_ns);
        let is_recent = !tree.processes.is_empty() && age_ns < MAX_AGE_NS;
        let rests = |&(pid, used_ns): &(u32, Option<u64>)| used_ns.is_some() && cpu_ns(pid) == used_ns;
        if !is_recent || age_ns > 0 && !tree.processes.iter().all(rests) {
            // What a process does while they are read changes its CPU time until the next call.
            let known: HashMap<u32, Option<u64>> =
                tree.processes.iter().map(|&(pid, _)| (pid, cpu_ns(pid))).chain([(root, cpu_ns(root))]).collect();
            let used_ns = |pid: u32| known.get(&pid).copied().flatten();
            tree.processes = [root].into_iter().chain(read(root)).map(|pid| (pid, used_ns(pid))).collect();
            tree.read_ns = now_ns;
        }
        tree.processes.iter().skip(1).map(|&(pid, _)| pid).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn descendants_are_read_again_once_a_process_has_used_cpu_time() {
        let mut trees = ProcessTrees::default();
        let (reads, now_ns) = (Cell::new(0), Cell::new(5_000_000_000));
        let mut look = |used: &[(u32, u64)], children: &[u32]| {
            now_ns.set(now_ns.get() + 1_000_000);
            let cpu_ns = |pid| used.iter().find(|(known, _)| *known == pid).map(|(_, ns)| *ns);
            let read = |_| {
                reads.set(reads.get() + 1);
                children.to_vec()
            };
            (trees.update(1, now_ns.get(), cpu_ns, read), reads.get())
        };
        assert_eq!(look(&[(1, 10)], &[]), (vec![], 1));
        assert_eq!(look(&[(1, 10)], &[2]), (vec![], 1), "no child without CPU time");
        assert_eq!(look(&[(1, 11), (2, 5)], &[2]), (vec![2], 2));
        assert_eq!(look(&[(1, 11), (2, 5)], &[2, 3]), (vec![2, 3], 3), "a new process may have started another");
        assert_eq!(look(&[(1, 11), (2, 5), (3, 1)], &[2, 3]), (vec![2, 3], 4));
        assert_eq!(look(&[(1, 11), (2, 5), (3, 1)], &[]), (vec![2, 3], 4));
        assert_eq!(look(&[(1, 11), (2, 5), (3, 2)], &[2]), (vec![2], 5), "a process ends in CPU time of its own");
        assert_eq!(look(&[(1, 11)], &[]), (vec![], 6), "a process that is gone has none");
        now_ns.set(now_ns.get() + MAX_AGE_NS);
        assert_eq!(look(&[(1, 11)], &[4]), (vec![4], 7), "the CPU clock may be coarse");
        now_ns.set(now_ns.get() - 1_000_000);
        assert_eq!(look(&[(1, 12), (4, 1)], &[5]), (vec![4], 7), "the same time");
        assert_eq!(look(&[(1, 12), (4, 1)], &[5]), (vec![5], 8));
    }

    #[test]
    fn a_child_of_this_process_is_found() {
        let mut trees = ProcessTrees::default();
        let now_ns = MAX_AGE_NS;
        trees.descendants(std::process::id(), now_ns);
        let now_ns = now_ns + 1;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        let found = trees.descendants(std::process::id(), now_ns);
        child.kill().expect("the child is killed");
        child.wait().expect("the child ends");
        assert!(found.contains(&child.id()));
        assert!(!trees.descendants(std::process::id(), now_ns + 1).contains(&child.id()));
    }
}
