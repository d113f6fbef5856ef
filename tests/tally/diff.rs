//! Compares spans of the past and differences from a baseline with oracles that add up all samples.

use std::collections::{BTreeMap, BTreeSet};

use crate::property::property;
use proptest::prelude::*;
use sigtop::profile::totals::{BUCKET_NS, Span};
use sigtop::session::Model;
use sigtop::session::{Facts, HistoryWindow, Question};
use sigtop::symbols::scenario::Script;
use sigtop::tally::change::{Change, Changes};
use sigtop::tally::flame::{Flame, FlameQuery};
use sigtop::tally::lines::{LineWeight, RowLines};
use sigtop::tally::query::{Filters, Query, Sort};
use sigtop::tally::threads::{Load, ThreadTable, ThreadsQuery};
use sigtop::tally::top::{TopRow, TopTable};
use sigtop::tally::trend::Trend;
use sigtop::wire::Clock;

use crate::stacks::{Sample, THREADS, counted, is_listed, query, samples, text};

/// Flat and cum of rows, by name.
type Sums = BTreeMap<String, (i128, i128)>;

fn sums(samples: &[Sample], query: &Query) -> Sums {
    let mut sums = Sums::new();
    for (steps, weight) in counted(samples, query) {
        let weight = i128::from(weight);
        sums.entry(steps.last().unwrap().0.clone()).or_default().0 += weight;
        for name in steps.into_iter().map(|step| step.0).collect::<BTreeSet<_>>() {
            sums.entry(name).or_default().1 += weight;
        }
    }
    sums.retain(|name, (flat, _)| is_listed(query, name, *flat as u64));
    sums
}

/// Returns `now` minus `before`.
fn less(now: &Sums, before: &Sums) -> Sums {
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let of = |sums: &Sums, name: &String| sums.get(name).copied().unwrap_or_default();
    let one = |name: &String| {
        let (now, before) = (of(now, name), of(before, name));
        (name.clone(), (now.0 - before.0, now.1 - before.1))
    };
    names.into_iter().map(one).collect()
}

fn extract(table: &sigtop::tally::top::TopTable) -> Sums {
    let signed = |ns: u64, negative: bool| if negative { -i128::from(ns) } else { ns.into() };
    let row = |row: &sigtop::tally::top::TopRow| {
        let (flat, cum) = row.changes.map_or((false, false), |changes| (changes.flat.negative, changes.cum.negative));
        (row.full.to_string(), (signed(row.flat_ns, flat), signed(row.cum_ns, cum)))
    };
    table.rows.iter().map(row).collect()
}

/// Weights of boxes, by path of names, root first.
type Boxes = BTreeMap<Vec<String>, u64>;

fn boxes(samples: &[Sample], query: &Query, bottom_up: bool) -> Boxes {
    let mut boxes = Boxes::new();
    for (mut steps, weight) in counted(samples, query) {
        if bottom_up {
            steps.reverse();
        }
        for depth in 0..=steps.len() {
            *boxes.entry(steps[..depth].iter().map(|step| step.0.clone()).collect()).or_default() += weight;
        }
    }
    boxes
}

/// Width and difference of boxes, by path.
type Wide = BTreeMap<Vec<String>, (u64, i128)>;

fn both(now: &Boxes, before: &Boxes) -> Wide {
    let paths: BTreeSet<&Vec<String>> = now.keys().chain(before.keys()).collect();
    let of = |boxes: &Boxes, path: &Vec<String>| boxes.get(path).copied().unwrap_or(0);
    let one = |path: &Vec<String>| {
        let (now, before) = (of(now, path), of(before, path));
        (path.clone(), (now + before, i128::from(now) - i128::from(before)))
    };
    paths.into_iter().map(one).collect()
}

fn signed(ns: u64, change: Option<Change>) -> i128 {
    if change.unwrap().negative { -i128::from(ns) } else { ns.into() }
}

fn boxes_told(flame: &Flame) -> Wide {
    let mut paths: Vec<Vec<String>> = Vec::new();
    let mut figures = Wide::new();
    for (index, this) in flame.boxes.iter().enumerate() {
        let mut path = if index == 0 { Vec::new() } else { paths[this.parent].clone() };
        if index > 0 {
            assert!(flame.boxes[this.parent].children.contains(&index));
            path.push(this.full.to_string());
        }
        let children = &flame.boxes[this.children.clone()];
        assert!(children.is_sorted_by(|a, b| a.full < b.full));
        assert_eq!(children.iter().map(|child| child.weight_ns).sum::<u64>() + this.self_ns, this.weight_ns);
        let difference = this.difference.unwrap();
        figures.insert(path.clone(), (this.weight_ns, signed(difference.ns, Some(difference.change))));
        paths.push(path);
    }
    figures
}

/// Returns flat and cum of the lines of a row, by `file:line`.
fn places(samples: &[Sample], query: &Query, centre: &str) -> Sums {
    let mut sums = Sums::new();
    for sample in samples.iter().filter(|sample| sample.is_in(query.span) && sample.weight_ms > 0) {
        // The leaf of a stack that was reduced to it has no lines.
        let Some((mut stack, is_reduced)) = sample.reduced(query) else { continue };
        stack.truncate(stack.len() - usize::from(is_reduced));
        let lines = stack.iter().flat_map(|location| &location.lines);
        let names = sample.steps(&stack, query.group);
        let on: Vec<(bool, String)> =
            names.iter().zip(lines).map(|(step, line)| (step.0 == centre, format!("{}:{}", line.1, line.2))).collect();
        let weight = i128::from(sample.weight_ns());
        for place in on.iter().filter(|(is_centre, _)| *is_centre).map(|(_, place)| place).collect::<BTreeSet<_>>() {
            sums.entry(place.clone()).or_default().1 += weight;
        }
        if let Some((true, place)) = on.last().filter(|_| !is_reduced) {
            sums.entry(place.clone()).or_default().0 += weight;
        }
    }
    sums
}

fn places_told(lines: &RowLines) -> Sums {
    let line = |line: &LineWeight| {
        let of = |pick: fn(Changes) -> Change| line.changes.map(pick);
        let numbers =
            (signed(line.flat_ns, of(|changes| changes.flat)), signed(line.cum_ns, of(|changes| changes.cum)));
        (format!("{}:{}", line.file, line.line), numbers)
    };
    lines.lines.iter().map(line).collect()
}

/// Returns the difference of a row's shares in the measure that rows are sorted by, as a key by
/// which the greatest come first: a rounded number of points, so that equal ones are equal.
fn points(row: &TopRow, table: &TopTable, sort: Sort) -> i64 {
    let changes = row.changes.unwrap();
    let (difference, before) = match sort {
        Sort::Flat => (signed(row.flat_ns, Some(changes.flat)), changes.before_ns.0),
        Sort::Cum | Sort::Latency => (signed(row.cum_ns, Some(changes.cum)), changes.before_ns.1),
        Sort::Name => return 0,
    };
    let share = |ns: i128, all: u64| ns as f64 / all.max(1) as f64;
    let now = share(i128::from(before) + difference, table.total_ns - table.before_ns);
    -((now - share(before.into(), table.before_ns)).abs() * 1e9).round() as i64
}

/// Returns weight and number of samples, by process and by thread.
fn owners(samples: &[Sample], query: &Query) -> Sums {
    let filters = Filters { tagfocus: Vec::new(), tagignore: Vec::new(), ..query.filters.clone() };
    let query = Query { filters, ..query.clone() };
    let mut sums = Sums::new();
    for sample in samples.iter().filter(|sample| sample.is_in(query.span) && sample.filtered(&query).is_some()) {
        let (pid, tid, ..) = THREADS[sample.thread];
        for owner in [format!("{pid}"), format!("{pid}/{tid}")] {
            let sum = sums.entry(owner).or_default();
            *sum = (sum.0 + i128::from(sample.weight_ns()), sum.1 + 1);
        }
    }
    sums
}

fn owners_told(threads: &ThreadTable) -> Sums {
    let one = |load: &Load| {
        let change = load.change.unwrap();
        let samples = i128::from(load.weight.samples) * if change.fewer { -1 } else { 1 };
        (signed(load.weight.ns, Some(change.weight)), samples)
    };
    let mut figures = Sums::new();
    for process in &threads.processes {
        figures.insert(format!("{}", process.pid), one(&process.load));
        figures.extend(process.threads.iter().map(|row| (format!("{}/{}", process.pid, row.tid), one(&row.load))));
    }
    figures
}

/// Returns one of the existing rows, or `nobody`, which no row is called.
fn one_of(samples: &[Sample], query: &Query, centre: prop::sample::Index) -> String {
    let whole = Query { group: query.group, roots: query.roots, ..Query::default() };
    let names: BTreeSet<String> =
        counted(samples, &whole).into_iter().flat_map(|(steps, _)| steps).map(|step| step.0).collect();
    let names: Vec<String> = names.into_iter().chain(["nobody".to_owned()]).collect();
    centre.get(&names).clone()
}

fn facts() -> Facts {
    Facts::unknown(Clock::Prof)
}

/// Creates a model with the samples taken before `until_ms` and their names.
fn model(script: &Script, question: Question, until_ms: u64) -> Model {
    let mut model = Model::new(Clock::Prof, question);
    arrive(&mut model, script, 0, until_ms);
    model
}

fn arrive(model: &mut Model, script: &Script, from_ms: u64, until_ms: u64) {
    let time = from_ms * 1_000_000..until_ms * 1_000_000;
    for (index, arrival) in script.arrivals.iter().enumerate() {
        let is_sample =
            matches!(&arrival.event, sigtop::wire::ConnectionEvent::Received(sigtop::wire::Message::Sample(..)));
        if is_sample && time.contains(&arrival.at_ns) || !is_sample && from_ms == 0 && index < script.arrivals.len() {
            model.profile.apply(arrival.clone());
        }
    }
    for request in model.names.catch_up(&model.profile) {
        model.names.absorb(script.reply(&request));
    }
}

fn question(query: &Query, ms: u64) -> Question {
    let Query { filters, sort, group, roots, own, .. } = query.clone();
    Question { window_ns: Some(ms * 1_000_000), filters, sort, group, roots, own, ..Question::default() }
}

proptest! {
    #![proptest_config(property(200))]

    #[test]
    fn a_span_of_the_past_is_the_sum_of_its_samples(
        samples in samples(),
        query in query(),
        now_ms in 0..5_000u64,
        walks in prop::collection::vec((0..60u64, 1..60u64), 1..6),
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let mut model = model(&script, question(&query, 1000), 10_000);
        model.freeze(now_ms * 1_000_000);
        for (back, ticks) in walks {
            model.set_question(Question { past: Some(HistoryWindow { back, buckets: ticks }), timeline: true, ..question(&query, 1000) });
            let answer = model.answer(9_999_000_000, facts());
            let now_ns = (now_ms * 1_000_000).saturating_sub(back * BUCKET_NS);
            let span = Span::Last { ns: ticks * BUCKET_NS, now_ns };
            prop_assert_eq!(extract(&answer.window), sums(&samples, &Query { span, ..query.clone() }));
            let heat = answer.timeline.unwrap().sum(back + ticks - 1, back);
            if let Some(heat) = heat.filter(|_| now_ms / 100 >= back) {
                prop_assert_eq!(heat, answer.window.kept_ns);
            }
        }
    }

    #[test]
    fn differences_are_those_of_the_sums(
        samples in samples(),
        query in query(),
        (mark_ms, then_ms) in (0..5_000u64, 0..5_000u64),
        ms in 1..4_500u64,
        (bottom_up, centre) in any::<(bool, prop::sample::Index)>(),
    ) {
        let form = FlameQuery { bottom_up, ..FlameQuery::default() };
        let script = Script::read(&text(&samples)).unwrap();
        let early: Vec<Sample> = samples.iter().filter(|sample| sample.at_ms < mark_ms).cloned().collect();
        let mut model = model(&script, question(&query, ms), mark_ms);
        model.set_baseline(true, mark_ms * 1_000_000);
        arrive(&mut model, &script, mark_ms, 10_000);
        let centre = one_of(&samples, &query, centre);
        let asked = Question {
            listing: Some(centre.clone()),
            centre: Some(centre.clone()),
            flame: Some(form.clone()),
            threads: Some(ThreadsQuery::default()),
            ..question(&query, ms)
        };
        model.set_question(asked);
        let answer = model.answer(then_ms * 1_000_000, facts());
        let spans = [(&samples[..], then_ms), (&early[..], mark_ms)].map(|(samples, at_ms)| {
            (samples, Query { span: Span::Last { ns: ms * 1_000_000, now_ns: at_ms * 1_000_000 }, ..query.clone() })
        });
        let [now, before] = [&spans[0], &spans[1]].map(|(samples, query)| boxes(samples, query, form.bottom_up));
        prop_assert_eq!(boxes_told(answer.flame.as_ref().unwrap()), both(&now, &before));
        let cum = |(samples, query): &(&[Sample], Query)| sums(samples, query).get(&centre).map_or(0, |sum| sum.1);
        let whole = cum(&spans[0]) + cum(&spans[1]);
        let callers = answer.callers.as_ref().unwrap();
        // Owners are not rows, but have callees.
        if centre.starts_with("thread:") || centre.starts_with("process:") {
            prop_assert!(i128::from(callers.whole_ns) >= whole);
        } else {
            prop_assert_eq!(i128::from(callers.whole_ns), whole);
        }
        prop_assert!(callers.callers.iter().chain(&callers.callees).all(|edge| edge.weight_ns <= callers.whole_ns));
        let [now, before] = [&spans[0], &spans[1]].map(|(samples, query)| places(samples, query, &centre));
        prop_assert_eq!(places_told(&answer.listing.as_ref().unwrap().lines), less(&now, &before));
        let [now, before] = [&spans[0], &spans[1]].map(|(samples, query)| owners(samples, query));
        let mut weights = owners_told(answer.threads.as_ref().unwrap());
        weights.retain(|_, difference| *difference != (0, 0));
        let mut expected = less(&now, &before);
        expected.retain(|_, difference| *difference != (0, 0));
        prop_assert_eq!(weights, expected);
        let of = |samples: &[Sample], span: Span| sums(samples, &Query { span, ..query.clone() });
        let last = |now_ms: u64| Span::Last { ns: ms * 1_000_000, now_ns: now_ms * 1_000_000 };
        prop_assert_eq!(extract(&answer.window), less(&of(&samples, last(then_ms)), &of(&early, last(mark_ms))));
        prop_assert_eq!(extract(&answer.total), less(&of(&samples, Span::Total), &of(&early, Span::Total)));
        prop_assert!(answer.window.rows.is_sorted_by_key(|row| points(row, &answer.window, query.sort)));
        model.set_baseline(false, 0);
        let plain = model.answer(then_ms * 1_000_000, facts());
        prop_assert_eq!(extract(&plain.window), of(&samples, last(then_ms)));
        prop_assert!(plain.window.rows.iter().all(|row| row.changes.is_none()));
        // A row has the same trend at any position in the table.
        let courses: BTreeMap<&str, _> =
            plain.window.rows.iter().zip(&plain.trends.rows).map(|(row, trend)| (row.full.as_str(), trend)).collect();
        let length = if courses.is_empty() { 0 } else { answer.window.rows.len() };
        prop_assert_eq!(answer.trends.rows.len(), length);
        for (row, trend) in answer.window.rows.iter().zip(&answer.trends.rows) {
            let own = courses.get(row.full.as_str()).map_or(Trend::default(), |trend| **trend);
            prop_assert_eq!(*trend, own);
        }
    }
}
