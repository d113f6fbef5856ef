//! Cost of sampling from outside, beside the agent and `perf record`: CPU time of the target as a
//! ratio to a run alone, of the sampler and of the viewer as shares of a CPU, and the time that a
//! sampled thread stands still; for fixed work, for one busy thread, for 64, and for crowds of
//! sleepers. Each is the difference between a long and a short run, so that the start, whose CPU
//! time has a column of its own, does not count. Medians of interleaved rounds, with 95 % intervals
//! of the first two.
//!
//! `standstill` measures the longest pauses, and `py-spy`.
//!
//! `cargo bench --bench external -- --rounds 5 --seconds 4 --loads 5`.

#[path = "cost.rs"]
mod cost;
#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[path = "measure.rs"]
mod measure;

use std::process::Command;
use std::time::Instant;

use cost::Cost;
use harness::run::{Batch, run, text};
use harness::targets;
use measure::{argument, bootstrap, median, order};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// A way to run the target.
#[derive(Clone, Copy)]
enum Way {
    Alone,
    /// sigtop with these options. The sampler of the agent is its thread.
    Sigtop(&'static str),
    /// `perf record` with these ones.
    Perf(&'static [&'static str]),
}

const WAYS: [(&str, Way); 8] = [
    ("alone", Way::Alone),
    ("agent", Way::Sigtop("--hz 99 --budget 100%")),
    ("events", Way::Sigtop("--hz 99 --engine events --budget 100%")),
    ("ptrace", Way::Sigtop("--hz 99 --engine ptrace --budget 100%")),
    ("perf, fp", Way::Perf(&["-F", "99", "--call-graph", "fp"])),
    ("perf, dwarf", Way::Perf(&["-F", "99", "--call-graph", "dwarf"])),
    ("events, 999 Hz", Way::Sigtop("--hz 999 --engine events --budget 100%")),
    ("ptrace, 999 Hz", Way::Sigtop("--hz 999 --engine ptrace --budget 100%")),
];

/// A program to be sampled, by the number of seconds that it runs.
struct Load {
    name: &'static str,
    command: Box<dyn Fn(u64) -> Vec<String>>,
    /// Whether the seconds are work and not CPU time, so that the CPU time tells the cost.
    is_fixed_work: bool,
}

/// The cost of one run; times are in ns. What is not known is NaN.
struct RunCost {
    wall_ns: f64,
    target_ns: f64,
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

fn run_for(load: &Load, way: Way, seconds: u64) -> RunCost {
    let (cost, wrapper) = (Cost::new(), targets::c("rusage"));
    let command = (load.command)(seconds);
    let own = [text(&wrapper), text(cost.path())].into_iter();
    let words: Vec<&str> = own.chain(command.iter().map(String::as_str)).collect();
    let (before_ns, start) = (children_ns(), Instant::now());
    let (ran, raw) = match way {
        Way::Alone => (run(Command::new(words[0]).args(&words[1..])), None),
        Way::Perf(options) => {
            let file = targets::scratch("perf").join("data");
            let ran =
                run(Command::new("perf").args(["record", "-o", text(&file)]).args(options).arg("--").args(&words));
            std::fs::remove_file(&file).expect("perf wrote it");
            (ran, None)
        }
        Way::Sigtop(options) => {
            let watched = Batch::new(options).run(&words);
            (watched.ran, Some(watched.raw))
        }
    };
    let (spent_ns, wall_ns) = (children_ns() - before_ns, start.elapsed().as_nanos() as f64);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let target_ns = cost.cpu_ns();
    let others_ns = spent_ns - target_ns;
    let Some(raw) = raw else {
        return RunCost {
            wall_ns,
            target_ns,
            samples: f64::NAN,
            sampler_ns: others_ns,
            viewer_ns: f64::NAN,
            stopped_ns: f64::NAN,
        };
    };
    let sampler_ns = raw.number("agent-cpu") as f64;
    // The agent's thread is part of the target.
    let is_outside = matches!(way, Way::Sigtop(options) if options.contains("engine"));
    RunCost {
        wall_ns,
        target_ns,
        samples: raw.samples("prof") as f64,
        sampler_ns,
        viewer_ns: others_ns - if is_outside { sampler_ns } else { 0.0 },
        stopped_ns: raw.number("handler-cpu") as f64,
    }
}

/// The CPU time of the target, ns; percent of a CPU that the sampler and the viewer take; samples
/// per second; the mean time that a sample takes from its thread, µs; and the CPU time of the
/// sampler's start, ms.
type Figures = [f64; 6];

fn measure(load: &Load, way: Way, seconds: u64) -> Figures {
    let (short, long) = (run_for(load, way, seconds), run_for(load, way, 3 * seconds));
    let wall_ns = long.wall_ns - short.wall_ns;
    let sampler = (long.sampler_ns - short.sampler_ns) / wall_ns;
    [
        long.target_ns - short.target_ns,
        100.0 * sampler,
        100.0 * (long.viewer_ns - short.viewer_ns) / wall_ns,
        (long.samples - short.samples) / wall_ns * 1e9,
        long.stopped_ns / long.samples.max(1.0) / 1e3,
        (short.sampler_ns - sampler * short.wall_ns) / 1e6,
    ]
}

/// A program of fixed work that takes so many seconds alone.
fn work() -> Box<dyn Fn(u64) -> Vec<String>> {
    const ROUNDS: u64 = 2000;
    let (cost, wrapper, program) = (Cost::new(), targets::c("rusage"), text(&targets::cpp("work")).to_owned());
    let ran = run(Command::new(wrapper).arg(cost.path()).arg(&program).arg(ROUNDS.to_string()));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let second = (ROUNDS as f64 * 1e9 / cost.cpu_ns()) as u64;
    Box::new(move |seconds| vec![program.clone(), (second * seconds).to_string()])
}

/// Formats a figure and its interval, or nothing for what is not known.
fn show(figure: (f64, f64, f64), digits: usize) -> String {
    let (value, low, high) = figure;
    if value.is_nan() { "–".to_owned() } else { format!("{value:.digits$} ({low:.digits$} to {high:.digits$})") }
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
        Load { name: "fixed work", command: work(), is_fixed_work: true },
        Load { name: "1 busy thread", command: shares(1, "1"), is_fixed_work: false },
        Load { name: "64 busy threads", command: shares(2, "64"), is_fixed_work: false },
        Load { name: "1 000 sleepers", command: crowd("1000"), is_fixed_work: false },
        Load { name: "10 000 sleepers", command: crowd("10000"), is_fixed_work: false },
    ];
    println!("sampling from outside and by the agent, {rounds} interleaved rounds, 95 % intervals");
    println!(
        "{:<17} {:<16} {:>25} {:>22} {:>9} {:>10} {:>14} {:>9}",
        "", "", "target's CPU, ratio", "sampler %", "viewer %", "samples/s", "stop µs, mean", "start ms"
    );
    for load in loads.iter().take(argument("loads", loads.len() as u64) as usize) {
        let mut all: Vec<[Figures; WAYS.len()]> = Vec::new();
        for round in 0..rounds {
            let mut figures = [Figures::default(); WAYS.len()];
            for way in order(WAYS.len(), round) {
                figures[way] = measure(load, WAYS[way].1, seconds);
            }
            all.push(figures);
        }
        for (way, (name, _)) in WAYS.iter().enumerate() {
            let with_interval = |figure: &dyn Fn(&Figures, &Figures) -> f64| {
                bootstrap(&all, |rounds| median(rounds.iter().map(|figures| figure(&figures[way], &figures[0]))))
            };
            let ratio = with_interval(&|of, alone| if load.is_fixed_work { of[0] / alone[0] } else { f64::NAN });
            let sampler = with_interval(&|of, _| of[1]);
            let median = |figure: usize, digits: usize| {
                let value = median(all.iter().map(|figures| figures[way][figure]));
                if value.is_nan() { "–".to_owned() } else { format!("{value:.digits$}") }
            };
            println!(
                "{:<17} {name:<16} {:>25} {:>22} {:>9} {:>10} {:>14} {:>9}",
                load.name,
                show(ratio, 4),
                show(sampler, 2),
                median(2, 2),
                median(3, 1),
                median(4, 1),
                median(5, 1)
            );
        }
    }
}
