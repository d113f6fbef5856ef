//! Reports tests that this machine cannot run. Each is named on stderr and, where `SIGTOP_SKIPS`
//! names a file, appended to it, so that CI can compare them with the expected ones.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Reports that something is skipped.
pub(crate) fn skip(what: &str) {
    let line = format!("SKIPPED: {what}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("SIGTOP_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
