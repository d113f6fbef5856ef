//! Programs whose layout or unwind tables are unusual are unwound to `main` and named.

use std::path::Path;

use crate::harness::raw::{Entry, Raw};
use crate::harness::run::{Batch, text, tool};
use crate::harness::targets;

/// Three functions that call each other, and `main`.
const CHAIN: &str = "volatile double sink;\n\
    __attribute__((noinline)) double leaf(long n) { double x = sink; while (n--) x = x * 1.0000001 + n; return sink = x; }\n\
    __attribute__((noinline)) double middle(long n) { return leaf(n) + 1; }\n\
    int main(void) { double x = 0; for (int i = 0; i < 100; i++) x += middle(3000000); return x == 0; }\n";

/// Asserts that almost all CPU time is in stacks that hold `chain` (callers first) and are not truncated.
fn assert_chain(raw: &Raw, chain: &[&str]) {
    let all = raw.weight_ns("prof");
    let holds = |entry: &&Entry| {
        entry
            .frames
            .windows(chain.len())
            .any(|frames| frames.iter().map(|frame| frame.name()).eq(chain.iter().copied()))
    };
    let whole: u64 = raw.of("prof").filter(holds).filter(|entry| !entry.truncated).map(|entry| entry.weight_ns).sum();
    assert!(all > 200_000_000 && whole * 100 >= all * 97, "{chain:?}: {whole} ns of {all}");
}

/// `lld` does not pad the segments of a small program to pages: all of them are mapped from offset 0 of the file.
#[test]
fn small_program_linked_by_lld_has_names_and_whole_stacks() {
    let (Some(clang), Some(_)) = (tool("clang"), tool("ld.lld")) else { return };
    let program = targets::generated("small", CHAIN, "c", text(&clang), &["-O1", "-fuse-ld=lld"]);
    check_chain(&program, &["main", "middle", "leaf"]);
}

/// Runs a program and asserts that almost all CPU time is in whole stacks that hold `chain`.
fn check_chain(program: &Path, chain: &[&str]) {
    let watched = Batch::new("--hz 250").run(&[text(program)]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    assert_chain(&watched.raw, chain);
}
