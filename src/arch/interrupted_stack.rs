//! The kernel's signal frame on the stack of another process.

use super::{CONTEXT_WORDS, STACK_POINTER, is_plain_context};

/// Returns the stack pointer of the code that was interrupted by a signal whose handler runs on the
/// alternate stack of which `bytes` are a copy from `low` on; `None` if it shows no such signal.
///
/// The kernel writes the bounds of the alternate stack into each `ucontext`. A `ucontext` is
/// recognized by bounds that contain the start of the copy, small flags, no link, and what its
/// processor writes besides. It takes one comparison a word for all other words.
pub(crate) fn interrupted_stack(low: u64, bytes: &[u8]) -> Option<u64> {
    /// Words of a `ucontext`: its link, and the alternate stack.
    const LINK: usize = 1;
    const START: usize = 2;
    const FLAGS: usize = 3;
    const SIZE: usize = 4;
    const INTERRUPTED: usize = CONTEXT_WORDS[STACK_POINTER] as usize;
    let skew = low.next_multiple_of(8) - low;
    let (words, _) = bytes.get(skew as usize..)?.as_chunks::<8>();
    for (context, start) in words.get(START..)?.iter().enumerate() {
        let start = u64::from_le_bytes(*start);
        // An address below the copy, at most 4 GiB away.
        if start > low || low - start > u64::from(u32::MAX) {
            continue;
        }
        let word = |index: usize| words.get(context + index).map(|word| u64::from_le_bytes(*word));
        let (Some(size), Some(flags)) = (word(SIZE), word(FLAGS)) else { break };
        let is_context =
            low - start < size && flags & 0x7fff_ffff <= 2 && word(LINK) == Some(0) && is_plain_context(word);
        let interrupted = word(INTERRUPTED).filter(|&sp| is_context && sp.wrapping_sub(start) >= size);
        if interrupted.is_some() {
            return interrupted;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_stack_is_found_in_the_context_on_an_alternate_stack() {
        const SP: usize = 10 + CONTEXT_WORDS[STACK_POINTER] as usize;
        let mut words = [0x7000_0000u64; 128];
        // A context at word 10: flags, link, alternate stack, registers. Its word 23 holds the
        // segments of x86-64.
        words[10..15].copy_from_slice(&[0, 0, 0x5000_0000, 0, 0x10000]);
        words[10 + 23] = 0x2b_0000_0000_0033;
        words[SP] = 0x7fff_0000_1230;
        let found = |low: u64, words: [u64; 128]| interrupted_stack(low, &words.map(u64::to_le_bytes).concat());
        assert_eq!(found(0x5000_8000, words), Some(0x7fff_0000_1230));
        assert_eq!(found(0x5001_0000, words), None, "the copy is not of the alternate stack");
        let mut linked = words;
        linked[11] = 1;
        assert_eq!(found(0x5000_8000, linked), None, "it has a link");
        words[SP] = 0x5000_9000;
        assert_eq!(found(0x5000_8000, words), None, "the handler was on that stack already");
        assert_eq!(interrupted_stack(0, &[]), None);
    }
}
