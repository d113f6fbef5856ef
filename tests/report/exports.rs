//! Exported profiles have the weights, the units and the times of the profile.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use sigtop::link::recording::{Encoder, RecordingInfo};
use sigtop::pprof::format::{self, SaveFormat, folded, gperftools, speedscope};
use sigtop::pprof::profile::{Function, Line, Location, Mapping, SavedProfile, ValueType};
use sigtop::pprof::report::{ReportKind, ReportOptions, generate};
use sigtop::pprof::samples::Samples;
use sigtop::wire::{
    Arrival, Clock, ConnectionEvent, Engine, FrameAddress, Hello, Message, Sample, SourceId, SpawnCause, Thread,
};

/// A profile with one function and one sample for each value.
fn profile(kind: &str, unit: &str, values: &[i64]) -> SavedProfile {
    let mut samples = Samples::with_width(1);
    let indices = 0..values.len() as u32;
    indices.clone().zip(values).for_each(|(index, &value)| samples.push(&[index], &[value], 0));
    let function = |index| Function { name: format!("f{index:04}").as_str().into(), ..Function::default() };
    let location = |index| Location {
        id: u64::from(index) + 1,
        mapping: Some(0),
        address: 0x40_1000 + 16 * u64::from(index),
        lines: vec![Line { function: index, line: 0, column: 0 }],
        folded: false,
    };
    SavedProfile {
        sample_types: vec![ValueType::new(kind, unit)],
        samples,
        labels: vec![[].into()],
        mappings: vec![Mapping {
            id: 1,
            start: 0x40_0000,
            limit: 0x50_0000,
            file: "/bin/app".into(),
            ..Mapping::default()
        }],
        functions: indices.clone().map(function).collect(),
        locations: indices.map(location).collect(),
        period: 10_000_000,
        period_type: ValueType::new("cpu", "nanoseconds"),
        ..SavedProfile::default()
    }
}

fn folded_counts(saved: &SavedProfile) -> Vec<(String, i64)> {
    let mut out = Vec::new();
    folded::write(&mut out, saved, 0).unwrap();
    let text = String::from_utf8(out).unwrap();
    let counts = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    counts.map(|(stack, count)| (stack.to_owned(), count.parse().unwrap())).collect()
}

/// Values that are not whole periods of 10 ms: 900 ms in all.
fn uneven() -> Vec<i64> {
    [16_000_000, 2_000_000].repeat(50)
}

#[test]
fn folded_counts_add_up_to_the_time_of_the_profile() {
    let counts = folded_counts(&profile("cpu", "nanoseconds", &uneven()));
    assert_eq!(counts.iter().map(|(_, count)| count).sum::<i64>(), 90);
    assert!(counts.iter().all(|(_, count)| *count > 0), "{counts:?}");
    // Whole periods are exact.
    let counts = folded_counts(&profile("cpu", "nanoseconds", &[30_000_000, 10_000_000]));
    assert_eq!(counts, [("f0000".to_owned(), 3), ("f0001".to_owned(), 1)]);
    // Values of less than half a period still give a file that is not empty.
    let counts = folded_counts(&profile("cpu", "nanoseconds", &[1_000_000, 2_000_000]));
    assert_eq!(counts, [("f0001".to_owned(), 1)]);
}

#[test]
fn gperftools_ticks_add_up_to_the_time_of_the_profile() {
    let ticks = |saved: &SavedProfile| {
        let mut bytes = Vec::new();
        gperftools::write(&mut bytes, saved, 0).unwrap();
        let back = format::read(bytes.as_slice()).unwrap();
        (back.samples.values(0).sum::<i64>(), back.samples.values(1).sum::<i64>())
    };
    assert_eq!(ticks(&profile("cpu", "nanoseconds", &uneven())), (90, 900_000_000));
    // 997 Hz: the file has the period in whole microseconds.
    let mut saved = profile("cpu", "nanoseconds", &[1_003_009; 2000]);
    saved.period = 1_003_009;
    let (_, total_ns) = ticks(&saved);
    assert!((2_006_018_000 - total_ns).abs() <= 1_003_000, "{total_ns}");
    let micro = profile("cpu", "microseconds", &[16_000, 2_000].repeat(50));
    assert_eq!(ticks(&micro).1, 900_000_000);
}

#[test]
fn speedscope_values_have_their_unit() {
    for (unit, name, factor) in [
        ("ns", "nanoseconds", 1),
        ("microseconds", "microseconds", 1),
        ("ms", "milliseconds", 1),
        ("seconds", "seconds", 1),
        ("hours", "seconds", 3600),
        ("bytes", "bytes", 1),
        ("kilobytes", "bytes", 1024),
        ("count", "none", 1),
    ] {
        let mut out = Vec::new();
        speedscope::write(&mut out, &profile("value", unit, &[7]), 0).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        let thread = &document["profiles"][0];
        let expected = (json!(name), json!(0), json!(7 * factor), json!([7 * factor]));
        let written = (&thread["unit"], &thread["startValue"], &thread["endValue"], &thread["weights"]);
        assert_eq!(written, (&expected.0, &expected.1, &expected.2, &expected.3), "{unit}");
    }
}

#[test]
fn gperftools_refuses_what_is_no_cpu_time() {
    let write = |saved: SavedProfile, kind: ReportKind, index: &str| {
        let options = ReportOptions { kind, sample_index: index.to_owned(), ..ReportOptions::default() };
        generate(&mut Vec::new(), saved, &options).map(drop).map_err(|error| error.to_string())
    };
    let mut heap = profile("inuse_objects", "count", &[]);
    heap.sample_types.push(ValueType::new("inuse_space", "bytes"));
    heap.samples = Samples::with_width(2);
    heap.samples.push(&[], &[3, 4096], 0);
    let sentence = |what: &str| {
        let mut text = String::new();
        write!(text, "a gperftools CPU profile holds CPU time, not {what}; write another format, such as --proto")
            .unwrap();
        Err(text)
    };
    assert_eq!(write(heap.clone(), ReportKind::Export(SaveFormat::Gperftools), ""), sentence("inuse_space in bytes"));
    assert_eq!(
        write(heap.clone(), ReportKind::Export(SaveFormat::Gperftools), "inuse_objects"),
        sentence("inuse_objects in count")
    );
    assert_eq!(write(heap.clone(), ReportKind::Export(SaveFormat::Speedscope), ""), Ok(()));
    assert_eq!(write(profile("samples", "count", &[3]), ReportKind::Export(SaveFormat::Gperftools), ""), Ok(()));
    assert_eq!(write(profile("cpu", "milliseconds", &[3]), ReportKind::Export(SaveFormat::Gperftools), ""), Ok(()));
}

/// A recording of one thread with a sample of 10 ms at each time. The agent sends each this many
/// milliseconds later.
fn recording(times_ns: &[(u64, u32)]) -> Vec<u8> {
    const START_NS: u64 = 5_000_000_000;
    let mut encoder = Encoder::new(&RecordingInfo {
        version: "0.1.0".to_owned(),
        command: "./app".to_owned(),
        host: String::new(),
        names: true,
        launched: true,
        pid: 7,
        clock: Clock::Prof,
        engine: Engine::Threads,
        period_ns: 10_000_000,
        started_ns: START_NS,
        started_unix_ns: 1_700_000_000_000_000_000,
        origin: None,
        kernel: String::new(),
    });
    let mut say = |at_ns, message| {
        let event = ConnectionEvent::Received(message);
        encoder.write_event(&Arrival { source: SourceId(1), pid: 7, at_ns, event });
    };
    let name = || Box::<[u8]>::from(b"./app".as_slice());
    let hello = Hello {
        token: 0,
        pid: 7,
        parent: 1,
        start_ticks: 0,
        monotonic_ns: START_NS,
        cpu_ns: 0,
        spawn_cause: SpawnCause::Tick,
        executable: name(),
        argv: name(),
    };
    say(START_NS, Message::Hello(hello));
    say(START_NS, Message::Thread(Thread { tid: 7, name: name() }));
    for &(time_ns, age_ms) in times_ns {
        let at_ns = START_NS + time_ns + u64::from(age_ms) * 1_000_000;
        let sample = Sample {
            tid: 7,
            clock: Clock::Prof,
            flags: 0,
            generation: 0,
            monotonic_ns: at_ns,
            weight_ns: 10_000_000,
            allocation: Default::default(),
            age_ms,
            slot: 0,
        };
        say(at_ns, Message::Sample(sample, [FrameAddress::Instruction(0x1000).pack()].into()));
    }
    let end = encoder.finish(&[]);
    encoder.take_blocks().into_iter().chain(end).flatten().collect()
}

#[test]
fn firefox_has_the_times_of_a_recording() {
    let file = std::env::temp_dir().join(format!("sigtop-times-{}.sigtop", std::process::id()));
    fs::write(&file, recording(&[(1_000_000_000, 90), (1_050_000_000, 40), (5_000_000_000, 0)])).unwrap();
    let report = |form: &str| {
        let ran = Command::new(env!("CARGO_BIN_EXE_sigtop")).args(["report", form]).arg(&file).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let (firefox, folded) = (report("--firefox"), report("--folded"));
    fs::remove_file(&file).unwrap();
    let document: Value = serde_json::from_str(&firefox).unwrap();
    let samples = json!({
        "length": 3, "stack": [0, 0, 0], "time": [0.0, 50.0, 4000.0], "weight": [10.0, 10.0, 10.0],
        "weightType": "tracing-ms",
    });
    assert_eq!(document["threads"][0]["samples"], samples);
    assert_eq!(folded.lines().map(|line| line.rsplit_once(' ').unwrap().1).collect::<Vec<_>>(), ["3"]);
}
