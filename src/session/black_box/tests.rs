//! Tests of the black box: its recordings are played as the whole stream is, its memory is bounded,
//! and it reaches back as far as it should.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{BlackBox, MAX_BYTES, SEGMENTS, read_entries};
use crate::link::recording::{CpuReading, RecordingEntry, RecordingInfo};
use crate::profile::Profile;
use crate::profile::stack::Frame;
use crate::wire::{
    AgentCounters, Arrival, Clock, ConnectionEvent, Engine, FrameAddress, Hello, Message, Module, Sample, SourceId,
    SpawnCause, Thread, Unload,
};

const SECOND: u64 = 1_000_000_000;
/// The start of the streams, ns.
const START: u64 = 1000 * SECOND;

fn about() -> RecordingInfo {
    RecordingInfo {
        version: String::new(),
        command: "app".to_owned(),
        host: String::new(),
        names: false,
        launched: false,
        pid: 100,
        clock: Clock::Prof,
        engine: Engine::Threads,
        period_ns: SECOND / 99,
        started_ns: START,
        started_unix_ns: START,
        origin: None,
        kernel: String::new(),
    }
}

/// A random stream of processes that start and end, load and unload modules, and name threads.
struct Stream {
    state: u64,
    now_ns: u64,
    next_source: u32,
    /// The connected processes: source, module generation, mapped modules, ticks so far.
    processes: Vec<(u32, u32, Vec<u32>, u64)>,
    next_module: u32,
}

impl Stream {
    fn new(seed: u64) -> Stream {
        Stream { state: seed, now_ns: START, next_source: 1, processes: Vec::new(), next_module: 1 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn arrival(&self, source: u32, message: Message) -> Arrival {
        let event = ConnectionEvent::Received(message);
        Arrival { source: SourceId(source), pid: 100 + source, at_ns: self.now_ns, event }
    }

    /// The next events, at most a second after the last ones.
    fn next(&mut self) -> Vec<Arrival> {
        self.now_ns += 1 + self.random(SECOND);
        if self.processes.is_empty() || (self.processes.len() < 4 && self.random(40) == 0) {
            return self.start_process();
        }
        let index = self.random(self.processes.len() as u64) as usize;
        let (source, generation, modules, ticks) = self.processes[index].clone();
        match self.random(60) {
            0 => {
                self.processes.remove(index);
                let event = ConnectionEvent::Closed;
                vec![Arrival { source: SourceId(source), pid: 100 + source, at_ns: self.now_ns, event }]
            }
            1 if modules.len() > 1 => {
                let id = self.processes[index].2.remove(0);
                self.processes[index].1 += 1;
                vec![self.arrival(source, Message::Unload(Unload { id, generation: generation + 1 }))]
            }
            2 => vec![self.load_module(index)],
            3 => {
                let name = format!("thread-{}", self.random(1000)).into_bytes().into();
                let tid = self.random(3) as u32;
                vec![self.arrival(source, Message::Thread(Thread { tid, name }))]
            }
            4 => {
                let (monotonic_ns, threads) = (self.now_ns, 3);
                let counters = AgentCounters { monotonic_ns, threads, ticks, sent: ticks, ..AgentCounters::default() };
                vec![self.arrival(source, Message::Counters(counters))]
            }
            _ => {
                self.processes[index].3 += 1;
                // The sample may be of the generation before.
                let generation = generation - u32::from(generation > 1 && self.random(4) == 0);
                vec![self.sample(source, generation)]
            }
        }
    }

    fn start_process(&mut self) -> Vec<Arrival> {
        let source = self.next_source;
        self.next_source += 1;
        let hello = Hello {
            token: 0,
            pid: 100 + source,
            parent: 1,
            start_ticks: source.into(),
            monotonic_ns: self.now_ns,
            cpu_ns: 0,
            spawn_cause: SpawnCause::Tick,
            executable: (*b"/bin/app").into(),
            argv: (*b"app\0").into(),
        };
        let hello = self.arrival(source, Message::Hello(hello));
        self.processes.push((source, 1, Vec::new(), 0));
        let module = self.load_module(self.processes.len() - 1);
        vec![hello, module]
    }

    fn load_module(&mut self, index: usize) -> Arrival {
        let id = self.next_module;
        self.next_module += 1;
        let (source, generation, modules, _) = &mut self.processes[index];
        *generation += 1;
        modules.push(id);
        let (source, generation) = (*source, *generation);
        // Modules of one address follow each other.
        let start = 0x1000 * (1 + u64::from(id) % 7);
        let (end, bias, path) = (start + 0x1000, start, format!("/lib/{id}.so").into_bytes().into());
        let inode = id.into();
        let module = Module { id, generation, start, end, bias, device: 1, inode, path, build_id: [].into() };
        self.arrival(source, Message::Module(module))
    }

    fn sample(&mut self, source: u32, generation: u32) -> Arrival {
        let frames = (0..1 + self.random(4)).map(|_| 0x1000 + self.random(0x8000)).collect::<Vec<_>>();
        let frames = frames.into_iter().map(|address| FrameAddress::Instruction(address).pack()).collect();
        let sample = Sample {
            tid: self.random(3) as u32,
            clock: Clock::Prof,
            flags: 0,
            generation,
            monotonic_ns: self.now_ns,
            weight_ns: SECOND / 99,
            allocation: Default::default(),
            age_ms: 0,
            slot: 0,
        };
        self.arrival(source, Message::Sample(sample, frames))
    }
}

/// The samples of a profile from a time on: process, thread, stack.
fn samples(profile: &Profile, since_ns: u64) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for sample in profile.timed_samples().expect("times are kept").iter().filter(|sample| sample.at_ns >= since_ns) {
        let thread = profile.thread(sample.key.0);
        let process = profile.process(thread.process);
        let frame = |id| match profile.frame(id) {
            Frame::Code { module, address } => format!("{}+{address:#x}", profile.modules.file(module).name()),
            other => format!("{other:?}").replace(&format!("{:?}", thread.process), "this"),
        };
        let frames: Vec<String> = profile.stacks.leaf_first(sample.key.1).map(frame).collect();
        let words = format!("{} {} {} {}", sample.at_ns, process.pid, thread.tid, frames.join(" "));
        *all.entry(words).or_default() += sample.weight_ns;
    }
    all
}

fn play(entries: Vec<u8>) -> Profile {
    let mut profile = Profile::default();
    profile.keep_sample_times();
    read_entries(vec![entries.into()], |entry| match entry {
        RecordingEntry::Event(arrival) => profile.apply(arrival),
        RecordingEntry::Sample(sampled) => {
            profile.apply_recorded(sampled.source, sampled.at_ns, &sampled.sample, sampled.stack, sampled.frames);
        }
        _ => {}
    })
    .expect("a complete recording");
    profile
}

#[test]
fn a_span_is_played_as_the_whole_stream_is() {
    for seed in 1..=60u64 {
        let mut stream = Stream::new(seed * 0x9e37_79b9);
        let mut black_box = BlackBox::new(Duration::from_secs(120), &about());
        let (mut whole, mut ticks) = (Profile::default(), Vec::new());
        whole.keep_sample_times();
        while stream.now_ns < START + 600 * SECOND {
            let arrivals = stream.next();
            black_box.record(&arrivals);
            whole.apply_all(arrivals);
            black_box.advance(stream.now_ns);
            ticks.push((stream.now_ns, whole.losses().ticks));
        }
        let since_ns = stream.now_ns - 70 * SECOND - stream.random(20 * SECOND);
        let profile = play(black_box.span(since_ns, stream.now_ns, Vec::new()).encode().expect("a recording"));
        let (expected, played) = (samples(&whole, since_ns), samples(&profile, 0));
        assert!(expected.len() > 50 && expected == played, "seed {seed}: {expected:#?}\n{played:#?}");
        // Counters count from the start of the span.
        let before = ticks.iter().rfind(|(at_ns, _)| *at_ns < since_ns).map_or(0, |last| last.1);
        assert_eq!(profile.losses().ticks, whole.losses().ticks - before, "seed {seed}");
    }
}

#[test]
fn what_is_kept_reaches_back_far_enough_for_a_week_in_bounded_memory() {
    let (keep, hours) = (Duration::from_secs(600), 24 * 7);
    let mut black_box = BlackBox::new(keep, &about());
    let mut stream = Stream::new(7);
    let (mut largest, mut rotations, mut used_ns) = (0, 0, 0);
    while stream.now_ns < START + hours * 3600 * SECOND {
        let arrivals = stream.next();
        black_box.record(&arrivals);
        used_ns += 1_000_000;
        black_box.encoder().write_cpu(&CpuReading { at_ns: stream.now_ns, used_ns, now: None });
        let before_ns = black_box.open.since_ns;
        black_box.advance(stream.now_ns);
        rotations += usize::from(black_box.open.since_ns != before_ns);
        largest = largest.max(black_box.bytes());
        let back_ns = stream.now_ns - black_box.kept_since_ns();
        let since_start_ns = stream.now_ns - START;
        assert!(back_ns >= since_start_ns.min(keep.as_nanos() as u64), "{back_ns} ns");
        assert!(back_ns <= keep.as_nanos() as u64 + 2 * black_box.segment_ns + SECOND, "{back_ns} ns");
        assert!(black_box.segments.len() as u64 <= SEGMENTS + 3);
    }
    let sources = black_box.base.sizes();
    assert!(rotations > 30_000 && largest < 400 << 10, "{rotations} rotations, {largest} bytes");
    assert!(sources.0 <= 4 && sources.1 <= 64 * 4 + 400, "the state of ended processes is dropped: {sources:?}");
    let since_ns = stream.now_ns - 60 * SECOND;
    let recording = black_box.span(since_ns, stream.now_ns, Vec::new()).encode().expect("a recording");
    let mut readings = Vec::new();
    read_entries(vec![recording.into()], |entry| match entry {
        RecordingEntry::Cpu(reading) => readings.push((reading.at_ns, reading.used_ns)),
        RecordingEntry::Info(info) => assert_eq!((info.started_ns, info.started_unix_ns), (since_ns, since_ns)),
        _ => {}
    })
    .expect("a complete recording");
    assert_eq!(readings.first().map(|first| first.1), Some(1_000_000), "CPU time counts from the start of the span");
    assert!(readings.iter().all(|&(at_ns, _)| at_ns >= since_ns));
}

#[test]
fn more_than_the_limit_is_dropped_early() {
    let mut black_box = BlackBox::new(Duration::from_secs(600), &about());
    black_box.max_bytes = 200_000;
    let mut stream = Stream::new(11);
    let mut largest = 0;
    while stream.now_ns < START + 3000 * SECOND {
        let arrivals = stream.next();
        let busy: Vec<Arrival> = (0..20)
            .filter_map(|_| {
                let &(source, generation, ..) = stream.processes.first()?;
                Some(stream.sample(source, generation))
            })
            .collect();
        black_box.record(&arrivals);
        black_box.record(&busy);
        black_box.advance(stream.now_ns);
        largest = largest.max(black_box.bytes());
    }
    assert!(largest < 200_000 + 200_000 / 8, "{largest} bytes");
    assert!(stream.now_ns - black_box.kept_since_ns() < 600 * SECOND, "less than the time to keep has room");
    assert!(black_box.bytes() > 150_000 && MAX_BYTES > 1 << 20);
}
