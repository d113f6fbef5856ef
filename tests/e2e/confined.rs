//! Sampling from outside a process with a seccomp filter.

use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::run::{Batch, run, text};
use crate::harness::skips::skip;
use crate::harness::targets;

/// Regression test: a seccomp filter without restart_syscall(2), by which the kernel continues
/// waits that a stop has met, ended the process. Each connection to an sshd could fail.
#[test]
fn waits_go_on_under_a_filter() {
    let confined = targets::c("confined");
    let careless = run(Command::new(targets::c("bad_tracer")).args([text(&confined), "20000"])).code();
    if careless == 77 {
        return skip("waits under a seccomp filter, as the kernel has none");
    }
    assert_eq!(careless, 128 + Signal::SIGSYS as i32, "the negative control");
    let watched = Batch::new("--engine external --hz 1999 --budget 100%").run(&[text(&confined), "2000"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    assert!(watched.ran.number("waits ") > 20 && watched.raw.weight_ns("prof") > 0, "{}", watched.ran.out());
}
