//! `sigtop symbols` prints the sources of names, or an error message.

use std::process::{Command, Output};

use crate::skips::are_installed;
use crate::sources::C;
use crate::workshop::Workshop;

fn symbols(what: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sigtop")).args(["symbols", what]).output().expect("sigtop runs")
}

#[test]
fn a_file_tells_its_tables() {
    let shop = Workshop::new();
    let program = shop.build("gcc", C, &["-g", "-Wl,--build-id"], "program");
    let path = program.to_str().expect("text");
    let output = symbols(path);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(text.starts_with(path), "{text}");
    for part in ["build id", "its own symbol table, ", "its own line tables"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_process_tells_all_its_files() {
    let own = std::process::id().to_string();
    let output = symbols(&own);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    let files: Vec<&str> = text.lines().filter(|line| line.starts_with(['/', '['])).collect();
    let executable = std::env::current_exe().expect("this test");
    assert_eq!(files.first().copied(), executable.to_str(), "the executable is first");
    assert!(files.iter().any(|file| file.contains("libc.so")) && files.contains(&"[vdso]"), "{files:?}");
    assert_eq!(text.matches("  names ").count(), files.len(), "each says where its names are from\n{text}");
}

/// Regression test: both had `its own line tables`.
#[test]
fn line_tables_that_cannot_be_read_are_no_source() {
    if !are_installed(&["objcopy"]) {
        return;
    }
    let shop = Workshop::new();
    shop.build("gcc", C, &["-g"], "program");
    shop.run("objcopy", &["--remove-section=.debug_line", "program", "lineless"]);
    shop.grow_section("program", "grown", ".debug_str", 5_000_000_000);
    for (file, words) in
        [("lineless", "none: it has no line tables"), ("grown", "has a table of 4768 MiB and 2048 MiB are read")]
    {
        let text = String::from_utf8(symbols(shop.path(file).to_str().expect("text")).stdout).expect("text");
        assert!(text.contains(words) && !text.contains("its own line tables"), "{file}: {text}");
    }
}

#[test]
fn what_cannot_be_told_is_said_in_one_sentence() {
    for (what, status, words) in [
        ("4294967295", 127, "no process 4294967295"),
        ("/nonexistent", 127, "/nonexistent cannot be read (No such file"),
        ("/etc/passwd", 126, "no sound ELF file"),
        ("/", 126, "not a regular file"),
        ("", 125, "invalid path"),
    ] {
        let output = symbols(what);
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(status), "{what}: {text}");
        assert!(text.starts_with("sigtop: ") && text.contains(words) && text.lines().count() == 1, "{what}: {text}");
        assert!(output.stdout.is_empty());
    }
}
