//! Keys in the Threads pane.

use sigtop::session::Command;
use sigtop::wire::Clock;

use crate::session::Session;
use crate::stage::{Stage, options};

const THREADS: &str = include_str!("../scenarios/threads.txt");

fn stage() -> Stage {
    let mut stage = Stage::new(options(), Session::new(THREADS), (140, 45));
    stage.press("5");
    stage
}

/// Returns the ids of the rows, from the first; `-` for a row that folds ended threads.
fn ids(stage: &Stage) -> Vec<String> {
    let rows = (4..40).map(|y| stage.line(y)).take_while(|line| !line.trim().is_empty());
    rows.map(|row| {
        let id: String = row.chars().skip(4).take(7).collect();
        if id.trim().is_empty() { "-".to_owned() } else { id.trim().to_owned() }
    })
    .collect()
}

/// Returns the row with the cursor.
fn selected(stage: &Stage) -> String {
    (4..40).map(|y| stage.line(y)).find(|line| line.starts_with('▸')).unwrap_or_default()
}

/// The header names each of several processes, or shows their number.
#[test]
fn the_header_names_every_process_attached_to() {
    let first_line = |pids: &[u32], processes: usize, columns: u16| {
        let mut session = Session::new(THREADS);
        (session.facts.pids, session.facts.processes) = (pids.to_vec(), processes);
        let stage = Stage::new(options(), session, (columns, 45));
        stage.line(0)
    };
    let says = |line: String, words: &str| assert!(line.contains(words), "{words:?} is not in {line:?}");
    says(first_line(&[41273], 1, 140), "pid 41273 · running 1.9 of 8 threads");
    says(first_line(&[41273], 3, 160), "pid 41273 · 3 processes · running 1.9 of 8 threads");
    says(first_line(&[41273], 3, 140), "pid 41273 · 3 processes · ");
    says(first_line(&[41273, 5], 2, 140), "pids 41273, 5 · ");
    says(first_line(&[41273, 5], 4, 160), "pids 41273, 5 · 4 processes · ");
    says(first_line(&[1, 2, 3, 4], 4, 160), "4 processes · running 1.9 of 8 threads");
    says(first_line(&[41273, 41274, 41275], 3, 80), "pids 41273, 41274, 41275");
}

#[test]
fn enter_filters_and_unfilters() {
    let mut stage = stage();
    stage.press("j\r");
    assert!(stage.line(1).ends_with(
        "957 of 1 684 samples in 10 s (168/s)   lost 0     overhead 0.12 % of the target   tid=41280 worker-0 ✕"
    ));
    // Another thread replaces it, and one more is added.
    stage.press("j\r");
    assert!(stage.line(1).contains("tid=41281 worker-1 ✕") && !stage.line(1).contains("41280"));
    stage.press("kF");
    assert!(stage.line(1).contains("tid=41281 worker-1 ✕  tid=41280 worker-0 ✕"), "{}", stage.line(1));
    stage.press("u");
    stage.press("j\r");
    assert!(stage.line(1).contains(" 1 684 samples"), "Enter again ends it: {}", stage.line(1));
    stage.press("u");
    assert!(stage.line(1).contains("583 of 1 684"), "{}", stage.line(1));
    stage.press("\x12");
    assert!(stage.line(1).contains(" 1 684 samples"));
    // A process stands for all of its threads; ignoring it leaves all others.
    stage.press("g\r");
    assert!(stage.line(1).contains("pid=41273 server ✕") && stage.line(1).contains("1 581 of"), "{}", stage.line(1));
    stage.press("UI");
    assert!(stage.line(1).contains("tagignore=pid=41273 server ✕"), "{}", stage.line(1));
    assert!(stage.line(1).contains("103 of 1 684"), "{}", stage.line(1));
    // A click on the chip removes it.
    let column = stage.line(1).chars().position(|c| c == '✕').unwrap() + 1;
    stage.press(&format!("\x1b[<0;{column};2M"));
    assert!(!stage.line(1).contains('✕'));
    // Typing the filter has the same effect.
    stage.press(":tagfocus=thread=^worker\r");
    assert!(stage.line(1).contains("thread=^worker 2 threads ✕"), "{}", stage.line(1));
    stage.press("X");
    assert!(stage.status().contains("no frames to hide"));
}

#[test]
fn the_selection_is_a_thread_in_any_order() {
    let mut stage = stage();
    stage.press("jj");
    assert!(selected(&stage).contains("worker-1"));
    let by_cpu = ids(&stage);
    assert_eq!(
        by_cpu,
        ["41273", "41280", "41281", "41273", "41282", "-", "41302", "41302", "41303", "-"],
        "ties by id, folded lines last"
    );
    for (keys, ids_then) in [
        ("<", ["41302", "41302", "41303", "41273", "41281"]),
        ("<", ["41273", "41282", "41273", "41280", "41281"]),
        ("<", ["41273", "41273", "41280", "41281", "41282"]),
        ("<", ["41273", "41273", "41280", "41281", "41282"]),
        (">>>>", ["41273", "41280", "41281", "41273", "41282"]),
    ] {
        stage.press(keys);
        assert!(selected(&stage).contains("worker-1"), "{keys}");
        let shown = ids(&stage);
        if keys != "<" || !stage.line(2).contains("by state") {
            assert_eq!(shown[..5], ids_then, "{keys}: {}", stage.line(2));
        }
    }
    // No column is to the right of the last one.
    stage.press(">>>");
    assert!(stage.line(2).contains("by function"));
}

#[test]
fn processes_and_what_has_ended_fold() {
    let mut stage = stage();
    stage.press("h");
    assert_eq!(ids(&stage), ["41273", "41302", "41302", "41303", "-"]);
    stage.press("l");
    assert_eq!(ids(&stage).len(), 10);
    stage.press("jjjjj\r");
    assert_eq!(ids(&stage)[5..9], ["41292", "41282", "41290", "41302"], "by weight, none is left out");
    assert!(stage.text().contains("once") && stage.text().contains("twice"));
    // Left on an ended thread folds all of them again; on a running one, it goes to the process.
    stage.press("gjjjjjh");
    assert_eq!(ids(&stage)[5], "-");
    stage.press("gjh");
    assert!(selected(&stage).contains("./server --port 8080"));
    stage.press("G\r");
    assert!(stage.text().contains("└ thumb --size 64 (40 s ago)"));
    // A click on the marker of the first row folds it.
    stage.press("\x1b[<0;3;5M");
    assert_eq!(ids(&stage)[1], "41302");
    // A second click on a row opens it.
    stage.press("\x1b[<0;20;6M");
    assert!(!stage.line(1).contains('✕'));
    stage.press("\x1b[<0;20;6M");
    assert!(stage.line(1).contains("pid=41302 resize ✕"));
}

#[test]
fn threads_are_found_and_copied() {
    let mut stage = stage();
    stage.press("/ENC\r");
    assert!(!selected(&stage).contains("encoder"), "capitals count");
    stage.press("/work\rn");
    assert!(selected(&stage).contains("worker-1"), "{}", selected(&stage));
    stage.press("n");
    assert!(selected(&stage).contains("worker-0"));
    stage.press("/41303\r");
    assert!(selected(&stage).contains("encoder"));
    stage.press("y");
    assert!(format!("{:?}", stage.effects).contains("encoder"));
}

#[test]
fn shares_are_of_the_clock() {
    let mut stage = stage();
    assert!(stage.line(3).contains("cpu%"));
    stage.press("r");
    assert!(stage.session.heard.contains(&Command::Clock(Clock::Real)));
    assert!(stage.line(3).contains("runs%"));
    // Totals have no trend.
    stage.press("pww");
    assert!(!stage.line(3).contains("trend"), "{}", stage.line(3));
    stage.press("W");
    assert!(stage.line(3).contains("trend"));
}

/// Ten thousand threads: the cost of drawing and of questions does not depend on them, and ended
/// ones have one row.
#[test]
fn of_ten_thousand_threads_the_ended_are_one_line() {
    let mut text = "process 7 ./pool\nat 1s prof 10ms main x 30\n".to_owned();
    for tid in 8..10_008 {
        text += &format!("thread {tid} pool-{tid}\nat 1s prof 10ms main;work\n");
        if tid % 50 != 0 {
            text += "end\n";
        }
    }
    let mut stage = Stage::new(options(), Session::new(&text), (100, 30));
    stage.press("5");
    stage.press("G");
    assert!(selected(&stage).contains("+ 9 800 ended threads"), "{}", selected(&stage));
    assert!(stage.line(2).contains("202/202"), "{}", stage.line(2));
    stage.press("\r");
    assert!(stage.line(2).contains("/10 001"), "{}", stage.line(2));
}

#[test]
fn right_shows_the_stacks_of_a_thread() {
    let mut stage = stage();
    stage.press("jl");
    let at = (4..40).find(|&y| stage.line(y).starts_with('▸')).unwrap();
    assert!(stage.line(at + 1).contains("deepest stack") && stage.line(at + 1).ends_with("23.2 KiB of 8.0 MiB"));
    assert!(stage.line(at + 2).contains("newest stack") && stage.line(at + 2).ends_with("json::Parser::parse_value"));
    assert!(stage.line(at + 3).ends_with("server::worker_loop") && stage.line(at + 4).ends_with("main"));
    stage.press("jjh");
    assert!(selected(&stage).contains("41280"), "left returns to the thread");
    stage.press("h");
    assert!(!stage.text().contains("newest stack"));
}

#[test]
fn idle_threads_are_one_row_until_they_are_asked_for() {
    let idle = "thread 41299 pool\nat 0s..60s real 10ms main;libc.so.6!poll x 6000\nprocess 41302 ";
    let text = THREADS.replace(" prof ", " real ").replacen("process 41302 ", idle, 1);
    let mut options = options();
    options.clock = Clock::Real;
    let mut session = Session::new(&text);
    session.facts.clock = Clock::Real;
    let mut stage = Stage::new(options, session, (140, 45));
    assert!(stage.text().contains("idle: 2 threads  10."), "{}", stage.text());
    stage.press("5");
    let row = stage.text().lines().find(|line| line.contains("idle: 2 threads")).map(str::to_owned);
    assert!(row.is_some_and(|row| row.ends_with("  10.19s of wall time")), "{}", stage.text());
    assert!(!stage.text().contains("pool"));
    stage.press("Z");
    assert!(stage.text().contains("pool") && !stage.text().contains("idle: 2"), "{}", stage.text());
    stage.press("1");
    assert!(!stage.text().contains("idle:"), "{}", stage.text());
}
