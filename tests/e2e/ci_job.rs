//! A job of a CI system, written as a shell script, in a container without any right.

use std::process::Command;

use crate::harness::quiet::alone;
use crate::harness::run::{SIGTOP, run, tool};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::recording::Directory;

/// The script.
const JOB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ci-job.sh");

#[test]
fn a_job_in_a_container_without_any_right_passes() {
    alone();
    let Some(bwrap) = tool("bwrap") else { return };
    let directory = Directory::new("ci-job");
    let folder = directory.file("a").parent().expect("a folder").to_owned();
    // No capability, no network, no process of others, and nothing can be written elsewhere.
    let mut container = Command::new(&bwrap);
    container.args(["--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"]);
    container.args(["--proc", "/proc", "--dev", "/dev", "--bind"]).arg(&folder).arg(&folder);
    let mut probe = Command::new(&bwrap);
    probe.args(container.get_args()).arg("true");
    if !run(&mut probe).status.success() {
        return skip("bubblewrap may make no namespaces");
    }
    container.arg(JOB).arg(SIGTOP).arg(targets::c("shares")).arg(&folder);
    let ran = run(&mut container);
    assert!(ran.status.success() && ran.out().ends_with("ci-job: all well\n"), "{}{}", ran.out(), ran.err());
}
