//! SECURITY.md, README.md and CONTRIBUTING.md name files and tests that exist, and SECURITY.md
//! names a test for each statement about a target, or says that there is none.

use std::fs;
use std::path::Path;

use crate::sources::test_sources;

fn read(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

/// The code words of a page, which stand between backticks.
fn code_words(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

/// Returns whether a page may name this file or test: `tests/wire.rs`, `tests/wire.rs::test`, or
/// `theme::test` of the end-to-end tests.
fn exists(word: &str, tests: &[(String, String)]) -> bool {
    let Some((module, test)) = word.rsplit_once("::") else { return read(word).is_some() };
    let function = format!("fn {test}(");
    if module.ends_with(".rs") {
        return read(module).is_some_and(|text| text.contains(&function));
    }
    let file = format!("tests/e2e/{}.rs", module.replace("::", "/"));
    tests.iter().any(|(path, text)| *path == file && text.contains(&function))
}

/// Returns whether a code word names a test or a file of the source.
fn is_reference(word: &str) -> bool {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|char| char.is_alphanumeric() || "_./".contains(char));
    let is_path = word.ends_with(".rs") && word.contains('/');
    is_path && is_name(word) || word.contains("::") && word.split("::").all(is_name) && word != "file::test"
}

#[test]
fn files_and_tests_that_pages_name_exist() {
    let tests = test_sources();
    for (page, least) in [("SECURITY.md", 60), ("CONTRIBUTING.md", 20), ("README.md", 1)] {
        let text = read(page).expect(page);
        let references: Vec<&str> = code_words(&text).filter(|word| is_reference(word)).collect();
        assert!(references.len() >= least, "{page} names only {references:?}");
        let missing: Vec<&&str> = references.iter().filter(|word| !exists(word, &tests)).collect();
        assert!(missing.is_empty(), "{page}: {missing:?}");
    }
}

#[test]
fn each_statement_about_a_target_names_its_test() {
    let page = read("SECURITY.md").expect("a page");
    let (_, about_targets) = page.split_once("## What a target can see").expect("a section");
    let (about_targets, _) = about_targets.split_once("## What is trusted").expect("a section");
    let items: Vec<&str> = about_targets.split("\n* ").skip(1).collect();
    assert!(items.len() >= 25, "{} items", items.len());
    let is_shown = |item: &str| code_words(item).any(is_reference) || item.to_lowercase().contains("no test");
    let bare: Vec<&&str> = items.iter().filter(|item| !is_shown(item)).collect();
    assert!(bare.is_empty(), "{bare:#?}");
}

#[test]
fn a_reference_to_nothing_is_found() {
    let tests = test_sources();
    assert!(is_reference("guest::no_such_test") && !exists("guest::no_such_test", &tests));
    assert!(is_reference("tests/no_such_file.rs") && !exists("tests/no_such_file.rs", &tests));
    assert!(is_reference("tests/wire.rs::no_such_test") && !exists("tests/wire.rs::no_such_test", &tests));
    assert!(!is_reference("LD_PRELOAD") && !is_reference("Cache::insert(int)"));
}
