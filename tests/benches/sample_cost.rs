//! Cost of a sample for the target: CPU time of the whole process (wait4: user and system,
//! including the agent thread) per tick, as a slope over several frequencies, for a fixed piece of
//! C++ work.
//!
//! `cargo bench --bench sample_cost -- --rounds 15`. The frequencies exceed the kernel's own tick,
//! so the wall clock's interval timer is used: the work never sleeps, and the handler treats all
//! ticks alike. The slope is over the ticks that came, not over those requested. The same ticks
//! with an empty handler show the share of the kernel (and the machine) for any signal.

#[path = "cost.rs"]
mod cost;
#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[path = "measure.rs"]
mod measure;

use std::process::Command;

use cost::Cost;
use harness::run::{Batch, run, text};
use harness::targets;
use measure::{argument, bootstrap, median, order};

const RATES: [u64; 4] = [0, 1_000, 4_000, 16_000];

/// One run: ticks, lost ticks and CPU time, ns.
#[derive(Clone, Copy, Default)]
struct Point {
    ticks: f64,
    lost: f64,
    cpu_ns: f64,
}

/// An empty handler in its own preload.
fn measure_bare(rate: u64, work: &str) -> Point {
    let cost = Cost::new();
    let ticks = cost.path().with_extension("ticks");
    let period = 1_000_000u64.checked_div(rate).unwrap_or(0);
    let mut command = Command::new(targets::c("rusage"));
    command.arg(cost.path()).arg(targets::cpp("work")).arg(work).env("LD_PRELOAD", targets::preload("bare"));
    command.env("SIGTOP_TEST_TICK_US", period.to_string()).env("SIGTOP_TEST_TICKS", &ticks);
    let ran = run(&mut command);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let ticks = std::fs::read_to_string(ticks).expect("the preload wrote it");
    Point { ticks: ticks.trim().parse().expect("a number"), lost: 0.0, cpu_ns: cost.cpu_ns() }
}

/// The agent of sigtop.
fn measure(rate: u64, work: &str) -> Point {
    let (cost, wrapper, program) = (Cost::new(), targets::c("rusage"), targets::cpp("work"));
    // Without ticks, but watched: this is the fixed cost of being watched.
    let period = if rate == 0 { "10s".to_owned() } else { format!("{}us", 1_000_000.0 / rate as f64) };
    let batch = Batch::new(&format!("--clock real --engine itimer --period {period}"));
    let watched = batch.run(&[text(&wrapper), text(cost.path()), text(&program), work]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let pids: Vec<u32> =
        watched.raw.images.iter().filter(|image| image.executable.ends_with("/work")).map(|image| image.pid).collect();
    let samples: u64 =
        watched.raw.of("real").filter(|entry| pids.contains(&entry.pid)).map(|entry| entry.samples).sum();
    let lost = watched.raw.lost_all().0 as f64;
    Point { ticks: samples as f64 + lost, lost, cpu_ns: cost.cpu_ns() }
}

/// Median of the slopes between any two runs of a round, each weighted by the distance between the
/// runs; ns per tick.
fn slope(rounds: &[&[Point; RATES.len()]]) -> f64 {
    let mut slopes: Vec<(f64, f64)> = Vec::new();
    for points in rounds {
        for (i, low) in points.iter().enumerate() {
            for high in &points[i + 1..] {
                let apart = high.ticks - low.ticks;
                if apart > 0.0 {
                    slopes.push(((high.cpu_ns - low.cpu_ns) / apart, apart));
                }
            }
        }
    }
    slopes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = slopes.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let middle = slopes.iter().find(|(_, weight)| {
        sum += weight;
        sum >= half
    });
    middle.map_or(f64::NAN, |(slope, _)| *slope)
}

fn main() {
    let (rounds, work) = (argument("rounds", 15), argument("work", 4_000).to_string());
    let mut all: Vec<[Point; RATES.len()]> = Vec::new();
    let mut bare = Vec::new();
    for round in 0..rounds {
        let (mut points, mut bare_points) = ([Point::default(); RATES.len()], [Point::default(); RATES.len()]);
        for way in order(RATES.len(), round) {
            points[way] = measure(RATES[way], &work);
            bare_points[way] = measure_bare(RATES[way], &work);
        }
        all.push(points);
        bare.push(bare_points);
    }
    println!("cost of a sample, {rounds} interleaved rounds of work {work}");
    for (name, rounds) in [("sigtop", &all), ("empty handler", &bare)] {
        println!("{name:<14} {:>8} {:>14} {:>10} {:>14}", "asked Hz", "ticks/CPU s", "lost %", "CPU s");
        for (way, rate) in RATES.iter().enumerate() {
            let of = |value: fn(&Point) -> f64| median(rounds.iter().map(|points| value(&points[way])));
            let (ticks, lost, cpu) = (of(|point| point.ticks), of(|point| point.lost), of(|point| point.cpu_ns));
            let rate = format!("{:<14} {rate:>8}", "");
            println!("{rate} {:>14.0} {:>10.2} {:>14.4}", ticks / cpu * 1e9, 100.0 * lost / ticks.max(1.0), cpu / 1e9);
        }
        show(name, bootstrap(rounds, slope));
    }
    let pairs: Vec<_> = all.iter().zip(&bare).collect();
    let ours = |pairs: &[&(&[Point; RATES.len()], &[Point; RATES.len()])]| {
        let (all, bare): (Vec<_>, Vec<_>) = pairs.iter().copied().copied().unzip();
        slope(&all) - slope(&bare)
    };
    show("a sample alone", bootstrap(&pairs, ours));
}

fn show(name: &str, (value, low, high): (f64, f64, f64)) {
    println!("{name}: {:.2} µs a tick (95 % of bootstraps {:.2} to {:.2})", value / 1e3, low / 1e3, high / 1e3);
}
