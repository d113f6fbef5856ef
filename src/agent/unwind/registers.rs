//! The registers of a frame, as far as a walk knows them.

use crate::agent::unwind::stack::Stack;
use crate::arch::{CONTEXT_WORDS, PROGRAM_COUNTER, RECORD_ENDS_FRAME, REGISTERS, STACK_POINTER};

/// The registers that a walk begins with, or continues with after a signal frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// The values, indexed by DWARF number.
    pub(crate) values: [u64; REGISTERS],
    /// Whether all of them are known, not only the instruction and stack pointers.
    pub(crate) whole: bool,
}

impl Registers {
    /// Returns the registers of the code that a signal interrupted.
    ///
    /// # Safety
    /// `context` must be the third argument of a signal handler.
    pub(crate) unsafe fn of(context: *const u64) -> Registers {
        // SAFETY: a ucontext holds these words.
        let values = CONTEXT_WORDS.map(|word| unsafe { *context.add(word as usize) });
        Registers { values, whole: true }
    }

    /// Returns the registers of a function that calls the agent, given by DWARF number, with the
    /// return address of the call as the instruction pointer.
    pub(crate) fn by_hand(mut values: [u64; REGISTERS]) -> Registers {
        // This address is inside the call instruction, so that the frame shows the call's line.
        values[PROGRAM_COUNTER] = values[PROGRAM_COUNTER].wrapping_sub(1);
        Registers { values, whole: true }
    }

    /// Returns the registers of a thread that sleeps in the kernel.
    pub(crate) fn of_sleeper(ip: u64, sp: u64) -> Registers {
        let mut values = [0; REGISTERS];
        (values[PROGRAM_COUNTER], values[STACK_POINTER]) = (ip, sp);
        Registers { values, whole: false }
    }

    /// Returns registers of interrupted code of which only these three are not zero.
    #[cfg(test)]
    pub(crate) fn with_base(ip: u64, sp: u64, bp: u64) -> Registers {
        let mut registers = Registers::of_sleeper(ip, sp);
        (registers.values[crate::arch::FRAME_POINTER], registers.whole) = (bp, true);
        registers
    }

    /// Returns the instruction pointer.
    pub(crate) fn ip(&self) -> u64 {
        self.values[PROGRAM_COUNTER]
    }

    /// Returns the stack pointer.
    pub(crate) fn sp(&self) -> u64 {
        self.values[STACK_POINTER]
    }

    /// Returns the base pointer of interrupted code.
    #[cfg(test)]
    pub(crate) fn bp(&self) -> u64 {
        self.values[crate::arch::FRAME_POINTER]
    }

    /// Reads the registers from the `ucontext` at this address of a stack; `None` if it cannot be
    /// read.
    pub(crate) fn read_context(context: u64, stack: &mut impl Stack) -> Option<Registers> {
        let mut values = [0; REGISTERS];
        for (value, word) in values.iter_mut().zip(CONTEXT_WORDS) {
            *value = stack.read(context.checked_add(8 * word)?)?;
        }
        Some(Registers { values, whole: true })
    }
}

/// The known registers of a frame that waits for a call to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The return address of the call.
    pub(crate) ip: u64,
    /// The stack pointer after the return.
    pub(crate) sp: u64,
    /// The base pointer; 0 if it is unknown.
    pub(crate) bp: u64,
    /// Whether the base pointer is known. For a sleeping thread it is unknown until a frame
    /// restores it.
    pub(crate) knows_bp: bool,
    /// Whether the stack pointer may be higher: it follows from a frame pointer.
    pub(crate) is_stack_bound: bool,
}

impl Caller {
    /// Creates a caller's frame.
    pub(crate) fn new(ip: u64, sp: u64, bp: Option<u64>) -> Caller {
        Caller { ip, sp, bp: bp.unwrap_or(0), knows_bp: bp.is_some(), is_stack_bound: false }
    }

    /// Creates a caller's frame of which the end of the callee's record is known, not its stack
    /// pointer.
    pub(crate) fn above_record(ip: u64, end: u64, bp: Option<u64>) -> Caller {
        Caller { is_stack_bound: !RECORD_ENDS_FRAME, ..Caller::new(ip, end, bp) }
    }

    /// Creates the frame of a function that is about to be entered at a landing pad. No call
    /// precedes that address, so lookups have to find the address itself, not the byte before it.
    pub(crate) fn at_landing_pad(address: u64, sp: u64, bp: Option<u64>) -> Caller {
        Caller::new(address.wrapping_add(1), sp, bp)
    }
}
