//! Names of the threads of a process, as the viewer knows them. A thread has its parent's name
//! until it is given one of its own, mostly at once, but sometimes long after it was found.

use std::collections::BTreeMap;

use crate::attach::proc::ProcStat;

/// Minimum time between the first two readings of the name of a thread, ns. It doubles with each.
const FIRST_WAIT_NS: u64 = 20_000_000;
/// The largest minimum, ns.
const LONGEST_WAIT_NS: u64 = 2_000_000_000;

/// The name of a thread.
struct KnownName {
    name: String,
    read_ns: u64,
    /// Minimum time until the next reading, ns.
    wait_ns: u64,
    /// Whether the thread has run since. Most threads name themselves.
    has_run: bool,
}

/// The names of threads.
#[derive(Default)]
pub(super) struct ThreadNames {
    known: BTreeMap<u32, KnownName>,
}

impl ThreadNames {
    /// Reads the name of a thread if that is due. Returns it if the viewer does not know it yet.
    /// `has_run` says that the thread has run since the last call.
    pub(super) fn update(&mut self, pid: u32, tid: u32, has_run: bool, now_ns: u64) -> Option<&str> {
        let known = self.known.get_mut(&tid);
        let is_due = known.is_none_or(|known| {
            known.has_run |= has_run;
            known.has_run && now_ns.saturating_sub(known.read_ns) >= known.wait_ns
        });
        let name = is_due.then(|| ProcStat::of_thread(pid, tid).ok())??.comm;
        let known = self.known.get(&tid);
        let is_news = known.is_none_or(|known| known.name != name);
        let wait_ns = known.map_or(FIRST_WAIT_NS, |known| (2 * known.wait_ns).min(LONGEST_WAIT_NS));
        self.known.insert(tid, KnownName { name, read_ns: now_ns, wait_ns, has_run: false });
        self.known.get(&tid).filter(|_| is_news).map(|known| known.name.as_str())
    }

    /// Notes the name of a thread that the viewer gets to know.
    pub(super) fn note(&mut self, tid: u32, name: &str, now_ns: u64) {
        let known = KnownName { name: name.to_owned(), read_ns: now_ns, wait_ns: LONGEST_WAIT_NS, has_run: false };
        self.known.insert(tid, known);
    }

    /// Forgets a thread that has ended.
    pub(super) fn forget(&mut self, tid: u32) {
        self.known.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_name(name: &std::ffi::CStr) {
        // SAFETY: the kernel reads the string up to its end.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
    }

    #[test]
    fn a_later_name_is_read_after_ever_longer_times() {
        let (own, tid) = (std::process::id(), nix::unistd::gettid().as_raw() as u32);
        let mut names = ThreadNames::default();
        set_name(c"early");
        assert_eq!(names.update(own, tid, true, 0), Some("early"));
        set_name(c"late");
        assert_eq!(names.update(own, tid, true, FIRST_WAIT_NS - 1), None, "it is too early to read it again");
        assert_eq!(names.update(own, tid, true, FIRST_WAIT_NS), Some("late"));
        set_name(c"later");
        assert_eq!(names.update(own, tid, true, 3 * FIRST_WAIT_NS - 1), None, "it is too early to read it again");
        assert_eq!(names.update(own, tid, true, 3 * FIRST_WAIT_NS), Some("later"));
        for second in 1..10 {
            assert_eq!(names.update(own, tid, true, second * 1_000_000_000), None, "the viewer knows it");
        }
        set_name(c"last");
        let known = &names.known[&tid];
        assert_eq!(known.wait_ns, LONGEST_WAIT_NS);
        assert_eq!(names.update(own, tid, true, 20_000_000_000), Some("last"));
        names.forget(tid);
        assert_eq!(names.update(own, tid, true, 20_000_000_000), Some("last"));
        assert_eq!(names.update(own, u32::MAX, true, 0), None, "there is no such thread");
    }

    /// Regression test: a thread that named itself just after it was found, and slept from then on,
    /// kept the name of its parent.
    #[test]
    fn a_thread_that_sleeps_has_the_name_that_it_gave_itself_before() {
        let (own, tid) = (std::process::id(), nix::unistd::gettid().as_raw() as u32);
        let mut names = ThreadNames::default();
        set_name(c"parent");
        assert_eq!(names.update(own, tid, false, 0), Some("parent"));
        set_name(c"sleeper");
        assert_eq!(names.update(own, tid, true, 1), None, "it is too early to read it again");
        assert_eq!(names.update(own, tid, false, FIRST_WAIT_NS), Some("sleeper"));
        set_name(c"not noticed");
        assert_eq!(names.update(own, tid, false, 1_000_000_000), None, "a thread that sleeps has the name that it had");
    }
}
