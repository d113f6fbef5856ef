//! The Source pane with real programs: the hot line of a program is known, inlined or not, in
//! source and in assembly; and missing source, line tables or symbols are reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::run::SIGTOP;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Line 6, which is inlined into line 11, uses nine tenths of the time; line 12 uses one tenth.
const C: &str = "#include <stdint.h>

static volatile uint64_t sink;

static inline __attribute__((always_inline)) uint64_t churn(uint64_t x) {
    for (int i = 0; i < 90000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

__attribute__((noipa)) uint64_t labour(uint64_t x) {
    x = churn(x);
    for (int i = 0; i < 10000; i++) x = x * 2862933555777941757u + 3037000493u;
    return x;
}

int main(void) {
    for (;;) sink = labour(sink);
}
";

/// The same in Rust: line 5 is inlined into line 12.
const RUST: &str = "#[inline(always)]
fn churn(mut x: u64) -> u64 {
    let mut i = 0;
    while i < 90_000 {
        x = std::hint::black_box(x).wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        i += 1;
    }
    x
}
#[inline(never)]
fn labour(x: u64) -> u64 {
    churn(x)
}
fn main() {
    let mut x = std::hint::black_box(1);
    loop {
        x = labour(x);
    }
}
";

/// Builds a program in its own directory, with its source beside it.
fn built(directory: &Path, file: &str, text: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    fs::write(directory.join(file), text).expect("writable");
    let program = directory.join("program");
    let status = Command::new(compiler).args(flags).arg("-o").arg(&program).arg(directory.join(file)).status();
    assert!(status.expect("a compiler").success());
    program
}

fn watched(program: &Path, options: &[&str], directory: &Path) -> Terminal {
    let mut command = Command::new(SIGTOP);
    command.args(["--on-quit", "end", "--hz", "500"]).args(options).arg("--").arg(program).current_dir(directory);
    let mut terminal = Terminal::start(140, 40, &command);
    terminal.wait("samples", |screen| screen.contents().contains("labour"));
    terminal
}

/// Returns the row with the cursor on one side of the pane: flat and cum in seconds, if present,
/// and the rest.
fn cursor(screen: &vt100::Screen) -> Option<(Vec<f64>, String)> {
    let text = screen.contents();
    let row = text.lines().find(|line| line.starts_with('▸'))?.trim_start_matches('▸');
    let values = row.split_whitespace().map_while(|word| {
        let (digits, unit) = match word.strip_suffix("ms") {
            Some(digits) => (digits, 1e-3),
            None => (word.strip_suffix('s')?, 1.0),
        };
        Some(digits.parse::<f64>().ok()? * unit)
    });
    Some((values.collect(), row.to_owned()))
}

fn waits_for(terminal: &mut Terminal, what: &str) -> Vec<f64> {
    let mut values = Vec::new();
    terminal.wait(&format!("the cursor on {what}"), |screen| match cursor(screen) {
        Some((found, row)) if row.contains(what) && !found.is_empty() => {
            values = found;
            true
        }
        _ => false,
    });
    values
}

#[test]
fn the_hot_line_of_a_c_program_is_lit() {
    let directory = targets::scratch("source-c");
    let program = built(&directory, "hot.c", C, "gcc", &["-g", "-O2"]);
    let mut terminal = watched(&program, &[], Path::new("/"));
    // The time is on the inlined line, with a note into which line it was inlined. It has a name
    // once the line tables are read.
    terminal.see("churn");
    terminal.keys(":list ^churn$\r");
    waits_for(&mut terminal, "6364136223846793005u");
    terminal.see("4 Source  churn");
    terminal.see("← labour:11");
    // In its caller, the call line has the time as cum, and names the inlined function.
    terminal.keys(":list ^labour$\r");
    terminal.see("4 Source  labour");
    let call = waits_for(&mut terminal, "x = churn(x)");
    terminal.see("→ churn");
    assert_eq!(call.len(), 1, "the call line has cum alone: {call:?}");
    // A tenth of the time is its own, all of it on one line.
    terminal.wait("a tenth of the time on the other loop", |screen| {
        let text = screen.contents();
        let after = |line: &str, word: &str| {
            let mut words = line.split_whitespace().skip_while(|it| *it != word);
            Some((words.nth(1)?.to_owned(), words.next()?.trim_end_matches('%').parse::<f64>().ok()?))
        };
        let title = text.lines().find(|line| line.contains("4 Source  labour"));
        let row = text.lines().find(|line| line.contains("2862933555777941757u"));
        let Some((flat_of_all, part)) = title.and_then(|title| after(title, "flat")) else { return false };
        let own = row.and_then(|row| row.trim_start_matches('▸').split_whitespace().next());
        own == Some(&flat_of_all) && (5.0..20.0).contains(&part)
    });
    // Show the assembly of the same function.
    terminal.keys("a");
    terminal.see("4 Assembly  labour");
    terminal.see("imul");
    terminal.see("churn ← labour:11");
    // With both shown, the cursor is on the same line on both sides.
    terminal.keys("a");
    terminal.wait("both sides", |screen| {
        let text = screen.contents();
        text.contains("imul") && text.contains("return x;")
    });
    terminal.keys("q");
    terminal.finish();
}

#[test]
fn the_hot_line_of_a_rust_program_is_lit() {
    let directory = targets::scratch("source-rust");
    let flags = ["--edition=2021", "-Cdebuginfo=1", "-Copt-level=3", "--crate-name=hot"];
    let program = built(&directory, "hot.rs", RUST, "rustc", &flags);
    let mut terminal = watched(&program, &[], Path::new("/"));
    terminal.keys(":list hot::labour\r");
    terminal.see("4 Source  hot::labour");
    waits_for(&mut terminal, "churn(x)");
    terminal.keys("\r");
    terminal.see("4 Source  hot::churn");
    terminal.keys("a");
    terminal.see("4 Assembly  hot::churn");
    terminal.see("imul");
    terminal.keys("q");
    terminal.finish();
}

#[test]
fn a_source_that_is_elsewhere_is_found_by_source_path() {
    let directory = targets::scratch("source-moved");
    let (there, here) = (directory.join("built/here"), directory.join("kept/elsewhere"));
    fs::create_dir_all(&there).expect("writable");
    fs::create_dir_all(&here).expect("writable");
    let program = built(&there, "hot.c", C, "gcc", &["-g", "-O2"]);
    fs::rename(there.join("hot.c"), here.join("hot.c")).expect("writable");
    let mut terminal = watched(&program, &[], Path::new("/"));
    terminal.keys(":list ^labour$\r");
    // The path before it is long, so the sentence may continue on the next row.
    let sentence = "hot.c is not here: name the directory it is in with --source-path DIR";
    terminal
        .wait(sentence, |screen| screen.contents().split_whitespace().collect::<Vec<_>>().join(" ").contains(sentence));
    terminal.see("imul");
    terminal.keys("q");
    terminal.finish();
    let here = here.to_string_lossy().into_owned();
    let mut terminal = watched(&program, &["--source-path", &here], Path::new("/"));
    terminal.keys(":list ^labour$\r");
    waits_for(&mut terminal, "x = churn(x)");
    terminal.see("kept/elsewhere/hot.c");
    // The file was moved, and then written again.
    fs::write(Path::new(&here).join("hot.c"), format!("\n\n{C}")).expect("writable");
    terminal.keys("q");
    terminal.finish();
    let mut terminal = watched(&program, &["--source-path", &here], Path::new("/"));
    terminal.keys(":list ^labour$\r");
    terminal.see("is newer than");
    terminal.keys("q");
    terminal.finish();
}

#[test]
fn a_program_without_line_tables_shows_its_assembly_and_says_why() {
    let directory = targets::scratch("source-bare");
    let program = built(&directory, "hot.c", C, "gcc", &["-O2"]);
    let mut terminal = watched(&program, &[], &directory);
    terminal.keys(":disasm ^labour$\r");
    terminal.see("has no line tables: build with debug = 1 (Rust) or -g");
    waits_for(&mut terminal, "%");
    terminal.see("imul");
    terminal.keys("q");
    terminal.finish();
}

#[test]
fn the_demo_has_its_source_with_it() {
    // High enough for most of its functions.
    let mut terminal =
        Terminal::start(140, 120, Command::new(SIGTOP).args(["demo", "--on-quit", "end"]).current_dir("/"));
    terminal.see("find_matches");
    terminal.keys(":list find_matches$\r");
    terminal.see("let best = data.windows(8)");
    terminal.see("src/app/demo_target.rs");
    terminal.keys("q");
    terminal.finish();
}
