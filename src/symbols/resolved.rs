//! A resolved address.

/// A function at an address. An address with inlined calls has several, the innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedLine {
    /// The full name; see [`Function::full`](super::Function::full).
    pub full: String,
    /// The short name; see [`Function::short`](super::Function::short).
    pub short: String,
    /// The source file; empty if unknown.
    pub file: String,
    /// The source line; 0 if unknown.
    pub line: u32,
    /// Whether it is inlined into the next.
    pub inlined: bool,
}
