//! Profiles for the tests. Those of real tools are in tests/profiles. The others are made here and
//! stored there, too, so that pprof can read them: run `SIGTOP_WRITE_PROFILES=1 cargo test --test
//! report making`, then tests/golden/reports.sh.

use std::fs;
use std::path::{Path, PathBuf};

use sigtop::pprof::format::{self, proto};
use sigtop::pprof::live::{self, LiveProfileInfo};
use sigtop::pprof::profile::{Function, Label, LabelValue, Line, Location, Mapping, SavedProfile, ValueType};
use sigtop::pprof::samples::Samples;
use sigtop::profile::module::ModuleFile;
use sigtop::profile::totals::Span;
use sigtop::symbols::demangle::spellings;
use sigtop::symbols::listing::list_symbols;
use sigtop::symbols::scenario::scenario;
use sigtop::wire::{Clock, LossCause};

pub(crate) fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Returns the profile that the session of a scenario saves.
pub(crate) fn of_scenario(text: &str, clock: Clock) -> SavedProfile {
    let played = scenario(text).unwrap();
    let about = LiveProfileInfo {
        clock,
        span: Span::Total,
        time_ns: 1_790_000_000_123_456_789,
        duration_ns: played.now_ns as i64,
        period_ns: 10_000_000,
        lost_ticks: [0; LossCause::ALL.len()],
        lost_ns: [0; LossCause::ALL.len()],
    };
    live::to_saved(&played.profile, &played.names, &about)
}

/// Returns a profile of a sigtop session with both clocks.
pub(crate) fn ours() -> SavedProfile {
    let server = fs::read_to_string(tests().join("scenarios/server.txt")).unwrap();
    let asleep = "process 7 ./sleeper\nthread 9 waiter\nat 1s..3s real 10ms main@a.c:3;epoll_wait x 40\n";
    of_scenario(&format!("{server}\n{asleep}now 20s\n"), Clock::Prof)
}

/// Returns a profile that combines the features of several real tools: inlined calls with columns,
/// several mappings, labels of both kinds and several with the same key, negative values, mangled
/// names, locations without names, comments, frames to drop.
pub(crate) fn mixed() -> SavedProfile {
    let function = |name: &str, system: &str, file: &str, start_line| Function {
        name: name.into(),
        system_name: system.into(),
        file: file.into(),
        start_line,
    };
    let line = |function, line, column| Line { function, line, column };
    let place = |id, mapping, address, lines: &[Line]| Location {
        id,
        mapping,
        address,
        lines: lines.to_vec(),
        folded: id == 9,
    };
    let text = |key: &str, value: &str| Label { key: key.into(), value: LabelValue::Text(value.into()) };
    let number =
        |key: &str, value, unit: &str| Label { key: key.into(), value: LabelValue::Number(value, unit.into()) };
    let mapping = |id, start, file: &str, build_id: &str| Mapping {
        id,
        start,
        limit: start + 0x10_0000,
        offset: 0x1000,
        file: file.into(),
        build_id: build_id.into(),
        has_functions: id == 4,
        has_inline_frames: id == 4,
        ..Mapping::default()
    };
    let mut samples = Samples::with_width(3);
    for (stack, values, labels) in [
        (&[0, 2, 3][..], [3, 4096, 30_000_000], 0),
        (&[1, 0, 2, 3], [5, -2048, 50_000_000], 1),
        (&[4, 1, 3], [2, 1 << 20, -20_000_000], 2),
        (&[5, 3], [1, 10, 7_000_000], 3),
        (&[6, 7, 3], [1, 0, 1_000_000], 4),
        (&[0, 0, 2, 0, 3], [4, 512, 41_000_000], 1),
        (&[8, 9, 3], [1, -1, 3], 5),
        (&[], [1, 1, 1], 0),
        (&[10, 2, 3], [0, 0, 0], 0),
    ] {
        samples.push(stack, &values, labels);
    }
    SavedProfile {
        sample_types: vec![
            ValueType::new("samples", "count"),
            ValueType::new("space", "bytes"),
            ValueType::new("wall", "nanoseconds"),
        ],
        samples,
        labels: vec![
            [].into(),
            [text("phase", "a"), text("thread", "worker-1"), number("bytes", 4096, "bytes")].into(),
            [text("phase", "b"), number("bytes", 2_000_000, "bytes"), number("request", 7, "")].into(),
            [text("phase", "a"), text("phase", "c"), number("tid", 41280, ""), number("tid", 41281, "")].into(),
            [number("bytes", 17, ""), number("latency", 12, "ms")].into(),
            [text("k\"ey", "v;alue"), number("bytes", 0, "kb")].into(),
        ],
        mappings: vec![
            mapping(4, 0x40_0000, "/opt/demo/bin/demo", "ab01cd"),
            mapping(2, 0x7f00_0000_0000, "/usr/lib/libz.so.1", ""),
            mapping(9, 0x7f10_0000_0000, "", ""),
        ],
        functions: vec![
            function("parse", "parse", "src//parse.c", 10),
            function("_ZN4json5parseERKSs", "_ZN4json5parseERKSs", "/proc/self/cwd/src/json.cc", 0),
            function("json::Parser<int>::peek(char)", "json::Parser<int>::peek(char)", "src/../src/json.h", 5),
            function("main", "main", "src/main.c", 1),
            function("drop_me", "drop_me", "prof.c", 0),
            function("", "", "", 0),
            function("github.com/a-b/c/v2/d.(*T).Run", "github.com/a-b/c/v2/d.(*T).Run", "d.go", 3),
            function("com.example.Foo.bar(Baz)", "", "Foo.java", 0),
        ],
        locations: vec![
            place(11, Some(0), 0x40_1000, &[line(2, 7, 3), line(0, 12, 9)]),
            place(3, Some(0), 0x40_1020, &[line(1, 40, 0)]),
            place(7, Some(0), 0x40_1040, &[line(2, 8, 0), line(1, 44, 1), line(0, 13, 0)]),
            place(1, Some(0), 0x40_2000, &[line(3, 3, 0)]),
            place(2, Some(1), 0x7f00_0000_2000, &[]),
            place(40, Some(2), 0x7f10_0000_2000, &[]),
            place(5, None, 0xdead_beef, &[]),
            place(6, Some(0), 0x40_3000, &[line(4, 2, 0)]),
            place(9, Some(0), 0x40_4000, &[line(5, 0, 0)]),
            place(10, Some(0), 0x40_5000, &[line(6, 33, 0), line(7, 2, 2)]),
            place(12, Some(1), 0x7f00_0000_3000, &[]),
        ],
        drop_frames: "drop_.*".into(),
        keep_frames: "drop_not".into(),
        time_ns: -1_500_000_000,
        duration_ns: 61_500_000_000,
        period_type: ValueType::new("wall", "nanoseconds"),
        period: 1_000_000,
        comments: vec!["made for a test".into(), "#hidden".into()],
        default_sample_type: "wall".into(),
        doc_url: "https://example.com/doc".into(),
        recordings: Vec::new(),
    }
}

/// Returns a later profile of the same code.
fn mixed_later() -> SavedProfile {
    let mut saved = mixed();
    for mapping in &mut saved.mappings {
        mapping.start += 0x2000;
        mapping.limit += 0x2000;
    }
    saved.locations.iter_mut().filter(|of| of.mapping.is_some()).for_each(|of| of.address += 0x2000);
    saved.samples.retain_values(|values| {
        values.iter_mut().for_each(|value| *value = *value * 2 / 3);
        true
    });
    saved.sample_types[2].unit = "microseconds".into();
    saved
}

/// Returns a gperftools profile with this word size (bytes), byte order and version.
pub(crate) fn legacy(bytes: usize, is_big: bool, version: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |words: &[u64]| {
        for word in words {
            let all = if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
            out.extend_from_slice(if is_big { &all[8 - bytes..] } else { &all[..bytes] });
        }
    };
    put(&[0, 3, version, 10_000, 0]);
    for number in 0..40 {
        let (parse, hash, main) = (0x0804_9000 + number % 5, 0x0804_a001, 0x0804_8101);
        put(&[1 + number % 3, 3, parse, hash + number % 2, main]);
        put(&[2, 4, 0x0804_9100, 0x0804_90f0 + number % 4, 0xf700_1234, main]);
    }
    put(&[1, 1, 0x1000]);
    put(&[0, 1, 0]);
    let text = if version == 1 {
        "0x8049000 com.example.Parser.parse (Parser.java:12)\n0x804a001 com.example.Hash.mix (Hash.java:-1)\n\
         0x8048101 main (/usr/lib/jvm/libjvm.so)\n0xf7001234 generated stub/JIT\n  0x8049100 GC \n"
    } else {
        "08048000-0804c000 r-xp 00000000 08:01 77 /opt/demo/demo32\n0804c000-0804d000 rw-p 00003000 08:01 77 /opt/demo/demo32\n\
         f7000000-f7008000 r-xp 00002000 08:01 78 /lib/libc.so.6\n"
    };
    out.extend_from_slice(text.as_bytes());
    out
}

/// Returns a profile of the code in code.elf: its own functions, sampled at every second byte and
/// called by main. Addresses are those to which a loader mapped the file.
fn code() -> SavedProfile {
    const PLACED: u64 = 0x5555_5555_4000;
    let file = ModuleFile { path: tests().join("profiles/code.elf"), build_id: Box::default(), device: 0, inode: 0 };
    let mut saved = SavedProfile {
        sample_types: vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")],
        samples: Samples::with_width(2),
        labels: vec![[].into()],
        mappings: vec![Mapping {
            id: 1,
            start: PLACED + 0x1000,
            limit: PLACED + 0x2000,
            offset: 0x1000,
            file: "code.elf".into(),
            has_functions: true,
            ..Mapping::default()
        }],
        period: 10_000_000,
        period_type: ValueType::new("cpu", "nanoseconds"),
        ..SavedProfile::default()
    };
    let place = |saved: &mut SavedProfile, address: u64, function: u32| {
        let id = saved.locations.len() as u64 + 1;
        let lines = vec![Line { function, line: 0, column: 0 }];
        saved.locations.push(Location { id, mapping: Some(0), address: PLACED + address, lines, folded: false });
        id as u32 - 1
    };
    let all = list_symbols(&file).unwrap();
    let ours = all.iter().filter(|symbol| symbol.names[0].contains("3app") || symbol.names[0] == "main");
    let ours: Vec<_> = ours.filter(|symbol| symbol.start < 0x2000).collect();
    assert_eq!(ours.len(), 7);
    for (function, symbol) in ours.iter().enumerate() {
        let name = spellings(&symbol.names[0]).pop().unwrap();
        saved.functions.push(Function {
            name: name.as_str().into(),
            system_name: name.as_str().into(),
            ..Function::default()
        });
        let main = ours[0].start + 0x20;
        for (index, address) in (symbol.start..symbol.last).step_by(2).enumerate() {
            let stack = [place(&mut saved, address, function as u32), place(&mut saved, main, 0)];
            let count = (index as i64 * 7 + function as i64) % 5;
            saved.samples.push(&stack[..if function == 0 { 1 } else { 2 }], &[count, count * 10_000_000], 0);
        }
    }
    saved
}

fn made() -> Vec<(&'static str, Vec<u8>)> {
    let proto = |saved: &SavedProfile| {
        let mut bytes = Vec::new();
        proto::write(&mut bytes, saved).unwrap();
        bytes
    };
    vec![
        ("ours.pb.gz", proto(&ours())),
        ("mixed.pb.gz", proto(&mixed())),
        ("mixed-later.pb.gz", proto(&mixed_later())),
        ("code.pb.gz", proto(&code())),
        ("words-32-little.prof", legacy(4, false, 0)),
        ("words-32-big.prof", legacy(4, true, 0)),
        ("words-64-big.prof", legacy(8, true, 0)),
        ("java-version-1.prof", legacy(8, false, 1)),
    ]
}

#[test]
fn what_lies_in_the_folder_is_what_is_made() {
    for (name, bytes) in made() {
        let path = tests().join("profiles").join(name);
        if std::env::var_os("SIGTOP_WRITE_PROFILES").is_some() {
            fs::write(&path, &bytes).unwrap();
        }
        let there = format::read(fs::File::open(&path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let made = format::read(bytes.as_slice()).unwrap();
        assert!(there == made, "{name} is not what is made");
        there.check().unwrap();
    }
}
