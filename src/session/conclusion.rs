//! The step after the last samples: agents and samplers are asked for them, and have a moment.

use std::time::Duration;

/// Maximum time that agents and samplers may take to send their last samples when they are asked
/// to leave. A stopped process never does.
pub(super) const LEAVING: Duration = Duration::from_millis(250);

/// The step after the last samples have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conclusion {
    /// An answer, and a notice.
    Notify,
    /// Nothing: the notice was sent.
    Notified,
    /// The end of the session.
    Leave,
}
