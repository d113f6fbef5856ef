//! Effects of keys: the state that the user sees, and the commands that the session receives.

use sigtop::session::Command;
use sigtop::tally::query::Filters;
use sigtop::tui::action::{Action, Effect};
use sigtop::wire::{Clock, Engine};

use crate::session::Session;
use crate::stage::{Stage, options};

const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
pub(crate) const ESC: &str = "\x1b";

/// Returns the name in the row with the cursor; empty if no row has it.
pub(crate) fn selected(stage: &Stage) -> String {
    let text = stage.text();
    let row = text.lines().find(|line| line.starts_with('▸'));
    // Names follow the last percentage.
    let name = row.and_then(|row| row.rsplit_once('%')).map(|(_, name)| name.trim_start_matches([' ', '│']));
    // Names may also follow the trend.
    let name = name.map(|name| name.trim_start_matches(|c| "▁▂▃▄▅▆▇█▲▼ ".contains(c)).trim());
    let name = name.and_then(|name| name.split('│').next());
    name.and_then(|name| name.split("  ").next()).unwrap_or("").to_owned()
}

pub(crate) fn rows(stage: &Stage) -> Vec<String> {
    let text = stage.text();
    text.lines().skip(4).take_while(|line| line.contains('%')).map(str::to_owned).collect()
}

#[test]
fn the_selection_is_a_function() {
    let mut stage = Stage::usual((80, 24));
    stage.press("jj");
    assert_eq!(selected(&stage), "render::page");
    stage.press("c");
    assert_eq!(selected(&stage), "render::page", "sorted anew, it is still selected");
    stage.press("c");
    stage.press("w");
    assert_eq!(selected(&stage), "render::page");
}

#[test]
fn a_selection_that_is_filtered_away_comes_back() {
    let mut stage = Stage::usual((80, 24));
    stage.press("jj");
    stage.press("fparse\r");
    assert_eq!(selected(&stage), "", "nothing else is selected in its place");
    stage.press("u");
    assert_eq!(selected(&stage), "render::page");
}

#[test]
fn nothing_scrolls_by_itself() {
    let mut stage = Stage::usual((60, 12));
    stage.press("\x1b[6~");
    let before = rows(&stage);
    stage.refresh();
    stage.refresh();
    assert_eq!(rows(&stage), before);
}

/// Shows a later answer to the same question.
pub(crate) fn answer_anew(stage: &mut Stage, scenario: &str) {
    let question = stage.session.answer().unwrap().question.clone();
    stage.session = Session::new(scenario);
    stage.session.obey(Command::Ask(question.into()));
    stage.refresh();
}

#[test]
fn until_a_key_is_pressed_the_selection_is_the_first_row() {
    let early = "process 7 ./a\nat 1s prof 10ms main;first x 3\nat 1s prof 10ms main;second x 2\nnow 2s";
    let mut stage = Stage::new(options(), Session::new(early), (80, 24));
    assert_eq!(selected(&stage), "first");
    stage.press("z");
    let later = "process 7 ./a\nat 1s prof 10ms main;first x 3\nat 1s prof 10ms main;second x 40\nnow 2s";
    answer_anew(&mut stage, later);
    assert_eq!(selected(&stage), "second", "five samples are not enough to keep a selection");
    let even_later = "process 7 ./a\nat 1s prof 10ms main;first x 90\nat 1s prof 10ms main;second x 40\nnow 4s";
    answer_anew(&mut stage, even_later);
    assert_eq!(selected(&stage), "first", "no key was pressed since there are enough samples");
    stage.press("z");
    let last = "process 7 ./a\nat 1s prof 10ms main;first x 90\nat 1s prof 10ms main;second x 400\nnow 6s";
    answer_anew(&mut stage, last);
    assert_eq!(selected(&stage), "first", "the user has seen it");
}

#[test]
fn moving_stays_inside() {
    let mut stage = Stage::usual((80, 24));
    stage.press("G");
    assert_eq!(selected(&stage), "server::accept_loop", "rows without flat are sorted by cum");
    stage.press(&DOWN.repeat(9));
    assert_eq!(selected(&stage), "server::accept_loop");
    stage.press(&UP.repeat(99));
    assert_eq!(selected(&stage), "sha256_block_data_order_avx2");
    stage.press("\x1b[<65;10;10M");
    assert_eq!(selected(&stage), "core::hash::BuildHasher::hash_one", "the wheel moves three rows");
    stage.press("\x1b[<0;10;6M");
    assert_eq!(selected(&stage), "json::Parser::parse_value", "a click selects");
}

#[test]
fn clocks_engines_and_rates_are_asked_for() {
    let mut stage = Stage::usual((140, 45));
    stage.press("r");
    assert!(stage.line(1).contains("● wall time  "), "{}", stage.line(1));
    stage.press("E");
    assert!(stage.text().contains("use setitimer? it kills targets that reset SIGALRM"), "{}", stage.text());
    stage.press("c");
    assert!(stage.line(1).contains("● wall time  "), "{}", stage.line(1));
    stage.press("Ey");
    assert!(stage.line(1).contains("● wall time  setitimer(ITIMER_REAL)"), "{}", stage.line(1));
    stage.press("pEv");
    assert!(stage.status().contains("user CPU time cannot be sampled from outside"), "{}", stage.status());
    stage.press("EE++-");
    let hz = |rate: u64| Command::Period(1_000_000_000 / rate);
    assert_eq!(
        stage.session.heard[1..],
        [
            Command::Clock(Clock::Real),
            Command::Engine(Engine::Itimer),
            Command::Clock(Clock::Prof),
            Command::Engine(Engine::External),
            Command::Engine(Engine::Threads),
            // The choice is confirmed only once.
            Command::Engine(Engine::Itimer),
            hz(249),
            hz(499),
            hz(249),
        ]
    );
    stage.press("++++");
    assert!(stage.status().contains("highest"), "{}", stage.status());
}

#[test]
fn two_quick_steps_are_two_steps() {
    let mut stage = Stage::usual((80, 24));
    let old = stage.session.answer().unwrap();
    let effects = stage.app.update(Action::Rate(1));
    assert_eq!(effects, [Effect::Send(Command::Period(1_000_000_000 / 249))]);
    stage.act(Action::Answer(old));
    let effects = stage.app.update(Action::Rate(1));
    assert_eq!(effects, [Effect::Send(Command::Period(1_000_000_000 / 499))]);
}

#[test]
fn windows_are_stepped_through() {
    let mut stage = Stage::usual((80, 24));
    let mut windows = Vec::new();
    for _ in 0..4 {
        stage.press("w");
        windows.push(stage.session.answer().unwrap().question.window_ns.map_or(0, |ns| ns / 1_000_000_000));
    }
    assert_eq!(windows, [60, 0, 2, 10]);
    stage.press("WW");
    assert_eq!(stage.session.answer().unwrap().question.window_ns, None);
}

#[test]
fn a_filter_previews_and_can_be_taken_back() {
    let mut stage = Stage::usual((80, 24));
    stage.press("fparse");
    assert!(stage.status().contains("focus: parse"), "{}", stage.status());
    assert!(stage.status().contains("230 of 1 094 samples"), "{}", stage.status());
    stage.press(ESC);
    assert_eq!(stage.session.answer().unwrap().question.filters, Filters::default());
    stage.press("fparse\ri^main$\r");
    assert!(stage.text().contains("filters match 0 of 1 094 samples"), "{}", stage.text());
    stage.press("u");
    assert!(stage.line(1).contains("focus=parse ✕"), "{}", stage.line(1));
    stage.press("\x12");
    assert!(stage.line(1).contains("2 filters") || stage.line(1).contains("ignore=^main$ ✕"), "{}", stage.line(1));
    stage.press("U");
    assert!(!stage.line(1).contains('✕'));
    stage.press("u");
    assert!(stage.line(1).contains('✕'), "clearing can be undone too");
}

#[test]
fn keys_in_a_prompt_are_text() {
    let mut stage = Stage::usual((80, 24));
    stage.press("fq?jE");
    assert!(stage.status().contains("focus: q?jE"), "{}", stage.status());
    assert_eq!(stage.left, None);
    stage.press("\x15(");
    assert!(stage.status().contains("unclosed group"), "{}", stage.status());
    stage.press("\r");
    assert!(stage.status().contains("unclosed group"), "a pattern that does not compile is not kept");
    stage.press("\x03c");
    assert!(!stage.status().contains("focus"), "{}", stage.status());
}

#[test]
fn the_selected_function_can_be_a_filter() {
    let mut stage = Stage::usual((80, 24));
    stage.press("jI");
    let ignored = &stage.session.answer().unwrap().question.filters.ignore;
    assert!(ignored[0].text().starts_with("^json::Parser<"), "{}", ignored[0].text());
    assert!(!stage.text().contains("parse_value  "), "{}", stage.text());
}

#[test]
fn a_search_moves_the_selection() {
    let mut stage = Stage::usual((80, 24));
    stage.press("/ALLOC");
    assert_eq!(selected(&stage), "sha256_block_data_order_avx2", "capitals are meant");
    stage.press("\x15alloc");
    assert_eq!(selected(&stage), "realloc");
    assert!(stage.status().contains("4 rows"), "{}", stage.status());
    stage.press(ESC);
    assert_eq!(selected(&stage), "sha256_block_data_order_avx2", "Esc goes back to where it was");
    stage.press("/alloc\rn");
    assert_eq!(selected(&stage), "_int_malloc");
    stage.press("N");
    assert_eq!(selected(&stage), "realloc");
    stage.press("N");
    assert!(selected(&stage).ends_with("::grow_amortized"), "around the end: {}", selected(&stage));
}

#[test]
fn typing_goes_to_the_target_and_nowhere_else() {
    let mut stage = Stage::usual((80, 24));
    stage.press("6\rq\x03\x1b[A\x1b[200~two\nlines\x1b[201~");
    let typed: Vec<Command> =
        [&b"q"[..], b"\x03", b"\x1b[A", b"two\rlines"].map(|bytes| Command::Input(bytes.to_vec())).into();
    assert_eq!(stage.session.heard[1..], typed);
    assert_eq!(stage.left, None);
    stage.press("\x1dq");
    assert!(stage.status().contains("is running"), "{}", stage.status());
}

#[test]
fn the_target_hears_of_a_new_size_once() {
    let mut stage = Stage::usual((100, 30));
    stage.press("60z1");
    stage.resize((100, 30));
    stage.resize((120, 40));
    assert_eq!(stage.session.heard, [Command::Resize(100, 25), Command::Resize(120, 35)]);
}

#[test]
fn a_frozen_screen_says_what_waits() {
    let mut stage = Stage::usual((140, 45));
    stage.press(" ");
    assert!(stage.line(1).contains("paused · 312 new samples"), "{}", stage.line(1));
    stage.press(" ");
    assert_eq!(stage.session.heard[1..], [Command::Freeze, Command::Thaw]);
}

#[test]
fn a_name_is_copied_clean() {
    let mut stage = Stage::usual((80, 24));
    stage.press("jy");
    let name = "json::Parser<std::io::BufReader<std::net::TcpStream>>::parse_value(&mut self)";
    assert_eq!(stage.effects, [Effect::Copy(name.to_owned())]);
}
