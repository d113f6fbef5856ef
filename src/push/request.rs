//! The request that a store gets for one part.

/// A request by POST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreRequest {
    pub(super) url: String,
    pub(super) content_type: String,
    pub(super) is_gzipped: bool,
    pub(super) body: Vec<u8>,
}
