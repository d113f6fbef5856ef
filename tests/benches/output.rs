//! Bytes a second that the screen of a busy target takes. Then the cost of the screen for a target
//! that floods its terminal: throughput of the same stream into a plain pty, drained by a reader
//! that does nothing else, and into sigtop's, interleaved; and the time until a key is answered
//! meanwhile.
//!
//! `cargo bench --bench output -- --rounds 10 --megabytes 256 --seconds 20`; `--rounds 0` for the
//! bytes alone.

#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[path = "measure.rs"]
mod measure;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::run::SIGTOP;
use harness::targets;
use harness::terminal::Terminal;
use measure::{argument, bootstrap, median, order};
use nix::pty::{Winsize, openpty};

/// The written text: short lines (a terminal accepts fewer bytes of them in the same time, so an
/// eighth is written), lines of a log, the same with colors, and full screens.
const KINDS: [(&str, u64); 4] = [("yes", 8), ("log", 1), ("color", 1), ("screen", 1)];

/// The target, and the file into which it writes its time.
fn flood(kind: &str, megabytes: u64) -> (Vec<String>, std::path::PathBuf) {
    let file = targets::scratch("flood").join("time");
    let bytes = (megabytes * 1_000_000).to_string();
    let program = targets::c("flood").display().to_string();
    (vec![program, kind.to_owned(), bytes, file.display().to_string()], file)
}

fn seconds(file: &Path) -> Option<f64> {
    std::fs::read_to_string(file).ok()?.trim().parse::<f64>().ok().map(|ns| ns / 1e9)
}

/// Seconds that the target needs to write into a pty that is only drained.
fn plain(kind: &str, megabytes: u64) -> f64 {
    let (words, file) = flood(kind, megabytes);
    let size = Winsize { ws_row: 45, ws_col: 140, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).expect("a pty");
    let end = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
    let mut child =
        Command::new(&words[0]).args(&words[1..]).stdin(end()).stdout(end()).stderr(end()).spawn().expect("the target");
    drop(pty.slave);
    let (mut master, mut buffer) = (File::from(pty.master), vec![0; 65536]);
    while master.read(&mut buffer).is_ok_and(|count| count > 0) {}
    child.wait().expect("a child");
    seconds(&file).expect("the target wrote its time")
}

/// Seconds under sigtop, and milliseconds until each key was answered.
fn watched(kind: &str, megabytes: u64) -> (f64, Vec<f64>) {
    let (words, file) = flood(kind, megabytes);
    let mut command = Command::new(SIGTOP);
    command.arg("--no-config").arg("--").args(&words);
    let mut terminal = Terminal::start(140, 45, &command);
    let mut keys = Vec::new();
    terminal.see("6 Output");
    // The target may end before the first key is answered; the keys are then those after its end.
    loop {
        for (key, is_page) in [("?", true), ("\x1b", false)] {
            let pressed = Instant::now();
            terminal.keys(key);
            terminal.wait("the answer to a key", |screen| screen.contents().contains("Keys and terms") == is_page);
            keys.push(pressed.elapsed().as_secs_f64() * 1e3);
            terminal.wait_up_to(Duration::from_millis(50), |_| false);
        }
        if seconds(&file).is_some() {
            break;
        }
    }
    terminal.see("exited with status 0");
    terminal.keys("q");
    terminal.finish();
    (seconds(&file).expect("it is there"), keys)
}

/// Bytes a second of the dashboard of the demo at 140 by 45, once its window is full.
fn screen_bytes(seconds: u64) -> f64 {
    let mut command = Command::new(SIGTOP);
    command.args(["demo", "--no-config", "--window", "2s", "--on-quit", "end"]);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see("samples in 2 s");
    terminal.wait_up_to(Duration::from_secs(5), |_| false);
    let (before, started) = (terminal.received, Instant::now());
    terminal.wait_up_to(Duration::from_secs(seconds), |_| false);
    let rate = (terminal.received - before) as f64 / started.elapsed().as_secs_f64();
    terminal.keys("q");
    terminal.finish();
    rate
}

fn main() {
    println!("{:.1} KB a second on the dashboard of the demo", screen_bytes(argument("seconds", 20)) / 1e3);
    let (rounds, megabytes) = (argument("rounds", 10), argument("megabytes", 256));
    if rounds == 0 {
        return;
    }
    println!("a flood of {megabytes} MB, {rounds} interleaved rounds");
    println!(
        "{:<8} {:>12} {:>12} {:>8}   {:<20} {:>14} {:>8}",
        "", "plain MB/s", "sigtop MB/s", "ratio", "95 % of bootstraps", "key ms, median", "worst"
    );
    for (kind, part) in KINDS {
        let megabytes = megabytes / part;
        let (mut all, mut keys) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let mut times = [0.0; 2];
            for way in order(2, round) {
                times[way] = match way {
                    0 => plain(kind, megabytes),
                    _ => {
                        let (time, pressed) = watched(kind, megabytes);
                        keys.extend(pressed);
                        time
                    }
                };
            }
            all.push(times);
        }
        let of = |way: usize| median(all.iter().map(|times| times[way]));
        let (ratio, low, high) = bootstrap(&all, |rounds| median(rounds.iter().map(|times| times[0] / times[1])));
        let rate = |way: usize| megabytes as f64 / of(way);
        println!(
            "{kind:<8} {:>12.1} {:>12.1} {ratio:>8.3}   {:<20} {:>14.0} {:>8.0}",
            rate(0),
            rate(1),
            format!("{low:.3} to {high:.3}"),
            median(keys.iter().copied()),
            keys.iter().copied().fold(0.0, f64::max)
        );
    }
}
