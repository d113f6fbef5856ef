//! Cost of sampling from outside, beside the agent: CPU time of the sampler and of the viewer as
//! shares of a CPU, and the time that a sampled thread stands still, for one busy thread, for 64,
//! and for crowds of sleepers. Each is the difference between a long and a short run, so that the
//! start, whose CPU time has a column of its own, does not count. Medians of interleaved rounds.
//!
//! `cargo bench --bench external -- --rounds 5 --seconds 4`.

#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[expect(dead_code, reason = "no figure here is a ratio")]
#[path = "measure.rs"]
mod measure;

use std::time::Instant;

use harness::run::{Batch, text};
use harness::targets;
use measure::{argument, median, order};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Engines, and sigtop's options. The sampler of the agent is its thread.
const ENGINES: [(&str, &str); 5] = [
    ("agent", "--hz 99 --budget 100%"),
    ("events", "--hz 99 --engine events --budget 100%"),
    ("ptrace", "--hz 99 --engine ptrace --budget 100%"),
    ("events, 999 Hz", "--hz 999 --engine events --budget 100%"),
    ("ptrace, 999 Hz", "--hz 999 --engine ptrace --budget 100%"),
];

/// A program to be sampled, by the number of seconds that it runs.
struct Load {
    name: &'static str,
    command: Box<dyn Fn(u64) -> Vec<String>>,
}

/// The cost of one run; times are in ns.
struct RunCost {
    wall_ns: f64,
    samples: f64,
    sampler_ns: f64,
    viewer_ns: f64,
    /// Time that samples took from their threads: stops from outside, or the agent's handler.
    stopped_ns: f64,
}

/// CPU time of all child processes that have ended, ns.
fn children_ns() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("it is always known");
    1e3 * (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64
}

fn run_for(load: &Load, options: &str, seconds: u64) -> RunCost {
    let command = (load.command)(seconds);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let (before_ns, start) = (children_ns(), Instant::now());
    let watched = Batch::new(options).run(&words);
    let (spent_ns, wall_ns) = (children_ns() - before_ns, start.elapsed().as_nanos() as f64);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let raw = &watched.raw;
    let target_ns: u64 = raw.images.iter().map(|image| image.cpu_ns).sum();
    let sampler_ns = raw.number("agent-cpu") as f64;
    // The agent's thread is part of the target.
    let own_ns = if options.contains("engine") { sampler_ns } else { 0.0 };
    RunCost {
        wall_ns,
        samples: raw.samples("prof") as f64,
        sampler_ns,
        viewer_ns: spent_ns - target_ns as f64 - own_ns,
        stopped_ns: raw.number("handler-cpu") as f64,
    }
}

/// Samples per second; percent of a CPU that the sampler and the viewer take; the mean time that a
/// sample takes from its thread, µs; and the CPU time of the sampler's start, ms.
type Figures = [f64; 5];

fn measure(load: &Load, options: &str, seconds: u64) -> Figures {
    let (short, long) = (run_for(load, options, seconds), run_for(load, options, 3 * seconds));
    let wall_ns = long.wall_ns - short.wall_ns;
    let sampler = (long.sampler_ns - short.sampler_ns) / wall_ns;
    [
        (long.samples - short.samples) / wall_ns * 1e9,
        100.0 * sampler,
        100.0 * (long.viewer_ns - short.viewer_ns) / wall_ns,
        long.stopped_ns / long.samples.max(1.0) / 1e3,
        (short.sampler_ns - sampler * short.wall_ns) / 1e6,
    ]
}

fn main() {
    let (rounds, seconds) = (argument("rounds", 5), argument("seconds", 4));
    let shares = |share: u64, threads: &'static str| {
        let program = text(&targets::c("shares")).to_owned();
        let command = move |seconds: u64| {
            [&program, "60", "30", "10", &(share * seconds).to_string(), threads].map(str::to_owned).to_vec()
        };
        Box::new(command) as _
    };
    let crowd = |threads: &'static str| {
        let program = text(&targets::c("crowd")).to_owned();
        Box::new(move |seconds: u64| [&program, threads, &seconds.to_string()].map(str::to_owned).to_vec()) as _
    };
    let loads = [
        Load { name: "1 busy thread", command: shares(1, "1") },
        Load { name: "64 busy threads", command: shares(2, "64") },
        Load { name: "1 000 sleepers", command: crowd("1000") },
        Load { name: "10 000 sleepers", command: crowd("10000") },
    ];
    println!("sampling from outside and by the agent, {rounds} interleaved rounds");
    println!(
        "{:<17} {:<21} {:>9} {:>10} {:>9} {:>14} {:>9}",
        "", "", "samples/s", "sampler %", "viewer %", "stop µs, mean", "start ms"
    );
    for load in &loads {
        let mut all: Vec<[Figures; ENGINES.len()]> = Vec::new();
        for round in 0..rounds {
            let mut figures = [Figures::default(); ENGINES.len()];
            for engine in order(ENGINES.len(), round) {
                figures[engine] = measure(load, ENGINES[engine].1, seconds);
            }
            all.push(figures);
        }
        for (engine, (name, _)) in ENGINES.iter().enumerate() {
            let of = |figure: usize| median(all.iter().map(|figures| figures[engine][figure]));
            println!(
                "{:<17} {name:<21} {:>9.1} {:>10.2} {:>9.2} {:>14.1} {:>9.1}",
                load.name,
                of(0),
                of(1),
                of(2),
                of(3),
                of(4)
            );
        }
    }
}
