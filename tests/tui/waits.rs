//! The views of waits, and of allocations beside their number.

use std::sync::Arc;

use sigtop::link::wire::Clock;
use sigtop::session::Answer;
use sigtop::tally::top::TopTable;
use sigtop::tui::Options;
use sigtop::tui::action::Action;

use crate::goldens::{compare, waits_at};
use crate::keys::{ESC, selected};
use crate::session::Session;
use crate::stage::Region::{Body, Status};
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
    assert_eq!(waits(&stage), [&[locks], &objects[..], &["[condvar]"]].concat());
    stage.press("B");
    assert_eq!(waits(&stage), ["[lock] held by compactor 41280", "[disk]", "[poll]", "[read]", "[condvar]"]);
    stage.press("B");
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
fn of_memory(answer: &Answer) -> Answer {
    let counted = |table: &TopTable| {
        let mut table = table.clone();
        for row in &mut table.rows {
            (row.flat_ns, row.cum_ns) = (row.flat_ns / 1024, row.cum_ns / 1024);
            row.latency_ns = row.cum_ns / 64;
        }
        (table.total_ns, table.kept_ns) = (table.total_ns / 1024, table.kept_ns / 1024);
        (table.samples, table.latency_ns) = (table.total_ns / 64, table.total_ns / 64);
        Arc::new(table)
    };
    let mut answer = Answer { window: counted(&answer.window), total: counted(&answer.total), ..answer.clone() };
    answer.facts.clock = Clock::Alloc;
    answer
}

#[test]
fn allocated_bytes_have_a_count() {
    let show = |size| {
        let mut session = Session::new(SCREEN);
        session.facts.period_ns = 512 << 10;
        let mut stage = Stage::new(Options { clock: Clock::Alloc, ..options() }, session, size);
        stage.press("1");
        let answer = stage.session.answer().expect("a question was asked");
        stage.act(Action::Answer(Arc::new(of_memory(&answer))));
        stage.regions(&[Body, Status])
    };
    compare("pane-allocations", &[(140, 14), (80, 14)].map(show).concat());
}
