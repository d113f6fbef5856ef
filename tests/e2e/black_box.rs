//! The black box: a file around a trigger, on request, and at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::children::with_default_signals;
use crate::harness::run::{SIGTOP, run};
use crate::harness::targets;
use crate::recording::Directory;

/// A recorder of `spike BEFORE SPIKE AFTER` with these options.
fn recorder(directory: &Directory, options: &[&str], spike: [&str; 3]) -> Command {
    let mut command = Command::new(SIGTOP);
    command.args(["record", "-o"]).arg(directory.file("spike-%t.sigtop")).args(options);
    command.arg("--").arg(targets::c("spike")).args(spike);
    with_default_signals(&mut command);
    command
}

fn files(directory: &Directory) -> Vec<PathBuf> {
    directory.names().iter().map(|name| directory.file(name)).collect()
}

/// The cum of a function in a file, ns, by `report --json`.
fn cum_ns(file: &Path, function: &str) -> u64 {
    let ran = run(Command::new(SIGTOP).args(["report", "--top", "--json", "--nodefraction=0"]).arg(file));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let report: serde_json::Value = serde_json::from_str(&ran.out()).expect("JSON");
    let rows = report["rows"].as_array().expect("rows").iter();
    let row = rows
        .filter(|row| row["name"].as_str().is_some_and(|name| name.contains(function)))
        .max_by_key(|row| row["cum"].as_u64());
    row.and_then(|row| row["cum"].as_u64()).unwrap_or(0)
}

/// Waits until there are so many files.
fn wait_for_files(directory: &Directory, count: usize, recorder: &mut Child) -> Vec<PathBuf> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while directory.names().iter().filter(|name| name.ends_with(".sigtop")).count() < count {
        assert!(Instant::now() < deadline && recorder.try_wait().expect("a child").is_none(), "no file is written");
        std::thread::sleep(Duration::from_millis(10));
    }
    files(directory)
}

#[test]
fn a_spike_is_in_one_file_from_its_beginning() {
    let directory = Directory::new("spike");
    let options = ["--when", "burst>50%", "--before", "2s", "--after", "3s", "--hz", "250"];
    let ran = run(&mut recorder(&directory, &options, ["1.5", "1.2", "1"]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let files = files(&directory);
    assert!(files.len() == 1 && ran.err().contains("burst>50% ("), "{}\n{files:?}", ran.err());
    let burned_ns: u64 = ran.out().trim().parse().expect("nanoseconds");
    // A timer of CPU time ticks every 4 ms, as exactly as the kernel's clock does.
    let cum_ns = cum_ns(&files[0], "burst");
    assert!(cum_ns.abs_diff(burned_ns) < 100_000_000, "{cum_ns} of {burned_ns} ns");
    let viewed = run(Command::new(SIGTOP).args(["view", "--batch"]).arg(&files[0]));
    assert!(viewed.out().contains("burst") && !viewed.err().contains("truncated"), "{}", viewed.err());
}

#[test]
fn a_dump_is_written_for_the_recorder_or_its_target_and_no_one_else() {
    let directory = Directory::new("dump");
    let mut recorder = recorder(&directory, &["--keep", "5m", "--quiet"], ["60", "0", "0"]);
    let mut recorder = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sigtop runs");
    let pid = recorder.id().to_string();
    let dump = |pid: &str| run(Command::new(SIGTOP).args(["dump", pid]));
    let deadline = Instant::now() + Duration::from_secs(30);
    let first = loop {
        let ran = dump(&pid);
        if ran.code() == 0 || Instant::now() > deadline {
            break ran;
        }
    };
    assert_eq!(first.code(), 0, "{}", first.err());
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
    let ran = children.split_whitespace().map(dump).find(|ran| ran.code() == 0).expect("the target's pid is known");
    let path = ran.out().rsplit_once(" (").expect("a path and a size").0.to_owned();
    assert!(path.starts_with('/') && Path::new(&path).exists(), "{path}");
    let other = dump(&std::process::id().to_string());
    assert!(other.code() == 125 && other.err().contains("no recorder of yours"), "{}", other.err());
    kill(Pid::from_raw(recorder.id() as i32), Signal::SIGINT).expect("a child");
    kill(Pid::from_raw(children.split_whitespace().next().expect("a child").parse().expect("a pid")), Signal::SIGTERM)
        .expect("a child");
    recorder.wait().expect("a child");
    // Without triggers, the last minutes are written at the end, too.
    assert_eq!(files(&directory).len(), 3, "{:?}", directory.names());
    assert!(
        files(&directory).iter().all(|file| run(Command::new(SIGTOP).args(["view", "--batch"]).arg(file)).code() == 0)
    );
}

#[test]
fn the_oldest_file_is_removed() {
    let directory = Directory::new("rotated");
    let options = ["--when", "signal=USR1", "--after", "10ms", "--max-files", "2", "--quiet"];
    let mut recorder = recorder(&directory, &options, ["60", "0", "0"]);
    let mut recorder = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sigtop runs");
    let dump = || run(Command::new(SIGTOP).args(["dump", &recorder.id().to_string()])).code();
    while dump() != 0 {}
    let pid = Pid::from_raw(recorder.id() as i32);
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
    let mut first = wait_for_files(&directory, 1, &mut recorder);
    kill(pid, Signal::SIGUSR1).expect("a child");
    let second = wait_for_files(&directory, 2, &mut recorder);
    assert!(second.len() == 2);
    let deadline = Instant::now() + Duration::from_secs(60);
    while first.iter().any(|file| file.exists()) && Instant::now() < deadline {
        // A signal within 300 ms of another one is the same request.
        kill(pid, Signal::SIGUSR1).expect("a child");
        std::thread::sleep(Duration::from_millis(400));
    }
    first.retain(|file| file.exists());
    assert!(first.is_empty() && files(&directory).len() == 2, "{:?}", directory.names());
    kill(Pid::from_raw(children.split_whitespace().next().expect("a child").parse().expect("a pid")), Signal::SIGTERM)
        .expect("a child");
    recorder.wait().expect("a child");
}

#[test]
fn wrong_options_are_refused_with_a_remedy() {
    for (options, words) in [
        (vec!["--when", "cpu>90", "-o", "a.sigtop"], "`90` is not a limit in percent, such as 40%"),
        (vec!["--when", "wait=lock>30%", "-o", "a.sigtop"], "add --clock wall"),
        (vec!["--keep", "30s", "--when", "cpu>90%", "-o", "a.sigtop"], "use --keep 1m10s or more"),
        (vec!["--keep", "10m", "-o", "a.pb.gz"], "sigtop report to convert one"),
        (vec!["--keep", "10m", "--clock", "alloc", "-o", "a.sigtop"], "use --clock cpu or wall"),
        (vec!["--keep", "10m", "--max-files", "0", "-o", "a.sigtop"], "expected a number from 1 on"),
    ] {
        let ran = run(Command::new(SIGTOP).arg("record").args(&options).args(["--", "true"]));
        assert!(ran.code() == 2 && ran.err().contains(words), "{options:?}: {}", ran.err());
    }
}
