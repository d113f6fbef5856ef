//! Sampling from outside by perf events: short-lived work has its share, and where the kernel does
//! not allow it, stops take its place.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::external::{Attached, until};
use super::servers::{Directory, as_nobody};
use crate::harness::inspect::is_at_work;
use crate::harness::outside::engines_outside;
use crate::harness::quiet::alone;
use crate::harness::raw::Raw;
use crate::harness::run::{Batch, SIGTOP, Watched, run, text};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Returns whether events are allowed. If not, that is reported as skipped.
fn are_allowed() -> bool {
    engines_outside().contains(&"events")
}

/// Asserts that each kind of work has its part of the samples, within four standard deviations, and
/// that all CPU time is sampled or counted, within two percent. `variance` is that of the weights of
/// samples, in squares of a period.
fn has_true_shares(mode: &str, hz: f64, variance: f64) -> Watched {
    let options = format!("--engine events --hz {hz} --budget 100%");
    let watched = Batch::new(&options).run(&[text(&targets::c("short_lived")), mode, "6"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let all = watched.ran.number("all");
    let sampled = watched.raw.weight_ns("prof");
    let periods = all as f64 * hz / 1e9;
    for kind in ["a", "b", "c"] {
        let wanted = watched.ran.number(kind) as f64 / all as f64;
        let function = format!("burn_{kind}");
        let share = watched.raw.cum_ns("prof", |name| name == function) as f64 / sampled as f64;
        let bound = 4.0 * (wanted * (1.0 - wanted) * variance / periods).sqrt();
        println!(
            "{mode}: {kind}: {share:.4} of {wanted:.4}: {:+.1} standard deviations",
            4.0 * (share - wanted) / bound
        );
        assert!((share - wanted).abs() <= bound, "{mode}: {kind}: {share:.4} of {wanted:.4}, bound {bound:.4}");
    }
    let total = (sampled + watched.raw.lost_all().1) as f64 / all as f64;
    println!("{mode}: total {total:.4}");
    assert!((total - 1.0).abs() <= 0.02, "{mode}: {total:.4}; lost {:?}", watched.raw.lost);
    watched
}

/// Threads that begin to compute after a crowd of others. Regression test: a process with more than
/// 512 threads was refused, or sampled by stops.
#[test]
fn of_more_threads_than_may_have_events_those_that_run_are_sampled() {
    alone();
    if !are_allowed() {
        return;
    }
    for busy in ["3", "20"] {
        let mut target = Command::new(targets::c("many_idle"));
        let target = target.args(["900", busy, if busy == "3" { "3" } else { "0.5" }]);
        let mut target = target.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a target");
        let mut out = BufReader::new(target.stdout.take().expect("piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a pipe");
        let attached = Attached::to(target.id(), &["--engine", "events", "--hz", "250"]);
        until("there is a sampler", || attached.sampler().is_some_and(is_at_work));
        drop(target.stdin.take());
        line.clear();
        out.read_line(&mut line).expect("a pipe");
        assert!(target.wait().expect("a child").success());
        let raw = attached.finish_by_itself();
        let used_ns: u64 = line.trim().strip_prefix("used ").expect("a number").parse().expect("a number");
        // Each is looked at twice a second.
        let (late_ns, lost_ns) = (raw.cum_ns("prof", |name| name == "burn_late"), raw.lost_all().1);
        assert!(late_ns as f64 > 0.6 * used_ns as f64, "{busy}: {late_ns} ns of {used_ns} ns; lost {:?}", raw.lost);
        let total = (raw.weight_ns("prof") + lost_ns) as f64 / used_ns as f64;
        assert!((total - 1.0).abs() < 0.04, "{busy}: {total:.3} of {used_ns} ns; lost {:?}", raw.lost);
    }
}

/// The program waits before it is executed until its events are open.
#[test]
fn a_launched_program_is_sampled_from_its_first_instant() {
    alone();
    if !are_allowed() {
        return;
    }
    let (mut sampled, mut all) = (0, 0);
    for _ in 0..8 {
        let batch = Batch::new("--engine events --hz 250 --budget 100%");
        let watched = batch.run(&[text(&targets::c("short_lived")), "bursts", "0.15"]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        (sampled, all) = (sampled + watched.raw.weight_ns("prof"), all + watched.ran.number("all"));
    }
    // Without the gate, some 30 ms of each run are missing.
    assert!(sampled as f64 >= 0.93 * all as f64, "{sampled} ns of {all} ns");
}

/// By stops, the first kind has too little: a stop takes some microseconds to arrive.
#[test]
fn turns_of_microseconds_have_their_shares() {
    alone();
    if are_allowed() {
        has_true_shares("bursts", 99.0, 1.0);
    }
}

/// By stops, threads of 2 ms are hardly ever found.
#[test]
fn threads_of_milliseconds_have_their_shares_and_names() {
    alone();
    if are_allowed() {
        has_true_shares("threads", 99.0, 1.5);
        let file = targets::scratch("events").join("named.sigtop");
        let mut command = Command::new(SIGTOP);
        command.args(["record", "--engine", "events", "--budget", "100%", "-o"]).arg(&file).arg("--");
        let ran = run(command.arg(targets::c("short_lived")).args(["threads", "2"]));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let tags = run(Command::new(SIGTOP).args(["report", "--tags"]).arg(&file));
        let named = tags.out().lines().filter(|line| line.contains("): kind ")).count();
        assert_eq!(named, 3, "{}", tags.out());
    }
}

#[test]
fn processes_of_milliseconds_have_their_shares() {
    alone();
    if are_allowed() {
        let watched = has_true_shares("processes", 99.0, 1.5);
        let whole = watched.raw.of("prof").filter(|entry| !entry.truncated).map(|entry| entry.weight_ns).sum::<u64>();
        assert!(whole as f64 > 0.98 * watched.raw.weight_ns("prof") as f64, "stacks are truncated");
    }
}

/// The kernel's functions are on stacks if this user may know them; if not, the system time has
/// samples of its own.
#[test]
fn system_time_is_sampled_below_the_call_or_by_itself() {
    alone();
    if !are_allowed() {
        return;
    }
    let watched = Batch::new("--engine events --hz 250 --kernel on").run(&[text(&targets::c("calls")), "long", "2"]);
    let in_kernel = || watched.raw.of("prof").filter(|entry| !entry.kernel.is_empty());
    let (user, system) = (watched.ran.number("user"), watched.ran.number("system"));
    let share = in_kernel().map(|entry| entry.weight_ns).sum::<u64>() as f64 / (user + system) as f64;
    let wanted = system as f64 / (user + system) as f64;
    assert!((share - wanted).abs() < 0.15, "{share:.3} of {wanted:.3}");
    let below_call = in_kernel().filter(|entry| entry.frames.iter().any(|frame| frame.name() == "in_kernel")).count();
    let is_deep = in_kernel().any(|entry| entry.kernel.len() > 2);
    let may_look = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").is_ok_and(|text| {
        nix::unistd::geteuid().is_root() || text.trim().parse::<i32>().is_ok_and(|setting| setting <= 1)
    });
    assert_eq!((below_call > 0, is_deep), (may_look, may_look), "{:?}", watched.raw.of("prof").next());
}

/// Reports equal pprof's on the same samples: functions of the kernel are in them only if they are
/// asked for.
#[test]
fn reports_have_functions_of_the_kernel_if_they_are_asked_for() {
    alone();
    if !are_allowed() {
        return;
    }
    let file = targets::scratch("events").join("kernel.sigtop");
    let mut command = Command::new(SIGTOP);
    command.args(["record", "--engine", "events", "--symbols", "-o"]).arg(&file).arg("--");
    assert_eq!(run(command.arg(targets::c("calls")).args(["long", "1"])).code(), 0);
    let report = |options: &[&str]| run(Command::new(SIGTOP).args(["report", "--cum"]).args(options).arg(&file)).out();
    let (without, with) = (report(&[]), report(&["--kernel", "on"]));
    let has = |report: &str, name: &str| report.lines().any(|line| line.ends_with(name));
    assert!(has(&without, " in_kernel") || has(&without, "[kernel]"), "{without}");
    assert!(!has(&without, "do_syscall_64"), "{without}");
    let names_are_known = fs::read_to_string("/proc/kallsyms").is_ok_and(|text| !text.starts_with("0000000000000000"));
    if nix::unistd::geteuid().is_root() && names_are_known {
        assert!(has(&with, "do_syscall_64") && has(&with, " in_kernel"), "{with}");
    }
}

fn without_events(arguments: &[&str]) -> Command {
    let mut command = Command::new(targets::c("without_call"));
    command.arg(libc::SYS_perf_event_open.to_string()).arg(SIGTOP).args(arguments);
    command
}

/// A container's filter refuses events: stops take their place, and the user knows what they may
/// do.
#[test]
fn where_events_are_refused_stops_take_their_place() {
    alone();
    let file = targets::scratch("events").join("raw");
    let burner = targets::c("shares");
    let arguments = ["--engine", "external", "--raw", text(&file), "--", text(&burner), "60", "30", "10", "1"];
    let ran = run(&mut without_events(&arguments));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let warning = "large reads and writes may return early; sudo or --cap-add PERFMON avoids it";
    assert_eq!(ran.err().matches(warning).count(), 1, "{}", ran.err());
    let raw = Raw::parse(&fs::read_to_string(&file).expect("a dump")).expect("a raw dump");
    assert!(raw.weight_ns("prof") > 500_000_000, "{raw:?}");

    let target = Command::new(&burner).args(["100", "0", "0", "60"]).stdout(Stdio::null()).spawn();
    let mut target = target.expect("a target");
    let pid = target.id().to_string();
    let mut terminal = Terminal::start(140, 30, &without_events(&["--no-config", "--pid", &pid]));
    terminal.see("sampling from outside (ptrace)");
    terminal.see(warning);
    terminal.keys("q");
    assert_eq!(terminal.finish().code(), Some(0));

    let refused = run(&mut without_events(&["--batch", "--engine", "events", "--pid", &pid]));
    target.kill().and_then(|()| target.wait()).expect("it runs");
    assert!(refused.code() != 0 && refused.err().contains("cannot be sampled by perf events"), "{}", refused.err());
    let refused = run(&mut without_events(&["--batch", "--engine", "events", "--", "true"]));
    assert!(refused.code() != 0 && refused.err().contains("cannot be sampled by perf events"), "{}", refused.err());
}

/// Whether the kernel's setting lets ordinary users sample their own processes.
fn ordinary_users_may() -> bool {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").is_ok_and(|text| text.trim() <= "2")
}

/// Root and ordinary users, with a filter that refuses events and without: `--pid` takes the best
/// way that is allowed, and the header, the warning and the samples are those of that way.
#[test]
fn each_user_is_sampled_the_best_way_that_is_allowed() {
    alone();
    const STOPS: &str = "large reads and writes may return early; sudo or --cap-add PERFMON avoids it";
    let burner = targets::c("shares");
    let filter = [text(&targets::c("without_call")).to_owned(), libc::SYS_perf_event_open.to_string()];
    let users: &[&[&str]] = if nix::unistd::geteuid().is_root() { &[&[], as_nobody()] } else { &[&[]] };
    for user in users {
        let start = |words: &[&str]| {
            let words = [user, words].concat();
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).current_dir("/").env("HOME", "/");
            command
        };
        if run(&mut start(&[SIGTOP, "--version"])).code() != 0 {
            skip("an ordinary user's events: other users cannot reach this directory");
            continue;
        }
        let target = start(&[text(&burner), "100", "0", "0", "60"]).stdout(Stdio::null()).spawn();
        let mut target = target.expect("a target");
        let pid = target.id().to_string();
        let directory = Directory::of_nobody("ways");
        for is_refused in [false, true] {
            let events = !is_refused && are_allowed() && (user.is_empty() || ordinary_users_may());
            let (way, warnings) = if events { ("perf events", 0) } else { ("ptrace", 1) };
            let filter: Vec<&str> = filter.iter().filter(|_| is_refused).map(String::as_str).collect();
            let sigtop = |words: &[&str]| start(&[&filter, &[SIGTOP, "--no-config"][..], words].concat());
            let mut terminal = Terminal::start(140, 30, &sigtop(&["--pid", &pid]));
            terminal.see(&format!("sampling from outside ({way})"));
            terminal.see("burn_a");
            terminal.keys("q");
            assert_eq!(terminal.finish().code(), Some(0), "{user:?} {way}");
            let file = directory.0.join(way);
            let words = ["--raw", text(&file), "--interval", "3s", "--count", "1", "--pid", &pid];
            let ran = run(&mut sigtop(&words));
            assert_eq!((ran.code(), ran.err().matches(STOPS).count()), (0, warnings), "{user:?}: {}", ran.err());
            let raw = Raw::parse(&fs::read_to_string(&file).expect("a dump")).expect("a raw dump");
            assert!(raw.samples("prof") > 0, "{user:?} {way}: {raw:?}");
        }
        target.kill().and_then(|()| target.wait()).expect("it runs");
    }
}

/// Regression test: the header of a process that is sampled by events says so.
#[test]
fn the_header_says_that_events_are_in_use() {
    alone();
    if !are_allowed() {
        return;
    }
    let target = Command::new(targets::c("shares")).args(["100", "0", "0", "60"]).stdout(Stdio::null()).spawn();
    let mut target = target.expect("a target");
    let pid = target.id().to_string();
    let mut terminal = Terminal::start(140, 30, Command::new(SIGTOP).args(["--no-config", "--pid", &pid]));
    terminal.see("sampling from outside (perf events)");
    terminal.see("burn_a");
    terminal.keys("q");
    assert_eq!(terminal.finish().code(), Some(0));
    target.kill().and_then(|()| target.wait()).expect("it runs");
}

/// Regression test: two sigtops sampled one process from outside, and neither said so.
#[test]
fn a_second_sigtop_leaves_the_process_to_the_first() {
    alone();
    let target = Command::new(targets::c("shares")).args(["100", "0", "0", "60"]).stdout(Stdio::null()).spawn();
    let mut target = target.expect("a target");
    let pid = target.id().to_string();
    for engine in engines_outside() {
        let mut first = Terminal::start(140, 30, Command::new(SIGTOP).args(["--no-config", "--pid", &pid]));
        first.see("burn_a");
        let mut second = Command::new("timeout");
        second.args(["30", SIGTOP, "--batch", "--no-config", "--engine", engine, "--pid", &pid]);
        let second = run(&mut second);
        let sentence = format!("process {pid} is already watched by sigtop pid ");
        assert!(second.code() != 124 && second.err().contains(&sentence), "{engine}: {}", second.err());
        first.keys("q");
        assert_eq!(first.finish().code(), Some(0));
    }
    target.kill().and_then(|()| target.wait()).expect("it runs");
}
