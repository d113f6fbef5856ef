//! Own code, as a part of a query.

use super::Pattern;

/// The choice of own code, and whether foreign code is folded into it.
///
/// Folded, a foreign frame is none: its time belongs to the own function that called it, directly
/// or not. A stack without an own frame is reduced to its leaf, so that no time is lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnCode {
    /// Whether foreign frames are folded into their own callers.
    pub folds: bool,
    /// A match in the name, file or module makes a function own, and no match makes it foreign.
    /// `None` leaves the decision to [`CodeOrigin`](crate::symbols::own_code::CodeOrigin).
    pub pattern: Option<Pattern>,
}
