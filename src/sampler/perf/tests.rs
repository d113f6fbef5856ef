//! Tests of events on threads of the test itself, and of records that are not well-formed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use proptest::prelude::*;

use super::record_bytes::RecordBytes;
use super::*;
use crate::arch;
use crate::sampler::clock::{monotonic_ns, thread_cpu_ns};

fn own_tid() -> u32 {
    nix::unistd::gettid().as_raw() as u32
}

/// Takes so much CPU time.
#[inline(never)]
fn burn(ms: u64) {
    let end_ns = thread_cpu_ns() + 1_000_000 * ms;
    while thread_cpu_ns() < end_ns {
        std::hint::spin_loop();
    }
}

/// Whether this kernel tells what a thread has used. Those before 6.18 that are newer than 5.12 do
/// not: for them it has been forgotten already.
fn writes_used_time() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    !((5, 13)..(6, 18)).contains(&version)
}

/// The records of these threads of this process, up to now.
fn read(rings: &mut Rings, mut handle: impl FnMut(u64, &Record<'_>)) {
    let until_ns = monotonic_ns();
    let mut last_ns = 0;
    while let Some((ring, at_ns, record)) = rings.peek(until_ns) {
        assert!(at_ns >= last_ns, "records come in the order of their times");
        last_ns = at_ns;
        handle(at_ns, &record);
        rings.advance(ring);
    }
}

/// Events are not allowed everywhere.
fn open(tid: u32) -> Option<(Rings, Events)> {
    let rings = Rings::open().ok()?;
    let mut events = Events::new(&rings, 1_000_000, 5);
    let thread = ThreadNumbers { pid: std::process::id(), tid };
    events.watch(&rings, WatchedTid { thread, has_children: false }).ok()?;
    Some((rings, events))
}

#[test]
fn a_thread_and_those_that_it_makes_are_sampled() {
    let (tell, told) = mpsc::channel();
    let (go, begin) = mpsc::channel::<()>();
    let is_read = Arc::new(AtomicBool::new(false));
    let end = is_read.clone();
    let burner = thread::spawn(move || {
        tell.send(own_tid()).unwrap();
        begin.recv().unwrap();
        burn(60);
        let child = thread::Builder::new().name("of a burner".to_owned());
        let child = child.spawn(|| {
            burn(40);
            own_tid()
        });
        tell.send(child.unwrap().join().unwrap()).unwrap();
        while !end.load(Ordering::Acquire) {
            thread::yield_now();
        }
    });
    let tid = told.recv().unwrap();
    let opened = open(tid);
    go.send(()).unwrap();
    let child = told.recv().unwrap();
    if let Some((mut rings, mut events)) = opened {
        let (mut weights, mut started, mut used_ns, mut names) = ([0; 2], None, 0, Vec::new());
        let pid = std::process::id();
        let mut ended = Vec::new();
        // A thread is joined before the kernel has written its end.
        while !ended.contains(&child) {
            read(&mut rings, |at_ns, record| match record {
                Record::Sample(sample) => {
                    assert_eq!(sample.thread.pid, pid);
                    let registers = sample.registers.unwrap();
                    let mut stack = vec![0; sample.stack_length()];
                    assert_eq!(sample.copy_stack(&mut stack), stack.len());
                    assert!(registers.ip != 0 && !stack.is_empty());
                    if let Some(at) = [tid, child].iter().position(|&it| it == sample.thread.tid) {
                        weights[at] += events.weigh(sample, at_ns, monotonic_ns()).unwrap_or(0);
                    }
                }
                Record::Started { thread, maker } if maker.tid == tid => started = Some(*thread),
                Record::Used { thread, cpu_ns } if thread.tid == child => used_ns += cpu_ns,
                Record::Named { thread, name } if thread.tid == child => names.push(name.clone()),
                Record::Ended(thread) => ended.push(thread.tid),
                _ => {}
            });
        }
        assert_eq!(started, Some(ThreadNumbers { pid, tid: child }));
        assert!(weights[0] > 10_000_000, "{} ns sampled of the CPU time in 60 ms", weights[0]);
        assert!(used_ns > 1_000_000 || !writes_used_time(), "{used_ns} ns of the CPU time in 40 ms");
        assert!(names.iter().any(|name| name == b"of a burner"), "{names:?}");
        assert!(!ended.contains(&tid));
    }
    is_read.store(true, Ordering::Release);
    burner.join().unwrap();
}

#[test]
fn a_thread_that_has_ended_has_no_events() {
    let tid = thread::spawn(own_tid).join().unwrap();
    let Ok(rings) = Rings::open() else { return };
    let mut events = Events::new(&rings, 1_000_000, 5);
    let watched = WatchedTid { thread: ThreadNumbers { pid: 1, tid }, has_children: false };
    // The thread is joined before the kernel has forgotten it.
    while events.watch(&rings, watched) != Err(OpenError::Ended) {
        events.forget_thread(tid);
        events = Events::new(&rings, 1_000_000, 5);
    }
}

/// A record of a sample with a stack of this many bytes.
fn sample_record(stack: usize) -> Vec<u8> {
    let mut body: Vec<u64> = vec![u64::from(7_u32) | u64::from(8_u32) << 32, 1_000, 3, 1_000_000];
    // A marker and two functions of the kernel.
    body.extend([3, -128_i64 as u64, 0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000]);
    body.push(2);
    body.extend((100..).take(arch::SAMPLED_REGISTERS.count_ones() as usize));
    body.push(stack as u64);
    body.extend((0..stack as u64 / 8).map(|word| word + 1));
    if stack > 0 {
        body.push(16);
    }
    let mut bytes = 9_u32.to_ne_bytes().to_vec();
    bytes.extend(1_u16.to_ne_bytes());
    bytes.extend((8 + 8 * body.len() as u16).to_ne_bytes());
    bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

#[test]
fn a_sample_has_its_fields() {
    let ip = arch::sampled_registers(&std::array::from_fn(|at| 100 + at as u64))[arch::PROGRAM_COUNTER];
    for stack in [0, 64] {
        let bytes = sample_record(stack);
        let Record::Sample(sample) = Record::decode(RecordBytes::new(&bytes, &[])) else { panic!("{stack}") };
        assert_eq!((sample.thread, sample.cpu, sample.period_ns), (ThreadNumbers { pid: 7, tid: 8 }, 3, 1_000_000));
        assert_eq!(sample.kernel, [0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000]);
        assert_eq!(sample.registers.map(|registers| registers.ip), Some(ip));
        let mut copied = [0; 64];
        assert_eq!(sample.copy_stack(&mut copied), if stack == 0 { 0 } else { 16 });
        assert_eq!(copied[8..9], if stack == 0 { [0] } else { [2] });
    }
}

proptest! {
    /// The rings are the kernel's, but nothing else checks what is in them.
    #[test]
    fn any_bytes_are_decoded(
        kind in 0_u32..20, misc: u16, mut bytes in proptest::collection::vec(any::<u8>(), 8..400), split in 0_usize..400
    ) {
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4..6].copy_from_slice(&misc.to_ne_bytes());
        let (first, second) = bytes.split_at(split.min(bytes.len()));
        if let Record::Sample(sample) = Record::decode(RecordBytes::new(first, second)) {
            prop_assert!(sample.copy_stack(&mut [0; 1000]) <= 1000);
        }
    }

    #[test]
    fn damaged_samples_are_decoded(at in 0_usize..300, value: u8, length in 8_usize..300) {
        let mut bytes = sample_record(64);
        let at = at % bytes.len();
        bytes[at] = value;
        bytes.truncate(length);
        let _ = Record::decode(RecordBytes::new(&bytes, &[]));
    }
}
