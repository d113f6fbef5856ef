//! Stacks are correct: the functions of these programs have names that encode their only legal
//! callers, and samples are judged by the names.

use std::path::Path;
use std::process::Command;

use crate::harness::chains::judge::{Judge, Judgement, Verdict};
use crate::harness::chains::{self, Language};
use crate::harness::outside::engines_outside;
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

/// A program that mostly computes in musl's own functions, which have no unwind tables. By default
/// it is sampled from outside, where its stacks are whole. With the agent they may be cut, and are
/// marked so; those of the program's own functions are unwound to main.
#[test]
fn a_program_with_musl() {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        return skip("musl-gcc is not installed");
    }
    let source = "#include <stdlib.h>\n\
        static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }\n\
        __attribute__((noipa)) double burn(long n) { double x = 1; while (n--) x = x * 1.0000001 + n; return x; }\n\
        __attribute__((noipa)) double outer(long n) { return burn(n) + 1; }\n\
        __attribute__((noipa)) int sort(unsigned seed) {\n\
            static int all[20000];\n\
            for (int i = 0; i < 20000; i++) all[i] = (seed = seed * 1664525 + 1013904223) >> 8;\n\
            qsort(all, 20000, sizeof *all, compare);\n\
            return all[0];\n\
        }\n\
        int main(void) {\n\
            double x = 0;\n\
            for (int i = 0; i < 100; i++) x += outer(3000000);\n\
            for (int i = 0; i < 400; i++) x += sort(i);\n\
            return x == 0;\n\
        }\n";
    let program = targets::generated("musl", source, "c", "musl-gcc", &["-O2", "-fomit-frame-pointer"]);
    let may_be_outside = engines_outside().contains(&"events");
    for options in ["--hz 250", "--hz 250 --engine threads"] {
        let watched = Batch::new(options).run(&[text(&program)]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        let share = |function: &str, chain: &[&str]| {
            let (mut whole_ns, mut all_ns) = (0, 0);
            for entry in watched.raw.of("prof") {
                let names: Vec<&str> = entry.frames.iter().map(|frame| frame.name()).collect();
                if names.contains(&function) {
                    let is_whole = names.windows(chain.len()).any(|names| names == chain);
                    (whole_ns, all_ns) = (whole_ns + u64::from(is_whole) * entry.weight_ns, all_ns + entry.weight_ns);
                }
            }
            assert!(all_ns > 100_000_000, "{options}, {function}: {all_ns} ns");
            whole_ns as f64 / all_ns as f64
        };
        let own = share("burn", &["main", "outer", "burn"]);
        assert!(own >= 0.95, "{options}: {own}");
        let libc = share("compare", &["main", "sort"]);
        assert!(libc >= 0.95 || !may_be_outside || options.contains("threads"), "{options}: {libc}");
    }
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
