//! Sampling from outside a process that another process traces, as a debugger does: a thread has
//! one tracer at a time.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::harness::outside::engines_outside;
use crate::harness::quiet::alone;
use crate::harness::raw::Raw;
use crate::harness::run::{Batch, SIGTOP, run, text};
use crate::harness::targets;

/// A program that runs until the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Traces a process until the returned pipe is dropped.
fn trace(pid: &str) -> (Running, ChildStdin) {
    let mut tracer = Command::new(targets::c("tracer"));
    let mut tracer = tracer.arg(pid).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a target");
    let mut out: BufReader<ChildStdout> = BufReader::new(tracer.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a pipe");
    assert_eq!(line, "traced 1\n");
    let pipe = tracer.stdin.take().expect("piped");
    (Running(tracer), pipe)
}

/// Samples a process from outside for a second; returns the sampled and the unaccounted time, ns.
fn sample(pid: &str, engine: &str) -> (u64, u64) {
    let file = targets::scratch("traced").join("raw");
    let mut sigtop = Command::new("timeout");
    sigtop.args(["-s", "INT", "1.3", SIGTOP, "--raw", text(&file), "--engine", engine, "--pid", pid]);
    let ran = run(&mut sigtop);
    let raw = Raw::parse(&fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {}", ran.err())));
    let raw = raw.expect("a raw dump");
    (raw.weight_ns("prof"), raw.lost["unaccounted"].1)
}

/// Regression test: the time of a thread that could not be stopped was neither sampled nor counted.
#[test]
fn time_under_a_debugger_is_counted_and_sampled_again_afterwards() {
    alone();
    let target = Command::new(targets::c("shares")).args(["100", "0", "0", "60"]).stdout(Stdio::null()).spawn();
    let target = Running(target.expect("a target"));
    let pid = target.0.id().to_string();
    let (tracer, pipe) = trace(&pid);
    let (sampled, unaccounted) = sample(&pid, "ptrace");
    assert_eq!(sampled, 0, "a thread cannot be stopped by two tracers");
    assert!(unaccounted >= 50_000_000, "{unaccounted} ns unaccounted of a busy thread");
    if engines_outside().contains(&"events") {
        let (sampled, _) = sample(&pid, "events");
        assert!(sampled >= 50_000_000, "{sampled} ns sampled by events");
    }
    drop(pipe);
    drop(tracer);
    let (sampled, _) = sample(&pid, "ptrace");
    assert!(sampled >= 50_000_000, "{sampled} ns sampled");
}

/// Regression test: children that were traced and had ended before they were looked into were said
/// to need `--cap-add SYS_PTRACE`, in a line for each.
#[test]
fn short_children_of_a_debugger_are_explained_in_one_line() {
    alone();
    let target = targets::c("tracer");
    let watched = Batch::new("--engine ptrace --hz 1000").run(&[text(&target), "children", "20"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let refusals: Vec<&str> = watched.tables.lines().filter(|line| line.starts_with("sigtop: process")).collect();
    assert!(matches!(refusals[..], [line] if line.contains("is traced by process")), "{refusals:#?}");
}
