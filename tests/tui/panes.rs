//! Effects of keys and clicks in the panes, and from one pane on the others.

use sigtop::session::TargetExit;
use sigtop::symbols::download::DownloadProgress;
use sigtop::symbols::worker::SymbolState;
use sigtop::tui::Options;
use sigtop::tui::action::{Action, Effect};
use sigtop::wire::Clock;

use crate::keys::{ESC, selected};
use crate::session::Session;
use crate::stage::{SCREEN, Stage, options};

/// The center of the callers pane: the title of its card, or the line between its rules, without
/// the module.
fn centre(stage: &Stage) -> String {
    let text = stage.text();
    if let Some((_, card)) = text.split_once("┬─ 2 ").filter(|(_, title)| !title.starts_with("Callers")) {
        return card.split(" ─").next().unwrap_or("").to_owned();
    }
    let mut lines = text.lines().skip_while(|line| !line.contains(" caller"));
    let line = lines.find(|line| !line.contains("──")).unwrap_or("");
    let name = line.rsplit('│').next().unwrap_or("").trim();
    name.split("  ").next().unwrap_or("").to_owned()
}

#[test]
fn one_selection_is_in_every_pane() {
    let mut stage = Stage::usual((140, 45));
    stage.press("j");
    assert_eq!(centre(&stage), "json::Parser::parse_value");
    // Go to Callers past the details, to the first caller above the center.
    stage.press("\r\rkc");
    assert_eq!(centre(&stage), "json::Parser::parse_object");
    stage.press("1");
    assert_eq!(selected(&stage), "json::Parser::parse_object", "Top has it too");
    stage.press("0");
    // In Flame, go from the selection's box to its parent.
    stage.press("3k");
    assert!(stage.status().starts_with(" server::handle_request"), "{}", stage.status());
    stage.press("2");
    assert_eq!(centre(&stage), "server::handle_request");
}

#[test]
fn steps_in_the_past_can_be_counted() {
    let mut stage = Stage::usual((140, 45));
    stage.press(" 12[");
    assert!(stage.status().starts_with(" 12 s ago"), "{}", stage.status());
    assert!(stage.text().contains("2 sha256") && stage.text().contains("1 Top"), "digits leave the panes as they were");
    stage.press("2]");
    assert!(stage.status().starts_with(" 10 s ago"), "{}", stage.status());
    stage.press("2j]");
    assert!(stage.status().starts_with(" 9 s ago"), "another key ends the number: {}", stage.status());
    assert!(!stage.text().contains("1 Top"), "and the digit has shown a pane");
    stage.press("0\x1b[6;3~");
    assert!(stage.status().starts_with(" now"), "a page is a whole window: {}", stage.status());
}

#[test]
fn the_footer_has_the_keys_of_the_history_while_paused() {
    for (size, words) in
        [((140, 45), "[ ] 1 s  { } 100 ms  m mark  :at 14:05"), ((60, 12), "Space live  [ ] 1 s  { } 100 ms  m mark")]
    {
        let mut stage = Stage::usual(size);
        assert!(!stage.text().contains("live"), "{}", stage.text());
        stage.press(" ");
        let footer = stage.line(size.1 - 1);
        assert!(footer.contains(words) && footer.contains("Space live"), "{footer}");
        stage.press("w");
        assert!(stage.text().contains("[ ] 6 s"), "a tenth of the window: {}", stage.text());
    }
}

#[test]
fn a_time_of_the_history_is_shown_by_a_command_or_a_click() {
    let mut stage = Stage::usual((140, 45));
    stage.press(":at -3s\r");
    assert!(stage.status().starts_with(" 3 s ago"), "{}", stage.status());
    stage.press(":at -9h\r");
    assert!(stage.status().contains("the history begins "), "{}", stage.status());
    stage.press(":at 14:05\r");
    assert!(stage.status().contains("the time of day is not known here"), "{}", stage.status());
    stage.press(":at noon\r");
    assert!(stage.text().contains("a time is -3m, 14:05 or 14:05:30"), "{}", stage.text());
    stage.press("\x03");
    let mut stage = Stage::usual((140, 45));
    stage.press(" ");
    let status = stage.line(43);
    let cell = status.chars().take(108).collect::<Vec<_>>().iter().rposition(|cell| "▁▂▃▄▅▆▇█".contains(*cell));
    let newest = cell.expect("a strip") + 1;
    let mut ages = Vec::new();
    for column in [newest, newest - 10, newest - 20, newest - 10] {
        stage.press(&format!("\x1b[<0;{column};44M"));
        let age = stage.status().split(" s ago").next().and_then(|age| age.trim().parse::<f64>().ok());
        ages.push(age.unwrap_or_else(|| panic!("{}", stage.status())));
    }
    assert_eq!(ages[1], ages[3], "the strip stays where it is: {ages:?}");
    assert!(ages[0] < ages[1] && ages[1] - ages[0] == ages[2] - ages[1], "{ages:?}");
}

#[test]
fn callers_unfold_over_all_levels() {
    let mut stage = Stage::usual((140, 45));
    stage.press("j\r\rk\r");
    let row = |stage: &Stage, name: &str| {
        let text = stage.text();
        let line = text
            .lines()
            .skip(3)
            .filter(|line| line.contains('│'))
            .find(|line| line.rsplit('│').next().is_some_and(|line| line.contains(name)));
        line.and_then(|line| line.rsplit('│').next()).unwrap_or_default().trim_end().to_owned()
    };
    assert!(row(&stage, "▾ json::Parser::parse_object").ends_with("parse_object"), "{}", stage.text());
    assert!(row(&stage, "▸ server::handle_request").contains("%"), "{}", stage.text());
    stage.press("k\x1b[C");
    assert!(row(&stage, "▾ server::handle_request").contains("%"), "Right unfolds too: {}", stage.text());
    assert!(row(&stage, "▸ server::worker_loop").contains("%"), "{}", stage.text());
    stage.press("jh");
    assert!(row(&stage, "server::worker_loop").is_empty(), "Left folds all behind: {}", stage.text());
    assert_eq!(centre(&stage), "json::Parser::parse_value");
}

#[test]
fn centres_have_a_history() {
    let mut stage = Stage::usual((140, 45));
    stage.press("j\r\rkc");
    assert_eq!(centre(&stage), "json::Parser::parse_object");
    stage.press("kc");
    assert_eq!(centre(&stage), "server::handle_request");
    stage.press("\x7f\x7f");
    assert_eq!(centre(&stage), "json::Parser::parse_value");
    stage.press("\x1b[1;3C");
    assert_eq!(centre(&stage), "json::Parser::parse_object");
    stage.press("\x7f\x7f");
    assert!(stage.line(2).contains("1 Top"));
    stage.press("\x7f");
    assert!(stage.status().contains("no previous function"), "{}", stage.status());
}

#[test]
fn a_centre_that_a_filter_took_says_which() {
    let mut stage = Stage::usual((140, 45));
    stage.press("jX");
    assert!(stage.text().contains("removed by"), "{}", stage.text());
    stage.press("ufsha256\r");
    assert!(stage.text().contains("no samples match focus=sha256"), "{}", stage.text());
    stage.press("U");
    assert_eq!(centre(&stage), "json::Parser::parse_value");
}

#[test]
fn every_filter_has_a_prompt_and_a_chip_that_can_be_clicked_away() {
    let mut stage = Stage::usual((140, 45));
    for (keys, chip) in [("xmain", "hide=main"), ("s.", "show=."), ("Sserver", "show_from=server")] {
        stage.press(keys);
        assert!(stage.status().contains(" samples"), "{}", stage.status());
        stage.press("\r");
        assert!(stage.line(1).contains(chip) || stage.line(1).contains("filters"), "{}", stage.line(1));
    }
    stage.press("U");
    stage.press("xmain\rxgc\rs.\r");
    let line = stage.line(1);
    let at = line.find("hide=gc").map(|at| line[..at].chars().count()).expect("a chip");
    stage.press(&format!("\x1b[<0;{};2M", at + 3));
    let filters = stage.session.answer().unwrap().question.filters.clone();
    assert_eq!(filters.hide.iter().map(|pattern| pattern.text()).collect::<Vec<_>>(), ["main"]);
    assert_eq!(filters.show.len(), 1);
    stage.press("u");
    assert!(stage.line(1).contains("hide=gc"), "a click can be taken back");
}

#[test]
fn a_module_is_hidden_with_one_key() {
    let mut stage = Stage::usual((140, 45));
    stage.press("M");
    assert!(stage.line(1).contains(r"hide=(^|/)libcrypto\.so\.3$ ✕"), "{}", stage.line(1));
    let answer = stage.session.answer().unwrap();
    assert!(answer.window.rows.iter().all(|row| row.module != "libcrypto.so.3"));
}

#[test]
fn tab_goes_around_what_is_on_the_screen() {
    let active = |stage: &Stage| {
        let styled = stage.styled();
        ["1 Top", "2 Callers", "3 Flame", "4 Source", "5 Threads", "6 Output"]
            .into_iter()
            .find(|name| styled.contains(&format!("bold‹ {name}›")) || styled.contains(&format!("bold‹ {name} ›")))
            .unwrap_or("none")
    };
    let mut stage = Stage::usual((100, 30));
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(active(&stage));
        stage.press("\t");
    }
    assert_eq!(seen, ["1 Top", "2 Callers", "3 Flame", "1 Top"]);
    let mut small = Stage::usual((60, 12));
    let mut seen = Vec::new();
    for _ in 0..7 {
        seen.push(active(&small));
        small.press("\t");
    }
    assert_eq!(seen, ["1 Top", "2 Callers", "3 Flame", "4 Source", "5 Threads", "6 Output", "1 Top"]);
    // If a pane has no room, another pane gets the keys.
    stage.press("3z");
    stage.resize((60, 12));
    stage.press("0");
    assert_eq!(active(&stage), "1 Top");
}

#[test]
fn boxes_are_zoomed_into_and_out_of() {
    let mut stage = Stage::usual((100, 30));
    stage.press("3");
    stage.press("g");
    stage.press("jj\r");
    assert!(
        stage.text().contains("zoom: server::worker_loop") || stage.text().contains("zoom: worker_loop"),
        "{}",
        stage.text()
    );
    assert_eq!(stage.session.answer().unwrap().question.flame.as_ref().unwrap().zoom, ["main", "server::worker_loop"]);
    assert!(stage.line(3).starts_with("▸server::worker_loop"), "{}", stage.line(3));
    stage.press("\x7f");
    assert!(stage.session.answer().unwrap().question.flame.as_ref().unwrap().zoom.is_empty());
    assert!(stage.status().starts_with(" server::worker_loop"), "the cursor is where it was: {}", stage.status());
    stage.press("\r\x1b");
    assert!(stage.session.answer().unwrap().question.flame.as_ref().unwrap().zoom.is_empty(), "Esc zooms out too");
    stage.press("O");
    assert!(stage.text().contains("bottom-up"), "{}", stage.text());
    stage.press("O/parse\r");
    let found = stage.status();
    assert!(found.contains("pars"), "{found}");
    stage.press("n");
    assert!(stage.status().contains("pars") && stage.status() != found, "{}", stage.status());
}

#[test]
fn a_click_selects_in_every_pane() {
    let mut stage = Stage::usual((100, 30));
    let at = |stage: &Stage, words: &str| {
        let text = stage.text();
        let (y, line) = text.lines().enumerate().skip(17).find(|(_, line)| line.contains(words)).expect("a box");
        let x = line[..line.find(words).expect("there")].chars().count();
        (x + 1, y + 1)
    };
    let (x, y) = at(&stage, "parse_object");
    stage.press(&format!("\x1b[<0;{x};{y}M"));
    assert!(stage.status().starts_with(" json::Parser<"), "{}", stage.status());
    assert!(stage.text().contains("parse_object"), "{}", stage.text());
    // In Callers, which the first click shows, select the first callee and go to it.
    stage.press("\x1b[<0;90;5M");
    let text = stage.text();
    let y = text.lines().position(|line| line.contains("1 callee ──")).expect("a rule") + 2;
    stage.press(&format!("\x1b[<0;90;{y}Mc"));
    assert_eq!(centre(&stage), "json::Parser::parse_value");
}

#[test]
fn rows_can_be_other_things_than_functions() {
    let mut stage = Stage::usual((140, 45));
    stage.press("1bbbb");
    assert!(stage.line(2).contains("modules"), "{}", stage.line(2));
    assert_eq!(selected(&stage), "libcrypto.so.3");
    stage.press("b");
    assert!(stage.line(2).contains("by thread"), "{}", stage.line(2));
    let text = stage.text();
    let row = text.lines().find(|line| line.starts_with('▸')).expect("a row");
    assert!(row.contains("worker-1 41281         sha256_block_data_order_avx2"), "{row}");
    // A filter is set by the function, regardless of its thread.
    stage.press("F");
    assert!(stage.line(1).contains("focus=^sha256_b…k_data_order_avx2$ ✕"), "{}", stage.line(1));
    stage.press("ub");
    assert!(stage.line(2).contains("by process"), "{}", stage.line(2));
    stage.press("b");
    assert!(stage.line(2).contains("by title"), "{}", stage.line(2));
    stage.press("b");
    assert_eq!(selected(&stage), "sha256_block_data_order_avx2");
}

#[test]
fn shares_of_few_samples_have_a_margin() {
    let mut stage = Stage::usual((140, 45));
    assert!(stage.status().ends_with("flat 55.12% ±2.9  cum 55.12% ±2.9"), "{}", stage.status());
    stage.press("6");
    stage.act(Action::Ended(TargetExit::Exited(3)));
    assert!(stage.status().starts_with(" ./server exited with status 3"), "{}", stage.status());
}

#[test]
fn the_wait_for_names_is_told_as_what_it_is() {
    let mut stage = Stage::usual((140, 45));
    stage.session.facts.symbolizing = (700, 1480);
    stage.refresh();
    assert!(!stage.line(2).contains("symbolizing"), "the wait was short: {}", stage.line(2));
    stage.session.facts.waits_for_names = true;
    let mut title = |pending: usize, reading: usize, size: (u16, u16)| {
        let files = stage.session.facts.files.iter_mut().enumerate();
        files.filter(|(index, _)| *index < reading).for_each(|(_, (_, state))| *state = SymbolState::Reading);
        stage.session.facts.symbolizing = (pending, 1480);
        stage.resize(size);
        stage.refresh();
        stage.line(2)
    };
    let (wide, narrow) = ((140, 45), (40, 8));
    assert!(!title(0, 0, wide).contains("symbolizing"));
    assert!(title(1, 0, wide).contains(" symbolizing 1 479/1 480 "));
    assert!(title(1, 0, narrow).contains(" 1 479/1 480 names "));
    // Every frame has a name from symbols; only line tables are still being read.
    assert!(title(1, 1, wide).contains(" reading line tables of libz.so.1 "));
    assert!(title(1, 1, narrow).contains(" reading libz.so.1 "));
    assert!(title(1, 2, wide).contains(" reading line tables of 2 files "));
    assert!(title(1, 2, narrow).contains(" reading line tables "));
    assert!(!title(0, 2, wide).contains("reading"));
}

#[test]
fn a_download_is_on_the_status_line() {
    let mut stage = Stage::usual((140, 45));
    let words = "downloading debug information of libc.so.6: 12 of 30 MB";
    assert!(!stage.line(43).contains("downloading"), "{}", stage.line(43));
    let (bytes, size_bytes) = (12 << 20, Some(30 << 20));
    stage.session.facts.download = Some(DownloadProgress { file: "libc.so.6".to_owned(), bytes, size_bytes });
    stage.refresh();
    assert!(stage.line(43).contains(words), "{}", stage.line(43));
}

#[test]
fn enter_shows_details_and_then_callers() {
    for size in [(140, 45), (80, 24), (60, 12)] {
        let mut stage = Stage::usual(size);
        stage.press("\r");
        assert!(stage.text().contains("─ Function ─"), "{}", stage.text());
        assert!(stage.text().contains("callers"), "callers are asked for even where their pane is hidden");
        stage.press("jj");
        assert!(stage.text().contains("─ Function ─"), "the card follows the selection");
        stage.press("y");
        assert!(matches!(stage.effects.last(), Some(Effect::Copy(name)) if name.contains("render::page")));
        stage.press("\r");
        assert!(!stage.text().contains("─ Function ─") && stage.text().contains("2 Callers"));
        stage.press("D");
        assert!(stage.text().contains("─ Function ─"), "it opens from every pane");
        stage.press(ESC);
        assert!(!stage.text().contains("─ Function ─"));
    }
}

#[test]
fn output_takes_its_title_only_until_something_is_written() {
    let mut stage = Stage::usual((140, 45));
    let row = |stage: &Stage| stage.text().lines().position(|line| line.contains("─ 6 Output")).unwrap();
    assert_eq!(row(&stage), 42, "the last row above the status line");
    assert!(stage.line(42).contains("no output yet"));
    stage.act(Action::Output(b"listening\r\n".to_vec()));
    assert!(row(&stage) < 42 && stage.text().contains("listening"));
}

#[test]
fn lost_samples_of_memory_are_bytes_in_the_header_and_the_page() {
    let mut session = Session::new(SCREEN);
    session.facts.clock = Clock::Alloc;
    session.facts.losses.lost_ticks[1] = 6;
    session.facts.losses.lost_bytes[1] = 3 << 20;
    let options = Options { clock: Clock::Alloc, ..options() };
    let mut stage = Stage::new(options, session, (140, 45));
    let all = |stage: &Stage| (0..45).map(|y| stage.line(y) + "\n").collect::<String>();
    assert!(all(&stage).contains("lost 3.0 MiB"), "{}", all(&stage));
    stage.press("L");
    assert!(all(&stage).lines().filter(|line| line.contains("3.0 MiB")).count() == 2, "{}", all(&stage));
}

#[test]
fn a_longer_interval_of_memory_is_told_in_the_header_and_explained() {
    let mut session = Session::new(SCREEN);
    session.facts.clock = Clock::Alloc;
    session.facts.period_ns = 512 << 10;
    session.facts.interval_bytes = 600 << 10;
    let options = Options { clock: Clock::Alloc, ..options() };
    let mut stage = Stage::new(options, session, (140, 45));
    let all = |stage: &Stage| (0..45).map(|y| stage.line(y) + "\n").collect::<String>();
    assert!(all(&stage).contains("512 KiB, ") && !all(&stage).contains("got"), "{}", all(&stage));
    stage.session.facts.interval_bytes = 8 << 20;
    stage.refresh();
    assert!(all(&stage).contains("512 KiB, got 8 MiB, "), "{}", all(&stage));
    stage.resize((62, 20));
    assert!(stage.line(1).contains("512 KiB, got 8 MiB"), "{}", stage.line(1));
    stage.resize((140, 45));
    stage.press("L");
    assert!(all(&stage).contains("one sample in 8 MiB, not in 512 KiB"), "{}", all(&stage));
}

/// Regression test: columns had the width of the total, which has no decimals if it is a whole
/// number, and the values of its parts touched the column before.
#[test]
fn parts_of_a_whole_number_have_room_for_their_decimals() {
    let text = "process 7 ./server\nat 0s prof 10ms main;idle;sum x 123456\nat 0s prof 10ms main;other x 26544\n";
    let mut stage = Stage::new(options(), Session::new(text), (140, 45));
    // The window is all there is.
    stage.press("ww");
    stage.refresh();
    let text = stage.text();
    let row = text
        .lines()
        .find(|line| line.split('│').next().is_some_and(|top| top.trim_end().ends_with(" idle")))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(row.contains(" 1234.56s") && text.contains("1500s "), "{text}");
}

/// Regression test: the flame graph stayed for a second while the other numbers changed.
#[test]
fn the_flame_graph_is_of_the_same_time_as_the_rest() {
    let text = "process 7 ./server\nat 0s prof 10ms main;old x 200\nat 9s..10s prof 10ms main;work x 200\n";
    let mut stage = Stage::new(options(), Session::new(text), (100, 30));
    let graph = |stage: &Stage| {
        let text = stage.text();
        text.lines().filter(|line| line.starts_with('▏')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(graph(&stage)[0].contains("all 4s") && graph(&stage)[1].contains("100%"), "{:?}", graph(&stage));
    stage.session.pass(700_000_000);
    stage.refresh();
    assert!(stage.line(1).contains("200 samples in 10 s"), "{}", stage.line(1));
    assert!(graph(&stage)[0].contains("all 2s") && graph(&stage)[1].contains("100%"), "{:?}", graph(&stage));
}
