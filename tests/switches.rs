//! A real agent told to change clock, engine and rate again and again (`SIGTOP_LONG=1`: a thousand times): every request is answered, no timer is lost or left, and the books are even.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sigtop::link::wire::{
    Account, Clock, Engaged, Engine, EngineState, Message, Request, Writer, frame, message, stack_memory,
};

const LONG: Duration = Duration::from_secs(60);
/// Longest period, ns, so that every tick of the busy time is one sample.
const PERIOD_NS: u64 = 4_000_000;

/// The viewer, played here: what it has read and not understood yet, and what it was told.
struct Viewer {
    stream: UnixStream,
    bytes: Vec<u8>,
    memory: Box<[sigtop::link::wire::StoredStack]>,
    engaged: Vec<Engaged>,
    samples: u64,
    account: Option<Account>,
}

impl Viewer {
    /// Reads until this many requests are answered, or the agent hangs up.
    fn await_answers(&mut self, count: usize) {
        let deadline = Instant::now() + LONG;
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
        let mut taken = 0;
        while let Some(framed) = frame(&self.bytes[taken..]).expect("an agent makes sense") {
            match message(framed.kind, framed.body, &mut self.memory).expect("an agent makes sense") {
                Message::Engaged(engaged) => self.engaged.push(engaged),
                Message::Sample(..) => self.samples += 1,
                Message::Account(account) => self.account = Some(account),
                _ => {}
            }
            taken += framed.size;
        }
        self.bytes.drain(..taken);
        true
    }

    fn say(&mut self, request: &Request) {
        let mut bytes = [0; 64];
        let mut writer = Writer::new(&mut bytes, 0);
        writer.request(request).expect("room");
        let length = writer.length();
        self.stream.write_all(&bytes[..length]).expect("the agent listens");
    }
}

/// The agent's file.
fn agent() -> PathBuf {
    let out = Command::new(env!("CARGO_BIN_EXE_sigtop")).args(["env", "--path"]).output().expect("sigtop");
    PathBuf::from(String::from_utf8_lossy(&out.stdout).trim())
}

/// A shell that works without end, and its agent, which has called.
fn target(directory: &Path) -> (Child, Viewer) {
    fs::create_dir_all(directory).expect("writable");
    let path = directory.join("socket");
    let _left_by_an_earlier_run = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a socket");
    let link = format!("77:{}:{PERIOD_NS}:0:{}", std::process::id(), path.display());
    let child = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .env("LD_PRELOAD", agent())
        .env("SIGTOP_LINK", link)
        .stdin(Stdio::null())
        .spawn()
        .expect("sh");
    let (stream, _) = listener.accept().expect("the agent calls");
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
    let viewer =
        Viewer { stream, bytes: Vec::new(), memory: stack_memory(), engaged: Vec::new(), samples: 0, account: None };
    (child, viewer)
}

fn entries(pid: u32, of: &str) -> usize {
    fs::read_dir(format!("/proc/{pid}/{of}")).map_or(0, Iterator::count)
}

fn timers(pid: u32) -> usize {
    let timers = fs::read_to_string(format!("/proc/{pid}/timers")).unwrap_or_default();
    timers.lines().filter(|line| line.starts_with("ID:")).count()
}

#[test]
fn switches_leave_nothing_behind() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("switches-{}", std::process::id()));
    let (mut child, mut viewer) = target(&directory);
    let pid = child.id();
    let ways = [
        (Clock::Prof, Engine::Threads),
        (Clock::Prof, Engine::Itimer),
        (Clock::Real, Engine::Threads),
        (Clock::Virtual, Engine::Itimer),
        (Clock::Real, Engine::Itimer),
        (Clock::Virtual, Engine::Threads),
    ];
    let mut descriptors = 0;
    let rounds = if std::env::var_os("SIGTOP_LONG").is_some() { 1000 } else { 120 };
    for round in 0..rounds {
        let (clock, engine) = ways[round * 7 % ways.len()];
        let period_ns = PERIOD_NS * (1 + round as u64 % 5);
        viewer.say(&Request::Engage { clock, engine, period_ns });
        viewer.await_answers(round + 1);
        let said = viewer.engaged[round].clone();
        assert_eq!((said.clock, said.engine, said.period_ns), (clock, engine, period_ns), "round {round}");
        let wanted = match (clock, engine) {
            (Clock::Virtual, Engine::Threads) => EngineState::Unsupported,
            _ => EngineState::Running,
        };
        assert_eq!(said.state, wanted, "round {round}");
        // Of its one thread, and of the process.
        assert!(timers(pid) <= 2, "round {round}: {} timers", timers(pid));
        if round == 20 {
            descriptors = entries(pid, "fd");
        }
    }
    assert_eq!(entries(pid, "fd"), descriptors);
    // It ticks as ever.
    viewer.say(&Request::Engage { clock: Clock::Prof, engine: Engine::Threads, period_ns: PERIOD_NS });
    viewer.await_answers(rounds + 1);
    let before = viewer.samples;
    let deadline = Instant::now() + LONG;
    while viewer.samples < before + 50 {
        assert!(
            Instant::now() < deadline && viewer.read(),
            "{} samples since the last switch",
            viewer.samples - before
        );
    }
    let account = viewer.account.clone().expect("one a second");
    let lost: u64 = account.lost_ticks.iter().sum();
    assert!(account.ticks <= account.sent + lost + 64, "{account:?}");
    viewer.say(&Request::Leave);
    while viewer.read() {
        assert!(Instant::now() < deadline, "the agent does not leave");
    }
    while timers(pid) + entries(pid, "task") > 1 {
        assert!(Instant::now() < deadline, "{} timers, {} threads", timers(pid), entries(pid, "task"));
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("ours");
    child.wait().expect("ours");
    drop(fs::remove_dir_all(directory));
}
