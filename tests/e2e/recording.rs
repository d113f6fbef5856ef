//! Recordings: a replay shows what was recorded, and a recording that is killed, full or forbidden
//! loses no recorded samples.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sigtop::wire::VERSION;

use crate::harness::children::Started;
use crate::harness::outside::engines_outside;
use crate::harness::run::{Ran, SIGTOP, run};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// An empty directory that is removed at the end of its test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("sigtop-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a directory").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the command `sigtop record` into a file, with a burner that runs for this many seconds.
pub(crate) fn record(file: &Path, options: &[&str], seconds: &str) -> Command {
    let mut command = Command::new(SIGTOP);
    command.args(["record", "-o"]).arg(file).args(options).arg("--");
    command.arg(targets::c("shares")).args(["60", "30", "10", seconds]);
    command
}

pub(crate) fn view(file: &Path) -> Ran {
    run(Command::new(SIGTOP).args(["view", "--batch"]).arg(file))
}

/// Rows of a table: function and flat, without the heading.
fn rows(table: &str) -> Vec<(String, String)> {
    let rows = table.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    let words = rows.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    words.filter(|words| words.len() > 5).map(|words| (words[5..].join(" "), words[0].clone())).collect()
}

#[test]
fn what_is_played_is_what_was_printed() {
    let directory = Directory::new("played");
    let file = directory.file("a.sigtop");
    let mut command = Command::new(SIGTOP);
    command.args(["--batch", "--save"]).arg(&file).arg("--").arg(targets::c("shares")).args(["60", "30", "10", "1"]);
    let live = run(&mut command);
    assert_eq!(live.code(), 0, "{}", live.err());
    let played = view(&file);
    assert_eq!(played.code(), 0, "{}", played.err());
    let (live, played) = (rows(&live.err()), rows(&played.out()));
    assert!(live.len() >= 3 && live == played, "{live:?}\n{played:?}");
    assert_eq!(directory.names(), ["a.sigtop"]);
}

#[test]
fn the_exit_status_is_the_programs() {
    let directory = Directory::new("status");
    let file = directory.file("a.sigtop");
    let ran = run(Command::new(SIGTOP).args(["record", "-o"]).arg(&file).args(["--", "sh", "-c", "exit 3"]));
    assert_eq!(ran.code(), 3, "{}", ran.err());
    let ran = run(Command::new(SIGTOP).args(["record", "-o"]).arg(&file).args(["--", "sh", "-c", "kill -TERM $$"]));
    assert_eq!(ran.code(), 128 + 15, "{}", ran.err());
    assert!(view(&file).out().contains("no sample"), "{}", view(&file).out());
}

#[test]
fn a_recording_is_reported_as_a_profile_is() {
    let directory = Directory::new("reported");
    let file = directory.file("a.sigtop");
    assert_eq!(run(&mut record(&file, &["--hz", "250"], "0.6")).code(), 0);
    let reported = run(Command::new(SIGTOP).args(["report", "--top"]).arg(&file));
    assert_eq!(reported.code(), 0, "{}", reported.err());
    assert_eq!(rows(&reported.out()), rows(&view(&file).out()), "{}", reported.out());
    let both = run(Command::new(SIGTOP).args(["report", "--traces"]).arg(&file).arg(&file));
    assert!(both.out().contains("burn_a"), "{}", both.err());
    let cut = fs::read(&file).expect("read");
    fs::write(&file, &cut[..cut.len() - 3]).expect("written");
    let reported = run(Command::new(SIGTOP).args(["report", "--top"]).arg(&file));
    assert!(reported.err().contains("is truncated after"), "{}", reported.err());
}

#[test]
fn a_killed_recorder_leaves_what_it_wrote() {
    let directory = Directory::new("killed");
    let (file, part) = (directory.file("a.sigtop"), directory.file("a.sigtop.part"));
    fs::write(&file, "the old one").expect("written");
    let mut command = record(&file, &[], "12");
    let mut recorder = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sigtop runs");
    // The test waits for some blocks.
    while fs::metadata(&part).map_or(0, |metadata| metadata.len()) < 1000 {
        assert!(recorder.try_wait().expect("a child").is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    let _target = Started::by(recorder.id());
    recorder.kill().expect("a child");
    recorder.wait().expect("a child");
    assert_eq!(fs::read(&file).expect("read"), b"the old one");
    let played = view(&part);
    assert!(played.out().contains("burn_a"), "{}", played.out());
    assert!(played.err().contains("is truncated after"), "{}", played.err());
}

#[test]
fn ctrl_c_ends_well() {
    let directory = Directory::new("interrupted");
    let file = directory.file("a.sigtop");
    let mut recorder = record(&file, &[], "12").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    // The first block is written once everything is set up.
    while fs::metadata(directory.file("a.sigtop.part")).map_or(0, |metadata| metadata.len()) == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _target = Started::by(recorder.id());
    kill(Pid::from_raw(recorder.id() as i32), Signal::SIGINT).expect("a process");
    let status = recorder.wait().expect("a child");
    assert_eq!(status.code(), Some(130), "the target, which got no signal, runs on");
    assert_eq!(directory.names(), ["a.sigtop"]);
    assert_eq!(view(&file).code(), 0);
}

#[test]
fn what_cannot_be_written_is_said_and_the_old_file_stays() {
    let full = run(&mut record(Path::new("/dev/full"), &[], "0.4"));
    assert_eq!(full.code(), 125);
    assert!(full.err().contains("/dev/full: no space left on device; free some space"), "{}", full.err());
    let nowhere = run(&mut record(Path::new("/nowhere/a.sigtop"), &[], "1"));
    assert_eq!(nowhere.code(), 125);
    assert!(nowhere.err().contains("/nowhere/a.sigtop: no such file or directory"), "{}", nowhere.err());

    // A limit on the size of files has the same effect as a full disk.
    let directory = Directory::new("full");
    let file = directory.file("a.sigtop");
    fs::write(&file, "the old one").expect("written");
    let line = format!("ulimit -f 0; exec {SIGTOP} record -o {} -- true", file.display());
    let limited = run(Command::new("sh").args(["-c", &line]));
    assert_eq!(limited.code(), 125, "{}", limited.err());
    assert!(limited.err().contains("file too large; raise the limit"), "{}", limited.err());
    assert_eq!(fs::read(&file).expect("read"), b"the old one");
}

#[test]
fn the_ending_is_the_format() {
    let directory = Directory::new("formats");
    for (name, options, mark) in [
        ("a.folded", &[][..], ";burn_a "),
        ("a.txt", &[], "File: shares\n"),
        ("a.callgrind", &[], "positions: instr line\n"),
        ("a.flame.svg", &[], "<svg version="),
        ("a.speedscope.json", &[], "{\"$schema\""),
        ("a.firefox.json", &[], "\"preprocessedProfileVersion\":48"),
        ("a.dot", &[], "digraph"),
        ("b", &["--format", "text"], "File: shares\n"),
    ] {
        let file = directory.file(name);
        let ran = run(&mut record(&file, options, "0.3"));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let text = fs::read_to_string(&file).expect("it was written");
        assert!(text.contains(mark) && text.contains("burn_a"), "{name}: {text}");
    }
    assert_eq!(directory.names().len(), 8, "nothing is left beside them: {:?}", directory.names());
    // The numbers in folded stacks are samples, about a hundred per second.
    let folded = fs::read_to_string(directory.file("a.folded")).expect("it is there");
    let count = folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum::<u64>();
    assert!((10..=150).contains(&count), "{count} in 0.3 s: {folded}");
}

#[test]
fn a_killed_recorder_of_a_profile_leaves_a_recording() {
    let directory = Directory::new("draft");
    let (file, part) = (directory.file("a.pb.gz"), directory.file("a.pb.gz.part"));
    let mut recorder = record(&file, &[], "12").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    while fs::metadata(&part).map_or(0, |metadata| metadata.len()) < 1000 {
        assert!(recorder.try_wait().expect("a child").is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    let _target = Started::by(recorder.id());
    recorder.kill().expect("a child");
    recorder.wait().expect("a child");
    assert!(!file.exists());
    assert!(view(&part).out().contains("burn_a"), "{}", view(&part).err());
}

#[test]
fn what_is_kept_while_watching_can_be_a_profile_too() {
    let directory = Directory::new("kept");
    let file = directory.file("a.pb.gz");
    let mut command = Command::new(SIGTOP);
    command.args(["--batch", "--focus", "burn_b", "--save"]).arg(&file).arg("--");
    let printed = run(command.arg(targets::c("shares")).args(["60", "30", "10", "1"]));
    assert_eq!(printed.code(), 0, "{}", printed.err());
    let all = run(Command::new(SIGTOP).args(["report", "--top"]).arg(&file)).out();
    let focused = run(Command::new(SIGTOP).args(["report", "--top", "--focus", "burn_b"]).arg(&file)).out();
    assert!(all.contains("burn_a"), "all is in it, whatever is shown: {all}");
    assert_eq!(rows(&focused), rows(&printed.err()), "{focused}\n{}", printed.err());
}

/// The share of `burn_a` in the flat column of a table, by either pprof.
fn share_of_a(table: &str) -> Option<f64> {
    let row = table.lines().find(|line| line.contains("burn_a"))?;
    row.split_whitespace().nth(1)?.trim_end_matches('%').parse().ok()
}

#[test]
fn old_tools_read_gperftools_profiles() {
    let directory = Directory::new("legacy");
    let file = directory.file("a.prof");
    assert_eq!(run(&mut record(&file, &["--hz", "250"], "1")).code(), 0);
    let shares = targets::c("shares");
    let reported = run(Command::new(SIGTOP).args(["report", "--top", "--unit", "ms"]).arg(&file)).out();
    let own = share_of_a(&reported).unwrap_or_else(|| panic!("no names from the files: {reported}"));
    assert!((45.0..75.0).contains(&own), "{own}");
    let output = |command: &mut Command, name: &str| -> Option<String> {
        let ran = command.arg(&shares).arg(&file).stdin(Stdio::null()).output();
        if ran.is_err() {
            skip(&format!("{name} is not here to read what we wrote"));
        }
        ran.ok().map(|ran| String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
    };
    if let Some(text) = output(Command::new("google-pprof").args(["--text", "--no-auto-signal-frm"]), "google-pprof") {
        let share = share_of_a(&text).unwrap_or_else(|| panic!("{text}"));
        assert!((share - own).abs() < 0.2, "it says {share}, we say {own}: {text}");
    }
    // Go's pprof reads names from Go binaries only.
    let go = std::env::var("GO").unwrap_or("go".to_owned());
    if let Some(text) = output(Command::new(go).args(["tool", "pprof", "-top", "-unit=ms"]), "go tool pprof") {
        let total = |table: &str| {
            let line = table.lines().find(|line| line.starts_with("Showing nodes accounting"))?;
            Some(line.rsplit_once(" of ")?.1.to_owned())
        };
        assert!(total(&text).is_some() && total(&text) == total(&reported), "{text}\n{reported}");
        assert!(text.contains("[shares]"), "{text}");
    }
}

#[test]
fn a_limit_that_is_reached_on_the_way_loses_nothing() {
    let directory = Directory::new("limit");
    let target = targets::c("shares");
    let limited = |name: &str| {
        let file = directory.file(name);
        fs::write(&file, "the old one").expect("written");
        // Wall-clock times differ from sample to sample, so that the recording takes more room.
        let options = format!("--clock wall --hz 999 -o {}", file.display());
        let command = format!("{SIGTOP} record {options} -- {} 60 30 10 3", target.display());
        (run(Command::new("sh").args(["-c", &format!("ulimit -f 6; exec {command}")])), file)
    };
    let (ran, file) = limited("a.sigtop");
    assert_eq!(ran.code(), 125, "{}", ran.err());
    assert!(ran.err().contains("file too large; raise the limit"), "{}", ran.err());
    assert_eq!(fs::read(&file).expect("read"), b"the old one");
    // The number of samples that fit depends on the load of the machine.
    let part = view(&directory.file("a.sigtop.part"));
    assert!(part.out().contains("burn_"), "{}{}", part.out(), part.err());
    // The final file is smaller than its temporary recording.
    let (ran, file) = limited("a.pb.gz");
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.err().contains("a.pb.gz.part: file too large"), "{}", ran.err());
    assert!(run(Command::new(SIGTOP).args(["report", "--top"]).arg(&file)).out().contains("burn_a"));
    assert_eq!(directory.names(), ["a.pb.gz", "a.sigtop", "a.sigtop.part"]);
}

#[test]
fn functions_have_a_page_of_code_and_one_of_callers() {
    let directory = Directory::new("code");
    let file = directory.file("a.pb.gz");
    assert_eq!(run(&mut record(&file, &["--hz", "250"], "0.6")).code(), 0);
    let method = run(Command::new(SIGTOP).args(["report", "--method", "^burn_a$"]).arg(&file)).out();
    for words in ["\nburn_a", "  samples: ", " self (", "  callers:\n", ")  work\n", "  code:\n"] {
        assert!(format!("\n{method}").contains(words), "{words}: {method}");
    }
    let code = run(Command::new(SIGTOP).args(["report", "--disasm", "^burn_a$"]).arg(&file)).out();
    assert!(code.starts_with("Total: ") && code.contains("\nROUTINE ======================== burn_a\n"), "{code}");
    assert!(code.lines().skip(3).any(|line| !line.starts_with("         .")), "{code}");
}

/// Regression test: files of this machine named what a recording had left nameless.
#[test]
fn without_symbolizing_names_are_those_of_the_recording() {
    let directory = Directory::new("symbolize");
    let file = directory.file("a.sigtop");
    for (options, is_named) in [(&[][..], false), (&["--symbols"], true)] {
        assert_eq!(run(&mut record(&file, options, "0.5")).code(), 0);
        let report = |source: &str| run(Command::new(SIGTOP).args(["report", "--symbolize", source]).arg(&file)).out();
        let (local, none) = (report("local"), report("none"));
        assert!(local.contains(" burn_a\n") && none.contains(" burn_a\n") == is_named, "{options:?}: {local}\n{none}");
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    let directory = Directory::new("refused");
    let file = directory.file("a.sigtop");
    let newer = format!("was written by a newer sigtop (format 9, this one reads {VERSION}): update sigtop");
    for (bytes, words) in [
        (&b"text\n"[..], "cannot be shown: unknown profile format"),
        (b"", "cannot be shown: malformed profile: empty input file"),
        (b"\x89sigtop\n\x09\x00\x00\x00", newer.as_str()),
    ] {
        fs::write(&file, bytes).expect("written");
        let refused = view(&file);
        assert_eq!(refused.code(), 125);
        assert!(refused.err().contains(words), "{}", refused.err());
    }
    assert!(view(&directory.file("none")).err().contains("cannot read"));
}

#[test]
fn profiles_of_other_formats_are_viewed_too() {
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles");
    for name in ["ours.pb.gz", "go-cpu.pb.gz"] {
        let file = profiles.join(name);
        let reported = run(Command::new(SIGTOP).args(["report", "--top"]).arg(&file)).out();
        let viewed = view(&file);
        assert_eq!(viewed.code(), 0, "{}", viewed.err());
        let of_names = |table: &str| -> Vec<(String, String)> {
            rows(table).into_iter().filter(|(name, _)| !name.contains(['+', '['])).collect()
        };
        assert_eq!(of_names(&viewed.out()), of_names(&reported), "{name}\n{}\n{reported}", viewed.out());
        assert!(viewed.err().contains("all have one time"), "{}", viewed.err());
    }
    let perf = view(&profiles.join("dash.perf"));
    assert!(perf.out().contains("Samples: 18 ") && perf.out().contains("30.30ms 16.67%"), "{}", perf.out());
    let heap = view(&profiles.join("go-heap.pb.gz"));
    assert!(heap.code() == 125 && heap.err().contains("no time to show, but inuse_space in bytes"), "{}", heap.err());
    // Folded stacks on stdin are shown like any other profile.
    let folded =
        Command::new("sh").args(["-c", &format!("printf 'main;a 3\\nmain;b 1\\n' | {SIGTOP} view --batch -")]).output();
    let folded = String::from_utf8(folded.expect("it runs").stdout).expect("text");
    assert!(folded.contains("30ms 75.00%"), "{folded}");
}

#[test]
fn the_header_says_of_a_foreign_profile_what_that_says_of_itself() {
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles");
    let directory = Directory::new("foreign");
    let folded = directory.file("a.folded");
    fs::write(&folded, "main;a 3\nmain;b 1\n").expect("written");
    for (file, words) in [
        (profiles.join("go-cpu.pb.gz"), "CPU time  cpu in nanoseconds   100 Hz"),
        (profiles.join("libprofiler.prof"), "CPU time  cpu in nanoseconds   100 Hz"),
        (profiles.join("dash.perf"), "CPU time  cpu-clock in nanoseconds  "),
        (folded, "CPU time     –"),
    ] {
        let mut terminal = Terminal::start(140, 30, Command::new(SIGTOP).arg("view").arg(&file));
        terminal.see(words);
        assert!(!terminal.text().contains("timer_create"), "{}", terminal.text());
        // A recording that is saved from it shows the same.
        let again = directory.file("again.sigtop");
        terminal.keys(&format!("e\x15{}\r", again.display()));
        terminal.see("saved: ");
        terminal.keys("q");
        terminal.finish();
        let mut terminal = Terminal::start(140, 30, Command::new(SIGTOP).arg("view").arg(&again));
        terminal.see(words);
        terminal.keys("q");
        terminal.finish();
        fs::remove_file(&again).expect("it was there");
    }
}

#[test]
fn a_recording_is_watched_while_it_is_made() {
    let mut command = Command::new("sh");
    let target = targets::c("shares");
    let record = format!("{SIGTOP} record -o - -- {} 60 30 10 60 2>/dev/null", target.display());
    command.args(["-c", &format!("{record} | {SIGTOP} view --tui -")]);
    let mut terminal = Terminal::start(100, 30, &command);
    terminal.see("burn_a");
    terminal.wait("its time goes on", |screen| screen.contents().contains("watched 3"));
    terminal.keys("q");
    terminal.finish();
}

#[test]
fn what_is_saved_while_watching_is_what_is_seen() {
    let directory = Directory::new("saved");
    let mut command = Command::new(SIGTOP);
    command.arg("--").arg(targets::c("shares")).args(["60", "30", "10", "2"]);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see("exited with status 0");
    let file = directory.file("a.sigtop");
    terminal.keys(&format!("e\x15{}\r", file.display()));
    terminal.see("saved: ");
    let total = |text: &str| {
        let line = text.lines().find(|line| line.contains(" burn_a"))?.to_owned();
        let values: Vec<&str> =
            line.split_whitespace().filter(|word| word.ends_with('%') || word.ends_with('s')).collect();
        Some(values.join(" "))
    };
    let seen = total(&terminal.text()).expect("a row");
    terminal.keys("q");
    terminal.finish();
    let mut command = Command::new(SIGTOP);
    command.args(["view", "--window", "10s"]).arg(&file);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see("exited with status 0");
    terminal.wait("the same numbers", |screen| total(&screen.contents()).as_ref() == Some(&seen));
    terminal.keys("q");
    terminal.finish();
    std::io::stdout().flush().expect("stdout");
}

/// CPU time of a process, ms.
fn cpu_ms(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    10 * ticks
}

/// The program that a recorder has started.
fn program_of(recorder: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{recorder}/task")).ok()?;
    let children = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<u32> =
        children.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect();
    let is_program =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("shares"));
    pids.into_iter().find(is_program)
}

/// Regression test: what was recorded in the last two seconds was lost.
#[test]
fn a_killed_recorder_loses_at_most_half_a_second() {
    for engine in [&["threads"][..], &engines_outside()].concat() {
        let directory = Directory::new(&format!("killed-{engine}"));
        let (file, part) = (directory.file("a.sigtop"), directory.file("a.sigtop.part"));
        let mut command = record(&file, &["--engine", engine, "--hz", "250"], "12");
        let mut recorder = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sigtop runs");
        let used_ms = || program_of(recorder.id()).map_or(0, cpu_ms);
        while used_ms() < 2_300 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _target = Started::by(recorder.id());
        let used_ms = used_ms();
        recorder.kill().expect("a child");
        recorder.wait().expect("a child");
        let report = run(Command::new(SIGTOP).arg("report").arg(&part)).out();
        let total =
            report.split("Total samples = ").nth(1).and_then(|rest| rest.split(['m', 's']).next()).expect("a total");
        let number: f64 = total.parse().expect("a number");
        let recorded_ms = if report.contains(&format!("Total samples = {total}ms")) { number } else { 1e3 * number };
        assert!(recorded_ms >= used_ms as f64 - 550.0, "{engine}: {recorded_ms} ms of {used_ms} ms");
    }
}

/// On a terminal, one line says how the recording goes. Elsewhere, and with `--quiet`, there is
/// none.
#[test]
fn a_recording_shows_that_it_goes_on_and_ends_with_a_summary() {
    let directory = Directory::new("progress");
    let file = directory.file("a.sigtop");
    let mut terminal = Terminal::start(100, 24, &record(&file, &["-d", "4", "--on-quit", "end"], "60"));
    terminal.wait("the progress", |screen| {
        let text = screen.contents();
        let line = text.lines().find(|line| line.starts_with("recording "));
        line.is_some_and(|line| line.contains(" samples/s · ") && line.contains("% · Ctrl-C stops"))
    });
    terminal.finish();
    let text = terminal.text();
    assert!(text.contains(" samples in ") && text.contains("a.sigtop (") && !text.contains("recording "), "{text}");
    let mut quiet = Terminal::start(100, 24, &record(&file, &["--quiet", "-d", "1", "--on-quit", "end"], "60"));
    quiet.finish();
    assert!(!quiet.text().contains("sigtop") && quiet.received < 200, "{}", quiet.text());
    let piped = run(&mut record(&file, &["-d", "1", "--on-quit", "end"], "60"));
    assert!(piped.err().lines().count() == 1 && !piped.err().contains('\r'), "{}", piped.err());
}

/// A report that takes longer than a second says so on a terminal.
#[test]
fn a_report_that_waits_for_its_input_shows_what_it_reads() {
    let mut command = Command::new("sh");
    let script = "stty -echo </dev/tty; { printf 'main;hot 10\\n'; read line </dev/tty; } | \"$0\" report -";
    command.args(["-c", script, SIGTOP]);
    let mut terminal = Terminal::start(100, 24, &command);
    terminal.see("sigtop: reading stdin: 12 B");
    terminal.keys("\r");
    terminal.see("main");
    terminal.finish();
    assert!(!terminal.text().contains("reading"), "{}", terminal.text());
}
