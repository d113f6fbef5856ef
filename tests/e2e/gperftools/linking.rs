//! Programs that are linked with a library of gperftools' name, and other profilers in the same
//! process: the real library, if it is installed, and one that starts itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::target::{AGENT, Target, is_about};
use crate::harness::run::{SIGTOP, run, text};
use crate::harness::skips::skip;
use crate::harness::targets;

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
