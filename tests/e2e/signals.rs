//! Targets that use signals in every possible way. Each behaves as it does without the agent, and
//! is sampled nevertheless.

use super::guest::{Guest, WAYS, host, prove, same, watch_unharmed};
use super::shares::accounts;
use crate::harness::run::{Batch, Watched, in_parallel, text};
use crate::harness::targets;

/// Runs a mode of the target alone, with each guest, and with faulty guests, whose traces must be
/// seen. Returns the run by CPU time.
fn unharmed(mode: &str, bad: &[&'static str]) -> Watched {
    let binary = targets::c("signals");
    // Where samples are not judged, less CPU time shows the same.
    let short = [text(&binary), mode, "25"];
    let alone = host(Guest::Nobody, &short);
    prove(&WAYS[1..], bad, |guest| same(host(guest, &short), alone.clone()));
    watch_unharmed(&WAYS[..1], &short[..2], &alone)
}

/// Runs a mode as [`unharmed`] does. By CPU time, the counters add up and cover the CPU time to
/// within a tenth.
fn sampled(mode: &str, bad: &[&'static str]) -> Watched {
    let watched = unharmed(mode, bad);
    accounts(&watched.raw);
    let used = watched.raw.images[0].cpu_ns - watched.raw.number("agent-cpu");
    let weight = watched.raw.weight_ns("prof") + watched.raw.lost_all().1;
    let ratio = weight as f64 / used as f64;
    assert!((0.9..=1.1).contains(&ratio), "{mode}: {weight} ns of {used}; lost {:?}", watched.raw.lost);
    watched
}

/// Checks that nearly all of a function's time has samples, although its thread blocks all signals.
fn blocked_time_is_seen(mode: &str, bad: &[&'static str], ms: u64) {
    let watched = sampled(mode, bad);
    let seen = watched.raw.cum_ns("prof", |name| name == "burn_blocked") / 1_000_000;
    assert!(seen * 10 >= ms * 8, "{mode}: {seen} ms of {ms}; lost {:?}", watched.raw.lost);
}

#[test]
fn a_thread_that_blocks_all_signals_reads_back_its_mask() {
    blocked_time_is_seen("mask", &[], 600);
}

#[test]
fn waiting_for_all_signals_returns_only_the_programs() {
    blocked_time_is_seen("sigwait", &["bad_signals"], 360);
}

#[test]
fn a_signalfd_for_all_signals_reads_only_the_programs() {
    blocked_time_is_seen("signalfd", &["bad_signals"], 360);
}

/// The interval timer has one signal for all threads, which this target blocks. The loss is
/// reported.
#[test]
fn a_blocked_interval_timer_is_reported_as_unaccounted() {
    let watched = Batch::new("--engine itimer --hz 250").run(&[text(&targets::c("signals")), "sigwait"]);
    accounts(&watched.raw);
    assert!(watched.raw.lost["unaccounted"].1 > 200_000_000, "{:?}", watched.raw.lost);
}

#[test]
fn the_target_reads_back_its_handlers() {
    sampled("handlers", &["bad_signals"]);
}

#[test]
fn an_alarm_kills_the_target() {
    unharmed("alarm", &[]);
}

#[test]
fn errno_is_preserved() {
    sampled("errno", &["bad_signals"]);
}

/// A handler of the target's may jump out at any time without stopping the ticks.
#[test]
fn jumping_out_of_handlers_does_not_stop_the_ticks() {
    let watched = sampled("jump", &[]);
    let burnt = watched.raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
    assert!(burnt >= 900, "{burnt} ms of 1100 in burn; lost {:?}", watched.raw.lost);
}

/// A stack with sixteen nested handlers is unwound to its root.
#[test]
fn stacks_are_unwound_through_handlers() {
    let watched = sampled("nested", &[]);
    let through: u64 = watched
        .raw
        .of("prof")
        .filter(|entry| {
            let named = |name: &str| entry.frames.iter().filter(|frame| frame.name() == name).count();
            named("deeper") == 16 && named("main") == 1 && !entry.truncated
        })
        .map(|entry| entry.weight_ns)
        .sum();
    assert!(through >= 450_000_000, "{through} ns of 500 ms");
}

#[test]
fn small_and_invalid_alternate_stacks_work() {
    let watched = sampled("altstack", &[]);
    // There are two handlers of 150 ms. The smaller stack has no room for a tick.
    let handled = watched.raw.cum_ns("prof", |name| name == "on_altstack") / 1_000_000;
    let unseen = watched.raw.lost["unaccounted"].1 / 1_000_000;
    assert!(handled <= 360 && handled + unseen >= 240, "{handled} ms of 300 in the handlers, {unseen} ms unseen");
    // The stack of a handler continues with the interrupted code, on another stack.
    let called = watched.raw.cum_ns("prof", |name| name == "with_altstack") / 1_000_000;
    assert!(called + unseen >= 540, "{called} ms of 600, 300 of them in the handlers, {unseen} ms unseen");
}

#[test]
fn faults_reach_the_targets_handlers() {
    sampled("segv", &[]);
    unharmed("crash", &[]);
}

/// A program that uses SIGURG itself receives each of its own signals once and no tick, and is
/// sampled nevertheless.
#[test]
fn a_program_that_uses_sigurg_receives_only_its_own() {
    let binary = targets::c("urgent");
    for mode in ["blocked", "waits", "sigset", "late", "ignored"] {
        // Where samples are not judged, less CPU time shows the same.
        let short = [text(&binary), mode, "30"];
        let alone = host(Guest::Nobody, &short);
        assert!(alone.stdout.contains(", of others 0\n"), "{alone:?}");
        prove(&["--hz 250", "--clock real --hz 250"].map(Guest::Batch), &["bad_urgent"], |guest| {
            same(host(guest, &short), alone.clone())
        });
        let watched = watch_unharmed(&[Guest::Batch("--hz 1000")], &short[..2], &alone);
        let burnt = watched.raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
        let all = watched.raw.images[0].cpu_ns / 1_000_000;
        // CPU time while another signal is chosen is at least counted.
        let counted = burnt + watched.raw.lost["unaccounted"].1 / 1_000_000;
        let is_sampled = burnt * 10 >= all * 7 && counted * 10 >= all * 9;
        assert!(is_sampled, "{mode}: {burnt} ms of {all}; lost {:?}", watched.raw.lost);
    }
}

/// One object may take the old state and give the new one.
#[test]
fn the_new_and_the_old_action_may_be_one_object() {
    let binary = targets::c("aliased");
    let command = [text(&binary), "50"];
    let alone = host(Guest::Nobody, &command);
    assert_eq!(alone.stdout, "stack 1 1\naction 1 1\naction 1 1\n", "{alone:?}");
    prove(&WAYS, &[], |guest| same(host(guest, &command), alone.clone()));
}

/// A call that waits with a mask ends when a handler has run, and not when a tick alone has come. A
/// tick for a thread that has just been woken is delivered before a signal that was sent to the
/// process; of 100 000 waits, 3 to 20 ended early by that.
#[test]
fn waits_with_a_mask_end_with_their_signal() {
    let binary = targets::c("suspends");
    let fast = ["--hz 1000 --budget 100", "--clock real --hz 1000 --budget 100"];
    let all = ["--hz 99", fast[0], "--clock real --hz 99", fast[1]];
    for (call, ways) in [("sigsuspend", &all[..]), ("ppoll", &fast), ("pselect", &fast), ("epoll_pwait", &fast)] {
        let command = [text(&binary), call, "100000"];
        let alone = host(Guest::Nobody, &command);
        assert_eq!(alone.stdout, format!("{call}: 0 of 100000 waits ended early\n"), "{alone:?}");
        let ways: Vec<Guest> = ways.iter().map(|options| Guest::Batch(options)).collect();
        prove(&ways, &[], |guest| same(host(guest, &command), alone.clone()));
    }
}

/// A thread that blocks SIGURG before the first tick of its process is sampled by another signal.
/// The thread's own timer is the only one that can bring that tick.
#[test]
fn a_thread_that_blocks_the_signal_before_the_first_tick_is_sampled() {
    for options in ["--hz 99", "--hz 1000"] {
        let watched = Batch::new(options).run(&[text(&targets::c("urgent")), "young"]);
        assert_eq!((watched.ran.code(), watched.ran.out().as_str()), (0, "handled 0, of others 0\n"));
        let burnt = watched.raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
        assert!((900..=1_100).contains(&burnt), "{options}: {burnt} ms of 1000; lost {:?}", watched.raw.lost);
    }
}

/// The agent notices a signal that is blocked by a raw system call, and uses another one.
#[test]
fn ticks_switch_signals_when_theirs_is_blocked_by_a_raw_call() {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("urgent")), "unseen"]);
    let burnt = watched.raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
    // The agent looks once a second, and may just have looked, or be about to.
    assert!(burnt >= 1_100, "{burnt} ms of 3200; lost {:?}", watched.raw.lost);
    let (unaccounted, all) = (watched.raw.lost["unaccounted"].1 / 1_000_000, watched.raw.images[0].cpu_ns / 1_000_000);
    assert!(unaccounted > 0 && (burnt + unaccounted) * 10 >= all * 9, "{burnt} of {all} ms; lost {unaccounted} ms");
}

/// Calls that return early after a handler has run are not interrupted, with CPU clocks and the
/// wall clock, because no signal is sent to a thread that may sleep. The interval timer with the
/// wall clock cannot do that; there the check must fail.
#[test]
fn waits_are_not_interrupted() {
    let naps = targets::c("naps");
    let counts = |options: &str| {
        let ran = Batch::new(options).run(&[text(&naps)]).ran;
        let count = |line: &str| line.rsplit(' ').next().and_then(|word| word.parse::<u32>().ok()).expect("a number");
        let counts: Vec<u32> = ran.out().lines().map(count).collect();
        assert_eq!(counts.len(), 11, "{}", ran.out());
        (counts.iter().sum::<u32>(), ran.out())
    };
    // The interval timer also counts the agent thread's time: up to 0.1 ms at each of its 70
    // wake-ups in these 7 s, and a tick every millisecond. The kernel attributes user time by where
    // the scheduler's tick occurs, which may be in the agent.
    let ways = [
        ("--hz 1000", 0),
        ("--engine itimer --hz 1000", 7),
        ("--clock virtual --hz 1000", 7),
        ("--clock real --hz 100", 0),
        ("--clock real --hz 1000", 0),
    ];
    let negative_control = ("--clock real --engine itimer --hz 250", u32::MAX);
    let mut results = in_parallel(&[&ways[..], &[negative_control]].concat(), |(options, _)| counts(options));
    assert!(results.pop().expect("the control").0 >= 100);
    for ((options, most), (sum, out)) in ways.iter().zip(results) {
        assert!(sum <= *most, "{options}: {out}");
    }
}

/// None of many short waits in many threads, some of which start and end, is interrupted.
#[test]
fn thousands_of_short_waits_are_not_interrupted() {
    let waits = targets::c("waits");
    let (seconds, least) = if std::env::var_os("SIGTOP_LONG").is_some() { ("60", 100_000) } else { ("1.5", 1_900) };
    let broken_off = |guest: Guest| {
        let shown = host(guest, &[text(&waits), seconds]);
        let number = |name: &str| {
            let line = shown.stdout.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or_else(|| panic!("{shown:?}"))
        };
        if number("waits") < least {
            return Err(format!("{shown:?}"));
        }
        same(number("interrupted"), 0)
    };
    let ways = ["--hz 99", "--hz 1000", "--clock real --hz 99", "--clock real --hz 1000"].map(Guest::Batch);
    prove(&ways, &["bad_kill"], broken_off);
}

/// Regression test: in constructors of libraries, which run before the agent's, `pthread_sigmask`
/// failed with ENOSYS and `prctl` with -1.
#[test]
fn interposed_functions_work_in_constructors_of_libraries() {
    let library = targets::preload("early");
    let main = "void early(void); int main(void) { early(); return 0; }";
    let flags = ["-Wl,--no-as-needed", text(&library)];
    let binary = targets::generated("early_user", main, "c", "cc", &flags);
    let command = [text(&binary)];
    let alone = host(Guest::Nobody, &command);
    assert!(alone.code == 0 && alone.stdout.contains("pthread_sigmask 0"), "{alone:?}");
    prove(&WAYS, &[], |guest| same(host(guest, &command), alone.clone()));
}
