//! Cost of being profiled: CPU time of a fixed piece of C++ work without a preload, with an empty
//! one, with the agent unwatched, watched at 99 Hz, and with gperftools' profiler if it is
//! installed; interleaved, as medians of each round's ratio to the first. Then the same work after
//! the first second, without the start of the process and of the agent; the cost of a fork, as a
//! ratio to the empty preload's; and the CPU time of the agent's start.
//!
//! `cargo bench --bench overhead -- --rounds 30`.

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
use harness::run::{Batch, SIGTOP, run, text};
use harness::targets;
use measure::{argument, bootstrap, median, order};

/// A way to run the work.
enum Way {
    Alone,
    Preload(PathBuf),
    Watched(&'static str),
    Gperftools(PathBuf),
}

fn measure(way: &Way, work: &str) -> f64 {
    let (cost, wrapper, program) = (Cost::new(), targets::c("rusage"), targets::cpp("work"));
    let command = [text(&wrapper), text(cost.path()), text(&program), work];
    let mut plain = Command::new(command[0]);
    plain.args(&command[1..]);
    let ran = match way {
        Way::Alone => run(&mut plain),
        Way::Preload(library) => run(plain.env("LD_PRELOAD", library)),
        Way::Watched(options) => Batch::new(options).run(&command).ran,
        Way::Gperftools(library) => {
            let profile = cost.path().with_extension("profile");
            run(plain.env("LD_PRELOAD", library).env("CPUPROFILE", profile).env("CPUPROFILE_FREQUENCY", "100"))
        }
    };
    assert_eq!(ran.code(), 0, "{}", ran.err());
    cost.cpu_ns()
}

fn main() {
    let (rounds, work) = (argument("rounds", 30), argument("work", 4_000).to_string());
    let agent = run(Command::new(SIGTOP).args(["env", "--path"])).out().trim().into();
    let mut ways = vec![
        ("no preload", Way::Alone),
        ("empty preload", Way::Preload(targets::preload("empty"))),
        ("agent, unwatched", Way::Preload(agent)),
        ("sigtop, 99 Hz", Way::Watched("--hz 99")),
        ("sigtop, 99 Hz, wall", Way::Watched("--hz 99 --clock real")),
        ("from outside, 99 Hz", Way::Watched("--hz 99 --engine external")),
    ];
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libprofiler.so.0");
    match library.exists() {
        true => ways.push(("gperftools, 100 Hz", Way::Gperftools(library.to_owned()))),
        false => println!("gperftools is not installed (google-perftools)"),
    }
    let mut all: Vec<Vec<f64>> = Vec::new();
    for round in 0..rounds {
        let mut costs = vec![0.0; ways.len()];
        for way in order(ways.len(), round) {
            costs[way] = measure(&ways[way].1, &work);
        }
        all.push(costs);
    }
    println!("cost of being profiled, {rounds} interleaved rounds of work {work}");
    println!("{:<20} {:>10} {:>8}   95 % of bootstraps", "", "CPU s", "ratio");
    for (way, (name, _)) in ways.iter().enumerate() {
        // The machine's speed drifts, so each run is compared with that of its own round.
        let (ratio, low, high) = bootstrap(&all, |rounds| median(rounds.iter().map(|costs| costs[way] / costs[0])));
        println!(
            "{name:<20} {:>10.4} {ratio:>8.4}   {low:.4} to {high:.4}",
            median(all.iter().map(|costs| costs[way])) / 1e9
        );
    }
    steady(rounds);
    forks(rounds);
}

/// The CPU time that the thread, and the process with its agent thread, take for a chunk of work
/// after the first second.
fn steady(rounds: u64) {
    const WAYS: [(&str, Option<&str>); 4] = [
        ("alone", None),
        ("sigtop, 99 Hz", Some("--hz 99")),
        ("sigtop, 99 Hz, wall", Some("--hz 99 --clock real")),
        ("sigtop, 512 KiB", Some("--clock alloc")),
    ];
    let program = targets::cpp("work");
    let command = [text(&program), "550", "20"];
    let measure = |way: usize| {
        let ran = match WAYS[way].1 {
            Some(options) => Batch::new(options).run(&command).ran,
            None => run(Command::new(command[0]).args(&command[1..])),
        };
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ["thread", "process"].map(|clock| ran.number(clock) as f64)
    };
    let mut all: Vec<Vec<[f64; 2]>> = Vec::new();
    for round in 0..rounds {
        let mut costs = vec![[0.0; 2]; WAYS.len()];
        order(WAYS.len(), round).into_iter().for_each(|way| costs[way] = measure(way));
        all.push(costs);
    }
    println!("a chunk of work after the first second, {rounds} interleaved rounds");
    println!("{:<20} {:>10} {:>8}   95 % of bootstraps", "", "CPU ms", "ratio");
    for (clock, of) in ["thread", "process"].into_iter().enumerate() {
        for (way, (name, _)) in WAYS.iter().enumerate() {
            let ratio = |costs: &&Vec<[f64; 2]>| costs[way][clock] / costs[0][clock];
            let (ratio, low, high) = bootstrap(&all, |rounds| median(rounds.iter().map(ratio)));
            let cost = median(all.iter().map(|costs| costs[way][clock])) / 1e6;
            println!("{name:<20} {cost:>10.2} {ratio:>8.4}   {low:.4} to {high:.4}   {of}");
        }
    }
}

/// CPU time of a fork whose child exits immediately, in the same ways; and CPU time of the agent
/// thread in a target that lives for 60 ms.
fn forks(rounds: u64) {
    let (forks, agent) = (targets::c("forks"), run(Command::new(SIGTOP).args(["env", "--path"])).out());
    let plain = |preload: &Path| run(Command::new(&forks).arg("1000").env("LD_PRELOAD", preload)).number("fork") as f64;
    let (mut all, mut births) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let watched = Batch::new("--hz 99").run(&[text(&forks), "1000"]).ran.number("fork") as f64;
        all.push([plain(&targets::preload("empty")), plain(Path::new(agent.trim())), watched]);
        let short = Batch::new("--hz 99").run(&[text(&targets::c("ends")), "60", "exit", "0"]);
        births.push(short.raw.number("agent-cpu") as f64);
    }
    println!("a fork, {rounds} interleaved rounds of 1000");
    for (way, name) in ["empty preload", "agent, unwatched", "sigtop, 99 Hz"].iter().enumerate() {
        let of = |rounds: &[&[f64; 3]], way: usize| median(rounds.iter().map(|costs| costs[way]));
        let (ratio, low, high) = bootstrap(&all, |rounds| of(rounds, way) / of(rounds, 0));
        let cost = median(all.iter().map(|costs| costs[way])) / 1e3;
        println!("{name:<20} {cost:>8.1} µs {ratio:>8.4}   {low:.4} to {high:.4}");
    }
    println!("birth of the agent, and 60 ms of its life: {:.2} ms of CPU time", median(births) / 1e6);
}
