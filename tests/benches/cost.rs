//! Measures the CPU time and memory of a process by wait4(2), in a wrapper around it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::targets;

/// The file that `rusage` writes.
pub(crate) struct Cost(PathBuf);

impl Cost {
    /// Creates its own file.
    pub(crate) fn new() -> Cost {
        Cost(targets::scratch("cost").join("rusage"))
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns user and system time of the whole process, ns.
    ///
    /// Panics if the command failed, since the cost of a failure means nothing.
    pub(crate) fn cpu_ns(&self) -> f64 {
        let line = fs::read_to_string(&self.0).expect("rusage wrote it");
        assert!(line.ends_with("exited 0\n"), "{line}");
        line.split(' ').take(2).map(|word| word.parse::<f64>().expect("a number")).sum()
    }
}
