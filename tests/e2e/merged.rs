//! Recordings of two programs that arrive at the same time are watched on one screen.

use std::process::Command;

use crate::harness::run::{SIGTOP, tool};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

#[test]
fn two_recordings_are_watched_while_they_are_made() {
    let Some(bash) = tool("bash") else { return };
    let target = targets::c("shares");
    let record = |shares: &str| format!("<({SIGTOP} record -o - -- {} {shares} 60 2>/dev/null)", target.display());
    let mut command = Command::new(bash);
    command.args(["-c", &format!("{SIGTOP} view --tui {} {}", record("60 30 10"), record("10 30 60"))]);
    let mut terminal = Terminal::start(140, 45, &command);
    terminal.see("burn_a");
    terminal.wait("their time goes on", |screen| screen.contents().contains("watched 3"));
    terminal.keys(":tagroot=source\r");
    terminal.wait("the flame has both", |screen| {
        let text = screen.contents();
        text.contains("#1") && text.contains("#2")
    });
    terminal.keys("q");
    terminal.finish();
}
