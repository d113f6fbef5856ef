//! The attributes of an event, and `perf_event_open(2)` itself.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::arch;

/// Number of bytes of a stack that a sample copies at first.
pub(in super::super) const FIRST_STACK: u32 = 32 << 10;
/// Maximum number of bytes of a stack that a sample copies: a record has 64 KiB in all.
pub(in super::super) const MAX_STACK: u32 = 60 << 10;

const TYPE_SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const DUMMY: u64 = 9;

/// Fields of a sample, in the order in which a record has them.
mod sample {
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const REGS_USER: u64 = 1 << 12;
    pub(super) const STACK_USER: u64 = 1 << 13;
}

/// Bits of [`Attributes::flags`].
mod flag {
    pub(super) const INHERIT: u64 = 1 << 1;
    pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(super) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    pub(super) const MMAP: u64 = 1 << 8;
    pub(super) const COMM: u64 = 1 << 9;
    pub(super) const INHERIT_STAT: u64 = 1 << 11;
    pub(super) const TASK: u64 = 1 << 13;
    pub(super) const WATERMARK: u64 = 1 << 14;
    pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub(super) const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub(super) const MMAP2: u64 = 1 << 23;
    pub(super) const COMM_EXEC: u64 = 1 << 24;
    pub(super) const USE_CLOCKID: u64 = 1 << 25;
    pub(super) const INHERIT_THREAD: u64 = 1 << 35;
}

/// The number that stands for all CPUs.
const ANY_CPU: i32 = -1;
/// Flags of the call.
const FD_NO_GROUP: libc::c_ulong = 1;
const FD_OUTPUT: libc::c_ulong = 2;
const FD_CLOEXEC: libc::c_ulong = 8;

/// `struct perf_event_attr` of version 5 (Linux 4.3).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_type: u32,
    config_1: u64,
    config_2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_interrupt: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<Attributes>() == 112);

/// The content of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct SampleContent {
    /// Whether the kernel's code is sampled, with its functions.
    pub(in super::super) kernel: bool,
    /// Number of bytes that are copied of a stack.
    pub(in super::super) stack_bytes: u32,
}

impl SampleContent {
    /// The content of the first samples.
    pub(in super::super) fn first() -> SampleContent {
        SampleContent { kernel: true, stack_bytes: FIRST_STACK }
    }
}

/// The threads that an event counts besides the one that it is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inheritance {
    /// None.
    Own,
    /// Threads of the process that begin later.
    Threads,
    /// Threads and processes that begin later.
    All,
}

/// Opens the event that owns the ring of a CPU. It counts nothing.
pub(super) fn open_owner(cpu: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        config: DUMMY,
        sample_period: 1,
        flags: flag::EXCLUDE_KERNEL | flag::EXCLUDE_HYPERVISOR | flag::WATERMARK | flag::USE_CLOCKID,
        ..common()
    };
    open(&attributes, 0, cpu as i32, None)
}

/// Checks that this user may sample the user code of a thread.
///
/// # Errors
/// The reason of the kernel.
pub(in super::super) fn check_access(tid: u32) -> io::Result<()> {
    let flags = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HYPERVISOR;
    let attributes = Attributes { config: CPU_CLOCK, sample_period: 1_000_000_000, flags, ..common() };
    open(&attributes, tid as i32, ANY_CPU, None).map(drop)
}

/// Opens the event of a thread on a CPU, which writes to the ring of that CPU. It counts at once.
/// The period is in ns.
pub(super) fn open_thread(
    tid: u32,
    cpu: u32,
    (inheritance, period): (Inheritance, u64),
    content: SampleContent,
    owner: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    // All events have the same fields, since a record does not tell its event.
    let sample_type = sample::TID
        | sample::TIME
        | sample::CALLCHAIN
        | sample::CPU
        | sample::PERIOD
        | sample::REGS_USER
        | sample::STACK_USER;
    let mut flags = flag::EXCLUDE_HYPERVISOR
        | flag::WATERMARK
        | flag::SAMPLE_ID_ALL
        | flag::EXCLUDE_CALLCHAIN_USER
        | flag::USE_CLOCKID;
    if !content.kernel {
        flags |= flag::EXCLUDE_KERNEL;
    }
    if inheritance != Inheritance::Own {
        flags |= flag::INHERIT | flag::INHERIT_STAT | flag::TASK | flag::COMM | flag::COMM_EXEC;
        flags |= flag::MMAP | flag::MMAP2;
    }
    if inheritance == Inheritance::Threads {
        flags |= flag::INHERIT_THREAD;
    }
    let attributes = Attributes {
        config: CPU_CLOCK,
        sample_period: period,
        sample_type,
        flags,
        sample_regs_user: arch::SAMPLED_REGISTERS,
        sample_stack_user: content.stack_bytes,
        ..common()
    };
    open(&attributes, tid as i32, cpu as i32, Some(owner))
}

fn common() -> Attributes {
    Attributes {
        kind: TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        // Each record wakes the reader.
        wakeup_watermark: 1,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    }
}

fn open(attributes: &Attributes, tid: i32, cpu: i32, output: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let (group, flags) = match output {
        Some(owner) => (owner.as_raw_fd(), FD_CLOEXEC | FD_OUTPUT | FD_NO_GROUP),
        None => (-1, FD_CLOEXEC),
    };
    // SAFETY: the kernel reads the attributes, of which `size` tells the length and which live
    // through the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const *attributes, tid, cpu, group, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for the caller alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sets the period of an event, ns. It counts from 0 again.
pub(super) fn set_period(event: &OwnedFd, period: u64) -> io::Result<()> {
    const SET_PERIOD: libc::Ioctl = 0x4008_2404;
    // SAFETY: the kernel reads one integer that lives through the call.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), SET_PERIOD, &raw const period) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
