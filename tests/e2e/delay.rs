//! `sigtop record --delay`: what runs before is not sampled, and not woken.

use std::path::Path;
use std::process::{Command, Stdio};

use sigtop::pprof::format;

use crate::harness::children::with_default_signals;
use crate::harness::run::{Ran, SIGTOP, run, text};
use crate::harness::targets;
use crate::recording::Directory;

fn record(file: &Path, options: &[&str], command: &[&str]) -> Ran {
    let mut sigtop = Command::new(SIGTOP);
    sigtop.args(["record", "--no-config", "--hz", "250", "-o"]).arg(file).args(options);
    if !command.is_empty() {
        sigtop.arg("--").args(command);
    }
    run(with_default_signals(sigtop.stdin(Stdio::null())))
}

/// The CPU time of all samples, in ms.
pub(crate) fn sampled_ms(file: &Path) -> i64 {
    let profile = format::read(std::fs::File::open(file).expect("a file")).expect("a profile");
    let value = profile.value_index("cpu").expect("CPU time");
    profile.samples.values(value).sum::<i64>() / 1_000_000
}

#[test]
fn a_launched_program_is_sampled_from_then_on() {
    let directory = Directory::new("delay");
    let shares = targets::c("shares");
    // It computes for two seconds of CPU time, in a child.
    let script = format!("{} 60 30 10 2; exit 7", text(&shares));
    for engine in ["threads", "external"] {
        let file = directory.file(&format!("{engine}.pb.gz"));
        let ran = record(&file, &["--delay", "1s", "--engine", engine], &["sh", "-c", &script]);
        assert_eq!(ran.code(), 7, "{engine}: {}", ran.err());
        let ms = sampled_ms(&file);
        // A second is left at most; under load, the program has computed less before.
        assert!((300..=1_990).contains(&ms), "{engine}: {ms} ms sampled; {}", ran.err());
    }
}

#[test]
fn a_program_that_ends_before_is_an_error() {
    let directory = Directory::new("delay-short");
    for (script, status) in [("exit 0", 125), ("exit 7", 7)] {
        let file = directory.file("a.pb.gz");
        let ran = record(&file, &["--delay", "1m"], &["sh", "-c", script]);
        assert_eq!(ran.code(), status, "{}", ran.err());
        assert!(ran.err().contains("before the delay of 1m00s was over: nothing was written"), "{}", ran.err());
        assert!(!file.exists());
    }
}

#[test]
fn a_process_is_sampled_from_then_on() {
    let directory = Directory::new("delay-pid");
    let mut target = Command::new(targets::c("shares")).args(["60", "30", "10", "60"]).spawn().expect("it runs");
    let file = directory.file("a.pb.gz");
    let began = std::time::Instant::now();
    let ran = record(&file, &["--delay", "500ms", "-d", "500ms", "--pid", &target.id().to_string()], &[]);
    let took = began.elapsed();
    target.kill().expect("a child");
    target.wait().expect("a child");
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(took >= std::time::Duration::from_secs(1), "{took:?}");
    assert!(sampled_ms(&file) <= 900, "{} ms", sampled_ms(&file));
}
