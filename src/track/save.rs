//! What the user wants to take away, and where to: the screen says how it is made, as formats are no business of a session.

use std::fmt;
use std::path::PathBuf;

use super::Facts;
use super::saver::{Piece, Saved};
use crate::link::aside;
use crate::profile::Profile;
use crate::symbols::Names;
use crate::tally::query::Query;

/// What a file is made of.
pub struct Taken<'a> {
    /// Everything received.
    pub profile: &'a Profile,
    /// Everything named.
    pub names: &'a Names,
    /// Which part of it: clock, span, filters, order of rows.
    pub query: Query,
    /// The header's material.
    pub facts: &'a Facts,
    /// The end of it in UTC, ns since 1970.
    pub unix_ns: u64,
    /// How long before the header's facts that was, ns.
    pub behind_ns: u64,
    /// Whether a file of no sample is better than none.
    pub may_be_empty: bool,
}

/// Makes the bytes of a file of the format with this name, or says in a sentence why there are none.
pub type Make = fn(&Taken<'_>, &str) -> Result<Vec<u8>, String>;

/// How a file is made.
#[derive(Clone, Copy)]
pub struct Form {
    /// What the format is called.
    pub name: &'static str,
    /// Makes it.
    pub make: Make,
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Form {
    fn eq(&self, other: &Form) -> bool {
        self.name == other.name
    }
}

/// What to save.
#[derive(Clone, Debug, PartialEq)]
pub struct Save {
    /// Where to.
    pub path: PathBuf,
    /// How; `None` is a recording of everything.
    pub form: Option<Form>,
    /// Only the time that the question is of, not all.
    pub is_shown: bool,
}

impl Save {
    /// Puts the file in its place.
    pub(super) fn write(&self, pieces: &[Piece]) -> Result<Saved, String> {
        let bytes = aside::write(&self.path, pieces).map_err(|error| error.to_string())?;
        Ok(Saved { path: Some(self.path.clone()), bytes })
    }
}
