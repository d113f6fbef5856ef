//! A synthetic agent: it speaks the real wire format to the real viewer, from the process that the
//! viewer launched, at a given rate. The process first removes the real agent by executing itself
//! again without the preload, so that there are no other samples.
//!
//! Its stacks form a binary tree that branches at about every third frame, [`DEPTH`] frames deep,
//! with [`STACKS`] equally likely leaves; the branches nearest to the root select the thread.
//! Frames are functions of a real file, so that names come from real symbols.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use object::{Object, ObjectSymbol};
use sigtop::wire::{
    Arrival, Clock, ConnectionEvent, Engaged, Engine, EngineState, FrameAddress, Hello, LINK_VARIABLE, Message, Module,
    Sample, SourceId, SpawnCause, Thread, Writer, stack_memory,
};

use crate::harness::run::text;
use crate::harness::targets;

/// Number of distinct stacks.
pub(crate) const STACKS: u64 = 200_000;
/// Number of frames of each.
pub(crate) const DEPTH: u64 = 60;
/// Number of threads, each with its own stack slot.
const THREADS: u64 = 16;
/// Number of bits that distinguish stacks.
const BITS: u64 = 18;
/// Number of called functions, and of call sites in each.
const FUNCTIONS: usize = 1_000;
const SITES: u64 = 4;
/// The time between two batches.
const BATCH: Duration = Duration::from_millis(10);
/// Address at which the file is reported as mapped.
const BIAS: u64 = 0x5555_0000_0000;
/// Name of the file.
const SOURCE: &str = "functions";
/// The argument that makes this program an agent.
pub(crate) const WORD: &str = "--speak";

const _: () = assert!(STACKS <= 1 << BITS);

/// Returns the target's command line: samples per second, the number of stacks that are sent once
/// before, and the seconds of earlier samples at this rate, which are sent together with their
/// original ages.
pub(crate) fn arguments(rate: u64, before: u64, past: u64) -> [String; 5] {
    [WORD.to_owned(), rate.to_string(), before.to_string(), past.to_string(), text(&functions()).to_owned()]
}

/// Writes a file with [`FUNCTIONS`].
pub(crate) fn functions() -> PathBuf {
    let one = |number| {
        format!("double function_{number}(double x) {{ return x * {number}.5 + __builtin_sin(x) / (x + {number}); }}\n")
    };
    let source: String = (0..FUNCTIONS).map(one).collect();
    targets::generated(SOURCE, &source, "c", "cc", &["-O2", "-shared", "-fPIC"])
}

/// Becomes the agent if the command line requests it; otherwise returns.
pub(crate) fn speak_if_told() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).map(String::as_str) != Some(WORD) {
        return;
    }
    let number = |index: usize| arguments[index].parse().expect("a number");
    match std::env::var(LINK_VARIABLE) {
        // The new process image does not contain the real agent.
        Ok(link) => {
            let own = std::env::current_exe().expect("this program");
            let mut again = Command::new(own);
            again.args(&arguments[1..6]).arg(link).env_remove(LINK_VARIABLE).env_remove("LD_PRELOAD");
            panic!("{}", again.exec());
        }
        Err(_) => speak((number(2), number(3), number(4)), &arguments[5], &arguments[6]),
    }
}

/// Addresses of the file's code, several in each function.
pub(crate) fn call_sites(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).expect("the file");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let code = file.symbols().filter(|symbol| symbol.name().is_ok_and(|name| name.starts_with("function_")));
    let site = |start: u64, size: u64, site: u64| start + size * (site + 1) / (SITES + 2);
    let sites = code.flat_map(|symbol| (0..SITES).map(move |number| site(symbol.address(), symbol.size(), number)));
    sites.collect()
}

/// Packed frames of a stack, leaf first.
pub(crate) fn stack(number: u64, sites: &[u64], frames: &mut Vec<u64>) {
    frames.clear();
    for depth in (0..DEPTH).rev() {
        let decided = BITS * depth / (DEPTH - 1);
        let branch = number >> (BITS - decided);
        let site = sites[mixed(branch << 8 | depth) as usize % sites.len()] + BIAS;
        let address = if depth + 1 == DEPTH { FrameAddress::Instruction(site) } else { FrameAddress::Return(site + 1) };
        frames.push(address.pack());
    }
}

/// The first messages of a process with pid 7, at time 0.
pub(crate) fn hello() -> Arrival {
    let hello = Hello {
        token: 0,
        pid: 7,
        parent: 1,
        start_ticks: 1,
        monotonic_ns: 0,
        cpu_ns: 0,
        spawn_cause: SpawnCause::Tick,
        executable: (*b"/bin/app").into(),
        argv: (*b"app\0").into(),
    };
    Arrival { source: SourceId(0), pid: 7, at_ns: 0, event: ConnectionEvent::Received(Message::Hello(hello)) }
}

/// A sample of this process, of 1 ms of CPU time.
pub(crate) fn sampled(tid: u32, at_ns: u64, packed: &[u64]) -> Arrival {
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
    Arrival {
        source: SourceId(0),
        pid: 7,
        at_ns,
        event: ConnectionEvent::Received(Message::Sample(sample, packed.into())),
    }
}

/// Steele, Lea and Flood's finaliser.
pub(crate) fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
    Duration::from(now).as_nanos() as u64
}

fn speak((rate, before, past): (u64, u64, u64), file: &str, link: &str) {
    let mut parts = link.splitn(5, ':');
    let mut next = || parts.next().expect("five parts");
    let (token, _, period_ns, _, path) = (next(), next(), next(), next(), next());
    let period_ns: u64 = period_ns.parse().expect("a number");
    let mut socket = UnixStream::connect(path).expect("the viewer listens");
    let mut orders = socket.try_clone().expect("a descriptor");
    // Requests are ignored; the loop ends when there is nothing more to read.
    std::thread::spawn(move || while orders.read(&mut [0; 256]).is_ok_and(|count| count > 0) {});

    let sites = call_sites(Path::new(file));
    let (mut memory, mut buffer, mut frames) = (stack_memory(), vec![0; 64 * 1024], Vec::new());
    let mut writer = Writer::new(&mut buffer, 0);
    let hello = Hello {
        token: token.parse().expect("a number"),
        pid: std::process::id(),
        parent: 0,
        start_ticks: 1,
        monotonic_ns: now_ns(),
        cpu_ns: 0,
        spawn_cause: SpawnCause::Tick,
        executable: file.as_bytes(),
        argv: b"speaker\0",
    };
    writer.write_hello(&hello).expect("room");
    let (device, inode) = fs::metadata(file).map(|file| (file.dev(), file.ino())).expect("the file");
    let module = Module {
        id: 1,
        generation: 1,
        start: BIAS,
        end: BIAS + (1 << 32),
        bias: BIAS,
        device,
        inode,
        path: file.as_bytes(),
        build_id: &[],
    };
    writer.write_module(&module).expect("room");
    for tid in 0..THREADS {
        writer.write_thread(&Thread { tid: 100 + tid as u32, name: b"worker" }).expect("room");
    }
    let (clock, engine, state) = (Clock::Prof, Engine::Threads, EngineState::Running);
    writer.write_engaged(&Engaged { clock, engine, state, period_ns, signal: 27 }).expect("room");
    let length = writer.length();
    socket.write_all(&buffer[..length]).expect("the viewer reads");

    // Numbers of stacks, each with its age in ns.
    let mut say = |samples: &mut dyn Iterator<Item = (u64, u64)>, sent: &mut u64| {
        let mut length = 0;
        for (number, age_ns) in samples {
            stack(number, &sites, &mut frames);
            let slot = (number >> (BITS - THREADS.ilog2() as u64)) as u8;
            let sample = Sample {
                tid: 100 + u32::from(slot),
                clock,
                flags: 0,
                generation: 1,
                monotonic_ns: now_ns().saturating_sub(age_ns),
                age_ms: 0,
                weight_ns: period_ns,
                allocation: Default::default(),
                slot,
            };
            let mut writer = Writer::new(&mut buffer, length);
            if writer.write_sample(&sample, &frames, &mut memory).is_err() {
                if socket.write_all(&buffer[..length]).is_err() {
                    return false;
                }
                writer = Writer::new(&mut buffer, 0);
                writer.write_sample(&sample, &frames, &mut memory).expect("room for one");
            }
            length = writer.length();
            *sent += 1;
        }
        socket.write_all(&buffer[..length]).is_ok()
    };

    let (mut sent, mut random) = (0, 1);
    let earlier = past * rate;
    let mut old = (0..earlier).map(|index| {
        random += 1;
        (mixed(random) % STACKS, (earlier - index) * 1_000_000_000 / rate.max(1))
    });
    if !say(&mut old, &mut sent) || !say(&mut (0..before).map(|number| (number, 0)), &mut sent) {
        return;
    }
    let start = Instant::now();
    let mut due = 0;
    loop {
        let wanted = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        let mut batch = (due..wanted).map(|_| {
            random += 1;
            (mixed(random) % STACKS, 0)
        });
        if !say(&mut batch, &mut sent) {
            return;
        }
        due = wanted;
        std::thread::sleep(BATCH);
    }
}
