//! Rows by the title of their process: samples belong to the title that their process had.

use sigtop::profile::process::ProcessId;
use sigtop::profile::totals::Span;
use sigtop::symbols::scenario::scenario;
use sigtop::tally::query::{Grouping, Query};
use sigtop::tally::tallier::{Extras, Tallier};
use sigtop::wire::{Clock, ConnectionEvent, Message};

const BACKENDS: &str = "process 41 postgres\nwait 232 0x5 0x7ffc 0x40 on socket:[7]\n\
    at 1s real 10ms main;ReadCommand x 4\nwait\nat 1s real 10ms main;ExecScan x 2\n\
    process 42 postgres\nat 1s real 10ms main;ExecSort x 3\n";

#[test]
fn time_is_grouped_by_what_servers_say_that_they_do() {
    let played = scenario(BACKENDS).unwrap_or_else(|error| panic!("{error}"));
    let (mut profile, mut names) = (played.profile, played.names);
    let before = profile.process(ProcessId(0)).argv.join(" ");
    for process in [0, 1] {
        profile.set_title(ProcessId(process), vec!["postgres: app [local] UPDATE ".to_owned()]);
    }
    let samples =
        played.script.arrivals.iter().filter(|arrival| {
            matches!(arrival.event, ConnectionEvent::Received(Message::Sample(..) | Message::Wait(_)))
        });
    samples.for_each(|arrival| profile.apply(arrival.clone()));
    profile.add_owner_frames();
    for request in names.catch_up(&profile) {
        names.absorb(played.script.reply(&request));
    }
    let mut tallier = Tallier::default();
    let mut rows = |group: Grouping| -> Vec<(String, u64, u64)> {
        let query = Query { clock: Clock::Real, span: Span::Total, group, ..Query::default() };
        let table = tallier.answer(&profile, &names, &query, Extras::default()).table;
        table.rows.iter().map(|row| (row.full.to_string(), row.flat_ns / 10_000_000, row.cum_ns / 10_000_000)).collect()
    };
    let row = |name: &str, title: &str, flat: u64, cum: u64| (format!("{name} [{title}]"), flat, cum);
    let now = "postgres: app (local) UPDATE";
    let mut expected = vec![
        row("ReadCommand", now, 4, 4),
        row("ExecSort", now, 3, 3),
        row("ExecScan", now, 2, 2),
        row("main", now, 0, 9),
        row("ReadCommand", &before, 4, 4),
        row("ExecSort", &before, 3, 3),
        row("ExecScan", &before, 2, 2),
        row("main", &before, 0, 9),
    ];
    let mut titled = rows(Grouping::Title);
    titled.retain(|(name, ..)| !name.starts_with("title:"));
    titled.sort();
    expected.sort();
    assert_eq!(titled, expected);
    // Elsewhere a title is no frame.
    let mut functions = rows(Grouping::Function);
    functions.sort();
    let plain = [("ExecScan", 4, 4), ("ExecSort", 6, 6), ("ReadCommand", 8, 8), ("main", 0, 18)];
    assert_eq!(functions, plain.map(|(name, flat, cum)| (name.to_owned(), flat, cum)));
}
