//! The names of waits. The use of a futex follows from the names of those that wait on it.

use std::collections::HashMap;

use super::sanitize::sanitize;
use crate::profile::Profile;
use crate::profile::stack::FrameId;
use crate::profile::thread::ThreadId;
use crate::profile::waits::{WaitId, WaitReason};

/// The use of a futex by a part of the name of a caller. The first row that fits counts.
const USES: &[(&str, WaitReason)] = &[
    ("rwlock", WaitReason::RwLock),
    ("RwLock", WaitReason::RwLock),
    ("RWMutex", WaitReason::RwLock),
    ("shared_mutex", WaitReason::RwLock),
    ("pthread_cond_", WaitReason::Condvar),
    ("Condvar", WaitReason::Condvar),
    ("condition_variable", WaitReason::Condvar),
    ("sem_wait", WaitReason::Semaphore),
    ("sem_timedwait", WaitReason::Semaphore),
    ("sem_clockwait", WaitReason::Semaphore),
    ("Semaphore", WaitReason::Semaphore),
    ("pthread_join", WaitReason::Join),
    ("pthread_timedjoin", WaitReason::Join),
    ("pthread_clockjoin", WaitReason::Join),
    ("JoinInner", WaitReason::Join),
    ("JoinHandle", WaitReason::Join),
    ("mutex_lock", WaitReason::Lock),
    ("lll_lock", WaitReason::Lock),
    ("lock_contended", WaitReason::Lock),
    ("RawMutex", WaitReason::Lock),
    ("Mutex<", WaitReason::Lock),
];

/// A wait in words. Texts may hold any characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainedWait<'a> {
    /// The reason.
    pub reason: WaitReason,
    /// The file behind the descriptor, or the address of the lock; empty without either.
    pub object: &'a str,
    /// The name of the thread that holds the lock; empty if that is not known.
    pub holder: &'a str,
    /// That thread.
    pub holder_id: Option<ThreadId>,
}

/// The wait of one frame.
struct NamedWait {
    wait: WaitId,
    reason: WaitReason,
}

/// The frames that stand for waits.
#[derive(Default)]
pub(super) struct WaitNames {
    waits: HashMap<FrameId, NamedWait>,
    /// The waits whose reason the name of a frame may tell.
    by_caller: HashMap<FrameId, Vec<FrameId>>,
}

impl WaitNames {
    /// Adds the frame of a wait.
    pub(super) fn add(&mut self, profile: &Profile, frame: FrameId, wait: WaitId) {
        let known = profile.waits.get(wait);
        for &caller in &known.callers {
            self.by_caller.entry(caller).or_default().push(frame);
        }
        self.waits.insert(frame, NamedWait { wait, reason: known.reason });
    }

    /// The frames of waits.
    pub(super) fn frames(&self) -> impl Iterator<Item = FrameId> {
        self.waits.keys().copied()
    }

    /// The frames of the waits that a newly named frame may explain.
    pub(super) fn called_by(&self, caller: FrameId) -> &[FrameId] {
        self.by_caller.get(&caller).map_or(&[], Vec::as_slice)
    }

    /// The wait of a frame, if it is one.
    pub(super) fn explain<'a>(&self, profile: &'a Profile, frame: FrameId) -> Option<ExplainedWait<'a>> {
        let named = self.waits.get(&frame)?;
        let known = profile.waits.get(named.wait);
        let holder = known.holder.map_or("", |holder| &profile.thread(holder).name);
        Some(ExplainedWait { reason: named.reason, object: &known.object, holder, holder_id: known.holder })
    }

    /// Returns the short name of the wait of a frame. `names` returns the names of a frame, the
    /// innermost first.
    pub(super) fn label<'a>(
        &mut self,
        profile: &Profile,
        frame: FrameId,
        names: impl Fn(FrameId) -> Vec<&'a str>,
    ) -> Option<String> {
        let named = self.waits.get_mut(&frame)?;
        let known = profile.waits.get(named.wait);
        let mut callers = known.callers.iter().flat_map(|&caller| names(caller));
        named.reason = callers.find_map(futex_use).unwrap_or(known.reason);
        let (word, object) = (named.reason.word(), sanitize(&known.object));
        // An address is of the reason, a file of what is waited for.
        Some(match (object.as_str(), known.holder) {
            ("", None) => format!("[{word}]"),
            (object, Some(holder)) => {
                let thread = profile.thread(holder);
                format!("[{word} {object}] held by {} {}", sanitize(&thread.name), thread.tid)
            }
            (object, None) if named.reason == WaitReason::Lock => format!("[{word} {object}]"),
            (object, None) => format!("[{word}] {object}"),
        })
    }
}

impl ExplainedWait<'_> {
    /// The wait in a few words: `[lock] held by compactor`.
    pub fn words(&self) -> String {
        let word = self.reason.word();
        match (self.holder, self.object) {
            ("", "") => format!("[{word}]"),
            ("", _) if self.reason == WaitReason::Lock => format!("[{word}]"),
            ("", object) => format!("[{word}] {}", sanitize(object)),
            (holder, _) => format!("[{word}] held by {}", sanitize(holder)),
        }
    }
}

/// The use that a caller of this name makes of a futex.
fn futex_use(name: &str) -> Option<WaitReason> {
    USES.iter().find(|(part, _)| name.contains(part)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_futex_follows_from_its_callers() {
        for (name, reason) in [
            ("pthread_cond_wait@@GLIBC_2.3.2", Some(WaitReason::Condvar)),
            ("__pthread_clockjoin_ex", Some(WaitReason::Join)),
            ("pthread_rwlock_wrlock", Some(WaitReason::RwLock)),
            ("std::sys::sync::rwlock::futex::RwLock::read_contended", Some(WaitReason::RwLock)),
            ("sem_wait@@GLIBC_2.34", Some(WaitReason::Semaphore)),
            ("pthread_mutex_lock", Some(WaitReason::Lock)),
            ("std::sys::sync::mutex::futex::Mutex::lock_contended", Some(WaitReason::Lock)),
            ("std::sys::sync::condvar::futex::Condvar::wait_optional_timeout", Some(WaitReason::Condvar)),
            ("parking_lot::raw_mutex::RawMutex::lock_slow", Some(WaitReason::Lock)),
            ("std::condition_variable::wait(std::unique_lock<std::mutex>&)", Some(WaitReason::Condvar)),
            ("__futex_abstimed_wait_common64", None),
            ("syscall", None),
            ("Cache::insert", None),
        ] {
            assert_eq!(futex_use(name), reason, "{name}");
        }
    }
}
