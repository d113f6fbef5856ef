//! The kernel's signal frame on the stack of another process.

/// Length in bytes of [`SIGNAL_RETURN`].
pub(crate) const SIGNAL_RETURN_LENGTH: usize = 8;
/// The code to which a signal handler returns: `mov x8, #139; svc #0`. 139 is `rt_sigreturn`.
const SIGNAL_RETURN: [u8; SIGNAL_RETURN_LENGTH] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// Returns whether code begins with the return from a signal handler.
pub(crate) fn is_signal_return(code: &[u8]) -> bool {
    code.starts_with(&SIGNAL_RETURN)
}

/// Returns the stack pointer of the code that was interrupted by a signal whose handler runs on the
/// alternate stack of which `bytes` are a copy from `low` on; `None` if it shows no such signal.
///
/// The kernel writes the bounds of the alternate stack into each `ucontext`. A `ucontext` is
/// recognized by bounds that contain the start of the copy, small flags, no link and no flags of
/// its own. It takes one comparison a word for all other words.
pub(crate) fn interrupted_stack(low: u64, bytes: &[u8]) -> Option<u64> {
    /// Words of a `ucontext` from the alternate stack's start on.
    const START: usize = 0;
    const FLAGS: usize = 1;
    const SIZE: usize = 2;
    const INTERRUPTED: usize = 52;
    /// Words before it: flags and link.
    const BEFORE: usize = 2;
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
            && word(index - BEFORE) == Some(0)
            && word(index - 1) == Some(0);
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
        let mut words = [0x7000_0000u64; 128];
        // A context at word 10: flags, link, alternate stack, registers.
        words[10..15].copy_from_slice(&[0, 0, 0x5000_0000, 0, 0x10000]);
        words[10 + CONTEXT_WORDS[STACK_POINTER] as usize] = 0x7fff_0000_1230;
        let found = |low: u64, words: [u64; 128]| interrupted_stack(low, &words.map(u64::to_le_bytes).concat());
        assert_eq!(found(0x5000_8000, words), Some(0x7fff_0000_1230));
        assert_eq!(found(0x5001_0000, words), None, "the copy is not of the alternate stack");
        words[10 + CONTEXT_WORDS[STACK_POINTER] as usize] = 0x5000_9000;
        assert_eq!(found(0x5000_8000, words), None, "the handler was on that stack already");
        assert_eq!(interrupted_stack(0, &[]), None);
    }

    #[test]
    fn the_code_to_which_handlers_return_is_recognized() {
        assert!(is_signal_return(&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4, 0x1f]));
        assert!(!is_signal_return(&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0]));
    }
}
