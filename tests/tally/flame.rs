//! Compares flame graphs with an oracle, box by box.

use std::collections::BTreeMap;

use crate::property::property;
use proptest::prelude::*;
use sigtop::profile::Profile;
use sigtop::symbols::Names;
use sigtop::symbols::scenario::{Script, scenario};
use sigtop::tally::flame::{Flame, FlameQuery, MAX_BOXES};
use sigtop::tally::query::{Query, Sort};
use sigtop::tally::tallier::Tallier;

use crate::stacks::{Sample, Step, counted, everything, played, query, samples, text};

/// Whether a box is inlined, its weight, its own weight.
type Figures = (bool, u64, u64);

/// Returns the stacks that `form` selects: root first or last, and only those within the zoom.
fn formed(samples: &[Sample], query: &Query, form: &FlameQuery) -> Vec<(Vec<Step>, u64)> {
    let mut stacks = counted(samples, query);
    for (steps, _) in stacks.iter_mut().filter(|_| form.bottom_up) {
        steps.reverse();
    }
    stacks.retain(|(steps, _)| {
        steps.len() >= form.zoom.len() && steps.iter().zip(&form.zoom).all(|(step, zoom)| step.0 == *zoom)
    });
    stacks
}

/// Returns every box, whatever its width, by path of names.
fn oracle(samples: &[Sample], query: &Query, form: &FlameQuery) -> BTreeMap<Vec<String>, Figures> {
    let mut boxes = BTreeMap::new();
    for (steps, weight) in formed(samples, query, form) {
        let names: Vec<String> = steps.iter().map(|step| step.0.clone()).collect();
        for depth in 0..=names.len() {
            let inlined = depth > 0 && steps[depth - 1].1;
            let (all_inlined, sum, own) = boxes.entry(names[..depth].to_vec()).or_insert((inlined, 0, 0));
            *all_inlined &= inlined;
            *sum += weight;
            *own += if depth == names.len() { weight } else { 0 };
        }
    }
    boxes
}

/// Returns every box by path of names, and checks that the boxes are well-formed.
fn extract(flame: &Flame) -> BTreeMap<Vec<String>, Figures> {
    let mut paths: Vec<Vec<String>> = Vec::new();
    let mut figures = BTreeMap::new();
    let mut next = 1;
    for (index, this) in flame.boxes.iter().enumerate() {
        let mut path = Vec::new();
        if index == 0 {
            assert_eq!((this.parent, &*this.full, &*this.short), (0, "", "all"));
        } else {
            assert!(flame.boxes[this.parent].children.contains(&index));
            path.clone_from(&paths[this.parent]);
            path.push(this.full.to_string());
        }
        assert_eq!(this.children.start, next, "level by level");
        next = this.children.end;
        let children = &flame.boxes[this.children.clone()];
        assert!(children.is_sorted_by(|a, b| a.full < b.full));
        assert!(children.iter().map(|child| child.weight_ns).sum::<u64>() + this.self_ns <= this.weight_ns);
        figures.insert(path.clone(), (this.inlined, this.weight_ns, this.self_ns));
        paths.push(path);
    }
    assert!(flame.boxes.is_empty() || next == flame.boxes.len());
    assert_eq!(figures.len(), flame.boxes.len());
    figures
}

fn form() -> impl Strategy<Value = (bool, usize, prop::sample::Index, f64)> {
    let least_share = prop_oneof![Just(0.0), 0.0..1.0f64];
    (any::<bool>(), 0..4usize, any::<prop::sample::Index>(), least_share)
}

/// Zooms along one of the stacks.
fn zoomed(
    samples: &[Sample],
    query: &Query,
    (bottom_up, depth, which, least_share): (bool, usize, prop::sample::Index, f64),
) -> FlameQuery {
    let mut form = FlameQuery { bottom_up, zoom: Vec::new(), least_share };
    let stacks = formed(samples, query, &form);
    if !stacks.is_empty() {
        form.zoom = which.get(&stacks).0.iter().take(depth).map(|step| step.0.clone()).collect();
    } else if depth > 2 {
        form.zoom = vec!["nobody".to_owned()];
    }
    form
}

proptest! {
    #![proptest_config(property(200))]

    #[test]
    fn the_boxes_are_the_oracles(samples in samples(), query in query(), form in form()) {
        let form = zoomed(&samples, &query, form);
        let played = played(&samples);
        let answer = Tallier::default().flame(&played.profile, &played.names, &query, &form);
        let every = oracle(&samples, &query, &form);
        let whole = every.get(&Vec::new()).map_or(0, |root| root.1);
        let wide = |path: &[String], figures: &Figures| path.len() <= form.zoom.len() || figures.1 as f64 >= whole as f64 * form.least_share;
        let (kept, narrow): (BTreeMap<_, _>, BTreeMap<_, _>) = every.into_iter().partition(|(path, figures)| wide(path, figures));
        let left_out = narrow.keys().filter(|path| kept.contains_key(&path[..path.len() - 1])).count();
        prop_assert_eq!(extract(&answer), kept);
        prop_assert_eq!(answer.hidden, left_out as u64);
        for this in answer.boxes.iter().filter(|_| answer.hidden == 0) {
            let children: u64 = answer.boxes[this.children.clone()].iter().map(|child| child.weight_ns).sum();
            prop_assert_eq!(children + this.self_ns, this.weight_ns);
        }
    }

    /// Samples and names arrive in pieces, and flame queries and filters change in between.
    #[test]
    fn a_kept_tallier_answers_as_a_new_one(
        samples in samples(),
        questions in prop::collection::vec((query(), form(), any::<bool>()), 1..5),
        pieces in 1..6usize,
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let (mut profile, mut names, mut tallier) = (Profile::default(), Names::default(), Tallier::default());
        let mut asked = Vec::new();
        for piece in script.arrivals.chunks(script.arrivals.len().div_ceil(pieces)) {
            piece.iter().for_each(|arrival| profile.apply(arrival.clone()));
            profile.add_owner_frames();
            let late = std::mem::replace(&mut asked, names.catch_up(&profile));
            for (query, form, whole) in &questions {
                let form = &zoomed(&samples, query, *form);
                if *whole {
                    let (kept, fresh) = (tallier.flame(&profile, &names, query, form), Tallier::default().flame(&profile, &names, query, form));
                    prop_assert_eq!((extract(&kept), kept.hidden), (extract(&fresh), fresh.hidden));
                } else {
                    tallier.table(&profile, &names, query);
                }
            }
            late.iter().for_each(|request| names.absorb(script.reply(request)));
        }
    }
}

#[test]
fn recursion_nests_and_a_call_is_inlined_where_it_always_is() {
    let played = scenario("process 7 ./a\nat 1s prof 30ms main;f;f;g (inline)\nat 1s prof 10ms main;f;f;g").unwrap();
    let query = everything(Sort::Flat);
    let line = |form: FlameQuery| {
        let answer = Tallier::default().flame(&played.profile, &played.names, &query, &form);
        let one = |this: &sigtop::tally::flame::FlameBox| {
            let mark = if this.inlined { " (inline)" } else { "" };
            format!("{}{mark} {}+{}", this.short, this.weight_ns / 1_000_000, this.self_ns / 1_000_000)
        };
        answer.boxes.iter().map(one).collect::<Vec<_>>().join(" > ")
    };
    assert_eq!(line(FlameQuery::default()), "all 40+0 > main 40+0 > f 40+0 > f 40+0 > g 40+40");
    let bottom_up = FlameQuery { bottom_up: true, ..FlameQuery::default() };
    assert_eq!(line(bottom_up), "all 40+0 > g 40+0 > f 40+0 > f 40+0 > main 40+40");
    let hidden = scenario("process 7 ./a\nat 1s prof 30ms main;g (inline);f").unwrap();
    let answer = Tallier::default().flame(&hidden.profile, &hidden.names, &query, &FlameQuery::default());
    assert_eq!(answer.boxes.iter().map(|this| this.inlined).collect::<Vec<_>>(), [false, false, true, false]);
}

#[test]
fn of_too_many_boxes_the_widest_are_there() {
    let (mut text, calls) = ("process 7 ./a\n".to_owned(), MAX_BOXES + 50);
    for call in 0..calls {
        let weight = if call % 100 == 7 { "2ms" } else { "1ms" };
        text += &format!("at 1s prof {weight} main;f{call}\n");
    }
    text += "at 1s prof 900ms main;f3;g;h\n";
    let played = scenario(&text).unwrap();
    let answer =
        Tallier::default().flame(&played.profile, &played.names, &everything(Sort::Flat), &FlameQuery::default());
    assert_eq!((answer.boxes.len(), answer.hidden), (MAX_BOXES, calls as u64 + 4 - MAX_BOXES as u64));
    let names: Vec<&str> = answer.boxes.iter().map(|this| this.full.as_str()).collect();
    assert!(["g", "h", "f3", "f7", "f20007"].iter().all(|name| names.contains(name)));
    extract(&answer);
}
