//! The registers of a stopped thread and of a perf event's sample, and the repair of an interrupted
//! system call.

use std::io;
use std::mem::{MaybeUninit, offset_of};

use super::registers::REGISTERS;

/// The set of general registers for `PTRACE_GETREGSET`.
const NT_PRSTATUS: usize = 1;
/// The kernel's own error number for a call that is made again unless a handler runs.
const ERESTARTNOHAND: i64 = 514;
/// The kernel's own error number for a call that restart_syscall(2) continues.
const ERESTART_RESTARTBLOCK: i64 = 516;

/// The user registers of a stopped thread.
pub(crate) struct StoppedRegisters(libc::user_regs_struct);

impl StoppedRegisters {
    /// Reads the registers of a thread that this process has stopped.
    pub(crate) fn read(tid: u32) -> io::Result<StoppedRegisters> {
        let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
        let mut area =
            libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of::<libc::user_regs_struct>() };
        // SAFETY: the kernel writes at most `iov_len` bytes to memory that lives through the call.
        let done = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, &raw mut area) };
        if done == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: plain integers, all zeros before the kernel wrote to them.
        Ok(StoppedRegisters(unsafe { registers.assume_init() }))
    }

    /// Returns the registers that an unwinder needs, by DWARF number.
    pub(crate) fn registers(&self) -> [u64; REGISTERS] {
        let r = &self.0;
        [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15, r.rip,
        ]
    }

    /// Returns the instruction pointer.
    pub(crate) fn instruction_pointer(&self) -> u64 {
        self.0.rip
    }

    /// Returns the stack pointer.
    pub(crate) fn stack_pointer(&self) -> u64 {
        self.0.rsp
    }

    /// Returns the number of the system call at whose end the thread stopped, if it did.
    pub(crate) fn system_call(&self) -> Option<i64> {
        let number = self.0.orig_rax as i64;
        (number >= 0).then_some(number)
    }

    /// Returns the result of that call.
    pub(crate) fn result(&self) -> i64 {
        self.0.rax as i64
    }

    /// Returns the first arguments of that call.
    pub(crate) fn arguments(&self) -> [u64; 4] {
        [self.0.rdi, self.0.rsi, self.0.rdx, self.0.r10]
    }

    /// Returns the fifth argument of that call.
    pub(crate) fn fifth_argument(&self) -> u64 {
        self.0.r8
    }

    /// Returns whether that call is about to report EINTR.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.0.rax as i64 == -i64::from(libc::EINTR)
    }

    /// Returns whether the kernel is about to continue that call by restart_syscall(2).
    pub(crate) fn is_continued(&self) -> bool {
        self.0.rax as i64 == -ERESTART_RESTARTBLOCK
    }
}

/// The registers of a perf event's sample, by their numbers in `asm/perf_regs.h`: all general ones
/// and the instruction pointer.
pub(crate) const SAMPLED_REGISTERS: u64 = 0xff_01ff;
/// Their DWARF numbers, in the order of a sample; that of the instruction pointer is 16.
const SAMPLED_NUMBERS: [usize; SAMPLED_REGISTERS.count_ones() as usize] =
    [0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15];

/// Returns the registers of a perf event's sample by DWARF number.
pub(crate) fn sampled_registers(values: &[u64; SAMPLED_NUMBERS.len()]) -> [u64; REGISTERS] {
    let mut registers = [0; REGISTERS];
    SAMPLED_NUMBERS.iter().zip(values).for_each(|(&number, &value)| registers[number] = value);
    registers
}

/// Lets the kernel make the interrupted call of a stopped thread again, unless a signal handler
/// runs first: then the program gets EINTR, as it should.
pub(crate) fn repeat_system_call(tid: u32) -> io::Result<()> {
    let register = offset_of!(libc::user_regs_struct, rax);
    // SAFETY: changes one register of a stopped thread; no memory of this process is touched.
    let done = unsafe { libc::ptrace(libc::PTRACE_POKEUSER, tid, register, -ERESTARTNOHAND) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_a_sample_have_their_numbers() {
        // The order of the kernel: ax bx cx dx si di bp sp ip r8 to r15.
        let values = std::array::from_fn(|index| index as u64 + 100);
        let registers = sampled_registers(&values);
        assert_eq!(registers[..8], [100, 103, 102, 101, 104, 105, 106, 107]);
        assert_eq!(registers[16], 108);
        assert!((8..16).all(|number| registers[number] == 101 + number as u64));
    }
}
