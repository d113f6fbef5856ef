//! Memory of the viewer's model after an hour: 3.6 million samples, 1 000 per second, played on a
//! fake clock, with an answer every ten seconds. The growth since the start is names, stacks,
//! totals and history.
//!
//! `cargo bench --bench memory -- --stacks 20000`. Stacks have 60 frames. `--random 1` takes a
//! minute of random stacks of 512 frames instead, `--limit` sets the memory limit in MB, and
//! `--owners 1` shows threads at the root of stacks.

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
use sigtop::profile::totals::Span;
use sigtop::symbols::Names;
use sigtop::tally::flame::FlameQuery;
use sigtop::tally::query::{Query, TagRoot};
use sigtop::tally::tallier::{Extras, Tallier};

/// Number of samples in an hour, at 1 000 per second.
const SAMPLES: u64 = 3_600_000;
const PERIOD_NS: u64 = 1_000_000;
/// The number of samples between two answers.
const ANSWER_EVERY: u64 = 10_000;

/// Returns the memory of this process in MB: the current and the peak value.
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
    let is_random = argument("random", 0) > 0;
    profile.set_memory_limit(argument("limit", 512) << 20);
    let samples = if is_random { SAMPLES / 60 } else { SAMPLES };
    let roots = if argument("owners", 0) > 0 { TagRoot::Threads } else { TagRoot::default() };
    let before = resident_mb().0;
    profile.apply(speaker::hello());
    let (mut packed, form) = (Vec::new(), FlameQuery { least_share: 0.002, ..FlameQuery::default() });
    for number in 0..samples {
        let at_ns = (number + 1) * PERIOD_NS;
        // The stacks are spread over the whole tree, so that few stacks are as different as many.
        let stack = speaker::mixed(number) % stacks * (speaker::STACKS / stacks);
        speaker::stack(stack, &sites, &mut packed);
        if is_random {
            let site = |at| sites[(speaker::mixed(number * 512 + at) % sites.len() as u64) as usize];
            packed = (0..512).map(site).collect();
        }
        profile.apply(speaker::sampled(100 + (stack % 8) as u32, at_ns, &packed));
        if number % ANSWER_EVERY == 0 {
            names.catch_up(&profile);
            let query = Query { span: Span::Last { ns: 10_000_000_000, now_ns: at_ns }, roots, ..Query::default() };
            let besides = Extras { flame: Some(&form), total: true, trends: true, ..Extras::default() };
            tallier.answer(&profile, &names, &query, besides);
        }
    }
    let (now, most) = resident_mb();
    let nodes = profile.stacks.len();
    println!("{samples} samples of {stacks} distinct stacks, {nodes} nodes, in a fake hour");
    println!("{:.1} MB more than before, {:.1} MB at most", now - before, most - before);
}
