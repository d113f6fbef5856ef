//! Entries are decoded as they were encoded, and arbitrary bytes do no harm.

use std::collections::HashSet;

use crate::property::property;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::*;
use crate::wire::{
    AgentCounters, Allocation, Arrival, BlockingCall, Clock, ConnectionEvent, DeepestStack, Engaged, Engine,
    EngineState, FrameAddress, Hello, LossCause, MAX_FRAMES, Malformed, Message, Module, Sample, SourceId, SpawnCause,
    StackFrame, TIME_UNIT_NS, Thread, Unload, Wait,
};

/// A call of the encoder.
#[derive(Clone, Debug)]
enum Written {
    Event(Arrival),
    Symbols(FileSymbols),
    Cpu(CpuReading),
    Unsampled(UnsampledReading),
    Exit(u64, TargetExit),
    Time(u64),
    Merged(SourceId, String),
}

fn info() -> RecordingInfo {
    RecordingInfo {
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
        kernel: "Linux 6.8.0 x86_64, 8 CPUs".to_owned(),
    }
}

fn encode(all: &[Written]) -> Vec<u8> {
    let mut encoder = Encoder::new(&info());
    for written in all {
        match written {
            Written::Event(arrival) => encoder.write_event(arrival),
            Written::Symbols(symbols) => encoder.write_symbols(symbols),
            Written::Cpu(cpu) => encoder.write_cpu(cpu),
            Written::Unsampled(reading) => encoder.write_unsampled(reading),
            Written::Exit(at_ns, exit) => encoder.write_exit(*at_ns, *exit),
            Written::Time(at_ns) => encoder.write_time(*at_ns),
            Written::Merged(source, name) => encoder.write_merged(*source, name),
        }
    }
    let end = encoder.finish(&[]);
    encoder.take_blocks().into_iter().chain(end).flatten().collect()
}

/// A recorded sample as an event. Its slot is not recorded.
fn arrival(sampled: &RecordedSample<'_>) -> Arrival {
    let event = ConnectionEvent::Received(Message::Sample(sampled.sample.clone(), sampled.frames.into()));
    Arrival { source: sampled.source, pid: sampled.pid, at_ns: sampled.at_ns, event }
}

/// All entries of a file, the numbers of its stacks, and whether it is complete.
fn decode(bytes: &[u8]) -> (Vec<Written>, Vec<u32>, Result<bool, RecordingError>) {
    let (mut all, mut numbers) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::default();
    let mut read = || {
        let mut blocks = BlockReader::open(bytes)?;
        while let Some(block) = blocks.read()? {
            let at_bytes = block.at_bytes;
            let entries = decoder.decode_block(&block.plain, |entry| {
                all.push(match entry {
                    RecordingEntry::Info(_) | RecordingEntry::End => return,
                    RecordingEntry::Event(arrival) => Written::Event(arrival),
                    RecordingEntry::Sample(sampled) => {
                        numbers.push(sampled.stack);
                        Written::Event(arrival(&sampled))
                    }
                    RecordingEntry::Symbols(symbols) => Written::Symbols(symbols),
                    RecordingEntry::Cpu(cpu) => Written::Cpu(cpu),
                    RecordingEntry::Unsampled(reading) => Written::Unsampled(reading),
                    RecordingEntry::Exited { at_ns, exit } => Written::Exit(at_ns, exit),
                    RecordingEntry::Time(at_ns) => Written::Time(at_ns),
                    RecordingEntry::Merged { source, name } => Written::Merged(source, name),
                });
            });
            entries.map_err(|fault| RecordingError::Malformed { at_bytes, fault })?;
        }
        Ok(())
    };
    let read = read();
    (all, numbers, read.map(|()| decoder.is_complete()))
}

fn bytes(most: usize) -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), 0..most).prop_map(Box::from)
}

fn clock() -> impl Strategy<Value = Clock> {
    prop_oneof![Just(Clock::Prof), Just(Clock::Real), Just(Clock::Virtual), Just(Clock::Alloc)]
}

/// A time in ns: one that repeats, one in whole microseconds, or any.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(5_000_000_000),
        (5_000_000..6_000_000u64).prop_map(|us| us * TIME_UNIT_NS),
        5_000_000_000..5_000_100_000u64,
        any::<u64>(),
    ]
}

fn sample() -> impl Strategy<Value = Message> {
    let frames = prop_oneof![
        // A few stacks with common roots that repeat.
        8 => (0..5u64, 1..6u64).prop_map(|(leaf, depth)| (0..depth).map(|at| if at == 0 { leaf } else { 7 << at }).collect()),
        1 => vec(any::<u64>().prop_map(|address| address >> 1), 1..MAX_FRAMES),
    ];
    let numbers = (0..5u32, clock(), 0..16u32, 0..3u32, time(), prop_oneof![Just(1u64), any::<u64>()]);
    (numbers, frames).prop_map(|((tid, clock, flags, generation, monotonic_ns, weight_ns), frames)| {
        let allocation = if clock == Clock::Alloc { Allocation::unpack(!monotonic_ns) } else { Allocation::default() };
        let age_ms = weight_ns as u32 % 300;
        let sample = Sample { tid, clock, flags, generation, monotonic_ns, age_ms, weight_ns, allocation, slot: 0 };
        let frames: Vec<u64> = frames;
        Message::Sample(sample, frames.into_iter().map(|address| FrameAddress::Return(address).pack()).collect())
    })
}

fn message() -> impl Strategy<Value = Message> {
    let hello = (any::<(u64, u32, u32, u64, u64)>(), bytes(60), bytes(60)).prop_map(
        |((token, pid, parent, monotonic_ns, cpu_ns), executable, argv)| {
            let (start_ticks, birth) = (cpu_ns ^ token, SpawnCause::Knock);
            Message::Hello(Hello {
                token,
                pid,
                parent,
                start_ticks,
                monotonic_ns,
                cpu_ns,
                spawn_cause: birth,
                executable,
                argv,
            })
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
        Message::Counters(AgentCounters {
            monotonic_ns,
            ticks,
            sent,
            lost_ticks: [lost; LossCause::ALL.len()],
            ..AgentCounters::default()
        })
    });
    prop_oneof![
        20 => sample(),
        1 => hello,
        1 => module,
        1 => any::<(u32, u32)>().prop_map(|(id, generation)| Message::Unload(Unload { id, generation })),
        1 => (any::<u32>(), bytes(16)).prop_map(|(tid, name)| Message::Thread(Thread { tid, name })),
        1 => any::<u32>().prop_map(|tid| Message::ThreadEnd { tid }),
        1 => (any::<u32>(), any::<[u64; 3]>(), bytes(30)).prop_map(|(tid, arguments, object)| {
            let call = BlockingCall { number: Some(tid), arguments };
            Message::Wait(Wait { tid, call, holder: 7, is_file: true, object })
        }),
        1 => (any::<u32>(), any::<[u64; 4]>()).prop_map(|(tid, [used, size, address, bytes])| {
            let frames = [StackFrame { address, bytes }; 3].into();
            Message::DeepestStack(DeepestStack { tid, generation: 1, used, size, frames })
        }),
        1 => account,
        1 => (clock(), any::<u32>()).prop_map(|(clock, signal)| {
            let (engine, state) = (Engine::Itimer, EngineState::Running);
            Message::Engaged(Engaged { clock, engine, state, period_ns: 7, signal })
        }),
        1 => any::<u32>().prop_map(|viewer| Message::Busy { viewer }),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(id, left)| Message::Freed { id, left }),
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

fn written() -> impl Strategy<Value = Written> {
    let event = prop_oneof![
        20 => message().prop_map(ConnectionEvent::Received),
        1 => Just(ConnectionEvent::Closed),
        1 => cause().prop_map(ConnectionEvent::Aborted),
    ];
    // Each source has one pid.
    let arrival = (0..4u32, time(), event).prop_map(|(source, at_ns, event)| {
        Written::Event(Arrival { source: SourceId(source), pid: 100 + source, at_ns, event })
    });
    let line = (".{0,20}", ".{0,20}", ".{0,20}", any::<u32>(), any::<bool>())
        .prop_map(|(full, short, file, line, inlined)| RecordedFunction { full, short, file, line, inlined });
    let status =
        prop_oneof![Just(SymbolStatus::Reading), Just(SymbolStatus::Lines), ".{0,20}".prop_map(SymbolStatus::Missing)];
    let file = (bytes(20), bytes(20), any::<(u64, u64)>()).prop_map(|(path, build_id, (device, inode))| RecordedFile {
        path,
        build_id,
        device,
        inode,
    });
    let symbols = (file, status, vec((any::<u64>(), vec(line, 0..4)), 0..6))
        .prop_map(|(file, status, addresses)| Written::Symbols(FileSymbols { file, status, addresses }));
    let cpu = (any::<u64>(), any::<u64>(), proptest::option::of((0.0..9e9f32, 0.0..100f32)))
        .prop_map(|(at_ns, used_ns, now)| Written::Cpu(CpuReading { at_ns, used_ns, now }));
    let unsampled = (any::<[u64; 3]>(), 0.0..=1.0, ".{0,20}").prop_map(|([at_ns, uncounted_ns, ns], share, reason)| {
        Written::Unsampled(UnsampledReading { at_ns, uncounted_ns, ns, share, reason })
    });
    let exit = prop_oneof![
        any::<i32>().prop_map(TargetExit::Exited),
        any::<i32>().prop_map(TargetExit::Killed),
        Just(TargetExit::Gone)
    ];
    prop_oneof![
        20 => arrival,
        1 => symbols,
        1 => cpu,
        1 => unsampled,
        1 => (any::<u64>(), exit).prop_map(|(at_ns, exit)| Written::Exit(at_ns, exit)),
        1 => any::<u64>().prop_map(Written::Time),
        1 => (0..5u32, "[a-z/#]{0,9}").prop_map(|(source, name)| Written::Merged(SourceId(source), name)),
    ]
}

fn config() -> ProptestConfig {
    property(256)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn entries_are_decoded_as_encoded(all in vec(written(), 0..300)) {
        let (read, numbers, fault) = decode(&encode(&all));
        prop_assert_eq!(format!("{:?}", read), format!("{:?}", all));
        prop_assert!(fault.expect("whole"));
        // Numbers and stacks correspond one to one.
        let samples = all.iter().filter_map(|written| match written {
            Written::Event(Arrival { event: ConnectionEvent::Received(Message::Sample(_, frames)), .. }) => Some(frames),
            _ => None,
        });
        let pairs: HashSet<_> = samples.clone().zip(&numbers).collect();
        let stacks: HashSet<_> = samples.collect();
        let numbers: HashSet<_> = numbers.iter().collect();
        prop_assert_eq!((pairs.len(), pairs.len()), (stacks.len(), numbers.len()));
    }
}

/// A short recording with most kinds of entries.
fn everything() -> Vec<u8> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut one = || encode(&vec(written(), 25..26).new_tree(&mut runner).expect("a value").current());
    loop {
        let bytes = one();
        if bytes.len() < 1500 {
            return bytes;
        }
    }
}

/// A deterministic random number generator (xorshift).
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
fn malformed_entries_are_refused() {
    let whole = everything();
    let mut blocks = BlockReader::open(&whole[..]).expect("a recording");
    let mut plain = Vec::new();
    while let Some(block) = blocks.read().expect("whole") {
        plain.extend(block.plain);
    }
    let mut random = random();
    let mut refused = 0;
    // Past the checksums, which would catch all of these.
    for _ in 0..25_000 {
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
        refused += usize::from(Decoder::default().decode_block(&wrong, |_| {}).is_err());
    }
    assert!(refused > 12_500, "{refused}");
}

#[test]
fn damaged_files_are_read_up_to_the_damage() {
    let whole = everything();
    let entries = decode(&whole).0.len();
    let mut random = random();
    for _ in 0..100_000 {
        let mut wrong = whole.clone();
        let at = random() as usize % wrong.len();
        if random() & 1 == 0 {
            wrong.truncate(at);
        } else {
            wrong[at] ^= 1 << (random() % 8);
        }
        let (read, _, _) = decode(&wrong);
        assert!(read.len() <= entries);
    }
}

#[test]
fn stack_numbers_start_again_at_the_limit() {
    let sample = |address: u64, at_ns: u64| {
        let sample = Sample {
            tid: 1,
            clock: Clock::Prof,
            flags: 0,
            generation: 1,
            monotonic_ns: at_ns,
            weight_ns: 10,
            allocation: Default::default(),
            age_ms: 0,
            slot: 0,
        };
        let frames = [address, 1, 2].map(|address| FrameAddress::Return(address).pack()).into();
        let event = ConnectionEvent::Received(Message::Sample(sample, frames));
        Written::Event(Arrival { source: SourceId(1), pid: 7, at_ns, event })
    };
    let addresses = (10..10 + MAX_STACKS as u64 + 50).chain(10..20);
    let all: Vec<Written> = addresses.enumerate().map(|(at, address)| sample(address, at as u64)).collect();
    let (read, numbers, whole) = decode(&encode(&all));
    assert_eq!(format!("{read:?}"), format!("{all:?}"));
    assert!(whole.is_ok());
    let last = numbers.len() - 10;
    assert_eq!(numbers[last - 1] as usize, MAX_STACKS + 49);
    assert_eq!(numbers[last] as usize, MAX_STACKS + 50, "no number is used twice");
}

#[test]
fn a_sample_of_a_known_stack_takes_at_most_twelve_bytes() {
    // Four threads at 99 Hz with 400 stacks of 40 frames. A block is closed once a second, as in a
    // file.
    let (mut random, mut encoder) = (random(), Encoder::new(&info()));
    let frames = |stack: u64| -> Box<[u64]> {
        let common = (0..32).map(|depth| FrameAddress::Return(0x55_0000_1000 + depth * 0x61 + stack / 20 * 0x1_0007));
        let own = (0..8).map(|depth| FrameAddress::Return(0x7f00_1234_0000 + (stack * 31 + depth) * 0x137));
        own.chain(common).map(FrameAddress::pack).collect()
    };
    let (mut bytes, mut samples) = (0, 0);
    for number in 0..60 * 396u64 {
        let (tid, at_ns) = (100 + random() as u32 % 4, 6_000_000_000 + number * 2_525_252 + random() % 90_000);
        let (weight_ns, generation) = (10_101_010, 1);
        let sample = Sample {
            tid,
            clock: Clock::Prof,
            flags: 0,
            generation,
            monotonic_ns: at_ns,
            weight_ns,
            allocation: Default::default(),
            age_ms: 0,
            slot: 0,
        };
        let event = ConnectionEvent::Received(Message::Sample(sample, frames(random() % 400)));
        let at_ns = at_ns + 40_000 + random() % 20_000;
        let arrival = Arrival { source: SourceId(1), pid: 7, at_ns, event };
        encoder.write_event(&arrival);
        samples += u64::from(number >= 10 * 396);
        if number % 396 == 395 {
            encoder.flush();
            let block: usize = encoder.take_blocks().iter().map(Vec::len).sum();
            bytes += if number >= 10 * 396 { block as u64 } else { 0 };
        }
    }
    let each = bytes as f64 / samples as f64;
    assert!(each > 2.0 && each <= 12.0, "{each} bytes");
}

#[test]
fn samples_that_arrive_together_write_their_time_once() {
    // Four samples arrive together every 10 ms. The same samples without times show what the
    // times take.
    let length = |has_times: bool| {
        let (mut random, mut encoder) = (random(), Encoder::uncompressed(&info()));
        for batch in 0..1000u64 {
            let times_us = (6_000_000 + batch * 10_000 + random() % 5_000, 40 + random() % 60);
            let (sent_us, delay_us) = if has_times { times_us } else { (6_000_000, 40) };
            for stack in 0..4 {
                let sample = Sample {
                    tid: 1,
                    clock: Clock::Prof,
                    flags: 0,
                    generation: 1,
                    monotonic_ns: sent_us * TIME_UNIT_NS,
                    weight_ns: 10,
                    allocation: Default::default(),
                    age_ms: 0,
                    slot: 0,
                };
                let frames = [FrameAddress::Return(stack + 1).pack()].into();
                let event = ConnectionEvent::Received(Message::Sample(sample, frames));
                let at_ns = (sent_us + delay_us) * TIME_UNIT_NS;
                encoder.write_event(&Arrival { source: SourceId(1), pid: 7, at_ns, event });
            }
        }
        encoder.flush();
        encoder.take_blocks().iter().map(Vec::len).sum::<usize>()
    };
    let each = (length(true) - length(false)) as f64 / 4000.0;
    assert!(each > 0.5 && each <= 1.25, "{each} bytes a sample");
}

#[test]
fn errors_distinguish_foreign_newer_truncated_and_unfinished_files() {
    let error = |bytes: &[u8]| decode(bytes).2.expect_err("no recording").to_string();
    assert_eq!(error(b""), "is not a recording of sigtop");
    assert_eq!(error(b"\x7fELF and so on, and so on"), "is not a recording of sigtop");
    let mut newer = encode(&[]);
    let (next, ours) = (VERSION + 1, VERSION);
    newer[8] = next as u8;
    let expected = format!("was written by a newer sigtop (format {next}, this one reads {ours}): update sigtop");
    assert_eq!(error(&newer), expected);
    let mut older = encode(&[Written::Time(7)]);
    older[8] = 0;
    assert_eq!(error(&older), format!("was written by an older sigtop (format 0, this one reads {ours})"));
    for version in 1..=ours as u8 {
        older[8] = version;
        assert!(matches!(decode(&older).2, Ok(true)), "version {version}");
    }
    let whole = encode(&[Written::Time(7)]);
    assert!(error(&whole[..whole.len() - 1]).starts_with("is truncated after "));
    let unfinished = Encoder::new(&info()).take_blocks().concat();
    assert!(matches!(decode(&unfinished).2, Ok(false)));
}
