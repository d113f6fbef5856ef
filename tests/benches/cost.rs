//! What a process cost, all of it: by wait4, in a wrapper around it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::targets;

/// Where `rusage` writes what its command cost.
pub(crate) struct Cost(PathBuf);

impl Cost {
    /// A file of its own.
    pub(crate) fn new() -> Cost {
        Cost(targets::scratch("cost").join("rusage"))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// User and system time of the whole process, ns.
    ///
    /// Panics when the command did not end well: a cost of a failure is none.
    pub(crate) fn cpu_ns(&self) -> f64 {
        let line = fs::read_to_string(&self.0).expect("rusage wrote it");
        assert!(line.ends_with("exited 0\n"), "{line}");
        line.split(' ').take(2).map(|word| word.parse::<f64>().expect("a number")).sum()
    }
}
