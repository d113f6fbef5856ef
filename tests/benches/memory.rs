//! Memory of the viewer's desk after an hour: 3.6 million samples, 1 000 a second, played on a fake clock, with an answer every ten seconds.
//! What it takes beyond the start is names, stacks, totals and the past.
//!
//! `cargo bench --bench memory -- --stacks 20000`. Stacks have 60 frames.

#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[expect(dead_code, reason = "a bench uses a part of what the benches share")]
#[path = "measure.rs"]
mod measure;
#[expect(dead_code, reason = "a bench uses a part of what the benches share")]
#[path = "speaker.rs"]
mod speaker;

use std::fs;

use measure::argument;
use sigtop::profile::Profile;
use sigtop::profile::window::Span;
use sigtop::symbols::Names;
use sigtop::tally::flame::FlameQuery;
use sigtop::tally::query::Query;
use sigtop::tally::tallier::{Besides, Tallier};

/// Samples of an hour, at 1 000 a second.
const SAMPLES: u64 = 3_600_000;
const PERIOD_NS: u64 = 1_000_000;
/// Between two answers.
const ANSWER_EVERY: u64 = 10_000;

/// Memory of this process, MB: now, and at most so far.
fn resident_mb() -> (f64, f64) {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
    };
    (number("VmRSS:"), number("VmHWM:"))
}

fn main() {
    let stacks = argument("stacks", 20_000).clamp(1, speaker::STACKS);
    let sites = speaker::call_sites(&speaker::functions());
    let (mut profile, mut names, mut tallier) = (Profile::default(), Names::default(), Tallier::default());
    let before = resident_mb().0;
    profile.apply(speaker::hello());
    let (mut packed, form) = (Vec::new(), FlameQuery { least_share: 0.002, ..FlameQuery::default() });
    for number in 0..SAMPLES {
        let at_ns = (number + 1) * PERIOD_NS;
        // Spread over the whole tree, so that few stacks are as unlike as many.
        let stack = speaker::mixed(number) % stacks * (speaker::STACKS / stacks);
        speaker::stack(stack, &sites, &mut packed);
        profile.apply(speaker::sampled(100 + (stack % 8) as u32, at_ns, &packed));
        if number % ANSWER_EVERY == 0 {
            names.catch_up(&profile);
            let query = Query { span: Span::Last { ns: 10_000_000_000, now_ns: at_ns }, ..Query::default() };
            let besides = Besides { flame: Some(&form), total: true, trends: true, ..Besides::default() };
            tallier.answer(&profile, &names, &query, besides);
        }
    }
    let (now, most) = resident_mb();
    let nodes = profile.stacks.len();
    println!("{SAMPLES} samples of {stacks} distinct stacks, {nodes} nodes, in a fake hour");
    println!("{:.1} MB more than before, {:.1} MB at most", now - before, most - before);
}
