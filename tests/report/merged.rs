//! `sigtop view A B`: several files are shown as one, and each sample keeps the name of its file.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("merged-{name}"));
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn view(arguments: &[&str], directory: &PathBuf) -> std::process::Output {
    let mut sigtop = Command::new(env!("CARGO_BIN_EXE_sigtop"));
    sigtop.args(["view", "--no-config"]).args(arguments).current_dir(directory).stdin(Stdio::null());
    sigtop.output().unwrap()
}

/// The sum of flat values, and the flat value of each function, of the table of these arguments.
fn table(arguments: &[&str], directory: &PathBuf) -> (u64, Vec<(String, u64)>) {
    let output = view(&[&["--json"], arguments].concat(), directory);
    let text = String::from_utf8(output.stdout).unwrap();
    let table: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let row = |row: &Value| (row["name"].as_str().unwrap().to_owned(), row["flat"].as_u64().unwrap());
    let mut rows: Vec<(String, u64)> = table["rows"].as_array().unwrap().iter().map(row).collect();
    rows.sort();
    (rows.iter().map(|(_, flat)| flat).sum(), rows)
}

/// The files have functions in different order, so that equal places stand for different ones.
fn two_files(name: &str) -> PathBuf {
    let directory = scratch(name);
    fs::write(directory.join("a.folded"), "main;parse 3\nmain;shared 4\n").unwrap();
    fs::write(directory.join("b.folded"), "main;shared 20\nmain;draw 10\n").unwrap();
    directory
}

fn rows(of: &[(&str, u64)]) -> Vec<(String, u64)> {
    of.iter().map(|(name, samples)| ((*name).to_owned(), samples * 10_000_000)).collect()
}

#[test]
fn two_files_add_up() {
    let directory = two_files("sum");
    let (total, all) = table(&["a.folded", "b.folded"], &directory);
    assert_eq!(total, 37 * 10_000_000);
    assert_eq!(all, rows(&[("draw", 10), ("main", 0), ("parse", 3), ("shared", 24)]));
    for (file, other) in [("a", "b"), ("b", "a")] {
        let alone = table(&[&format!("{file}.folded")], &directory);
        let both = ["a.folded", "b.folded"];
        let focused = table(&[&both[..], &["--tagfocus", &format!("source=^{file}$")]].concat(), &directory);
        let without = table(&[&both[..], &["--tagignore", &format!("source={other}")]].concat(), &directory);
        assert_eq!((focused, without), (alone.clone(), alone), "{file}");
    }
}

#[test]
fn files_of_one_name_have_numbers() {
    let directory = two_files("names");
    fs::create_dir_all(directory.join("old")).unwrap();
    fs::copy(directory.join("b.folded"), directory.join("old/a.folded")).unwrap();
    let (total, _) = table(&["a.folded", "old/a.folded", "--tagfocus", "source=^a#2$"], &directory);
    assert_eq!(total, 30 * 10_000_000);
}

/// Their modules have the same names, and some of their processes generate code. Rows below half a
/// percent of all are left out.
#[test]
fn recordings_of_real_programs_add_up() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let names = ["python.sigtop", "redis.sigtop", "ripgrep.sigtop", "g++.sigtop"];
    let total = |files: &[&str]| {
        let output = view(&[&["--json"], files].concat(), &directory);
        let table: Value = serde_json::from_slice(&output.stdout).unwrap();
        table["total"].as_u64().unwrap()
    };
    assert_eq!(total(&names), names.iter().map(|name| total(&[*name])).sum::<u64>());
    for name in names {
        let (_, alone) = table(&[name], &directory);
        let source = format!("source=^{}$", name.strip_suffix(".sigtop").unwrap().replace('+', "[+]"));
        let (sum, focused) = table(&[&names[..], &["--tagfocus", &source]].concat(), &directory);
        assert!(sum > 0, "{name}");
        for row in &focused {
            assert!(alone.contains(row), "{name}: {row:?}");
        }
    }
}
