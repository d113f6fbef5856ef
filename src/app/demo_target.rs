//! The target of `sigtop demo`: threads with known hot functions in known shares, in changing
//! phases, a lock that is fought for, and a leak.
//!
//! It is this binary with a hidden argument, preloaded like any target, so that the screen shows
//! real samples. Its functions are in modules, as those of a real program are. In each phase of
//! eight seconds, the workers divide their CPU time differently, and the compressor works more or
//! less.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// This source file, embedded so that it can be shown without a checkout: the end of its path, and
/// its text.
pub(super) const SOURCES: &[(&str, &str)] = &[("src/app/demo_target.rs", include_str!("demo_target.rs"))];

/// Length of a phase.
const PHASE: Duration = Duration::from_secs(8);
/// CPU time of one turn, divided among the functions of a worker.
const TURN: Duration = Duration::from_millis(20);

/// Time between two checks of the main thread.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Runs until it is terminated, for `duration`, or until the process `viewer` has exited.
pub(super) fn run(duration: Option<Duration>, viewer: Option<u32>) {
    let end = duration.map(|duration| Instant::now() + duration);
    let spawn = |name: &str, work: fn(usize, Duration), idle: [Duration; 2]| {
        let body = move || worker(work, idle);
        std::thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread can be started")
    };
    println!("demo: seven threads, a new phase every {} seconds", PHASE.as_secs());
    // The threads end with the process.
    let _workers = [
        spawn("parser", json::parse, [0, 0].map(Duration::from_millis)),
        spawn("renderer", canvas::render, [20, 20].map(Duration::from_millis)),
        spawn("compressor", deflate::compress, [80, 5].map(Duration::from_millis)),
        spawn("compactor", cache::compact, [20, 20].map(Duration::from_millis)),
        spawn("reader-0", cache::look_up, [2, 2].map(Duration::from_millis)),
        spawn("reader-1", cache::look_up, [2, 2].map(Duration::from_millis)),
        spawn("sessions", session::open, [60, 60].map(Duration::from_millis)),
    ];
    // Unlike a real target, the demo is useless without its viewer.
    let viewer = viewer.map(|pid| PathBuf::from(format!("/proc/{pid}")));
    let start = Instant::now();
    let mut phase = 0;
    while end.is_none_or(|end| Instant::now() < end) && viewer.as_ref().is_none_or(|viewer| viewer.exists()) {
        std::thread::sleep(CHECK_INTERVAL);
        let now = start.elapsed().as_secs() / PHASE.as_secs();
        if now != phase {
            phase = now;
            println!("demo: phase {phase} after {} s", start.elapsed().as_secs());
        }
    }
}

/// Works in turns. `idle` is the time between two of them in even and in odd phases.
fn worker(work: fn(usize, Duration), idle: [Duration; 2]) {
    let start = Instant::now();
    loop {
        let phase = (start.elapsed().as_secs() / PHASE.as_secs()) as usize;
        work(phase, TURN);
        if !idle[phase % 2].is_zero() {
            std::thread::sleep(idle[phase % 2]);
        }
    }
}

/// Calls `work` until this thread has used `percent` of `turn` in CPU time.
fn spend(turn: Duration, percent: u32, mut work: impl FnMut()) {
    let cpu = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::MAX, Duration::from);
    let until = cpu() + turn * percent / 100;
    while cpu() < until {
        // Reading the clock takes about as long as a turn of some of the work.
        for _ in 0..16 {
            work();
        }
    }
}

/// The work of the parser.
mod json {
    use std::hint::black_box;
    use std::time::Duration;

    use super::spend;

    #[inline(never)]
    pub(super) fn parse(phase: usize, turn: Duration) {
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
}

/// The work of the renderer.
mod canvas {
    use std::hint::black_box;
    use std::time::Duration;

    use super::spend;

    #[inline(never)]
    pub(super) fn render(phase: usize, turn: Duration) {
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
    fn layout(turn: Duration, percent: u32) {
        spend(turn, percent, || {
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
}

/// The work of the compressor.
mod deflate {
    use std::hint::black_box;
    use std::time::Duration;

    use super::spend;

    #[inline(never)]
    pub(super) fn compress(_phase: usize, turn: Duration) {
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
}

/// The work of the compactor, for which the readers wait: it holds the lock of the cache while it
/// computes and sleeps.
mod cache {
    use std::hint::black_box;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use super::spend;

    static ENTRIES: Mutex<Vec<u64>> = Mutex::new(Vec::new());

    #[inline(never)]
    pub(super) fn compact(_phase: usize, turn: Duration) {
        let mut entries = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
        spend(turn, 50, || rehash(&mut entries));
        // As if it wrote to a disk.
        std::thread::sleep(turn);
    }

    #[inline(never)]
    fn rehash(entries: &mut Vec<u64>) {
        entries.clear();
        entries.extend((0..4096u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7));
        entries.sort_unstable();
        black_box(entries);
    }

    #[inline(never)]
    pub(super) fn look_up(_phase: usize, turn: Duration) {
        let entries = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
        let found = (0..64).filter(|key| entries.binary_search(key).is_ok()).count();
        drop(entries);
        spend(turn, 1, || {
            black_box(found);
        });
    }
}

/// The leak: sessions are opened and never closed.
mod session {
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    /// Size of a session. One is opened 16 times a second.
    const BYTES: usize = 64 << 10;
    /// Number of sessions beyond which the demo closes them all: 256 MiB, after four minutes.
    const MAX_SESSIONS: usize = 4096;

    static OPEN: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

    #[inline(never)]
    pub(super) fn open(_phase: usize, _turn: Duration) {
        let session = vec![1u8; BYTES];
        let mut sessions = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() == MAX_SESSIONS {
            sessions.clear();
        }
        sessions.push(session);
    }
}
