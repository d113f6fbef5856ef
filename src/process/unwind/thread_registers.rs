//! The user registers of a thread, by their DWARF numbers. Which number is which register is known
//! in `arch`.

use crate::arch::{CONTEXT_WORDS, PROGRAM_COUNTER, REGISTERS, STACK_POINTER};

/// The instruction pointer and those general registers that are known. Of a sleeping thread, which
/// is not stopped, the kernel tells the instruction pointer and the stack pointer alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadRegisters {
    /// The address of the next instruction.
    pub(crate) ip: u64,
    /// Whether the stack pointer may be higher than is known.
    pub(crate) is_stack_bound: bool,
    /// The general registers, by DWARF number.
    values: [u64; PROGRAM_COUNTER],
    /// The registers that are known: bit n is DWARF number n.
    known: u32,
}

impl ThreadRegisters {
    /// Creates registers of which only the instruction pointer is known.
    pub(crate) fn new(ip: u64) -> ThreadRegisters {
        ThreadRegisters { ip, ..ThreadRegisters::default() }
    }

    /// Creates registers that are all known.
    pub(crate) fn of_all(values: [u64; REGISTERS]) -> ThreadRegisters {
        let mut registers = ThreadRegisters::new(values[PROGRAM_COUNTER]);
        values.iter().enumerate().for_each(|(number, &value)| registers.set(number, value));
        registers
    }

    /// Creates the registers of a thread that sleeps in the kernel.
    pub(crate) fn of_sleeper(ip: u64, sp: u64) -> ThreadRegisters {
        let mut registers = ThreadRegisters::new(ip);
        registers.set(STACK_POINTER, sp);
        registers
    }

    /// Reads the registers of interrupted code from the `ucontext` at this address. `word` reads the
    /// stack.
    pub(crate) fn read_context(context: u64, word: impl Fn(u64) -> Option<u64>) -> Option<ThreadRegisters> {
        let mut values = [0; REGISTERS];
        for (value, index) in values.iter_mut().zip(CONTEXT_WORDS) {
            *value = word(context.checked_add(8 * index)?)?;
        }
        Some(ThreadRegisters::of_all(values))
    }

    /// Returns a register by its DWARF number, if it is known.
    pub(crate) fn get(&self, number: usize) -> Option<u64> {
        (self.known & 1u32.checked_shl(number as u32)? != 0).then(|| self.values[number])
    }

    /// Sets a register by its DWARF number. Other numbers are ignored.
    pub(crate) fn set(&mut self, number: usize, value: u64) {
        if let Some(register) = self.values.get_mut(number) {
            *register = value;
            self.known |= 1 << number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::FRAME_POINTER;

    #[test]
    fn a_register_is_known_once_it_is_set() {
        let mut registers = ThreadRegisters::new(7);
        registers.set(3, 5);
        registers.set(PROGRAM_COUNTER, 9);
        assert_eq!((registers.ip, registers.get(3), registers.get(4)), (7, Some(5), None));
        assert_eq!((registers.get(PROGRAM_COUNTER), registers.get(usize::MAX)), (None, None));
    }

    #[test]
    fn context_is_read_by_dwarf_numbers() {
        let read =
            |words| ThreadRegisters::read_context(0x1000, |at| Some((at - 0x1000) / 8).filter(|&word| word < words));
        let last = CONTEXT_WORDS.into_iter().max().unwrap();
        let registers = read(last + 1).unwrap();
        assert_eq!(registers.ip, CONTEXT_WORDS[PROGRAM_COUNTER]);
        for number in [0, 8, FRAME_POINTER, STACK_POINTER] {
            assert_eq!(registers.get(number), Some(CONTEXT_WORDS[number]));
        }
        assert_eq!(read(last), None);
    }
}
