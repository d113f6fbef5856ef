//! `strace` and `gdb` beside sigtop: each attaches to a process that is sampled already, and does
//! its work. Sampling goes on afterwards.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::external::{Attached, until};
use super::guest::agent;
use crate::harness::inspect::{is_at_work, look};
use crate::harness::outside::engines_outside;
use crate::harness::quiet::alone;
use crate::harness::run::{run, text};
use crate::harness::skips::are_installed;
use crate::harness::targets;

/// Both programs say this to a thread that has a tracer. By stops, a thread has one for some ten
/// microseconds of each sample.
const REFUSED: &str = "Operation not permitted";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it runs");
    }
}

/// Starts a program with two threads that compute and read their CPU clocks, and samples it.
fn watched_by(engine: &str) -> (Running, Attached) {
    let mut command = Command::new(targets::c("shares"));
    command.args(["60", "30", "10", "600", "2"]).stdout(Stdio::null());
    if engine == "agent" {
        command.env("LD_PRELOAD", agent());
    }
    let target = Running(command.spawn().expect("it starts"));
    let pid = target.0.id();
    until("the target works", || is_at_work(pid));
    let options: &[&str] = if engine == "agent" { &["--hz", "99"] } else { &["--hz", "99", "--engine", engine] };
    let attached = Attached::to(pid, options);
    until("it is sampled", || match engine {
        "agent" => look(pid).timers > 0,
        _ => attached.sampler().is_some_and(is_at_work),
    });
    (target, attached)
}

fn assert_is_free(pid: u32) {
    let status = || fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    until("no tracer is left", || status().lines().any(|line| line == "TracerPid:\t0"));
}

/// Lets strace follow a process until it has seen system calls of two threads. Returns whether it
/// was let in.
fn trace_calls(pid: u32, scratch: &Path) -> bool {
    let (log, errors) = (scratch.join("log"), scratch.join("errors"));
    let mut command = Command::new("strace");
    command.args(["-f", "-o", text(&log), "-p", &pid.to_string()]).stdin(Stdio::null());
    let mut strace = command.stderr(File::create(&errors).expect("writable")).spawn().expect("strace");
    let mut has_ended = false;
    until("strace sees both threads", || {
        has_ended = strace.try_wait().expect("a child").is_some();
        let log = fs::read_to_string(&log).unwrap_or_default();
        let calls = log.lines().filter(|line| line.contains("clock_gettime("));
        has_ended || calls.filter_map(|line| line.split(' ').next()).collect::<BTreeSet<_>>().len() >= 2
    });
    if !has_ended {
        kill(Pid::from_raw(strace.id() as i32), Signal::SIGINT).expect("it runs");
        strace.wait().expect("a child");
        return true;
    }
    let said = fs::read_to_string(&errors).unwrap_or_default();
    assert!(said.contains(REFUSED), "{said}");
    false
}

/// Prints the stacks of a process by gdb. Returns whether it was let in.
fn print_stacks(pid: u32) -> bool {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-p", &pid.to_string(), "-ex", "thread apply all backtrace", "-ex", "detach"]);
    let ran = run(&mut gdb);
    if ran.err().contains(REFUSED) {
        return false;
    }
    assert!(ran.code() == 0 && ran.out().contains("in burn_") && ran.out().contains("detached"), "{}", ran.out());
    true
}

#[test]
fn strace_and_gdb_attach_to_a_process_that_is_sampled() {
    alone();
    if !are_installed(&["strace", "gdb"]) {
        return;
    }
    for engine in ["agent"].into_iter().chain(engines_outside()) {
        let (target, attached) = watched_by(engine);
        let (pid, scratch) = (target.0.id(), targets::scratch("debuggers"));
        // A process that is stopped for each sample may refuse them, and does so rarely.
        let attempts = if engine == "ptrace" { 5 } else { 1 };
        assert!((0..attempts).any(|_| trace_calls(pid, &scratch)), "{engine}: strace was refused");
        assert_is_free(pid);
        assert!((0..attempts).any(|_| print_stacks(pid)), "{engine}: gdb was refused");
        assert_is_free(pid);
        let before_ns = used_ns(pid);
        until("the target goes on", || used_ns(pid) > before_ns + 2_000_000_000);
        let raw = attached.finish();
        let sampled_ns = raw.weight_ns("prof");
        assert!(sampled_ns > 1_500_000_000, "{engine}: {sampled_ns} ns; lost {:?}", raw.lost);
    }
}

/// Returns the CPU time of all threads of a process, ns.
fn used_ns(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten();
    let used = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    threads.filter_map(used).sum()
}
