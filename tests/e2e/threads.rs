//! Threads and processes of a live target: they have names, may be renamed, and filter all panes.

use std::process::Command;

use crate::harness::run::SIGTOP;
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

#[test]
fn threads_are_seen_by_name_and_filter_everything() {
    let mut command = Command::new(SIGTOP);
    command.args(["--on-quit", "end", "--"]).arg(targets::c("crew")).arg("60");
    let mut terminal = Terminal::start(140, 40, &command);
    terminal.see("bake");
    // Every pane names the selection.
    terminal.keys("/bake\r");
    terminal.keys("5");
    for name in ["5 Threads", "baker", "packer", "└ ", " ago)", "running", "mill"] {
        terminal.see(name);
    }
    // One of them has changed its name.
    terminal.see("cook");
    terminal.wait("no name of before", |screen| !screen.contents().contains("miller"));
    terminal.keys("/baker\r");
    terminal.wait("the cursor on it", |screen| {
        screen.contents().lines().any(|line| line.starts_with('▸') && line.contains("baker"))
    });
    terminal.keys("\r");
    terminal.see("baker ✕");
    terminal.see("filtered to baker");
    // The filter applies to every pane.
    terminal.keys("0");
    terminal.wait("the baker's functions alone", |screen| {
        let text = screen.contents();
        text.contains("bake") && !text.contains("mill") && !text.contains("pack") && text.contains(" of ")
    });
    terminal.keys("U");
    terminal.wait("all functions, no chip", |screen| {
        let text = screen.contents();
        !text.contains('✕') && ["bake", "mill", "pack"].iter().all(|name| text.contains(name))
    });
    // Filter by the child process as a whole.
    terminal.keys("5");
    terminal.see("└ ");
    terminal.keys(":tagfocus=thread=packer\r");
    terminal.see("thread=packer packer ✕");
    terminal.keys("1");
    terminal.wait("the child's functions alone", |screen| {
        let text = screen.contents();
        // The last lines name the selection, whether or not its row is visible.
        let rows: Vec<&str> = text.lines().take(36).collect();
        let has = |name: &str| rows.iter().any(|row| row.contains(name));
        has("pack") && !has("bake") && !has("mill")
    });
    terminal.keys("q");
    terminal.finish();
}

/// A thread of io_uring uses CPU time of its process, and nothing of it is sampled.
#[test]
fn threads_of_io_uring_are_marked() {
    let mut command = Command::new(SIGTOP);
    command.args(["--on-quit", "end", "--"]).arg(targets::c("uring")).arg("60");
    let mut terminal = Terminal::start(140, 40, &command);
    terminal.keys("5");
    let is_marked = |line: &str| line.contains("iou-sqp") && line.contains("io_uring");
    terminal.wait("the thread, or the end of a program that may not have it", |screen| {
        let text = screen.contents();
        text.lines().any(is_marked) || text.contains("status 3")
    });
    if !terminal.text().lines().any(is_marked) {
        skip("io_uring is not permitted here");
    }
    terminal.keys("q");
    terminal.finish();
}
