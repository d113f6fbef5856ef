//! Prints what the tests of this run did without, as one line at its end: cargo runs the tests in
//! the order of their names. In CI, only what `known-skips.txt` lists may be skipped.

#[path = "harness/skips.rs"]
mod skips;

use std::collections::BTreeSet;
use std::fs;

/// Reasons for which CI may skip a test, one a line. A star at the end stands for any text. What
/// begins with `not root: ` counts only where an ordinary user runs the tests.
const KNOWN: &str = include_str!("known-skips.txt");

fn is_known(reason: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    let mut known = KNOWN.lines().filter_map(|line| match line.strip_prefix("not root: ") {
        Some(_) if is_root => None,
        Some(known) => Some(known),
        None => Some(line),
    });
    known.any(|known| match known.strip_suffix('*') {
        Some(start) => reason.starts_with(start),
        None => reason == known,
    })
}

fn main() {
    let Some(file) = skips::of_this_run() else { return };
    let Ok(lines) = fs::read_to_string(&file) else { return println!("nothing was skipped") };
    // The next run of the same cargo has a file of its own.
    let _ = fs::remove_file(file);
    let skipped: BTreeSet<&str> = lines.lines().filter_map(|line| line.strip_prefix("SKIPPED: ")).collect();
    let all: Vec<&str> = skipped.into_iter().collect();
    println!("skipped, for {} reasons: {}", all.len(), all.join("; "));
    let unknown: Vec<&str> = all.into_iter().filter(|reason| !is_known(reason)).collect();
    if std::env::var_os("CI").is_some() && !unknown.is_empty() {
        panic!("tests/known-skips.txt does not have: {}", unknown.join("; "));
    }
}
