//! Processes without the agent are sampled from outside: with the right shares and totals, through
//! exec and fork, and without anything that the target could notice, whatever happens to the
//! sampler.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::external_changes::sampler_of;
use crate::harness::children::with_default_signals;
use crate::harness::inspect::is_at_work;
use crate::harness::outside::engines_outside;
use crate::harness::quiet::alone;
use crate::harness::raw::{Entry, Raw};
use crate::harness::run::{Batch, LIMIT, SIGTOP, run, text};
use crate::harness::statistics::deviations;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// A running process, which is killed at the end.
struct Plain(Child);

impl Plain {
    /// Starts a program, and waits until it uses CPU time.
    fn at_work(command: &mut Command) -> Plain {
        let plain = Plain(with_default_signals(command).stdout(Stdio::piped()).spawn().expect("it starts"));
        until("the target works", || is_at_work(plain.pid()));
        plain
    }

    fn burner(seconds: &str) -> Plain {
        Plain::at_work(Command::new(targets::c("shares")).args(["60", "30", "10", seconds, "2"]))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _it_may_have_ended = self.0.kill();
        let _it_may_have_ended = self.0.wait();
    }
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// sigtop, which samples a process until it is asked to end.
pub(super) struct Attached {
    child: Child,
    raw: PathBuf,
    stderr: PathBuf,
}

impl Attached {
    pub(super) fn to(pid: u32, options: &[&str]) -> Attached {
        let directory = targets::scratch("external");
        let (raw, stderr) = (directory.join("raw"), directory.join("stderr"));
        let errors = fs::File::create(&stderr).expect("a file of its own");
        let mut command = Command::new(SIGTOP);
        command.args(["--batch", "--no-config", "--budget", "100%"]).args(options).arg("--raw").arg(&raw);
        command.args(["--pid", &pid.to_string()]).stdout(Stdio::null()).stderr(errors);
        Attached { child: with_default_signals(&mut command).spawn().expect("sigtop"), raw, stderr }
    }

    pub(super) fn sampler(&self) -> Option<u32> {
        sampler_of(self.child.id())
    }

    pub(super) fn finish(self) -> Raw {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("it runs");
        self.finish_by_itself()
    }

    /// Waits for the end, which may come with that of the target.
    pub(super) fn finish_by_itself(mut self) -> Raw {
        let mut status = None;
        until("sigtop ends", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        let raw = fs::read_to_string(&self.raw).map(|dump| Raw::parse(&dump).expect("a dump"));
        let is_well = status.is_some_and(|status| status.success());
        match raw {
            Ok(raw) if is_well && !raw.images.is_empty() => raw,
            raw => panic!("{status:?}: {}\n{raw:?}", fs::read_to_string(&self.stderr).unwrap_or_default()),
        }
    }
}

/// Asserts that no thread of a process is stopped or traced.
fn assert_runs(pid: u32) {
    for thread in fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten() {
        let status = || fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let is_free = || {
            let status = status();
            let has = |line: &str| status.lines().any(|other| other == line);
            status.is_empty() || has("TracerPid:\t0") && !has("State:\tt (tracing stop)")
        };
        until("no thread stays stopped", is_free);
    }
}

/// The weight and the losses of a run are the CPU time that the target reports, within a percent
/// and a period.
fn assert_total(raw: &Raw, used_ns: u64) {
    let (weight_ns, lost_ns) = (raw.weight_ns("prof"), raw.lost_all().1);
    let ratio = (weight_ns + lost_ns) as f64 / used_ns as f64;
    assert!((ratio - 1.0).abs() <= 0.02, "{weight_ns} + {lost_ns} of {used_ns} ns: {ratio}; {:?}", raw.lost);
}

#[test]
fn a_launched_program_has_the_right_shares_and_its_whole_cpu_time() {
    alone();
    for engine in engines_outside() {
        has_the_right_shares(engine);
    }
}

fn has_the_right_shares(engine: &str) {
    let batch = Batch::new(&format!("--engine {engine} --hz 499 --budget 100%"));
    let watched = batch.run(&[text(&targets::c("shares")), "60", "30", "10", "3", "2"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let (all, raw) = (watched.raw.samples("prof"), &watched.raw);
    assert!(all > 300, "{all} samples");
    for (name, share) in [("burn_a", 0.6), ("burn_b", 0.3), ("burn_c", 0.1)] {
        let distance = deviations(raw.cum_samples("prof", |frame| frame == name), all, share);
        println!("{engine}: {name}: {distance:+.1} standard deviations of {all} samples");
        assert!(distance.abs() <= 4.0, "{name}: {distance} standard deviations of {all} samples");
    }
    assert_total(raw, watched.ran.number("process"));
    // Nothing was preloaded.
    assert!(raw.of("prof").all(|entry| entry.frames.iter().all(|frame| !frame.module.starts_with("libsigtop"))));
}

#[test]
fn a_static_program_is_launched_and_sampled() {
    alone();
    let watched = Batch::new("--budget 100%").run(&[text(&targets::static_c("shares")), "60", "30", "10", "2"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    assert!(watched.ran.err().contains("it is sampled from outside"), "{}", watched.ran.err());
    assert!(watched.raw.samples("prof") > 20, "{:?}", watched.raw);
    assert_total(&watched.raw, watched.ran.number("process"));
}

#[test]
fn a_running_process_is_sampled_and_the_header_says_how() {
    alone();
    let target = Plain::burner("60");
    let pid = target.pid().to_string();
    let mut terminal = Terminal::start(140, 30, Command::new(SIGTOP).args(["--no-config", "--pid", &pid]));
    terminal.see("sampling from outside");
    terminal.see("burn_a");
    terminal.keys("E");
    terminal.see("the target carries no agent");
    terminal.keys("q");
    assert_eq!(terminal.finish().code(), Some(0));
    assert_runs(target.pid());
}

/// The wall clock shows sleeping threads where they sleep, and does not stop them.
#[test]
fn sleepers_are_sampled_where_they_sleep() {
    alone();
    let target = Plain(Command::new("sleep").arg("60").spawn().expect("sleep"));
    until("it sleeps", || {
        fs::read_to_string(format!("/proc/{}/syscall", target.pid())).is_ok_and(|line| !line.starts_with("running"))
    });
    let attached = Attached::to(target.pid(), &["--clock", "real"]);
    until("the sampler starts", || attached.sampler().is_some());
    std::thread::sleep(Duration::from_millis(1500));
    let raw = attached.finish();
    assert!(raw.samples("real") > 10 && raw.weight_ns("real") > 500_000_000, "{raw:?}");
    assert!(raw.cum_ns("real", |name| name.contains("nanosleep")) > 500_000_000, "{raw:?}");
    assert_eq!(raw.number("handler-cpu"), 0, "a sleeping thread was stopped");
}

/// Blocking system calls do not report EINTR, and do not return early. Each kind of call is one of
/// the table of calls that are made again.
#[test]
fn system_calls_go_on_as_if_nothing_had_happened() {
    alone();
    let watched = Batch::new("--engine ptrace --hz 249 --budget 100%").run(&[text(&targets::c("wakes")), "5"]);
    let (raw, out) = (&watched.raw, watched.ran.out());
    let number = |name| watched.ran.number(name);
    assert!(raw.samples("prof") > 20 && number("calls") > 1000, "{out} {raw:?}");
    assert_eq!((number("interrupted"), number("early")), (0, 0), "{out}");
}

/// Regression test: a sampler went before all other threads with whatever it had to do, and took
/// nearly a whole CPU at a high frequency.
#[test]
fn a_sampler_takes_no_more_than_a_part_of_a_cpu() {
    alone();
    for engine in engines_outside() {
        takes_a_part_of_a_cpu(engine);
    }
}

fn takes_a_part_of_a_cpu(engine: &str) {
    let target = Plain::at_work(Command::new(targets::c("shares")).args(["60", "30", "10", "3600", "64"]));
    let attached = Attached::to(target.pid(), &["--engine", engine, "--hz", "3999"]);
    until("there is a sampler", || attached.sampler().is_some_and(is_at_work));
    let tracer = attached.sampler().expect("it was there");
    let used_ns = || {
        let line = fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/schedstat")).expect("it lives");
        line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a number")
    };
    let (start, before) = (Instant::now(), used_ns());
    std::thread::sleep(Duration::from_millis(1500));
    let share = (used_ns() - before) as f64 / start.elapsed().as_nanos() as f64;
    attached.finish();
    assert!(share < 0.35, "{engine}: {share:.2} of a CPU");
}

/// A line of `restarts` about one call: how often it was made, interrupted, and wrong.
struct CallReport {
    call: String,
    made: u64,
    interrupted: u64,
    wrong: u64,
}

/// Parses the lines that `restarts` prints.
fn call_reports(out: &str) -> Vec<CallReport> {
    let report = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        CallReport { call: words[0].to_owned(), made: number(2), interrupted: number(4), wrong: number(6) }
    };
    out.lines().map(report).collect()
}

/// Makes each call of the table of calls that are made again, in a process of its own. They mostly
/// wait, so that there are four of them at a time.
fn make_restartable_calls(prefix: &str, arguments: &str) -> String {
    let program = targets::c("restarts");
    format!(
        "i=0; for call in $({0}); do {prefix} {0} $call {arguments} & i=$((i + 1)); [ $((i % 4)) -ne 0 ] || wait; done; wait",
        text(&program)
    )
}

/// Each call of the table goes on with its right result.
#[test]
fn every_restartable_call_goes_on() {
    alone();
    let script = make_restartable_calls("", "120");
    let watched = Batch::new("--engine ptrace --hz 1999 --budget 100%").run(&["sh", "-c", &script]);
    let reports = call_reports(&watched.ran.out());
    // A kernel may lack asynchronous input and output, and System V semaphores.
    assert!(reports.len() >= 17, "{}", watched.ran.out());
    for CallReport { call, made, interrupted, wrong } in &reports {
        assert_eq!((*interrupted, *wrong), (0, 0), "{call}: {}", watched.ran.out());
        assert!(*made > 20, "{call}: {made}");
    }
    let samples =
        |pid: u32| -> u64 { watched.raw.of("prof").filter(|entry| entry.pid == pid).map(|entry| entry.samples).sum() };
    let mut pids: Vec<u32> = watched.raw.images.iter().map(|image| image.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let stopped = pids.into_iter().filter(|&pid| samples(pid) >= 5).count();
    // On a busy machine, a process may be found shortly before it ends.
    assert!(stopped + 2 >= reports.len(), "{stopped} of {} processes have samples", reports.len());
}

/// The negative control: each of these calls reports EINTR when a careless tracer interrupts it.
#[test]
fn a_careless_tracer_interrupts_every_restartable_call() {
    alone();
    let script = make_restartable_calls(text(&targets::c("bad_tracer")), "20000 first");
    let reports = call_reports(&run(Command::new("sh").args(["-c", &script])).out());
    assert!(reports.len() >= 17);
    reports.iter().for_each(|report| assert!(report.interrupted > 0, "{}", report.call));
}

/// A sampler that is killed at any instant leaves every thread running, and another one takes its
/// place.
#[test]
fn a_killed_sampler_leaves_the_target_running() {
    alone();
    let target = Plain::burner("3600");
    // sigtop gives up if its samplers end too often.
    let (rounds, kills) = if std::env::var_os("SIGTOP_LONG").is_some() { (20, 25) } else { (1, 20) };
    let mut random = u64::from(target.pid());
    for _ in 0..rounds {
        let attached = Attached::to(target.pid(), &["--engine", "ptrace", "--hz", "1999"]);
        let mut last = 0;
        for _ in 0..kills {
            until("there is a sampler", || attached.sampler().is_some_and(|sampler| sampler != last));
            last = attached.sampler().unwrap_or(last);
            // Each at another instant after its start.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_micros(20_000 + random % 40_000));
            kill(Pid::from_raw(last as i32), Signal::SIGKILL).expect("it lives");
            until("it is gone", || !fs::exists(format!("/proc/{last}/exe")).unwrap_or(false));
            assert_runs(target.pid());
        }
        let raw = attached.finish();
        assert!(
            raw.samples("prof") > 0 && raw.images.iter().all(|image| image.pid == target.pid()),
            "{:?}",
            raw.images
        );
    }
    assert_runs(target.pid());
}

/// A sampler whose viewer is killed ends by itself, and leaves every thread running.
#[test]
fn a_sampler_ends_with_its_viewer() {
    alone();
    let target = Plain::burner("3600");
    let mut attached = Attached::to(target.pid(), &["--engine", "ptrace", "--hz", "1999"]);
    until("there is a sampler", || attached.sampler().is_some());
    let sampler = attached.sampler().expect("it was there");
    until("it samples", || is_at_work(sampler));
    attached.child.kill().expect("it runs");
    attached.child.wait().expect("a child");
    until("the sampler ends", || !is_at_home(sampler));
    assert_runs(target.pid());
}

/// Returns whether a process is there and not ended.
pub(super) fn is_at_home(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

/// A sampler that stands still is ended, so that no thread waits for it.
#[test]
fn a_stopped_sampler_does_not_stop_the_target() {
    alone();
    let target = Plain::burner("120");
    let attached = Attached::to(target.pid(), &["--engine", "ptrace", "--hz", "1999"]);
    for _ in 0..5 {
        until("there is a sampler", || attached.sampler().is_some());
        std::thread::sleep(Duration::from_millis(60));
        let Some(sampler) = attached.sampler() else { continue };
        let _it_may_have_ended = kill(Pid::from_raw(sampler as i32), Signal::SIGSTOP);
        // Either no stop was under way, or the sampler is replaced.
        std::thread::sleep(Duration::from_millis(200));
        assert_runs(target.pid());
        let _it_may_have_ended = kill(Pid::from_raw(sampler as i32), Signal::SIGCONT);
    }
    until("a sampler works", || attached.sampler().is_some_and(is_at_work));
    attached.finish();
    assert_runs(target.pid());
}

/// Puts the tracer thread of a sampler behind all ordinary threads.
fn put_behind(sampler: u32) {
    let ordinary = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one structure that lives through the call.
    let done = unsafe { libc::sched_setscheduler(sampler as i32, libc::SCHED_OTHER, &ordinary) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: takes integers alone.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, sampler, 19) }, 0);
}

/// Regression test: a sampler that got no CPU for 50 ms during a stop was ended, and the system
/// call that the stop had interrupted reported EINTR.
#[test]
fn a_sampler_that_waits_for_a_cpu_is_left_alone() {
    alone();
    let others = Plain::at_work(Command::new(targets::c("shares")).args(["100", "0", "0", "600", "4"]));
    let mut target = Plain::at_work(Command::new(targets::c("wakes")).arg("-").stdin(Stdio::piped()));
    let attached = Attached::to(target.pid(), &["--engine", "ptrace", "--hz", "999"]);
    until("there is a sampler", || attached.sampler().is_some_and(is_at_work));
    let sampler = attached.sampler().expect("it was there");
    put_behind(sampler);
    let (start, mut waited) = (Instant::now(), 0);
    until("it waits for a CPU again and again", || {
        let stat = fs::read_to_string(format!("/proc/{sampler}/stat"));
        waited += u32::from(stat.is_ok_and(|stat| stat.contains(") R")));
        assert!(attached.sampler().is_some_and(|it| it == sampler), "another sampler");
        waited >= 20 && start.elapsed() > Duration::from_secs(2)
    });
    drop(others);
    drop(target.0.stdin.take());
    let mut out = String::new();
    target.0.stdout.take().expect("a pipe").read_to_string(&mut out).expect("its output");
    attached.finish_by_itself();
    assert!(out.contains("\ninterrupted 0\nearly 0\n"), "{out}");
}

/// The image after an exec and child processes are sampled, too.
#[test]
fn exec_and_children_are_followed() {
    alone();
    for engine in engines_outside() {
        follows_exec_and_children(engine);
    }
}

fn follows_exec_and_children(engine: &str) {
    let burner = targets::c("shares");
    let script = format!("{0} 60 30 10 1 & sleep 0.3; exec {0} 10 30 60 1", text(&burner));
    let watched = Batch::new(&format!("--engine {engine} --budget 100%")).run(&["sh", "-c", &script]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let is_burner = |entry: &&Entry| entry.weight_ns > 100_000_000;
    let mut pids: Vec<u32> = watched.raw.of("prof").filter(is_burner).map(|entry| entry.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 2, "the shell's successor and its child: {:?}", watched.raw.images);
    assert!(watched.raw.images.iter().any(|image| image.image > 0), "an exec: {:?}", watched.raw.images);
    let alone = Batch::new(&format!("--engine {engine} --no-follow --budget 100%")).run(&["sh", "-c", &script]);
    let root = alone.raw.images[0].pid;
    assert!(alone.raw.images.iter().all(|image| image.pid == root), "{:?}", alone.raw.images);
}

/// Regression test: a process that executed another program just as it was first looked at was
/// taken for one that must not be traced, and never sampled. One that did so while it was asked to
/// stop was taken for one that a debugger traces.
#[test]
fn a_chain_of_execs_is_watched_to_its_end() {
    alone();
    for engine in engines_outside() {
        watches_a_chain_of_execs(engine);
    }
}

fn watches_a_chain_of_execs(engine: &str) {
    let file = targets::scratch("external").join("recording.sigtop");
    let mut command = Command::new(SIGTOP);
    command.args(["record", "--engine", engine, "--hz", "999", "--budget", "100%", "-o"]).arg(&file);
    let recorded = run(command.arg("--").arg(targets::c("execs")).args(["last", "600"]));
    assert_eq!((recorded.code(), recorded.out().as_str()), (7, "executed 600\n"), "{}", recorded.err());
    assert!(!recorded.err().contains("traced"), "{}", recorded.err());
    let report = run(Command::new(SIGTOP).arg("report").arg(&file));
    let burnt = report.out().lines().find(|line| line.ends_with("burn")).expect("a row").to_owned();
    let cum = burnt.split_whitespace().nth(3).and_then(|cum| cum.strip_suffix("ms"));
    let burnt_ms: f64 = cum.and_then(|cum| cum.parse().ok()).expect("milliseconds");
    assert!(burnt_ms > 300.0, "{burnt} of 400 ms");
}

/// Regression test: the CPU time that a child had used before its parent was watched counted as
/// sampled.
#[test]
fn the_past_of_a_child_is_not_sampled() {
    alone();
    for engine in engines_outside() {
        leaves_the_past_of_a_child(engine);
    }
}

fn leaves_the_past_of_a_child(engine: &str) {
    let script = format!("{} 60 30 10 3600 & wait", text(&targets::c("shares")));
    let parent = Command::new("sh").args(["-c", &script]).spawn().expect("sh");
    let child = || {
        let list = fs::read_to_string(format!("/proc/{0}/task/{0}/children", parent.id())).unwrap_or_default();
        list.split_whitespace().next().and_then(|pid| pid.parse::<u32>().ok())
    };
    until("it has a child", || child().is_some());
    let child = child().expect("it was there");
    let parent = Plain(parent);
    let used_ms = || 10 * cpu_ticks(child);
    until("the child has used much", || used_ms() >= 1000);
    let before = used_ms();
    let attached = Attached::to(parent.pid(), &["--engine", engine, "--hz", "499"]);
    until("the sampler works", || attached.sampler().is_some_and(is_at_work));
    until("the child works on", || used_ms() >= before + 500);
    let raw = attached.finish();
    let used = used_ms() - before;
    kill(Pid::from_raw(child as i32), Signal::SIGKILL).expect("it runs");
    let counted = (raw.weight_ns("prof") + raw.lost_all().1) / 1_000_000;
    assert!(raw.images.iter().any(|image| image.pid == child), "{:?}", raw.images);
    assert!(counted > 0 && counted <= used + 30, "{counted} ms counted of {used}");
}

/// CPU time of a process in the kernel's clock ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    after.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Children that live for some hundredths of a second are sampled, or their CPU time is counted as
/// lost.
#[test]
fn short_children_are_found() {
    alone();
    for engine in engines_outside() {
        finds_short_children(engine);
    }
}

fn finds_short_children(engine: &str) {
    let burner = targets::c("shares");
    let script = format!("for i in 1 2 3 4 5 6 7 8 9 10; do {} 60 30 10 0.04; done", text(&burner));
    let found = || {
        let watched = Batch::new(&format!("--engine {engine} --hz 999 --budget 100%")).run(&["sh", "-c", &script]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        let ns = watched.raw.weight_ns("prof") + watched.raw.lost_all().1;
        assert!(ns >= 360_000_000, "{ns} ns of 10 times 40 ms; lost {:?}", watched.raw.lost);
        let mut pids: Vec<u32> = watched.raw.of("prof").map(|entry| entry.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        println!("{} of 11 processes, one of them the shell", pids.len());
        pids.len()
    };
    // One run in fifty finds half of them.
    let all: usize = (0..3).map(|_| found()).sum();
    assert!(all >= 3 * 8, "{engine}: {all} of 33 processes in three runs");
}

/// Regression test: where threads compete for CPUs, they were sampled where they had lost theirs.
/// The kernel takes the CPU from this program when it asks for its own CPU time, which it rarely
/// does.
#[test]
fn threads_are_not_sampled_where_they_lost_their_cpu() {
    alone();
    for engine in engines_outside() {
        samples_where_threads_run(engine);
    }
}

fn samples_where_threads_run(engine: &str) {
    let _others = Plain::at_work(Command::new(targets::c("shares")).args(["100", "0", "0", "600", "4"]));
    let watched = Batch::new(&format!("--engine {engine} --hz 99 --budget 100%")).run(&[
        text(&targets::c("shares")),
        "60",
        "30",
        "10",
        "1.2",
    ]);
    let is_clock = |entry: &&Entry| entry.frames.last().is_some_and(|leaf| leaf.name().contains("clock_gettime"));
    let in_clock: u64 = watched.raw.of("prof").filter(is_clock).map(|entry| entry.weight_ns).sum();
    let share = in_clock as f64 / watched.raw.weight_ns("prof") as f64;
    assert!(watched.raw.samples("prof") > 20, "{:?}", watched.raw.lost);
    // About 0.04 of many samples; 0.2 to 0.8 with this bug.
    assert!(share < 0.17, "{share:.3} of {} samples", watched.raw.samples("prof"));
    assert_total(&watched.raw, watched.ran.number("process"));
}

/// Programs that make many short calls or few long ones: stops skid to the ends of calls, which is
/// corrected by the time that the kernel accounts for.
#[test]
fn system_calls_have_the_share_of_system_time() {
    alone();
    for engine in engines_outside() {
        gives_calls_the_share_of_system_time(engine);
    }
}

fn gives_calls_the_share_of_system_time(engine: &str) {
    for kind in ["short", "long"] {
        let (mut samples, mut in_calls, mut all) = (0, 0, 0);
        let (mut user, mut system) = (0, 0);
        // On a busy machine, one run has too few.
        while samples <= 300 {
            let watched = Batch::new(&format!("--engine {engine} --hz 250 --budget 100% --kernel on")).run(&[
                text(&targets::c("calls")),
                kind,
                "2",
            ]);
            // From outside the kernel, that is the function of the call.
            let is_call = |entry: &&Entry| match engine {
                "events" => !entry.kernel.is_empty(),
                _ => entry.frames.last().is_some_and(|leaf| leaf.name() == "in_kernel"),
            };
            in_calls += watched.raw.of("prof").filter(is_call).map(|entry| entry.weight_ns).sum::<u64>();
            assert!(watched.raw.samples("prof") > 50, "{:?}", watched.raw.lost);
            samples += watched.raw.samples("prof");
            all += watched.raw.weight_ns("prof");
            (user, system) = (user + watched.ran.number("user"), system + watched.ran.number("system"));
        }
        let (share, wanted) = (in_calls as f64 / all as f64, system as f64 / (user + system) as f64);
        // The kernel's figures come from ticks, which are as rare as samples. Without the
        // correction, short calls have twice their share.
        let bound = 4.0 * (2.0 * wanted * (1.0 - wanted) / samples as f64).sqrt();
        println!(
            "{engine}: {kind}: {share:.4} of {wanted:.4}: {:+.1} standard deviations",
            4.0 * (share - wanted) / bound
        );
        assert!((share - wanted).abs() <= bound, "{kind}: {share:.3} in calls, {wanted:.3} of the time, {bound:.3}");
    }
}
