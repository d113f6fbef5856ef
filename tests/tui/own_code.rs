//! Own code on the screen: the key, the columns, dim names, and the trunk that comes last by cum.

use sigtop::tui::theme::Depth;
use sigtop::tui::{Options, Theme};

use crate::goldens::{ALL, SIZES, golden, screen_golden};
use crate::keys::{answer_anew, rows, selected};
use crate::session::Session;
use crate::stage::{Stage, options};

/// Rows of own code, with what they call, and dim rows without own code.
#[test]
fn own_code() {
    let make = |size| Stage::new(options(), Session::new(POOL), size);
    golden("own-code", ALL, &SIZES, |size| {
        let mut stage = make(size);
        stage.press("1o");
        stage
    });
    let mut stage = make((140, 45));
    stage.press("o");
    screen_golden("own-code-140x45", &stage.text());
    for (name, theme) in [("truecolor", Theme::new(Depth::True, false)), ("no-color", Theme::new(Depth::None, true))] {
        let mut stage = Stage::new(Options { theme, ..options() }, Session::new(POOL), (80, 12));
        stage.press("1");
        screen_golden(&format!("all-code-{name}-80x12"), &stage.styled());
        stage.press("o");
        screen_golden(&format!("own-code-{name}-80x12"), &stage.styled());
    }
}

/// A pool of threads that serialize, and an idle one.
const POOL: &str = "
    process 41273 /srv/server --port 8080
    at 2s..12s prof 10ms libc.so.6!start_thread;rayon_core::run@/c/registry/src/rayon/run.rs:1;server::encode@/srv/src/main.rs:16;serde_json::to_string@/c/registry/src/json.rs:2;libc.so.6!memcpy x 400
    at 2s..12s prof 10ms libc.so.6!start_thread;rayon_core::run@/c/registry/src/rayon/run.rs:1;server::encode@/srv/src/main.rs:17;libc.so.6!malloc x 100
    at 2s..12s prof 10ms libc.so.6!start_thread;rayon_core::run@/c/registry/src/rayon/run.rs:1;server::encode@/srv/src/main.rs:18 x 50
    at 2s..12s prof 10ms libc.so.6!start_thread;rayon_core::run@/c/registry/src/rayon/run.rs:1;server::order@/srv/src/main.rs:15;libc.so.6!memcmp x 200
    at 2s..12s prof 10ms libc.so.6!start_thread;rayon_core::run@/c/registry/src/rayon/run.rs:1;libc.so.6!sched_yield x 150
    now 12s
";

#[test]
fn own_code_is_folded_and_unfolded() {
    let mut stage = Stage::usual((100, 30));
    let own = |stage: &mut Stage| stage.session.answer().unwrap().question.own.clone();
    assert!(!own(&mut stage).folds);
    stage.press("o");
    assert!(own(&mut stage).folds && own(&mut stage).pattern.is_none());
    assert!(stage.text().contains("self+lib") && stage.text().contains("own code"));
    stage.press(":own=^json::\r");
    assert_eq!(own(&mut stage).pattern.map(|pattern| pattern.text().to_owned()).as_deref(), Some("^json::"));
    assert!(stage.text().contains("own=^json::"), "the title names the pattern");
    stage.press("o");
    let kept = own(&mut stage);
    assert!(!kept.folds && kept.pattern.is_some(), "the pattern still says what is dim");
    assert!(!stage.text().contains("self+lib"));
    // In the flame graph, the key means the same.
    stage.press("3o");
    assert!(own(&mut stage).folds);
}

/// Sorted by cum, what nearly all stacks contain comes last, and stays there until it is no trunk.
#[test]
fn the_trunk_comes_last_by_cum() {
    let scenario = |other: u32| {
        let stacks = "_start;main;run;work;a x 50\nat 1s prof 10ms _start;main;run;work;b";
        format!("process 7 ./a\nat 1s prof 10ms {stacks} x 50\nat 1s prof 10ms other x {other}\nnow 2s")
    };
    let names = |stage: &Stage| {
        let rows = rows(stage).into_iter().map(|row| row.split_whitespace().last().unwrap().to_owned());
        rows.collect::<Vec<_>>().join(" ")
    };
    let mut stage = Stage::new(options(), Session::new(&scenario(1)), (80, 24));
    stage.press("1cz");
    assert_eq!(names(&stage), "a b other _start main run work");
    assert!(stage.text().contains("trunk: last 4"));
    answer_anew(&mut stage, &scenario(3));
    assert_eq!(names(&stage), "a b other _start main run work", "97 % are enough to stay");
    answer_anew(&mut stage, &scenario(10));
    assert_eq!(names(&stage), "_start main run work a b other");
    assert!(!stage.text().contains("trunk"));
}

/// Regression test: the selection stayed on a row that was folded, and Callers was empty.
#[test]
fn the_selection_leaves_a_row_that_is_folded() {
    let mut stage = Stage::new(options(), Session::new(POOL), (80, 24));
    stage.press("1j");
    assert_eq!(selected(&stage), "memcmp");
    stage.press("o");
    assert!(selected(&stage).starts_with("server::encode"), "{}", stage.text());
    stage.press("j");
    assert!(selected(&stage).starts_with("server::order"));
    stage.press("o");
    assert!(selected(&stage).starts_with("server::order"), "{}", stage.text());
}
