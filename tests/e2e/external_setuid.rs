//! Sampling from outside a program that starts programs with the rights of another user: they have
//! these rights, as alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use nix::unistd::geteuid;

use super::servers::{Directory, as_nobody};
use crate::harness::outside::engines_outside;
use crate::harness::quiet::alone;
use crate::harness::run::{Ran, SIGTOP, run, text};
use crate::harness::skips::skip;
use crate::harness::targets;

/// A user who is neither root nor the one of [`as_nobody`].
const OTHER: u32 = 65_533;

/// Regression test: a child that was about to execute a setuid program was traced in that instant,
/// and the program did not get its rights: at 1 000 Hz 26 of 2 000.
#[test]
fn setuid_programs_keep_their_rights() {
    alone();
    if !geteuid().is_root() {
        return skip("only root can give a program the rights of another user");
    }
    let directory = Directory::of_nobody("setuid");
    let (program, helper) = (directory.0.join("program"), directory.0.join("helper"));
    for copy in [&program, &helper] {
        fs::copy(targets::c("setuid"), copy).expect("a copy");
    }
    chown(&helper, Some(OTHER), None).expect("root may");
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o4755)).expect("its owner may");
    let as_user = |words: &[&str]| -> Ran {
        let words = [as_nobody(), words].concat();
        run(Command::new(words[0]).args(&words[1..]).env("HOME", &directory.0).env_remove("XDG_RUNTIME_DIR"))
    };
    let command = [text(&program), "1000", text(&helper)];
    let alone = as_user(&command);
    if alone.code() != 0 || alone.number("lost") > 0 {
        return skip("no program has the rights of another user in the directory for temporary files");
    }
    if as_user(&[SIGTOP, "--version"]).code() != 0 {
        return skip("an ordinary user cannot execute sigtop here");
    }
    for engine in engines_outside() {
        let recording = directory.0.join("recording.sigtop");
        let options = ["record", "--quiet", "--budget", "100%", "--hz", "1000", "--engine", engine, "-o"];
        let watched = as_user(&[&[SIGTOP], &options[..], &[text(&recording), "--"], &command].concat());
        assert_eq!(watched.code(), 0, "{engine}: {}", watched.err());
        assert_eq!(watched.number("lost"), 0, "{engine}: {}", watched.out());
    }
}
