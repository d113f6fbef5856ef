//! Threads whose system calls may wait for a supervisor, and when they are not stopped.
//!
//! A seccomp filter can leave calls to another program to answer (`SECCOMP_RET_USER_NOTIF`). A stop
//! ends the wait for the answer: the supervisor sees its request vanish, and the call is made
//! again, with all that the supervisor does for it. The kernel does not tell whether a thread that
//! runs is about to make such a call, so what is known from `/proc` decides:
//!
//! * A thread without a filter makes none.
//! * A process has a supervisor if one of its threads was found in such a wait, or if a process
//!   near it has the descriptor that requests are read from: itself, its ancestors and their
//!   children. A process with as many filters as its parent has what its parent has.
//! * A thread that has not waited for anything for a while ([`COMPUTES_NS`]) computes. A supervised
//!   call is a wait, so one that makes many is never stopped, and one that computes between them
//!   is.

use std::fs;

use crate::attach::proc::{self, ProcStat, ProcStatus};

/// Time without a wait after which a thread is taken to compute, ns.
const COMPUTES_NS: u64 = 10_000_000;
/// Time between two readings of the filters of a thread, ns: while it is young, and later. Most
/// filters are set when a program or a thread begins.
const READ_YOUNG_NS: u64 = 5_000_000;
const READ_NS: u64 = 100_000_000;
const YOUNG_NS: u64 = 1_000_000_000;
/// The function of the kernel in which a thread waits for its supervisor.
const WAIT: &str = "seccomp_do_user_notification";
/// The target of the descriptor from which a supervisor reads.
const LISTENER: &str = "anon_inode:seccomp notify";
/// Maximum numbers of ancestors, processes and descriptors that are searched for such a descriptor.
const MAX_ANCESTORS: usize = 16;
const MAX_PROCESSES: usize = 256;
const MAX_DESCRIPTORS: usize = 4096;

/// The filters of a thread, and its last wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadFilters {
    /// Number of filters; 0 if there are none.
    pub(super) count: u32,
    /// Number of waits so far.
    waits: u64,
    /// Time at which that number was found to have changed, ns.
    waited_ns: u64,
    /// Times of the first and the last reading, ns; 0 before the first.
    first_ns: u64,
    read_ns: u64,
}

impl ThreadFilters {
    /// Reads the filters of a thread, and its waits if it is supervised, as far as that is due.
    pub(super) fn update(&mut self, (pid, tid): (u32, u32), is_supervised: bool, now_ns: u64) {
        let is_young = now_ns.saturating_sub(self.first_ns) < YOUNG_NS;
        let rest_ns = if is_young { READ_YOUNG_NS } else { READ_NS };
        let is_due = self.first_ns == 0 || now_ns.saturating_sub(self.read_ns) >= rest_ns;
        if (is_due || is_supervised && self.count > 0)
            && let Ok(status) = ProcStatus::of_thread(pid, tid)
        {
            self.note(&status, now_ns);
        }
    }

    fn note(&mut self, status: &ProcStatus, now_ns: u64) {
        if self.first_ns == 0 {
            self.first_ns = now_ns;
        }
        if self.read_ns == 0 || self.waits != status.waits {
            self.waited_ns = now_ns;
        }
        // Linux before 5.9 does not report their number.
        self.count = status.filters.max(u32::from(status.confined));
        (self.waits, self.read_ns) = (status.waits, now_ns);
    }

    /// Whether the thread had not waited for a while when it was read last.
    pub(super) fn computes(&self) -> bool {
        self.read_ns.saturating_sub(self.waited_ns) >= COMPUTES_NS
    }
}

/// Whether system calls of a process wait for a supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Supervision {
    /// The largest number of filters of a thread for which that is known.
    pub(super) filters: u32,
    pub(super) is_supervised: bool,
}

impl Supervision {
    /// Whether a supervisor is to be searched for because a thread has this many filters.
    pub(super) fn is_unknown(self, filters: u32) -> bool {
        filters > self.filters && !self.is_supervised
    }

    /// Finds out whether a process with this many filters has a supervisor. `of_parent` is what is
    /// known of its parent.
    pub(super) fn find(&mut self, pid: u32, filters: u32, of_parent: Option<Supervision>) {
        let inherited = of_parent.filter(|parent| parent.filters == filters);
        self.is_supervised |= inherited.map_or_else(|| has_listener_near(pid), |parent| parent.is_supervised);
        self.filters = filters;
    }
}

/// Returns whether a thread that sleeps waits for its supervisor.
pub(super) fn waits_for_supervisor(pid: u32, tid: u32) -> bool {
    fs::read(format!("/proc/{pid}/task/{tid}/wchan")).is_ok_and(|function| function == WAIT.as_bytes())
}

/// Returns whether a process, one of its ancestors, or a child of one of these reads requests of a
/// filter. The children of the first process of the system are no relatives.
fn has_listener_near(pid: u32) -> bool {
    let (mut processes, mut descriptors) = (MAX_PROCESSES, MAX_DESCRIPTORS);
    let mut has_listener = |pid: u32| {
        let is_listener = |path| fs::read_link(path).is_ok_and(|target| target.as_os_str() == LISTENER);
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let (left, is_searched) = (descriptors, processes > 0);
        processes = processes.saturating_sub(1);
        let mut paths = entries.map(|entry| entry.path()).take(if is_searched { left } else { 0 });
        paths.any(|path| {
            descriptors -= 1;
            is_listener(path)
        })
    };
    let mut ancestor = pid;
    for _ in 0..MAX_ANCESTORS {
        let children =
            || proc::threads(ancestor).into_iter().flat_map(move |tid| proc::children_of_thread(ancestor, tid));
        if has_listener(ancestor) || ancestor != 1 && children().flatten().any(&mut has_listener) {
            return true;
        }
        match ProcStat::of(ancestor) {
            Ok(stat) if stat.parent > 0 => ancestor = stat.parent,
            _ => break,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_computes_once_it_has_not_waited_for_a_while() {
        let status = |waits| ProcStatus { waits, filters: 1, ..ProcStatus::default() };
        let mut filters = ThreadFilters::default();
        filters.note(&status(7), 1_000);
        assert_eq!((filters.count, filters.computes()), (1, false));
        filters.note(&status(7), 1_000 + COMPUTES_NS);
        assert!(filters.computes());
        filters.note(&status(8), 2_000 + COMPUTES_NS);
        assert!(!filters.computes());
        filters.note(&status(8), 1_999 + 2 * COMPUTES_NS);
        assert!(!filters.computes());
    }

    #[test]
    fn a_child_with_the_filters_of_its_parent_has_its_supervisor() {
        let (none, parent) = (Supervision::default(), Supervision { filters: 2, is_supervised: true });
        assert!(none.is_unknown(1) && !none.is_unknown(0) && !parent.is_unknown(3));
        let mut child = none;
        child.find(std::process::id(), 2, Some(parent));
        assert_eq!(child, parent);
        // It has set one more, and nothing near this test listens.
        let mut other = none;
        other.find(std::process::id(), 3, Some(Supervision { is_supervised: true, ..parent }));
        assert_eq!(other, Supervision { filters: 3, is_supervised: false });
    }
}
