//! Time from a key, written to a terminal, to the cell that it changes on a model of the screen,
//! and the viewer's CPU and memory use meanwhile. The target is a synthetic agent that speaks the
//! real wire format: 8 000 samples per second, 200 000 distinct stacks of 60 frames, after ten
//! minutes of history at the same rate.
//!
//! `cargo bench --bench key_to_paint -- --keys 300`. It fails if fewer than [`LEAST_RATE`] samples
//! per second arrived: the figures would be for a lighter load. `--rate`, `--stacks`, `--past`
//! (seconds) and `--settle` (seconds before the first key) change the load; `--frozen 1` presses
//! keys on a frozen screen, with the timeline of the whole history.

#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[expect(dead_code, reason = "a bench uses a part of what the benches share")]
#[path = "measure.rs"]
mod measure;
#[expect(dead_code, reason = "a bench uses a part of what the benches share")]
#[path = "speaker.rs"]
mod speaker;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use harness::run::SIGTOP;
use harness::targets;
use harness::terminal::Terminal;
use measure::argument;
use vt100::Screen;

/// Minimum number of samples per second that must arrive, of 8 000.
const LEAST_RATE: f64 = 7_900.0;
/// Length of the pauses in the output that separate frames.
const BETWEEN_FRAMES: Duration = Duration::from_millis(4);
/// Time after which a key that has not been painted counts as lost.
const LIMIT: Duration = Duration::from_secs(5);
/// History at the start: the maximum that is kept.
const PAST_SECONDS: u64 = 600;
/// Length of the window, and its average fill: its last bucket is incomplete.
const WINDOW: &str = "10s";
const WINDOW_SECONDS: f64 = 9.95;

/// CPU time of all threads of a process, in seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let of = |task: &Path| {
        let text = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0)
    };
    tasks.flatten().map(|task| of(&task.path())).sum::<f64>() / 1e9
}

/// Resident memory of a process, MB.
fn resident_mb(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
}

/// The selected row of the top list.
fn selected(screen: &Screen) -> Option<String> {
    screen.rows(0, screen.size().1.into()).find(|row| row.starts_with('▸'))
}

/// The function of a row: its last words.
fn name(row: &str) -> String {
    row.split('│')
        .next()
        .unwrap_or(row)
        .split("  ")
        .filter(|part| !part.trim().is_empty())
        .last()
        .unwrap_or("")
        .to_owned()
}

/// Number of samples in the window, according to the header.
fn samples(screen: &Screen) -> Option<f64> {
    let line = screen.rows(0, screen.size().1.into()).nth(1)?;
    let before = line.split(" sample").next()?;
    let digits: Vec<char> =
        before.chars().rev().take_while(|c| c.is_ascii_digit() || matches!(c, ' ' | '\u{202f}' | '\u{a0}')).collect();
    digits.iter().rev().filter(|c| c.is_ascii_digit()).collect::<String>().parse().ok()
}

/// Keys and the changes that they cause.
enum Change {
    /// Another row is selected.
    Selection,
    /// A help page opens.
    Help,
    /// The help page closes.
    NoHelp,
}

const KEYS: [(&str, Change); 6] = [
    ("j", Change::Selection),
    ("j", Change::Selection),
    ("?", Change::Help),
    ("?", Change::NoHelp),
    ("k", Change::Selection),
    ("k", Change::Selection),
];

struct Loaded {
    latencies_ms: Vec<f64>,
    frames: f64,
    rate: f64,
    /// CPU share without keys, and while keys are pressed.
    watching: f64,
    pressing: f64,
    /// Frames per second without keys.
    watched_frames: f64,
    resident_mb: f64,
}

fn loaded(keys: u64) -> Loaded {
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(SIGTOP);
    command.args(["--no-config", "--on-quit", "end", "--window", WINDOW, "--"]).arg(own);
    command.args(speaker::arguments(
        argument("rate", 8_000),
        argument("stacks", speaker::STACKS),
        argument("past", PAST_SECONDS),
    ));
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see(" samples");
    let settle = Duration::from_secs(argument("settle", 40));
    terminal.wait_up_to(settle, |_| false);
    // Rows are sorted by name, so that they do not move under the selection.
    terminal.keys(":sort=name\r");
    terminal.wait_up_to(Duration::from_secs(1), |_| false);
    terminal.keys("g");
    terminal.wait_up_to(Duration::from_secs(1), |_| false);
    terminal.wait("a selection", |screen| selected(screen).is_some());
    if argument("frozen", 0) > 0 {
        terminal.keys(" ");
        terminal.see(" each");
    }

    let (mut drawn, mut last) = (0u64, Instant::now());
    let (began, cpu) = (Instant::now(), cpu_seconds(terminal.pid()));
    terminal.wait_up_to(Duration::from_secs(argument("look", 20)), |_| {
        let now = Instant::now();
        drawn += u64::from(now - last >= BETWEEN_FRAMES);
        last = now;
        false
    });
    let seconds = began.elapsed().as_secs_f64();
    let (watching, watched_frames) = ((cpu_seconds(terminal.pid()) - cpu) / seconds, drawn as f64 / seconds);

    let mut random = 7;
    let (mut latencies_ms, mut rates) = (Vec::new(), Vec::new());
    let (mut frames, mut last) = (0u64, Instant::now());
    let (began, cpu) = (Instant::now(), cpu_seconds(terminal.pid()));
    for index in 0..keys {
        let mut seen = |screen: &Screen, done: &dyn Fn(&Screen) -> bool| {
            let now = Instant::now();
            frames += u64::from(now - last >= BETWEEN_FRAMES);
            last = now;
            done(screen)
        };
        random += 1;
        let pause = Duration::from_micros(20_000 + speaker::mixed(random) % 130_000);
        terminal.wait_up_to(pause, |screen| seen(screen, &|_| false));
        rates.extend(samples(terminal.screen()));
        let (key, change) = &KEYS[index as usize % KEYS.len()];
        let before = selected(terminal.screen()).map(|row| name(&row));
        let written = Instant::now();
        terminal.keys(key);
        let painted = terminal.wait_up_to(LIMIT, |screen| {
            seen(screen, &|screen| match change {
                Change::Selection => selected(screen).map(|row| name(&row)) != before,
                Change::Help => screen.contents().contains("page"),
                Change::NoHelp => selected(screen).is_some(),
            })
        });
        assert!(painted, "the key {key} changed nothing\n{}", terminal.text());
        latencies_ms.push(written.elapsed().as_secs_f64() * 1e3);
    }
    let seconds = began.elapsed().as_secs_f64();
    let pressing = (cpu_seconds(terminal.pid()) - cpu) / seconds;
    let resident_mb = resident_mb(terminal.pid());
    if argument("show", 0) > 0 {
        println!("{}", terminal.text());
    }
    terminal.keys("q");
    terminal.finish();
    latencies_ms.sort_by(f64::total_cmp);
    let rate = measure::median(rates) / WINDOW_SECONDS;
    Loaded { latencies_ms, frames: frames as f64 / seconds, rate, watching, pressing, watched_frames, resident_mb }
}

/// The viewer's CPU share over a real target.
fn quiet(target: &Path, arguments: &[&str]) -> f64 {
    let mut command = Command::new(SIGTOP);
    command.args(["--no-config", "--on-quit", "end", "--"]).arg(target).args(arguments);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see(" samples in ");
    terminal.wait_up_to(Duration::from_secs(5), |_| false);
    let (began, cpu) = (Instant::now(), cpu_seconds(terminal.pid()));
    terminal.wait_up_to(Duration::from_secs(argument("seconds", 20)), |_| false);
    let share = (cpu_seconds(terminal.pid()) - cpu) / began.elapsed().as_secs_f64();
    terminal.keys("q");
    terminal.finish();
    share
}

fn main() -> ExitCode {
    speaker::speak_if_told();
    let loaded = loaded(argument("keys", 300).max(1));
    let Loaded { latencies_ms, frames, rate, watching, pressing, watched_frames, resident_mb } = loaded;
    let at = |part: f64| latencies_ms[((latencies_ms.len() - 1) as f64 * part).round() as usize];
    println!(
        "key to paint, {} keys: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        latencies_ms.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    println!("{frames:.1} frames a second, {rate:.0} samples a second arrived, {resident_mb:.0} MB resident");
    println!(
        "viewer's CPU while nobody touches a key: {:.2} % of a core, {watched_frames:.1} frames a second",
        watching * 100.0
    );
    println!("viewer's CPU while keys are pressed: {:.2} % of a core", pressing * 100.0);
    if argument("quiet", 1) > 0 {
        let busy = quiet(&targets::c("shares"), &["60", "30", "10", "120", "2"]);
        println!("viewer's CPU, two busy threads at 99 Hz: {:.2} % of a core", busy * 100.0);
        let idle = quiet(&targets::c("longsleep"), &["60"]);
        println!("viewer's CPU, a target that sleeps: {:.2} % of a core", idle * 100.0);
    }
    if rate < LEAST_RATE {
        println!("fewer than {LEAST_RATE} samples a second arrived: the machine is too busy for these figures");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
