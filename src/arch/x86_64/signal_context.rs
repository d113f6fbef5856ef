//! The kernel's signal frame on the stack of another process.

/// Length in bytes of the longest form of [`SIGNAL_RETURNS`].
pub(crate) const SIGNAL_RETURN_LENGTH: usize = 9;
/// The code to which a signal handler returns: `mov $15, %rax; syscall`, and the same by a shorter
/// instruction. 15 is `rt_sigreturn`.
const SIGNAL_RETURNS: [&[u8]; 2] = [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];

/// Returns whether code begins with the return from a signal handler.
pub(crate) fn is_signal_return(code: &[u8]) -> bool {
    SIGNAL_RETURNS.iter().any(|form| code.starts_with(form))
}

/// Returns the stack pointer of the code that was interrupted by a signal whose handler runs on the
/// alternate stack of which `bytes` are a copy from `low` on; `None` if it shows no such signal.
///
/// The kernel writes the bounds of the alternate stack into each `ucontext`. A `ucontext` is
/// recognized by bounds that contain the start of the copy, small flags, no link, and the code
/// segment of user code. It takes one comparison a word for all other words.
pub(crate) fn interrupted_stack(low: u64, bytes: &[u8]) -> Option<u64> {
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
    use crate::arch::{CONTEXT_WORDS, STACK_POINTER};

    #[test]
    fn interrupted_stack_is_found_in_the_context_on_an_alternate_stack() {
        let mut words = [0x7000_0000u64; 64];
        // A context at word 10: flags, link, alternate stack, registers, segments.
        words[10..15].copy_from_slice(&[7, 0, 0x5000_0000, 0, 0x10000]);
        words[10 + CONTEXT_WORDS[STACK_POINTER] as usize] = 0x7fff_0000_1230;
        words[10 + 23] = 0x2b_0000_0000_0033;
        assert_eq!(interrupted_stack(0x5000_8000, &words.map(u64::to_le_bytes).concat()), Some(0x7fff_0000_1230));
        assert_eq!(
            interrupted_stack(0x5001_0000, &words.map(u64::to_le_bytes).concat()),
            None,
            "the copy is not of the alternate stack"
        );
        words[10 + 20] = 0x5000_9000;
        assert_eq!(
            interrupted_stack(0x5000_8000, &words.map(u64::to_le_bytes).concat()),
            None,
            "the handler was on that stack already"
        );
        assert_eq!(interrupted_stack(0, &[]), None);
    }

    #[test]
    fn the_code_to_which_handlers_return_is_recognized() {
        assert!(is_signal_return(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05, 0x90]));
        assert!(!is_signal_return(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f]));
    }
}
