//! Makes screenshots/*.png from real runs: pty, screen model, SVG, and PNG by rsvg-convert. One command:
//!
//! ```text
//! apt-get install librsvg2-bin fonts-jetbrains-mono fonts-dejavu-core pngquant
//! SIGTOP_SCREENSHOTS=1 cargo test --release --test screenshots
//! ```
//!
//! Without the variable it does nothing, so that it costs nothing in a run of all tests. pngquant is optional: it makes the files ten times smaller.

#[expect(dead_code, reason = "the pictures use a part of what the tests share")]
mod harness;
#[path = "screenshots/svg.rs"]
mod svg;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::run::{SIGTOP, text};
use harness::targets;
use harness::terminal::Terminal;

fn main() {
    if std::env::var_os("SIGTOP_SCREENSHOTS").is_none() {
        println!("screenshots: nothing done; SIGTOP_SCREENSHOTS=1 makes them");
        return;
    }
    // The program itself: its demo, after a while, with a function selected.
    picture("dashboard", 140, 45, Command::new(SIGTOP).args(["demo", "--hz", "250"]), |terminal| {
        terminal.see("PROF (cpu)");
        watch(terminal, 9);
        terminal.keys("\x1b[B\x1b[B");
        watch(terminal, 2);
    });
}

/// Lets time pass in the picture: trends and sparklines need a past.
fn watch(terminal: &mut Terminal, seconds: u64) {
    terminal.wait_up_to(Duration::from_secs(seconds), |_| false);
}

fn picture(name: &str, columns: u16, rows: u16, command: &Command, play: impl FnOnce(&mut Terminal)) {
    let mut terminal = Terminal::start(columns, rows, command);
    play(&mut terminal);
    let scratch = targets::scratch(name);
    let drawing = scratch.join("drawing.svg");
    std::fs::write(&drawing, svg::draw(terminal.screen(), "sigtop")).expect("writable");
    terminal.keys("q");
    terminal.keys("e");
    terminal.finish();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("screenshots");
    std::fs::create_dir_all(&folder).expect("writable");
    let png = folder.join(format!("{name}.png"));
    let convert = Command::new("rsvg-convert").args(["--zoom", "2", "--output", text(&png), text(&drawing)]).status();
    assert!(convert.is_ok_and(|status| status.success()), "rsvg-convert (librsvg2-bin) failed");
    let smaller = Command::new("pngquant")
        .args(["--force", "--skip-if-larger", "--output", text(&png), "128", text(&png)])
        .status();
    if !smaller.is_ok_and(|status| status.success()) {
        println!("not made smaller: pngquant is missing or could not");
    }
    println!("{}", png.display());
}
