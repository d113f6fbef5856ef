//! Tests of the delivery under a clock that only the test moves.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::pprof::profile::{Function, Line, Location, SavedProfile, ValueType};
use crate::pprof::samples::Samples;
use crate::push::divide;

/// A part with this many entries of one sample each.
fn part(entries: u32) -> PushPart {
    let mut samples = Samples::with_width(1);
    (0..entries).for_each(|entry| samples.push(&[entry], &[1], 0));
    let lines = |function| vec![Line { function, line: 0, column: 0 }];
    let location = |entry| Location { id: u64::from(entry) + 1, lines: lines(entry), ..Location::default() };
    let function = |entry| Function { name: format!("f{entry}").into(), ..Function::default() };
    let profile = SavedProfile {
        sample_types: vec![ValueType::new("samples", "count")],
        samples,
        labels: vec![[].into()],
        locations: (0..entries).map(location).collect(),
        functions: (0..entries).map(function).collect(),
        ..SavedProfile::default()
    };
    divide(profile).expect("parts").remove(0)
}

/// A part of this many bytes, whose file is never read.
fn part_of_bytes(bytes: usize) -> PushPart {
    PushPart { pprof: vec![0; bytes], samples: 100, entries: 1 }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn retry(after: Option<Duration>) -> RequestOutcome {
    RequestOutcome::Retry(after, "HTTP status 503".to_owned())
}

/// The samples that are delivered, waiting or lost.
fn accounted(delivery: &Delivery) -> u64 {
    let counts = delivery.counts();
    counts.delivered + counts.waiting + counts.lost()
}

/// An hour without an answer, with a part every ten seconds and requests that take `request`.
fn run_outage(bytes: usize, request: Duration) -> (Delivery, Vec<Duration>) {
    let (mut delivery, mut attempts, mut now) = (Delivery::default(), Vec::new(), Duration::ZERO);
    let outage = seconds(3600);
    let (mut next_part, mut parts) = (Duration::ZERO, 0);
    while now < outage + seconds(600) {
        if next_part <= now {
            delivery.add(part_of_bytes(bytes), usize::MAX);
            (next_part, parts) = (next_part + seconds(10), parts + 1);
        }
        if delivery.start(now).is_some() {
            attempts.push(now);
            now += request;
            delivery.finish(if now < outage { retry(None) } else { RequestOutcome::Delivered }, now, 0.5);
        }
        assert_eq!(accounted(&delivery), parts * 100);
        assert!(delivery.bytes <= MAX_BYTES && delivery.waiting.len() <= MAX_PARTS);
        now = delivery.due().map_or(next_part, |due| due.min(next_part)).max(now + Duration::from_millis(1));
    }
    (delivery, attempts)
}

#[test]
fn all_samples_of_an_hours_outage_are_delivered_where_there_is_room() {
    let (delivery, attempts) = run_outage(50_000, Duration::from_millis(20));
    let counts = delivery.counts();
    assert_eq!((counts.delivered, counts.lost(), counts.failure), (42_000, 0, None));
    let during = attempts.iter().filter(|&&at| at < seconds(3600)).count();
    assert!((60..100).contains(&during), "{during} requests while nothing answers");
}

#[test]
fn the_oldest_samples_of_an_hours_outage_are_counted_where_there_is_no_room() {
    let (delivery, _) = run_outage(1 << 20, seconds(2));
    let counts = delivery.counts();
    assert!(counts.lost[PushLoss::BufferFull as usize] > 30_000, "{counts:?}");
    assert_eq!(counts.delivered + counts.waiting + counts.lost(), 42_000);
    assert!(counts.delivered >= 3_200, "{counts:?}");
}

#[test]
fn nothing_is_sent_before_the_time_that_the_server_asks_for() {
    let mut delivery = Delivery::default();
    delivery.add(part(1), usize::MAX);
    assert!(delivery.start(seconds(5)).is_some());
    assert_eq!(delivery.start(seconds(5)), None, "one request at a time");
    delivery.finish(retry(Some(seconds(40))), seconds(6), 1.0);
    assert_eq!((delivery.due(), delivery.start(seconds(45))), (Some(seconds(46)), None));
    assert!(delivery.start(seconds(46)).is_some());
    delivery.finish(retry(None), seconds(46), 0.0);
    assert_eq!(delivery.due(), Some(seconds(47)), "half of two seconds");
    delivery.hurry(seconds(46));
    assert!(delivery.start(seconds(46)).is_some());
    delivery.finish(RequestOutcome::Delivered, seconds(46), 0.0);
    assert!(delivery.is_done() && delivery.due().is_none());
}

#[test]
fn parts_that_are_too_large_are_divided_until_they_fit() {
    let mut delivery = Delivery::default();
    delivery.add(part(10), 8);
    let (mut sent, mut now) = (Vec::new(), Duration::ZERO);
    while let Some(part) = delivery.start(now) {
        now += seconds(1);
        let outcome =
            if part.entries > 2 { RequestOutcome::TooLarge("413".to_owned()) } else { RequestOutcome::Delivered };
        sent.push(part.entries);
        delivery.finish(outcome, now, 0.0);
    }
    assert_eq!(sent, [5, 2, 3, 1, 2, 5, 2, 3, 1, 2]);
    assert_eq!((delivery.counts().delivered, delivery.counts().lost()), (10, 0));
    delivery.add(part(1), usize::MAX);
    delivery.start(now).expect("a part");
    delivery.finish(RequestOutcome::TooLarge("413".to_owned()), now, 0.0);
    assert_eq!(delivery.counts().lost[PushLoss::TooLarge as usize], 1);
}

#[derive(Clone, Debug)]
enum DeliveryStep {
    Add(u32),
    Request(u8, u64),
    Pass(u64),
    GiveUp,
}

fn step() -> impl Strategy<Value = DeliveryStep> {
    prop_oneof![
        (1u32..20).prop_map(DeliveryStep::Add),
        (0u8..5, 0u64..400).prop_map(|(outcome, after)| DeliveryStep::Request(outcome, after)),
        (0u64..100).prop_map(DeliveryStep::Pass),
        Just(DeliveryStep::GiveUp),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_sample_is_delivered_waiting_or_counted(steps in prop::collection::vec(step(), 1..40)) {
        let (mut delivery, mut added, mut now) = (Delivery::default(), 0, Duration::ZERO);
        for step in steps {
            match step {
                DeliveryStep::Add(entries) => {
                    delivery.add(part(entries), 7);
                    added += u64::from(entries);
                }
                DeliveryStep::Request(outcome, after) => {
                    let not_before = delivery.due();
                    if delivery.start(now).is_some() {
                        prop_assert!(not_before.is_some_and(|due| due <= now));
                        let outcome = match outcome {
                            0 => RequestOutcome::Delivered,
                            1 => RequestOutcome::Refused(String::new()),
                            2 => RequestOutcome::TooLarge(String::new()),
                            3 => retry(Some(seconds(after))),
                            _ => retry(None),
                        };
                        let wait = match &outcome {
                            RequestOutcome::Retry(wait, _) => Some(wait.unwrap_or(FIRST_WAIT / 2)),
                            _ => None,
                        };
                        delivery.finish(outcome, now, 0.3);
                        if let (Some(wait), Some(due)) = (wait, delivery.due()) {
                            prop_assert!(due >= now + wait);
                        }
                    }
                }
                DeliveryStep::Pass(time) => now += seconds(time),
                DeliveryStep::GiveUp => delivery.give_up(),
            }
            prop_assert_eq!(accounted(&delivery), added);
        }
    }
}
