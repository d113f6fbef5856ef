//! The size of a page of memory.

/// The largest size of a page, in bytes.
#[cfg(feature = "agent")]
pub(crate) const LARGEST_PAGE: usize = 4096;

/// Takes note of the size of a page: there is one.
pub(crate) fn set_page_size(_bytes: usize) {}

/// Returns the size of a page, in bytes.
pub(crate) const fn page_size() -> usize {
    4096
}
