//! `sigtop report` for a recording of `perf record --call-graph dwarf` of a g++ run, compared with
//! `perf report --stdio` for the same file in the same run: the time of each, with the names of
//! inlined calls. `cargo bench --bench perf_data`; without perf or g++ it prints SKIPPED.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Number of runs of each in turns; the fastest counts.
const RUNS: usize = 3;
/// A unit that g++ compiles for some seconds.
const UNIT: &str = "#include <bits/stdc++.h>\nint main() { std::map<std::string, std::vector<std::regex>> all; \
                    return (int)all.size(); }\n";

fn main() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (unit, recording) = (directory.join("bench.cc"), directory.join("bench.perf.data"));
    fs::write(&unit, UNIT).expect("a file");
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "2500", "--call-graph", "dwarf,32768", "-o"]).arg(&recording);
    record.args(["g++", "-O1", "-o", "/dev/null", "-c"]).arg(&unit).stderr(Stdio::null());
    if !record.status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: perf or g++ is not installed, or perf may not record");
        return;
    }
    let bytes = fs::metadata(&recording).expect("a file").len();
    let time = |command: &mut Command| {
        let begun = Instant::now();
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.expect("a program").success(), "{command:?}");
        begun.elapsed()
    };
    let [mut ours, mut perfs] = [Duration::MAX; 2];
    for _ in 0..RUNS {
        ours = ours.min(time(Command::new(env!("CARGO_BIN_EXE_sigtop")).arg("report").arg(&recording)));
        perfs = perfs.min(time(Command::new("perf").args(["report", "--stdio", "-i"]).arg(&recording)));
    }
    let ratio = perfs.as_secs_f64() / ours.as_secs_f64();
    println!(
        "{} MB: sigtop {:.2} s, perf {:.2} s: {ratio:.1} times",
        bytes >> 20,
        ours.as_secs_f64(),
        perfs.as_secs_f64()
    );
}
