//! Code that is loaded and unloaded during sampling: each sample is attributed to the library that
//! was mapped at its time.

use std::path::PathBuf;

use super::guest::{Guest, host, prove, same};
use super::shares::accounts;
use crate::harness::run::{Batch, text, tool};
use crate::harness::targets;

/// Builds a library that throws, and whose work is done in a function of this name. Two such
/// libraries differ only in the letters of that name.
fn library(worker: &str) -> PathBuf {
    let source = format!(
        "#include <stdexcept>\n\
         extern \"C\" __attribute__((noipa)) long {worker}(long rounds) {{\n\
             volatile double x = 1;\n\
             for (long i = 0; i < rounds; i++) x = x * 1.0000001 + 0.5;\n\
             return (long)x;\n\
         }}\n\
         extern \"C\" __attribute__((noipa)) long labour(long rounds) {{ return {worker}(rounds) + 1; }}\n\
         extern \"C\" __attribute__((noipa)) void throw_deep(int depth) {{\n\
             if (depth == 0) throw std::runtime_error(\"deep\");\n\
             throw_deep(depth - 1);\n\
             asm volatile(\"\");\n\
         }}\n"
    );
    targets::generated(worker, &source, "cpp", "c++", &["-O2", "-shared", "-fPIC"])
}

/// A library is loaded at the address of an earlier one: samples are attributed to the right one.
#[test]
fn an_address_that_is_used_again_is_another_library() {
    let Some(_) = tool("c++") else { return };
    let (first, second) = (library("work_of_a"), library("work_of_b"));
    let loads = targets::cpp("loads");
    let watched = Batch::new("--hz 250").run(&[text(&loads), text(&first), text(&second), "900"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    accounts(&watched.raw);
    assert_eq!(watched.ran.number("same"), 1, "never at one address: {}", watched.ran.out());
    let all = (watched.ran.number("first") + watched.ran.number("second")) as f64;
    for (name, said, module) in [("work_of_a", "first", "work_of_a"), ("work_of_b", "second", "work_of_b")] {
        let seen = watched.raw.cum_ns("prof", |frame| frame == name) as f64;
        let share = watched.ran.number(said) as f64 / all;
        let weight = watched.raw.weight_ns("prof") as f64;
        // On a busy machine, ticks that came together are one sample, of one of both.
        assert!((seen / weight - share).abs() <= 0.1, "{name}: {:.3} of {share:.3}", seen / weight);
        for entry in watched.raw.of("prof") {
            for frame in entry.frames.iter().filter(|frame| frame.name() == name) {
                assert_eq!(frame.module, module);
            }
        }
    }
}

/// Regression test: code that the program maps once more, as V8 does with its built-in functions,
/// had no names with the agent, and no unwind tables.
#[test]
fn code_that_is_mapped_twice_has_its_names_and_callers() {
    for options in ["--hz 250", "--hz 250 --engine external"] {
        let watched = Batch::new(options).run(&[text(&targets::c("copied_code"))]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        let (mut whole, mut all) = (0, 0);
        for entry in watched.raw.of("prof") {
            let names: Vec<&str> = entry.frames.iter().map(|frame| frame.name()).collect();
            all += entry.samples;
            whole += if names.ends_with(&["main", "drive", "work"]) { entry.samples } else { 0 };
        }
        assert!(whole * 10 >= all * 9, "{options}: {whole} of {all}");
    }
}

/// Four threads load libraries, throw and unload; nothing hangs, crashes or is lost.
#[test]
fn loading_and_throwing_under_fire() {
    let Some(_) = tool("c++") else { return };
    let (first, second) = (library("work_of_a"), library("work_of_b"));
    let storm: Vec<PathBuf> = (0..4).map(|i| library(&format!("work_of_storm_{i}"))).collect();
    let loads = targets::cpp("loads");
    let mut command = vec![text(&loads), text(&first), text(&second), "150"];
    command.extend(storm.iter().map(|file| text(file)));
    let facts = |guest, command: &[&str]| {
        let shown = host(guest, command);
        (shown.code, shown.stdout.lines().last().map(str::to_owned), shown.stderr)
    };
    // It says the same after less time.
    let short = [&command[..3], &["100"], &command[4..]].concat();
    let alone = facts(Guest::Nobody, &short);
    assert_eq!((alone.0, alone.1.as_deref()), (0, Some("caught 1")));
    let ways = ["--hz 1000", "--clock real --hz 250", "--clock real --engine itimer --hz 2000"].map(Guest::Batch);
    prove(&ways, &[], |guest| same(facts(guest, &command), alone.clone()));
}

/// Registers that point to invalid, forbidden or truncated memory, cycles, and the ends of small
/// stacks: no stack walk touches invalid memory, and every walk terminates.
#[test]
fn stacks_that_lead_nowhere() {
    let wild = targets::c("wild");
    let alone = host(Guest::Nobody, &[text(&wild)]);
    assert_eq!(alone.stdout, "wandered 14\n");
    let ways = ["--hz 1000", "--clock real --hz 1000", "--clock real --engine itimer --hz 4000"].map(Guest::Batch);
    prove(&ways, &[], |guest| same(host(guest, &[text(&wild)]), alone.clone()));
    // Timers of threads are used, since those of the process signal the first thread, which waits.
    let watched = Batch::new("--hz 1000").run(&[text(&wild)]);
    accounts(&watched.raw);
    let cut: u64 = watched.raw.of("prof").filter(|entry| entry.truncated).map(|entry| entry.samples).sum();
    assert!(cut > 0, "nothing was found to be cut off");
}
