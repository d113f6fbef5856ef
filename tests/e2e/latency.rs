//! The share of the wall-clock time in which a program ran (`lat%`) is the program's own.

use crate::harness::run::{Batch, text};
use crate::harness::skips::skip;
use crate::harness::targets;

/// A run of the program: shares of `alone`, each as measured and as the program says.
struct Shares {
    cpu: [f64; 2],
    wall: [f64; 2],
    /// Three standard deviations of a share of so many samples.
    bound: f64,
}

/// Runs the program, eight tenths of the time with one thread, until its two threads have had a
/// processor each. Returns `None` if they never had: the machine is busy.
fn run(options: &str) -> Option<Shares> {
    const RUNS: usize = 6;
    for _ in 0..RUNS {
        let binary = targets::c("latency");
        let watched = Batch::new(&format!("--sort latency --hz 250 {options}")).run(&[text(&binary), "2000", "500"]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        let table = watched.last();
        let row = table.row("alone").unwrap_or_else(|| panic!("no row alone in\n{}", watched.tables));
        let latency = row.latency.unwrap_or_else(|| panic!("no lat% in\n{}", watched.tables));
        let truth = |name: &str| watched.ran.number(name) as f64 / 1e6;
        let samples: u64 = ["prof", "real"].iter().map(|clock| watched.raw.samples(clock)).sum();
        let bound = 3.0 * (0.8 * 0.2 / samples as f64).sqrt();
        let (cpu, wall) = ([row.cum_percent / 100.0, truth("cpu")], [latency / 100.0, truth("wall")]);
        // Where threads wait for processors, samples do not tell whether two ran at a time.
        if truth("ran") > 0.9 {
            assert!((wall[0] - wall[1]).abs() < bound, "lat% {wall:?}, bound {bound:.3}; cum% {cpu:?}");
            return Some(Shares { cpu, wall, bound });
        }
    }
    skip("no two threads had a processor each");
    None
}

/// Asserts that both shares are true and, as a control, that one does not pass for the other.
fn are_true(options: &str) {
    let Some(Shares { cpu, wall, bound }) = run(options) else { return };
    assert!((cpu[0] - cpu[1]).abs() < bound, "cum% {cpu:?}, bound {bound:.3}");
    assert!((cpu[0] - wall[1]).abs() > bound, "cum% {cpu:?}, lat% {wall:?}, bound {bound:.3}");
}

#[test]
fn one_thread_and_then_two_have_their_shares_of_the_time() {
    are_true("");
}

#[test]
fn from_outside_they_have_the_same_shares() {
    are_true("--engine external");
}

/// By wall-clock time there are samples of a thread that sleeps all the time, too.
#[test]
fn sleeping_threads_explain_no_running_time() {
    run("--clock wall");
}
