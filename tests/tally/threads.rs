//! Compares processes and threads with an oracle, number by number.

use std::collections::{BTreeMap, BTreeSet};

use crate::property::property;
use proptest::prelude::*;
use sigtop::profile::Profile;
use sigtop::profile::totals::{BUCKET_NS, Span};
use sigtop::symbols::Names;
use sigtop::symbols::scenario::{Script, scenario};
use sigtop::tally::flame::FlameQuery;
use sigtop::tally::query::tags::TagFilter;
use sigtop::tally::query::{Filters, Grouping, Query, TagRoot};
use sigtop::tally::tallier::Tallier;
use sigtop::tally::threads::{Load, ThreadSort, ThreadTable, ThreadsQuery};
use sigtop::tally::top::TopRow;
use sigtop::tally::trend::PARTS;

use crate::stacks::{Sample, THREADS, played, query, samples};

/// Weight, samples, parts and top function.
type Figures = (u64, u64, [u64; PARTS], String);

/// Returns the expected totals of these threads' samples.
fn oracle(samples: &[Sample], query: &Query, threads: &BTreeSet<usize>) -> Figures {
    let filters = Filters { tagfocus: Vec::new(), tagignore: Vec::new(), ..query.filters.clone() };
    let functions = Query { filters, ..query.clone() };
    let (mut ns, mut count, mut parts, mut flat) = (0, 0, [0; PARTS], BTreeMap::<String, u64>::new());
    for sample in samples.iter().filter(|sample| sample.is_in(query.span) && threads.contains(&sample.thread)) {
        let Some(stack) = sample.filtered(&functions) else { continue };
        ns += sample.weight_ns();
        count += 1;
        *flat.entry(sample.steps(&stack, Grouping::Function).pop().unwrap().0).or_default() += sample.weight_ns();
        if let Span::Last { ns: window_ns, now_ns } = query.span {
            let buckets = window_ns.div_ceil(BUCKET_NS);
            let age = now_ns / BUCKET_NS - sample.at_ms * 1_000_000 / BUCKET_NS;
            parts[PARTS - 1 - (age as usize * PARTS / buckets as usize)] += sample.weight_ns();
        }
    }
    let most = flat.values().max();
    let top = flat.iter().find(|(_, ns)| Some(*ns) == most).map_or(String::new(), |(name, _)| name.clone());
    (ns, count, parts, top)
}

fn extract(load: &Load) -> Figures {
    (load.weight.ns, load.weight.samples, load.parts_ns, load.top_full.to_string())
}

fn answer(samples: &[Sample], query: &Query, asked: &ThreadsQuery) -> ThreadTable {
    let played = played(samples);
    Tallier::default().threads(&played.profile, &played.names, query, asked)
}

proptest! {
    #![proptest_config(property(200))]

    #[test]
    fn loads_are_the_oracles(samples in samples(), query in query()) {
        let query = Query { group: Grouping::Function, ..query };
        let threads = answer(&samples, &query, &ThreadsQuery::default());
        let mut seen = BTreeSet::new();
        for process in &threads.processes {
            let own: BTreeSet<usize> = (0..THREADS.len()).filter(|&index| THREADS[index].0 == process.pid).collect();
            prop_assert_eq!(extract(&process.load), oracle(&samples, &query, &own));
            for row in &process.threads {
                let index = THREADS.iter().position(|thread| thread.1 == row.tid).unwrap();
                prop_assert!(own.contains(&index) && seen.insert(index));
                prop_assert_eq!(&row.name, THREADS[index].3);
                prop_assert_eq!(extract(&row.load), oracle(&samples, &query, &BTreeSet::from([index])));
                let alone = Sample { thread: index, at_ms: 0, weight_ms: 1, stack: Vec::new() };
                let Filters { tagfocus, tagignore, .. } = query.filters.clone();
                let tags = Filters { tagfocus, tagignore, ..Filters::default() };
                prop_assert_eq!(row.inside, alone.passes(&tags));
            }
        }
        // Every sampled thread has a row.
        prop_assert!(samples.iter().all(|sample| seen.contains(&sample.thread)));
    }

    #[test]
    fn rows_are_in_order(samples in samples(), query in query()) {
        for sort in [ThreadSort::Id, ThreadSort::Name, ThreadSort::State, ThreadSort::Weight, ThreadSort::Samples, ThreadSort::Function] {
            let threads = answer(&samples, &query, &ThreadsQuery { sort, ..ThreadsQuery::default() });
            let down = |number: u64| u64::MAX - number;
            // Rows with the same value are in the order of their names.
            let key = |id: u32, name: &str, load: &Load| {
                let first = match sort {
                    ThreadSort::Id => return (String::new(), 0, String::new(), id),
                    ThreadSort::Name => (String::new(), 0),
                    ThreadSort::State | ThreadSort::Weight => (String::new(), down(load.weight.ns)),
                    ThreadSort::Samples => (String::new(), down(load.weight.samples)),
                    ThreadSort::Function if load.top.is_empty() => ("\u{10ffff}".to_owned(), down(load.weight.ns)),
                    ThreadSort::Function => (load.top.to_string(), down(load.weight.ns)),
                };
                (first.0, first.1, name.to_owned(), id)
            };
            let processes = threads.processes.iter().map(|row| key(row.pid, &row.name, &row.load));
            prop_assert!(processes.is_sorted());
            for process in &threads.processes {
                prop_assert!(process.threads.iter().map(|row| key(row.tid, &row.name, &row.load)).is_sorted());
            }
        }
    }
}

const ENDED: &str = "
    process 7 ./a
    at 1s prof 5ms main x 2
    thread 8 one
    at 1s prof 3ms main;work
    end
    thread 8 again
    at 2s prof 2ms main;rest
    process 9 from 7 ./a
    at 2s prof 7ms main
    process 9 ./b
    at 3s prof 1ms main
    exit
    process 11 from 7 at 4s ./c
    at 4s prof 9ms main
    now 10s
";

#[test]
fn what_has_ended_is_told_as_one_number_until_it_is_asked_for() {
    let played = scenario(ENDED).unwrap();
    let ask = |asked: &ThreadsQuery| {
        let threads = Tallier::default().threads(&played.profile, &played.names, &Query::default(), asked);
        let rows = threads.processes.iter().map(|process| {
            let threads = process
                .threads
                .iter()
                .map(|row| format!("{} {} {}", row.tid, row.name, row.load.weight.ns / 1_000_000));
            let folded = (process.folded.count, process.folded.weight.ns / 1_000_000);
            (process.command.clone(), threads.collect::<Vec<_>>().join(", "), folded)
        });
        (rows.collect::<Vec<_>>(), threads.folded.count, threads.folded.weight.ns / 1_000_000)
    };
    let row = |command: &str, threads: &str, folded| (command.to_owned(), threads.to_owned(), folded);
    let living = [row("./a", "7 a 10, 8 again 2", (1, 3)), row("./c", "11 c 9", (0, 0))];
    assert_eq!(ask(&ThreadsQuery::default()), (living.to_vec(), 1, 8));
    let first = played.profile.threads()[0].process;
    let asked = ThreadsQuery { ended_threads_of: vec![first], ended_processes: true, ..ThreadsQuery::default() };
    // The thread that process 9 had before its exec has ended, so it is folded.
    let all = [row("./a", "7 a 10, 8 one 3, 8 again 2", (0, 0)), living[1].clone(), row("./b", "9 b 1", (1, 7))];
    assert_eq!(ask(&asked), (all.to_vec(), 0, 0));
}

#[test]
fn a_thread_is_filtered_by_its_latest_name() {
    let script =
        Script::read("process 7 ./a\nthread 8 old\nat 1s prof 1ms main\nthread 8 new\nat 2s prof 1ms main").unwrap();
    let (mut profile, mut names, mut tallier) = (Profile::default(), Names::default(), Tallier::default());
    let filters = Filters { tagfocus: vec![TagFilter::new("thread=^new$").unwrap()], ..Filters::default() };
    let query = Query { filters, ..Query::default() };
    let mut kept = Vec::new();
    for arrival in &script.arrivals {
        profile.apply(arrival.clone());
        names.catch_up(&profile).iter().for_each(|request| names.absorb(script.reply(request)));
        kept.push(tallier.table(&profile, &names, &query).kept_ns / 1_000_000);
    }
    // Samples taken under the old name count, too.
    assert_eq!(kept, [0, 0, 0, 0, 0, 1, 2]);
}

#[test]
fn a_renamed_thread_has_its_new_name_at_the_root_and_beside_its_functions() {
    let script =
        Script::read("process 7 ./a\nthread 8 old\nat 1s prof 1ms main;f\nthread 8 new\nat 2s prof 1ms main;f")
            .unwrap();
    let (mut profile, mut names) = (Profile::default(), Names::default());
    let (mut by_thread, mut rooted) = (Tallier::default(), Tallier::default());
    let (mut columns, mut roots) = (Vec::new(), Vec::new());
    for arrival in &script.arrivals {
        profile.apply(arrival.clone());
        profile.add_owner_frames();
        names.catch_up(&profile).iter().for_each(|request| names.absorb(script.reply(request)));
        // Threads are not added as root frames here.
        let query = Query { group: Grouping::Thread, roots: TagRoot::Processes, ..Query::default() };
        let table = by_thread.table(&profile, &names, &query);
        let column = |row: &TopRow| format!("{} of {}: {}", row.short, row.owner, row.cum_ns / 1_000_000);
        columns.push(table.rows.iter().map(column).collect::<Vec<_>>().join(", "));
        let query = Query { roots: TagRoot::Both, ..Query::default() };
        let flame = rooted.flame(&profile, &names, &query, &FlameQuery::default());
        roots.push(flame.boxes.iter().map(|shown| shown.short.to_string()).collect::<Vec<_>>().join(" > "));
    }
    let last = |figures: &[String]| (figures[4].clone(), figures[5].clone(), figures[figures.len() - 1].clone());
    let columns = last(&columns);
    assert_eq!(columns.0, "f of old 8: 1, main of old 8: 1");
    assert_eq!(columns.1, "f of new 8: 1, main of new 8: 1", "what it did before is its own too");
    assert_eq!(columns.2, "f of new 8: 2, main of new 8: 2");
    let roots = last(&roots);
    assert_eq!(roots.0, "all > a 7 > old 8 > main > f");
    assert_eq!((&*roots.1, &*roots.2), ("all > a 7 > new 8 > main > f", "all > a 7 > new 8 > main > f"));
}

#[test]
fn processes_are_a_tree_by_their_nearest_ancestor_with_a_row() {
    let text = "
        process 7 make
        at 1s prof 1ms main
        process 8 from 7 at 1s sh -c cc
        at 1s prof 2ms main
        process 9 from 8 at 1s cc a.c
        at 1s prof 3ms main
        process 20 from 7 at 1s sh -c ld
        at 1s prof 9ms main
        exit
        process 21 from 20 at 1s ld a.o
        at 1s prof 5ms main
        now 2s
    ";
    let played = scenario(text).unwrap();
    let ask = |sort, ended_processes| {
        let asked = ThreadsQuery { sort, ended_processes, ..ThreadsQuery::default() };
        let threads = Tallier::default().threads(&played.profile, &played.names, &Query::default(), &asked);
        threads.processes.iter().map(|row| (row.pid, row.depth)).collect::<Vec<_>>()
    };
    // The shell of the linker has ended, so make is the nearest ancestor that has a row.
    assert_eq!(ask(ThreadSort::Id, false), [(7, 0), (8, 1), (9, 2), (21, 1)]);
    assert_eq!(ask(ThreadSort::Weight, false), [(7, 0), (21, 1), (8, 1), (9, 2)]);
    assert_eq!(ask(ThreadSort::Id, true), [(7, 0), (8, 1), (9, 2), (20, 1), (21, 2)]);
}

#[test]
fn the_newest_stack_of_a_thread_is_returned_leaf_first() {
    let text = "
        process 7 ./a
        at 1s prof 50ms main;old
        at 9s prof 10ms main;parse;value
        at 9.01s prof 20ms main;parse;string
        now 9.05s
    ";
    let played = scenario(text).unwrap();
    let span = Span::Last { ns: 10_000_000_000, now_ns: 9_050_000_000 };
    let stack = |stacks_of: Vec<sigtop::profile::thread::ThreadId>| {
        let asked = ThreadsQuery { stacks_of, ..ThreadsQuery::default() };
        let query = Query { span, ..Query::default() };
        let threads = Tallier::default().threads(&played.profile, &played.names, &query, &asked);
        threads.processes[0].threads[0].stack.iter().map(|row| row.short.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(stack(vec![sigtop::profile::thread::ThreadId(0)]), ["string", "parse", "main"]);
    assert!(stack(Vec::new()).is_empty(), "no stack is built that is not requested");
}
