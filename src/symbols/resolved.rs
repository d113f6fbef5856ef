//! A resolved address, and what the symbol table knows of it.

use super::demangle::Name;

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

/// A name from the symbol table.
pub(super) struct KnownSymbol {
    /// The symbol as it is in the table; empty if it is unknown.
    pub(super) raw: Box<[u8]>,
    /// Its name.
    pub(super) name: Name,
    /// Number of other functions that have the same code.
    pub(super) others: usize,
}

impl KnownSymbol {
    /// Returns the name, with the number of other functions at its address. The linker has folded
    /// them into one, so the one that was called is unknown.
    pub(super) fn label(&self) -> Name {
        let (Name { full, short, is_mangled }, others) = (&self.name, self.others);
        match others {
            0 => self.name.clone(),
            _ => Name {
                full: format!("{full} and {others} more at this address"),
                short: format!("{short} +{others}"),
                is_mangled: *is_mangled,
            },
        }
    }
}
