//! The memory limit: what is dropped, and that all sums stay right.

use std::collections::BTreeMap;

use sigtop::profile::stack::Frame;
use sigtop::profile::totals::{BUCKET_NS, Span};
use sigtop::profile::{MIN_MEMORY_BYTES, Profile};
use sigtop::symbols::Names;
use sigtop::tally::flame::FlameQuery;
use sigtop::tally::query::{Grouping, Query};
use sigtop::tally::tallier::{Extras, Tallier};
use sigtop::wire::{Arrival, Clock, ConnectionEvent, FrameAddress, Hello, Message, Sample, SourceId, SpawnCause};

/// Frames of a random stack.
const DEPTH: u64 = 100;
/// Functions on random stacks.
const FUNCTIONS: u64 = 16;
const MAIN: u64 = 0x1000;
const HOT: u64 = 0x2000;

/// A session with random stacks, and one hot stack at every fourth sample.
struct RandomStacks {
    profile: Profile,
    names: Names,
    random: u64,
    samples: u64,
}

impl RandomStacks {
    fn new(limit_bytes: u64) -> RandomStacks {
        let mut profile = Profile::default();
        profile.set_memory_limit(limit_bytes);
        let hello = Hello {
            token: 0,
            pid: 7,
            parent: 1,
            start_ticks: 1,
            monotonic_ns: 0,
            cpu_ns: 0,
            spawn_cause: SpawnCause::Tick,
            executable: b"/bin/a"[..].into(),
            argv: b"a\0"[..].into(),
        };
        let event = ConnectionEvent::Received(Message::Hello(hello));
        profile.apply(Arrival { source: SourceId(0), pid: 7, at_ns: 0, event });
        RandomStacks { profile, names: Names::default(), random: 88_172_645_463_325_252, samples: 0 }
    }

    fn next_function(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        0x10_000 + self.random % FUNCTIONS * 16
    }

    /// Sends a sample of 1 ms each, 100 in each bucket, by two threads. Returns the address of the
    /// leaf.
    fn sample(&mut self) -> u64 {
        let frames: Vec<u64> = if self.samples.is_multiple_of(4) {
            [HOT; 1].into_iter().chain((0..50).map(|depth| 0x3000 + depth * 16)).chain([MAIN]).collect()
        } else {
            (0..DEPTH).map(|_| self.next_function()).chain([MAIN]).collect()
        };
        let packed: Vec<u64> = frames.iter().map(|&address| FrameAddress::Instruction(address).pack()).collect();
        let at_ns = self.now_ns();
        let tid = 70 + (self.samples % 2) as u32;
        let (clock, weight_ns) = (Clock::Prof, 1_000_000);
        let sample = Sample {
            tid,
            clock,
            flags: 0,
            generation: 0,
            monotonic_ns: at_ns,
            weight_ns,
            allocation: Default::default(),
            age_ms: 0,
            slot: 0,
        };
        let event = ConnectionEvent::Received(Message::Sample(sample, packed.as_slice().into()));
        self.profile.apply(Arrival { source: SourceId(0), pid: 7, at_ns, event });
        self.samples += 1;
        frames[0]
    }

    fn now_ns(&self) -> u64 {
        self.samples * (BUCKET_NS / 100)
    }

    /// The flat weight in ns of each leaf address, as the profile has it.
    fn flats(&self) -> BTreeMap<u64, u64> {
        let mut flats = BTreeMap::new();
        self.profile.visit(Clock::Prof, Span::Total, |(_, stack), weight| {
            let leaf = self.profile.stacks.leaf_first(stack).next().expect("a leaf");
            let Frame::Unmapped { address, .. } = self.profile.frame(leaf) else { panic!("{leaf:?} is no leaf") };
            *flats.entry(address).or_default() += weight.ns;
        });
        flats
    }
}

#[test]
fn random_stacks_stay_below_the_limit_and_every_total_stays_right() {
    let mut session = RandomStacks::new(MIN_MEMORY_BYTES);
    let most = session.profile.max_stacks();
    let (mut flats, mut reached) = (BTreeMap::<u64, u64>::new(), 0);
    // Twice as many stacks as fit, beside the hot one.
    for _ in 0..3 * most as u64 / DEPTH {
        *flats.entry(session.sample()).or_default() += 1_000_000;
        assert!(session.profile.stacks.len() <= most + DEPTH as usize + 1);
        reached += u64::from(session.profile.stacks.version() > reached);
    }
    assert!(session.profile.has_reached_memory_limit() && reached >= 2, "{reached}");
    assert_eq!(session.flats(), flats);
    let overflows = session.profile.overflows();
    assert!(overflows.memory > session.samples / 8 && overflows.memory < session.samples, "{overflows:?}");
    assert!(overflows.window > 0 && overflows.stacks == 0, "{overflows:?}");
    // Threads keep their shares.
    let mut threads = BTreeMap::<u32, u64>::new();
    session.profile.visit(Clock::Prof, Span::Total, |(thread, _), weight| {
        *threads.entry(session.profile.thread(thread).tid).or_default() += weight.samples;
    });
    assert!(threads.values().all(|&samples| samples.abs_diff(session.samples / 2) <= 1), "{threads:?}");
}

#[test]
fn the_newest_history_and_heavy_stacks_are_whole() {
    let mut session = RandomStacks::new(MIN_MEMORY_BYTES);
    while session.profile.stacks.version() < 3 {
        session.sample();
    }
    let depths = |session: &RandomStacks, span| {
        let mut depths = BTreeMap::<usize, u64>::new();
        session.profile.visit(Clock::Prof, span, |(_, stack), weight| {
            *depths.entry(session.profile.stacks.leaf_first(stack).count()).or_default() += weight.samples;
        });
        depths
    };
    // The last second has 1 000 samples, and only whole stacks.
    let newest = depths(&session, Span::Last { ns: BUCKET_NS, now_ns: session.now_ns() });
    assert!(newest.keys().all(|&depth| depth == 52 || depth == DEPTH as usize + 1), "{newest:?}");
    // The hot stack is whole at any age. Others are cut to the part that they share with many.
    let all = depths(&session, Span::Total);
    assert_eq!(all[&52], session.samples.div_ceil(4));
    assert!(all.range(3..12).map(|(_, samples)| samples).sum::<u64>() > session.samples / 4, "{all:?}");
}

#[test]
fn answers_after_a_cut_are_those_of_a_new_tallier() {
    let mut session = RandomStacks::new(MIN_MEMORY_BYTES);
    let (mut tallier, form) = (Tallier::default(), FlameQuery { least_share: 0.01, ..FlameQuery::default() });
    let mut last_version = 0;
    while session.profile.stacks.version() < 2 {
        for _ in 0..20 {
            session.sample();
        }
        let is_cut = session.profile.stacks.version() > last_version;
        last_version = session.profile.stacks.version();
        if !is_cut && !session.samples.is_multiple_of(500) {
            continue;
        }
        session.names.catch_up(&session.profile);
        let query = Query {
            span: Span::Last { ns: 5 * BUCKET_NS, now_ns: session.now_ns() },
            group: Grouping::Address,
            ..Query::default()
        };
        let extras = Extras { flame: Some(&form), total: true, trends: true, ..Extras::default() };
        let kept = tallier.answer(&session.profile, &session.names, &query, extras);
        let fresh = Tallier::default().answer(&session.profile, &session.names, &query, extras);
        assert_eq!((&kept.table, &kept.total, &kept.flame), (&fresh.table, &fresh.total, &fresh.flame));
        let total = kept.total.expect("it was requested");
        assert_eq!((total.total_ns, total.samples), (session.samples * 1_000_000, session.samples));
        // All stacks keep their root, so `main` keeps its cum.
        let main = total.rows.iter().find(|row| row.full.starts_with(&format!("{MAIN:016x}"))).expect("main has a row");
        assert_eq!(main.cum_ns, session.samples * 1_000_000);
        let mark = total.rows.iter().find(|row| row.full.as_ref() == "[memory limit]");
        let cut = mark.map_or(0, |row| row.cum_ns / 1_000_000);
        assert_eq!((cut, mark.is_some()), (session.profile.overflows().memory, last_version > 0));
    }
}

#[test]
fn freeze_and_baseline_survive_a_cut() {
    let mut session = RandomStacks::new(MIN_MEMORY_BYTES);
    for _ in 0..500 {
        session.sample();
    }
    session.profile.freeze();
    session.profile.set_baseline();
    let frozen = session.flats();
    while session.profile.stacks.version() < 2 {
        session.sample();
    }
    assert_eq!(session.flats(), frozen);
    session.profile.thaw();
    assert_eq!(session.flats().values().sum::<u64>(), session.samples * 1_000_000);
}
