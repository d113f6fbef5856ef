//! Stacks are correct: the functions of these programs have names that encode their only legal
//! callers, and samples are judged by the names.

use std::path::Path;
use std::process::Command;

use crate::harness::chains::judge::{Judge, Judgement, Verdict};
use crate::harness::chains::{self, Language};
use crate::harness::run::{Batch, text, tool};
use crate::harness::skips::skip;
use crate::harness::statistics::lower_bound;
use crate::harness::targets;

/// Number of samples behind a bound: enough to allow two misses at 99.9 %.
const SAMPLES: u64 = 9_000;

/// Samples a program until there are enough samples. It uses the wall clock's interval timer, which
/// ticks at any requested frequency, while a CPU clock ticks at most as often as the kernel's own
/// tick. The kind of tick makes no difference to the unwinder.
fn judge(program: &Path, language: Language) -> Judgement {
    let judge = Judge::new(language);
    let mut judgement = Judgement::default();
    for _ in 0..8 {
        let watched = Batch::new("--clock real --engine itimer --hz 8000").run(&[text(program), "1.3"]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        judgement.add(judge.all(watched.raw.of("real")));
        if judgement.all() >= SAMPLES {
            break;
        }
    }
    assert!(judgement.all() >= 5_000, "{language:?}: too few samples: {:?}", judgement.samples);
    println!("{language:?}: {:?}", judgement.samples);
    judgement
}

fn check(language: Language, least: f64) {
    check_program(&chains::program(language), language, least);
}

fn check_program(program: &Path, language: Language, least: f64) {
    let judgement = judge(program, language);
    let bound = lower_bound(judgement.count(Verdict::Exact), judgement.all(), 0.01);
    assert!(bound >= least, "{language:?}: exact {bound:.5} at least (99 %), {least} wanted: {judgement}");
    // A miss must be marked as one; a wrong step in an unmarked stack is the worst error.
    for wrong in [Verdict::HandOver, Verdict::Step, Verdict::Between, Verdict::Leaf, Verdict::Root] {
        assert_eq!(judgement.count(wrong), 0, "{language:?}: {wrong:?}: {judgement}");
    }
    let outside = judgement.count(Verdict::Outside);
    assert!(outside * 50 <= judgement.all(), "{language:?}: {outside} outside of main: {judgement}");
}

#[test]
fn c_without_frame_pointers() {
    check(Language::C, 0.999);
}

/// Some linkers create the index of unwind tables only on request.
#[test]
fn c_whose_tables_have_no_index() {
    check_program(&chains::program_without_index(), Language::C, 0.999);
}

/// musl's own functions have no unwind tables: stacks in them may be cut, and are marked so. The
/// program's own stacks are unwound to main.
#[test]
fn a_program_with_musl() {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        return skip("musl-gcc is not installed");
    }
    let source = "#include <stdlib.h>\n\
        __attribute__((noipa)) double burn(long n) { double x = 1; while (n--) x = x * 1.0000001 + n; return x; }\n\
        __attribute__((noipa)) double outer(long n) { return burn(n) + 1; }\n\
        int main(void) { double x = 0; for (int i = 0; i < 100; i++) x += outer(3000000); return x == 0; }\n";
    let program = targets::generated("musl", source, "c", "musl-gcc", &["-O2", "-fomit-frame-pointer"]);
    let watched = Batch::new("--hz 250").run(&[text(&program)]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let all: u64 = watched.raw.of("prof").map(|entry| entry.weight_ns).sum();
    let chain = ["main", "outer", "burn"];
    let followed: u64 = watched
        .raw
        .of("prof")
        .filter(|entry| entry.frames.windows(3).any(|frames| frames.iter().map(|frame| frame.name()).eq(chain)))
        .map(|entry| entry.weight_ns)
        .sum();
    assert!(all > 300_000_000 && followed * 100 >= all * 95, "{followed} ns of {all}");
}

#[test]
fn cpp_with_exceptions() {
    let Some(_) = tool("c++") else { return };
    check(Language::Cpp, 0.990);
}

#[test]
fn rust_release() {
    check(Language::Rust, 0.999);
}

#[test]
fn rust_with_panics() {
    check(Language::Panics, 0.990);
}

/// The same with the CPU clock, whose ticks take other paths through the kernel, and with two
/// threads.
#[test]
fn c_by_the_cpu_clock() {
    let (program, judge) = (chains::program(Language::C), Judge::new(Language::C));
    let mut judgement = Judgement::default();
    for _ in 0..8 {
        let watched = Batch::new("--hz 250").run(&[text(&program), "1.6", "thread"]);
        judgement.add(judge.all(watched.raw.of("prof")));
        if judgement.all() >= 300 {
            break;
        }
    }
    assert!(judgement.all() >= 300, "{judgement}");
    assert!(judgement.count(Verdict::Exact) * 100 >= judgement.all() * 99, "{judgement}");
}
