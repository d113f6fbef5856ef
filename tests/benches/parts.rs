//! Cost of a sample in the viewer, by step and without its threads: adding it to the profile,
//! recording it, and aggregating it for an answer about the last ten seconds. `cargo bench --bench
//! parts`; `--rate`, `--stacks` and `--answers` (per second) change the load, `--seconds` its
//! length.

#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[expect(dead_code, reason = "a bench uses a part of what the benches share")]
#[path = "measure.rs"]
mod measure;
#[expect(dead_code, reason = "a bench uses a part of what the benches share")]
#[path = "speaker.rs"]
mod speaker;

use std::time::Instant;

use measure::{argument, median};
use sigtop::link::recording::{Encoder, RecordingInfo};
use sigtop::profile::Profile;
use sigtop::profile::totals::Span;
use sigtop::symbols::Names;
use sigtop::tally::flame::FlameQuery;
use sigtop::tally::query::Query;
use sigtop::tally::tallier::{Extras, Tallier};
use sigtop::wire::{Arrival, Clock, Engine};

/// Number of samples per batch, as in the viewer.
const AT_ONCE: usize = 64;
/// Number of sampled threads.
const THREADS: u64 = 16;
/// Number of functions whose callers are requested after each answer.
const KEYS: u64 = 8;
/// Seconds of warm-up before the measurement: every stack has occurred, and the window is full.
const BEFORE: u64 = 120;

fn main() {
    let (rate, answers, seconds) = (argument("rate", 8_000), argument("answers", 1).max(1), argument("seconds", 30));
    let stacks = argument("stacks", speaker::STACKS).clamp(1, speaker::STACKS);
    let sites = speaker::call_sites(&speaker::functions());
    let about = RecordingInfo {
        version: String::new(),
        command: String::new(),
        host: String::new(),
        names: false,
        launched: true,
        pid: 7,
        clock: Clock::Prof,
        engine: Engine::Threads,
        period_ns: 1_000_000,
        started_ns: 0,
        started_unix_ns: 0,
        origin: None,
        kernel: String::new(),
    };
    let (mut profile, mut names, mut tallier) = (Profile::default(), Names::default(), Tallier::default());
    let mut encoder = Encoder::uncompressed(&about);
    profile.apply(speaker::hello());
    let form = FlameQuery { least_share: 0.002, ..FlameQuery::default() };
    let (mut packed, mut number) = (Vec::new(), 0u64);
    let (mut taken_ns, mut recorded_ns) = (Vec::new(), Vec::new());
    let (mut answered_ms, mut keyed_ms) = (Vec::new(), Vec::new());
    for answer in 0..(BEFORE + seconds) * answers {
        let (mut taken, mut recorded, mut count) = (0.0, 0.0, 0.0);
        while number < (answer + 1) * rate / answers {
            let batch: Vec<Arrival> = (0..AT_ONCE)
                .map(|_| {
                    number += 1;
                    let (stack, at_ns) = (speaker::mixed(number) % stacks, number * (1_000_000_000 / rate));
                    speaker::stack(stack, &sites, &mut packed);
                    speaker::sampled(100 + (stack * THREADS / stacks) as u32, at_ns, &packed)
                })
                .collect();
            count += batch.len() as f64;
            let start = Instant::now();
            encoder.write_events(&batch);
            drop(encoder.take_blocks());
            let written = start.elapsed().as_secs_f64();
            profile.apply_all(batch);
            recorded += written;
            taken += start.elapsed().as_secs_f64() - written;
        }
        names.catch_up(&profile);
        let now_ns = number * (1_000_000_000 / rate);
        let query = Query { span: Span::Last { ns: 10_000_000_000, now_ns }, ..Query::default() };
        let besides = Extras { flame: Some(&form), total: true, trends: true, ..Extras::default() };
        let start = Instant::now();
        let table = tallier.answer(&profile, &names, &query, besides).table;
        if answer >= BEFORE * answers {
            answered_ms.push(start.elapsed().as_secs_f64() * 1e3);
            for key in 0..KEYS {
                let row = &table.rows[speaker::mixed(answer * KEYS + key) as usize % table.rows.len()];
                let besides = Extras { center: Some(&row.full), reuse_samples: true, ..besides };
                let start = Instant::now();
                tallier.answer(&profile, &names, &query, besides);
                keyed_ms.push(start.elapsed().as_secs_f64() * 1e3);
            }
            taken_ns.push(taken / count * 1e9);
            recorded_ns.push(recorded / count * 1e9);
        }
    }
    let (taken, recorded, answered) = (median(taken_ns), median(recorded_ns), median(answered_ms));
    println!("{rate} samples a second of {stacks} stacks: {taken:.0} ns to take one in, {recorded:.0} to record it");
    println!(
        "an answer: {answered:.1} ms, {answers} a second; the same of another function: {:.2} ms",
        median(keyed_ms)
    );
    let all = (taken + recorded) * rate as f64 / 1e7 + answered * answers as f64 / 10.0;
    println!("together {all:.2} % of a core");
}
