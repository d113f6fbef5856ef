//! Time from the start of sigtop to the first row of its top list on a terminal, and to a row of
//! the target's own code, for a target that is busy from its first instruction. The last column
//! counts from the first frame, which the first possible sample does not precede by much.
//!
//! `cargo bench --bench first_row -- --rounds 20`.

#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[path = "measure.rs"]
mod measure;

use std::process::Command;

use harness::run::SIGTOP;
use harness::targets;
use harness::terminal::Terminal;
use measure::{argument, bootstrap, order};

const WAYS: [(&str, &[&str]); 3] =
    [("99 Hz", &[]), ("1000 Hz", &["--hz", "1000"]), ("99 Hz, wall", &["--clock", "real"])];

/// Milliseconds to the first frame, to the first row, to the function's, and between the first two.
fn measure(options: &[&str]) -> [f64; 4] {
    let mut command = Command::new(SIGTOP);
    command.args(options).args(["--on-quit", "end", "--"]).arg(targets::c("shares")).args(["60", "30", "10", "30"]);
    let mut terminal = Terminal::start(120, 32, &command);
    terminal.see(" samples in ");
    let frame = terminal.started.elapsed();
    terminal.see("▸");
    let row = terminal.started.elapsed();
    terminal.see("burn_a");
    let named = terminal.started.elapsed();
    terminal.keys("q");
    terminal.finish();
    [frame, row, named, row - frame].map(|time| time.as_secs_f64() * 1e3)
}

fn main() {
    let rounds = argument("rounds", 20);
    let mut all = Vec::new();
    // Once for the file caches and the compiled target.
    measure(WAYS[0].1);
    for round in 0..rounds {
        let mut times = [[0.0; 4]; WAYS.len()];
        for way in order(WAYS.len(), round) {
            times[way] = measure(WAYS[way].1);
        }
        all.push(times);
    }
    println!("from start to screen, ms, {rounds} interleaved rounds");
    println!(
        "{:<14} {:>24} {:>24} {:>24} {:>24} {:>6}",
        "", "first frame", "first row", "function", "frame to row", "p95"
    );
    for (way, (name, _)) in WAYS.iter().enumerate() {
        let show = |what: usize| {
            let middle =
                |rounds: &[&[[f64; 4]; WAYS.len()]]| measure::median(rounds.iter().map(|times| times[way][what]));
            let (value, low, high) = bootstrap(&all, middle);
            format!("{value:.1} ({low:.1} to {high:.1})")
        };
        let mut waits: Vec<f64> = all.iter().map(|times| times[way][3]).collect();
        waits.sort_by(f64::total_cmp);
        let p95 = waits.get(waits.len() * 95 / 100).copied().unwrap_or_default();
        println!("{name:<14} {:>24} {:>24} {:>24} {:>24} {p95:>6.1}", show(0), show(1), show(2), show(3));
    }
}
