//! The clock of allocated bytes: shares of sites, totals, and live bytes agree with what the target
//! has counted itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::alloc::LIBRARIES;
use super::guest::{Guest, host, prove, same};
use crate::harness::raw::Raw;
use crate::harness::run::{Batch, SIGTOP, Watched, run, text, tool};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// The mean bytes between two samples here. The totals below are some thousand times that.
const INTERVAL: f64 = 131_072.0;

fn watch(program: &[&str], megabytes: u32, parts: [&str; 3]) -> Watched {
    let megabytes = megabytes.to_string();
    let command = [program, &[&megabytes], &parts].concat();
    let watched = Batch::new("--clock alloc --bytes 128k --budget 100%").run(&command);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let raw = &watched.raw;
    assert_eq!(raw.number("ticks"), raw.number("sent") + raw.lost_all().0, "ticks, sent, lost: {:?}", raw.lost);
    watched
}

/// The bytes of a function and what it calls.
fn bytes(raw: &Raw, clock: &str, function: &str) -> f64 {
    let entries = raw.of(clock).filter(|entry| entry.frames.iter().any(|frame| frame.name() == function));
    entries.map(|entry| entry.weight_ns).sum::<u64>() as f64
}

/// Distance of a sampled number of bytes from the true one, in standard deviations. An allocation
/// of `s` bytes that is sampled with the chance `p = 1 - e^(-s / interval)` adds `s² (1 - p) / p` to
/// the variance, which is less than `s × interval`.
fn deviations(sampled: f64, truth: f64) -> f64 {
    (sampled - truth).abs() / (truth * INTERVAL).sqrt()
}

/// Checks the bytes of three sites, those of the mappings, and those that are not freed.
fn check_bytes(Watched { raw, ran, .. }: &Watched) {
    // What the ring had no room for is lost at all sites alike.
    let kept = raw.weight_ns("alloc") as f64 / (raw.weight_ns("alloc") + raw.lost_bytes) as f64;
    let check = |clock: &str, site: &str, truth: f64| {
        let sampled = bytes(raw, clock, site);
        let distance = deviations(sampled, truth * kept);
        assert!(distance < 3.0, "{clock}, {site}: {sampled} of {truth} ({kept}): {distance} standard deviations");
    };
    for (site, name) in [("site_a", "a"), ("site_b", "b"), ("site_c", "c")] {
        check("alloc", site, ran.number(name) as f64);
    }
    let truth: f64 = ["a", "b", "c", "mapped", "grown"].map(|name| ran.number(name) as f64).iter().sum();
    let ratio = (raw.weight_ns("alloc") + raw.lost_bytes) as f64 / truth;
    let bound = (3.0 * (INTERVAL / truth).sqrt()).max(0.03);
    assert!((ratio - 1.0).abs() < bound, "{ratio:.4} of the true bytes; lost {:?}", raw.lost);
    for site in ["site_a", "site_b"] {
        assert_eq!(bytes(raw, "live", site), 0.0, "{site} frees all");
    }
    check("live", "site_c", ran.number("leaked") as f64);
    // Memory of the kernel is a kind of its own, and large: each mapping is sampled, and what is
    // left of it is known to the page.
    for (function, all, gone) in [("mmap", "mapped", "unmapped"), ("mremap", "grown", "ungrown")] {
        let [all, gone] = [all, gone].map(|name| ran.number(name) as f64);
        for (clock, truth) in [("alloc", all), ("live", all - gone)] {
            let missing = truth - bytes(raw, clock, function);
            let lost = raw.lost_bytes as f64;
            assert!(
                (0.0..=lost).contains(&missing),
                "{clock}, {function}: {missing} of {truth} are missing, {lost} lost"
            );
        }
    }
}

#[test]
fn bytes_of_sites_are_those_that_the_target_counts() {
    let watched = watch(&[text(&targets::c("allocates"))], 6_000, ["60", "30", "10"]);
    check_bytes(&watched);
    // What is not freed is what mallinfo2(3) says, too.
    let (counted, in_use) = (watched.ran.number("leaked") as f64, watched.ran.number("in_use") as f64);
    assert!(in_use == 0.0 || (in_use / counted - 1.0).abs() < 0.03, "{in_use} of {counted}");
}

/// Other allocators stand in the place of libc's, and musl's functions call each other.
#[test]
fn bytes_are_counted_once_with_other_allocators() {
    let source =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/allocates.c")).expect("it is there");
    let build = |compiler: &str, flags: &[&str]| {
        targets::generated("allocates", &source, "c", compiler, &[&["-O2", "-pthread"], flags].concat())
    };
    let parts = ["60", "30", "10"];
    for library in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"] {
        let path = Path::new(LIBRARIES).join(library);
        match path.exists() {
            true => check_bytes(&watch(&[text(&build("cc", &["-Wl,--no-as-needed", text(&path)]))], 1_000, parts)),
            false => skip(&format!("{library} is not installed")),
        }
    }
    // Preloaded, as users do it.
    let path = Path::new(LIBRARIES).join("libmimalloc.so.2");
    if path.exists() {
        let preload = format!("LD_PRELOAD=$LD_PRELOAD:{} exec \"$0\" \"$@\"", text(&path));
        check_bytes(&watch(&["sh", "-c", &preload, text(&targets::c("allocates"))], 1_000, parts));
    }
    if tool("musl-gcc").is_some() {
        check_bytes(&watch(&[text(&build("musl-gcc", &[]))], 1_000, parts));
    }
}

/// Sites that allocate at different speeds by turns, many times more quickly than a thread may be
/// sampled: the interval changes all the time, and the bytes are still right.
#[test]
fn bytes_are_unbiased_while_the_interval_follows_the_rate() {
    let binary = targets::c("allocates_unevenly");
    let command = [text(&binary), "2"];
    let Watched { raw, ran, .. } = Batch::new("--clock alloc --bytes 16k --budget 10%").run(&command);
    assert_eq!((ran.code(), raw.lost_all().0), (0, 0), "{}", ran.err());
    let [a, b, c] = ["a", "b", "c"].map(|name| ran.number(name) as f64);
    // Bytes of one call in 16 KiB would be 250 000 samples.
    let interval = raw.number("interval") as f64;
    assert!(interval > 4.0 * 16384.0 && raw.number("ticks") < 100_000, "{interval}, {}", raw.number("ticks"));
    let check = |clock: &str, site: &str, truth: f64| {
        let sampled = bytes(&raw, clock, site);
        // The interval is a mean of all sites. That of the first is the longest.
        let distance = (sampled - truth).abs() / (truth * 2.0 * interval).sqrt();
        assert!(distance < 3.0, "{clock}, {site}: {sampled} of {truth}: {distance} standard deviations of {interval}");
    };
    [("site_a", a), ("site_b", b), ("site_c", c)].into_iter().for_each(|(site, truth)| check("alloc", site, truth));
    let (ratio, truth) = (raw.weight_ns("alloc") as f64 / (a + b + c), a + b + c);
    assert!((ratio - 1.0).abs() < (3.0 * (interval / truth).sqrt()).max(0.03), "{ratio} of the true bytes");
    check("live", "site_a", ran.number("kept") as f64);
    assert_eq!(bytes(&raw, "live", "site_b"), 0.0, "it keeps nothing");
}

/// The checks above can fail.
#[test]
fn bytes_of_other_shares_are_noticed() {
    let watched = watch(&[text(&targets::c("allocates"))], 2_000, ["50", "40", "10"]);
    let sampled = bytes(&watched.raw, "alloc", "site_a");
    let truth = watched.ran.number("a") as f64;
    assert!(deviations(sampled, truth * 1.2) > 3.0, "{sampled} of {truth}");
}

/// A saved profile has all four types, named as other heap profilers name them, and what a report
/// says of memory in use is what the live dump says.
#[test]
fn saved_profiles_have_allocated_and_live_bytes() {
    let file = targets::scratch("allocations").join("heap.pb.gz");
    let mut record = Command::new(SIGTOP);
    record.args(["record", "--clock", "alloc", "--bytes", "128k", "-o", text(&file), "--"]);
    record.args([text(&targets::c("allocates")), "2000", "20", "20", "60"]);
    let ran = run(&mut record);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let report = |options: &[&str]| {
        let ran = run(Command::new(SIGTOP).arg("report").args(options).arg(&file));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ran.out()
    };
    let raw = report(&["--raw"]);
    assert!(
        raw.contains("alloc_objects/count alloc_space/bytes[dflt] inuse_objects/count inuse_space/bytes"),
        "{}",
        &raw[..raw.len().min(2000)]
    );
    let top = report(&["--top", "--sample_index=inuse_space"]);
    assert!(top.contains("Type: inuse_space") && top.contains("site_c") && !top.contains("site_a"), "{top}");
    let objects = report(&["--top", "--sample_index=alloc_objects"]);
    assert!(objects.contains("site_a"), "{objects}");
}

#[test]
fn allocations_are_refused_from_outside_with_one_sentence() {
    let mut command = Command::new(SIGTOP);
    command.args(["--batch", "--engine", "external", "--clock", "alloc", "--", "true"]);
    let ran = run(&mut command);
    assert_eq!(ran.code(), 2, "{}", ran.err());
    let sentence = "sigtop: allocations cannot be sampled from outside: they need the agent (leave out --clock)\n";
    assert_eq!(ran.err(), sentence);
}

/// Every allocation is sampled, or every few: in constructors and handlers, on threads that end, in
/// fork children, while libraries come and go, and under a filter of system calls. An agent that
/// changed the rights of pages while the loader did so crashed here in one run of five.
#[test]
fn a_program_that_allocates_where_it_is_hardest_is_unharmed() {
    let binary = targets::c("allocates_hard");
    for options in [&[][..], &["filter"]] {
        let command = [&[text(&binary)], options].concat();
        let alone = host(Guest::Nobody, &command);
        assert_eq!(alone.code, 0, "{alone:?}");
        let ways =
            ["--clock alloc --bytes 1 --budget 100%", "--clock alloc --bytes 64", "--clock live"].map(Guest::Batch);
        prove(&ways, &[], |guest| same(host(guest, &command), alone.clone()));
        // What was allocated and not freed is what is in use: nothing of that which was freed, and
        // all of the rest.
        let Watched { raw, ran, .. } = Batch::new("--clock alloc --bytes 16k --budget 100%").run(&command);
        assert_eq!((ran.code(), ran.out()), (0, alone.stdout.clone()), "{}", ran.err());
        let freed = bytes(&raw, "alloc", "churn");
        // A child whose agent was ready in time keeps some, too.
        let parent = raw.images[0].pid;
        let live = |function: &str| {
            let own = raw.of("live").filter(|entry| entry.pid == parent);
            let own = own.filter(|entry| entry.frames.iter().any(|frame| frame.name() == function));
            own.map(|entry| entry.weight_ns).sum::<u64>() as f64
        };
        let left = live("churn");
        assert!(freed > 50e6 && left == 0.0, "{options:?}: {left} of {freed}");
        let all = raw.weight_ns("alloc") as f64;
        // What fork children allocate before their agents are ready is lost there alone.
        let lost = raw.lost_bytes as f64 - raw.lost["not-ready"].0 as f64 * 16384.0;
        let sampled = live("keep") / (all / (all + lost.max(0.0)));
        let truth = ran.number("kept") as f64;
        let distance = (sampled - truth).abs() / (truth * 16384.0).sqrt();
        assert!(distance < 3.0, "{options:?}: {sampled} of {truth}, {distance} standard deviations; {:?}", raw.lost);
    }
}

/// Regression test: no allocation of a process was sampled that was forked while a library was
/// unloaded.
#[test]
fn a_child_that_a_destructor_forks_is_sampled() {
    let (program, library) = (targets::c("forks_unloading"), targets::library("forks_unloading"));
    let watched = Batch::new("--clock alloc --bytes 128k --budget 100%").run(&[text(&program), text(&library), "1000"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let (sampled, truth) = (bytes(&watched.raw, "alloc", "allocate"), watched.ran.number("child") as f64);
    // Its agent starts after a tick.
    assert!(sampled > 0.5 * truth, "{sampled} of {truth}; {:?}", watched.raw.lost);
}

/// A process that is killed, or ends under a seccomp filter, sends nothing of its last tenth of a
/// second: what it freed then was in use for ever.
#[test]
fn what_is_freed_last_is_not_in_use_however_the_process_ends() {
    let binary = targets::c("frees_last");
    for (end, status) in [("exit", 0), ("kill", 137)] {
        let Watched { raw, ran, .. } = Batch::new("--clock alloc --bytes 64k --budget 100%").run(&[text(&binary), end]);
        assert_eq!(ran.code(), status, "{}", ran.err());
        let of = |clock, function| bytes(&raw, clock, function);
        assert!(of("alloc", "take") > 50e6 && of("live", "take") == 0.0, "{end}: {} are left", of("live", "take"));
        assert_eq!(of("live", "keep"), of("alloc", "keep"), "{end}");
        assert_eq!((of("alloc", "mmap"), of("live", "mmap")), (f64::from(32 << 20), f64::from(9 << 20)), "{end}");
    }
}

/// Ten million allocations, or with `SIGTOP_LONG=1` a billion: all are counted, and none is left.
#[test]
fn very_many_allocations_are_all_counted() {
    let count: u64 = if std::env::var_os("SIGTOP_LONG").is_some() { 1_000_000_000 } else { 10_000_000 };
    let Watched { raw, ran, .. } =
        Batch::new("--clock alloc --budget 100%").run(&[text(&targets::c("pairs")), &count.to_string()]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let truth = 64.0 * count as f64;
    let ratio = (raw.weight_ns("alloc") + raw.lost_bytes) as f64 / truth;
    let bound = (3.0 * (524_288.0 / truth).sqrt()).max(0.001);
    assert!((ratio - 1.0).abs() < bound, "{ratio} of {truth} bytes; lost {:?}", raw.lost);
    // The buffer of printf(3) may be one of the samples.
    let left = raw.of("live").filter(|entry| entry.frames.last().is_some_and(|frame| frame.name() == "main"));
    assert_eq!(left.count(), 0, "all are freed");
}

/// Nothing is replaced in a program before the clock is asked for, nor after it was left.
#[test]
fn functions_are_replaced_only_while_allocations_are_sampled() {
    let file = targets::scratch("offset-table").join("words");
    let mut command = Command::new(SIGTOP);
    command.args(["--no-config", "--on-quit", "end", "--", text(&targets::c("offset_table")), text(&file)]);
    let mut terminal = Terminal::start(140, 40, &command);
    let mut reach = |keys: &str, header: &str, words: &str| {
        terminal.keys(keys);
        let seen = || fs::read_to_string(&file).unwrap_or_default();
        terminal.wait(words, |screen| screen.contents().contains(header) && seen() == words);
    };
    reach("", "● CPU time   ", "real\n");
    reach("r", "● wall time   ", "real\n");
    reach("A", "ALLOC", "real\nreplaced\n");
    reach("A", "LIVE", "real\nreplaced\n");
    reach("p", "● CPU time   ", "real\nreplaced\nreal\n");
    terminal.keys("q");
    terminal.finish();
}

/// The clock is switched while the target runs: functions are replaced, put back, and replaced
/// again.
#[test]
fn the_screen_switches_to_memory_and_back() {
    let mut command = Command::new(SIGTOP);
    command.args(["--no-config", "--on-quit", "end", "--bytes", "64k", "--"]);
    command.args([text(&targets::c("allocates")), "1000000", "60", "30", "10"]);
    let mut terminal = Terminal::start(140, 40, &command);
    terminal.wait("CPU time", |screen| screen.contents().contains("CPU time") && screen.contents().contains("/s)"));
    terminal.keys("A");
    terminal.wait("allocated bytes", |screen| {
        let text = screen.contents();
        text.contains("ALLOC") && text.contains("64 KiB") && text.contains("B/s") && text.contains("site_a")
    });
    terminal.keys("A");
    terminal.wait("live bytes, of the one site that keeps some", |screen| {
        let text = screen.contents();
        text.contains("LIVE") && text.contains("site_c") && text.contains("MB")
    });
    terminal.keys("p");
    terminal.wait("CPU time again", |screen| screen.contents().contains("● CPU time   "));
    terminal.keys("A");
    terminal.wait("allocated bytes again", |screen| {
        screen.contents().contains("ALLOC") && screen.contents().contains("B/s")
    });
    terminal.keys("q");
    terminal.finish();
}

/// Regression test: what fork children allocated before their first tick of CPU time was lost:
/// seven of eight gigabytes where they hardly compute, and nothing was said.
#[test]
fn fork_children_that_hardly_compute_are_sampled_from_their_first_sample() {
    let watched =
        Batch::new("--clock alloc --bytes 128k --budget 100%").run(&[text(&targets::c("fork_allocates")), "4", "100"]);
    let (raw, truth) = (&watched.raw, watched.ran.number("bytes") as f64);
    let sampled = bytes(raw, "alloc", "allocate");
    let distance = deviations(sampled + raw.lost_bytes as f64, truth);
    assert!(distance < 3.0, "{sampled} and {} of {truth}: {distance} standard deviations", raw.lost_bytes);
    assert!((raw.lost_bytes as f64) < 0.05 * truth, "{:?} of {truth}", raw.lost);
}
