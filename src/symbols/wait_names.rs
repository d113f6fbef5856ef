//! The names of waits. The use of a futex follows from the names of those that wait on it. A lock
//! in the data of a file has the name of its variable.

use std::collections::HashMap;

use super::sanitize::sanitize;
use crate::profile::Profile;
use crate::profile::module::ModuleId;
use crate::profile::stack::{Frame, FrameId};
use crate::profile::thread::ThreadId;
use crate::profile::waits::{KnownWait, WaitId, WaitReason};

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
    ("runtime.lock2", WaitReason::Lock),
    ("runtime.note", WaitReason::Condvar),
    ("mutex_lock", WaitReason::Lock),
    ("mutex_clocklock", WaitReason::Lock),
    ("mutex_timedlock", WaitReason::Lock),
    ("lll_lock", WaitReason::Lock),
    ("lock_contended", WaitReason::Lock),
    ("RawMutex", WaitReason::Lock),
    ("Mutex<", WaitReason::Lock),
];

/// Uses that an outer caller tells better than an inner one: a lock of Python is a semaphore of
/// libc, and a condition variable of Python waits for such a lock.
const OUTER_USES: &[(&str, WaitReason)] = &[
    ("Condition.wait", WaitReason::Condvar),
    ("take_gil", WaitReason::Lock),
    ("PyThread_acquire_lock", WaitReason::Lock),
    ("acquire_timed", WaitReason::Lock),
];

/// Offsets in a variable at which its own futex may be, in bytes: of a condition variable, and of
/// others. Behind them is another object.
const CONDVAR_BYTES: u64 = 48;
const LOCK_BYTES: u64 = 16;

/// The short name of a wait, such as `[lock 0x7f10] held by compactor 4130`, in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitLabel<'a> {
    word: &'a str,
    holder: Option<&'a str>,
}

impl<'a> WaitLabel<'a> {
    /// Finds the parts of a short name. Only an address or a variable stands in brackets, so that
    /// no name of a file or thread is mistaken for a part.
    pub fn parse(short: &'a str) -> WaitLabel<'a> {
        let (inside, rest) = short.strip_prefix('[').and_then(|rest| rest.split_once(']')).unwrap_or((short, ""));
        WaitLabel { word: inside.split(' ').next().unwrap_or(inside), holder: rest.strip_prefix(" held by ") }
    }

    /// The word for the reason.
    pub fn word(self) -> &'a str {
        self.word
    }

    /// The name of the thread that holds the lock.
    pub fn holder_name(self) -> Option<&'a str> {
        self.holder?.rsplit_once(' ').map(|(name, _)| name)
    }

    /// The id of the thread that holds the lock.
    pub fn holder_tid(self) -> Option<u32> {
        self.holder?.rsplit(' ').next()?.parse().ok()
    }

    /// The reason alone: `[lock]`.
    pub fn reason(self) -> String {
        format!("[{}]", self.word)
    }

    /// The reason and the holder, if that is known: `[lock] held by compactor 4130`.
    pub fn holder(self) -> String {
        match self.holder {
            Some(holder) => format!("[{}] held by {holder}", self.word),
            None => self.reason(),
        }
    }
}

/// A wait in words. Texts may hold any characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainedWait<'a> {
    /// The reason.
    pub reason: WaitReason,
    /// The file behind the descriptor, the address of the futex, or the child process; empty
    /// without any.
    pub object: &'a str,
    /// The name of the variable that has the futex; empty if it is not known.
    pub variable: &'a str,
    /// The name of the thread that holds the lock; empty if that is not known.
    pub holder: &'a str,
    /// That thread.
    pub holder_id: Option<ThreadId>,
}

/// The wait of one frame.
struct NamedWait {
    wait: WaitId,
    reason: WaitReason,
    /// The address of the object that has the futex, if that is another one.
    address: Option<String>,
    /// The file that may have the futex in its data, and the address within the file.
    data: Option<(ModuleId, u64)>,
}

impl NamedWait {
    /// Finds out what is waited for. A condition variable of libc and a rwlock have two futexes in
    /// one word of 8 bytes. Others beside each other are different objects.
    fn find_object(&mut self, known: &KnownWait, callers: &[&str]) {
        let futex = known.object.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let is_condvar = || callers.iter().any(|caller| caller.contains("pthread_cond_"));
        let is_pair = self.reason == WaitReason::RwLock || self.reason == WaitReason::Condvar && is_condvar();
        self.address = futex.filter(|futex| is_pair && futex % 8 != 0).map(|futex| format!("{:#x}", futex & !7));
    }

    fn object<'a>(&'a self, known: &'a KnownWait) -> &'a str {
        self.address.as_deref().unwrap_or(&known.object)
    }

    /// The thread that holds what is waited for. Only locks have one.
    fn holder(&self, known: &KnownWait) -> Option<ThreadId> {
        known.holder.filter(|_| self.reason.is_lock())
    }
}

/// Whether what is waited for is an address. Files and sockets are called otherwise.
fn is_address(object: &str) -> bool {
    object.starts_with("0x")
}

/// The frames that stand for waits.
#[derive(Default)]
pub(super) struct WaitNames {
    waits: HashMap<FrameId, NamedWait>,
    /// The waits whose reason the name of a frame may tell.
    by_caller: HashMap<FrameId, Vec<FrameId>>,
    /// The waits on the futexes in the data of files.
    by_data: HashMap<(ModuleId, u64), Vec<FrameId>>,
    /// The variables that have these futexes, with the offset in the variable.
    variables: HashMap<(ModuleId, u64), String>,
}

impl WaitNames {
    /// Adds the frame of a wait. Returns the address of its futex in the data of a file if it is
    /// the first wait there.
    pub(super) fn add(&mut self, profile: &Profile, frame: FrameId, wait: WaitId) -> Option<(ModuleId, u64)> {
        let known = profile.waits.get(wait);
        for &caller in &known.callers {
            self.by_caller.entry(caller).or_default().push(frame);
        }
        self.waits.insert(frame, NamedWait { wait, reason: known.reason, address: None, data: known.data });
        let data = known.data?;
        let waits = self.by_data.entry(data).or_default();
        waits.push(frame);
        (waits.len() == 1).then_some(data)
    }

    /// The first wait on a futex at an address in the data of a file.
    pub(super) fn at(&self, module: ModuleId, address: u64) -> Option<FrameId> {
        self.by_data.get(&(module, address))?.first().copied()
    }

    /// Names the variable that has the futex of a wait. Returns all waits on it.
    pub(super) fn name_variable(&mut self, frame: FrameId, short: &str) -> &[FrameId] {
        let Some(data) = self.waits.get(&frame).and_then(|named| named.data) else { return &[] };
        // Brackets enclose the variable.
        let name = short.split(['[', ']']).next().unwrap_or_default();
        self.variables.insert(data, name.to_owned());
        self.by_data.get(&data).map_or(&[], Vec::as_slice)
    }

    /// Whether a frame is that of a wait.
    pub(super) fn contains(&self, frame: FrameId) -> bool {
        self.waits.contains_key(&frame)
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
    pub(super) fn explain<'a>(&'a self, profile: &'a Profile, frame: FrameId) -> Option<ExplainedWait<'a>> {
        let named = self.waits.get(&frame)?;
        let known = profile.waits.get(named.wait);
        let holder_id = named.holder(known);
        let holder = holder_id.map_or("", |holder| &profile.thread(holder).name);
        let variable = variable(&self.variables, named);
        Some(ExplainedWait { reason: named.reason, object: named.object(known), variable, holder, holder_id })
    }

    /// Returns the short name of the wait of a frame. `names` returns the names of a frame, the
    /// innermost first.
    pub(super) fn label<'a>(
        &mut self,
        profile: &Profile,
        frame: FrameId,
        names: impl Fn(FrameId) -> Vec<&'a str>,
    ) -> Option<String> {
        let WaitNames { waits, variables, .. } = self;
        let named = waits.get_mut(&frame)?;
        let known = profile.waits.get(named.wait);
        let callers: Vec<&str> = known.callers.iter().flat_map(|&caller| names(caller)).collect();
        let is_python = known.callers.iter().any(|&caller| matches!(profile.frame(caller), Frame::Script { .. }));
        named.reason = futex_use_of(&callers, is_python).unwrap_or(known.reason);
        named.find_object(known, &callers);
        let (word, variable) = (named.reason.word(), variable(variables, named));
        let object = if variable.is_empty() { sanitize(named.object(known)) } else { variable.to_owned() };
        // An address or a variable is of the reason, a file of what is waited for.
        Some(match (object.as_str(), named.holder(known)) {
            ("", None) => format!("[{word}]"),
            (object, Some(holder)) => {
                let thread = profile.thread(holder);
                format!("[{word} {object}] held by {} {}", sanitize(&thread.name), thread.tid)
            }
            (object, None) if !variable.is_empty() || is_address(object) => format!("[{word} {object}]"),
            (object, None) => format!("[{word}] {object}"),
        })
    }
}

impl ExplainedWait<'_> {
    /// The wait in a few words: `[lock cache_mutex] held by compactor`.
    pub fn words(&self) -> String {
        let word = match self.variable {
            "" => self.reason.word().to_owned(),
            variable => format!("{} {variable}", self.reason.word()),
        };
        match (self.holder, self.object) {
            ("", "") => format!("[{word}]"),
            ("", object) if is_address(object) => format!("[{word}]"),
            ("", object) => format!("[{word}] {}", sanitize(object)),
            (holder, _) => format!("[{word}] held by {}", sanitize(holder)),
        }
    }
}

/// The name of the variable that has the futex of a wait; empty if it is not known. An offset
/// stands behind it if the futex belongs to another object in the variable.
fn variable<'a>(variables: &'a HashMap<(ModuleId, u64), String>, named: &NamedWait) -> &'a str {
    let name = named.data.and_then(|data| variables.get(&data)).map_or("", String::as_str);
    let own_bytes = if named.reason == WaitReason::Condvar { CONDVAR_BYTES } else { LOCK_BYTES };
    match name.rsplit_once("+0x") {
        Some((variable, offset)) if u64::from_str_radix(offset, 16).is_ok_and(|at| at < own_bytes) => variable,
        _ => name,
    }
}

/// The use that callers of these names, the innermost first, make of a futex. Functions of Python
/// stand for those of the interpreter, which would tell; only multiprocessing has real semaphores.
fn futex_use_of(callers: &[&str], is_python: bool) -> Option<WaitReason> {
    let is_called = |part: &str| callers.iter().any(|name| name.contains(part));
    let outer = OUTER_USES.iter().find(|(part, _)| is_called(part)).map(|(_, reason)| *reason);
    outer.or_else(|| match callers.iter().copied().find_map(futex_use) {
        Some(WaitReason::Semaphore) if is_python && !is_called("synchronize.py") => Some(WaitReason::Lock),
        reason => reason,
    })
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
            ("__pthread_mutex_clocklock_common", Some(WaitReason::Lock)),
            ("pthread_mutex_timedlock", Some(WaitReason::Lock)),
            ("std::sys::sync::mutex::futex::Mutex::lock_contended", Some(WaitReason::Lock)),
            ("std::sys::sync::condvar::futex::Condvar::wait_optional_timeout", Some(WaitReason::Condvar)),
            ("parking_lot::raw_mutex::RawMutex::lock_slow", Some(WaitReason::Lock)),
            ("std::condition_variable::wait(std::unique_lock<std::mutex>&)", Some(WaitReason::Condvar)),
            ("__futex_abstimed_wait_common64", None),
            ("syscall", None),
            ("Cache::insert", None),
            ("runtime.lock2", Some(WaitReason::Lock)),
            ("runtime.notesleep", Some(WaitReason::Condvar)),
        ] {
            assert_eq!(futex_use(name), reason, "{name}");
        }
    }

    #[test]
    fn two_futexes_in_one_word_are_one_object_if_they_are_a_condition_variable_or_rwlock() {
        let object = |address: u64, callers: &[&str]| {
            let known = KnownWait { object: format!("{address:#x}"), ..KnownWait::of(WaitReason::Futex) };
            let reason = futex_use_of(callers, false).unwrap_or(WaitReason::Futex);
            let mut named = NamedWait { wait: WaitId(0), reason, address: None, data: None };
            named.find_object(&known, callers);
            named.object(&known).to_owned()
        };
        for (callers, is_one) in [
            (&["__futex_abstimed_wait_common64", "pthread_cond_wait"][..], true),
            (&["pthread_rwlock_wrlock"], true),
            (&["std::sys::sync::rwlock::futex::RwLock::read_contended"], true),
            (&["std::sys::sync::condvar::futex::Condvar::wait_optional_timeout"], false),
            (&["std::sys::sync::once::futex::Once::wait"], false),
            (&["pthread_mutex_lock"], false),
            (&[], false),
        ] {
            assert_eq!(object(0x7f28, callers), "0x7f28", "{callers:?}");
            assert_eq!(object(0x7f2c, callers), if is_one { "0x7f28" } else { "0x7f2c" }, "{callers:?}");
        }
    }

    #[test]
    fn the_futex_of_another_object_in_a_variable_has_an_offset() {
        let data = (ModuleId(1), 0x4040);
        for (name, reason, shown) in [
            ("cache_mutex", WaitReason::Lock, "cache_mutex"),
            ("files+0x8", WaitReason::RwLock, "files"),
            ("server+0x28", WaitReason::Lock, "server+0x28"),
            ("ready+0x28", WaitReason::Condvar, "ready"),
            ("server+0x58", WaitReason::Condvar, "server+0x58"),
            ("", WaitReason::Lock, ""),
        ] {
            let variables = HashMap::from([(data, name.to_owned())]);
            let named = NamedWait { wait: WaitId(0), reason, address: None, data: Some(data) };
            assert_eq!(variable(&variables, &named), shown, "{name}");
        }
    }

    #[test]
    fn a_lock_of_python_is_no_semaphore() {
        let lock = ["__futex_abstimed_wait_common64", "sem_clockwait", "PyThread_acquire_lock_timed", "lock_acquire"];
        let use_of = |callers: &[&str]| futex_use_of(callers, false);
        assert_eq!(use_of(&lock), Some(WaitReason::Lock));
        let condition = [&lock[..], &["Condition.wait (/usr/lib/python3.11/threading.py:288)"]].concat();
        assert_eq!(use_of(&condition), Some(WaitReason::Condvar));
        let interpreter = ["__futex_abstimed_wait_common64", "pthread_cond_timedwait", "take_gil"];
        assert_eq!(use_of(&interpreter), Some(WaitReason::Lock));
        assert_eq!(use_of(&lock[..2]), Some(WaitReason::Semaphore));
        let [with, acquire] =
            ["waiter (/app/server.py:5)", "Lock.acquire (/usr/lib/python3/multiprocessing/synchronize.py)"];
        assert_eq!(futex_use_of(&[&lock[..2], &[with]].concat(), true), Some(WaitReason::Lock));
        assert_eq!(futex_use_of(&[&lock[..2], &[acquire]].concat(), true), Some(WaitReason::Semaphore));
    }

    #[test]
    fn a_wait_has_a_reason_and_perhaps_a_holder() {
        for (short, reason, holder) in [
            ("[lock 0x7f10] held by compactor 4130", "[lock]", "[lock] held by compactor 4130"),
            ("[lock 0x7f10] held by a] held by b 7", "[lock]", "[lock] held by a] held by b 7"),
            ("[lock 0x7f10]", "[lock]", "[lock]"),
            ("[lock cache_mutex] held by compactor 4130", "[lock]", "[lock] held by compactor 4130"),
            ("[read] /tmp/x] held by nobody", "[read]", "[read]"),
            ("[sleep]", "[sleep]", "[sleep]"),
        ] {
            let label = WaitLabel::parse(short);
            assert_eq!((label.reason().as_str(), label.holder().as_str()), (reason, holder), "{short}");
        }
    }
}
