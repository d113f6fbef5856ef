//! A real agent whose clock, engine and rate are changed repeatedly (a thousand times with
//! `SIGTOP_LONG=1`): every request is answered, no timer is lost or left behind, and the counters
//! add up.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sigtop::wire::{
    AgentCounters, Clock, Engaged, Engine, EngineState, Message, Request, Writer, decode_message, split_frame,
    stack_memory,
};

use super::guest::agent;
use super::viewer::accept;
use crate::harness::inspect::look;
use crate::harness::run::LIMIT;
use crate::harness::targets;

/// The shortest period used, ns.
const PERIOD_NS: u64 = 4_000_000;

/// A viewer played by the test: the bytes not decoded yet, and the decoded messages.
struct Viewer {
    stream: UnixStream,
    bytes: Vec<u8>,
    memory: Box<[sigtop::wire::StoredStack]>,
    engaged: Vec<Engaged>,
    samples: u64,
    counters: Option<AgentCounters>,
}

impl Viewer {
    /// Reads until this many requests are answered or the agent disconnects.
    fn await_answers(&mut self, count: usize) {
        let deadline = Instant::now() + LIMIT;
        while self.engaged.len() < count {
            assert!(Instant::now() < deadline, "{} answers of {count}", self.engaged.len());
            if !self.read() {
                return;
            }
        }
    }

    fn read(&mut self) -> bool {
        let mut part = [0; 65536];
        match self.stream.read(&mut part) {
            Ok(0) => return false,
            Ok(length) => self.bytes.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
        let mut decoded = 0;
        while let Some(framed) = split_frame(&self.bytes[decoded..]).expect("a valid message") {
            match decode_message(framed.kind, framed.body, &mut self.memory).expect("a valid message") {
                Message::Engaged(engaged) => self.engaged.push(engaged),
                Message::Sample(..) => self.samples += 1,
                Message::Counters(counters) => self.counters = Some(counters),
                _ => {}
            }
            decoded += framed.size;
        }
        self.bytes.drain(..decoded);
        true
    }

    fn send(&mut self, request: &Request) {
        let mut bytes = [0; 64];
        let mut writer = Writer::new(&mut bytes, 0);
        writer.write_request(request).expect("room");
        let length = writer.length();
        self.stream.write_all(&bytes[..length]).expect("the agent reads");
    }
}

/// Starts a program, and accepts its agent.
fn start(command: &mut Command) -> (Child, Viewer) {
    let path = targets::scratch("switches").join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let link = format!("77:{}:{PERIOD_NS}:0:{}", std::process::id(), path.display());
    let child = command.env("LD_PRELOAD", agent()).env("SIGTOP_LINK", link).spawn().expect("a target");
    let stream = accept(&listener);
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
    let viewer =
        Viewer { stream, bytes: Vec::new(), memory: stack_memory(), engaged: Vec::new(), samples: 0, counters: None };
    (child, viewer)
}

#[test]
fn changing_clock_and_engine_leaves_no_timer_or_descriptor_behind() {
    let (mut child, mut viewer) = start(Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()));
    let pid = child.id();
    let configurations = [
        (Clock::Prof, Engine::Threads),
        (Clock::Prof, Engine::Itimer),
        (Clock::Real, Engine::Threads),
        (Clock::Virtual, Engine::Itimer),
        (Clock::Real, Engine::Itimer),
        (Clock::Virtual, Engine::Threads),
    ];
    let mut descriptors = Vec::new();
    // In 30 rounds, each configuration has each period.
    let rounds = if std::env::var_os("SIGTOP_LONG").is_some() { 1000 } else { 30 };
    for round in 0..rounds {
        let (clock, engine) = configurations[round * 7 % configurations.len()];
        let period_ns = PERIOD_NS * (1 + round as u64 % 5);
        viewer.send(&Request::Engage { clock, engine, period_ns, per_second: 0, is_continued: false });
        viewer.await_answers(round + 1);
        let answer = viewer.engaged.get(round).cloned();
        let answer = answer.unwrap_or_else(|| panic!("no answer in round {round}: {:?}", child.try_wait()));
        assert_eq!((answer.clock, answer.engine, answer.period_ns), (clock, engine, period_ns), "round {round}");
        let expected = match (clock, engine) {
            (Clock::Virtual, Engine::Threads) => EngineState::Unsupported,
            _ => EngineState::Running,
        };
        assert_eq!(answer.state, expected, "round {round}");
        // One timer of its thread, and one of the process.
        assert!(look(pid).timers <= 2, "round {round}: {:?}", look(pid));
        if round == 10 {
            descriptors = look(pid).descriptors;
        }
    }
    assert_eq!(look(pid).descriptors, descriptors);
    // Samples still come.
    viewer.send(&Request::Engage {
        clock: Clock::Prof,
        engine: Engine::Threads,
        period_ns: PERIOD_NS,
        per_second: 0,
        is_continued: false,
    });
    viewer.await_answers(rounds + 1);
    let before = viewer.samples;
    let deadline = Instant::now() + LIMIT;
    while viewer.samples < before + 50 {
        assert!(
            Instant::now() < deadline && viewer.read(),
            "{} samples since the last switch",
            viewer.samples - before
        );
    }
    let counters = viewer.counters.clone().expect("counters come once a second");
    let lost: u64 = counters.lost_ticks.iter().sum();
    assert!(counters.ticks <= counters.sent + lost + 64, "{counters:?}");
    viewer.send(&Request::Leave);
    while viewer.read() {
        assert!(Instant::now() < deadline, "the agent does not disconnect");
    }
    while look(pid).timers + look(pid).threads > 1 {
        assert!(Instant::now() < deadline, "{:?}", look(pid));
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("ours");
    child.wait().expect("ours");
}

/// Returns whether SIGALRM is pending for a process.
fn has_alarm(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).expect("a mask");
    u64::from_str_radix(pending.trim(), 16).expect("a mask") & 1 << (Signal::SIGALRM as u32 - 1) != 0
}

/// Regression test: a tick of an interval timer that was pending while another clock was chosen,
/// and a third, or for half a second, ended the program.
#[test]
fn a_tick_that_comes_after_two_switches_does_no_harm() {
    let mut command = Command::new(targets::c("blocks_alarm"));
    let (child, mut viewer) = start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let classic = [(Clock::Real, Engine::Itimer), (Clock::Virtual, Engine::Itimer), (Clock::Prof, Engine::Threads)];
    for (round, (clock, engine)) in classic.into_iter().enumerate() {
        viewer.send(&Request::Engage { clock, engine, period_ns: PERIOD_NS, per_second: 0, is_continued: false });
        viewer.await_answers(round + 1);
        let deadline = Instant::now() + LIMIT;
        while !has_alarm(child.id()) {
            assert!(Instant::now() < deadline && viewer.read(), "no tick of the wall clock");
        }
    }
    // Counters come once a second.
    viewer.counters = None;
    let deadline = Instant::now() + LIMIT;
    while viewer.counters.is_none() {
        assert!(Instant::now() < deadline && viewer.read(), "no counters");
    }
    let ran = child.wait_with_output().expect("ours");
    assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stdout).as_ref()), (Some(0), "blocked\nalive\n"));
}
