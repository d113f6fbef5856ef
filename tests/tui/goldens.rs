//! Goldens of the screen as text. `pane-*` holds single regions (header, panes, status line) at
//! several sizes in one file, so that a changed word touches the goldens of its region only;
//! `screen-*` holds whole screens.

use sigtop::profile::loss::Overflows;
use sigtop::profile::thread::ThreadState;
use sigtop::session::{Command, TargetExit, Unsampled};
use sigtop::symbols::explain::{Explanation, LineSource, NameSource};
use sigtop::tui::action::Action;
use sigtop::tui::theme::Depth;
use sigtop::tui::theme::palette::Palette;
use sigtop::tui::{Options, Theme};
use sigtop::wire::{Clock, EngineState};

use crate::session::Session;
use crate::stage::Region::{self, Body, Header, Status};
use crate::stage::{SCREEN, Stage, options};

pub(crate) const SIZES: [(u16, u16); 5] = [(140, 45), (100, 30), (80, 24), (60, 12), (40, 8)];

const OUTPUT: &[u8] = b"\x1b[2mlistening on 127.0.0.1:8080\x1b[0m\r\n\
    GET /index.html \x1b[32m200\x1b[0m 1.2ms\r\n\
    GET /api/items?limit=500 \x1b[32m200\x1b[0m 48ms\r\n\
    POST /api/items \x1b[31m500\x1b[0m 3.1ms\r\n";

pub(crate) fn compare(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Compares a whole screen.
pub(crate) fn screen_golden(name: &str, text: &str) {
    compare(&format!("screen-{name}"), text);
}

/// Compares regions of the screens that `make` returns for these sizes, in one golden.
pub(crate) fn golden(name: &str, regions: &[Region], sizes: &[(u16, u16)], make: impl Fn((u16, u16)) -> Stage) {
    let texts = sizes.iter().map(|&size| make(size).regions(regions));
    compare(&format!("pane-{name}"), &texts.collect::<Vec<_>>().concat());
}

/// Compares regions of the usual screen at all sizes after `set`.
fn golden_after(name: &str, regions: &[Region], set: impl Fn(&mut Stage)) {
    golden(name, regions, &SIZES, |size| usual_with_output(size, &set));
}

fn usual_with_output(size: (u16, u16), set: impl Fn(&mut Stage)) -> Stage {
    let mut stage = Stage::usual(size);
    stage.act(Action::Output(OUTPUT.to_vec()));
    set(&mut stage);
    stage
}

/// Returns the usual screen after these keys.
fn pressed(size: (u16, u16), keys: &str) -> Stage {
    let mut stage = Stage::usual(size);
    stage.press(keys);
    stage
}

pub(crate) const ALL: &[Region] = &[Header, Body, Status];
const PANE: &[Region] = &[Body, Status];

#[test]
fn whole_screens() {
    for size in SIZES {
        screen_golden(&format!("normal-{}x{}", size.0, size.1), &usual_with_output(size, |_| {}).text());
    }
    screen_golden("source-140x45", &listing((140, 45), "4aa").text());
    screen_golden("threads-100x30", &threads_at((100, 30), "").text());
    screen_golden("help-80x24", &pressed((80, 24), "?").text());
}

#[test]
fn header() {
    golden_after("header", &[Header], |_| {});
}

#[test]
fn top_and_output_alone() {
    golden_after("top", PANE, |stage| stage.press("1j"));
    golden_after("output", PANE, |stage| stage.press("6"));
}

#[test]
fn waiting() {
    golden_after("waiting", ALL, |stage| {
        let mut session = Session::new("process 41273 ./server --port 8080\nnow 1s");
        let facts = &mut session.facts;
        facts.up = std::time::Duration::from_millis(1200);
        (facts.threads, facts.engine_state, facts.effective_hz) = (None, None, None);
        (facts.overhead, facts.sigtop_of_a_cpu) = (None, None);
        (facts.cpu_history, facts.cpu_now) = (Vec::new(), None);
        facts.cpu_used = std::time::Duration::from_millis(3);
        facts.losses = Default::default();
        let size = { stage.buffer().0.area };
        *stage = Stage::new(options(), session, (size.width, size.height));
    });
}

#[test]
fn ended() {
    golden_after("ended", &[Header, Status], |stage| {
        stage.session.end(TargetExit::Exited(3));
        stage.act(Action::Ended(TargetExit::Exited(3)));
        stage.refresh();
    });
}

#[test]
fn frozen() {
    golden_after("frozen", &[Header, Status], |stage| stage.press(" jj"));
}

#[test]
fn history_and_spans() {
    golden_after("past", ALL, |stage| stage.press(" j[[[[[[[[[[[["));
    golden_after("span", ALL, |stage| stage.press(" jw[[[[[[[[[[[[[m{{{{{m"));
}

#[test]
fn differences() {
    golden_after("diff", ALL, |stage| stage.press("jd [[[[[[[[[[[["));
    for (name, theme) in [
        ("truecolor", Theme::new(Depth::True, false)),
        ("sixteen", Theme::new(Depth::Sixteen, false)),
        ("no-color", Theme::new(Depth::None, true)),
    ] {
        let mut stage = Stage::new(Options { theme, ..options() }, Session::new(SCREEN), (80, 24));
        stage.press("d [[[[[[[[[[[[");
        screen_golden(&format!("diff-{name}-80x24"), &stage.styled());
    }
}

#[test]
fn differences_of_lines_and_threads() {
    const SIZES: [(u16, u16); 4] = [(140, 45), (80, 24), (60, 12), (40, 8)];
    golden("diff-threads", PANE, &SIZES, |size| threads_at(size, "d [[[[[[[[[[[["));
    golden("diff-source", PANE, &SIZES, |size| listing(size, "4d [[[[[[[[[[[["));
    golden("diff-assembly", PANE, &SIZES, |size| listing(size, "4d [[[[[[[[[[[[a"));
}

#[test]
fn callers() {
    golden_after("callers", PANE, |stage| stage.press("j2"));
    golden_after("callers-tree", PANE, |stage| stage.press("j2k\rk\rk\r"));
}

#[test]
fn flame() {
    golden_after("flame", PANE, |stage| stage.press("j3"));
}

#[test]
fn ways_to_look_at_the_flame() {
    golden("flame-root-below", PANE, &[(100, 30)], |size| pressed(size, "3|C"));
    golden("flame-bottom-up", PANE, &[(100, 30)], |size| pressed(size, "3O"));
    golden("flame-zoomed", PANE, &[(80, 24)], |size| pressed(size, "j3kk\r/value\r"));
    for (name, theme) in [
        ("truecolor", Theme::new(Depth::True, false)),
        ("sixteen", Theme::new(Depth::Sixteen, false)),
        ("no-color", Theme::new(Depth::None, false)),
        ("ascii", Theme::new(Depth::None, true)),
    ] {
        let mut stage = Stage::new(Options { theme, ..options() }, Session::new(SCREEN), (80, 12));
        stage.press("j3/hash\rk");
        screen_golden(&format!("flame-{name}-80x12"), &stage.styled());
    }
}

#[test]
fn a_centre_that_is_nowhere() {
    golden("callers-hidden", ALL, &[(100, 30)], |size| pressed(size, "jX"));
    golden("callers-unfocused", ALL, &[(100, 30)], |size| pressed(size, "j\rfsha256\r"));
}

#[test]
fn rows_of_other_kinds() {
    golden("modules", PANE, &[(100, 30)], |size| pressed(size, "bbbb"));
}

#[test]
fn threads_and_processes_beside_functions_and_at_the_root() {
    golden("by-thread", PANE, &SIZES, |size| threads_at(size, "0bbbbbj"));
    golden("roots", PANE, &SIZES, |size| threads_at(size, "3TTT"));
    golden("by-process-cum", PANE, &[(100, 30)], |size| threads_at(size, "1bbbbbbc"));
}

#[test]
fn why_there_is_no_better_name() {
    let found = |path: &str, names, lines| Explanation {
        path: path.to_owned(),
        opened: Ok(path.to_owned()),
        build_id: "5d0e2b4c8f1a7e6d3c2b1a09f8e7d6c5b4a39281".to_owned(),
        functions: 4211,
        names,
        lines,
        debug_file: None,
        looked: Vec::new(),
        remedies: Vec::new(),
    };
    let mut stage = pressed((100, 30), "Y");
    compare("pane-why-asked", &stage.regions(PANE));
    assert_eq!(stage.session.heard.last(), Some(&Command::Why { module: "libcrypto.so.3".to_owned() }));
    let stripped = Explanation {
        looked: vec![
            (
                "/usr/lib/debug/.build-id/5d/0e2b4c8f1a7e6d3c2b1a09f8e7d6c5b4a39281.debug".to_owned(),
                "nothing".to_owned(),
            ),
            ("/opt/lib/libcrypto.debug".to_owned(), "build id 0012".to_owned()),
        ],
        remedies: vec!["apt install libssl3-dbgsym (from the archive debian-debug)".to_owned()],
        ..found("/usr/lib/libcrypto.so.3", NameSource::Exports, LineSource::Nothing)
    };
    stage.act(Action::Found(vec![stripped]));
    let mut text = String::new();
    for size in [(100, 30), (60, 12), (40, 8)] {
        stage.resize(size);
        text.push_str(&stage.regions(PANE));
    }
    compare("pane-why", &text);
    stage.press("Yj");
    stage.resize((80, 24));
    stage.press("Y");
    stage.act(Action::Found(vec![found("/opt/server", NameSource::Own, LineSource::Own)]));
    compare("pane-why-not", &stage.regions(PANE));
    stage.press("\x1b");
    assert!(!stage.text().contains("Name resolution"));
}

const THREADS: &str = include_str!("../scenarios/threads.txt");

/// Returns the Threads pane alone, after these keys.
fn threads_at(size: (u16, u16), keys: &str) -> Stage {
    let mut session = Session::new(THREADS);
    for (tid, state) in [(41280, ThreadState::Running), (41281, ThreadState::Waiting), (41282, ThreadState::Sleeping)] {
        session.see(tid, state);
    }
    let mut stage = Stage::new(options(), session, size);
    stage.press("5");
    stage.press(keys);
    stage
}

#[test]
fn threads() {
    golden("threads", PANE, &SIZES, |size| threads_at(size, ""));
}

#[test]
fn the_deepest_stack_has_a_page() {
    golden("deepest-stack", PANE, &SIZES, |size| threads_at(size, "jK"));
    golden("deepest-stack-unknown", PANE, &[(80, 24)], |size| threads_at(size, "jjjjK"));
}

const WAITS: &str = include_str!("../scenarios/waits.txt");

/// Returns the panes of threads that wait, after these keys.
pub(crate) fn waits_at(size: (u16, u16), keys: &str) -> Stage {
    let mut session = Session::new(WAITS);
    session.facts.clock = Clock::Real;
    session.facts.deadlock = vec!["worker-1".to_owned(), "worker-2".to_owned()];
    let mut stage = Stage::new(options(), session, size);
    stage.press(keys);
    stage
}

#[test]
fn threads_that_wait() {
    golden("threads-waiting", ALL, &SIZES, |size| waits_at(size, "r5"));
}

#[test]
fn a_waiter_and_the_holder_are_side_by_side() {
    golden("holder", PANE, &[(140, 20), (80, 24), (60, 12)], |size| waits_at(size, "r5jH"));
}

#[test]
fn waits_are_rows() {
    golden("waits", ALL, &[(140, 30), (80, 24)], |size| waits_at(size, "r1:waits\r"));
    golden("waits-flame", PANE, &[(100, 30)], |size| waits_at(size, "r:waits\r3"));
}

#[test]
fn a_thread_filters_everything() {
    // Select worker-0 below its process; then show the dashboard.
    golden("threads-filtered", ALL, &[(140, 45), (80, 24)], |size| threads_at(size, "j\r"));
    golden("threads-filtered-dashboard", ALL, &[(100, 30)], |size| threads_at(size, "j\r0"));
}

#[test]
fn threads_unfolded_and_folded() {
    // Show every ended thread and process, a folded process, and rows sorted by name.
    golden("threads-unfolded", PANE, &[(100, 30)], |size| threads_at(size, "G\rgG/ended\r"));
    golden("threads-folded", PANE, &[(100, 30)], |size| threads_at(size, "h<<"));
}

#[test]
fn threads_in_other_colours() {
    for (name, theme) in [
        ("truecolor", Theme::new(Depth::True, false)),
        ("no-color", Theme::new(Depth::None, false)),
        ("ascii", Theme::new(Depth::None, true)),
    ] {
        let mut stage = Stage::new(Options { theme, ..options() }, Session::new(THREADS), (100, 16));
        stage.press("5j\r");
        screen_golden(&format!("threads-{name}-100x16"), &stage.styled());
    }
}

#[test]
fn a_filter_being_typed() {
    golden_after("focus-prompt", ALL, |stage| stage.press("i^gc::\rfparse"));
}

#[test]
fn a_pattern_that_does_not_compile() {
    golden_after("bad-pattern", ALL, |stage| stage.press("fpa(r"));
}

#[test]
fn help() {
    golden_after("help", PANE, |stage| stage.press("?"));
}

#[test]
fn quit_question() {
    golden_after("quit", &[Status], |stage| stage.press("q"));
}

#[test]
fn too_small() {
    for size in [(39, 8), (40, 7), (20, 3), (5, 1), (1, 1)] {
        screen_golden(&format!("tiny-{}x{}", size.0, size.1), &Stage::usual(size).text());
    }
}

#[test]
fn output_alone_and_typed_into() {
    let set = |stage: &mut Stage| {
        stage.act(Action::Output(b"name? ".to_vec()));
        stage.press("6\r");
    };
    golden("typing", PANE, &[(100, 30), (60, 12)], |size| usual_with_output(size, set));
}

#[test]
fn losses() {
    let mut stage = Stage::usual((80, 24));
    stage.session.facts.losses.lost_ticks[..6].copy_from_slice(&[12, 0, 1, 3012, 0, 25]);
    let lost_ns = [121_000_000, 0, 10_000_000, 30_420_000_000, 0, 252_500_000];
    stage.session.facts.losses.lost_ns[..6].copy_from_slice(&lost_ns);
    stage.session.facts.losses.foreign_signals = 4;
    stage.refresh();
    stage.press("L");
    compare("pane-losses", &stage.regions(ALL));
    stage.session.facts.overflows = Overflows { stacks: 12, ..Overflows::default() };
    stage.refresh();
    stage.resize((100, 45));
    compare("pane-losses-and-limits", &stage.regions(ALL));
}

#[test]
fn what_stands_where_there_is_no_row() {
    golden("no-sample-left", ALL, &[(80, 24)], |size| pressed(size, "fnothing\r"));

    let mut session = Session::new("process 7 ./server\nnow 1s");
    session.facts.engine_state = Some(EngineState::SignalTaken);
    compare("pane-signal-taken", &Stage::new(options(), session, (80, 24)).regions(ALL));

    let mut session = Session::new("process 7 ./server\nnow 1s");
    session.end(TargetExit::Exited(0));
    session.facts.cpu_used = std::time::Duration::from_millis(2);
    compare("pane-over-before-a-tick", &Stage::new(options(), session, (80, 24)).regions(ALL));

    let idle = format!("{SCREEN}\nnow 95s");
    golden("idle-now", ALL, &[(140, 45), (80, 24)], |size| Stage::new(options(), Session::new(&idle), size));
}

#[test]
fn cpu_time_that_was_not_sampled() {
    const SIZES: [(u16, u16); 3] = [(140, 45), (80, 24), (60, 12)];
    let unsampled = |size| {
        let mut stage = Stage::usual(size);
        let why = Some("SIGURG is blocked in 3 of 4 threads of server".to_owned());
        stage.session.facts.unsampled = Some(Unsampled { ns: 6_800_000_000, share: 0.169, why });
        stage.refresh();
        stage
    };
    golden("unsampled", &[Header, Status], &SIZES, unsampled);
    golden("unsampled-losses", PANE, &SIZES, |size| {
        let mut stage = unsampled(size);
        stage.press("L");
        stage
    });
}

#[test]
fn setitimer_is_confirmed() {
    golden("confirm-setitimer", &[Status], &[(140, 45), (80, 24), (60, 12), (40, 8)], |size| pressed(size, "E"));
}

#[test]
fn ways_to_look_at_it() {
    golden("cum-full", PANE, &[(100, 30)], |size| pressed(size, "ct"));
    golden("all-relative", ALL, &[(140, 45)], |size| pressed(size, "www%"));
    golden("real-itimer-bare", ALL, &[(80, 24)], |size| pressed(size, "rEyttjjjjF"));
}

#[test]
fn colours_and_none() {
    for (name, theme) in [
        ("truecolor", Theme::new(Depth::True, false)),
        ("light", Theme { palette: Palette::Light, ..Theme::new(Depth::True, false) }),
        ("colour-blind", Theme { palette: Palette::ColourBlind, ..Theme::new(Depth::True, false) }),
        ("indexed", Theme::new(Depth::Indexed, false)),
        ("sixteen", Theme::new(Depth::Sixteen, false)),
        ("no-color", Theme::new(Depth::None, false)),
    ] {
        let mut stage = Stage::new(Options { theme, ..options() }, Session::new(SCREEN), (80, 12));
        stage.press("i^gc::\r/pars\r");
        screen_golden(&format!("styles-{name}-80x12"), &stage.styled());
    }
    let theme = Theme::new(Depth::None, true);
    let mut stage = Stage::new(Options { theme, ..options() }, Session::new(SCREEN), (100, 30));
    stage.press("i^gc::\r");
    screen_golden("ascii-100x30", &stage.text());
}

#[test]
fn the_line_of_commands() {
    golden("command", &[Status], &[(100, 30), (60, 12), (40, 8)], |size| pressed(size, ":top10 -cum"));
    golden("command-empty", &[Status], &[(80, 24)], |size| pressed(size, ":"));
    golden("command-fault", &[Status], &[(80, 24)], |size| pressed(size, ":clock=wlal\r"));
}

const LISTING: &str = include_str!("../scenarios/listing.txt");

/// Returns the Source pane of the selected function, after these keys.
fn listing(size: (u16, u16), keys: &str) -> Stage {
    let mut stage = Stage::new(options(), Session::new(LISTING), size);
    stage.press(keys);
    stage
}

#[test]
fn source_and_assembly() {
    for (name, keys) in [("source", "4"), ("assembly", "4a"), ("listing", "4aa")] {
        golden(name, PANE, &SIZES, |size| listing(size, keys));
    }
}

/// The card has the hottest lines where the source is here, and else the hottest instructions.
#[test]
fn cards() {
    golden("card-lines", &[Body], &[(140, 45), (100, 30)], |size| listing(size, ""));
    golden("card-instructions", &[Body], &[(140, 45)], |size| listing(size, ":list inflate\r0"));
}

#[test]
fn source_of_what_is_inlined_into_two() {
    golden("source-inlined", PANE, &[(100, 30)], |size| listing(size, ":list peek\r"));
    golden("assembly-inlined", PANE, &[(140, 45)], |size| listing(size, ":disasm peek\r"));
}

#[test]
fn what_is_missing_of_a_source() {
    golden("source-no-lines", PANE, &[(80, 24)], |size| listing(size, ":list inflate\r"));
    golden("source-elsewhere", PANE, &[(80, 24)], |size| listing(size, ":list skip\r"));
    golden("source-nowhere", PANE, &[(80, 24)], |size| listing(size, ":list memchr\r"));
    golden("source-filtered", PANE, &[(80, 24)], |size| listing(size, "X4"));
}

#[test]
fn the_source_in_colours_and_without() {
    for (name, theme) in [
        ("truecolor", Theme::new(Depth::True, false)),
        ("sixteen", Theme::new(Depth::Sixteen, false)),
        ("no-color", Theme::new(Depth::None, false)),
        ("ascii", Theme::new(Depth::None, true)),
    ] {
        let mut stage = Stage::new(Options { theme, ..options() }, Session::new(LISTING), (110, 16));
        stage.press("4aa/byte\r");
        screen_golden(&format!("listing-{name}-110x16"), &stage.styled());
    }
}

#[test]
fn saving() {
    golden_after("saving", &[Status], |stage| stage.press("fparse\re\t"));
    golden("saving-no-format", &[Status], &[(80, 24)], |size| pressed(size, "e\x15server"));
}
