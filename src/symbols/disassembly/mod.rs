//! Disassembles the code of a function, in the syntax of the GNU assembler, as objdump and pprof
//! print it.

mod aarch64;
mod x86_64;

use super::assembly::{Instruction, Target};
use super::machine::Machine;

/// Disassembles bytes that lie at `start`. `name` returns the name of a function outside of them.
pub(super) fn disassemble(
    machine: Machine,
    bytes: &[u8],
    start: u64,
    name: impl Fn(Target) -> Option<String>,
) -> Box<[Instruction]> {
    match machine {
        Machine::X86_64 => x86_64::disassemble(bytes, start, name),
        Machine::Aarch64 => aarch64::disassemble(bytes, start, name),
    }
}
