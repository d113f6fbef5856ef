//! Saying what this machine cannot do. What is skipped is told on stderr and, where `SIGTOP_SKIPS` names a file, added to it: who runs the
//! tests sees whether it is more than expected.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Says so.
pub(crate) fn skip(what: &str) {
    let line = format!("SKIPPED: {what}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("SIGTOP_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
