//! The files are read by gperftools' own tools, Go's and sigtop, and the header by compilers.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::target::Target;
use crate::harness::run::{SIGTOP, installed, run, tool};
use crate::harness::skips::skip;
use crate::harness::targets;

/// Writes the target's profile without its first word, which readers refuse.
fn damaged(target: &Target) -> PathBuf {
    let path = target.directory.join("damaged.prof");
    fs::write(&path, &fs::read(target.directory.join("out.prof")).expect("a profile")[8..]).expect("ours");
    path
}

#[test]
fn perl_pprof_reads_the_file() {
    let Some(pprof) = &["google-pprof", "pprof-gperftools"].into_iter().find_map(installed) else {
        return skip("google-pprof is not installed");
    };
    let target = Target::new(&[("CPUPROFILE", "out.prof")]);
    target.run(&["burn", "1"]);
    let ran = run(Command::new(pprof).arg("--text").args([&target.binary, &target.directory.join("out.prof")]));
    let out = ran.out();
    assert!(out.contains(&format!("Total: {} samples", target.profile("out.prof").ticks())), "{out}{}", ran.err());
    assert!(out.contains(" leaf\n") && out.contains(" alpha\n"), "{out}");
    assert_ne!(run(Command::new(pprof).arg("--text").args([&target.binary, &damaged(&target)])).code(), 0);
}

#[test]
fn go_pprof_reads_the_file() {
    let Some(go) = &installed("go") else {
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
    assert_ne!(run(Command::new(go).args(["tool", "pprof", "-top"]).arg(damaged(&target))).code(), 0);
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
        let Some(compiler) = tool(compiler) else { continue };
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
