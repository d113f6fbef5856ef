//! `sigtop report --top` for a profile of 100 MB with a million distinct stacks, compared with Go's
//! `pprof -top` for the same file in the same run: time and memory of each. `GO=…/go cargo bench
//! --bench report`; without Go it prints SKIPPED. Both read the gzipped file; memory is the peak
//! resident size, and is printed beside the size of the inflated file.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use sigtop::pprof::format::proto;
use sigtop::pprof::profile::{Function, Line, Location, Mapping, SavedProfile, ValueType};
use sigtop::pprof::samples::Samples;

const STACKS: usize = 1_000_000;
const DEPTH: usize = 44;
const FUNCTIONS: u32 = 8_000;
/// Number of runs of each; the fastest counts.
const RUNS: usize = 3;

fn profile() -> SavedProfile {
    let mut dice = 88_172_645_463_325_252u64;
    let mut below = |end: u32| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice % u64::from(end)) as u32
    };
    let mut samples = Samples::with_width(2);
    let mut stack = Vec::new();
    for number in 0..STACKS {
        // From main on, each function calls one of six.
        let mut function = 7;
        stack.clear();
        for _ in 0..DEPTH {
            function = (function * 7 + below(6) * 1009 + 13) % FUNCTIONS;
            stack.push(function);
        }
        stack.reverse();
        samples.push(&stack, &[1, 10_000_000 + (number % 7) as i64], 0);
    }
    let function = |index: u32| Function {
        name: format!("module{}::function_{index}", index % 40).as_str().into(),
        file: format!("src/file{}.cc", index % 400).as_str().into(),
        ..Function::default()
    };
    let line = |index: u32| Line { function: index, line: i64::from(index % 900), column: 0 };
    let location = |index: u32| Location {
        id: u64::from(index) + 1,
        mapping: Some(0),
        address: 0x40_0000 + u64::from(index) * 16,
        // Every tenth one has an inlined call.
        lines: if index.is_multiple_of(10) {
            vec![line((index + 1) % FUNCTIONS), line(index)]
        } else {
            vec![line(index)]
        },
        folded: false,
    };
    SavedProfile {
        sample_types: vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")],
        samples,
        labels: vec![[].into()],
        mappings: vec![Mapping {
            id: 1,
            start: 0x40_0000,
            limit: 0x80_0000,
            file: "/bin/large".into(),
            has_functions: true,
            ..Mapping::default()
        }],
        functions: (0..FUNCTIONS).map(function).collect(),
        locations: (0..FUNCTIONS).map(location).collect(),
        period_type: ValueType::new("cpu", "nanoseconds"),
        period: 10_000_000,
        ..SavedProfile::default()
    }
}

/// Returns seconds and the peak resident size in MB, with the command's output.
fn run(command: &mut Command) -> (f64, f64, String) {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let status = format!("/proc/{}/status", child.id());
    let mut out = child.stdout.take().expect("piped");
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let mut most_kb = 0u64;
    let ended = loop {
        if let Some(ended) = child.try_wait().expect("a child") {
            break ended;
        }
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = resident.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        most_kb = most_kb.max(kb);
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert!(ended.success(), "{ended}");
    let seconds = began.elapsed().as_secs_f64();
    (seconds, most_kb as f64 / 1024.0, reading.join().expect("read").expect("text"))
}

fn main() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("large.pb.gz");
    let mut file = File::create(&path).expect("writable");
    proto::write(&mut file, &profile()).expect("writable");
    file.flush().expect("writable");
    let inflated = flate2::read::MultiGzDecoder::new(File::open(&path).expect("there"));
    let bytes = std::io::copy(&mut std::io::BufReader::new(inflated), &mut std::io::sink()).expect("it inflates");
    let inflated_mb = bytes as f64 / 1_048_576.0;
    println!("{STACKS} stacks of {DEPTH}: {inflated_mb:.0} MB inflated");

    let ours = || run(Command::new(env!("CARGO_BIN_EXE_sigtop")).args(["report", "--top"]).arg(&path));
    let go = std::env::var("GO").unwrap_or("go".to_owned());
    let has_go = Command::new(&go).arg("version").output().is_ok_and(|output| output.status.success());
    let pprofs = || {
        let mut command = Command::new(&go);
        run(command.args(["tool", "pprof", "-symbolize=none", "-top"]).arg(&path).env("TZ", "UTC"))
    };
    let fastest = |runs: Vec<(f64, f64, String)>| runs.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("some");
    let mut both: (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        both.0.push(ours());
        if has_go {
            both.1.push(pprofs());
        }
    }
    let (seconds, mb, text) = fastest(both.0);
    println!("sigtop report --top: {seconds:.2} s, {mb:.0} MB ({:.2} of the file inflated)", mb / inflated_mb);
    if !has_go {
        println!("SKIPPED: no Go to compare with; GO=…/go names one");
        return;
    }
    let (pprof_seconds, pprof_mb, pprof_text) = fastest(both.1);
    println!(
        "go tool pprof -top:  {pprof_seconds:.2} s, its driver alone; {pprof_mb:.0} MB of `go` itself are not pprof's"
    );
    println!("{:.1} times as fast; the same text: {}", pprof_seconds / seconds, text == pprof_text);
}
