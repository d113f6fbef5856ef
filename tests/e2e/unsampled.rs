//! CPU time without ticks, measured from outside: its amount and its cause.

use std::process::Command;

use crate::harness::run::{Batch, SIGTOP, run, text};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// The CPU time of a process that blocks every signal, and that of its fork child, is measured from
/// outside, and the cause is reported.
#[test]
fn cpu_time_without_any_tick_is_reported_with_its_reason() {
    let binary = targets::c("blocks_all");
    let said = |text: &str| {
        let line = text.lines().find(|line| line.contains("% of CPU time not sampled"));
        let line = line.unwrap_or_else(|| panic!("nothing said in {text:?}")).to_owned();
        let number = line.split(" % of CPU time not sampled").next().and_then(|head| head.split(' ').next_back());
        let percent: u32 = number.and_then(|number| number.trim_start_matches('(').parse().ok()).expect("a number");
        assert!(percent >= 90 && line.contains("SIGURG is blocked in blocks_all"), "{line}");
    };
    let directory = targets::scratch("unsampled");
    for command in [&["450"][..], &["450", "child"]] {
        let words: Vec<&str> = [text(&binary)].into_iter().chain(command.iter().copied()).collect();
        let watched = Batch::new("--hz 250").run(&words);
        assert_eq!((watched.ran.code(), watched.ran.out().as_str()), (0, "burnt 450\n"));
        said(&watched.tables);
        let file = directory.join("file.sigtop");
        let ran = run(Command::new(SIGTOP).args(["record", "-o"]).arg(&file).arg("--").args(&words));
        said(&ran.err());
    }
    let mut sigtop = Command::new(SIGTOP);
    sigtop.args(["--on-quit", "end", "--"]).arg(&binary).args(["60000", "child"]);
    let mut terminal = Terminal::start(140, 45, &sigtop);
    terminal.see("% of CPU time not sampled");
    terminal.see("CPU time is not sampled: SIGURG is blocked in blocks_all");
    terminal.keys("L");
    terminal.see("CPU time without a tick");
    terminal.see("% of CPU time: SIGURG is blocked in blocks_all");
    // The target blocks SIGTERM too.
    terminal.keys("q");
    assert_eq!(terminal.finish().code(), Some(128 + 9));
}

/// CPU time that no agent could count is in recordings and saved profiles, and in the headers of
/// reports. Here a thread has blocked the signal by a raw call before the first tick, so that no
/// agent thread was spawned.
#[test]
fn cpu_time_without_any_tick_is_in_recordings_and_reports() {
    let binary = targets::c("urgent");
    let directory = targets::scratch("unsampled");
    for name in ["file.sigtop", "file.pb.gz"] {
        let file = directory.join(name);
        let ran = run(Command::new(SIGTOP).args(["record", "-o"]).arg(&file).arg("--").arg(&binary).arg("hidden"));
        assert!(ran.err().contains("SIGURG is blocked in 1 of 2 threads of urgent"), "{}", ran.err());
        let report = run(Command::new(SIGTOP).args(["report", "--text"]).arg(&file));
        let header = report.out().lines().find(|line| line.starts_with("Samples: ")).map(str::to_owned);
        let header = header.unwrap_or_else(|| panic!("no header in {}", report.out()));
        let percent = header.split_once('(').and_then(|(_, rest)| rest.split_once("% miss rate"));
        let percent: f64 = percent.and_then(|(percent, _)| percent.parse().ok()).expect("a number");
        assert!(percent >= 90.0 && header.contains(" unaccounted)"), "{name}: {header}");
    }
    let view = run(Command::new(SIGTOP).args(["view", "--batch"]).arg(directory.join("file.sigtop")));
    let all = view.out() + &view.err();
    assert!(all.contains("% of CPU time not sampled: SIGURG is blocked in 1 of 2 threads of urgent"), "{all}");
}

/// A process that blocks every signal halfway is sampled in its first half.
#[test]
fn only_the_time_without_ticks_is_counted() {
    let script = "\"$0\" && exec \"$1\" 300";
    let (single, blocked) = (targets::c("single"), targets::c("blocks_all"));
    let watched = Batch::new("--hz 250").run(&["sh", "-c", script, text(&single), text(&blocked)]);
    let line = watched.tables.lines().find(|line| line.contains("not sampled")).expect("said").to_owned();
    let percent: u32 = line.split(' ').nth(1).and_then(|number| number.parse().ok()).expect("a number");
    assert!((35..=65).contains(&percent), "{line}");
}

/// The CPU time of `short`, and what sigtop has of it: samples, counted losses and its agents' own
/// time, in seconds. The last value is the part that no agent counted.
fn account_of(options: &str, kind: &str, count: u32, ms: u32) -> (f64, f64, f64) {
    let (count, ms) = (count.to_string(), ms.to_string());
    let watched = Batch::new(options).run(&[text(&targets::c("short")), kind, &count, &ms]);
    let used: f64 = watched.ran.out().trim().parse().expect("the CPU time");
    let lost: u64 = watched.raw.lost.values().map(|(_, ns)| ns).sum();
    let own_ns = watched.raw.number("agent-cpu");
    let shown = watched.raw.weight_ns("prof") + lost + own_ns;
    (used / 1e9, shown as f64 / 1e9, watched.raw.lost["unaccounted"].1 as f64 / 1e9)
}

/// CPU time of children that block signals and are gone before they can be looked at is found by
/// the account of their parent.
#[test]
fn short_children_that_never_report_are_counted() {
    let (used, shown, lost) = account_of("--hz 250", "blocked", 40, 20);
    assert!(used >= 0.8 && lost >= 0.6 * used, "{lost} s of {used} s");
    assert!((shown / used - 1.0).abs() <= 0.25, "{shown} s of {used} s");
}

/// Samples and counted losses add up to the CPU time of the whole tree, however short its processes
/// and threads are.
#[test]
fn samples_and_losses_are_the_cpu_time_of_the_tree() {
    let factor = if std::env::var_os("SIGTOP_LONG").is_some() { 10 } else { 1 };
    let mut all = (0.0, 0.0);
    for kind in ["fork", "exec", "thread", "self"] {
        for (count, ms) in [(40, 10), (8, 50), (2, 200), (1, 1000)] {
            if ms == 1000 && kind != "self" && factor == 1 {
                continue;
            }
            let (used, shown, _) = account_of("--hz 1000", kind, count * factor, ms);
            // Ticks come with the scheduler's, which may be 10 ms apart, at random times.
            let bound = 0.02 * used + 3.0 * (used * 0.01_f64).sqrt();
            assert!((shown - used).abs() <= bound, "{kind} {count} x {ms} ms: {shown} s of {used} s");
            all = (all.0 + used, all.1 + shown);
        }
    }
    let bound = 0.02 * all.0 + 3.0 * (all.0 * 0.01_f64).sqrt();
    assert!((all.1 - all.0).abs() <= bound, "{} s of {} s", all.1, all.0);
}

/// No unsampled time is reported for programs that are sampled, however they use threads and
/// processes.
#[test]
fn nothing_is_said_of_what_is_sampled() {
    let [single, duty, forks] = ["single", "duty", "forks"].map(targets::c);
    let script = "for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do /bin/true; done; done; \"$0\"";
    let commands: [&[&str]; 4] =
        [&[text(&single)], &[text(&duty), "1.2"], &[text(&forks), "50"], &["sh", "-c", script, text(&single)]];
    for command in commands {
        for options in ["--hz 99", "--hz 1000"] {
            let watched = Batch::new(options).run(command);
            assert!(!watched.tables.contains("not sampled"), "{options} {command:?}: {}", watched.tables);
        }
    }
}

/// Regression test: the ends of short processes have no ticks. A tenth of the CPU time of children
/// of 45 ms was missing, and nothing said so.
#[test]
fn the_ends_of_short_processes_are_said_to_be_missing() {
    let watched = Batch::new("--hz 99").run(&[text(&targets::c("children")), "100", "45"]);
    let missing = 1.0 - watched.raw.weight_ns("prof") as f64 / watched.ran.number("process") as f64;
    let said = watched.tables.contains("% of CPU time not sampled: processes ended before their next tick");
    // Beyond three standard deviations, and well below them.
    assert!(missing < 0.09 || said, "{missing:.3}: {}", watched.tables);
    assert!(missing > 0.03 || !said, "{missing:.3}: {}", watched.tables);
}

/// A program that goes on in the background has ended for its shell, and its profile has too.
#[test]
fn a_daemon_is_said_to_run_on() {
    let watched = Batch::new("--hz 99").run(&[text(&targets::c("daemon"))]);
    let pid = watched.ran.number("daemon");
    let said = watched.ran.err() + &watched.tables;
    assert!(said.contains(&format!("daemon runs on; to watch it: sigtop --pid {pid}")), "{said}");
}

/// Threads of io_uring run in the kernel alone, where no signal reaches them.
#[test]
fn the_time_of_io_urings_threads_is_said_to_be_the_kernels() {
    let watched = Batch::new("--hz 99").run(&[text(&targets::c("uring")), "4"]);
    if watched.ran.code() == 3 {
        return skip("io_uring is not permitted here");
    }
    let said = "are io_uring's, in the kernel";
    assert!(
        watched.tables.contains("99 % of CPU time not sampled") || watched.tables.contains("100 %"),
        "{}",
        watched.tables
    );
    assert!(watched.tables.contains(said), "{}", watched.tables);
}

/// Regression test: while the first thread sleeps, no tick starts the agent for a thread that libc
/// does not know, by a raw clone or another libc: it had no samples.
#[test]
fn a_thread_that_libc_does_not_know_is_sampled() {
    for clock in ["prof", "real"] {
        let watched = Batch::new(&format!("--hz 99 --clock {clock}")).run(&[text(&targets::c("raw_thread")), "2000"]);
        let used = watched.ran.number(clock) as f64;
        let found = watched.raw.cum_ns(clock, |name| name == "compute") as f64;
        assert!(found > 0.75 * used && found < 1.05 * used, "{clock}: {found} of {used}: {}", watched.tables);
        if clock == "prof" {
            let all = watched.raw.weight_ns(clock) + watched.raw.lost_all().1;
            assert!((all as f64 / used - 1.0).abs() < 0.03, "{all} of {used}: {}", watched.tables);
        }
    }
}
