//! Reports tests that this machine cannot run. Each is named on stderr, which `cargo test` shows of
//! failed tests alone, and in a file. The last test of a run, `without`, prints that file as one
//! line, and in CI compares it with what may be skipped there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Reports that something is skipped.
#[allow(dead_code, reason = "the last test only reads")]
pub(crate) fn skip(what: &str) {
    let line = format!("SKIPPED: {what}\n");
    eprint!("{line}");
    if let Some(file) = of_this_run() {
        // Another user's run may own the directory.
        let _ = append(&file, &line);
    }
}

/// Returns whether these programs are installed. Reports those that are not as skipped.
#[allow(dead_code, reason = "not every test binary has a use for it")]
pub(crate) fn are_installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing = |program: &&&str| !std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    let missing: Vec<&&str> = programs.iter().filter(is_missing).collect();
    missing.iter().for_each(|program| skip(&format!("{program} is not installed")));
    missing.is_empty()
}

/// Returns the file of what `cargo test` skips in this run, named after the process of cargo;
/// `None` if a test binary was not started by cargo.
pub(crate) fn of_this_run() -> Option<PathBuf> {
    let cargo = format!("/proc/{}", nix::unistd::getppid());
    let stat = fs::read_to_string(format!("{cargo}/stat")).ok()?;
    let (pid_and_name, fields) = stat.rsplit_once(") ")?;
    let (pid, name) = pid_and_name.split_once(" (")?;
    // The 22nd field of the file, the time at which the process started.
    let started = fields.split(' ').nth(19)?;
    (name == "cargo").then(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("skipped-{pid}-{started}")))
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
}
