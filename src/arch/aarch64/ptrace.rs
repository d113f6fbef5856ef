//! The registers of a stopped thread and of a perf event's sample.
//!
//! The kernel decides about an interrupted system call before the stop, and its result is in the
//! register that held the first argument. So such a call cannot be made again from outside.

use std::io;
use std::mem::MaybeUninit;

use super::registers::{PROGRAM_COUNTER, REGISTERS, STACK_POINTER};

/// The set of general registers for `PTRACE_GETREGSET`.
const NT_PRSTATUS: usize = 1;
/// The set of the number of the system call in which a thread stopped.
const NT_ARM_SYSTEM_CALL: usize = 0x404;

/// The user registers of a stopped thread.
pub(crate) struct StoppedRegisters {
    general: libc::user_regs_struct,
    system_call: i32,
}

impl StoppedRegisters {
    /// Reads the registers of a thread that this process has stopped.
    pub(crate) fn read(tid: u32) -> io::Result<StoppedRegisters> {
        Ok(StoppedRegisters {
            general: read_set(tid, NT_PRSTATUS)?,
            system_call: read_set(tid, NT_ARM_SYSTEM_CALL).unwrap_or(-1),
        })
    }

    /// Returns the registers that an unwinder needs, by DWARF number.
    pub(crate) fn registers(&self) -> [u64; REGISTERS] {
        let mut registers = [0; REGISTERS];
        registers[..STACK_POINTER].copy_from_slice(&self.general.regs);
        (registers[STACK_POINTER], registers[PROGRAM_COUNTER]) = (self.general.sp, self.general.pc);
        registers
    }

    /// Returns the program counter.
    pub(crate) fn instruction_pointer(&self) -> u64 {
        self.general.pc
    }

    /// Returns the stack pointer.
    pub(crate) fn stack_pointer(&self) -> u64 {
        self.general.sp
    }

    /// Returns the number of the system call at whose end the thread stopped, if it did.
    pub(crate) fn system_call(&self) -> Option<i64> {
        (self.system_call >= 0).then_some(self.system_call.into())
    }

    /// Returns the result of that call.
    pub(crate) fn result(&self) -> i64 {
        self.general.regs[0] as i64
    }

    /// Returns the first arguments of that call. The result has replaced the first of them.
    pub(crate) fn arguments(&self) -> [u64; 4] {
        [u64::MAX, self.general.regs[1], self.general.regs[2], self.general.regs[3]]
    }

    /// Returns the fifth argument of that call.
    pub(crate) fn fifth_argument(&self) -> u64 {
        self.general.regs[4]
    }

    /// Returns whether that call is about to report EINTR.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.result() == -i64::from(libc::EINTR)
    }

    /// Returns whether the kernel is about to continue that call by restart_syscall(2). It decides
    /// before the stop.
    pub(crate) fn is_continued(&self) -> bool {
        false
    }
}

/// Reads a set of registers of a stopped thread: plain integers.
fn read_set<T>(tid: u32, set: usize) -> io::Result<T> {
    let mut registers = MaybeUninit::<T>::zeroed();
    let mut area = libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of::<T>() };
    // SAFETY: the kernel writes at most `iov_len` bytes to memory that lives through the call.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, set, &raw mut area) };
    if done == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain integers, all zeros before the kernel wrote to them.
    Ok(unsafe { registers.assume_init() })
}

/// The registers of a perf event's sample, by their numbers in `asm/perf_regs.h`, which are those of
/// DWARF: all general ones, the stack pointer and the program counter.
pub(crate) const SAMPLED_REGISTERS: u64 = (1 << REGISTERS) - 1;

/// Returns the registers of a perf event's sample by DWARF number.
pub(crate) fn sampled_registers(values: &[u64; REGISTERS]) -> [u64; REGISTERS] {
    *values
}

/// Would let the kernel make the interrupted call of a stopped thread again.
pub(crate) fn repeat_system_call(_tid: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
