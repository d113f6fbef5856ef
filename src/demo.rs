//! The target of `sigtop demo`: threads with known hot functions in known shares, in phases that change.
//!
//! It is an ordinary program (this same binary, started with a hidden argument through the preload as any target), so that the screen shows
//! real samples of it. Over each phase of ten seconds a worker spends its CPU time as its `shares` say.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Its source comes with the program, so that it can be looked at without a checkout: the end of the path, and the text.
pub const SOURCES: &[(&str, &str)] = &[("src/demo.rs", include_str!("demo.rs"))];

/// How long a phase lasts.
const PHASE: Duration = Duration::from_secs(10);
/// CPU time of one turn, shared out among the functions.
const TURN: Duration = Duration::from_millis(20);

/// How often the main thread looks around.
const LOOK: Duration = Duration::from_millis(500);

/// Runs until it is ended, or for so long, or until the viewer (a pid) that started it is gone.
pub fn run(duration: Option<Duration>, viewer: Option<u32>) {
    let end = duration.map(|duration| Instant::now() + duration);
    let spawn = |name: &str, work: fn(usize, Duration), idle: Duration| {
        let body = move || worker(work, idle);
        std::thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread can be started")
    };
    println!("demo: three workers, a new phase every {} seconds", PHASE.as_secs());
    // They end with the process.
    let _workers = [
        spawn("parser", parse, Duration::ZERO),
        spawn("renderer", render, Duration::from_millis(20)),
        spawn("compressor", compress, Duration::from_millis(60)),
    ];
    // A real target outlives the viewer; a demo has no use then.
    let viewer = viewer.map(|pid| PathBuf::from(format!("/proc/{pid}")));
    let start = Instant::now();
    let mut phase = 0;
    while end.is_none_or(|end| Instant::now() < end) && viewer.as_ref().is_none_or(|viewer| viewer.exists()) {
        std::thread::sleep(LOOK);
        let now = start.elapsed().as_secs() / PHASE.as_secs();
        if now != phase {
            phase = now;
            println!("demo: phase {phase} after {} s", start.elapsed().as_secs());
        }
    }
}

fn worker(work: fn(usize, Duration), idle: Duration) {
    let start = Instant::now();
    loop {
        let phase = (start.elapsed().as_secs() / PHASE.as_secs()) as usize;
        work(phase, TURN);
        if !idle.is_zero() {
            std::thread::sleep(idle);
        }
    }
}

/// Spends `part` in 100 of `turn`, of this thread's CPU time, in calls of `work`.
fn spend(turn: Duration, part: u32, mut work: impl FnMut()) {
    let cpu = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::MAX, Duration::from);
    let until = cpu() + turn * part / 100;
    while cpu() < until {
        work();
    }
}

#[inline(never)]
fn parse(phase: usize, turn: Duration) {
    let (values, strings) = if phase.is_multiple_of(2) { (60, 30) } else { (20, 70) };
    spend(turn, values, parse_value);
    spend(turn, strings, parse_string);
    spend(turn, 100 - values - strings, skip_space);
}

#[inline(never)]
fn parse_value() {
    let text = black_box(b"-1234567.890123e-12");
    let mut value = 0f64;
    for _ in 0..200 {
        for &byte in text {
            value = black_box(value * 10.0 + f64::from(byte & 15));
        }
    }
    black_box(value);
}

#[inline(never)]
fn parse_string() {
    let text = black_box("a string of some length, with \\n escapes and \u{fc}mlauts").repeat(20);
    black_box(text.chars().filter(|c| !c.is_ascii()).count());
}

#[inline(never)]
fn skip_space() {
    let text = black_box([b' '; 4096]);
    black_box(text.iter().take_while(|byte| byte.is_ascii_whitespace()).count());
}

#[inline(never)]
fn render(phase: usize, turn: Duration) {
    spend(turn, 50, draw_glyphs);
    layout(turn, if phase % 3 == 2 { 50 } else { 25 });
    if phase % 3 != 2 {
        spend(turn, 25, blend);
    }
}

#[inline(never)]
fn draw_glyphs() {
    let mut canvas = black_box([0u32; 1024]);
    for row in 0..32u32 {
        for (column, pixel) in canvas.iter_mut().enumerate() {
            *pixel = pixel.wrapping_mul(31) ^ row ^ column as u32;
        }
        black_box(&mut canvas);
    }
}

#[inline(never)]
fn layout(turn: Duration, part: u32) {
    spend(turn, part, || {
        black_box(measure(12));
    });
}

#[inline(never)]
fn measure(depth: u32) -> u64 {
    if depth == 0 { black_box(1) } else { measure(depth - 1) + black_box(measure(depth.saturating_sub(3))) }
}

#[inline(never)]
fn blend() {
    let mut pixels = black_box([7u8; 2048]);
    for alpha in 0..16u8 {
        for pixel in &mut pixels {
            *pixel = ((u16::from(*pixel) * 200 + u16::from(alpha) * 55) / 255) as u8;
        }
        black_box(&mut pixels);
    }
}

#[inline(never)]
fn compress(_phase: usize, turn: Duration) {
    spend(turn, 80, find_matches);
    spend(turn, 20, checksum);
}

#[inline(never)]
fn find_matches() {
    let data: Vec<u8> = (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 27) as u8).collect();
    let best = data.windows(8).map(|window| data[..64].windows(8).filter(|other| *other == window).count()).max();
    black_box(best);
}

#[inline(never)]
fn checksum() {
    let (mut a, mut b) = (1u32, 0u32);
    for n in 0..black_box(16_384u32) {
        a = (a + (n & 255)) % 65_521;
        b = (b + a) % 65_521;
    }
    black_box(a ^ b);
}
