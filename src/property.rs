//! Settings of tests of properties: each run tries new random cases, and the cases that have failed
//! before, which `tests/failed-cases.txt` keeps.

use proptest::test_runner::{Config, FileFailurePersistence};

/// Tests a property with so many random cases.
pub(crate) fn property(cases: u32) -> Config {
    let failed = FileFailurePersistence::Direct(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/failed-cases.txt"));
    Config { cases, failure_persistence: Some(Box::new(failed)), ..Config::default() }
}
