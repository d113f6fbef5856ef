//! What is written is what is read, and bytes that were never written do no harm.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::*;
use crate::link::wire::{
    Account, Birth, Engaged, EngineState, Event, FrameAddress, Hello, Loss, MAX_FRAMES, Message, Module, Thread, Unload,
};

/// Something to be recorded.
#[derive(Clone, Debug)]
enum Said {
    Arrived(Arrival),
    Named(Named),
    Cpu(Cpu),
    Ended(u64, Ending),
    Now(u64),
}

fn about() -> About {
    About {
        version: "0.1.0".to_owned(),
        command: "./server --port 8080".to_owned(),
        host: "host".to_owned(),
        names: true,
        launched: true,
        pid: 41273,
        clock: Clock::Prof,
        engine: Engine::Threads,
        period_ns: 10_101_010,
        started_ns: 5_000_000_000,
        started_unix_ns: 1_700_000_000_000_000_000,
        origin: Some("cpu in nanoseconds".to_owned()),
    }
}

fn mark(arrival: &Arrival) -> u64 {
    match &arrival.event {
        Event::Said(Message::Sample(_, frames)) => BuildHasherDefault::<DefaultHasher>::default().hash_one(frames),
        _ => 0,
    }
}

fn recorded(all: &[Said]) -> Vec<u8> {
    let mut encoder = Encoder::new(&about());
    for said in all {
        match said {
            Said::Arrived(arrival) => encoder.arrival(arrival, mark(arrival)),
            Said::Named(named) => encoder.named(named),
            Said::Cpu(cpu) => encoder.cpu(cpu),
            Said::Ended(at_ns, how) => encoder.ended(*at_ns, *how),
            Said::Now(at_ns) => encoder.now(*at_ns),
        }
    }
    let end = encoder.end(&[]);
    encoder.take().into_iter().chain(end).flatten().collect()
}

/// The sample as it came, if its slot is not looked at.
fn arrival(sampled: &Sampled<'_>) -> Arrival {
    let event = Event::Said(Message::Sample(sampled.sample.clone(), sampled.frames.into()));
    Arrival { source: sampled.source, pid: sampled.pid, at_ns: sampled.at_ns, event }
}

/// All entries of a file, and why there are no more.
fn played(bytes: &[u8]) -> (Vec<Said>, Vec<u32>, Result<bool, RecordError>) {
    let (mut all, mut numbers) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::default();
    let mut read = || {
        let mut blocks = Blocks::open(bytes)?;
        while let Some(block) = blocks.read()? {
            let at_bytes = block.at_bytes;
            let entries = decoder.entries(&block.plain, |entry| {
                all.push(match entry {
                    Entry::About(_) | Entry::End => return,
                    Entry::Arrived(arrival) => Said::Arrived(arrival),
                    Entry::Sampled(sampled) => {
                        numbers.push(sampled.stack);
                        Said::Arrived(arrival(&sampled))
                    }
                    Entry::Named(named) => Said::Named(named),
                    Entry::Cpu(cpu) => Said::Cpu(cpu),
                    Entry::Ended { at_ns, how } => Said::Ended(at_ns, how),
                    Entry::Now(at_ns) => Said::Now(at_ns),
                });
            });
            entries.map_err(|fault| RecordError::Malformed { at_bytes, fault })?;
        }
        Ok(())
    };
    let read = read();
    (all, numbers, read.map(|()| decoder.is_whole()))
}

fn bytes(most: usize) -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), 0..most).prop_map(Box::from)
}

fn clock() -> impl Strategy<Value = Clock> {
    prop_oneof![Just(Clock::Prof), Just(Clock::Real), Just(Clock::Virtual)]
}

fn sample() -> impl Strategy<Value = Message> {
    let frames = prop_oneof![
        // Few stacks come again and again, with common roots.
        8 => (0..5u64, 1..6u64).prop_map(|(leaf, depth)| (0..depth).map(|at| if at == 0 { leaf } else { 7 << at }).collect()),
        1 => vec(any::<u64>().prop_map(|address| address >> 1), 1..MAX_FRAMES),
    ];
    let numbers = (0..5u32, clock(), 0..16u32, 0..3u32, any::<u64>(), prop_oneof![Just(1u64), any::<u64>()]);
    (numbers, frames).prop_map(|((tid, clock, flags, generation, monotonic_ns, weight_ns), frames)| {
        let sample = Sample { tid, clock, flags, generation, monotonic_ns, weight_ns, slot: 0 };
        let frames: Vec<u64> = frames;
        Message::Sample(sample, frames.into_iter().map(|address| FrameAddress::Return(address).pack()).collect())
    })
}

fn message() -> impl Strategy<Value = Message> {
    let hello = (any::<(u64, u32, u32, u64, u64)>(), bytes(60), bytes(60)).prop_map(
        |((token, pid, parent, monotonic_ns, cpu_ns), executable, argv)| {
            let (start_ticks, birth) = (cpu_ns ^ token, Birth::Knock);
            Message::Hello(Hello { token, pid, parent, start_ticks, monotonic_ns, cpu_ns, birth, executable, argv })
        },
    );
    let module = (any::<(u32, u32, u32, u32, u64, u64)>(), bytes(60), bytes(20)).prop_map(
        |((id, generation, start, length, bias, inode), path, build_id)| {
            let start = u64::from(start);
            let end = start + u64::from(length) + 1;
            Message::Module(Module { id, generation, start, end, bias, device: 7, inode, path, build_id })
        },
    );
    let account = any::<[u64; 4]>().prop_map(|[monotonic_ns, ticks, sent, lost]| {
        Message::Account(Account {
            monotonic_ns,
            ticks,
            sent,
            lost_ticks: [lost; Loss::ALL.len()],
            ..Account::default()
        })
    });
    prop_oneof![
        20 => sample(),
        1 => hello,
        1 => module,
        1 => any::<(u32, u32)>().prop_map(|(id, generation)| Message::Unload(Unload { id, generation })),
        1 => (any::<u32>(), bytes(16)).prop_map(|(tid, name)| Message::Thread(Thread { tid, name })),
        1 => any::<u32>().prop_map(|tid| Message::ThreadEnd { tid }),
        1 => account,
        1 => (clock(), any::<u32>()).prop_map(|(clock, signal)| {
            let (engine, state) = (Engine::Itimer, EngineState::Running);
            Message::Engaged(Engaged { clock, engine, state, period_ns: 7, signal })
        }),
        1 => any::<u32>().prop_map(|viewer| Message::Busy { viewer }),
    ]
}

fn cause() -> impl Strategy<Value = Malformed> {
    prop_oneof![
        any::<u32>().prop_map(Malformed::Length),
        any::<u8>().prop_map(Malformed::Kind),
        Just(Malformed::Short),
        Just(Malformed::Field("field")),
        any::<u16>().prop_map(Malformed::Version),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    let event = prop_oneof![
        20 => message().prop_map(Event::Said),
        1 => Just(Event::Closed),
        1 => cause().prop_map(Event::Cut),
    ];
    // The pid is its source's, as the kernel says.
    let arrival = (0..4u32, prop_oneof![any::<u64>(), 5_000_000_000..5_000_100_000u64], event).prop_map(
        |(source, at_ns, event)| Said::Arrived(Arrival { source: SourceId(source), pid: 100 + source, at_ns, event }),
    );
    let line = (".{0,20}", ".{0,20}", ".{0,20}", any::<u32>(), any::<bool>())
        .prop_map(|(full, short, file, line, inlined)| NamedLine { full, short, file, line, inlined });
    let found = prop_oneof![Just(Found::Reading), Just(Found::Lines), ".{0,20}".prop_map(Found::Missing)];
    let file = (bytes(20), bytes(20), any::<(u64, u64)>()).prop_map(|(path, build_id, (device, inode))| NamedFile {
        path,
        build_id,
        device,
        inode,
    });
    let named = (file, found, vec((any::<u64>(), vec(line, 0..4)), 0..6))
        .prop_map(|(file, found, addresses)| Said::Named(Named { file, found, addresses }));
    let cpu = (any::<u64>(), any::<u64>(), proptest::option::of((0.0..9e9f32, 0.0..100f32)))
        .prop_map(|(at_ns, used_ns, now)| Said::Cpu(Cpu { at_ns, used_ns, now }));
    let how =
        prop_oneof![any::<i32>().prop_map(Ending::Exited), any::<i32>().prop_map(Ending::Killed), Just(Ending::Gone)];
    prop_oneof![
        20 => arrival,
        1 => named,
        1 => cpu,
        1 => (any::<u64>(), how).prop_map(|(at_ns, how)| Said::Ended(at_ns, how)),
        1 => any::<u64>().prop_map(Said::Now),
    ]
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_recorded_is_played(all in vec(said(), 0..300)) {
        let (read, numbers, fault) = played(&recorded(&all));
        prop_assert_eq!(format!("{:?}", read), format!("{:?}", all));
        prop_assert!(fault.expect("whole"));
        // A number is a stack.
        let samples = all.iter().filter_map(|said| match said {
            Said::Arrived(Arrival { event: Event::Said(Message::Sample(_, frames)), .. }) => Some(frames),
            _ => None,
        });
        let pairs: HashSet<_> = samples.clone().zip(&numbers).collect();
        let stacks: HashSet<_> = samples.collect();
        let numbers: HashSet<_> = numbers.iter().collect();
        prop_assert_eq!((pairs.len(), pairs.len()), (stacks.len(), numbers.len()));
    }
}

/// A recording of much that can be in one, and not long.
fn everything() -> Vec<u8> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut one = || recorded(&vec(said(), 25..26).new_tree(&mut runner).expect("a value").current());
    loop {
        let bytes = one();
        if bytes.len() < 1500 {
            return bytes;
        }
    }
}

/// A generator of numbers, the same every time.
fn random() -> impl FnMut() -> u64 {
    let mut state = 0x5167_70a1u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[test]
fn bytes_that_were_never_written_do_no_harm() {
    let whole = everything();
    let mut blocks = Blocks::open(&whole[..]).expect("a recording");
    let mut plain = Vec::new();
    while let Some(block) = blocks.read().expect("whole") {
        plain.extend(block.plain);
    }
    let mut random = random();
    let mut refused = 0;
    // Checksums would catch all of it: what is behind them is asked here.
    for _ in 0..100_000 {
        let mut wrong = plain.clone();
        for _ in 0..1 + random() % 3 {
            let at = random() as usize % wrong.len();
            match random() % 4 {
                0 => wrong.truncate(at.max(1)),
                1 => wrong[at] = random() as u8,
                2 => wrong[at] ^= 1 << (random() % 8),
                _ => drop(wrong.splice(at..at, [0xff; 3])),
            }
        }
        refused += usize::from(Decoder::default().entries(&wrong, |_| {}).is_err());
    }
    assert!(refused > 50_000, "{refused}");
}

#[test]
fn damaged_files_are_read_as_far_as_they_are_whole() {
    let whole = everything();
    let entries = played(&whole).0.len();
    let mut random = random();
    for _ in 0..100_000 {
        let mut wrong = whole.clone();
        let at = random() as usize % wrong.len();
        if random() & 1 == 0 {
            wrong.truncate(at);
        } else {
            wrong[at] ^= 1 << (random() % 8);
        }
        let (read, _, _) = played(&wrong);
        assert!(read.len() <= entries);
    }
}

#[test]
fn numbers_begin_anew_when_there_are_too_many() {
    let sample = |address: u64, at_ns: u64| {
        let sample =
            Sample { tid: 1, clock: Clock::Prof, flags: 0, generation: 1, monotonic_ns: at_ns, weight_ns: 10, slot: 0 };
        let frames = [address, 1, 2].map(|address| FrameAddress::Return(address).pack()).into();
        let event = Event::Said(Message::Sample(sample, frames));
        Said::Arrived(Arrival { source: SourceId(1), pid: 7, at_ns, event })
    };
    let addresses = (10..10 + MAX_STACKS as u64 + 50).chain(10..20);
    let all: Vec<Said> = addresses.enumerate().map(|(at, address)| sample(address, at as u64)).collect();
    let (read, numbers, whole) = played(&recorded(&all));
    assert_eq!(format!("{read:?}"), format!("{all:?}"));
    assert!(whole.is_ok());
    let last = numbers.len() - 10;
    assert_eq!(numbers[last - 1] as usize, MAX_STACKS + 49);
    assert_eq!(numbers[last] as usize, MAX_STACKS + 50, "no number is used twice");
}

#[test]
fn a_sample_takes_twelve_bytes_at_most_once_its_stack_is_known() {
    // Four threads at 99 Hz, of 400 stacks of 40 frames; a block is closed once a second, as a file's is.
    let (mut random, mut encoder) = (random(), Encoder::new(&about()));
    let frames = |stack: u64| -> Box<[u64]> {
        let common = (0..32).map(|depth| FrameAddress::Return(0x55_0000_1000 + depth * 0x61 + stack / 20 * 0x1_0007));
        let own = (0..8).map(|depth| FrameAddress::Return(0x7f00_1234_0000 + (stack * 31 + depth) * 0x137));
        own.chain(common).map(FrameAddress::pack).collect()
    };
    let (mut bytes, mut samples) = (0, 0);
    for number in 0..60 * 396u64 {
        let (tid, at_ns) = (100 + random() as u32 % 4, 6_000_000_000 + number * 2_525_252 + random() % 90_000);
        let (weight_ns, generation) = (10_101_010, 1);
        let sample = Sample { tid, clock: Clock::Prof, flags: 0, generation, monotonic_ns: at_ns, weight_ns, slot: 0 };
        let event = Event::Said(Message::Sample(sample, frames(random() % 400)));
        let at_ns = at_ns + 40_000 + random() % 20_000;
        let arrival = Arrival { source: SourceId(1), pid: 7, at_ns, event };
        encoder.arrival(&arrival, mark(&arrival));
        samples += u64::from(number >= 10 * 396);
        if number % 396 == 395 {
            encoder.flush();
            let block: usize = encoder.take().iter().map(Vec::len).sum();
            bytes += if number >= 10 * 396 { block as u64 } else { 0 };
        }
    }
    let each = bytes as f64 / samples as f64;
    assert!(each > 2.0 && each <= 12.0, "{each} bytes");
}

#[test]
fn a_recording_says_what_it_is_and_what_it_is_not() {
    let refused = |bytes: &[u8]| played(bytes).2.expect_err("no recording").to_string();
    assert_eq!(refused(b""), "is not a recording of sigtop");
    assert_eq!(refused(b"\x7fELF and so on, and so on"), "is not a recording of sigtop");
    let mut newer = recorded(&[]);
    newer[8] = 2;
    assert_eq!(refused(&newer), "was written by a newer sigtop (format 2, this one reads 1): update sigtop");
    let whole = recorded(&[Said::Now(7)]);
    assert!(refused(&whole[..whole.len() - 1]).starts_with("was cut off after "));
    let unfinished = Encoder::new(&about()).take().concat();
    assert!(matches!(played(&unfinished).2, Ok(false)));
}
