//! The output of a target: all of it arrives where it is redirected to, and a flood of it delays
//! neither keys nor the last lines.

use std::process::Command;

use crate::harness::run::{Batch, SIGTOP, text};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Lines of 100 bytes, numbered from 0.
fn line(number: usize) -> String {
    let fill = "the quick brown fox jumps over the lazy dog and runs away through the wide and green fields";
    format!("{number:08} {}", &fill[..90])
}

#[test]
fn redirected_output_is_equal_byte_for_byte() {
    let (program, scratch) = (targets::c("flood"), targets::scratch("equal"));
    let time = scratch.join("time");
    let count = 10_000_000 / 100;
    let expected: String = (0..count).map(|number| line(number) + "\n").collect();
    let watched = Batch::new("").run(&[text(&program), "log", "10000000", text(&time)]);
    assert_eq!(watched.ran.code(), 0);
    assert!(watched.ran.stdout == expected.as_bytes(), "{} bytes", watched.ran.stdout.len());
    // The screen is drawn on the terminal while stdout is redirected.
    let file = scratch.join("stdout");
    let mut shell = Command::new("sh");
    let command =
        format!("exec {SIGTOP} --tui --no-config -- {} log 10000000 {} > {}", text(&program), text(&time), text(&file));
    shell.args(["-c", &command]);
    let mut terminal = Terminal::start(100, 30, &shell);
    terminal.see("exited with status 0");
    terminal.keys("q");
    terminal.finish();
    assert!(std::fs::read(&file).expect("written") == expected.as_bytes());
}

#[test]
fn a_flood_drowns_neither_keys_nor_last_lines() {
    let time = targets::scratch("drown").join("time");
    let mut command = Command::new(SIGTOP);
    command.args(["--no-config", "--"]).arg(targets::c("flood")).args(["log", "40000000"]).arg(&time);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see("6 Output");
    // Keys are answered before the flood ends.
    terminal.keys("?");
    terminal.see("Keys and terms");
    terminal.keys("\x1b");
    terminal.wait("the panes again", |screen| !screen.contents().contains("Keys and terms"));
    terminal.keys("6");
    terminal.see("exited with status 0");
    let last = 40_000_000 / 100 - 1;
    terminal.see(&line(last));
    // The scrollback has no gap.
    let mut seen = last;
    for _ in 0..30 {
        terminal.keys("\x1b[5~");
        terminal.wait("older lines, one after the other", |screen| {
            let text = screen.contents();
            let numbers = text.lines().filter_map(|row| row.get(..8)?.parse::<usize>().ok());
            let numbers: Vec<usize> = numbers.collect();
            numbers.windows(2).all(|pair| pair[1] == pair[0] + 1) && numbers.first().is_some_and(|&first| first < seen)
        });
        let rows = terminal.text();
        seen = rows.lines().find_map(|row| row.get(..8)?.parse().ok()).expect("a numbered line");
    }
    terminal.keys("q");
    terminal.finish();
    terminal.see(&line(last));
}
