//! Whether a test runs beside others. Tests that judge real time have the machine for themselves,
//! however many threads and processes the tests run in.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

thread_local! {
    /// The lock of the test on this thread. It is released when the thread ends.
    static LOCK: RefCell<Option<Lock>> = const { RefCell::new(None) };
}

struct Lock {
    is_exclusive: bool,
    _file: File,
}

/// Waits until all other tests have ended, and lets none begin before this one has ended. A test
/// calls this before it starts a program that goes on beside what it does.
pub(crate) fn alone() {
    if LOCK.with_borrow(|lock| lock.as_ref().is_none_or(|lock| !lock.is_exclusive)) {
        lock(true);
    }
}

/// Waits until no test runs that must be alone. Every test calls this by starting a program.
pub(crate) fn beside_others() {
    if LOCK.with_borrow(Option::is_none) {
        lock(false);
    }
}

fn lock(is_exclusive: bool) {
    // What a test's own threads start belongs to the test. They have no name, and its thread has.
    if std::thread::current().name().is_none() {
        return;
    }
    let open = |name: &str| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Another user's run may have made it.
        File::open(&path).or_else(|_| File::create(&path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    // A test that waits to be alone holds the turn, so that no other test begins meanwhile.
    let (turn, all) = (open("turn.lock"), open("all.lock"));
    LOCK.set(None);
    flock(&turn, FlockOperation::LockExclusive).expect("a lock");
    flock(&all, if is_exclusive { FlockOperation::LockExclusive } else { FlockOperation::LockShared }).expect("a lock");
    LOCK.set(Some(Lock { is_exclusive, _file: all }));
}
