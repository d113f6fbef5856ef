//! The stacks are true: programs whose function names encode their only legal callers, sampled and judged by the names.

use crate::harness::chains::judge::{Judge, Judgement, Verdict};
use crate::harness::chains::{self, Language};
use crate::harness::run::{Batch, text};
use crate::harness::statistics::lower_bound;

/// Samples that a bound stands on: enough for two misses at 99.9 %.
const SAMPLES: u64 = 9_000;

/// Samples a program until there are enough. By the wall clock's interval timer: its ticks come as often as asked, those of a CPU clock at
/// most as often as the kernel's own; to the unwinder a tick is a tick.
fn judge(language: Language) -> Judgement {
    let (program, judge) = (chains::program(language), Judge::new(language));
    let mut judgement = Judgement::default();
    for _ in 0..8 {
        let watched = Batch::new("--clock real --engine itimer --hz 2000").run(&[text(&program), "2.5"]);
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
    let judgement = judge(language);
    let bound = lower_bound(judgement.count(Verdict::Exact), judgement.all(), 0.01);
    assert!(bound >= least, "{language:?}: exact {bound:.5} at least (99 %), {least} wanted: {judgement}");
    // What is missed is marked as missed; a wrong step in an unmarked stack is the worst.
    // Only where libgcc hands over to a landing pad is there nothing to go by; that is a miss all the same.
    for wrong in [Verdict::Step, Verdict::Between, Verdict::Leaf, Verdict::Root] {
        assert_eq!(judgement.count(wrong), 0, "{language:?}: {wrong:?}: {judgement}");
    }
    let outside = judgement.count(Verdict::Outside);
    assert!(outside * 50 <= judgement.all(), "{language:?}: {outside} outside of main: {judgement}");
}

#[test]
fn c_without_frame_pointers() {
    check(Language::C, 0.999);
}

#[test]
fn cpp_with_exceptions() {
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

/// The same by the CPU clock, whose ticks come on other paths of the kernel, and with two threads.
#[test]
fn c_by_the_cpu_clock() {
    let watched = Batch::new("--hz 250").run(&[text(&chains::program(Language::C)), "3", "thread"]);
    let judgement = Judge::new(Language::C).all(watched.raw.of("prof"));
    assert!(judgement.all() >= 300, "{judgement}");
    assert!(judgement.count(Verdict::Exact) * 100 >= judgement.all() * 99, "{judgement}");
}
