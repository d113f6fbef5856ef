//! The command line: its appearance, its commands, and its exclusive use of its row and keys.

use sigtop::session::Command;
use sigtop::tui::action::Departure;
use sigtop::wire::{Clock, Engine};

use crate::session::Session;
use crate::stage::{Stage, options};

const ESC: &str = "\x1b";
const UP: &str = "\x1b[A";

/// Returns a screen on which a line was executed.
fn after(line: &str) -> Stage {
    let mut stage = Stage::usual((140, 45));
    stage.press(&format!(":{line}\r"));
    stage
}

#[test]
fn filters_are_set_and_cleared() {
    let mut stage = after("focus=parse");
    assert!(stage.line(1).contains("focus=parse"), "{}", stage.line(1));
    stage.press(":focus=hash\r:ignore=gc\r");
    assert!(stage.line(1).contains("focus=hash") && !stage.line(1).contains("parse"), "{}", stage.line(1));
    stage.press(":focus=\r");
    assert!(!stage.line(1).contains("focus") && stage.line(1).contains("ignore=gc"), "{}", stage.line(1));
    stage.press(":\r");
    assert!(!stage.line(1).contains("ignore"), "{}", stage.line(1));
    stage.press("u");
    assert!(stage.line(1).contains("ignore=gc"), "what was cleared can be taken back");
}

#[test]
fn top_shows_so_many_rows_in_an_order() {
    let mut stage = after("top3 -cum -gc");
    let rows = |stage: &Stage| {
        let text = stage.text();
        let below = text.lines().skip_while(|line| !line.contains("flat%")).skip(1);
        below.take_while(|line| line.contains('%')).count()
    };
    assert_eq!(rows(&stage), 3, "{}", stage.text());
    assert!(stage.text().contains("▼cum") && stage.line(1).contains("ignore=gc"));
    stage.press("G");
    assert_eq!(rows(&stage), 3, "{}", stage.text());
    stage.press(":top\r");
    assert!(rows(&stage) > 10);
}

#[test]
fn the_session_hears_what_is_set() {
    let mut stage = after("hz=250");
    stage.press(":clock=real\r:engine=itimer\ry:period=1ms\r:reset\r");
    let heard = &stage.session.heard;
    for command in [
        Command::Period(4_000_000),
        Command::Clock(Clock::Real),
        Command::Engine(Engine::Itimer),
        Command::Period(1_000_000),
        Command::Reset,
    ] {
        assert!(heard.contains(&command), "{command:?} in {heard:?}");
    }
}

#[test]
fn peek_selects_and_names_the_filter_that_hides() {
    let mut stage = after("peek hash_one");
    let row = |stage: &Stage| stage.text().lines().find(|line| line.starts_with('▸')).map(str::to_owned);
    assert!(row(&stage).is_some_and(|row| row.contains("hash_one")), "{}", stage.text());
    stage.press(":ignore=hash_one\r:peek hash_one\r");
    assert!(stage.status().contains("no function matches hash_one under ignore=hash_one"), "{}", stage.status());
    stage.press(":\r:peek nowhere\r");
    assert!(stage.status().ends_with("no function matches nowhere"), "{}", stage.status());
}

#[test]
fn a_name_in_full_is_meant_before_what_has_it_among_its_arguments() {
    let text = "process 41273 ./server\nat 50s..60s prof 10ms main;std::sort<work> x 60\n\
        at 50s..60s prof 10ms main;network x 30\nat 50s..60s prof 10ms main;app::work x 10\nnow 60s";
    let mut stage = Stage::new(options(), Session::new(text), (140, 45));
    stage.press(":list work\r1");
    let text = stage.text();
    let row = text.lines().find(|row| row.starts_with('▸')).unwrap_or_default();
    assert!(row.contains("app::work"), "{text}");
}

#[test]
fn a_fault_stays_on_the_line_until_it_is_mended() {
    let mut stage = after("clock=wlal");
    assert!(stage.status().starts_with(" :clock=wlal") && stage.status().ends_with("did you mean wall?"));
    stage.press("\x7f\x7f\x7f");
    assert!(!stage.status().contains("did you mean"), "{}", stage.status());
    stage.press("all\r");
    assert!(stage.session.heard.contains(&Command::Clock(Clock::Real)));
    stage.press(":svg\r");
    assert!(stage.status().contains("pprof's svg writes a report"), "{}", stage.status());
    stage.press(ESC);
    assert!(!stage.status().contains("svg"));
}

#[test]
fn keys_of_the_screen_are_letters_on_the_line() {
    let mut stage = Stage::usual((100, 30));
    stage.press(":q?pr");
    assert!(stage.status().starts_with(" :q?pr") && stage.left.is_none(), "{}", stage.status());
    assert!(stage.session.heard.is_empty() || !stage.session.heard.contains(&Command::Clock(Clock::Real)));
}

#[test]
fn tab_and_history() {
    let mut stage = after("window=all");
    stage.press(":pee\tmemm\t");
    assert!(stage.status().starts_with(" :peek __memmove"), "{}", stage.status());
    stage.press(ESC);
    stage.press(&format!(":x{UP}"));
    assert!(stage.status().starts_with(" :window=all"), "{}", stage.status());
    stage.press("\x1b[B");
    assert!(stage.status().starts_with(" :x"), "{}", stage.status());
}

#[test]
fn quit_asks_like_the_key() {
    let stage = after("quit");
    assert!(stage.status().contains("[e] end"), "{}", stage.status());
    let mut stage = after("quit");
    stage.press("l");
    assert_eq!(stage.left, Some(Departure::Left));
}
