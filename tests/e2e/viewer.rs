//! Viewers that send malformed bytes, do not read, stop, or disappear. The target runs on as it
//! does without a viewer.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::guest::{agent, eventually};
use crate::harness::inspect;
use crate::harness::run::{LIMIT, SIGTOP};
use crate::harness::targets;

/// Accepts the agent's connection, or fails after [`LIMIT`].
pub(super) fn accept(listener: &UnixListener) -> UnixStream {
    listener.set_nonblocking(true).expect("a socket");
    let deadline = Instant::now() + LIMIT;
    loop {
        match listener.accept() {
            Ok((stream, _)) => return stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("the agent does not connect: {error}"),
        }
    }
}

/// Runs a target of eight threads whose agent connects to a viewer played by the test. The target's
/// output is ignored.
fn target(seconds: &str, play: impl FnOnce(&mut UnixStream, &Child)) -> (i32, Duration) {
    let path = targets::scratch("viewer").join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let link = format!("77:{}:4000000:0:{}", std::process::id(), path.display());
    let start = std::time::Instant::now();
    let mut child = Command::new(targets::c("duty"))
        .arg(seconds)
        .env("LD_PRELOAD", agent())
        .env("SIGTOP_LINK", link)
        .stdout(Stdio::null())
        .spawn()
        .expect("a target");
    let mut stream = accept(&listener);
    play(&mut stream, &child);
    drop(stream);
    let status = child.wait().expect("ours");
    (status.code().unwrap_or(-1), start.elapsed())
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let mut random = 88_172_645_463_325_252u64;
    for round in 0..8 {
        let (code, _) = target("0.3", |stream, child| {
            let mut hello = [0; 64];
            stream.read_exact(&mut hello).expect("a Hello");
            let garbage: Vec<u8> = (0..4096)
                .map(|_| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    if round % 2 == 0 { random as u8 } else { 0xff }
                })
                .collect();
            // The agent may close the connection before it has read everything.
            let _ = stream.write_all(&garbage);
            let pid = child.id();
            assert!(eventually(Duration::from_secs(10), || inspect::look(pid).timers == 0), "timers are left");
        });
        assert_eq!(code, 0);
    }
}

/// Messages that a viewer does not read are lost and counted; the target does not wait for it, and
/// its memory does not grow.
#[test]
fn a_viewer_that_does_not_read_holds_nobody_up() {
    let (code, took) = target("2.4", |_, child| {
        let pid = child.id();
        assert!(eventually(LIMIT, || inspect::look(pid).threads > 8));
        std::thread::sleep(Duration::from_secs(1));
    });
    assert!(code == 0 && took < Duration::from_secs(60), "{code} after {took:?}");
}

/// The target does not wait for a stopped viewer, and its timers are deleted after the viewer has
/// gone.
#[test]
fn a_viewer_that_stands_still_holds_nobody_up() {
    let mut sigtop = Command::new(SIGTOP)
        .args(["--hz", "1000", "--quiet", "--"])
        .arg(targets::c("duty"))
        .arg("3")
        .stdout(Stdio::piped())
        .spawn()
        .expect("sigtop");
    let pid = Pid::from_raw(sigtop.id() as i32);
    std::thread::sleep(Duration::from_secs(1));
    kill(pid, Signal::SIGSTOP).expect("ours");
    // The target continues to print while no viewer reads from its agent.
    let mut out = String::new();
    let mut stdout = sigtop.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || stdout.read_to_string(&mut out).map(|_| out));
    std::thread::sleep(Duration::from_secs(2));
    kill(pid, Signal::SIGCONT).expect("ours");
    assert_eq!(sigtop.wait().expect("ours").code(), Some(0));
    let out = reader.join().expect("no panic").expect("a pipe");
    assert_eq!(out.lines().count(), 8, "{out}");
}

/// Regression test: a watch of a process ended as soon as one of its children turned out to be
/// watched by another viewer, without a word on which.
#[test]
fn a_child_that_another_viewer_watches_does_not_end_the_watch() {
    let script = "sleep 300 & echo $!; wait";
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("LD_PRELOAD", agent()).stdout(Stdio::piped());
    let mut parent = command.spawn().expect("a target");
    let mut line = String::new();
    BufReader::new(parent.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let child: u32 = line.trim().parse().expect("a pid");
    let mut first = Command::new(SIGTOP);
    first.args(["--batch", "--no-config", "--clock", "wall", "--interval", "0.1", "--pid", &child.to_string()]);
    let mut first = first.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("sigtop");
    let mut tables = BufReader::new(first.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let has_samples = |line: &String| line.starts_with("Samples: ") && !line.starts_with("Samples: 0");
    assert!(tables.any(|line| has_samples(&line)), "the child is not sampled");
    // Until its agent is awake, it is sampled from outside, and others may do that, too.
    let threads = || std::fs::read_dir(format!("/proc/{child}/task")).map_or(0, Iterator::count);
    assert!(eventually(LIMIT, || threads() == 2), "the agent of the child is not awake");
    let table = targets::scratch("viewer").join("table");
    let mut second = Command::new(SIGTOP);
    second.args(["--batch", "--no-config", "--interval", "0.1", "--count", "600", "--pid", &parent.id().to_string()]);
    let mut second = second.arg("--table").arg(&table).stderr(Stdio::null()).spawn().expect("sigtop");
    let sentence = format!("sigtop: process {child} is already watched by sigtop pid {}", first.id());
    let text = || std::fs::read_to_string(&table).unwrap_or_default();
    let is_said = eventually(LIMIT, || text().contains(&sentence));
    let tables_after = || text().split_once(&sentence).map_or(0, |(_, rest)| rest.matches("Duration: ").count());
    let goes_on = is_said && eventually(LIMIT, || tables_after() >= 5);
    let _it_may_have_ended = second.kill();
    for process in [child, parent.id()] {
        kill(Pid::from_raw(process as i32), Signal::SIGKILL).expect("it runs");
    }
    for mut child in [parent, first, second] {
        child.wait().expect("ours");
    }
    assert!(is_said && goes_on, "{sentence:?} and five tables are not in {}", text());
}
