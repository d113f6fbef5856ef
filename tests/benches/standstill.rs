//! For how long a sample stops its thread, beside `perf` and, for Python, `py-spy`, where they are
//! installed: a program looks at the clock all the time, and as many of the longest times between
//! two looks as there are samples are taken for the stops. The first row is the machine alone. The
//! ratio is the target's CPU time per look, to that of the same round alone; the last column is the
//! CPU time of every other process that takes part.
//!
//! `cargo bench --bench standstill -- --rounds 5 --seconds 4`.

#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[path = "measure.rs"]
mod measure;

use std::path::Path;
use std::process::Command;

use harness::run::{SIGTOP, run, tool};
use harness::targets;
use measure::{argument, bootstrap, median, order};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Samples a second of every tool.
const RATE: u64 = 99;
/// Ways to run the target: a name, and the words before its command. `FILE` is a scratch file.
type Way = (&'static str, Vec<&'static str>);

fn ways(is_python: bool) -> Vec<Way> {
    let mut ways = vec![
        ("alone", vec![]),
        ("sigtop, agent", vec![SIGTOP, "record", "-o", "FILE.sigtop", "--"]),
        ("sigtop, perf events", vec![SIGTOP, "record", "--engine", "events", "-o", "FILE.sigtop", "--"]),
        ("sigtop, ptrace", vec![SIGTOP, "record", "--engine", "ptrace", "-o", "FILE.sigtop", "--"]),
        ("perf, --call-graph fp", vec!["perf", "record", "-F", "99", "--call-graph", "fp", "-o", "FILE", "--"]),
        ("perf, --call-graph dwarf", vec!["perf", "record", "-F", "99", "--call-graph", "dwarf", "-o", "FILE", "--"]),
    ];
    if is_python {
        ways.push(("py-spy", vec!["py-spy", "record", "-r", "99", "-o", "FILE", "--"]));
        ways.push(("py-spy --native", vec!["py-spy", "record", "--native", "-r", "99", "-o", "FILE", "--"]));
    }
    ways.retain(|(name, words)| {
        let is_there = words
            .first()
            .is_none_or(|tool| Command::new(tool).arg("--version").output().is_ok_and(|ran| ran.status.success()));
        if !is_there {
            println!("{name} is not measured: {} does not run", words[0]);
        }
        is_there
    });
    ways
}

/// CPU time of all child processes that have ended, ns.
fn children_ns() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("it is always known");
    1e3 * (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64
}

/// CPU time per look, ns; the median, the 99th percentile and the longest of the stops, µs; and
/// percent of a CPU that others took.
type Figures = [f64; 5];

fn measure(way: &Way, target: &[String], seconds: u64) -> Figures {
    let file = targets::scratch("standstill").join("samples").display().to_string();
    let tool = way.1.iter().map(|word| word.replace("FILE", &file));
    let words: Vec<String> = tool.chain(target.iter().cloned()).collect();
    let before_ns = children_ns();
    let ran = run(Command::new(&words[0]).args(&words[1..]));
    let spent_ns = children_ns() - before_ns;
    assert_eq!(ran.code(), 0, "{words:?}: {}", ran.err());
    let number = |name| ran.number(name) as f64;
    let others_percent = (spent_ns - number("process")) / seconds as f64 / 1e7;
    let [median, p99, longest] = ["median", "p99", "longest"].map(|name| number(name) / 1e3);
    [number("process") / number("looks"), median, p99, longest, others_percent]
}

fn main() {
    let (rounds, seconds) = (argument("rounds", 5), argument("seconds", 4));
    let numbers = [seconds.to_string(), (RATE * seconds).to_string()];
    // A wrapper that looks for an interpreter is no Python to py-spy.
    let interpreter = tool("python3").map_or_else(|| "python3".to_owned(), |path| path.display().to_string());
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/standstills.py");
    let loads = [
        ("C", vec![targets::c("standstills").display().to_string()]),
        ("Python", vec![interpreter, python.display().to_string()]),
    ];
    println!("stops of a thread at {RATE} Hz for {seconds} s, {rounds} interleaved rounds, 95 % intervals");
    for (name, command) in loads {
        let target: Vec<String> = command.into_iter().chain(numbers.clone()).collect();
        let ways = ways(name == "Python");
        let mut all: Vec<Vec<Figures>> = Vec::new();
        for round in 0..rounds {
            let mut figures = vec![Figures::default(); ways.len()];
            for way in order(ways.len(), round) {
                figures[way] = measure(&ways[way], &target, seconds);
            }
            all.push(figures);
        }
        let heads = ["target's CPU, ratio", "median µs", "p99 µs", "longest µs", "others' CPU %"];
        println!("{name:<25}{}", heads.map(|head| format!(" {head:>25}")).concat());
        for (way, (name, _)) in ways.iter().enumerate() {
            let show = |what: usize| {
                let (divides, digits) = if what == 0 { (true, 4) } else { (false, 1) };
                let figure =
                    |figures: &&Vec<Figures>| figures[way][what] / if divides { figures[0][what] } else { 1.0 };
                let (value, low, high) = bootstrap(&all, |rounds| median(rounds.iter().map(figure)));
                format!(" {:>25}", format!("{value:.digits$} ({low:.digits$} to {high:.digits$})"))
            };
            println!("{name:<25}{}", [0, 1, 2, 3, 4].map(show).concat());
        }
    }
}
