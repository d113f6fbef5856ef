//! Names of the threads of a process, as the viewer knows them. A thread has its parent's name
//! until it is given one of its own, which may be long after it was found.

use std::collections::BTreeMap;

use crate::attach::proc::ProcStat;

/// Minimum time between two readings of the name of a thread, ns.
const READ_NS: u64 = 2_000_000_000;

/// The names of threads, each with the time of its last reading, ns.
#[derive(Default)]
pub(super) struct ThreadNames {
    known: BTreeMap<u32, (u64, String)>,
}

impl ThreadNames {
    /// Reads the name of a thread if that is due. Returns it if the viewer does not know it yet.
    pub(super) fn update(&mut self, pid: u32, tid: u32, now_ns: u64) -> Option<&str> {
        let is_due = self.known.get(&tid).is_none_or(|(read_ns, _)| now_ns.saturating_sub(*read_ns) >= READ_NS);
        let name = is_due.then(|| ProcStat::of_thread(pid, tid).ok())??.comm;
        let is_news = self.known.get(&tid).is_none_or(|(_, known)| *known != name);
        self.known.insert(tid, (now_ns, name));
        self.known.get(&tid).filter(|_| is_news).map(|(_, name)| name.as_str())
    }

    /// Forgets a thread that has ended.
    pub(super) fn forget(&mut self, tid: u32) {
        self.known.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_name_is_read_two_seconds_after_the_first() {
        let (own, tid) = (std::process::id(), nix::unistd::gettid().as_raw() as u32);
        let set_name = |name: &std::ffi::CStr| {
            // SAFETY: the kernel reads the string up to its end.
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
        };
        let mut names = ThreadNames::default();
        set_name(c"early");
        assert_eq!(names.update(own, tid, 0), Some("early"));
        set_name(c"late");
        assert_eq!(names.update(own, tid, READ_NS - 1), None, "it is too early to read it again");
        assert_eq!(names.update(own, tid, READ_NS), Some("late"));
        assert_eq!(names.update(own, tid, 2 * READ_NS), None, "the viewer knows it");
        names.forget(tid);
        assert_eq!(names.update(own, tid, 2 * READ_NS), Some("late"));
        assert_eq!(names.update(own, u32::MAX, 0), None, "there is no such thread");
    }
}
