//! The drop-in replacement for gperftools' CPU profiler: its variables, functions and files,
//! without a viewer, and together with the real library if that is installed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::legacy::Legacy;
use crate::harness::run::{LIMIT, Ran, SIGTOP, installed, run, text, tool};
use crate::harness::skips::skip;
use crate::harness::statistics::deviations;
use crate::harness::targets;

static AGENT: LazyLock<String> =
    LazyLock::new(|| run(Command::new(SIGTOP).args(["env", "--path"])).out().trim().to_owned());

/// Variables that control a profile.
const VARIABLES: [&str; 8] = [
    "CPUPROFILE",
    "CPUPROFILE_FREQUENCY",
    "CPUPROFILE_REALTIME",
    "CPUPROFILE_PER_THREAD_TIMERS",
    "CPUPROFILE_TIMER_SIGNAL",
    "CPUPROFILESIGNAL",
    "CPUPROFILE_USE_PID",
    "LD_PRELOAD",
];

fn binary() -> PathBuf {
    targets::c("profiler").canonicalize().expect("compiled")
}

/// The target with the agent preloaded, in its own directory.
struct Target {
    binary: PathBuf,
    directory: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Target {
    fn new(variables: &[(&'static str, &str)]) -> Target {
        Target::of(binary(), variables, true)
    }

    fn of(binary: PathBuf, variables: &[(&'static str, &str)], preloaded: bool) -> Target {
        let preload = preloaded.then(|| ("LD_PRELOAD", AGENT.clone()));
        let variables = variables.iter().map(|&(name, value)| (name, value.to_owned())).chain(preload).collect();
        Target { binary, directory: targets::scratch("gperftools").canonicalize().expect("made"), variables }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).args(arguments);
        command.current_dir(&self.directory);
        command
    }

    /// Runs the target to its end and checks that stderr is empty.
    fn run(&self, arguments: &[&str]) -> Ran {
        let ran = run(&mut self.command(arguments));
        assert_eq!(ran.err(), "", "{arguments:?}");
        ran
    }

    fn profile(&self, name: &str) -> Legacy {
        Legacy::of(&self.directory.join(name))
    }

    fn with(&self, profile: &Legacy, function: &str) -> u64 {
        profile.with(&self.binary, function)
    }

    /// The names of the files in the directory, sorted.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).expect("ours");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("ours").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Starts the target, which uses CPU time for each line of input, and waits until it is ready.
    fn forever(&self, seconds: &str) -> Forever {
        self.start(&["forever", seconds])
    }

    fn start(&self, arguments: &[&str]) -> Forever {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is there");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let mut forever = Forever { child, out };
        forever.says("ready\n");
        forever
    }
}

struct Forever {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Forever {
    fn says(&mut self, words: &str) {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a pipe");
        assert_eq!(line, words);
    }

    fn burn(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
        self.says("done\n");
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("ours");
    }

    fn end(mut self) -> std::process::ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().expect("ours")
    }
}

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks a number of ticks against the expected number. The target uses at least the requested CPU
/// time, and a little more.
fn is_about(ticks: u64, expected: f64) {
    let ticks = ticks as f64;
    assert!(ticks >= expected * 0.9 - 2.0 && ticks <= expected * 1.15 + 5.0, "{ticks} ticks of about {expected}");
}

#[test]
fn cpuprofile_profiles_the_whole_run_with_correct_shares() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_FREQUENCY", "250")]);
    assert_eq!(target.run(&["burn", "3"]).code(), 0);
    let profile = target.profile("out.prof");
    assert_eq!(profile.period_us, 4_000);
    is_about(profile.ticks(), 750.0);
    let (alpha, beta) = (target.with(&profile, "alpha"), target.with(&profile, "beta"));
    assert!(deviations(alpha, alpha + beta, 0.75).abs() < 5.0, "{alpha} and {beta}");
    // A tick may come before main.
    assert!(target.with(&profile, "main") + 2 >= profile.ticks());
    assert_eq!(target.files(), ["out.prof"]);
}

#[test]
fn an_idle_program_writes_an_empty_profile() {
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    assert_eq!(target.run(&["nothing"]).code(), 0);
    let profile = target.profile("out.prof");
    assert!(profile.ticks() <= 1 && profile.period_us == 10_000);
}

#[test]
fn cpuprofile_frequency_sets_the_period() {
    for (frequency, period_us) in [("1000", 1_000), ("99999", 250), ("0", 10_000), ("12x", 10_000), ("", 10_000)] {
        let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_FREQUENCY", frequency)]);
        target.run(&["burn", "0.1"]);
        let profile = target.profile("out.prof");
        assert_eq!(profile.period_us, period_us, "{frequency}");
        is_about(profile.ticks(), 100_000.0 / period_us as f64);
    }
}

#[test]
fn cpuprofile_realtime_does_not_interrupt_sleeping_threads() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_REALTIME", "0")]);
    let ran = target.run(&["sleep", "1"]);
    assert_eq!(ran.out(), "left=0\n", "the sleep was whole");
    let profile = target.profile("out.prof");
    assert!(profile.ticks() >= 80, "{}", profile.ticks());
    assert!(target.with(&profile, "main") * 10 >= profile.ticks() * 9);
}

#[test]
fn cpuprofile_realtime_samples_the_first_thread_or_all() {
    let with = |threads: &[(&'static str, &str)]| {
        let variables = [&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_REALTIME", "1")], threads].concat();
        let target = Target::new(&variables);
        target.run(&["threads", "0.5"]);
        let profile = target.profile("out.prof");
        (target.with(&profile, "main"), target.with(&profile, "other_thread"))
    };
    let (main, other) = with(&[]);
    assert!(main >= 40 && other == 0, "{main} and {other}");
    let (main, other) = with(&[("CPUPROFILE_PER_THREAD_TIMERS", "1")]);
    assert!(main >= 40 && other >= 40, "{main} and {other}");
}

#[test]
fn cpuprofile_timer_signal_sets_the_signal_of_ticks() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_TIMER_SIGNAL", "40")]);
    let mut forever = target.forever("0.5");
    forever.burn();
    let status = fs::read_to_string(format!("/proc/{}/status", forever.child.id())).expect("it runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a line");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask");
    assert!(forever.end().success());
    let has = |signal: i32| caught >> (signal - 1) & 1 == 1;
    assert!(has(40) && !has(Signal::SIGPROF as i32), "{caught:x}");
    is_about(target.profile("out.prof").ticks(), 50.0);
}

#[test]
fn the_file_of_a_killed_program_is_valid() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILE_FREQUENCY", "1000")]);
    for round in 0..12 {
        let mut forever = target.start(&["deep", "60"]);
        // A line that is being written may be incomplete.
        let file = target.directory.join("out.prof");
        let has_ticks = |bytes: Vec<u8>| Legacy::parse(&bytes).is_ok_and(|profile| profile.ticks() > 0);
        until("samples in the file", || fs::read(&file).is_ok_and(has_ticks));
        // The delay varies, so that some are killed while they write.
        std::thread::sleep(Duration::from_millis(97 * round));
        forever.signal(Signal::SIGKILL);
        forever.child.wait().expect("ours");
        let profile = target.profile("out.prof");
        assert!(target.with(&profile, "burn_deep") * 10 > profile.ticks() * 9);
    }
}

#[test]
fn a_killed_program_loses_at_most_a_second() {
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    let ran = run(&mut target.command(&["segv", "3"]));
    assert_eq!(ran.code(), 128 + 11);
    assert!(target.profile("out.prof").ticks() >= 200, "{}", target.profile("out.prof").ticks());
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    let ran = run(&mut target.command(&["flush", "0.5"]));
    assert_eq!(ran.code(), 128 + 9);
    is_about(target.profile("out.prof").ticks(), 50.0);
}

#[test]
fn cpuprofilesignal_starts_and_stops_without_overwriting_files() {
    let target = Target::new(&[("CPUPROFILE", "out.prof"), ("CPUPROFILESIGNAL", "12")]);
    fs::write(target.directory.join("out.prof.1"), "kept").expect("ours");
    let mut forever = target.forever("0.4");
    forever.burn();
    assert_eq!(target.files(), ["out.prof.1"], "nothing without a signal");
    for name in ["out.prof.0", "out.prof.2"] {
        forever.signal(Signal::SIGUSR2);
        until("a file of a profile", || target.directory.join(name).exists());
        forever.burn();
        forever.signal(Signal::SIGUSR2);
        until("the profile in it", || target.profile(name).ticks() >= 30);
        forever.burn();
    }
    assert!(forever.end().success());
    assert_eq!(target.files(), ["out.prof.0", "out.prof.1", "out.prof.2"]);
    for name in ["out.prof.0", "out.prof.2"] {
        is_about(target.profile(name).ticks(), 40.0);
    }
    assert_eq!(fs::read(target.directory.join("out.prof.1")).expect("ours"), b"kept");
}

#[test]
fn fork_children_write_their_own_files() {
    for (how, function) in [("fork", "taken"), ("exec", "burn")] {
        let target = Target::new(&[("CPUPROFILE", "out.prof")]);
        let ran = target.run(&[how, "0.4"]);
        let child = format!("out.prof_{}", ran.out().trim());
        assert_eq!(target.files(), ["out.prof", child.as_str()], "{how}");
        let of_child = target.profile(&child);
        is_about(of_child.ticks(), 40.0);
        assert!(target.with(&of_child, function) + 2 >= of_child.ticks());
        let own = target.profile("out.prof");
        is_about(own.ticks(), if how == "fork" { 80.0 } else { 40.0 });
        assert_eq!(target.with(&own, "taken"), 0);
    }
}

#[test]
fn an_unwritable_file_is_a_warning_and_the_program_runs() {
    for (variables, says) in [
        (&[("CPUPROFILE", "/nowhere/out.prof")][..], "/nowhere/out.prof"),
        (&[("CPUPROFILE", "out.prof"), ("CPUPROFILESIGNAL", "99")], "99"),
        (&[("CPUPROFILE", "out.prof"), ("CPUPROFILESIGNAL", "9")], "9"),
    ] {
        let target = Target::new(variables);
        let ran = run(&mut target.command(&["burn", "0.05"]));
        assert_eq!((ran.code(), ran.err().lines().count()), (0, 1), "{}", ran.err());
        assert!(ran.err().starts_with("sigtop: ") && ran.err().contains(says), "{}", ran.err());
        assert!(target.files().is_empty());
    }
}

#[test]
fn profiler_start_and_stop_delimit_the_profile() {
    let target = Target::new(&[]);
    let ran = target.run(&["bracket", "0.4", "part.prof"]);
    let out = ran.out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..2], ["before enabled=0/0 name= samples=0", "start=1 again=0"]);
    assert!(lines[2].starts_with("on enabled=1/1 name=part.prof samples="), "{out}");
    assert_eq!(lines[3], "after enabled=0/0 name= samples=0");
    let profile = target.profile("part.prof");
    is_about(profile.ticks(), 40.0);
    // A tick may come between two functions.
    assert!(target.with(&profile, "taken") + 2 >= profile.ticks());
    assert_eq!(target.with(&profile, "left_out"), 0);
    assert_eq!(target.files(), ["part.prof"]);
}

#[test]
fn a_second_profile_can_follow_the_first() {
    let target = Target::new(&[]);
    assert_eq!(target.run(&["twice", "0.3", "a.prof"]).out(), "start=1 start=1\n");
    let (first, second) = (target.profile("a.prof"), target.profile("a.prof.2"));
    is_about(first.ticks(), 30.0);
    is_about(second.ticks(), 30.0);
    assert_eq!((target.with(&first, "left_out"), target.with(&second, "taken")), (0, 0));
}

#[test]
fn a_filter_excludes_threads() {
    let target = Target::new(&[]);
    assert_eq!(target.run(&["filter", "0.5", "some.prof"]).out(), "start=1\n");
    let profile = target.profile("some.prof");
    is_about(target.with(&profile, "taken"), 50.0);
    assert_eq!(target.with(&profile, "other_thread"), 0);
}

#[test]
fn a_failed_start_sets_errno() {
    let target = Target::new(&[]);
    let enoent = nix::errno::Errno::ENOENT as i32;
    let out = target.run(&["refused", "0", "/nowhere/at/all.prof"]).out();
    assert_eq!(out, format!("start=0 errno={enoent} enabled=0\n"));
}

#[test]
fn manual_samples_are_all_counted() {
    let target = Target::new(&[]);
    assert_eq!(target.run(&["hand", "0.2", "hand.prof"]).out(), "start=1\n11111 0\n");
    let profile = target.profile("hand.prof");
    assert_eq!((profile.ticks(), target.with(&profile, "main")), (5, 5));
}

#[test]
fn a_viewer_and_a_file_receive_the_same_samples() {
    let target = Target::new(&[]);
    let file = target.directory.join("out.prof");
    let watched = |clock: &str| {
        let mut command = Command::new(SIGTOP);
        command.args(["--batch", "--hz", "250", "--clock", clock, "--"]).arg(&target.binary).args(["burn", "1"]);
        run(command.env("CPUPROFILE", &file))
    };
    let ran = watched("prof");
    assert!(ran.err().contains("burn") && ran.code() == 0, "{}", ran.err());
    is_about(Legacy::of(&file).ticks(), 100.0);
    // The clock of the file stays, and the viewer learns that.
    let ran = watched("real");
    assert!(ran.err().contains("by another clock (CPUPROFILE"), "{}", ran.err());
    is_about(Legacy::of(&file).ticks(), 100.0);
}

/// The target linked with a library of gperftools' name: the real one, or one that reports its
/// calls.
fn linked(flags: &[&str]) -> PathBuf {
    let source = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/profiler.c")).expect("there");
    let mut all = vec!["-O2", "-fomit-frame-pointer", "-pthread", "-Wl,--no-as-needed"];
    all.extend(flags);
    all.extend(["-lprofiler", "-Wl,--as-needed"]);
    targets::generated("profiler", &source, "c", "cc", &all).canonicalize().expect("compiled")
}

#[test]
fn a_program_linked_with_the_library_runs_without_it() {
    let directory = targets::scratch("stub").canonicalize().expect("made");
    fs::write(directory.join("stub.c"), "int ProfilerStart(const char *name) { __builtin_trap(); }\n").expect("ours");
    let stub = directory.join("libprofiler.so");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-Wl,-soname,libprofiler.so.0", "-o"]).arg(&stub).arg(directory.join("stub.c"));
    assert_eq!(run(&mut command).code(), 0);
    let binary = linked(&["-L", text(&directory)]);
    let place = directory.join("in its place");
    let line = run(Command::new(SIGTOP).args(["env", "--libprofiler"]).arg(&place).env_remove("LD_LIBRARY_PATH"));
    assert_eq!(line.out(), format!("export LD_LIBRARY_PATH='{}'\n", place.display()), "{}", line.err());
    let mut target = Target::of(binary, &[("CPUPROFILE", "out.prof")], false);
    target.variables.push(("LD_LIBRARY_PATH", text(&place).to_owned()));
    target.run(&["burn", "0.4"]);
    is_about(target.profile("out.prof").ticks(), 40.0);
    target.variables.retain(|(name, _)| *name != "CPUPROFILE");
    assert!(target.run(&["bracket", "0.2", "part.prof"]).out().contains("start=1 again=0"));
    is_about(target.profile("part.prof").ticks(), 20.0);
    // A viewer finds it like any other process with the agent.
    let forever = target.forever("0.1");
    let maps = fs::read_to_string(format!("/proc/{}/maps", forever.child.id())).expect("it runs");
    assert!(maps.contains("/libsigtop-agent-"), "{maps}");
    assert!(forever.end().success());
}

/// A linker finds the library, and the loader finds it again for the linked program.
#[test]
fn a_program_can_be_linked_with_the_agent() {
    let place = targets::scratch("link with").canonicalize().expect("made").join("lib");
    let line = run(Command::new(SIGTOP).args(["env", "--libprofiler"]).arg(&place));
    assert_eq!(line.code(), 0, "{}", line.err());
    let mut target = Target::of(linked(&["-L", text(&place)]), &[("CPUPROFILE", "out.prof")], false);
    target.variables.push(("LD_LIBRARY_PATH", text(&place).to_owned()));
    target.run(&["burn", "0.4"]);
    is_about(target.profile("out.prof").ticks(), 40.0);
}

/// A setuid program must not be made to write to a file of the caller's choice.
#[test]
fn a_setuid_program_writes_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root makes a program of somebody else's");
    }
    let directory = targets::scratch("other rights").canonicalize().expect("made");
    let place = directory.join("lib");
    assert_eq!(run(Command::new(SIGTOP).args(["env", "--libprofiler"]).arg(&place)).code(), 0);
    // The loader ignores variables for such a program, but loads what it was linked with.
    let binary = linked(&["-L", text(&place), &format!("-Wl,-rpath,{}", place.display())]);
    let copy = directory.join("profiler");
    fs::copy(&binary, &copy).expect("written");
    let plain = Target::of(copy.clone(), &[("CPUPROFILE", "out.prof")], false);
    plain.run(&["burn", "0.2"]);
    assert_eq!(plain.files(), ["out.prof"], "as itself it does");
    std::os::unix::fs::chown(&copy, Some(65534), Some(65534)).expect("we are root");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("we are root");
    let secure = Target::of(copy, &[("CPUPROFILE", "out.prof"), ("CPUPROFILESIGNAL", "12")], false);
    fs::set_permissions(&secure.directory, fs::Permissions::from_mode(0o777)).expect("ours");
    assert_eq!(secure.run(&["burn", "0.2"]).code(), 0);
    assert!(secure.files().is_empty(), "{:?}", secure.files());
}

/// gperftools' own library; `None` with a message if it is not installed.
fn real_library() -> Option<PathBuf> {
    let directories = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    let found =
        directories.iter().map(|directory| Path::new(directory).join("libprofiler.so")).find(|file| file.exists());
    if found.is_none() {
        skip("gperftools' libprofiler.so is not installed");
    }
    found
}

#[test]
fn gperftools_library_does_not_start_beside_the_agent() {
    if real_library().is_none() {
        return;
    }
    let binary = linked(&[]);
    for more in [&[][..], &[("CPUPROFILE_PER_THREAD_TIMERS", "1")]] {
        let variables = [&[("CPUPROFILE", "out.prof")][..], more].concat();
        let target = Target::of(binary.clone(), &variables, true);
        // The real library would print its number of ticks.
        target.run(&["burn", "0.5"]);
        assert_eq!(target.files(), ["out.prof"]);
        // The profile is the agent's, with a single set of samples.
        is_about(target.profile("out.prof").ticks(), 50.0);
    }
    let target = Target::of(binary, &[], true);
    assert!(target.run(&["bracket", "0.3", "part.prof"]).out().contains("start=1 again=0"));
    is_about(target.profile("part.prof").ticks(), 30.0);
}

/// A library that starts itself before the agent is stopped, unless it was preloaded before the
/// agent.
#[test]
fn another_profiler_is_stopped_unless_it_was_preloaded_first() {
    let other = targets::preload("later_profiler").canonicalize().expect("compiled");
    let mut target = Target::new(&[("CPUPROFILE", "out.prof")]);
    let preload = |target: &mut Target, libraries: [&str; 2]| {
        target.variables.retain(|(name, _)| *name != "LD_PRELOAD");
        target.variables.push(("LD_PRELOAD", libraries.join(":")));
    };
    preload(&mut target, [&AGENT, text(&other)]);
    let ran = run(&mut target.command(&["burn", "0.4"]));
    assert_eq!((ran.code(), ran.err().as_str()), (0, "the other one was stopped\n"));
    assert_eq!(target.files(), ["out.prof"]);
    is_about(target.profile("out.prof").ticks(), 40.0);

    fs::remove_file(target.directory.join("out.prof")).expect("ours");
    preload(&mut target, [text(&other), &AGENT]);
    target.run(&["burn", "0.1"]);
    assert!(target.files().is_empty(), "{:?}", target.files());
}

/// A daemon opens its file as root and continues as a user who could not open it.
#[test]
fn a_profile_continues_after_the_program_drops_privileges() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root has rights to give up");
    }
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    assert_eq!(target.run(&["setuid", "1.5"]).code(), 0);
    is_about(target.profile("out.prof").ticks(), 300.0);
}

#[test]
fn gperftools_library_and_the_agent_measure_the_same() {
    if real_library().is_none() {
        return;
    }
    let binary = linked(&[]);
    let said = |preloaded| {
        let target = Target::of(binary.clone(), &[], preloaded);
        let out = run(&mut target.command(&["bracket", "0.2", "part.prof"])).out();
        // Only the numbers of samples differ.
        let lines = out.lines().map(|line| line.split(" samples=").next().unwrap_or_default().to_owned());
        (lines.collect::<Vec<_>>(), target.files(), run(&mut target.command(&["refused", "0", "/nowhere/x"])).out())
    };
    assert_eq!(said(true), said(false));
}

#[test]
fn perl_pprof_reads_the_file() {
    let Some(pprof) = ["google-pprof", "pprof-gperftools"].into_iter().find_map(installed) else {
        return skip("google-pprof is not installed");
    };
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    target.run(&["burn", "1"]);
    let ran = run(Command::new(pprof).arg("--text").args([&target.binary, &target.directory.join("out.prof")]));
    let out = ran.out();
    assert!(out.contains(&format!("Total: {} samples", target.profile("out.prof").ticks())), "{out}{}", ran.err());
    assert!(out.contains(" leaf\n") && out.contains(" alpha\n"), "{out}");
}

#[test]
fn go_pprof_reads_the_file() {
    let Some(go) = installed("go") else {
        return skip("go is not installed");
    };
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    target.run(&["burn", "1"]);
    let mut command = Command::new(go);
    command.args(["tool", "pprof", "-top", "-unit=ms"]).args([&target.binary, &target.directory.join("out.prof")]);
    let ran = run(&mut command);
    let total = format!(" {}ms total\n", target.profile("out.prof").ticks() * 10);
    let out = ran.out();
    // For programs that are not Go, it knows only the files.
    assert!(out.contains(&total) && out.contains("  [profiler]\n"), "{total}: {out}{}", ran.err());
}

#[test]
fn sigtop_reads_the_file() {
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    target.run(&["burn", "1"]);
    let ran = run(Command::new(SIGTOP).args(["report", "--top"]).arg(target.directory.join("out.prof")));
    let ticks = target.profile("out.prof").ticks();
    // The unit is that of the smallest row.
    let totals = [format!("of {}ms total", ticks * 10), format!("of {:.2}s total", ticks as f64 / 100.0)];
    let out = ran.out().replace("of 1s total", "of 1.00s total");
    assert!(totals.iter().any(|total| out.contains(total)), "{totals:?}: {out}{}", ran.err());
}

#[test]
fn the_header_compiles_as_c_and_cpp_without_the_agent() {
    let directory = targets::scratch("header").canonicalize().expect("made");
    let header = run(Command::new(SIGTOP).args(["env", "--header"])).out();
    fs::write(directory.join("sigtop.h"), header).expect("ours");
    let source = "#include \"sigtop.h\"\n#include <stdio.h>\nint main(void) {\n\
        int on = SIGTOP_CALL(sigtop_start_by_hand, (\"hand.prof\"));\n\
        int taken = 0;\n for (int i = 0; i < 3; i++) taken += SIGTOP_CALL(sigtop_sample, ());\n\
        SIGTOP_DO(ProfilerStop, ());\n printf(\"%d %d\\n\", on, taken);\n return 0;\n}\n";
    fs::write(directory.join("by_hand.c"), source).expect("ours");
    for (compiler, language) in [("gcc", "c"), ("g++", "c++")] {
        let Some(compiler) = tool(compiler) else { return };
        let binary = directory.join(language);
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-O2", "-x", language]).arg(directory.join("by_hand.c"));
        let ran = run(command.arg("-o").arg(&binary));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        assert_eq!(Target::of(binary.clone(), &[], false).run(&[]).out(), "0 0\n");
        let target = Target::of(binary, &[], true);
        assert_eq!(target.run(&[]).out(), "1 3\n");
        assert_eq!(target.profile("hand.prof").ticks(), 3);
    }
}
