//! Requests to save the profile to a file, and the data that the file is made from.

use std::path::PathBuf;

use super::header_facts::Facts;
use super::recording_writer::{Piece, SavedFile};
use crate::link::atomic_file;
use crate::pprof::format::SaveFormat;
use crate::profile::Profile;
use crate::symbols::Names;
use crate::tally::query::Query;

/// The data that a file is made from.
pub struct SaveInput<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The names of its frames.
    pub names: &'a Names,
    /// The facts of the header.
    pub facts: &'a Facts,
    /// The part of the profile to save.
    pub part: SavedPart,
}

/// The part of a profile that a file has.
#[derive(Clone, Debug)]
pub struct SavedPart {
    /// Clock, span, filters, order of rows.
    pub query: Query,
    /// The end of the span in UTC, ns since 1970.
    pub unix_ns: u64,
    /// Time between the end of the span and the facts, ns.
    pub behind_ns: u64,
    /// Whether to make a file even if there is no sample.
    pub may_be_empty: bool,
}

/// A request to save a file.
#[derive(Clone, Debug, PartialEq)]
pub struct SaveRequest {
    /// The path of the file.
    pub path: PathBuf,
    /// The file format.
    pub format: SaveFormat,
    /// Whether to save only the span on the screen.
    pub is_shown: bool,
}

impl SaveRequest {
    /// Writes the file atomically.
    pub(super) fn write(&self, pieces: &[Piece]) -> Result<SavedFile, String> {
        let bytes = atomic_file::write(&self.path, pieces).map_err(|error| error.to_string())?;
        Ok(SavedFile { path: Some(self.path.clone()), bytes })
    }
}
