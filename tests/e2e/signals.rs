//! Targets that use signals in every way there is: each behaves as it does alone, and is sampled all the same.

use super::guest::{Guest, WAYS, host, prove, same};
use super::shares::accounts;
use crate::harness::run::{Batch, Watched, text};
use crate::harness::targets;

/// Runs a mode of the target alone, with each guest, and with bad ones, whose traces must be seen.
fn unharmed(mode: &str, bad: &[&'static str]) {
    let binary = targets::c("signals");
    let command = [text(&binary), mode];
    let alone = host(Guest::Nobody, &command);
    prove(&WAYS, bad, |guest| same(host(guest, &command), alone.clone()));
}

/// A mode sampled by its CPU time; the books are even, and hold all of it, give or take a tenth.
fn sampled(mode: &str) -> Watched {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("signals")), mode]);
    accounts(&watched.raw);
    let used = watched.raw.images[0].cpu_ns - watched.raw.number("agent-cpu");
    let weight = watched.raw.weight_ns("prof") + watched.raw.lost_all().1;
    let ratio = weight as f64 / used as f64;
    assert!((0.9..=1.1).contains(&ratio), "{mode}: {weight} ns of {used}; lost {:?}", watched.raw.lost);
    watched
}

/// Nearly all of a function's time has samples, although its thread believes that every signal is blocked.
fn blocked_time_is_seen(mode: &str, ms: u64) {
    let watched = sampled(mode);
    let seen = watched.raw.cum_ns("prof", |name| name == "burn_blocked") / 1_000_000;
    assert!(seen * 10 >= ms * 8, "{mode}: {seen} ms of {ms}; lost {:?}", watched.raw.lost);
}

#[test]
fn a_thread_that_blocks_everything_reads_its_mask_as_it_set_it() {
    unharmed("mask", &[]);
    blocked_time_is_seen("mask", 600);
}

#[test]
fn who_waits_for_all_signals_gets_its_own() {
    unharmed("sigwait", &["bad_signals"]);
    blocked_time_is_seen("sigwait", 360);
}

#[test]
fn a_signalfd_for_all_signals_reads_its_own() {
    unharmed("signalfd", &["bad_signals"]);
    blocked_time_is_seen("signalfd", 360);
}

/// The classic engine has one signal for all, which such a target blocks: that nothing is sampled is said.
#[test]
fn a_blocked_interval_timer_is_said_to_be_unseen() {
    let watched = Batch::new("--engine itimer --hz 250").run(&[text(&targets::c("signals")), "sigwait"]);
    accounts(&watched.raw);
    assert!(watched.raw.lost["unseen"].1 > 200_000_000, "{:?}", watched.raw.lost);
}

#[test]
fn handlers_are_what_the_target_set() {
    unharmed("handlers", &["bad_signals"]);
    sampled("handlers");
}

#[test]
fn an_alarm_ends_a_target() {
    unharmed("alarm", &[]);
}

#[test]
fn errno_is_kept() {
    unharmed("errno", &["bad_signals"]);
    sampled("errno");
}

/// A handler of the target's may jump out at any time: no tick is lost for good.
#[test]
fn jumping_out_of_handlers_does_not_stop_the_ticks() {
    unharmed("jump", &[]);
    let watched = sampled("jump");
    let burnt = watched.raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
    assert!(burnt >= 900, "{burnt} ms of 1100 in burn; lost {:?}", watched.raw.lost);
}

/// Sixteen handlers deep, a stack is followed to its root.
#[test]
fn stacks_go_on_through_handlers() {
    unharmed("nested", &[]);
    let watched = sampled("nested");
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
fn small_and_bad_stacks_for_handlers_suffice() {
    unharmed("altstack", &[]);
    let watched = sampled("altstack");
    // Two handlers of 150 ms. On the smaller stack there is no room for a tick.
    let handled = watched.raw.cum_ns("prof", |name| name == "on_altstack") / 1_000_000;
    let unseen = watched.raw.lost["unseen"].1 / 1_000_000;
    assert!(handled <= 360 && handled + unseen >= 240, "{handled} ms of 300 in the handlers, {unseen} ms unseen");
    // Stacks of handlers go on in what was interrupted, on another stack.
    let called = watched.raw.cum_ns("prof", |name| name == "with_altstack") / 1_000_000;
    assert!(called + unseen >= 540, "{called} ms of 600, 300 of them in the handlers, {unseen} ms unseen");
}

#[test]
fn faults_are_the_targets_own() {
    unharmed("segv", &[]);
    sampled("segv");
    unharmed("crash", &[]);
}

/// A program that uses SIGURG itself, in any way, gets each of its own once and none of ours, and
/// is sampled all the same.
#[test]
fn a_program_that_uses_sigurg_has_it_to_itself() {
    let binary = targets::c("urgent");
    for mode in ["blocked", "waits", "sigset", "late", "ignored"] {
        let command = [text(&binary), mode];
        let alone = host(Guest::Nobody, &command);
        assert!(alone.stdout.contains(", of others 0\n"), "{alone:?}");
        let ways = ["--hz 250", "--hz 1000", "--clock real --hz 250"].map(Guest::Batch);
        prove(&ways, &["bad_urgent"], |guest| same(host(guest, &command), alone.clone()));
        let watched = Batch::new("--hz 250").run(&command);
        let burnt = watched.raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
        let all = watched.raw.images[0].cpu_ns / 1_000_000;
        // What is used while another signal is chosen is counted, at least.
        let counted = burnt + watched.raw.lost["unseen"].1 / 1_000_000;
        let is_sampled = burnt * 10 >= all * 7 && counted * 10 >= all * 9;
        assert!(is_sampled, "{mode}: {burnt} ms of {all}; lost {:?}", watched.raw.lost);
    }
}

/// A signal that is blocked by a call that nobody sees is found to be blocked, and another is used.
#[test]
fn ticks_move_on_from_a_signal_that_is_blocked_unseen() {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("urgent")), "unseen"]);
    let burnt = watched.raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
    // A second until that is looked at, and another where it is just missed.
    assert!(burnt >= 1_100, "{burnt} ms of 3200; lost {:?}", watched.raw.lost);
    assert!(watched.raw.lost["unseen"].1 >= 100_000_000, "{:?}", watched.raw.lost);
}

/// What ends early when a handler has run ends as it does alone, by the CPU's clocks and by the
/// wall's: no thread that may sleep is sent a signal. The classic engine of wall time cannot do
/// that: there the check must see something.
#[test]
fn waits_are_not_cut_short() {
    let naps = targets::c("naps");
    let counts = |options: &str| {
        let ran = Batch::new(options).run(&[text(&naps)]).ran;
        let count = |line: &str| line.rsplit(' ').next().and_then(|word| word.parse::<u32>().ok()).expect("a number");
        let counts: Vec<u32> = ran.out().lines().map(count).collect();
        assert_eq!(counts.len(), 11, "{}", ran.out());
        (counts.iter().sum::<u32>(), ran.out())
    };
    // The interval timer counts the agent thread's own time too, but for a few microseconds a nap.
    // User time is told apart by where the scheduler's tick strikes, which may be the agent's.
    let ways = [
        ("--hz 1000", 0),
        ("--engine itimer --hz 1000", 2),
        ("--clock virtual --hz 1000", 2),
        ("--clock real --hz 100", 0),
        ("--clock real --hz 1000", 0),
    ];
    for (options, most) in ways {
        let (sum, out) = counts(options);
        assert!(sum <= most, "{options}: {out}");
    }
    assert!(counts("--clock real --engine itimer --hz 250").0 >= 100);
}

/// Short waits of many threads, some of which come and go: not one of them ends early.
#[test]
fn of_thousands_of_short_waits_none_is_cut_short() {
    let waits = targets::c("waits");
    let seconds = if std::env::var_os("SIGTOP_LONG").is_some() { "60" } else { "4" };
    let broken_off = |guest: Guest| {
        let shown = host(guest, &[text(&waits), seconds]);
        let number = |name: &str| {
            let line = shown.stdout.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or_else(|| panic!("{shown:?}"))
        };
        if number("waits") < 5_000 {
            return Err(format!("{shown:?}"));
        }
        same(number("interrupted"), 0)
    };
    let ways = ["--hz 99", "--hz 1000", "--clock real --hz 99", "--clock real --hz 1000"].map(Guest::Batch);
    prove(&ways, &["bad_kill"], broken_off);
}

/// Constructors of libraries run before the agent's: there `pthread_sigmask` failed with ENOSYS,
/// and `prctl` with -1.
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
