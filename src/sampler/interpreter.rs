//! The interpreter (CPython) of a watched process. The walker finds it among the modules, and the
//! tracer reads a thread's list of frames while the thread stands still.

use std::cell::Cell;
use std::collections::HashSet;

use super::clock::monotonic_ns;
use super::maps::ProcessMaps;
use super::ptrace;
use super::stack_copy::StackCopy;
use super::unwind::ProcessModule;
use crate::process::cpython::find::{DynamicSection, find};
use crate::process::cpython::frames::{CPython, FrameList};
use crate::process::cpython::memory::TargetMemory;
use crate::wire::FrameAddress;

/// Maximum time for which a stopped thread waits for its frames to be read, ns. They are left out
/// if it passes. An ordinary stack takes some ten microseconds. Up to CPython 3.10, where each
/// frame is an object, a thousand frames take half a millisecond.
const MAX_READ_NS: u64 = 1_000_000;
/// Number of reads between two looks at the clock.
const READS_PER_LOOK: u32 = 16;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const ELF_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// Maximum number of program headers that are read.
const MAX_HEADERS: usize = 64;

/// The memory of another process.
pub(super) struct RemoteMemory {
    pid: u32,
}

impl RemoteMemory {
    pub(super) fn new(pid: u32) -> RemoteMemory {
        RemoteMemory { pid }
    }
}

impl TargetMemory for RemoteMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        (ptrace::read_memory(self.pid, address, buffer) == buffer.len()).then_some(())
    }

    fn gather(&self, addresses: &[u64], buffer: &mut [u8]) -> Option<()> {
        (ptrace::gather_memory(self.pid, addresses, buffer) == buffer.len()).then_some(())
    }
}

/// The memory of another process, of which one of the threads is stopped: reads fail when it has
/// stood still for too long.
struct HastyMemory {
    memory: RemoteMemory,
    end_ns: u64,
    reads: Cell<u32>,
}

impl HastyMemory {
    fn has_time(&self) -> Option<()> {
        let reads = self.reads.get();
        self.reads.set(reads.wrapping_add(1));
        (reads % READS_PER_LOOK != READS_PER_LOOK - 1 || monotonic_ns() < self.end_ns).then_some(())
    }
}

impl TargetMemory for HastyMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.has_time()?;
        self.memory.read(address, buffer)
    }

    fn gather(&self, addresses: &[u64], buffer: &mut [u8]) -> Option<()> {
        self.has_time()?;
        self.memory.gather(addresses, buffer)
    }
}

/// Reads the frames of a thread that stands still, or of one that sleeps: then the caller checks
/// that it slept all the time. `tid` is its id in its own namespace. `state` is as in
/// [`CPython::read_frames`]. A stack without an address in the interpreter's loop has no frames.
pub(super) fn read_frames(
    cpython: &CPython,
    (pid, tid): (u32, u32),
    state: &mut u64,
    ip: u64,
    stack: &StackCopy,
) -> Option<Box<FrameList>> {
    let is_loop = |address: u64| cpython.is_loop(FrameAddress::Return(address).pack());
    if tid == 0 || !(is_loop(ip) || stack.words().any(is_loop)) {
        return None;
    }
    let memory =
        HastyMemory { memory: RemoteMemory::new(pid), end_ns: monotonic_ns() + MAX_READ_NS, reads: Cell::new(0) };
    let mut list = Box::new(FrameList::new());
    cpython.read_frames(&memory, tid, state, &mut list)?;
    Some(list)
}

/// Whether a process runs CPython, by the names of its files.
pub(super) fn is_likely(pid: u32) -> bool {
    let is_name = |path: &[u8]| {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        name.starts_with(b"python") || name.starts_with(b"libpython")
    };
    let maps = ProcessMaps::read(pid, pid).unwrap_or_default();
    maps.entries().any(|mapping| mapping.executable && is_name(mapping.path))
}

/// An interpreter that was found in a module.
#[derive(Clone, Debug)]
pub(super) struct FoundCPython {
    /// Major and minor version.
    pub(super) version: (u8, u8),
    /// The interpreter, if its frames can be read.
    pub(super) cpython: Option<CPython>,
    module: ProcessModule,
}

/// Returns the first interpreter among modules.
pub(super) fn find_among<'a>(
    pid: u32,
    maps: &ProcessMaps,
    modules: impl IntoIterator<Item = &'a ProcessModule>,
) -> Option<FoundCPython> {
    let memory = RemoteMemory::new(pid);
    let readable: HashSet<u64> = maps.entries().filter(|entry| entry.readable).map(|entry| entry.start).collect();
    modules.into_iter().find_map(|module| {
        let section = readable.contains(&module.start).then(|| dynamic_section(&memory, module))??;
        let (version, cpython) = find(&memory, section)?;
        Some(FoundCPython { version, cpython, module: module.clone() })
    })
}

impl FoundCPython {
    /// Returns whether it was found in one of these modules.
    pub(super) fn is_in(&self, modules: &[(u32, ProcessModule)]) -> bool {
        modules.iter().any(|(_, module)| *module == self.module)
    }
}

/// Finds the dynamic section of a module by the headers at its start.
fn dynamic_section(memory: &RemoteMemory, module: &ProcessModule) -> Option<DynamicSection> {
    let mut header = [0; ELF_HEADER];
    memory.read(module.start, &mut header)?;
    let number = |bytes: &[u8], at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let (table, size, count) = (number(&header, 32, 8), number(&header, 54, 2), number(&header, 56, 2) as usize);
    if &header[..4] != b"\x7fELF" || size != PROGRAM_HEADER as u64 || count > MAX_HEADERS {
        return None;
    }
    let mut headers = vec![0; count * PROGRAM_HEADER];
    memory.read(module.start.checked_add(table)?, &mut headers)?;
    let segment = |kind: u32| {
        let header = headers.chunks_exact(PROGRAM_HEADER).find(|header| number(header, 0, 4) == u64::from(kind))?;
        Some((number(header, 16, 8).wrapping_add(module.bias), number(header, 32, 8)))
    };
    let (start, size) = segment(PT_DYNAMIC)?;
    let unwind_index = segment(PT_GNU_EH_FRAME).map_or(0, |(address, _)| address);
    Some(DynamicSection { bias: module.bias, start, size, unwind_index })
}
