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
    assert_eq!(waits(&stage), ["[lock]", "[disk]", "[poll]", "[read]", "[condvar]"]);
    stage.press("B");
    let locks = "[lock 0x7f1000] held by compactor 41280";
    let objects = ["[disk] /var/lib/server/data.log", "[poll] anon_inode:[eventpoll]", "[read] pipe:[48151]"];
    assert_eq!(waits(&stage), [&[locks], &objects[..], &["[condvar 0x7f2000]"]].concat());
    // Threads say the reason once, and where.
    stage.press("5");
    let text = stage.text();
    assert!(text.contains("[lock] held by compactor for 59.9 s  in Cache::insert"), "{text}");
    stage.press("1");
    stage.press("B");
    assert_eq!(waits(&stage), ["[lock] held by compactor 41280", "[disk]", "[poll]", "[read]", "[condvar]"]);
    stage.press("B");
    assert_eq!(waits(&stage), [""; 0]);
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
    let others = ["[disk] /var/lib/server/data.log", "[poll] anon_inode:[eventpoll]", "[read] pipe:[48151]"];
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
