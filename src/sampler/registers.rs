//! The user registers of a thread, by their DWARF numbers. Which number is which register is known
//! in `arch`.

use crate::arch::PROGRAM_COUNTER as REGISTERS;

/// The instruction pointer and those general registers that are known. Of a sleeping thread, which
/// is not stopped, the kernel tells the instruction pointer and the stack pointer alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadRegisters {
    /// The address of the next instruction.
    pub(crate) ip: u64,
    /// The general registers, by DWARF number.
    values: [u64; REGISTERS],
    /// The registers that are known: bit n is DWARF number n.
    known: u32,
}

impl ThreadRegisters {
    /// Creates registers of which only the instruction pointer is known.
    pub(crate) fn new(ip: u64) -> ThreadRegisters {
        ThreadRegisters { ip, ..ThreadRegisters::default() }
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

    #[test]
    fn a_register_is_known_once_it_is_set() {
        let mut registers = ThreadRegisters::new(7);
        registers.set(3, 5);
        registers.set(REGISTERS, 9);
        assert_eq!((registers.ip, registers.get(3), registers.get(4)), (7, Some(5), None));
        assert_eq!((registers.get(REGISTERS), registers.get(usize::MAX)), (None, None));
    }
}
