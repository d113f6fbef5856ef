//! The memory map of another process: `/proc/PID/maps`.

use std::fs::File;
use std::io::{self, Read};

use crate::process::maps::{MAX_MAPS_BYTES, MapsEntry, entries};

/// The mappings of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessMaps {
    /// The text of the file.
    text: Vec<u8>,
}

impl ProcessMaps {
    /// Reads the map of a process. The file of a process whose first thread has ended is empty, so
    /// that of another thread is read.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(pid: u32, tid: u32) -> io::Result<ProcessMaps> {
        let mut text = Vec::new();
        let file = File::open(format!("/proc/{pid}/task/{tid}/maps"))?;
        file.take(MAX_MAPS_BYTES as u64).read_to_end(&mut text)?;
        Ok(ProcessMaps { text })
    }

    /// Creates the map from the text of the file.
    pub(crate) fn new(text: Vec<u8>) -> ProcessMaps {
        ProcessMaps { text }
    }

    /// Returns the mappings, sorted by address.
    pub(crate) fn entries(&self) -> impl Iterator<Item = MapsEntry<'_>> {
        entries(&self.text)
    }

    /// Returns whether there are no mappings.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_map_holds_this_function() {
        let own = std::process::id();
        let maps = ProcessMaps::read(own, own).unwrap();
        let here = own_map_holds_this_function as *const () as u64;
        assert!(maps.entries().any(|entry| entry.executable && entry.contains(here)));
    }
}
