//! Tests of saving: a file has the format of its name and the marked span; where nothing may be
//! written, a sentence says so.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::run::{SIGTOP, run};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;
use crate::recording::{Directory, record};

/// Returns a command without root's right to write anywhere.
fn unprivileged(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--bounding-set", "-dac_override,-dac_read_search"]).arg(command.get_program());
    bound.args(command.get_args());
    if nix::unistd::geteuid().is_root() {
        return bound;
    }
    let mut plain = Command::new(command.get_program());
    plain.args(command.get_args());
    plain
}

#[test]
fn a_failed_write_keeps_the_old_file_and_explains() {
    let directory = Directory::new("forbidden");
    let place = directory.file("forbidden");
    fs::create_dir(&place).expect("a directory");
    let file = place.join("a.sigtop");
    fs::write(&file, "the old one").expect("written");
    let set = |mode| fs::set_permissions(&place, fs::Permissions::from_mode(mode)).expect("ours");
    set(0o555);
    let sentence = format!("cannot write {}: permission denied; write to a directory that you own", file.display());

    let ran = run(&mut unprivileged(&record(&file, &[], "0.1")));
    assert!(ran.code() == 125 && ran.err().contains(&sentence), "{} {}", ran.code(), ran.err());
    let mut watch = Command::new(SIGTOP);
    watch.args(["--batch", "--save"]).arg(&file).arg("--").arg(targets::c("shares")).args(["60", "30", "10", "0.1"]);
    let ran = run(&mut unprivileged(&watch));
    assert!(ran.code() == 125 && ran.err().contains(&sentence), "{} {}", ran.code(), ran.err());

    let mut watch = Command::new(SIGTOP);
    watch.arg("--").arg(targets::c("shares")).args(["60", "30", "10", "60"]);
    let mut terminal = Terminal::start(140, 30, &unprivileged(&watch));
    terminal.see("burn_a");
    for name in ["a.sigtop", "a.pb.gz"] {
        terminal.keys(&format!("e\x15{}\r", place.join(name).display()));
        terminal.see(&format!("{name}: permission denied; write to a directory that you own"));
    }
    // The watch continues.
    terminal.keys(&format!("e\x15{}\r", directory.file("b.sigtop").display()));
    terminal.see("saved: ");
    terminal.keys("qe");
    terminal.finish();

    assert_eq!(fs::read(&file).expect("read"), b"the old one");
    assert_eq!(fs::read_dir(&place).expect("read").count(), 1, "nothing is left beside it");
    set(0o755);
    assert_eq!(directory.names(), ["b.sigtop", "forbidden"]);
}

#[test]
fn every_profile_that_is_written_is_read_again_as_the_same() {
    let directory = Directory::new("endings");
    let first = directory.file("a.sigtop");
    assert_eq!(run(&mut record(&first, &["--symbols"], "1")).code(), 0);
    let top = |file: &Path| run(Command::new(SIGTOP).args(["report", "--top", "--unit=ms"]).arg(file)).out();
    let row = |text: &str| -> Option<String> {
        let line = text.lines().find(|line| line.ends_with(" burn_a"))?;
        Some(line.split_whitespace().take(2).collect::<Vec<&str>>().join(" "))
    };
    let expected = row(&top(&first)).expect("a row");
    for name in ["a.pb.gz", "a.pb", "a.prof", "a.folded"] {
        let file = directory.file(name);
        let written = run(Command::new(SIGTOP).args(["report", "-o"]).arg(&file).arg(&first));
        assert_eq!(written.code(), 0, "{name}: {}", written.err());
        let again = row(&top(&file)).expect(name);
        // Folded stacks and gperftools' profiles contain ticks only, so shares are equal up to
        // their rounding.
        let share = |row: &str| row.split(' ').nth(1)?.trim_end_matches('%').parse::<f64>().ok();
        let same = share(&again).zip(share(&expected)).is_some_and(|(one, other)| (one - other).abs() < 1.5);
        assert!(again == expected || same && !name.contains(".pb"), "{name}: {again}, not {expected}");
    }
}

#[test]
fn graphviz_draws_graphs() {
    let graph = |file: &Path| {
        let mut report = Command::new(SIGTOP);
        report.args(["report", "--dot", "-o"]).arg(file);
        report.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profiles/ours.pb.gz"));
        report
    };
    let directory = Directory::new("drawn");
    let nowhere = run(graph(&directory.file("a.png")).env("PATH", "/nonexistent"));
    assert!(nowhere.code() != 0 && nowhere.err().contains("cannot draw .png: graphviz's dot is not installed"));
    assert!(directory.names().is_empty());
    assert_eq!(run(graph(&directory.file("a.dot")).env("PATH", "/nonexistent")).code(), 0);
    if Command::new("dot").arg("-V").stderr(Stdio::null()).status().is_err() {
        skip("graphviz is not here");
        return;
    }
    for (name, magic) in [("a.svg", &b"<?xml"[..]), ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.ps", b"%!PS")] {
        let ran = run(&mut graph(&directory.file(name)));
        assert_eq!(ran.code(), 0, "{name}: {}", ran.err());
        assert!(fs::read(directory.file(name)).expect("written").starts_with(magic), "{name}");
    }
}

#[test]
fn profiles_of_two_clocks_are_not_added_up() {
    let directory = Directory::new("clocks");
    let (cpu, wall, both) = (directory.file("cpu.sigtop"), directory.file("wall.sigtop"), directory.file("both.pb.gz"));
    assert_eq!(run(&mut record(&cpu, &[], "0.3")).code(), 0);
    assert_eq!(run(&mut record(&wall, &["--clock", "real"], "0.3")).code(), 0);
    let refused = run(Command::new(SIGTOP).arg("report").args([&cpu, &wall]).arg("-o").arg(&both));
    assert!(refused.code() != 0 && !both.exists());
    assert!(refused.err().contains("cannot merge the profiles") && refused.err().contains("wall"), "{}", refused.err());
    // These profiles have the same clock.
    let values = |files: &[&Path]| -> f64 {
        let text = run(Command::new(SIGTOP).args(["report", "--unit=ms"]).args(files)).out();
        let shown = text.lines().find_map(|line| line.strip_prefix("Showing nodes accounting for ")).expect("a total");
        shown.rsplit(" of ").next().and_then(|total| total.strip_suffix("ms total")?.parse().ok()).expect("a number")
    };
    let one = values(&[&cpu]);
    assert!(one > 0.0 && (values(&[&cpu, &cpu]) - 2.0 * one).abs() < 0.02, "{one}");
}

/// Waits until a span of the history is shown. Returns the number of its samples.
fn samples_of_span(terminal: &mut Terminal) -> u64 {
    terminal.see(" samples in a span of ");
    let text = terminal.text();
    let header = text.lines().find(|line| line.contains(" samples in a span of ")).expect("a header");
    let before = header.split(" samples").next().expect("a part");
    let digits: String = before.chars().rev().take_while(|letter| letter.is_ascii_digit()).collect();
    digits.chars().rev().collect::<String>().parse().expect("a number")
}

#[test]
fn a_marked_span_is_saved_alone() {
    let directory = Directory::new("span");
    let mut command = Command::new(SIGTOP);
    command.arg("--").arg(targets::c("shares")).args(["60", "30", "10", "2"]);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see("exited with status 0");
    terminal.keys(" [[m[[m");
    let shown = samples_of_span(&mut terminal);
    let file = directory.file("a.txt");
    terminal.keys(&format!("e\t\x1b[A\x15{}\r", file.display()));
    terminal.see("saved: ");
    let text = fs::read_to_string(&file).expect("it was written");
    let saved = text.lines().find_map(|line| line.strip_prefix("Samples: ")?.split(" (").next()?.parse::<u64>().ok());
    assert!(shown > 0 && saved == Some(shown), "{shown}\n{text}");
    let all = directory.file("all.txt");
    terminal.keys(&format!("e\x15{}\r", all.display()));
    terminal.wait("that too", |_| all.exists());
    terminal.keys("q");
    terminal.finish();
}

/// The time and weight of each sample of a file for the Firefox Profiler, in ms, in order of time.
fn times(text: &str) -> Vec<(f64, f64)> {
    let document: Value = serde_json::from_str(text).expect("JSON");
    let threads = document["threads"].as_array().expect("threads");
    let numbers = |column: &Value| -> Vec<f64> {
        column.as_array().expect("a column").iter().map(|number| number.as_f64().expect("a number")).collect()
    };
    let mut all: Vec<(f64, f64)> = Vec::new();
    for thread in threads {
        let samples = &thread["samples"];
        all.extend(numbers(&samples["time"]).into_iter().zip(numbers(&samples["weight"])));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    all
}

/// The names of a file for the Firefox Profiler.
fn names(text: &str) -> BTreeSet<String> {
    let document: Value = serde_json::from_str(text).expect("JSON");
    let threads = document["threads"].as_array().expect("threads");
    let names = threads.iter().flat_map(|thread| thread["stringArray"].as_array().expect("strings"));
    names.map(|name| name.as_str().expect("a string").to_owned()).collect()
}

#[test]
fn what_is_saved_for_the_firefox_profiler_has_the_times_of_the_samples() {
    let directory = Directory::new("times");
    let recording = directory.file("a.sigtop");
    let read = |name: &str| fs::read_to_string(directory.file(name)).expect("it was saved");
    let save = |terminal: &mut Terminal, keys: &str, name: &str| {
        let file = directory.file(name);
        terminal.keys(&format!("e{keys}\x15{}\r", file.display()));
        terminal.wait(name, |_| file.exists());
    };
    let mut command = Command::new(SIGTOP);
    command.arg("--").arg(targets::c("shares")).args(["60", "30", "10", "2"]);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see("exited with status 0");
    let report = || run(Command::new(SIGTOP).args(["report", "--firefox"]).arg(&recording)).out();
    // Names come from debug information, which is still being read.
    for round in 0.. {
        let _ = [fs::remove_file(&recording), fs::remove_file(directory.file("all.firefox.json"))];
        save(&mut terminal, "", "a.sigtop");
        save(&mut terminal, "", "all.firefox.json");
        if names(&read("all.firefox.json")) == names(&report()) || round == 20 {
            break;
        }
    }
    terminal.keys(" [[m[[m");
    let shown = samples_of_span(&mut terminal);
    save(&mut terminal, "\t\x1b[A", "span.firefox.json");
    terminal.keys("q");
    terminal.finish();

    let reported = report();
    let all = times(&read("all.firefox.json"));
    assert!(all.len() > 100 && all == times(&reported), "{all:?}\n{:?}", times(&reported));
    assert_eq!(names(&read("all.firefox.json")), names(&reported));
    // A thread has one sample at a tick of the kernel's, though the agent sends ten at a time.
    let same = all.windows(2).filter(|pair| pair[1].0 - pair[0].0 < 0.5).count();
    assert!(same * 10 < all.len(), "{same} of {} at one time: {all:?}", all.len());
    let span = times(&read("span.firefox.json"));
    assert!(span.len() as u64 == shown && span.len() < all.len(), "{shown} samples: {span:?}");
    let gaps = |times: &[(f64, f64)]| -> Vec<i64> {
        times.windows(2).map(|pair| ((pair[1].0 - pair[0].0) * 1e6).round() as i64).collect()
    };
    let (all_gaps, span_gaps) = (gaps(&all), gaps(&span));
    assert!(all_gaps.windows(span_gaps.len()).any(|part| part == span_gaps), "{span:?} is no part of {all:?}");

    let mut command = Command::new(SIGTOP);
    command.arg("view").arg(&recording);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see("burn_a");
    save(&mut terminal, "", "viewed.firefox.json");
    terminal.keys("q");
    terminal.finish();
    assert_eq!(times(&read("viewed.firefox.json")), all);
}

#[test]
fn a_process_that_was_there_already_is_watched_from_elsewhere() {
    let line = run(Command::new(SIGTOP).args(["env", "--path"])).out();
    let mut target = Command::new(targets::c("shares"));
    target.args(["60", "30", "10", "60"]).env("LD_PRELOAD", line.trim()).stdout(Stdio::null());
    let mut target = target.spawn().expect("it runs");
    let record = format!("{SIGTOP} record -o - --pid {} 2>/dev/null", target.id());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{record} | {SIGTOP} view --tui -")]);
    let mut terminal = Terminal::start(100, 30, &command);
    terminal.see("burn_a");
    terminal.see("watched 2");
    terminal.keys("q");
    terminal.finish();
    assert!(target.try_wait().expect("a child").is_none(), "it runs on");
    target.kill().expect("a child");
    target.wait().expect("a child");
}
