//! Names of programs and directories that are hostile to terminals and shells.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command};

use crate::harness::run::{SIGTOP, run};
use crate::harness::targets;

/// A process whose name has a control sequence in it.
fn hostile() -> Child {
    let path = targets::scratch("names").join("a\x1b[31mZ");
    symlink("/bin/sleep", &path).expect("a link");
    Command::new(&path).arg("60").spawn().expect("it starts")
}

/// Regression test: the list of processes and the tables had the control sequences of names.
#[test]
fn no_control_sequence_of_a_name_is_printed() {
    let mut target = hostile();
    let pid = target.id().to_string();
    let list = run(&mut Command::new(SIGTOP));
    let options = ["--batch", "--no-config", "--engine", "external", "--interval", "0.1", "--count", "1", "--pid"];
    let table = run(Command::new(SIGTOP).args(options).arg(&pid));
    target.kill().expect("it runs");
    target.wait().expect("a child");
    for (text, what) in [(list.out(), "the list"), (table.out(), "the table"), (table.err(), "the message")] {
        assert!(text.contains("a\u{fffd}[31mZ"), "{what}: {text:?}");
        assert!(!text.contains('\x1b'), "{what}: {text:?}");
    }
}

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
