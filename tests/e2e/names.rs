//! Names of programs and directories that are hostile to terminals and shells.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::harness::run::{SIGTOP, run};
use crate::harness::targets;

/// Regression test: a shell could not read what `sigtop env` prints of a directory with a quote.
#[test]
fn a_shell_reads_the_path_of_the_library_back() {
    let directory = targets::scratch("names").join("o'b");
    fs::create_dir(&directory).expect("a directory");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("ours");
    let script = format!("eval \"$({SIGTOP} env)\" && printf %s \"$LD_PRELOAD\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("XDG_RUNTIME_DIR", &directory).env("HOME", "/nonexistent").env_remove("LD_PRELOAD");
    let ran = run(&mut shell);
    assert!(ran.code() == 0 && ran.out().ends_with(".so"), "{}{}", ran.out(), ran.err());
}
