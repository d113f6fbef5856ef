//! Stacks that are written as addresses, and the locations of a profile that stand for them.

use std::collections::HashMap;

use super::read::{MAX_LOCATIONS, MAX_STACK};
use crate::pprof::error::ReadError;
use crate::pprof::profile::{Location, SavedProfile};

/// The locations of a profile by address.
#[derive(Default)]
pub(super) struct LocationTable {
    locations: HashMap<u64, u32>,
}

impl LocationTable {
    /// Parses addresses from the leaf on, each behind a call, and appends their locations to a
    /// stack.
    ///
    /// # Errors
    /// If a word is no address, or if there are too many.
    pub(super) fn push_all(
        &mut self,
        words: &str,
        profile: &mut SavedProfile,
        stack: &mut Vec<u32>,
    ) -> Result<(), ReadError> {
        for word in words.split_whitespace() {
            let address = parse_address(word).ok_or_else(|| ReadError::malformed(format!("not an address: {word}")))?;
            self.push(address.wrapping_sub(1), profile, stack)?;
        }
        Ok(())
    }

    /// Appends the location of an address to a stack.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn push(
        &mut self,
        address: u64,
        profile: &mut SavedProfile,
        stack: &mut Vec<u32>,
    ) -> Result<(), ReadError> {
        if stack.len() as u64 >= MAX_STACK || self.locations.len() >= MAX_LOCATIONS {
            return Err(ReadError::malformed(format!("more than {MAX_STACK} frames or {MAX_LOCATIONS} addresses")));
        }
        let all = &mut profile.locations;
        stack.push(*self.locations.entry(address).or_insert_with(|| {
            all.push(Location { id: all.len() as u64 + 1, address, ..Location::default() });
            all.len() as u32 - 1
        }));
        Ok(())
    }
}

/// Parses `0x55f9`.
pub(super) fn parse_address(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// Whether a line is the heading of the memory map.
pub(super) fn is_map_heading(line: &str) -> bool {
    ["MAPPED_LIBRARIES:", "--- Memory map: ---"].iter().any(|heading| line.contains(heading))
}
