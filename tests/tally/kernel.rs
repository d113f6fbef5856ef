//! Functions of the kernel: frames of their own, or the time of the function that called them.

use sigtop::profile::totals::Span;
use sigtop::symbols::scenario::scenario;
use sigtop::tally::query::Query;
use sigtop::tally::tallier::Tallier;
use sigtop::wire::Clock;

const WRITER: &str = "
    process 7 ./a
    at 0s..1s prof 10ms main;write;[kernel]!do_syscall_64;[kernel]!vfs_write x 6
    at 0s..1s prof 10ms main;compute x 4
    now 1s
";

/// Flat and cumulative time of each function, ms.
fn rows(shows_kernel: bool) -> Vec<(String, u64, u64)> {
    let played = scenario(WRITER).unwrap();
    let span = Span::Last { ns: 10_000_000_000, now_ns: 1_000_000_000 };
    let query = Query { span, clock: Clock::Prof, shows_kernel, ..Query::default() };
    let table = Tallier::default().table(&played.profile, &played.names, &query);
    let rows = table.rows.iter().map(|row| (row.short.to_string(), row.flat_ns / 1_000_000, row.cum_ns / 1_000_000));
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

fn expected(rows: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
    rows.iter().map(|&(name, flat, cum)| (name.to_owned(), flat, cum)).collect()
}

#[test]
fn hidden_functions_leave_their_time_to_the_caller() {
    let shown =
        [("compute", 40, 40), ("do_syscall_64", 0, 60), ("main", 0, 100), ("vfs_write", 60, 60), ("write", 0, 60)];
    assert_eq!(rows(true), expected(&shown));
    assert_eq!(rows(false), expected(&[("compute", 40, 40), ("main", 0, 100), ("write", 60, 60)]));
}
