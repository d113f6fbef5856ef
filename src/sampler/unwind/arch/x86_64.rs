//! x86-64: the kernel's signal frame.

use crate::arch::{CONTEXT_WORDS, PROGRAM_COUNTER};
use crate::sampler::registers::ThreadRegisters;
use crate::sampler::stack_copy::StackCopy;

/// Length in bytes of the longest form of [`SIGNAL_RETURNS`].
pub(in super::super) const SIGNAL_RETURN_LENGTH: usize = 9;
/// The code to which a signal handler returns: `mov $15, %rax; syscall`, and the same by a shorter
/// instruction. 15 is `rt_sigreturn`.
const SIGNAL_RETURNS: [&[u8]; 2] = [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];

/// Returns whether code begins with the return from a signal handler.
pub(in super::super) fn is_signal_return(code: &[u8]) -> bool {
    SIGNAL_RETURNS.iter().any(|form| code.starts_with(form))
}

/// Reads the registers of interrupted code from the `ucontext` at this address, where the stack
/// pointer is when a handler has returned.
pub(in super::super) fn read_context(context: u64, stack: &StackCopy) -> Option<ThreadRegisters> {
    let word = |index: u64| stack.word(context.checked_add(8 * index)?);
    let mut registers = ThreadRegisters::new(word(CONTEXT_WORDS[PROGRAM_COUNTER])?);
    for (number, &index) in CONTEXT_WORDS[..PROGRAM_COUNTER].iter().enumerate() {
        registers.set(number, word(index)?);
    }
    Some(registers)
}

/// Returns the stack pointer of the code that was interrupted by a signal whose handler runs on the
/// alternate stack of this copy; `None` if the copy shows no such signal.
///
/// The kernel writes the bounds of the alternate stack into each `ucontext`. A `ucontext` is
/// recognized by bounds that contain the start of the copy, small flags, no link, and the code
/// segment of user code. It takes one comparison a word for all other words.
pub(in super::super) fn interrupted_stack(stack: &StackCopy) -> Option<u64> {
    /// Words of a `ucontext` from the alternate stack's start on.
    const START: usize = 0;
    const FLAGS: usize = 1;
    const SIZE: usize = 2;
    const INTERRUPTED: usize = 18;
    const SEGMENTS: usize = 21;
    /// Words before it: flags and link.
    const BEFORE: usize = 2;
    const MAX_FLAGS: u64 = 7;
    const USER_CODE: u64 = 0x33;
    let (low, high) = stack.first_piece()?;
    let bytes = stack.bytes(low, (high - low) as usize)?;
    let skew = low.next_multiple_of(8) - low;
    let (words, _) = bytes.get(skew as usize..)?.as_chunks::<8>();
    let word = |index: usize| words.get(index).map(|word| u64::from_le_bytes(*word));
    for index in BEFORE..words.len() {
        let start = u64::from_le_bytes(words[index + START]);
        // An address below the copy, at most 4 GiB away.
        if start > low || low - start > u64::from(u32::MAX) {
            continue;
        }
        let (Some(size), Some(flags)) = (word(index + SIZE), word(index + FLAGS)) else { break };
        let is_context = low - start < size
            && flags & 0x7fff_ffff <= 2
            && word(index - BEFORE).is_some_and(|flags| flags <= MAX_FLAGS)
            && word(index - 1) == Some(0)
            && word(index + SEGMENTS).is_some_and(|segments| segments & 0xffff == USER_CODE);
        let interrupted = word(index + INTERRUPTED).filter(|&sp| is_context && sp.wrapping_sub(start) >= size);
        if interrupted.is_some() {
            return interrupted;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{FRAME_POINTER, STACK_POINTER};

    fn copy(start: u64, words: &[u64]) -> StackCopy {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut stack = StackCopy::default();
        stack.add(start, bytes.len(), |piece| {
            piece.copy_from_slice(&bytes);
            bytes.len()
        });
        stack
    }

    #[test]
    fn interrupted_stack_is_found_in_the_context_on_an_alternate_stack() {
        let mut words = vec![0x7000_0000u64; 64];
        // A context at word 10: flags, link, alternate stack, registers, segments.
        words[10..15].copy_from_slice(&[7, 0, 0x5000_0000, 0, 0x10000]);
        words[10 + CONTEXT_WORDS[STACK_POINTER] as usize] = 0x7fff_0000_1230;
        words[10 + 23] = 0x2b_0000_0000_0033;
        assert_eq!(interrupted_stack(&copy(0x5000_8000, &words)), Some(0x7fff_0000_1230));
        assert_eq!(interrupted_stack(&copy(0x5001_0000, &words)), None, "the copy is not of the alternate stack");
        words[10 + 20] = 0x5000_9000;
        assert_eq!(interrupted_stack(&copy(0x5000_8000, &words)), None, "the handler was on that stack already");
        assert_eq!(interrupted_stack(&StackCopy::default()), None);
    }

    #[test]
    fn context_is_read_by_dwarf_numbers() {
        let words: Vec<u64> = (0..23).collect();
        let registers = read_context(0x1000, &copy(0x1000, &words)).unwrap();
        assert_eq!(
            (registers.ip, registers.get(STACK_POINTER), registers.get(FRAME_POINTER)),
            (21, Some(20), Some(15))
        );
        assert_eq!((registers.get(8), registers.get(0)), (Some(5), Some(18)));
        assert_eq!(read_context(0x1000, &copy(0x1000, &words[..20])), None);
        assert!(is_signal_return(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05, 0x90]));
        assert!(!is_signal_return(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f]));
    }
}
