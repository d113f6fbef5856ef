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

/// Returns whether a `ucontext`, of which `word` returns words, has small flags and the code segment
/// of user code.
pub(crate) fn is_plain_context(word: impl Fn(usize) -> Option<u64>) -> bool {
    const MAX_FLAGS: u64 = 7;
    const SEGMENTS: usize = 23;
    const USER_CODE: u64 = 0x33;
    word(0).is_some_and(|flags| flags <= MAX_FLAGS)
        && word(SEGMENTS).is_some_and(|segments| segments & 0xffff == USER_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_to_which_handlers_return_is_recognized() {
        assert!(is_signal_return(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05, 0x90]));
        assert!(!is_signal_return(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f]));
    }
}
