//! Recordings of `perf record`, made here and judged by `perf report` and `perf script`: the same
//! totals, shares and callers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use crate::skips::{are_installed, skip};

/// A program with known callers: `walk` calls itself, `step` is inlined into `middle`, and another
/// thread has a name of its own.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline)) void leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
static inline __attribute__((always_inline)) void step(unsigned long n) { leaf(n); sink++; }
__attribute__((noinline)) void middle(unsigned long n) { step(n); sink++; }
__attribute__((noinline)) void walk(int depth, unsigned long n) { if (depth) walk(depth - 1, n); else middle(n); sink++; }
__attribute__((noinline)) int order(const void *a, const void *b) { leaf(40); return *(int *)a - *(int *)b; }
static void *worker(void *unused) {
    pthread_setname_np(pthread_self(), "helper");
    for (int i = 0; i < 60; i++) walk(7, 400000);
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    int *numbers = malloc(4000 * sizeof *numbers);
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 4000; i++) numbers[i] = rand();
        qsort(numbers, 4000, sizeof *numbers, order);
        char *pages = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < 1 << 20; i += 4096) pages[i] = 1;
        munmap(pages, 1 << 20);
        usleep(100);
    }
    pthread_join(thread, 0);
    if (!fork()) { walk(3, 20000000); _exit(0); }
    wait(0);
    return 0;
}
"#;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("perf-data")
}

fn output(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).current_dir(directory()).stdin(Stdio::null()).output().unwrap()
}

/// Runs a program that must succeed, and returns its stdout.
fn text(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn sigtop(arguments: &[&str]) -> String {
    text(env!("CARGO_BIN_EXE_sigtop"), arguments)
}

/// Builds the program. Returns whether it can be recorded here.
fn can_record() -> bool {
    static RESULT: OnceLock<bool> = OnceLock::new();
    *RESULT.get_or_init(|| {
        if !are_installed(&["perf", "gcc"]) {
            return false;
        }
        fs::create_dir_all(directory()).unwrap();
        fs::write(directory().join("program.c"), PROGRAM).unwrap();
        let flags = ["-g", "-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"];
        text("gcc", &[&flags[..], &["program.c", "-o", "program"]].concat());
        let tried = output("perf", &["record", "-q", "-e", "cpu-clock", "-o", "try.data", "true"]);
        let works = tried.status.success();
        if !works {
            skip("perf records nothing here");
        }
        works
    })
}

/// Records the program into a file of this name.
fn record(name: &str, options: &[&str]) {
    text("perf", &[&["record", "-q", "-o", name][..], options, &["./program"]].concat());
}

/// The total weight of an event and the number of its samples, by perf.
fn perf_totals(name: &str) -> Vec<(String, u64, u64)> {
    let text = text("perf", &["report", "--stdio", "-i", name, "-g", "none", "--no-children"]);
    let mut totals = Vec::new();
    let mut event = (String::new(), 0);
    for line in text.lines() {
        if let Some((samples, name)) = line.strip_prefix("# Samples: ").and_then(|rest| rest.split_once("of event '")) {
            let samples = samples.trim();
            // perf shortens numbers from 10 000 on.
            event = (name.trim_end_matches('\'').to_owned(), samples.parse().unwrap_or(0));
        }
        if let Some(weight) = line.strip_prefix("# Event count (approx.): ") {
            totals.push((event.0.clone(), event.1, weight.parse().unwrap()));
        }
    }
    totals
}

/// A table of weights by name.
type Weights = BTreeMap<String, u64>;

/// The weights of all functions of an event, in the unit of the event: own ones and those with what
/// they call, as `perf script` tells them.
fn perf_weights(name: &str, event: &str, thread: Option<&str>) -> [Weights; 2] {
    let fields = "comm,tid,time,event,period,ip,sym";
    let text = text("perf", &["script", "-i", name, "-F", fields, "--no-inline"]);
    let (mut flat, mut cum) = (Weights::new(), Weights::new());
    for block in text.split("\n\n") {
        let mut lines = block.lines();
        let Some(header) = lines.next() else { continue };
        let words: Vec<&str> = header.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| word.strip_suffix(':') == Some(event)) else { continue };
        if thread.is_some_and(|thread| !header.trim_start().starts_with(thread)) {
            continue;
        }
        let period: u64 = words[at - 1].parse().unwrap();
        let names: Vec<&str> = lines.filter_map(|line| line.trim().split_once(' ')).map(|(_, name)| name).collect();
        let Some(leaf) = names.first() else { continue };
        *flat.entry((*leaf).to_owned()).or_default() += period;
        let each: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        each.into_iter().for_each(|name| *cum.entry(name.to_owned()).or_default() += period);
    }
    [flat, cum]
}

/// The same by sigtop, and the total.
fn sigtop_weights(name: &str, event: &str, more: &[&str]) -> ([Weights; 2], u64) {
    let options = ["report", "--json", "--nodecount=0", "--nodefraction=0", "--noinlines", "--sample_index", event];
    let json: serde_json::Value = serde_json::from_str(&sigtop(&[&options[..], more, &[name]].concat())).unwrap();
    let (mut flat, mut cum) = (Weights::new(), Weights::new());
    for row in json["rows"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap().trim_end_matches("()").to_owned();
        *flat.entry(name.clone()).or_default() += row["flat"].as_u64().unwrap();
        *cum.entry(name).or_default() += row["cum"].as_u64().unwrap();
    }
    ([flat, cum], json["total"].as_u64().unwrap())
}

/// The functions of the program and of the kernel that both must agree on.
const FUNCTIONS: [&str; 5] = ["leaf", "middle", "walk", "order", "main"];

/// Compares an event of a recording: its total, and the functions of the program.
fn agrees(name: &str, event: &str) -> [Weights; 2] {
    let ([flat, cum], total) = sigtop_weights(name, event, &[]);
    let [perf_flat, perf_cum] = perf_weights(name, event, None);
    let of_event = |line: &&(String, u64, u64)| line.0.split(':').next() == event.split(':').next();
    let (_, _, weight) = perf_totals(name).iter().find(of_event).cloned().unwrap();
    assert_eq!(total, weight, "{name} {event}");
    for function in FUNCTIONS {
        let [ours, perfs] = [(&flat, &cum), (&perf_flat, &perf_cum)]
            .map(|(flat, cum)| [flat, cum].map(|of| of.get(function).copied().unwrap_or(0)));
        assert_eq!(ours, perfs, "{name} {event}: flat and cum of {function}");
    }
    assert!(cum["leaf"] * 2 > total || event != "cpu-clock", "{name}: {cum:?}");
    [flat, cum]
}

#[test]
fn frame_pointers_have_the_numbers_of_perf() {
    if !can_record() {
        return;
    }
    record("fp.data", &["-e", "cpu-clock", "-F", "1999", "-g"]);
    let [flat, _] = agrees("fp.data", "cpu-clock");
    // The own time of every function of the kernel, too.
    let [perf_flat, _] = perf_weights("fp.data", "cpu-clock", None);
    let kernel = |weights: &Weights| {
        weights.iter().filter(|(name, _)| name.starts_with("clear_page")).map(|(_, ns)| ns).sum::<u64>()
    };
    assert_eq!(kernel(&flat), kernel(&perf_flat));
    assert!(sigtop(&["report", "--peek=^leaf", "fp.data"]).contains("walk"));
}

#[test]
fn copied_stacks_are_unwound_as_by_perf() {
    if !can_record() {
        return;
    }
    record("dwarf.data", &["-e", "cpu-clock", "-F", "1999", "--call-graph", "dwarf,16384"]);
    let [_, cum] = agrees("dwarf.data", "cpu-clock");
    assert!(cum["middle"] > 0 && cum["walk"] >= cum["middle"], "{cum:?}");
    // The callbacks of the C library have frames that only unwind tables describe.
    let ([_, cum], _) = sigtop_weights("dwarf.data", "cpu-clock", &["--show=^(main|order|leaf)$", "--focus=^order$"]);
    assert_eq!(cum["main"], cum["order"], "every stack of the callback reaches main");
    // Inlined calls are rows.
    assert!(sigtop(&["report", "--nodefraction=0", "dwarf.data"]).lines().any(|line| line.ends_with("step (inline)")));
}

#[test]
fn compressed_records_and_streams_have_the_numbers_of_perf() {
    if !can_record() {
        return;
    }
    record("packed.data", &["-z", "-e", "cpu-clock", "-F", "1999", "--call-graph", "dwarf"]);
    agrees("packed.data", "cpu-clock");
    let stream = output("perf", &["record", "-q", "-e", "cpu-clock", "-F", "1999", "-g", "-o", "-", "./program"]);
    assert!(stream.status.success() && !stream.stdout.is_empty());
    fs::write(directory().join("stream.data"), stream.stdout).unwrap();
    agrees("stream.data", "cpu-clock");
    // A stream and a file come through a pipe alike.
    for name in ["stream.data", "packed.data"] {
        let file = fs::File::open(directory().join(name)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sigtop"));
        let piped = command.args(["report", "--raw", "-"]).stdin(file).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&piped.stdout), sigtop(&["report", "--raw", name]), "{name}");
    }
}

#[test]
fn several_events_are_several_values() {
    if !can_record() {
        return;
    }
    record("events.data", &["-e", "cpu-clock", "-e", "page-faults", "-c", "50", "-g", "--switch-events"]);
    for event in ["cpu-clock", "page-faults"] {
        let [_, perf_cum] = perf_weights("events.data", event, None);
        let ([_, cum], total) = sigtop_weights("events.data", event, &[]);
        let totals = perf_totals("events.data");
        let of_event = |line: &&(String, u64, u64)| line.0.split(':').next() == Some(event);
        assert_eq!(Some(total), totals.iter().find(of_event).map(|line| line.2), "{event}");
        assert_eq!(cum.get("main"), perf_cum.get("main"), "{event}");
        assert!(total > 0);
    }
}

#[test]
fn threads_have_the_numbers_of_perf() {
    if !can_record() {
        return;
    }
    record("threads.data", &["-e", "cpu-clock", "-F", "1999", "-g"]);
    for thread in ["program", "helper"] {
        let [_, perf_cum] = perf_weights("threads.data", "cpu-clock", Some(thread));
        let tag = format!("--tagfocus=thread={thread}");
        let ([_, cum], _) = sigtop_weights("threads.data", "cpu-clock", &[&tag]);
        for function in ["leaf", "walk", "order"] {
            assert_eq!(cum.get(function), perf_cum.get(function), "{function} of {thread}");
        }
        assert!(cum["leaf"] > 0);
    }
}

#[test]
fn lost_samples_are_those_of_perf() {
    if !can_record() {
        return;
    }
    // The rings have room for three copied stacks.
    record("lost.data", &["-m", "32", "-e", "cpu-clock", "-F", "15000", "--call-graph", "dwarf,32768"]);
    let report = text("perf", &["report", "--stdio", "-i", "lost.data", "-g", "none"]);
    let lost = report.lines().find_map(|line| line.strip_prefix("# Total Lost Samples: ")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&sigtop(&["report", "--json", "lost.data"])).unwrap();
    let losses = json["recordings"][0]["losses"].as_array().unwrap();
    let ours: u64 = losses.iter().map(|loss| loss["ticks"].as_u64().unwrap()).sum();
    assert_eq!(ours, lost.trim().parse::<u64>().unwrap(), "{json}");
    assert!(ours > 0);
}

#[test]
fn groups_of_counters_have_the_numbers_of_perf() {
    if !can_record() {
        return;
    }
    record("group.data", &["-e", "{cpu-clock,page-faults}:S", "-F", "1999", "-g"]);
    let report = text("perf", &["report", "--stdio", "-i", "group.data", "--no-group", "-g", "none", "--no-children"]);
    let weights = report.lines().filter_map(|line| line.strip_prefix("# Event count (approx.): "));
    let perfs: Vec<u64> = weights.map(|weight| weight.parse().unwrap()).collect();
    let ours = ["cpu-clock", "page-faults"].map(|event| sigtop_weights("group.data", event, &[]).1);
    assert_eq!(perfs, ours);
}

#[test]
fn stacks_begin_in_the_vdso_and_reach_main() {
    if !can_record() {
        return;
    }
    let program = "#include <time.h>\nint main(void) { struct timespec now;\n\
                   for (int i = 0; i < 4000000; i++) clock_gettime(CLOCK_MONOTONIC, &now);\nreturn 0; }\n";
    fs::write(directory().join("clock.c"), program).unwrap();
    text("gcc", &["-O2", "clock.c", "-o", "clock"]);
    text(
        "perf",
        &["record", "-q", "-o", "clock.data", "-e", "cpu-clock:u", "-F", "1999", "--call-graph", "dwarf", "./clock"],
    );
    let ([flat, cum], total) = sigtop_weights("clock.data", "cpu-clock:u", &[]);
    let vdso: u64 = flat.iter().filter(|(name, _)| name.contains("clock_gettime")).map(|(_, ns)| ns).sum();
    // A sample may be before main.
    assert!(vdso * 2 > total && cum["main"] * 100 >= total * 95, "{cum:?}");
}

/// The name of a function without what compilers add to names of its parts, and what tells one
/// name of libc from its others: perf and sigtop each choose one.
fn base_name(name: &str) -> String {
    let name = name.trim_end_matches("()").split('.').next().unwrap_or(name);
    name.trim_start_matches("__GI_").trim_start_matches('_').to_owned()
}

/// The weights of the direct callers of a function, by perf, and of all of its samples.
fn perf_callers(name: &str, function: &str) -> (Weights, u64) {
    let graph = "folded,0,callee,function,period";
    let options = ["--stdio", "--children", "--no-inline", "--sort", "symbol", "--percent-limit", "0"];
    let report = text("perf", &[&["report", "-i", name, "-g", graph][..], &options].concat());
    let (mut callers, mut all) = (Weights::new(), 0);
    let chains = report.lines().filter_map(|line| line.split_once(' ')).filter_map(|(weight, chain)| {
        let weight: u64 = weight.parse().ok()?;
        Some((weight, chain.split(';').collect::<Vec<_>>()))
    });
    for (weight, chain) in chains.filter(|(_, chain)| base_name(chain[0]) == function) {
        all += weight;
        if let Some(caller) = chain.get(1) {
            *callers.entry(base_name(caller)).or_default() += weight;
        }
    }
    (callers, all)
}

/// The same by sigtop.
fn sigtop_callers(name: &str, function: &str) -> (Weights, u64) {
    let peek = format!("--peek=^(__GI_)?_*{function}($|\\.)");
    let json = sigtop(&["report", "--json", &peek, "--noinlines", "--nodefraction=0", "--edgefraction=0", name]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let (mut callers, mut all) = (Weights::new(), 0);
    for found in json["functions"].as_array().unwrap() {
        all += found["cum"].as_u64().unwrap();
        for caller in found["callers"].as_array().unwrap() {
            *callers.entry(base_name(caller["name"].as_str().unwrap())).or_default() +=
                caller["value"].as_u64().unwrap();
        }
    }
    (callers, all)
}

#[test]
fn callers_have_the_shares_of_perf() {
    if !can_record() {
        return;
    }
    for (name, graph) in [("callers-fp.data", "fp"), ("callers-dwarf.data", "dwarf,16384")] {
        record(name, &["-e", "cpu-clock", "-F", "2999", "--call-graph", graph]);
        let ([flat, _], _) = sigtop_weights(name, "cpu-clock", &[]);
        let mut hottest: Vec<(&String, &u64)> = flat.iter().collect();
        hottest.sort_by_key(|(_, own)| std::cmp::Reverse(**own));
        // Of a function that calls itself, perf tells the callers of the innermost call and pprof's
        // graph those of the outermost one.
        let callers = hottest.iter().map(|(function, _)| {
            let function = base_name(function);
            (perf_callers(name, &function), function)
        });
        let judged = callers.filter(|((perfs, all), function)| *all > 0 && !perfs.contains_key(function));
        let mut names = Vec::new();
        for ((perfs, perf_all), function) in judged.take(3) {
            let (ours, all) = sigtop_callers(name, &function);
            assert!(all > 0, "{name}: {function}");
            let share = |weight: u64, all: u64| weight as f64 / all as f64 * 100.0;
            // A function of libc has several names, of which perf may show another one.
            let renamed: Vec<f64> = ours
                .iter()
                .filter(|(caller, _)| !perfs.contains_key(*caller))
                .map(|(_, weight)| share(*weight, all))
                .collect();
            // perf has no name for code without symbols.
            let named = perfs.iter().filter(|(caller, _)| !caller.starts_with("0x") && !caller.starts_with('['));
            for (caller, weight) in named {
                let own = ours.get(caller).map_or(renamed.clone(), |weight| vec![share(*weight, all)]);
                let of_perf = share(*weight, perf_all);
                let is_equal = own.iter().any(|own| (own - of_perf).abs() < 0.1);
                assert!(is_equal, "{name}: {caller} calls {function}: {own:?} and {of_perf}");
            }
            names.push(function);
        }
        assert!(names.len() == 3 && names.contains(&"leaf".to_owned()), "{names:?}");
        let (callers, _) = sigtop_callers(name, "leaf");
        assert!(callers.contains_key("walk") || callers.contains_key("middle"), "{callers:?}");
    }
}

#[test]
fn events_of_the_scheduler_have_the_numbers_of_perf() {
    if !can_record() {
        return;
    }
    record("software.data", &["-e", "context-switches,page-faults,cpu-migrations", "-c", "1", "-g"]);
    let totals = perf_totals("software.data");
    for event in ["context-switches", "page-faults", "cpu-migrations"] {
        let of_perf = totals.iter().find(|line| line.0.split(':').next() == Some(event)).map_or(0, |line| line.2);
        // On one processor no thread migrates.
        if of_perf == 0 && event == "cpu-migrations" {
            continue;
        }
        let ([flat, cum], total) = sigtop_weights("software.data", event, &[]);
        let [perf_flat, perf_cum] = perf_weights("software.data", event, None);
        assert!(total == of_perf && total > 0, "{event}: {total} and {of_perf}");
        for function in ["main", "walk", "schedule"] {
            let of = |weights: &Weights| weights.get(function).copied().unwrap_or(0);
            assert_eq!((of(&flat), of(&cum)), (of(&perf_flat), of(&perf_cum)), "{event}: {function}");
        }
    }
    let event = "sched:sched_switch";
    let tried = output("perf", &["record", "-q", "-e", event, "-g", "-o", "switches.data", "./program"]);
    if !tried.status.success() {
        return skip("perf may not record tracepoints here");
    }
    let ([flat, cum], total) = sigtop_weights("switches.data", event, &[]);
    let [perf_flat, perf_cum] = perf_weights("switches.data", event, None);
    let totals = perf_totals("switches.data");
    assert_eq!(totals, [(event.to_owned(), totals[0].1, total)]);
    for function in ["__schedule", "schedule", "main", "leaf"] {
        let of = |weights: &Weights| weights.get(function).copied().unwrap_or(0);
        assert_eq!((of(&flat), of(&cum)), (of(&perf_flat), of(&perf_cum)), "{function}");
    }
    assert!(flat["__schedule"] == total && total > 0, "{flat:?}");
}

/// The times of the samples of each event, ns, by perf.
fn perf_times(name: &str) -> BTreeMap<String, Vec<i64>> {
    let mut times = BTreeMap::<String, Vec<i64>>::new();
    // Without the frames each sample is a line.
    for line in text("perf", &["script", "--ns", "-i", name, "-F", "time,event"]).lines() {
        let (time, event) = line.trim().split_once(": ").unwrap();
        let (seconds, ns) = time.split_once('.').unwrap();
        let at_ns = seconds.trim().parse::<i64>().unwrap() * 1_000_000_000 + ns.parse::<i64>().unwrap();
        times.entry(event.trim().trim_end_matches(':').to_owned()).or_default().push(at_ns);
    }
    times
}

/// Samples of several events were drawn one after another, as if they had no times.
#[test]
fn samples_of_several_events_keep_their_times() {
    if !can_record() {
        return;
    }
    record("times.data", &["-e", "cpu-clock,page-faults,context-switches", "-F", "1999", "-g"]);
    let perfs = perf_times("times.data");
    let first_ns = perfs.values().flatten().copied().min().unwrap();
    assert!(perfs.len() >= 2, "{perfs:?}");
    for (event, times) in &perfs {
        let index = format!("--sample_index={event}");
        let json = sigtop(&["report", "--firefox", &index, "times.data"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let threads = json["threads"].as_array().unwrap().iter();
        let ours = threads.flat_map(|thread| thread["samples"]["time"].as_array().unwrap());
        let mut ours: Vec<f64> = ours.map(|time| time.as_f64().unwrap()).collect();
        ours.sort_by(f64::total_cmp);
        let mut expected: Vec<f64> = times.iter().map(|time| (time - first_ns) as f64 / 1e6).collect();
        expected.sort_by(f64::total_cmp);
        assert_eq!(ours.len(), expected.len(), "{event}");
        assert!(
            ours.iter().zip(&expected).all(|(one, other)| (one - other).abs() < 1e-6),
            "{event}: {ours:?} {expected:?}"
        );
    }
    let duration = |event: &str| {
        let json = sigtop(&["report", "--json", "--sample_index", event, "times.data"]);
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["duration_ns"].as_i64().unwrap()
    };
    let last_ns = perfs.values().flatten().copied().max().unwrap();
    let stretch = duration("cpu-clock") as f64 / (last_ns - first_ns) as f64;
    assert!((1.0..1.5).contains(&stretch), "the events are of one time: {stretch}");
}

#[test]
fn symbols_are_explained_and_sizes_of_stacks_are_refused() {
    if !can_record() {
        return;
    }
    record("symbols.data", &["-e", "cpu-clock", "-F", "1999", "-g"]);
    let symbols = sigtop(&["symbols", "symbols.data"]);
    let program = fs::canonicalize(directory().join("program")).unwrap();
    assert!(symbols.lines().any(|line| line == program.to_str().unwrap()), "{symbols}");
    assert!(symbols.contains("functions") && symbols.lines().any(|line| line.ends_with("  program")), "{symbols}");
    let json: serde_json::Value = serde_json::from_str(&sigtop(&["symbols", "--json", "symbols.data"])).unwrap();
    let own = json["coverage"].as_array().unwrap().iter().find(|file| file["file"] == "program").unwrap();
    assert!(own["with_line_percent"].as_f64().unwrap() > 50.0, "{json}");
    let refused = output(env!("CARGO_BIN_EXE_sigtop"), &["report", "--stacks", "symbols.data"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("is a recording of perf, which has no sizes of stacks"),
        "{said}"
    );
}
