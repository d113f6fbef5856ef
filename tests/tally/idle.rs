//! Idle threads by wall-clock time.

use sigtop::profile::totals::Span;
use sigtop::symbols::scenario::{Scenario, scenario};
use sigtop::tally::flame::FlameQuery;
use sigtop::tally::query::{Filters, Pattern, Query};
use sigtop::tally::tallier::{Extras, Tallier};
use sigtop::tally::threads::ThreadsQuery;
use sigtop::tally::top::TopTable;
use sigtop::wire::Clock;

/// A working thread, two that wait, one that spins in one function, and one that wakes now and
/// then. Each has 100 samples.
const POOL: &str = "
    process 7 ./a
    at 0s..9.9s real 100ms main;work x 60
    at 0s..9.9s real 100ms main;rest x 40
    thread 8 pool-0
    at 0s..9.9s real 100ms start;next;libc.so.6!__futex_abstimed_wait_common64 x 100
    thread 9 pool-1
    at 0s..9.9s real 100ms start;next;libc.so.6!__futex_abstimed_wait_common64 x 97
    at 0.5s real 100ms start;run;work x 3
    thread 10 spinner
    at 0s..9.9s real 100ms start;spin x 100
    thread 11 waker
    at 0s..9.9s real 100ms start;libc.so.6!epoll_wait x 90
    at 0s..9.9s real 100ms start;serve x 10
    now 9.9s
";

fn query(fold_idle: bool) -> Query {
    let span = Span::Last { ns: 10_000_000_000, now_ns: 9_900_000_000 };
    Query { span, clock: Clock::Real, fold_idle, ..Query::default() }
}

/// Time by function in ms, total, and idle time and threads.
fn numbers(table: &TopTable) -> (Vec<(String, u64)>, u64, (u64, usize)) {
    let ms = |ns: u64| ns / 1_000_000;
    let mut rows: Vec<_> = table.rows.iter().map(|row| (row.short.to_string(), ms(row.flat_ns))).collect();
    rows.retain(|row| row.1 > 0);
    (rows, ms(table.total_ns), (ms(table.idle_ns), table.idle_threads))
}

fn rows(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
    rows.iter().map(|(name, ms)| ((*name).to_owned(), *ms)).collect()
}

fn answer(tallier: &mut Tallier, played: &Scenario, query: &Query) -> TopTable {
    tallier.table(&played.profile, &played.names, query).as_ref().clone()
}

#[test]
fn threads_in_one_wait_are_counted_apart() {
    let played = scenario(POOL).unwrap();
    let mut tallier = Tallier::default();
    let folded = numbers(&answer(&mut tallier, &played, &query(true)));
    let working = rows(&[("spin", 10_000), ("epoll_wait", 9000), ("work", 6000), ("rest", 4000), ("serve", 1000)]);
    assert_eq!(folded, (working, 30_000, (20_000, 2)), "two of three functions that only wait are idle");
    let shown = numbers(&answer(&mut tallier, &played, &query(false)));
    assert_eq!((shown.1, shown.2), (50_000, (0, 0)));
    assert_eq!(shown.0[0], ("__futex_abstimed_wait_common64".to_owned(), 19_700));
    // Negative control: by CPU time nothing is folded.
    let prof = scenario(&POOL.replace(" real ", " prof ")).unwrap();
    let by_cpu = numbers(&answer(&mut Tallier::default(), &prof, &Query { clock: Clock::Prof, ..query(true) }));
    assert_eq!((by_cpu.1, by_cpu.2), (50_000, (0, 0)));
}

#[test]
fn flame_graph_and_trends_have_no_idle_time() {
    let played = scenario(POOL).unwrap();
    let form = FlameQuery::default();
    let extras = Extras { flame: Some(&form), total: true, trends: true, ..Extras::default() };
    let tallies = Tallier::default().answer(&played.profile, &played.names, &query(true), extras);
    let flame = tallies.flame.unwrap();
    assert_eq!(flame.boxes[0].weight_ns, 30_000_000_000);
    assert!(flame.boxes.iter().all(|shown| !shown.full.contains("futex")));
    assert_eq!(numbers(&tallies.total.unwrap()).1, 30_000, "the total has idle threads of its own");
    let spin = tallies.table.rows.iter().position(|row| row.short == "spin").unwrap();
    let share = tallies.trends.get(spin).unwrap().shares[4];
    assert!((share - 1.0 / 3.0).abs() < 0.05, "one of three threads: {share}");
}

/// A thread that goes on working leaves the idle ones, and its time is counted again.
#[test]
fn threads_become_idle_and_wake_up() {
    let wakes = format!("{}thread 8 pool-0\nat 10s..14.9s real 100ms start;run;work x 50\nnow 14.9s\n", {
        POOL.replace("now 9.9s\n", "")
    });
    let (played, before) = (scenario(&wakes).unwrap(), query(true));
    let mut tallier = Tallier::default();
    assert_eq!(answer(&mut tallier, &played, &before).idle_threads, 2);
    let later = Query { span: Span::Last { ns: 10_000_000_000, now_ns: 14_900_000_000 }, ..before.clone() };
    let awake = answer(&mut tallier, &played, &later);
    assert_eq!(awake.idle_threads, 1);
    assert_eq!(awake, answer(&mut Tallier::default(), &played, &later), "sums that are kept are the same as new ones");
}

#[test]
fn hidden_frames_do_not_wake_threads() {
    let played = scenario(POOL).unwrap();
    let filters = Filters { hide: vec![Pattern::new("libc").unwrap()], ..Filters::default() };
    assert_eq!(answer(&mut Tallier::default(), &played, &Query { filters, ..query(true) }).idle_threads, 2);
}

#[test]
fn few_samples_do_not_make_a_thread_idle() {
    let text = "process 7 ./a\nat 0s..1.8s real 100ms main;libc.so.6!poll x 19\n\
                thread 8 worker\nat 0s..1.8s real 100ms start;work x 19\nnow 1.8s";
    let played = scenario(text).unwrap();
    assert_eq!(answer(&mut Tallier::default(), &played, &query(true)).idle_threads, 0);
    let played = scenario(&text.replace("x 19", "x 20")).unwrap();
    assert_eq!(answer(&mut Tallier::default(), &played, &query(true)).idle_threads, 1);
}

#[test]
fn waits_are_shown_if_there_is_nothing_else() {
    let text = "process 7 ./a\nat 0s..9.9s real 100ms main;libc.so.6!epoll_wait x 100\n\
                thread 8 worker\nat 0s..9.9s real 100ms start;libc.so.6!poll x 100\nnow 9.9s";
    let played = scenario(text).unwrap();
    let all = numbers(&answer(&mut Tallier::default(), &played, &query(true)));
    assert_eq!(all, (rows(&[("epoll_wait", 10_000), ("poll", 10_000)]), 20_000, (0, 0)));
    let played = scenario(&text.replace("libc.so.6!poll", "work")).unwrap();
    let working = numbers(&answer(&mut Tallier::default(), &played, &query(true)));
    assert_eq!(working, (rows(&[("work", 10_000)]), 10_000, (10_000, 1)));
}

#[test]
fn idle_threads_are_one_row_of_their_process() {
    let played = scenario(POOL).unwrap();
    let mut tallier = Tallier::default();
    let mut ask = |fold_idle, asked: &ThreadsQuery| {
        let table = tallier.threads(&played.profile, &played.names, &query(fold_idle), asked);
        let process = &table.processes[0];
        let mut tids: Vec<u32> = process.threads.iter().map(|thread| thread.tid).collect();
        tids.sort_unstable();
        (tids, (process.idle.count, process.idle.weight.ns / 1_000_000))
    };
    assert_eq!(ask(true, &ThreadsQuery::default()), (vec![7, 10, 11], (2, 20_000)));
    assert_eq!(ask(false, &ThreadsQuery::default()), (vec![7, 8, 9, 10, 11], (0, 0)));
    let first = played.profile.threads().iter().position(|thread| thread.tid == 8).unwrap();
    let asked =
        ThreadsQuery { stacks_of: vec![sigtop::profile::thread::ThreadId(first as u32)], ..ThreadsQuery::default() };
    assert_eq!(ask(true, &asked), (vec![7, 8, 10, 11], (1, 10_000)), "a thread whose stack is shown has a row");
}
