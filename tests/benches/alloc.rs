//! Cost of the clock of allocations: the CPU time of a pair of malloc and free, and of a fixed
//! piece of C++ work, alone, with a preload that jumps straight through, with the agent unwatched,
//! sampled by CPU time, and by allocated bytes; and under heaptrack and gperftools' heap profiler
//! if they are installed. Interleaved, as differences and ratios of medians to the first.
//!
//! `cargo bench --bench alloc -- --rounds 15`. Without the other profilers, `--rivals 0`, a round
//! takes two seconds instead of forty.

#[path = "cost.rs"]
mod cost;
#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[path = "measure.rs"]
mod measure;

use std::path::{Path, PathBuf};
use std::process::Command;

use cost::Cost;
use harness::run::{Batch, Ran, SIGTOP, run, text};
use harness::targets;
use measure::{argument, bootstrap, median, order};

/// A way to run a command.
enum Way {
    Alone,
    Preload(PathBuf),
    Watched(&'static str),
    Heaptrack,
    Gperftools(PathBuf),
}

fn run_by(way: &Way, command: &[&str]) -> Ran {
    let mut plain = Command::new(command[0]);
    plain.args(&command[1..]);
    let ran = match way {
        Way::Alone => run(&mut plain),
        Way::Preload(library) => run(plain.env("LD_PRELOAD", library)),
        Way::Watched(options) => Batch::new(options).run(command).ran,
        Way::Heaptrack => {
            let file = targets::scratch("heaptrack").join("out");
            run(Command::new("heaptrack").args(["-o", text(&file)]).args(command))
        }
        Way::Gperftools(library) => {
            let file = targets::scratch("heapprofile").join("out");
            run(plain.env("LD_PRELOAD", library).env("HEAPPROFILE", file))
        }
    };
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran
}

fn main() {
    let rounds = argument("rounds", 15);
    let (pairs, work) = (argument("pairs", 5_000_000).to_string(), argument("work", 2_000).to_string());
    let agent = run(Command::new(SIGTOP).args(["env", "--path"])).out().trim().into();
    let mut ways = vec![
        ("alone", Way::Alone),
        ("straight through", Way::Preload(targets::preload("straight"))),
        ("agent, unwatched", Way::Preload(agent)),
        ("sigtop, CPU 99 Hz", Way::Watched("--hz 99")),
        ("sigtop, 512 KiB", Way::Watched("--clock alloc")),
    ];
    if argument("rivals", 1) != 0 {
        match Command::new("heaptrack").arg("--version").output() {
            Ok(_) => ways.push(("heaptrack", Way::Heaptrack)),
            Err(_) => println!("heaptrack is not installed"),
        }
        let library = Path::new("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4");
        match library.exists() {
            true => ways.push(("gperftools' heap", Way::Gperftools(library.to_owned()))),
            false => println!("gperftools is not installed (google-perftools)"),
        }
    }
    let (loops, wrapper, program) = (targets::c("pairs"), targets::c("rusage"), targets::cpp("work"));
    let (mut pair_ns, mut work_ns) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (mut pair, mut whole) = (vec![0.0; ways.len()], vec![0.0; ways.len()]);
        for way in order(ways.len(), round) {
            pair[way] = run_by(&ways[way].1, &[text(&loops), &pairs]).number("pair") as f64 / 1e3;
            let cost = Cost::new();
            // heaptrack watches no children: the wrapper starts it, and its interpreter counts.
            let file = targets::scratch("heaptrack").join("out");
            let heaptrack = ["heaptrack", "-o", text(&file)];
            let (way_of_wrapper, inner) = match &ways[way].1 {
                Way::Heaptrack => (&Way::Alone, &heaptrack[..]),
                other => (other, &[][..]),
            };
            let command = [&[text(&wrapper), text(cost.path())], inner, &[text(&program), &work]].concat();
            run_by(way_of_wrapper, &command);
            whole[way] = cost.cpu_ns();
        }
        pair_ns.push(pair);
        work_ns.push(whole);
    }
    println!("{rounds} interleaved rounds");
    println!("{:<20} {:>10} {:>10}  95 % of bootstraps", "malloc and free", "ns", "more");
    for (way, (name, _)) in ways.iter().enumerate() {
        let of = |rounds: &[&Vec<f64>], way: usize| median(rounds.iter().map(|costs| costs[way]));
        let (more, low, high) = bootstrap(&pair_ns, |rounds| of(rounds, way) - of(rounds, 0));
        let cost = median(pair_ns.iter().map(|costs| costs[way]));
        println!("{name:<20} {cost:>10.2} {more:>+10.2}  {low:+.2} to {high:+.2}");
    }
    println!("{:<20} {:>10} {:>10}  95 % of bootstraps", format!("work {work}"), "CPU s", "ratio");
    for (way, (name, _)) in ways.iter().enumerate() {
        let of = |rounds: &[&Vec<f64>], way: usize| median(rounds.iter().map(|costs| costs[way]));
        let (ratio, low, high) = bootstrap(&work_ns, |rounds| of(rounds, way) / of(rounds, 0));
        let cost = median(work_ns.iter().map(|costs| costs[way])) / 1e9;
        println!("{name:<20} {cost:>10.4} {ratio:>10.4}  {low:.4} to {high:.4}");
    }
}
