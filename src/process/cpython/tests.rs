//! The memory of a process with CPython 3.12, made by hand, and the same with damages: whatever is
//! read, the reading ends and its result is bounded.

use std::cell::Cell;

use crate::property::property;
use proptest::prelude::*;

use super::find::{DynamicSection, find};
use super::frames::{CPython, FrameList};
use super::functions::FunctionTable;
use super::memory::TargetMemory;
use super::merge;
use crate::wire::interpreter::is_interpreted;
use crate::wire::{FrameAddress, MAX_FRAMES};

const BASE: u64 = 0x10_0000;
const SIZE: usize = 0x4000;
/// Addresses in the memory.
const DYNAMIC: u64 = BASE;
const HASHES: u64 = BASE + 0x100;
const SYMBOLS: u64 = BASE + 0x200;
const NAMES: u64 = BASE + 0x400;
const VERSION: u64 = BASE + 0x600;
const RUNTIME: u64 = BASE + 0x800;
const INTERPRETER: u64 = BASE + 0x900;
const THREAD: u64 = BASE + 0xa00;
const C_FRAME: u64 = BASE + 0xc00;
const FRAMES: u64 = BASE + 0x1000;
const CODE: u64 = BASE + 0x2000;
const TEXT: u64 = BASE + 0x2800;
const TABLE: u64 = BASE + 0x2900;
const CODE_TYPE: u64 = 0x9000;
const LOOP: u64 = 0x5000;
const TID: u32 = 77;
/// Maximum number of reads of a list of frames: a step each, and the search of a thread.
const MAX_READS: usize = 40_000;

struct MadeProcess {
    bytes: Vec<u8>,
    reads: Cell<usize>,
}

impl TargetMemory for &MadeProcess {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.reads.set(self.reads.get() + 1);
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        buffer.copy_from_slice(self.bytes.get(start..start.checked_add(buffer.len())?)?);
        Some(())
    }
}

impl MadeProcess {
    fn put(&mut self, address: u64, bytes: &[u8]) {
        let start = (address - BASE) as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn word(&mut self, address: u64, word: u64) {
        self.put(address, &word.to_le_bytes());
    }

    /// A process whose thread is in `f`, which `f` has called, which C has called.
    fn new() -> MadeProcess {
        let mut image = MadeProcess { bytes: vec![0; SIZE], reads: Cell::new(0) };
        // One bucket with all symbols; the filter has no word.
        let symbols: [(&str, u64, u64); 4] = [
            ("_PyEval_EvalFrameDefault", LOOP, 0x100),
            ("_PyRuntime", RUNTIME, 8),
            ("PyCode_Type", CODE_TYPE, 8),
            ("Py_Version", VERSION, 4),
        ];
        for (place, (tag, value)) in [(5, NAMES), (6, SYMBOLS), (0x6fff_fef5, HASHES)].into_iter().enumerate() {
            image.word(DYNAMIC + 16 * place as u64, tag);
            image.word(DYNAMIC + 16 * place as u64 + 8, value);
        }
        for (place, half) in [1u32, 1, 0, 0, 1].into_iter().enumerate() {
            image.put(HASHES + 4 * place as u64, &half.to_le_bytes());
        }
        let mut name_at = 1;
        for (place, (name, address, size)) in symbols.into_iter().enumerate() {
            let entry = SYMBOLS + 24 * (place as u64 + 1);
            image.put(entry, &(name_at as u32).to_le_bytes());
            image.put(entry + 6, &1u16.to_le_bytes());
            image.word(entry + 8, address);
            image.word(entry + 16, size);
            image.put(NAMES + name_at, name.as_bytes());
            name_at += name.len() as u64 + 1;
            let hash = name.bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
            let is_last = place + 1 == symbols.len();
            image.put(HASHES + 20 + 4 * place as u64, &(hash & !1 | u32::from(is_last)).to_le_bytes());
        }
        image.put(VERSION, &0x030c_01f0u32.to_le_bytes());
        let words = [
            (RUNTIME + 0x28, INTERPRETER),
            (RUNTIME + 0x30, INTERPRETER),
            (INTERPRETER + 0x48, THREAD),
            (THREAD + 0x90, u64::from(TID)),
            (THREAD + 0x38, C_FRAME),
            (THREAD + 0xe8, FRAMES),
            (THREAD + 0xf0, FRAMES + 0x400),
            (C_FRAME, FRAMES + 0x200),
            // Two frames of `f`, and the one that ends the call of the loop.
            (FRAMES + 0x200, CODE),
            (FRAMES + 0x208, FRAMES + 0x100),
            (FRAMES + 0x238, CODE + 0xc0 + 8),
            (FRAMES + 0x100, CODE),
            (FRAMES + 0x108, FRAMES),
            (FRAMES + 0x138, CODE + 0xc0 + 4),
            (CODE + 8, CODE_TYPE),
            (CODE + 0x44, 3),
            (CODE + 0x70, TEXT),
            (CODE + 0x80, TEXT),
            (CODE + 0x88, TABLE),
            // A compact `str` of ASCII characters, and a `bytes`.
            (TEXT + 16, 1),
            (TEXT + 32, 1 << 2 | 1 << 5 | 1 << 6),
            (TABLE + 16, 2),
        ];
        words.into_iter().for_each(|(address, word)| image.word(address, word));
        image.put(FRAMES + 0x46, &[3]);
        image.put(TEXT + 0x28, b"f");
        image.put(TABLE + 32, &[0x80, 0]);
        image
    }

    fn find(&self) -> Option<CPython> {
        find(&self, DynamicSection { bias: 0, start: DYNAMIC, size: 64, unwind_index: 0 })?.1
    }

    /// The stack of the thread with the names of its functions; native frames are numbers.
    fn stack(&self) -> Option<Vec<String>> {
        let cpython = self.find()?;
        let mut list = FrameList::new();
        cpython.read_frames(&self, TID, &mut 0, &mut list)?;
        let native = [0x7000, LOOP + 8, 0x7008].map(|address| FrameAddress::Return(address).pack());
        let mut frames = [0; MAX_FRAMES];
        frames[..3].copy_from_slice(&native);
        let depth = merge::merge(&mut frames, 3, true, &list, |frame| cpython.loop_offset(frame))?;
        let (mut named, mut names) = ([0; MAX_FRAMES], Vec::new());
        let mut table = FunctionTable::new(self);
        let stack = table.name_frames(Some(&cpython), &frames[..depth], &mut named, |function| {
            names.push(String::from_utf8_lossy(function.name).into_owned());
            true
        });
        assert!(names.len() <= stack.len());
        let text = |&word: &u64| if is_interpreted(word) { names[0].clone() } else { "native".to_owned() };
        Some(stack.iter().map(text).collect())
    }
}

#[test]
fn the_stack_of_a_thread_is_read() {
    let stack = MadeProcess::new().stack().expect("it is whole");
    assert_eq!(stack, ["native", "f", "f", "native", "native"]);
}

/// The agent does it for each module of each process: with a read for each word it took 0.9 ms in a
/// C compiler, which has ten.
#[test]
fn a_file_without_an_interpreter_takes_three_reads() {
    let mut image = MadeProcess::new();
    let chains: Vec<u8> = image.bytes[0x110..0x130].to_vec();
    // One word in the filter.
    image.put(HASHES + 8, &1u32.to_le_bytes());
    image.put(HASHES + 24, &chains);
    image.word(HASHES + 16, u64::MAX);
    assert!(image.find().is_some(), "the filter lets it pass");
    image.reads.set(0);
    image.word(HASHES + 16, 0);
    assert!(image.find().is_none());
    assert_eq!(image.reads.get(), 3);
}

#[test]
fn a_cycle_of_frames_or_threads_ends() {
    for (address, word) in [(FRAMES + 0x108, FRAMES + 0x200), (THREAD + 0x90, 1), (THREAD + 8, THREAD)] {
        let mut image = MadeProcess::new();
        image.word(THREAD + 8, THREAD);
        image.word(INTERPRETER, INTERPRETER);
        image.word(address, word);
        let _either_way = image.stack();
        assert!(image.reads.get() < MAX_READS, "{} reads", image.reads.get());
    }
}

#[test]
fn a_function_that_was_freed_lends_nobody_its_name() {
    let image = MadeProcess::new();
    let cpython = image.find().expect("an interpreter");
    let mut list = FrameList::new();
    (&&image).read(BASE, &mut [0]).expect("it is mapped");
    cpython.read_frames(&&image, TID, &mut 0, &mut list).expect("it has frames");
    let mut changed = MadeProcess::new();
    changed.word(CODE + 0x80, TABLE);
    let mut frames = [0; MAX_FRAMES];
    frames[0] = FrameAddress::Return(LOOP + 8).pack();
    let depth = merge::merge(&mut frames, 1, true, &list, |frame| cpython.loop_offset(frame)).expect("they match");
    let (mut named, mut names) = ([0; MAX_FRAMES], Vec::new());
    FunctionTable::new(&changed).name_frames(Some(&cpython), &frames[..depth], &mut named, |function| {
        names.push(function.name.to_vec());
        true
    });
    assert_eq!(names, [b"[freed function]"]);
}

/// The number of damaged processes: more in CI than elsewhere.
fn cases() -> u32 {
    if std::env::var_os("CI").is_some() { 20_000 } else { 256 }
}

proptest! {
    #![proptest_config(property(cases()))]
    #[test]
    fn damaged_memory_does_no_harm(
        damages in proptest::collection::vec((0..SIZE as u64 - 8, prop_oneof![
            any::<u64>(),
            (0..SIZE as u64).prop_map(|offset| BASE + offset),
            0..4096u64,
        ]), 1..12),
        aims in proptest::collection::vec((0..0x300u64, 0..8usize), 0..4),
    ) {
        let mut image = MadeProcess::new();
        damages.iter().for_each(|&(offset, word)| image.word(BASE + offset, word));
        // Some of the damages hit what is read for certain.
        let parts = [DYNAMIC, HASHES, RUNTIME, INTERPRETER, THREAD, C_FRAME, FRAMES, CODE];
        for (&(offset, part), &(_, word)) in aims.iter().zip(&damages) {
            image.word(parts[part] + offset / 8 * 8, word);
        }
        let _either_way = image.stack();
        prop_assert!(image.reads.get() < MAX_READS, "{} reads", image.reads.get());
    }
}
