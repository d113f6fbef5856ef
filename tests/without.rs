//! Prints what the tests of this run did without, as one line at its end: cargo runs the tests in
//! the order of their names.

#[path = "harness/skips.rs"]
mod skips;

use std::collections::BTreeSet;
use std::fs;

fn main() {
    let Some(file) = skips::of_this_run() else { return };
    let Ok(lines) = fs::read_to_string(&file) else { return println!("nothing was skipped") };
    // The next run of the same cargo has a file of its own.
    let _ = fs::remove_file(file);
    let skipped: BTreeSet<&str> = lines.lines().filter_map(|line| line.strip_prefix("SKIPPED: ")).collect();
    let all: Vec<&str> = skipped.into_iter().collect();
    println!("skipped, for {} reasons: {}", all.len(), all.join("; "));
}
