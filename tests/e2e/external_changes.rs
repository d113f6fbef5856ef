//! Processes that change while they are sampled from outside: threads begin, end and execute
//! programs.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::external::{is_at_home, until};
use crate::harness::quiet::alone;
use crate::harness::run::{Batch, SIGTOP, text};
use crate::harness::skips::skip;
use crate::harness::targets;

/// The pid of a viewer's sampler.
pub(super) fn sampler_of(viewer: u32) -> Option<u32> {
    // A thread that watches over the sampler starts the next one.
    let tasks = fs::read_dir(format!("/proc/{viewer}/task")).ok()?.flatten();
    let children = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let text = tasks.map(children).collect::<Vec<_>>().join(" ");
    let is_sampler =
        |child: &u32| fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.ends_with(b"\0sampler\0"));
    text.split_whitespace().filter_map(|word| word.parse().ok()).find(is_sampler)
}

/// Regression test: where a thread that was not the first executed a program just as it was asked
/// to stop, its old number stayed among those that were asked. The sampler waited ten seconds for
/// it at its end, and named itself as a debugger that traces the process.
#[test]
fn a_thread_that_executes_a_program_is_not_waited_for() {
    alone();
    let mut command = Command::new(SIGTOP);
    command.args(["--batch", "--no-config", "--engine", "external", "--hz", "1999", "--budget", "100%", "--"]);
    command.arg(targets::c("relays")).args(["exec", "300"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let viewer = command.spawn().expect("sigtop");
    let mut sampler = None;
    until("there is a sampler", || {
        sampler = sampler_of(viewer.id());
        sampler.is_some()
    });
    let ended = viewer.wait_with_output().expect("a child");
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(7), "{errors}");
    assert!(!errors.contains("traced"), "{errors}");
    let start = Instant::now();
    until("the sampler ends", || !is_at_home(sampler.expect("it was there")));
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
}

/// Regression test: each image that was the first one of the sampler's reported all CPU time that
/// the sampler had used, and the screen added them up.
#[test]
fn the_sampler_reports_its_cpu_time_once() {
    alone();
    let start = Instant::now();
    let watched =
        Batch::new("--engine external --hz 999 --budget 100%").run(&[text(&targets::c("execs")), "slow", "40"]);
    let (used_ns, passed_ns) = (watched.raw.number("agent-cpu"), start.elapsed().as_nanos() as u64);
    assert!(watched.raw.images.len() > 10, "{:?}", watched.raw.images);
    assert!(used_ns > 0 && used_ns < passed_ns / 2, "{used_ns} of {passed_ns} ns");
}

/// Regression test: the wall-clock time of a thread from its start until it was found was neither
/// sampled nor counted as lost.
#[test]
fn new_threads_have_their_wall_clock_time_from_the_start() {
    alone();
    let program = targets::c("relays");
    let watched = Batch::new("--engine external --clock wall --hz 499").run(&[text(&program), "sleep", "10", "200"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let rested_ns = watched.raw.cum_ns("real", |name| name == "rest");
    let lost_ns = watched.raw.lost_all().1;
    // The start of a thread is known to half a hundredth of a second.
    let expected_ns = watched.ran.number("rested");
    assert!(
        (rested_ns + lost_ns).abs_diff(expected_ns) < expected_ns / 20,
        "{rested_ns} + {lost_ns} of {expected_ns} ns"
    );
}

/// Regression test: where pids are given again, a process was known by its pid alone, and its
/// successor was not sampled for up to a second.
#[test]
fn a_process_with_the_pid_of_an_earlier_one_is_sampled() {
    const EACH_MS: f64 = 800.0;
    alone();
    let program = targets::static_c("same_pid");
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("same_pid")), text(&program), "800"]);
    match watched.ran.code() {
        0 => {}
        3 => return skip("choosing a pid takes root"),
        code => panic!("{code}: {}", watched.ran.err()),
    }
    let found = watched.raw.cum_ns("prof", |name| name == "compute") as f64 / 1e6;
    // Each program is sampled once its libraries would have been loaded.
    assert!(found > 0.75 * 3.0 * EACH_MS && found < 1.05 * 3.0 * EACH_MS, "{found} ms: {}", watched.tables);
}
