//! The calls that are not passed on by a jump: those at which a countdown ends, those of a thread
//! whose countdown is not found at once, and those that move a sampled allocation.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::agent::allocations::countdown::{Counted, Spacing};
use crate::agent::allocations::fork_child;
use crate::agent::allocations::tables::{Tables, tables};
use crate::agent::os::memory::is_fresh_memory;
use crate::agent::os::{coarse_clock, syscall};
use crate::agent::sampling::ring::RawSample;
use crate::agent::sampling::sample;
use crate::agent::state;
use crate::agent::unwind::registers::Registers;
use crate::arch::{self, NOT_COUNTED, PROGRAM_COUNTER, STACK_POINTER, SlowCall, page_size};
use crate::wire::Allocation;

/// Mean bytes between two samples; 0 while the clock is off. Written by the agent thread.
pub(crate) static INTERVAL: AtomicU64 = AtomicU64::new(0);
/// Maximum number of samples of a thread in a second; 0 if there is none. Written before [`INTERVAL`].
pub(crate) static PER_SECOND: AtomicU32 = AtomicU32::new(0);
/// Epoch of the samples. Written before [`INTERVAL`].
pub(crate) static EPOCH: AtomicU32 = AtomicU32::new(0);

/// The way in which a function of the allocator gets its arguments and gives its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kind {
    /// The first argument is the size.
    Size = 0,
    /// The product of the first two arguments is the size.
    Product = 1,
    /// The second argument is the size.
    Aligned = 2,
    /// The third argument is the size, and the first points to the result.
    Stored = 3,
    /// The first argument is an allocation to move, the second the size.
    Moved = 4,
    /// The first argument is an allocation to move, the product of the next two the size.
    MovedProduct = 5,
    /// mmap(2): anonymous memory counts, unless it is only reserved (`PROT_NONE`).
    Mapped = 6,
    /// mremap(2): the bytes count by which anonymous memory grows.
    Remapped = 7,
}

const KINDS: [Kind; 8] = [
    Kind::Size,
    Kind::Product,
    Kind::Aligned,
    Kind::Stored,
    Kind::Moved,
    Kind::MovedProduct,
    Kind::Mapped,
    Kind::Remapped,
];

fn kind(code: usize) -> Kind {
    KINDS.get(code & !NOT_COUNTED).copied().unwrap_or(Kind::Size)
}

/// Returns the size that a call asks for; `None` if it does not count.
fn size(kind: Kind, arguments: &[usize; 6]) -> Option<usize> {
    let [first, second, third, flags, ..] = *arguments;
    match kind {
        Kind::Size => Some(first),
        Kind::Product => first.checked_mul(second),
        Kind::Aligned | Kind::Moved => Some(second),
        Kind::Stored => Some(third),
        Kind::MovedProduct => second.checked_mul(third),
        Kind::Mapped => {
            let is_usable = third as i32 != libc::PROT_NONE;
            (is_usable && flags as i32 & libc::MAP_ANONYMOUS != 0).then_some(second)
        }
        Kind::Remapped => {
            let page = page_size();
            third.checked_next_multiple_of(page)?.checked_sub(second.checked_next_multiple_of(page)?)
        }
    }
}

/// Takes the allocation that is to be moved out of the set, because another thread may get its
/// address as soon as it has moved. Returns its id, or 0.
pub(crate) extern "C" fn before(arguments: &[usize; 6], code: usize) -> usize {
    match (kind(code), tables()) {
        (Kind::Moved | Kind::MovedProduct, Some(tables)) => return tables.withdraw(arguments[0]) as usize,
        (Kind::Remapped, Some(tables)) => tables.mappings.detach(arguments[0], arguments[1]),
        _ => {}
    }
    0
}

/// Ends the allocation at an address that is about to be freed.
pub(crate) extern "C" fn before_free(address: usize) {
    if let Some(tables) = tables() {
        tables.free(address);
    }
}

/// Ends the pages of mappings that are about to be unmapped.
pub(crate) extern "C" fn before_unmap(address: usize, length: usize) {
    if let Some(tables) = tables() {
        tables.mappings.unmap(address, length);
    }
}

/// Counts the bytes of a call that has returned, and samples it if its countdown has ended.
pub(crate) extern "C" fn after(call: &SlowCall) {
    let Some(tables) = tables() else { return };
    let kind = kind(call.code);
    let size = size(kind, &call.arguments);
    let address = match kind {
        // SAFETY: posix_memalign(3) has returned 0 and stored an address where this points to.
        Kind::Stored if call.result == 0 => unsafe { *(call.arguments[0] as *const usize) },
        Kind::Stored => 0,
        Kind::Mapped | Kind::Remapped if call.result == usize::MAX => 0,
        _ => call.result,
    };
    let is_watched = kind == Kind::Remapped && move_pages(tables, call);
    if call.token != 0 {
        // A call that asks for no bytes frees the allocation and may return null.
        match address {
            0 if size != Some(0) => tables.watch_again(call.token as u32, call.arguments[0]),
            _ => tables.end(call.token as u32),
        }
    }
    let is_counted = call.code & NOT_COUNTED == 0;
    let Ok(bytes) = i64::try_from(size.unwrap_or(0)) else { return };
    let countdown = tables.countdown(arch::thread_pointer());
    if address == 0 {
        // The call has failed.
        if is_counted {
            countdown.left.fetch_add(bytes, Ordering::Relaxed);
        }
        return;
    }
    if kind == Kind::Mapped {
        // It replaces what was there (`MAP_FIXED`), whatever it maps itself.
        tables.mappings.unmap(address, call.arguments[1]);
    }
    let interval = INTERVAL.load(Ordering::Acquire);
    if interval == 0 {
        return countdown.left.store(i64::MAX, Ordering::Relaxed);
    }
    let spacing = Spacing { interval, per_second: PER_SECOND.load(Ordering::Relaxed) };
    let seed = || core::ptr::from_ref(countdown) as u64 ^ arch::thread_pointer() as u64 ^ syscall_free_seed(call);
    let counted = Counted { bytes, is_subtracted: is_counted };
    if let Some(weight) = countdown.count(counted, spacing, coarse_clock::now_ns, seed) {
        let memory = match kind {
            Kind::Mapped => Memory::Mapping { address, length: call.arguments[1] },
            Kind::Remapped => {
                let address = address + call.arguments[1].next_multiple_of(page_size());
                Memory::Growth { address, length: bytes as usize, is_watched }
            }
            _ => Memory::Allocation { address },
        };
        if !record(tables, call, weight, memory) {
            countdown.uncount(bytes as u64);
        }
    }
}

/// Notes where the pages of a mapping are after mremap(2). Returns whether any of them is watched.
fn move_pages(tables: &Tables, call: &SlowCall) -> bool {
    let [from, length, new_length, ..] = call.arguments;
    if call.result == usize::MAX {
        return tables.mappings.attach((from, length), (from, length));
    }
    // It replaces what was there (`MREMAP_FIXED`).
    tables.mappings.unmap(call.result, new_length);
    tables.mappings.attach((from, length), (call.result, new_length))
}

/// Returns a number that differs between runs, without a system call.
fn syscall_free_seed(call: &SlowCall) -> u64 {
    call.registers[STACK_POINTER].rotate_left(17) ^ (call.result as u64).rotate_left(31)
}

/// The memory that a sampled call has allocated.
#[derive(Clone, Copy)]
enum Memory {
    /// Memory of the allocator.
    Allocation { address: usize },
    /// A mapping.
    Mapping { address: usize, length: usize },
    /// The pages by which a mapping has grown, and whether its other pages are watched.
    Growth { address: usize, length: usize, is_watched: bool },
}

/// Records a sampled allocation. Returns false if it is none.
fn record(tables: &Tables, call: &SlowCall, (bytes, objects): (u64, u64), memory: Memory) -> bool {
    let may_call = state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) && !state::syscalls_forbidden();
    if state::DISABLED.load(Ordering::Relaxed) || may_call && !state::in_own_process() {
        return true;
    }
    if fork_child::is_waiting() {
        return true;
    }
    // A file's mapping is no memory. The kernel alone knows one that is not watched.
    if let Memory::Growth { address, length, is_watched: false } = memory {
        // SAFETY: the last page of those that a call has added which has not returned yet.
        let is_memory = may_call && unsafe { is_fresh_memory(address + length - page_size()) };
        if !is_memory {
            return false;
        }
    }
    let mask = may_call.then(syscall::block_all);
    let mut values = call.registers;
    let id = match memory {
        Memory::Allocation { address } => tables.take(address),
        Memory::Mapping { address, length } | Memory::Growth { address, length, .. } => {
            // Memory of the kernel differs from the allocator's by the function that is shown as
            // the leaf: as if its first instruction had been interrupted.
            values[PROGRAM_COUNTER] = call.real as u64 + 1;
            values[STACK_POINTER] -= 8;
            tables.take_mapping(address, length)
        }
    };
    let raw = RawSample {
        tid: if may_call { syscall::gettid() } else { 0 },
        epoch: EPOCH.load(Ordering::Relaxed),
        weight_ns: bytes,
        detail: Allocation { id, objects: u32::try_from(objects).unwrap_or(u32::MAX) }.pack(),
        ..RawSample::default()
    };
    match (sample::record_sample(raw, Registers::by_hand(values)), memory) {
        (true, Memory::Allocation { address }) => tables.watch(id, address),
        (false, Memory::Allocation { address }) => tables.cancel(id, address),
        (true, _) => {}
        // The agent thread gives its id back.
        (false, Memory::Mapping { address, length } | Memory::Growth { address, length, .. }) => {
            tables.mappings.unmap(address, length);
        }
    }
    if let Some(mask) = mask {
        syscall::set_mask(mask);
    }
    true
}

/// Turns the clock off in a fork child, whose replaced functions only jump on, or lets it go on if
/// there is a signal that starts the agent thread, by its value.
pub(crate) fn inherit(first_tick: Option<u64>) {
    if first_tick.is_none() {
        INTERVAL.store(0, Ordering::Relaxed);
    }
    let Some(tables) = tables() else { return };
    tables.forget_filter();
    if let Some(value) = first_tick.filter(|_| INTERVAL.load(Ordering::Relaxed) > 0) {
        fork_child::begin(tables, value);
    }
}
