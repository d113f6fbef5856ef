//! The kernel's signal frame on the stack of another process.

/// Length in bytes of [`SIGNAL_RETURN`].
pub(crate) const SIGNAL_RETURN_LENGTH: usize = 8;
/// The code to which a signal handler returns: `mov x8, #139; svc #0`. 139 is `rt_sigreturn`.
const SIGNAL_RETURN: [u8; SIGNAL_RETURN_LENGTH] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// Returns whether code begins with the return from a signal handler.
pub(crate) fn is_signal_return(code: &[u8]) -> bool {
    code.starts_with(&SIGNAL_RETURN)
}

/// Returns whether a `ucontext`, of which `word` returns words, has no flags.
pub(crate) fn is_plain_context(word: impl Fn(usize) -> Option<u64>) -> bool {
    word(0) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_to_which_handlers_return_is_recognized() {
        assert!(is_signal_return(&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4, 0x1f]));
        assert!(!is_signal_return(&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0]));
    }
}
