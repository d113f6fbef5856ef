//! The views of waits, and of allocations beside their number.

use std::sync::Arc;

use sigtop::session::Answer;
use sigtop::tally::top::TopTable;
use sigtop::tui::Options;
use sigtop::tui::action::Action;
use sigtop::wire::Clock;

use crate::goldens::{compare, waits_at};
use crate::keys::{ESC, selected};
use crate::session::Session;
use crate::stage::Region::{Body, Header, Status};
use crate::stage::{SCREEN, Stage, options};

/// The rows in brackets: those of waits. A trend or a margin before them is not part of them.
fn waits(stage: &Stage) -> Vec<String> {
    let text = stage.text();
    let names = text.lines().filter_map(|line| line.find("  [").map(|start| line[start + 2..].to_owned()));
    names.collect()
}

#[test]
fn the_views_of_waits_follow_each_other() {
    let mut stage = waits_at((140, 45), "r1");
    assert_eq!(waits(&stage), [""; 0]);
    stage.press("B");
    assert_eq!(waits(&stage), ["[lock]", "[disk]", "[read]", "[condvar]"]);
    stage.press("B");
    let locks = "[lock 0x7f1000] held by compactor 41280";
    let objects = ["[disk] /var/lib/server/data.log", "[read] pipe:[48151]"];
    assert_eq!(waits(&stage), [&[locks], &objects[..], &["[condvar 0x7f2000]"]].concat());
    // Threads say the reason once, and where.
    stage.press("5");
    let text = stage.text();
    assert!(text.contains("[lock] held by compactor for 59.9 s  in Cache::insert"), "{text}");
    stage.press("1");
    stage.press("B");
    assert_eq!(waits(&stage), ["[lock] held by compactor 41280", "[disk]", "[read]", "[condvar]"]);
    stage.press("B");
    assert_eq!(waits(&stage), [""; 0]);
}

/// The row of a wait in the table, up to its flat%.
fn flat_percent(stage: &Stage, wait: &str) -> String {
    let text = stage.text();
    let row = text.lines().find(|line| line.contains(&format!("  [{wait}]"))).unwrap_or_else(|| panic!("{text}"));
    row.split_whitespace().find(|word| word.ends_with('%')).expect("a share").to_owned()
}

#[test]
fn what_threads_wait_for_is_above_the_table() {
    let mut stage = waits_at((140, 45), "r1");
    let expected = " waiting: 40% lock in Cache::find, 100% held by compactor · 20% disk · 20% read · B shows more";
    assert_eq!(stage.line(3).trim_end(), expected);
    assert!(stage.line(4).contains("flat%"), "{}", stage.text());
    // The idle thread counts in no view.
    assert!(stage.text().contains("idle: 1 thread "), "{}", stage.text());
    stage.press("B");
    assert_eq!(stage.line(3).trim_end(), expected);
    assert_eq!(["lock", "disk", "read"].map(|wait| flat_percent(&stage, wait)), ["40.00%", "20.00%", "20.00%"]);
    assert!(stage.text().contains("idle: 1 thread "), "{}", stage.text());
    stage.press("Z");
    assert!(stage.line(3).starts_with(" waiting: 33% lock"), "{}", stage.line(3));
    assert_eq!(flat_percent(&stage, "lock"), "33.33%");
    // Details go before parts do.
    let narrow = waits_at((60, 12), "r1");
    assert_eq!(narrow.line(3).trim_end(), " waiting: 40% lock, 100% held by compactor · 20% disk");
    assert!(!Stage::usual((140, 45)).text().contains("waiting:"), "CPU time counts no waits");
}

#[test]
fn a_click_below_the_row_of_waits_selects_the_row_under_it() {
    let mut stage = waits_at((140, 45), "r1");
    let third = stage.line(7).split_whitespace().last().expect("a name").to_owned();
    stage.press("\x1b[<0;20;8M");
    assert_eq!(selected(&stage), third);
}

/// By wall-clock time all threads have all time: what they did with it differs.
#[test]
fn threads_show_the_shares_of_their_waits() {
    let mut stage = waits_at((140, 45), "r5");
    stage.press("w");
    let row = |stage: &Stage, name: &str| {
        let text = stage.text();
        let line = text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().skip_while(|word| *word != name).skip(1).collect::<Vec<_>>().join(" ")
    };
    assert!(stage.line(3).contains("runs%") && !stage.line(3).contains("state"), "{}", stage.text());
    assert_eq!(row(&stage, "worker-3"), "50.1% 600 50% condvar");
    assert_eq!(row(&stage, "worker-1"), "0.0% 600 [lock] held by compactor for 59.9 s in Cache::insert");
    assert!(stage.line(4).contains("worker-3"), "who runs comes first: {}", stage.text());
}

/// Tags select the waits of a reason, or those for the locks of a thread.
#[test]
fn tags_select_waits() {
    let mut stage = waits_at((140, 45), "r1");
    stage.press(":granularity=waits\r:tagfocus=holder=compactor\r");
    assert_eq!(waits(&stage), ["[lock 0x7f1000] held by compactor 41280"]);
    stage.press(":tagfocus=wait=read\r");
    assert_eq!(waits(&stage), ["[read] pipe:[48151]"]);
    stage.press(":tagfocus=\r:tagignore=wait=lock\r");
    let others = ["[disk] /var/lib/server/data.log", "[read] pipe:[48151]"];
    assert_eq!(waits(&stage), [&others[..], &["[condvar 0x7f2000]"]].concat());
}

/// As by pprof's tagroot, what a thread waits for is the root of its stacks, and no longer the
/// leaf.
#[test]
fn waits_are_the_roots_of_stacks() {
    let mut stage = waits_at((140, 45), "r1");
    stage.press(":tagroot=wait\r");
    let locks = "[lock 0x7f1000] held by compactor 41280";
    assert!(waits(&stage).iter().any(|row| row == locks), "{}", stage.text());
    stage.press("/held by\r");
    assert_eq!(selected(&stage), locks);
    // Two of five threads wait for the lock.
    let text = stage.text();
    let row = text.lines().find(|line| line.contains(locks)).expect("a row");
    assert!(row.contains(" 0     0%      20s 40.00%"), "{text}");
    stage.press("2");
    let text = stage.text();
    assert!(text.contains("no callers sampled") && text.contains("clone3"), "{text}");
    stage.press("1");
    stage.press(":tagroot=\r");
    assert_eq!(waits(&stage), [""; 0]);
}

#[test]
fn enter_on_a_held_lock_shows_waiter_and_holder() {
    let mut stage = waits_at((140, 45), "r1BB");
    assert_eq!(selected(&stage), "[lock 0x7f1000] held by compactor 41280");
    stage.press("\r");
    let text = stage.text();
    assert!(text.contains("─ Who holds the lock ─"), "{text}");
    assert!(text.contains("worker-1 (41281)") && text.contains("compactor (41280)"), "{text}");
    assert!(text.contains("pthread_mutex_lock") && text.contains("Store::compact"), "{text}");
    // Another wait has no holder: Enter shows the card, as it does for a function.
    stage.press(ESC);
    stage.press("j\r");
    assert!(stage.text().contains("─ Function ─"), "{}", stage.text());
}

/// The answer, as if its rows were bytes of memory in allocations of about 64 bytes.
fn of_memory(answer: &Answer, clock: Clock) -> Answer {
    let counted = |table: &TopTable| {
        let mut table = table.clone();
        for row in &mut table.rows {
            (row.flat_ns, row.cum_ns) = (row.flat_ns / 1024, row.cum_ns / 1024);
            row.latency_ns = row.cum_ns / 64;
        }
        (table.total_ns, table.kept_ns) = (table.total_ns / 1024, table.kept_ns / 1024);
        (table.samples, table.latency_ns) = (table.total_ns >> 19, table.total_ns / 64);
        table.interval = 512 << 10;
        Arc::new(table)
    };
    let mut answer = Answer { window: counted(&answer.window), total: counted(&answer.total), ..answer.clone() };
    answer.facts.clock = clock;
    answer
}

#[test]
fn allocated_bytes_have_a_count() {
    let show = |clock, size| {
        let mut session = Session::new(SCREEN);
        session.facts.period_ns = 512 << 10;
        let mut stage = Stage::new(Options { clock, ..options() }, session, size);
        stage.press("1");
        let answer = stage.session.answer().expect("a question was asked");
        let mut answer = of_memory(&answer, clock);
        // Some allocations found no place among those whose end is watched.
        answer.facts.overflows.allocations = 3;
        answer.facts.overflows.allocated_bytes = 5 << 20;
        stage.act(Action::Answer(Arc::new(answer)));
        stage.regions(&[Header, Body, Status])
    };
    compare("pane-allocations", &[(140, 14), (80, 14)].map(|size| show(Clock::Alloc, size)).concat());
    compare("pane-live-allocations", &[(140, 14), (80, 14)].map(|size| show(Clock::Live, size)).concat());
}

/// Regression test: differences counted idle threads, and Top did not.
#[test]
fn differences_have_the_shares_of_top() {
    let mut stage = waits_at((140, 45), "r1");
    let row = |stage: &Stage, name: &str| {
        let text = stage.text();
        let line = text.lines().find(|line| line.trim_end().ends_with(name)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().filter(|word| word.ends_with('%')).map(str::to_owned).collect::<Vec<String>>()
    };
    let flat = row(&stage, "__lll_lock_wait")[0].clone();
    assert!(stage.text().contains("idle: 1 thread "), "{}", stage.text());
    stage.press("d");
    assert_eq!(row(&stage, "__lll_lock_wait"), [flat.clone(), flat.clone()], "{}", stage.text());
    assert!(stage.text().contains("idle: 1 thread "), "{}", stage.text());
    // With idle threads, shares are smaller in both.
    stage.press("Z");
    let [before, now] = &row(&stage, "__lll_lock_wait")[..] else { panic!("{}", stage.text()) };
    assert!(before == now && *now != flat, "{}", stage.text());
}
