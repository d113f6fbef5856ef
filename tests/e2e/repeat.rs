//! `sigtop record --repeat`: several recordings, each with its file.

use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::delay::sampled_ms;
use crate::harness::children::with_default_signals;
use crate::harness::run::{Ran, SIGTOP, run, text};
use crate::harness::targets;
use crate::recording::Directory;

fn recorder(directory: &Directory, pattern: &str, options: &[&str]) -> Command {
    let mut sigtop = Command::new(SIGTOP);
    sigtop.args(["record", "--no-config", "--hz", "250", "-o"]).arg(directory.file(pattern)).args(options);
    sigtop.stdin(Stdio::null());
    sigtop
}

fn record(directory: &Directory, pattern: &str, options: &[&str]) -> Ran {
    run(with_default_signals(&mut recorder(directory, pattern, options)))
}

/// The names of all files, in order.
fn names(directory: &Directory) -> Vec<String> {
    let folder = directory.file("a");
    let entries = std::fs::read_dir(folder.parent().expect("a folder")).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn each_run_of_a_program_has_its_file_and_check_compares_them() {
    let directory = Directory::new("repeat");
    let shares = targets::c("shares");
    let program = ["60", "30", "10", "0.5"];
    let options = ["--repeat", "10", "--quiet", "--", text(&shares)];
    let ran = record(&directory, "100%%-%n.pb.gz", &[&options[..], &program].concat());
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    let expected: Vec<String> = (1..=10).map(|number| format!("100%-{number:02}.pb.gz")).collect();
    assert_eq!(names(&directory), expected);
    for name in &expected {
        let ms = sampled_ms(&directory.file(name));
        // Half a second of CPU time, and a period at its ends.
        assert!((480..=520).contains(&ms), "{name}: {ms} ms");
    }
    // The even runs against the odd ones: nothing has changed.
    let mut check = Command::new(SIGTOP);
    check.args(["check", "--no-config", "--json", "--base"]);
    for (index, name) in expected.iter().enumerate() {
        if index == 5 {
            check.arg("--new");
        }
        check.arg(directory.file(name));
    }
    let ran = run(&mut check);
    assert_ne!(ran.code(), 1, "{}", ran.out());
    let json: serde_json::Value = serde_json::from_str(&ran.out()).expect("JSON");
    assert_eq!(json["base"]["units"], 5, "{}{}", ran.out(), ran.err());
}

#[test]
fn a_run_that_fails_is_the_last() {
    let directory = Directory::new("repeat-failure");
    let script = format!("{} 60 30 10 0.2; exit 7", text(&targets::c("shares")));
    let ran = record(&directory, "%n.pb.gz", &["--repeat", "3", "--", "sh", "-c", &script]);
    assert_eq!(ran.code(), 7, "{}", ran.err());
    assert!(ran.err().contains("stopped after recording 1 of 3"), "{}", ran.err());
    assert_eq!(names(&directory), ["1.pb.gz"]);
}

#[test]
fn what_cannot_be_repeated_is_refused() {
    let directory = Directory::new("repeat-refusals");
    let pid = std::process::id().to_string();
    for (pattern, options, expected) in [
        ("a.pb.gz", ["--repeat", "2", "--", "true"], "use -o 'NAME-%n.sigtop'"),
        ("%n.pb.gz", ["--repeat", "2", "--pid", &pid], "--duration 10s"),
    ] {
        let ran = record(&directory, pattern, &options);
        assert_eq!(ran.code(), 2, "{}", ran.err());
        assert!(ran.err().contains(expected), "{}", ran.err());
    }
    assert!(names(&directory).is_empty());
}

#[test]
fn a_process_is_recorded_until_the_user_has_enough() {
    let directory = Directory::new("repeat-pid");
    let mut target = Command::new(targets::c("shares")).args(["60", "30", "10", "600"]).spawn().expect("it runs");
    let pid = target.id().to_string();
    let ran = record(&directory, "%n.pb.gz", &["--repeat", "2", "-d", "300ms", "--pid", &pid]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(names(&directory), ["1.pb.gz", "2.pb.gz"]);
    let mut endless = recorder(&directory, "endless-%n.pb.gz", &["--repeat", "9", "-d", "1s", "--pid", &pid]);
    let mut sigtop = with_default_signals(&mut endless).spawn().expect("it runs");
    let first = directory.file("endless-1.pb.gz");
    while !first.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(Pid::from_raw(sigtop.id() as i32), Signal::SIGINT).expect("a signal");
    let status = sigtop.wait().expect("a child");
    target.kill().expect("a child");
    target.wait().expect("a child");
    assert_eq!(status.code(), Some(0));
    let last = names(&directory).len() - 2;
    assert!((1..9).contains(&last), "{:?}", names(&directory));
}
