//! From the start of sigtop to the first row of its top list on a terminal, for a target that is busy from its first instruction.
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

/// Milliseconds to the first frame, and to the first row.
fn measure(options: &[&str]) -> [f64; 2] {
    let mut command = Command::new(SIGTOP);
    command.args(options).args(["--on-quit", "end", "--"]).arg(targets::c("shares")).args(["60", "30", "10", "30"]);
    let mut terminal = Terminal::start(120, 32, &command);
    terminal.see("Hz");
    let frame = terminal.started.elapsed();
    terminal.see("burn_a");
    let row = terminal.started.elapsed();
    terminal.keys("q");
    terminal.finish();
    [frame, row].map(|time| time.as_secs_f64() * 1e3)
}

fn main() {
    let rounds = argument("rounds", 20);
    let mut all = Vec::new();
    // Once for the file caches and the compiled target.
    measure(WAYS[0].1);
    for round in 0..rounds {
        let mut times = [[0.0; 2]; WAYS.len()];
        for way in order(WAYS.len(), round) {
            times[way] = measure(WAYS[way].1);
        }
        all.push(times);
    }
    println!("from start to screen, ms, {rounds} interleaved rounds");
    println!("{:<14} {:>24} {:>24}", "", "first frame", "first row");
    for (way, (name, _)) in WAYS.iter().enumerate() {
        let show = |what: usize| {
            let middle =
                |rounds: &[&[[f64; 2]; WAYS.len()]]| measure::median(rounds.iter().map(|times| times[way][what]));
            let (value, low, high) = bootstrap(&all, middle);
            format!("{value:.1} ({low:.1} to {high:.1})")
        };
        println!("{name:<14} {:>24} {:>24}", show(0), show(1));
    }
}
