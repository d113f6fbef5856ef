//! The drop-in replacement for gperftools' CPU profiler: its variables, functions and files,
//! without a viewer.

mod linking;
mod readers;
mod target;

use std::fs;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::legacy::Legacy;
use crate::harness::run::{LIMIT, SIGTOP, run};
use crate::harness::skips::skip;
use crate::harness::statistics::deviations;
use target::{Target, is_about};

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn cpuprofile_profiles_the_whole_run_with_correct_shares() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_FREQUENCY", "250")]);
    assert_eq!(target.run(&["burn", "2"]).code(), 0);
    let profile = target.profile("out.prof");
    assert_eq!(profile.period_us, 4_000);
    is_about(profile.ticks(), 500.0);
    let (alpha, beta) = (target.with(&profile, "alpha"), target.with(&profile, "beta"));
    assert!(deviations(alpha, alpha + beta, 0.75).abs() < 5.0, "{alpha} and {beta}");
    // A tick may come before main.
    assert!(target.with(&profile, "main") + 2 >= profile.ticks());
    assert_eq!(target.files(), ["out.prof"]);
}

#[test]
fn an_idle_program_writes_an_empty_profile() {
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    assert_eq!(target.run(&["nothing"]).code(), 0);
    let profile = target.profile("out.prof");
    assert!(profile.ticks() <= 1 && profile.period_us == 10_000);
}

#[test]
fn cpuprofile_frequency_sets_the_period() {
    for (frequency, period_us) in [("1000", 1_000), ("99999", 250), ("0", 10_000), ("12x", 10_000), ("", 10_000)] {
        let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_FREQUENCY", frequency)]);
        target.run(&["burn", "0.1"]);
        let profile = target.profile("out.prof");
        assert_eq!(profile.period_us, period_us, "{frequency}");
        is_about(profile.ticks(), 100_000.0 / period_us as f64);
    }
}

#[test]
fn cpuprofile_realtime_does_not_interrupt_sleeping_threads() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_REALTIME", "0")]);
    let ran = target.run(&["sleep", "1"]);
    assert_eq!(ran.out(), "left=0\n", "the sleep was whole");
    let profile = target.profile("out.prof");
    assert!(profile.ticks() >= 80, "{}", profile.ticks());
    assert!(target.with(&profile, "main") * 10 >= profile.ticks() * 9);
}

#[test]
fn cpuprofile_realtime_samples_the_first_thread_or_all() {
    let with = |threads: &[(&'static str, &str)]| {
        let variables = [&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_REALTIME", "1")], threads].concat();
        let target = Target::new(&variables);
        target.run(&["threads", "0.5"]);
        let profile = target.profile("out.prof");
        (target.with(&profile, "main"), target.with(&profile, "other_thread"))
    };
    let (main, other) = with(&[]);
    assert!(main >= 40 && other == 0, "{main} and {other}");
    let (main, other) = with(&[("CPUPROFILE_PER_THREAD_TIMERS", "1")]);
    assert!(main >= 40 && other >= 40, "{main} and {other}");
}

#[test]
fn cpuprofile_timer_signal_sets_the_signal_of_ticks() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_TIMER_SIGNAL", "40")]);
    let mut forever = target.forever("0.5");
    forever.burn();
    let status = fs::read_to_string(format!("/proc/{}/status", forever.child.id())).expect("it runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a line");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask");
    assert!(forever.end().success());
    let has = |signal: i32| caught >> (signal - 1) & 1 == 1;
    assert!(has(40) && !has(Signal::SIGPROF as i32), "{caught:x}");
    is_about(target.profile("out.prof").ticks(), 50.0);
}

#[test]
fn the_file_of_a_killed_program_is_valid() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_FREQUENCY", "1000")]);
    for round in 0..12 {
        let mut forever = target.start(&["deep", "60"]);
        until("samples in the file", || target.whole_profile("out.prof").is_some_and(|profile| profile.ticks() > 0));
        // The delay varies, so that some are killed while they write.
        std::thread::sleep(Duration::from_millis(97 * round));
        forever.signal(Signal::SIGKILL);
        forever.child.wait().expect("ours");
        let profile = target.profile("out.prof");
        assert!(target.with(&profile, "burn_deep") * 10 > profile.ticks() * 9);
    }
}

#[test]
fn a_killed_program_loses_at_most_a_second() {
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    let ran = run(&mut target.command(&["segv", "1.6"]));
    assert_eq!(ran.code(), 128 + 11);
    assert!(target.profile("out.prof").ticks() >= 60, "{}", target.profile("out.prof").ticks());
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    let ran = run(&mut target.command(&["flush", "0.5"]));
    assert_eq!(ran.code(), 128 + 9);
    is_about(target.profile("out.prof").ticks(), 50.0);
}

#[test]
fn cpuprofilesignal_starts_and_stops_without_overwriting_files() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILESIGNAL", "12")]);
    fs::write(target.directory.join("out.prof.1"), "kept").expect("ours");
    let mut forever = target.forever("0.4");
    forever.burn();
    assert_eq!(target.files(), ["out.prof.1"], "nothing without a signal");
    for name in ["out.prof.0", "out.prof.2"] {
        forever.signal(Signal::SIGUSR2);
        until("a file of a profile", || target.directory.join(name).exists());
        forever.burn();
        forever.signal(Signal::SIGUSR2);
        until("the profile in it", || target.whole_profile(name).is_some_and(|profile| profile.ticks() >= 30));
        forever.burn();
    }
    assert!(forever.end().success());
    assert_eq!(target.files(), ["out.prof.0", "out.prof.1", "out.prof.2"]);
    for name in ["out.prof.0", "out.prof.2"] {
        is_about(target.profile(name).ticks(), 40.0);
    }
    assert_eq!(fs::read(target.directory.join("out.prof.1")).expect("ours"), b"kept");
}

#[test]
fn fork_children_write_their_own_files() {
    for (how, function) in [("fork", "taken"), ("exec", "burn")] {
        let target = Target::new(&[("CPUPROFILE", "out.prof")]);
        let ran = target.run(&[how, "0.4"]);
        let child = format!("out.prof_{}", ran.out().trim());
        assert_eq!(target.files(), ["out.prof", child.as_str()], "{how}");
        let of_child = target.profile(&child);
        is_about(of_child.ticks(), 40.0);
        assert!(target.with(&of_child, function) + 2 >= of_child.ticks());
        let own = target.profile("out.prof");
        is_about(own.ticks(), if how == "fork" { 80.0 } else { 40.0 });
        assert_eq!(target.with(&own, "taken"), 0);
    }
}

#[test]
fn an_unwritable_file_is_a_warning_and_the_program_runs() {
    for (variables, says) in [
        (&[("CPUPROFILE", "/nowhere/out.prof")][..], "/nowhere/out.prof"),
        (&[("CPUPROFILE", "out.prof"), ("CPUPROFILESIGNAL", "99")], "99"),
        (&[("CPUPROFILE", "out.prof"), ("CPUPROFILESIGNAL", "9")], "9"),
    ] {
        let target = Target::new(variables);
        let ran = run(&mut target.command(&["burn", "0.05"]));
        assert_eq!((ran.code(), ran.err().lines().count()), (0, 1), "{}", ran.err());
        assert!(ran.err().starts_with("sigtop: ") && ran.err().contains(says), "{}", ran.err());
        assert!(target.files().is_empty());
    }
}

#[test]
fn profiler_start_and_stop_delimit_the_profile() {
    let target = Target::new(&[]);
    let ran = target.run(&["bracket", "0.4", "part.prof"]);
    let out = ran.out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..2], ["before enabled=0/0 name= samples=0", "start=1 again=0"]);
    assert!(lines[2].starts_with("on enabled=1/1 name=part.prof samples="), "{out}");
    assert_eq!(lines[3], "after enabled=0/0 name= samples=0");
    let profile = target.profile("part.prof");
    is_about(profile.ticks(), 40.0);
    // A tick may come between two functions.
    assert!(target.with(&profile, "taken") + 2 >= profile.ticks());
    assert_eq!(target.with(&profile, "left_out"), 0);
    assert_eq!(target.files(), ["part.prof"]);
}

#[test]
fn a_second_profile_can_follow_the_first() {
    let target = Target::new(&[]);
    assert_eq!(target.run(&["twice", "0.3", "a.prof"]).out(), "start=1 start=1\n");
    let (first, second) = (target.profile("a.prof"), target.profile("a.prof.2"));
    is_about(first.ticks(), 30.0);
    is_about(second.ticks(), 30.0);
    assert_eq!((target.with(&first, "left_out"), target.with(&second, "taken")), (0, 0));
}

#[test]
fn a_filter_excludes_threads() {
    let target = Target::new(&[]);
    assert_eq!(target.run(&["filter", "0.5", "some.prof"]).out(), "start=1\n");
    let profile = target.profile("some.prof");
    is_about(target.with(&profile, "taken"), 50.0);
    assert_eq!(target.with(&profile, "other_thread"), 0);
}

#[test]
fn a_failed_start_sets_errno() {
    let target = Target::new(&[]);
    let enoent = nix::errno::Errno::ENOENT as i32;
    let out = target.run(&["refused", "0", "/nowhere/at/all.prof"]).out();
    assert_eq!(out, format!("start=0 errno={enoent} enabled=0\n"));
}

#[test]
fn manual_samples_are_all_counted() {
    let target = Target::new(&[]);
    assert_eq!(target.run(&["hand", "0.2", "hand.prof"]).out(), "start=1\n11111 0\n");
    let profile = target.profile("hand.prof");
    assert_eq!((profile.ticks(), target.with(&profile, "main")), (5, 5));
}

#[test]
fn a_viewer_and_a_file_receive_the_same_samples() {
    let target = Target::new(&[]);
    let file = target.directory.join("out.prof");
    let watched = |clock: &str| {
        let mut command = Command::new(SIGTOP);
        command.args(["--batch", "--hz", "250", "--clock", clock, "--"]).arg(&target.binary).args(["burn", "0.5"]);
        run(command.env("CPUPROFILE", &file))
    };
    let ran = watched("prof");
    assert!(ran.err().contains("burn") && ran.code() == 0, "{}", ran.err());
    is_about(Legacy::of(&file).ticks(), 50.0);
    // The clock of the file stays, and the viewer learns that.
    let ran = watched("real");
    assert!(ran.err().contains("by another clock (CPUPROFILE"), "{}", ran.err());
    is_about(Legacy::of(&file).ticks(), 50.0);
}

/// A daemon opens its file as root and continues as a user who could not open it.
#[test]
fn a_profile_continues_after_the_program_drops_privileges() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root has rights to give up");
    }
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    assert_eq!(target.run(&["setuid", "0.5"]).code(), 0);
    is_about(target.profile("out.prof").ticks(), 100.0);
}
