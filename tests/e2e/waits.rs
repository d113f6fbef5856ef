//! By the wall clock, each sleeping thread has the reason for which it waits, the file behind its
//! descriptor, and the thread that holds its lock; with the agent and from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::guest::eventually;
use crate::harness::quiet::alone;
use crate::harness::run::{Ran, SIGTOP, in_parallel, run, text};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;
use crate::recording::Directory;

/// The weight of the samples of a thread with the same labels, ns.
type Weights = BTreeMap<(String, Labels), u64>;

/// The labels of a wait; empty where a sample has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    wait: String,
    object: String,
    holder: String,
}

/// Records a run of a target, and returns the weights in the saved profile and what it printed.
fn record(engine: &[&str], target: &str, arguments: &[&str]) -> (Weights, Ran) {
    let program = targets::c(target);
    let name = [target, arguments[0]].join("-");
    record_command(engine, &name, &[&[text(&program)], arguments].concat())
}

/// Records a run of a command.
fn record_command(engine: &[&str], name: &str, target: &[&str]) -> (Weights, Ran) {
    alone();
    let directory = Directory::new(&[&["waits", name], engine].concat().join("-"));
    let file = directory.file("waits.pb.gz");
    let mut command = Command::new(SIGTOP);
    command.args(["record", "--no-config", "--clock", "real", "--hz", "99", "--budget", "100%"]).args(engine);
    let ran = run(command.arg("-o").arg(&file).arg("--").args(target));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let dump = run(Command::new(SIGTOP).args(["report", "--raw"]).arg(&file)).out();
    let mut weights = Weights::new();
    let mut weight_ns = 0;
    let label = |line: &str, key: &str| {
        let found = line.split_once(&format!("{key}:[")).and_then(|(_, rest)| rest.split_once(']'));
        found.map(|(value, _)| value.to_owned()).unwrap_or_default()
    };
    for line in dump.lines() {
        let samples = line.split_once(": ").and_then(|(values, _)| values.split_whitespace().nth(1)?.parse().ok());
        if let Some(ns) = samples {
            weight_ns = ns;
        } else if line.contains("thread:[") {
            let [wait, object, holder] = ["wait", "object", "holder"].map(|key| label(line, key));
            *weights.entry((label(line, "thread"), Labels { wait, object, holder })).or_default() += weight_ns;
        }
    }
    (weights, ran)
}

/// The share of a thread's weight with labels that fit.
fn share(weights: &Weights, thread: &str, fits: impl Fn(&Labels) -> bool) -> f64 {
    let of_thread = || weights.iter().filter(|((name, _), _)| name == thread);
    let all: u64 = of_thread().map(|(_, ns)| ns).sum();
    let fitting: u64 = of_thread().filter(|((_, labels), _)| fits(labels)).map(|(_, ns)| ns).sum();
    assert!(all > 0, "{thread}: {weights:?}");
    fitting as f64 / all as f64
}

/// The share of a thread's waits for locks that have the right holder.
fn right_of_locks(weights: &Weights, thread: &str, lock: &str, holder: &str) -> f64 {
    let locks = share(weights, thread, |labels| labels.wait == lock);
    share(weights, thread, |labels| labels.wait == lock && labels.holder == holder) / locks
}

fn assert_reasons((weights, ran): &(Weights, Ran)) {
    let child = format!("pid {}", ran.number("child"));
    let mut waits = vec![
        ("lock", "lock", "0x", "holder"),
        ("lock-pi", "lock", "0x", "holder"),
        ("lock-time", "lock", "0x", "holder"),
        ("rwlock", "rwlock", "0x", "holder"),
        ("rwlock-w", "rwlock", "0x", "holder"),
        ("first", "rwlock", "0x", "second"),
        ("second", "lock", "0x", "first"),
        ("condvar", "condvar", "0x", ""),
        ("semaphore", "semaphore", "0x", ""),
        ("futex", "futex", "0x", ""),
        ("join", "join", "0x", ""),
        ("child", "child", &child, ""),
        ("sleep", "sleep", "", ""),
        ("poll", "poll", "", ""),
        ("poll-e", "poll", "", ""),
        ("read", "read", "pipe:[", ""),
        ("write", "write", "pipe:[", ""),
        ("fifo", "write", "pipe /proc/self/fd/", ""),
        ("recv", "recv", "unix to socket:[", ""),
        ("send", "send", "unix to socket:[", ""),
        ("accept", "accept", "tcp at 0.0.0.0:", ""),
        ("connect", "connect", "unix", ""),
        ("signal", "signal", "", ""),
        ("other", "other", "", ""),
    ];
    if ran.number("uring") > 0 {
        waits.push(("io_uring", "io_uring", "", ""));
    }
    for (thread, wait, object, holder) in waits {
        // The first samples may be of the start of the thread.
        let right =
            |labels: &Labels| labels.wait == wait && labels.object.starts_with(object) && labels.holder == holder;
        let share_of_right = share(weights, thread, right);
        assert!(share_of_right >= 0.97, "{thread}: {share_of_right} of {weights:#?}");
        if !holder.is_empty() {
            let of_locks = right_of_locks(weights, thread, wait, holder);
            assert!(of_locks >= 0.99, "{thread}: {of_locks} of {weights:#?}");
        }
        // Whatever a thread waits for, no other thread is ever said to hold it.
        let invented = share(weights, thread, |labels| !labels.holder.is_empty() && labels.holder != holder);
        assert_eq!(invented, 0.0, "{thread}: {weights:#?}");
    }
    assert!(share(weights, "holder", |labels| labels.wait == "signal") >= 0.97);
    assert_handed_on(weights, ran);
}

/// A lock that is handed on has at each time the holder that it has then.
fn assert_handed_on(weights: &Weights, ran: &Ran) {
    let of_locks = |holder: &str| right_of_locks(weights, "taker", "lock", holder);
    let (long, short) = (of_locks("long"), of_locks("short"));
    assert!(long + short >= 0.9, "{long} + {short} of {weights:#?}");
    let [long_ns, short_ns] = ["long", "short"].map(|name| ran.number(name) as f64);
    let (found, expected) = (long / (long + short), long_ns / (long_ns + short_ns));
    // Where the threads wait for CPUs, the lock is held and waited for in other times.
    if (expected - 0.75).abs() < 0.02 {
        assert!((found - expected).abs() <= 0.1, "{found:.3} of {expected:.3} in {weights:#?}");
    }
}

/// Regression test: the time of a process that was stopped belonged to the function that ran then,
/// or was a wait for memory; and a sleep that went on afterwards had no reason.
#[test]
fn a_stopped_process_waits_to_be_continued() {
    for engine in [&[][..], &["--engine", "external"], &["--engine", "ptrace"]] {
        let (weights, ran) = record(engine, "stopped", &["700"]);
        let expected = ran.number("stopped") as f64 / ran.number("all") as f64;
        for thread in ["runs", "sleeps"] {
            let stopped = share(&weights, thread, |labels| labels.wait == "stopped");
            assert!((stopped - expected).abs() < 0.06, "{engine:?} {thread}: {stopped} of {expected}: {weights:#?}");
        }
        let known = share(&weights, "sleeps", |labels| ["stopped", "sleep"].contains(&&labels.wait[..]));
        assert!(known >= 0.97, "{engine:?}: {known} of {weights:#?}");
    }
}

#[test]
fn the_agent_tells_the_reason_of_each_wait() {
    assert_reasons(&record(&[], "waits_for", &["3", "deadlock"]));
}

#[test]
fn the_reason_of_each_wait_is_told_from_outside() {
    assert_reasons(&record(&["--engine", "external"], "waits_for", &["3", "deadlock"]));
}

/// Threads wait for files and for a page, with the agent and from outside. No disk is so slow that
/// it could be counted on: the kernel lets a thread wait for another's lease of a file.
#[test]
fn threads_wait_for_disks_and_for_memory() {
    in_parallel(&[&[][..], &["--engine", "external"]], |&engine| {
        let directory = Directory::new(&[&["waits-disk"][..], engine].concat().join("-"));
        let [leased, synced] = ["leased", "synced"].map(|name| text(&directory.file(name)).to_owned());
        let place = text(directory.file("leased").parent().expect("a directory")).to_owned();
        let (weights, ran) = record(engine, "waits_disk", &["3", &place]);
        let waits = [
            ("lease", "open", "disk", leased.as_str()),
            ("lease", "truncate", "disk", ""),
            ("memory", "memory", "memory", ""),
        ];
        for (kind, thread, wait, object) in waits {
            if ran.number(kind) == 0 {
                skip(&format!("this kernel has no wait of the kind {kind}"));
                continue;
            }
            let right = share(&weights, thread, |labels| labels.wait == wait && labels.object == object);
            assert!(right >= 0.97, "{engine:?}, {thread}: {right} of {weights:#?}");
        }
        // Whenever it waits, it waits for the disk, but at its start.
        let waiting = share(&weights, "fsync", |labels| !matches!(labels.wait.as_str(), "" | "runnable"));
        let synced = share(&weights, "fsync", |labels| labels.wait == "disk" && labels.object == synced);
        assert!(waiting - synced <= 0.03, "{engine:?}: {synced} of {waiting}, {weights:#?}");
        if synced < 0.03 {
            skip("the disk here keeps nobody waiting");
        }
    });
}

/// The time for which threads wait for a CPU is that which the kernel counts.
#[test]
fn threads_that_share_a_cpu_wait_for_it() {
    for engine in [&[][..], &["--engine", "external"]] {
        let (weights, ran) = record(engine, "runnable", &["2"]);
        let (on_cpu, delayed) = (ran.number("ran") as f64, ran.number("delayed") as f64);
        let runnable = share(&weights, "burner", |labels| labels.wait == "runnable");
        let expected = delayed / (on_cpu + delayed);
        assert!((runnable - expected).abs() <= 0.05, "{engine:?}: {runnable:.3} of {expected:.3}; {weights:#?}");
    }
}

/// A control group with a quota of a fifth of a CPU.
struct Quota(PathBuf);

impl Quota {
    /// Returns `None` if this user may not create one.
    fn new(name: &str) -> Option<Quota> {
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let (parent, file, limit) = match v1.is_dir() {
            true => (v1, "cpu.cfs_quota_us", "20000"),
            false => (Path::new("/sys/fs/cgroup"), "cpu.max", "20000 100000"),
        };
        let group = Quota(parent.join(format!("sigtop-quota-{name}-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join(file), limit).ok()?;
        Some(group)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // The last process of the group may not have exited yet.
        eventually(Duration::from_secs(20), || fs::remove_dir(&self.0).is_ok());
    }
}

/// The time that a quota takes away is not that for which others use the CPU.
#[test]
fn a_thread_that_has_used_its_quota_is_throttled() {
    for engine in [&[][..], &["--engine", "external"]] {
        let Some(group) = Quota::new(engine.last().unwrap_or(&"agent")) else {
            return skip("no group with a CPU quota can be made here");
        };
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
        let (weights, _) =
            record_command(engine, "throttled", &["sh", "-c", &script, text(&targets::c("runnable")), "3"]);
        // Two threads share a fifth of a CPU.
        let [throttled, runnable] =
            ["throttled", "runnable"].map(|wait| share(&weights, "burner", |labels| labels.wait == wait));
        assert!(throttled >= 0.7 && runnable <= 0.15, "{engine:?}: {throttled:.3}, {runnable:.3}: {weights:#?}");
    }
}

#[test]
fn the_screen_names_waits_and_a_deadlock() {
    let target = targets::c("waits_for");
    let mut command = Command::new(SIGTOP);
    command.args(["--no-config", "--clock", "real", "--on-quit", "end", "--", text(&target), "60", "deadlock"]);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see("deadlock: first and second wait for each other's locks");
    terminal.keys("5");
    terminal.see("[lock mutex] held by holder");
    terminal.see("in wait_lock");
    terminal.see("[lock mutex] held by holder for 1");
    terminal.keys("/first\r");
    terminal.keys("H");
    terminal.see("Who holds the lock");
    terminal.see("first (");
    terminal.see("held by first for");
    terminal.keys("\x1b");
    terminal.see("waits for, or top function");
    terminal.keys("1:waits\r");
    terminal.see("with waits");
    terminal.see("[read] pipe:[");
    terminal.keys(":tagfocus wait=lock\r");
    terminal.see("[lock");
    terminal.wait("only locks", |screen| !screen.contents().contains("[read] pipe:["));
    terminal.keys("q");
    terminal.finish();
}
