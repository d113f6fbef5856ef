//! The size of a page of memory, which differs from kernel to kernel: 4, 16 or 64 KiB.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The largest size of a page, in bytes.
#[cfg(feature = "agent")]
pub(crate) const LARGEST_PAGE: usize = 64 * 1024;

static SIZE: AtomicUsize = AtomicUsize::new(4096);

/// Sets the size of a page, in bytes: what the kernel says (AT_PAGESZ).
pub(crate) fn set_page_size(bytes: usize) {
    if bytes.is_power_of_two() {
        SIZE.store(bytes, Ordering::Relaxed);
    }
}

/// Returns the size of a page, in bytes.
pub(crate) fn page_size() -> usize {
    SIZE.load(Ordering::Relaxed)
}
