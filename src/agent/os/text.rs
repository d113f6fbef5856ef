//! Texts that end with a zero byte.

use core::ffi::c_char;

/// Returns whether a text starts with these bytes. Reads no further than to the first difference.
///
/// # Safety
/// The text ends with a zero byte, or with the last of `bytes`.
pub(crate) unsafe fn starts_with(text: *const c_char, bytes: &[u8]) -> bool {
    // SAFETY: a zero byte differs from all bytes but one that is the last, so nothing behind the
    // text is read.
    bytes.iter().enumerate().all(|(index, &byte)| unsafe { *text.add(index).cast::<u8>() == byte })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_to_the_first_difference() {
        // SAFETY: the texts end with a zero byte.
        let starts = |text: &core::ffi::CStr, bytes: &[u8]| unsafe { starts_with(text.as_ptr(), bytes) };
        assert!(starts(c"PATH=/bin", b"PATH") && starts(c"PATH", b"PATH\0") && starts(c"", b""));
        assert!(!starts(c"PAT", b"PATH") && !starts(c"PATHS", b"PATH\0") && !starts(c"", b"P"));
    }
}
