//! The whole screen as text, at the sizes that matter. A golden is named by what it shows.

use sigtop::link::wire::EngineState;
use sigtop::profile::loss::Overflows;
use sigtop::profile::thread::State;
use sigtop::symbols::inquiry::{Inquiry, LineSource, NameSource};
use sigtop::track::{Command, Ending, Unsampled};
use sigtop::tui::action::Action;
use sigtop::tui::theme::Depth;
use sigtop::tui::theme::palette::Palette;
use sigtop::tui::{Options, Theme};

use crate::session::Session;
use crate::stage::{SCREEN, Stage, options};

const SIZES: [(u16, u16); 5] = [(140, 45), (100, 30), (80, 24), (60, 12), (40, 8)];

const OUTPUT: &[u8] = b"\x1b[2mlistening on 127.0.0.1:8080\x1b[0m\r\n\
    GET /index.html \x1b[32m200\x1b[0m 1.2ms\r\n\
    GET /api/items?limit=500 \x1b[32m200\x1b[0m 48ms\r\n\
    POST /api/items \x1b[31m500\x1b[0m 3.1ms\r\n";

fn golden(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(format!("screen-{name}"), text));
}

fn at_all_sizes(name: &str, set: impl Fn(&mut Stage)) {
    for size in SIZES {
        let mut stage = Stage::usual(size);
        stage.act(Action::Output(OUTPUT.to_vec()));
        set(&mut stage);
        golden(&format!("{name}-{}x{}", size.0, size.1), &stage.text());
    }
}

#[test]
fn normal() {
    at_all_sizes("normal", |_| {});
}

#[test]
fn waiting() {
    at_all_sizes("waiting", |stage| {
        let mut session = Session::new("process 41273 ./server --port 8080\nnow 1s");
        let facts = &mut session.facts;
        facts.up = std::time::Duration::from_millis(1200);
        (facts.threads, facts.engine_state, facts.effective_hz) = (None, None, None);
        (facts.agent_share, facts.agent_of_a_cpu) = (None, None);
        (facts.cpu_history, facts.cpu_now) = (Vec::new(), None);
        facts.cpu_used = std::time::Duration::from_millis(3);
        facts.losses = Default::default();
        let size = { stage.buffer().0.area };
        *stage = Stage::new(options(), session, (size.width, size.height));
    });
}

#[test]
fn ended() {
    at_all_sizes("ended", |stage| {
        stage.session.end(Ending::Exited(3));
        stage.act(Action::Ended(Ending::Exited(3)));
        stage.refresh();
    });
}

#[test]
fn frozen() {
    at_all_sizes("frozen", |stage| stage.press(" jj"));
}

#[test]
fn the_past() {
    at_all_sizes("past", |stage| stage.press(" j[[[[[[[[[[[["));
    at_all_sizes("span", |stage| stage.press(" jw[[[[[[[[[[[[[m{{{{{m"));
}

#[test]
fn differences() {
    at_all_sizes("diff", |stage| stage.press("jd [[[[[[[[[[[["));
    for (name, theme) in [
        ("truecolor", Theme::new(Depth::True, false)),
        ("sixteen", Theme::new(Depth::Sixteen, false)),
        ("no-color", Theme::new(Depth::None, true)),
    ] {
        let mut stage = Stage::new(Options { theme, ..options() }, Session::new(SCREEN), (80, 24));
        stage.press("d [[[[[[[[[[[[");
        golden(&format!("diff-{name}-80x24"), &stage.styled());
    }
}

#[test]
fn differences_of_lines_and_threads() {
    for size in [(140, 45), (80, 24), (60, 12), (40, 8)] {
        let name = |what: &str| format!("diff-{what}-{}x{}", size.0, size.1);
        golden(&name("threads"), &threads_at(size, "d [[[[[[[[[[[[").text());
        let mut stage = Stage::new(options(), Session::new(LISTING), size);
        stage.press("4d [[[[[[[[[[[[");
        golden(&name("source"), &stage.text());
        stage.press("a");
        golden(&name("assembly"), &stage.text());
    }
}

#[test]
fn callers() {
    at_all_sizes("callers", |stage| stage.press("j2"));
}

#[test]
fn flame() {
    at_all_sizes("flame", |stage| stage.press("j3"));
}

#[test]
fn ways_to_look_at_the_flame() {
    let mut stage = Stage::usual((100, 30));
    stage.press("3oC");
    golden("flame-root-below-100x30", &stage.text());
    let mut stage = Stage::usual((100, 30));
    stage.press("3O");
    golden("flame-bottom-up-100x30", &stage.text());
    let mut stage = Stage::usual((80, 24));
    stage.press("j3kk\r/value\r");
    golden("flame-zoomed-80x24", &stage.text());
    for (name, theme) in [
        ("truecolor", Theme::new(Depth::True, false)),
        ("sixteen", Theme::new(Depth::Sixteen, false)),
        ("no-color", Theme::new(Depth::None, false)),
        ("ascii", Theme::new(Depth::None, true)),
    ] {
        let mut stage = Stage::new(Options { theme, ..options() }, Session::new(SCREEN), (80, 12));
        stage.press("j3/hash\rk");
        golden(&format!("flame-{name}-80x12"), &stage.styled());
    }
}

#[test]
fn a_centre_that_is_nowhere() {
    let mut stage = Stage::usual((100, 30));
    stage.press("jX");
    golden("callers-hidden-100x30", &stage.text());
    let mut stage = Stage::usual((100, 30));
    stage.press("j\rfsha256\r");
    golden("callers-unfocused-100x30", &stage.text());
}

#[test]
fn rows_of_other_kinds() {
    let mut stage = Stage::usual((100, 30));
    stage.press("bbbb");
    golden("modules-100x30", &stage.text());
}

#[test]
fn threads_and_processes_beside_functions_and_at_the_root() {
    for size in SIZES {
        let name = |what: &str| format!("{what}-{}x{}", size.0, size.1);
        golden(&name("by-thread"), &threads_at(size, "0bbbbbj").text());
        golden(&name("roots"), &threads_at(size, "3TTT").text());
    }
    golden("by-process-cum-100x30", &threads_at((100, 30), "1bbbbbbc").text());
}

#[test]
fn why_there_is_no_better_name() {
    let found = |path: &str, names, lines| Inquiry {
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
    let mut stage = Stage::usual((100, 30));
    stage.press("Y");
    golden("why-asked-100x30", &stage.text());
    assert_eq!(stage.session.heard.last(), Some(&Command::Why { module: "libcrypto.so.3".to_owned() }));
    let stripped = Inquiry {
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
    for size in [(100, 30), (60, 12), (40, 8)] {
        stage.resize(size);
        golden(&format!("why-{}x{}", size.0, size.1), &stage.text());
    }
    stage.press("Yj");
    stage.resize((80, 24));
    stage.press("Y");
    stage.act(Action::Found(vec![found("/opt/server", NameSource::Own, LineSource::Own)]));
    golden("why-not-80x24", &stage.text());
    stage.press("\x1b");
    assert!(!stage.text().contains("Why this name"));
}

const THREADS: &str = include_str!("../scenarios/threads.txt");

/// Threads alone, and then whatever keys do.
fn threads_at(size: (u16, u16), keys: &str) -> Stage {
    let mut session = Session::new(THREADS);
    for (tid, state) in [(41280, State::Running), (41281, State::Waiting), (41282, State::Sleeping)] {
        session.see(tid, state);
    }
    let mut stage = Stage::new(options(), session, size);
    stage.press("5");
    stage.press(keys);
    stage
}

#[test]
fn threads() {
    for size in SIZES {
        golden(&format!("threads-{}x{}", size.0, size.1), &threads_at(size, "").text());
    }
}

#[test]
fn a_thread_filters_everything() {
    // worker-0 below its process; then what the dashboard makes of it.
    golden("threads-filtered-140x45", &threads_at((140, 45), "j\r").text());
    golden("threads-filtered-80x24", &threads_at((80, 24), "j\r").text());
    golden("threads-filtered-dashboard-100x30", &threads_at((100, 30), "j\r0").text());
}

#[test]
fn threads_unfolded_and_folded() {
    // Every ended thread and process; a folded process; sorted by name.
    golden("threads-unfolded-100x30", &threads_at((100, 30), "G\rgG/ended\r").text());
    golden("threads-folded-100x30", &threads_at((100, 30), "h<<").text());
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
        golden(&format!("threads-{name}-100x16"), &stage.styled());
    }
}

#[test]
fn a_filter_being_typed() {
    at_all_sizes("focus-prompt", |stage| stage.press("i^gc::\rfparse"));
}

#[test]
fn a_pattern_that_does_not_compile() {
    at_all_sizes("bad-pattern", |stage| stage.press("fpa(r"));
}

#[test]
fn help() {
    at_all_sizes("help", |stage| stage.press("?"));
}

#[test]
fn quit_question() {
    at_all_sizes("quit", |stage| stage.press("q"));
}

#[test]
fn too_small() {
    for size in [(39, 8), (40, 7), (20, 3), (5, 1), (1, 1)] {
        golden(&format!("tiny-{}x{}", size.0, size.1), &Stage::usual(size).text());
    }
}

#[test]
fn output_alone_and_typed_into() {
    for size in [(100, 30), (60, 12)] {
        let mut stage = Stage::usual(size);
        stage.act(Action::Output(OUTPUT.to_vec()));
        stage.act(Action::Output(b"name? ".to_vec()));
        stage.press("6\r");
        golden(&format!("typing-{}x{}", size.0, size.1), &stage.text());
    }
}

#[test]
fn losses() {
    let mut stage = Stage::usual((80, 24));
    stage.session.facts.losses.lost_ticks = [12, 0, 1, 3012, 0, 25];
    stage.session.facts.losses.lost_ns = [121_000_000, 0, 10_000_000, 30_420_000_000, 0, 252_500_000];
    stage.session.facts.losses.foreign_signals = 4;
    stage.refresh();
    stage.press("L");
    golden("losses-80x24", &stage.text());
    stage.session.facts.overflows = Overflows { stacks: 12, ..Overflows::default() };
    stage.refresh();
    stage.resize((100, 45));
    golden("losses-100x45", &stage.text());
}

#[test]
fn what_stands_where_there_is_no_row() {
    let mut stage = Stage::usual((80, 24));
    stage.press("fnothing\r");
    golden("no-sample-left-80x24", &stage.text());

    let mut session = Session::new("process 7 ./server\nnow 1s");
    session.facts.engine_state = Some(EngineState::SignalTaken);
    golden("signal-taken-80x24", &Stage::new(options(), session, (80, 24)).text());

    let mut session = Session::new("process 7 ./server\nnow 1s");
    session.end(Ending::Exited(0));
    session.facts.cpu_used = std::time::Duration::from_millis(2);
    golden("over-before-a-tick-80x24", &Stage::new(options(), session, (80, 24)).text());

    let idle = format!("{SCREEN}\nnow 95s");
    golden("idle-now-80x24", &Stage::new(options(), Session::new(&idle), (80, 24)).text());
    golden("idle-now-140x45", &Stage::new(options(), Session::new(&idle), (140, 45)).text());
}

#[test]
fn cpu_time_that_was_not_sampled() {
    for size in [(140, 45), (80, 24), (60, 12)] {
        let mut stage = Stage::usual(size);
        let why = Some("SIGURG is blocked in 3 of 4 threads of server".to_owned());
        stage.session.facts.unsampled = Some(Unsampled { ns: 6_800_000_000, share: 0.169, why });
        stage.refresh();
        golden(&format!("unsampled-{}x{}", size.0, size.1), &stage.text());
        stage.press("L");
        golden(&format!("unsampled-losses-{}x{}", size.0, size.1), &stage.text());
    }
}

#[test]
fn setitimer_is_confirmed() {
    for size in [(140, 45), (80, 24), (60, 12), (40, 8)] {
        let mut stage = Stage::usual(size);
        stage.press("E");
        golden(&format!("confirm-setitimer-{}x{}", size.0, size.1), &stage.text());
    }
}

#[test]
fn ways_to_look_at_it() {
    let mut stage = Stage::usual((100, 30));
    stage.press("ct");
    golden("cum-full-100x30", &stage.text());
    let mut stage = Stage::usual((140, 45));
    stage.press("www%");
    golden("all-relative-140x45", &stage.text());
    let mut stage = Stage::usual((80, 24));
    stage.press("rEyttjjF");
    golden("real-itimer-bare-80x24", &stage.text());
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
        golden(&format!("styles-{name}-80x12"), &stage.styled());
    }
    let theme = Theme::new(Depth::None, true);
    let mut stage = Stage::new(Options { theme, ..options() }, Session::new(SCREEN), (100, 30));
    stage.press("i^gc::\r");
    golden("ascii-100x30", &stage.text());
}

#[test]
fn the_line_of_commands() {
    for size in [(100, 30), (60, 12), (40, 8)] {
        let mut stage = Stage::usual(size);
        stage.press(":top10 -cum");
        golden(&format!("command-{}x{}", size.0, size.1), &stage.text());
    }
    let mut stage = Stage::usual((80, 24));
    stage.press(":");
    golden("command-empty-80x24", &stage.text());
    stage.press("clock=rael\r");
    golden("command-fault-80x24", &stage.text());
}

const LISTING: &str = include_str!("../scenarios/listing.txt");

/// The Source pane of the selected function, after these keys.
fn listing(size: (u16, u16), keys: &str) -> Stage {
    let mut stage = Stage::new(options(), Session::new(LISTING), size);
    stage.press(keys);
    stage
}

#[test]
fn source_and_assembly() {
    for size in SIZES {
        for (name, keys) in [("source", "4"), ("assembly", "4a"), ("listing", "4aa")] {
            golden(&format!("{name}-{}x{}", size.0, size.1), &listing(size, keys).text());
        }
    }
}

#[test]
fn source_of_what_is_inlined_into_two() {
    golden("source-inlined-100x30", &listing((100, 30), ":list peek\r").text());
    golden("assembly-inlined-140x45", &listing((140, 45), ":disasm peek\r").text());
}

#[test]
fn what_is_missing_of_a_source() {
    golden("source-no-lines-80x24", &listing((80, 24), ":list inflate\r").text());
    golden("source-elsewhere-80x24", &listing((80, 24), ":list skip\r").text());
    golden("source-nowhere-80x24", &listing((80, 24), ":list memchr\r").text());
    golden("source-filtered-80x24", &listing((80, 24), "X4").text());
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
        golden(&format!("listing-{name}-110x16"), &stage.styled());
    }
}

#[test]
fn saving() {
    at_all_sizes("saving", |stage| stage.press("fparse\re\t"));
    let mut stage = Stage::usual((80, 24));
    stage.press("e\x15server");
    golden("saving-no-format-80x24", &stage.text());
}
