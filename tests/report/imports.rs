//! Profiles of other tools as they occur in practice: without periods or times, with long headers,
//! with invalid lines.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use sigtop::pprof::format::{self, folded};
use sigtop::pprof::profile::{LabelValue, SavedProfile};
use sigtop::session::PlaybackSource;

fn read(text: &str) -> SavedProfile {
    let saved = format::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    saved.check().unwrap();
    saved
}

/// Returns the profile as folded stacks.
fn folded(saved: &SavedProfile) -> String {
    let mut out = Vec::new();
    folded::write(&mut out, saved, saved.value_index("").unwrap()).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_perf_event_without_a_period_counts_samples() {
    let saved = read("sh 9 1.5: cpu-clock:\n\t4a main (/bin/a)\n\nsh 9 2.5: cpu-clock:\n\t4a main (/bin/a)\n\n");
    let types: Vec<String> = saved.sample_types.iter().map(|of| format!("{} {}", of.kind, of.unit)).collect();
    assert_eq!(types, ["samples count"]);
    assert_eq!(folded(&saved), "main 2\n");
    // A sample without a period has that of the first sample.
    let saved = read("sh 9 1.5: 40 cycles:\n\t4a main (/bin/a)\n\nsh 9 2.5: cycles:\n\t4a main (/bin/a)\n\n");
    assert_eq!(folded(&saved), "main 80\n");
}

#[test]
fn perf_samples_without_a_time_are_read() {
    let saved = read("sh 9 cycles:\n\t4a main (/bin/a)\n\nsh 9 cycles:\n\t4b main (/bin/a)\n\n");
    assert_eq!(folded(&saved), "main 2\n");
    assert_eq!((saved.samples.times_ns(), saved.duration_ns), (&[][..], 0));
    let saved = read("sh 9 cycles:\n4a main (/bin/a)\n\n");
    assert_eq!(folded(&saved), "main 1\n");
    // A sample without a time has that of the sample before it, or else of the first one with a
    // time.
    let saved = read("sh 9 cycles:\n\t1 a (/a)\n\nsh 9 1.5: cycles:\n\t1 a (/a)\n\nsh 9 cycles:\n\t1 a (/a)\n\n");
    assert_eq!((saved.samples.times_ns(), saved.duration_ns), (&[1_500_000_000; 3][..], 0));
}

#[test]
fn perf_headers_may_be_long() {
    let header = format!("# ========\n# cmdline : perf {}\n#\n", "word ".repeat(20_000));
    let saved = read(&format!("{header}sh 9 1.5: 3 cycles:\n\t4a main (/bin/a)\n\n"));
    assert_eq!(folded(&saved), "main 3\n");
    assert_eq!(folded(&read(&format!("{header}main;a 3\n"))), "main;a 3\n");
}

#[test]
fn unknown_addresses_of_perf_are_one_function_a_file() {
    let sample = |address: &str, place: &str| format!("sh 9 1.5: 1 cycles:\n\t{address} [unknown] ({place})\n\n");
    let all = [
        sample("4a", "/usr/lib/libc.so.6"),
        sample("5b", "/usr/lib/libc.so.6"),
        sample("6c", "/bin/dash"),
        sample("7f10", "[unknown]"),
        sample("7f20", "[unknown]"),
    ];
    let saved = read(&all.concat());
    assert_eq!(folded(&saved), "[dash] 1\n[libc.so.6] 2\n[unknown] 2\n");
    assert_eq!(saved.functions.len(), 3);
}

#[test]
fn modifiers_make_no_other_event_of_perf() {
    let sample = |event: &str| format!("sh 9 1.5: 1 {event}:\n\t4a main (/bin/a)\n\n");
    let all: Vec<String> = ["cycles:u", "cycles", "cycles:ppp", "instructions:u"].map(sample).into();
    let saved = read(&all.concat());
    assert_eq!((folded(&saved).as_str(), &*saved.sample_types[1].kind), ("main 3\n", "cycles"));
    assert_eq!(saved.comments.len(), 1);
    let all: Vec<String> = ["cpu_core/cycles/u", "cpu_core/cycles/", "sched:sched_switch"].map(sample).into();
    assert_eq!(folded(&read(&all.concat())), "main 2\n");
}

/// The sum of the first value of all samples with each name of a thread.
fn threads(saved: &SavedProfile) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    saved.samples.for_each(|sample| {
        let mut labels = saved.labels[sample.labels as usize].iter();
        if let Some(LabelValue::Text(name)) = labels.find(|label| label.key == *"thread").map(|label| &label.value) {
            *sums.entry(name.to_string()).or_default() += sample.values[0];
        }
    });
    sums
}

/// Four threads that use the CPU, with call chains and without, in a directory `App (x86)` and in a
/// file that is deleted. The numbers are those of `perf report --sort comm` and `--sort dso`.
#[test]
fn totals_are_those_of_perf_report() {
    for (name, counts, file, in_file) in [
        ("threads-chains.perf", [23, 21, 25, 24], "/tmp/ps/App (x86)/app", 92),
        ("threads-flat.perf", [23, 24, 21, 25], "/tmp/ps/App (x86)/app", 91),
        ("deleted.perf", [25, 29, 22, 18], "/memfd:doublemapper (deleted)", 94),
    ] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profiles/");
        let saved = read(&fs::read_to_string(format!("{path}{name}")).unwrap());
        let names = ["Job.Worker 0", "a (b) 7/8", "plain", "pool: 3"].map(str::to_owned);
        assert_eq!(threads(&saved), names.into_iter().zip(counts).collect(), "{name}");
        let mut leaves = 0;
        saved.samples.for_each(|sample| {
            leaves += usize::from(*saved.object(&saved.locations[sample.stack[0] as usize]) == *file);
        });
        assert_eq!((leaves, saved.comments.len()), (in_file, 0), "{name}");
        assert_eq!(saved.samples.values(1).sum::<i64>(), 5_025_125 * saved.samples.len() as i64);
    }
}

#[test]
fn perf_samples_without_an_event_are_read() {
    let line = "           plain  9253/9258   6302.841188:      55d1367d2180 leaf (/tmp/busy)\n";
    let chain = "plain  9253/9258   6302.841188: \n\t            1179 leaf (/tmp/busy)\n\n";
    for text in [line.repeat(3), chain.repeat(3)] {
        let saved = read(&text);
        assert_eq!((folded(&saved).as_str(), saved.samples.width(), saved.comments.len()), ("leaf 3\n", 1, 0));
    }
    let saved = read(&chain.replace(": \n", ":    2004008 \n").repeat(3));
    assert_eq!((folded(&saved).as_str(), saved.samples.width()), ("leaf 6012024\n", 2));
}

#[test]
fn warnings_ahead_of_a_profile_are_skipped_and_counted() {
    let log = "Warning: addr2line failed for /usr/lib/libc.so.6, line 12\n\n".repeat(2_000);
    let sample = "sh 9 1.5: 3 cycles:\n\t4a main (/bin/a)\n\n";
    let heap = "heap profile: 1: 8 [ 3: 24] @ heapprofile\n 1: 8 [ 3: 24] @ 0x1001\n";
    for (text, said) in [
        (format!("{log}{sample}"), "2000 lines that are no samples were skipped, the first is line 1"),
        (format!("{log}{heap}"), "2000 lines ahead of the heap profile were skipped"),
    ] {
        let mut warnings = Vec::new();
        let saved = format::read_with_warnings(text.as_bytes(), &mut warnings).unwrap();
        assert_eq!((saved.samples.len(), &*saved.comments[0], warnings), (1, said, vec![said.to_owned()]));
    }
    // The count is in the first lines of a report.
    let file = std::env::temp_dir().join(format!("sigtop-ahead-{}.perf", std::process::id()));
    fs::write(&file, format!("{log}{sample}")).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_sigtop")).args(["report", "--top"]).arg(&file).output().unwrap();
    fs::remove_file(&file).unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(said.lines().nth(1), Some("2000 lines that are no samples were skipped, the first is line 1"), "{said}");
    // What is far behind is not sought.
    let text = format!("{}{sample}", "Warning: addr2line failed\n".repeat(50_000));
    let error = format::read(text.as_bytes()).map(|saved| saved.samples.len()).unwrap_err();
    assert!(error.to_string().contains("unknown profile format"), "{error}");
}

#[test]
fn folded_values_may_have_fractions() {
    let saved = read("main;a 1.5\nmain;b 2\nmain;c 0.25\n");
    assert_eq!(folded(&saved), "main;a 1.5\nmain;b 2\nmain;c 0.25\n");
    assert!(PlaybackSource::import(&saved, "a", 0).is_ok());
    let whole = read("main;a 3.0\nmain;b 2\n");
    assert_eq!((folded(&whole).as_str(), &*whole.sample_types[0].unit), ("main;a 3\nmain;b 2\n", "count"));
}

#[test]
fn folded_lines_that_are_wrong_are_skipped_and_counted() {
    let text = "warning: lost 3 samples!\nmain;a 3\nmain;b\nmain;c nan\nmain;a;b c 7\n";
    assert_eq!(folded(&read(text)), "main;a 3\nmain;a;b c 7\n");
    let file = std::env::temp_dir().join(format!("sigtop-skipped-{}.folded", std::process::id()));
    fs::write(&file, text).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_sigtop")).args(["report", "--folded"]).arg(&file).output().unwrap();
    fs::remove_file(&file).unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{said}");
    let expected = format!(
        "sigtop: {}: skipped 3 of 5 lines that are not `frame;frame COUNT`, the first in line 1\n",
        file.display()
    );
    assert_eq!(said, expected);
    assert!(format::read(&b"no stack\nnor this\n"[..]).unwrap_err().to_string().contains("unknown profile format"));
}

/// Their lines end with numbers, too: addresses, counts, sampling periods.
#[test]
fn old_text_formats_of_java_are_refused_with_the_command_that_converts_them() {
    let pprof = "pprof -proto -output=NEW FILE";
    for (text, remedy) in [
        ("--- contention:\nformat = java\nresolution = microseconds\nsampling period = 100\n", pprof),
        ("--- heapz 1 ---\nheap profile:  1: 2 [ 1: 2 ] @ heapz\n", pprof),
    ] {
        let said = format::read(text.as_bytes()).unwrap_err().to_string();
        assert!(said.contains("old text format") && said.ends_with(remedy), "{text:?}: {said}");
    }
}

#[test]
fn text_with_numbers_at_the_ends_of_lines_is_no_folded_stack() {
    let text = "Inter-| Receive\nface |bytes packets errs\n lo: 13984 190 0\neth0: 1 2 drop\nname: multi 3\nno more\n";
    assert!(format::read(text.as_bytes()).unwrap_err().to_string().contains("unknown profile format"));
    // Stacks of several frames are stacks, however much else is written between them.
    assert_eq!(folded(&read("a\nb\nc\nmain;a 3\nd\n")), "main;a 3\n");
    assert_eq!(folded(&read("warning!\nmain 3\n")), "main 3\n");
}

#[test]
fn utf_16_is_said_to_be_converted() {
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for bytes in [wide("\u{feff}main;a 3\n"), wide("main;a;b c 3\r\n")] {
        let said = format::read(bytes.as_slice()).unwrap_err().to_string();
        assert!(said.contains("UTF-16") && said.contains("iconv -f UTF-16LE -t UTF-8"), "{said}");
    }
    let big: Vec<u8> = "\u{feff}main;a 3\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert!(format::read(big.as_slice()).unwrap_err().to_string().contains("iconv -f UTF-16BE -t UTF-8"));
    // A byte order mark is not part of the first frame's name.
    assert_eq!(folded(&read("\u{feff}main;a 3\n")), "main;a 3\n");
}
