//! The wire format: messages are decoded as they were encoded, and arbitrary bytes do no harm.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sigtop::wire::interpreter::{FrameAccess, Interpreter, InterpreterFunction, LineFormat};
use sigtop::wire::*;

/// An allocator that counts the bytes of each thread, for tests that limit the memory of a piece of
/// code.
struct CountingAllocator;

thread_local! {
    /// Allocated bytes; negative if the thread freed what others allocated.
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn add_bytes(bytes: isize) {
    ALLOCATED.set(ALLOCATED.get() + bytes);
    PEAK.set(PEAK.get().max(ALLOCATED.get()));
}

// SAFETY: System does the work. The counters are plain cells without allocation and destructor.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add_bytes(layout.size() as isize);
        // SAFETY: the caller upholds the contract of GlobalAlloc.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add_bytes(-(layout.size() as isize));
        // SAFETY: the caller upholds the contract of GlobalAlloc.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns the peak of the bytes that `work` has allocated.
fn peak_bytes(work: impl FnOnce()) -> usize {
    let before = ALLOCATED.get();
    PEAK.set(before);
    work();
    (PEAK.get() - before) as usize
}

/// A message of an agent.
#[derive(Clone, Debug)]
enum SentMessage {
    Plain(Message),
    Stack(Sample, Vec<u64>),
}

impl SentMessage {
    fn write(&self, writer: &mut Writer<'_>, memory: &mut StackMemory) -> Result<(), BufferFull> {
        match self {
            SentMessage::Stack(sample, frames) => writer.write_sample(sample, frames, memory),
            SentMessage::Plain(message) => writer.write_message(message),
        }
    }

    fn message(self) -> Message {
        match self {
            SentMessage::Plain(message) => message,
            SentMessage::Stack(sample, frames) => {
                Message::Sample(sample, frames.into_iter().take(MAX_FRAMES).collect())
            }
        }
    }
}

fn bytes(limit: usize) -> impl Strategy<Value = Box<[u8]>> {
    prop_oneof![vec(any::<u8>(), 0..40), vec(any::<u8>(), limit..=limit)].prop_map(move |mut bytes| {
        bytes.truncate(limit);
        bytes.into()
    })
}

/// Numbers of every length, including the longest varints.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(value, shift)| value >> shift)
}

fn clock() -> impl Strategy<Value = Clock> {
    prop_oneof![Just(Clock::Prof), Just(Clock::Real), Just(Clock::Virtual), Just(Clock::Alloc)]
}

fn engine() -> impl Strategy<Value = Engine> {
    prop_oneof![Just(Engine::Threads), Just(Engine::Itimer), Just(Engine::External)]
}

fn hello() -> impl Strategy<Value = Message> {
    let birth = prop_oneof![Just(SpawnCause::Tick), Just(SpawnCause::Knock)];
    let numbers = (number(), any::<u32>(), any::<u32>(), number(), number(), number(), birth);
    (numbers, bytes(MAX_PATH), bytes(MAX_ARGV)).prop_map(|(numbers, executable, argv)| {
        let (token, pid, parent, start_ticks, monotonic_ns, cpu_ns, birth) = numbers;
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
    })
}

fn module() -> impl Strategy<Value = Message> {
    let numbers = (any::<u32>(), any::<u32>(), 0..u64::MAX, number(), number(), number(), number());
    (numbers, bytes(MAX_PATH), bytes(MAX_BUILD_ID)).prop_map(|(numbers, path, build_id)| {
        let (id, generation, start, length, bias, device, inode) = numbers;
        let end = start.saturating_add(length.max(1));
        Message::Module(Module { id, generation, start, end, bias, device, inode, path, build_id })
    })
}

fn counters() -> impl Strategy<Value = Message> {
    (vec(number(), 25), any::<u32>(), any::<u32>()).prop_map(|(values, threads, timers)| {
        Message::Counters(AgentCounters {
            monotonic_ns: values[0],
            ticks: values[1],
            sent: values[2],
            lost_ticks: values[3..9].try_into().unwrap(),
            lost_ns: values[9..15].try_into().unwrap(),
            agent_cpu_ns: values[15],
            handler_cpu_ns: values[16],
            process_cpu_ns: values[17],
            threads,
            timers,
            foreign_signals: values[18],
            lost_bytes: values[19..25].try_into().unwrap(),
        })
    })
}

fn engaged() -> impl Strategy<Value = Message> {
    use EngineState::{ClockTaken, Off, Running, SignalTaken, TimerRefused, TimerTaken, Unsupported};
    let state =
        prop::sample::select(vec![Off, Running, SignalTaken, TimerRefused, TimerTaken, Unsupported, ClockTaken]);
    (clock(), engine(), state, number(), any::<u32>()).prop_map(|(clock, engine, state, period_ns, signal)| {
        Message::Engaged(Engaged { clock, engine, state, period_ns, signal })
    })
}

fn plain() -> impl Strategy<Value = SentMessage> {
    let thread = (any::<u32>(), bytes(MAX_COMM)).prop_map(|(tid, name)| Message::Thread(Thread { tid, name }));
    let unload = (any::<u32>(), any::<u32>()).prop_map(|(id, generation)| Message::Unload(Unload { id, generation }));
    let texts = (bytes(MAX_FUNCTION_NAME), bytes(MAX_PATH), bytes(MAX_LINE_TABLE));
    let ids = (any::<u32>(), any::<u32>(), select(&LineFormat::ALL[..]));
    let function = (ids, texts).prop_map(|((id, first_line, line_format), (name, file, line_table))| {
        Message::Function(InterpreterFunction { id, first_line, name, file, line_format, line_table })
    });
    let interpreter = (any::<[u8; 2]>(), select(&FrameAccess::ALL[..]), number(), number(), number());
    let interpreter = interpreter.prop_map(|([major, minor], access, merged, unnamed, unmerged)| {
        Message::Interpreter(Interpreter { major, minor, access, merged, unnamed, unmerged })
    });
    let small = any::<u32>().prop_flat_map(|number| {
        prop_oneof![
            Just(Message::ThreadEnd { tid: number }),
            Just(Message::Busy { viewer: number }),
            Just(Message::Freed { id: number, left: number.wrapping_mul(number) })
        ]
    });
    let call = (option::of(any::<u32>()), any::<[u64; 3]>())
        .prop_map(|(number, arguments)| BlockingCall { number, arguments });
    let wait = (any::<[u32; 2]>(), call, any::<bool>(), bytes(MAX_OBJECT))
        .prop_map(|([tid, holder], call, is_file, object)| Message::Wait(Wait { tid, call, holder, is_file, object }));
    let frame = (any::<u64>(), number()).prop_map(|(address, bytes)| StackFrame { address, bytes });
    let stack = (any::<[u32; 2]>(), any::<[u64; 2]>(), vec(frame, 0..=MAX_FRAMES));
    let stack = stack.prop_map(|([tid, generation], [used, size], frames)| {
        Message::DeepestStack(DeepestStack { tid, generation, used, size, frames: frames.into() })
    });
    let known = prop_oneof![hello(), module(), thread, unload, small, wait, counters(), engaged()];
    prop_oneof![8 => known, 1 => function, 1 => interpreter, 1 => stack].prop_map(SentMessage::Plain)
}

fn sample() -> impl Strategy<Value = Sample> {
    let numbers = (any::<u32>(), clock(), any::<u32>(), any::<u32>(), number(), number(), any::<u32>());
    numbers.prop_map(|(tid, clock, flags, generation, monotonic_ns, weight_ns, age_ms)| Sample {
        tid,
        clock,
        flags,
        generation,
        monotonic_ns,
        weight_ns,
        allocation: if clock == Clock::Alloc { Allocation::unpack(monotonic_ns) } else { Allocation::default() },
        age_ms,
        slot: 0,
    })
}

/// Stacks of a steady program, so that the outer frames are often those of the previous stack.
fn stack() -> impl Strategy<Value = SentMessage> {
    let steady = (0..MAX_FRAMES).prop_map(|depth| (0..depth as u64).rev().map(|frame| (0x40_0000 + 16 * frame) << 1));
    let frames = (vec(number(), 1..6), steady).prop_map(|(fresh, steady)| fresh.into_iter().chain(steady).collect());
    let any_frames = prop_oneof![frames, vec(any::<u64>(), 1..MAX_FRAMES + 8)];
    // There are few slots, so that they are reused.
    (sample(), any_frames, 0..4u8)
        .prop_map(|(sample, frames, slot)| SentMessage::Stack(Sample { slot, ..sample }, frames))
}

/// Encodes messages.
fn stream(said: &[SentMessage]) -> Vec<u8> {
    let mut buffer = vec![0; said.len() * (MAX_MESSAGE + 4)];
    let mut memory = stack_memory();
    let mut writer = Writer::new(&mut buffer, 0);
    for said in said {
        said.write(&mut writer, &mut memory).unwrap();
    }
    let length = writer.length();
    buffer.truncate(length);
    buffer
}

proptest! {
    #[test]
    fn every_message_reads_back(said in vec(prop_oneof![plain(), stack()], 1..8)) {
        let bytes = stream(&said);
        let (mut rest, mut memory) = (&bytes[..], stack_memory());
        for said in said {
            let framed = split_frame(rest).unwrap().unwrap();
            prop_assert_eq!(decode_message(framed.kind, framed.body, &mut memory).unwrap(), said.message());
            rest = &rest[framed.size..];
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn every_request_reads_back(
        (clock, engine, is_continued) in (clock(), engine(), any::<bool>()),
        period_ns in PERIODS_NS,
        other in number(),
        per_second: u32,
    ) {
        let with = |period_ns| Request::Engage { clock, engine, period_ns, per_second, is_continued };
        for expected in [with(period_ns), Request::Leave] {
            let mut buffer = [0; 32];
            let mut writer = Writer::new(&mut buffer, 0);
            writer.write_request(&expected).unwrap();
            let framed = split_frame(&buffer).unwrap().unwrap();
            prop_assert_eq!(decode_request(framed.kind, framed.body).unwrap(), expected);
        }
        let mut buffer = [0; 32];
        let request = with(other);
        Writer::new(&mut buffer, 0).write_request(&request).unwrap();
        let framed = split_frame(&buffer).unwrap().unwrap();
        prop_assert_eq!(decode_request(framed.kind, framed.body).is_ok(), clock.periods().contains(&other));
    }

    /// A message that did not fit was not sent, so its stack is not remembered.
    #[test]
    fn both_ends_remember_the_same_stacks(said in vec((stack(), 0..3u8), 1..40)) {
        let (mut ours, mut theirs) = (stack_memory(), stack_memory());
        let mut buffer = vec![0; MAX_MESSAGE + 4];
        for (said, room) in said {
            let room = if room == 0 { 64 } else { buffer.len() };
            let mut writer = Writer::new(&mut buffer[..room], 0);
            if said.write(&mut writer, &mut ours).is_ok() {
                let length = writer.length();
                let framed = split_frame(&buffer[..length]).unwrap().unwrap();
                prop_assert_eq!(decode_message(framed.kind, framed.body, &mut theirs).unwrap(), said.message());
            } else {
                prop_assert_eq!(writer.length(), 0);
            }
            for (ours, theirs) in ours.iter().zip(&theirs) {
                prop_assert_eq!(ours.frames(), theirs.frames());
            }
        }
    }

    /// Strings past their limit are truncated by the writer and refused by the reader.
    #[test]
    fn no_string_passes_its_limit(name in vec(any::<u8>(), 0..40)) {
        let long = SentMessage::Plain(Message::Thread(Thread { tid: 1, name: name.clone().into() }));
        let bytes = stream(&[long]);
        let framed = split_frame(&bytes).unwrap().unwrap();
        let read = decode_message(framed.kind, framed.body, &mut []).unwrap();
        let cut = name[..name.len().min(MAX_COMM)].into();
        prop_assert_eq!(read, Message::Thread(Thread { tid: 1, name: cut }));
        let mut body = vec![1, name.len() as u8];
        body.extend(&name);
        prop_assert_eq!(decode_message(framed.kind, &body, &mut []).is_ok(), name.len() <= MAX_COMM);
    }
}

#[test]
fn the_largest_messages_fit() {
    let full = |limit: usize| vec![b'x'; limit].into_boxed_slice();
    let hello = Message::Hello(Hello {
        token: u64::MAX,
        pid: u32::MAX,
        parent: u32::MAX,
        start_ticks: u64::MAX,
        monotonic_ns: u64::MAX,
        cpu_ns: u64::MAX,
        spawn_cause: SpawnCause::Knock,
        executable: full(MAX_PATH),
        argv: full(MAX_ARGV),
    });
    let sample = Sample {
        tid: u32::MAX,
        clock: Clock::Virtual,
        flags: u32::MAX,
        generation: u32::MAX,
        monotonic_ns: u64::MAX,
        weight_ns: u64::MAX,
        allocation: Allocation::default(),
        age_ms: 0,
        slot: STACK_SLOTS as u8 - 1,
    };
    // Differences of alternating sign have the longest varints.
    let frames: Vec<u64> = (0..MAX_FRAMES as u64 + 9).map(|frame| if frame % 2 == 0 { 0 } else { 1 << 63 }).collect();
    for said in [SentMessage::Plain(hello), SentMessage::Stack(sample, frames)] {
        let bytes = stream(std::slice::from_ref(&said));
        let framed = split_frame(&bytes).unwrap().unwrap();
        assert_eq!(decode_message(framed.kind, framed.body, &mut stack_memory()).unwrap(), said.message());
    }
}

#[test]
fn an_incomplete_frame_is_not_decoded() {
    let bytes = stream(&[SentMessage::Plain(Message::Busy { viewer: 300 })]);
    for cut in 0..bytes.len() {
        assert_eq!(split_frame(&bytes[..cut]), Ok(None), "{cut}");
    }
    assert_eq!(split_frame(&bytes).unwrap().unwrap().size, bytes.len());
    assert_eq!(split_frame(&[0; 4]), Err(Malformed::Length(0)));
    assert_eq!(split_frame(&(MAX_MESSAGE as u32 + 1).to_le_bytes()), Err(Malformed::Length(MAX_MESSAGE as u32 + 1)));
}

/// Repeatable random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn throw(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let (a, b) = (self.throw(length + 1), self.throw(length + 1));
        a.min(b)..a.max(b).min(a.min(b) + 64)
    }

    /// Damages a valid stream.
    fn spoil(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = self.throw(bytes.len());
        match self.throw(7) {
            0 => bytes[at] ^= 1 << self.throw(8),
            1 => bytes[at] = [0, 0x7f, 0x80, 0xff][self.throw(4)],
            2 => bytes.truncate(at),
            3 => drop(bytes.splice(self.range(bytes.len()), other[self.range(other.len())].iter().copied())),
            4 => drop(bytes.drain(self.range(bytes.len()))),
            5 => {
                let huge = [u32::MAX, MAX_MESSAGE as u32, MAX_MESSAGE as u32 + 1, 1, 0][self.throw(5)];
                let end = bytes.len().min(at + 4);
                bytes[at..end].copy_from_slice(&huge.to_le_bytes()[..end - at]);
            }
            _ => {
                // The length of the first message, so that the following ones are misaligned.
                let length = u32::from_le_bytes(bytes.get(..4).unwrap_or(&[9; 4]).try_into().unwrap());
                let wrong = length.wrapping_add(self.throw(9) as u32).wrapping_sub(4);
                let end = bytes.len().min(4);
                bytes[..end].copy_from_slice(&wrong.to_le_bytes()[..end]);
            }
        }
    }
}

/// Decodes a stream up to the first malformed message. Returns the number of messages.
fn read(bytes: &[u8], memory: &mut StackMemory) -> usize {
    let (mut rest, mut count) = (bytes, 0);
    while let Ok(Some(framed)) = split_frame(rest) {
        assert!(framed.size > 4 && framed.size <= MAX_MESSAGE + 4);
        let _ = decode_request(framed.kind, framed.body);
        if decode_message(framed.kind, framed.body, memory).is_err() {
            break;
        }
        rest = &rest[framed.size..];
        count += 1;
    }
    count
}

#[test]
fn a_hundred_thousand_damaged_streams_do_no_harm() {
    const CASES: usize = 100_000;
    // A decoded stack takes 16 bytes a frame and a string its own length. Nothing else is
    // allocated.
    const MOST: usize = 16 * MAX_FRAMES + MAX_MESSAGE;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let messages = vec(prop_oneof![plain(), stack()], 1..6);
    let streams: Vec<Vec<u8>> = (0..200)
        .map(|_| stream(&proptest::strategy::ValueTree::current(&messages.new_tree(&mut runner).unwrap())))
        .collect();
    let mut dice = Dice(0x5167_70a1_5167_70a1);
    let (mut memory, mut most, mut whole, mut broken) = (stack_memory(), 0, 0, 0);
    for _ in 0..CASES {
        let mut bytes = streams[dice.throw(streams.len())].clone();
        for _ in 0..1 + dice.throw(4) {
            let other = dice.throw(streams.len());
            dice.spoil(&mut bytes, &streams[other]);
        }
        let mut count = 0;
        most = most.max(peak_bytes(|| count = read(&bytes, &mut memory)));
        // A message has at least five bytes, so reading ends.
        assert!(count <= bytes.len() / 5);
        (whole, broken) = if count > 0 { (whole + 1, broken) } else { (whole, broken + 1) };
    }
    assert!(most <= MOST, "{most} bytes at once");
    assert!(most >= 8 * MAX_FRAMES, "the counter counts: {most}");
    assert!(whole > CASES / 10 && broken > CASES / 10, "{whole} and {broken}: spoiled neither too little nor too much");
}

#[test]
fn the_allocator_counts_an_allocation() {
    assert_eq!(peak_bytes(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(4711)))), 4711);
}
