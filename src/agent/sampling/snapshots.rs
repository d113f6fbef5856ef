//! Publishes the snapshots of the modules to the handlers, and frees what they replace.
//!
//! A replaced snapshot, and the unwind tables of the modules that were unloaded with it, are kept
//! until every handler that may hold the snapshot has returned.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::agent::os::syscall;
use crate::agent::sampling::slot::{SlotObservation, SlotPool};
use crate::agent::unwind::modules::{LoadedModule, Modules, Snapshot};

/// Maximum number of snapshots that wait for handlers to return. A handler takes microseconds, so
/// more than one is rare.
const MAX_RETIRED: usize = 16;

/// The snapshot that handlers unwind with. The agent thread replaces it, and handlers read it after
/// they have claimed a slot. Both are sequentially consistent, so that a handler whose slot looked
/// free to the agent thread sees the new snapshot.
pub(crate) static SNAPSHOT: AtomicPtr<Snapshot> = AtomicPtr::new(core::ptr::null_mut());
struct RetiredSnapshot {
    /// Kept alive for the handlers that hold it.
    _snapshot: Box<Snapshot>,
    /// Modules that this snapshot refers to and no later one does.
    _modules: Vec<LoadedModule>,
    observation: SlotObservation,
}

/// The modules of the process and their published snapshot. The agent thread owns it.
pub(crate) struct Publisher {
    pool: &'static SlotPool,
    /// The modules as of the last [`refresh`](Self::refresh).
    pub(crate) modules: Modules,
    retired: Vec<RetiredSnapshot>,
}

impl Publisher {
    /// Creates a publisher that has published nothing yet. Handlers run in the slots of `pool`.
    pub(crate) fn new(pool: &'static SlotPool) -> Publisher {
        Publisher { pool, modules: Modules::new(), retired: Vec::new() }
    }

    /// Reads the maps and publishes what has changed. Returns whether there is new code, in a
    /// module or not.
    pub(crate) fn refresh(&mut self) -> bool {
        self.reclaim();
        if self.retired.len() == MAX_RETIRED {
            return false;
        }
        let Some(update) = self.modules.refresh() else { return false };
        self.publish(update.unloaded);
        update.has_new_code
    }

    /// Compiles the unwind rules of the functions that handlers had to look up, and publishes them.
    pub(crate) fn compile_rules(&mut self) {
        if self.retired.len() < MAX_RETIRED && self.modules.compile_rules() {
            self.publish(Vec::new());
        }
    }

    fn publish(&mut self, unloaded: Vec<LoadedModule>) {
        let snapshot = Box::new(self.modules.snapshot());
        self.replace(Box::into_raw(snapshot), unloaded);
        self.reclaim();
    }

    fn replace(&mut self, next: *mut Snapshot, unloaded: Vec<LoadedModule>) {
        let old = SNAPSHOT.swap(next, Ordering::SeqCst);
        if !old.is_null() {
            // SAFETY: made by Box::into_raw in `publish`; no other code frees it.
            let snapshot = unsafe { Box::from_raw(old) };
            let observation = self.pool.observe();
            self.retired.push(RetiredSnapshot { _snapshot: snapshot, _modules: unloaded, observation });
        }
    }

    /// Frees the retired snapshots that no handler holds any more.
    fn reclaim(&mut self) {
        // In order: an older snapshot may name modules that a newer one keeps alive.
        while self.retired.first_mut().is_some_and(|oldest| self.pool.all_returned(&mut oldest.observation)) {
            self.retired.remove(0);
        }
    }
}

impl Drop for Publisher {
    /// Withdraws the snapshot and waits for the handlers that hold one. If a handler does not
    /// return, the memory is leaked.
    fn drop(&mut self) {
        let modules = self.modules.take_loaded();
        self.replace(core::ptr::null_mut(), modules);
        for _ in 0..100 {
            self.reclaim();
            if self.retired.is_empty() {
                return;
            }
            syscall::futex_wait(&AtomicU32::new(0), 0, 1_000_000);
        }
        core::mem::forget(core::mem::take(&mut self.retired));
    }
}
