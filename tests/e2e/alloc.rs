//! Samples programs that spend most of their time in their allocator, with various allocators:
//! nothing hangs, and no memory is corrupted.

use std::fs;
use std::path::Path;

use super::guest::{Guest, WAYS, host, prove, same};
use super::shares::accounts;
use crate::harness::run::{Batch, text};
use crate::harness::skips::skip;
use crate::harness::targets;

pub(crate) const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// Returns the program with the allocator of a library; `None` if the library is not installed.
fn with(library: &str) -> Option<std::path::PathBuf> {
    let path = Path::new(LIBRARIES).join(library);
    if !path.exists() {
        skip(&format!("{library} is not installed"));
        return None;
    }
    let source =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/alloc.c")).expect("it is there");
    let flags = ["-O2", "-pthread", "-Wl,--no-as-needed", text(&path)];
    Some(targets::generated("alloc", &source, "c", "cc", &flags))
}

/// Checks that the program's output is the same as alone, and that its allocator appears in
/// samples.
fn unharmed(binary: &Path, bad: &[&'static str], is_allocator: impl Fn(&str) -> bool) {
    let command = [text(binary), "400000"];
    let alone = host(Guest::Nobody, &command);
    assert!(alone.code == 0 && alone.stdout.starts_with("sum "), "{alone:?}");
    prove(&WAYS, bad, |guest| same(host(guest, &command), alone.clone()));
    let watched = Batch::new("--clock real --hz 2000").run(&[text(binary), "2000000"]);
    accounts(&watched.raw);
    let within: u64 = watched
        .raw
        .of("real")
        .filter(|entry| entry.frames.iter().any(|frame| is_allocator(frame.name())))
        .map(|entry| entry.weight_ns)
        .sum();
    assert!(within > 5_000_000, "{within} ns within the allocator");
}

#[test]
fn glibcs_malloc() {
    unharmed(&targets::c("alloc"), &["bad_malloc"], |name| name.contains("malloc") || name.contains("_int_free"));
}

#[test]
fn jemalloc() {
    if let Some(binary) = with("libjemalloc.so.2") {
        unharmed(&binary, &[], |name| ["malloc", "free", "realloc", "calloc"].contains(&name));
    }
}

#[test]
fn tcmalloc() {
    if let Some(binary) = with("libtcmalloc_minimal.so.4") {
        unharmed(&binary, &[], |name| {
            name.contains("tcmalloc")
                || name.starts_with("tc_")
                || ["malloc", "cfree", "free", "realloc"].contains(&name)
        });
    }
}
