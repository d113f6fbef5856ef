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

use crate::harness::children::with_default_signals;
use crate::harness::inspect::is_at_work;
use crate::harness::raw::{Entry, Raw};
use crate::harness::run::{Batch, LIMIT, SIGTOP, text};
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

fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// sigtop, which samples a process until it is asked to end.
struct Attached {
    child: Child,
    raw: PathBuf,
}

impl Attached {
    fn to(pid: u32, options: &[&str]) -> Attached {
        let raw = targets::scratch("external").join("raw");
        let mut command = Command::new(SIGTOP);
        command.args(["--batch", "--no-config", "--budget", "100%"]).args(options).arg("--raw").arg(&raw);
        command.args(["--pid", &pid.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        Attached { child: with_default_signals(&mut command).spawn().expect("sigtop"), raw }
    }

    /// The pid of the sampler.
    fn sampler(&self) -> Option<u32> {
        // A thread that watches over the sampler starts the next one.
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?.flatten();
        let children = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let text = tasks.map(children).collect::<Vec<_>>().join(" ");
        let is_sampler =
            |child: &u32| fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.ends_with(b"\0sampler\0"));
        text.split_whitespace().filter_map(|word| word.parse().ok()).find(is_sampler)
    }

    fn finish(mut self) -> Raw {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("it runs");
        assert!(self.child.wait().expect("a child").success());
        Raw::parse(&fs::read_to_string(&self.raw).expect("the dump")).expect("a dump")
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
    let batch = Batch::new("--engine external --hz 499 --budget 100%");
    let watched = batch.run(&[text(&targets::c("shares")), "60", "30", "10", "3", "2"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let (all, raw) = (watched.raw.samples("prof"), &watched.raw);
    assert!(all > 300, "{all} samples");
    for (name, share) in [("burn_a", 0.6), ("burn_b", 0.3), ("burn_c", 0.1)] {
        let distance = deviations(raw.cum_samples("prof", |frame| frame == name), all, share);
        assert!(distance.abs() <= 4.0, "{name}: {distance} standard deviations of {all} samples");
    }
    assert_total(raw, watched.ran.number("process"));
    // Nothing was preloaded.
    assert!(raw.of("prof").all(|entry| entry.frames.iter().all(|frame| !frame.module.starts_with("libsigtop"))));
}

#[test]
fn a_static_program_is_launched_and_sampled() {
    let watched = Batch::new("--budget 100%").run(&[text(&targets::static_c("shares")), "60", "30", "10", "2"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    assert!(watched.ran.err().contains("it is sampled from outside"), "{}", watched.ran.err());
    assert!(watched.raw.samples("prof") > 20, "{:?}", watched.raw);
    assert_total(&watched.raw, watched.ran.number("process"));
}

#[test]
fn a_running_process_is_sampled_and_the_header_says_how() {
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
    let mut target = Plain::at_work(Command::new(targets::c("wakes")).arg("6"));
    let attached = Attached::to(target.pid(), &["--hz", "249"]);
    let mut out = String::new();
    target.0.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
    let raw = attached.finish_by_itself();
    let number = |name: &str| -> u64 {
        out.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or_else(|| panic!("{out}"))
    };
    assert!(raw.samples("prof") > 50 && number("calls") > 1000, "{out} {raw:?}");
    assert_eq!((number("interrupted"), number("early")), (0, 0), "{out}");
}

impl Attached {
    /// Waits for the end, which comes with that of the target.
    fn finish_by_itself(mut self) -> Raw {
        assert!(self.child.wait().expect("a child").success());
        Raw::parse(&fs::read_to_string(&self.raw).expect("the dump")).expect("a dump")
    }
}

/// A sampler that is killed at any instant leaves every thread running, and another one takes its
/// place.
#[test]
fn a_killed_sampler_leaves_the_target_running() {
    let target = Plain::burner("120");
    let attached = Attached::to(target.pid(), &["--hz", "1999"]);
    let kills = if std::env::var_os("SIGTOP_LONG").is_some() { 500 } else { 20 };
    let mut last = 0;
    for round in 0..kills {
        if round % 25 == 24 {
            // sigtop gives up if its samplers end too often.
            std::thread::sleep(Duration::from_secs(60));
        }
        until("there is a sampler", || attached.sampler().is_some_and(|sampler| sampler != last));
        last = attached.sampler().unwrap_or(last);
        // Each at another instant after its start.
        std::thread::sleep(Duration::from_millis(20 + round * 7 % 40));
        kill(Pid::from_raw(last as i32), Signal::SIGKILL).expect("it lives");
        until("it is gone", || !fs::exists(format!("/proc/{last}/exe")).unwrap_or(false));
        assert_runs(target.pid());
    }
    let raw = attached.finish();
    assert!(raw.samples("prof") > 0 && raw.images.iter().all(|image| image.pid == target.pid()), "{:?}", raw.images);
    assert_runs(target.pid());
}

/// A sampler that stands still is ended, so that no thread waits for it.
#[test]
fn a_stopped_sampler_does_not_stop_the_target() {
    let target = Plain::burner("120");
    let attached = Attached::to(target.pid(), &["--hz", "1999"]);
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
    attached.finish();
    assert_runs(target.pid());
}

/// The image after an exec and child processes are sampled, too.
#[test]
fn exec_and_children_are_followed() {
    let burner = targets::c("shares");
    let script = format!("{0} 60 30 10 1.5 & sleep 0.5; exec {0} 10 30 60 1.5", text(&burner));
    let watched = Batch::new("--engine external --budget 100%").run(&["sh", "-c", &script]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let is_burner = |entry: &&Entry| entry.weight_ns > 100_000_000;
    let mut pids: Vec<u32> = watched.raw.of("prof").filter(is_burner).map(|entry| entry.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 2, "the shell's successor and its child: {:?}", watched.raw.images);
    assert!(watched.raw.images.iter().any(|image| image.image > 0), "an exec: {:?}", watched.raw.images);
    let alone = Batch::new("--engine external --no-follow --budget 100%").run(&["sh", "-c", &script]);
    let root = alone.raw.images[0].pid;
    assert!(alone.raw.images.iter().all(|image| image.pid == root), "{:?}", alone.raw.images);
}
