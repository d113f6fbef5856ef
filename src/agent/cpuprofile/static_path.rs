//! Paths in static memory, which handlers and the agent thread read without a lock.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::cpuprofile::env::MAX_PATH;

/// A path in static memory: the bytes and the length.
pub(crate) struct StaticPath(UnsafeCell<[u8; MAX_PATH]>, AtomicUsize);

// SAFETY: one thread writes at a time, and none reads meanwhile: the callers of `set` and `get` see
// to it.
unsafe impl Sync for StaticPath {}

impl StaticPath {
    /// An empty path.
    pub(crate) const fn new() -> StaticPath {
        StaticPath(UnsafeCell::new([0; MAX_PATH]), AtomicUsize::new(0))
    }

    /// Returns the bytes.
    ///
    /// # Safety
    /// No thread may be writing.
    pub(crate) unsafe fn get(&self) -> &[u8] {
        // SAFETY: the caller guarantees that no thread writes.
        unsafe { &(&*self.0.get())[..self.1.load(Ordering::Acquire)] }
    }

    /// Sets the bytes.
    ///
    /// # Safety
    /// No other thread may be reading or writing.
    pub(crate) unsafe fn set(&self, path: &[u8]) {
        // SAFETY: the caller guarantees that no other thread reads or writes.
        unsafe { (&mut *self.0.get())[..path.len()].copy_from_slice(path) };
        self.1.store(path.len(), Ordering::Release);
    }
}
