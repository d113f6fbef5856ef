//! Tests of the functions that the compiler calls by itself, which are written for each processor.

use core::ffi::c_int;

use proptest::prelude::*;

unsafe extern "C" {
    fn sigtop_own_memcpy(to: *mut u8, from: *const u8, size: usize) -> *mut u8;
    fn sigtop_own_memmove(to: *mut u8, from: *const u8, size: usize) -> *mut u8;
    fn sigtop_own_memset(to: *mut u8, byte: c_int, size: usize) -> *mut u8;
    fn sigtop_own_memcmp(a: *const u8, b: *const u8, size: usize) -> c_int;
    fn sigtop_own_bcmp(a: *const u8, b: *const u8, size: usize) -> c_int;
    fn sigtop_own_strlen(text: *const u8) -> usize;
}

fn bytes() -> Vec<u8> {
    (0..2048u32).map(|at| (at * 151 / 8) as u8).collect()
}

#[test]
fn every_small_size_is_copied_and_filled_exactly() {
    for size in (0..300).chain([511, 512, 513, 1000]) {
        for (to, from) in [(1000, 7), (1000, 1000 - size / 2), (500, 500 + size / 3 + 1), (500, 501), (501, 500)] {
            let (mut ours, mut theirs) = (bytes(), bytes());
            theirs.copy_within(from..from + size, to);
            // SAFETY: both ends are within 2048 bytes.
            unsafe {
                let base = ours.as_mut_ptr();
                assert_eq!(sigtop_own_memmove(base.add(to), base.add(from), size), base.add(to));
            }
            assert!(ours == theirs, "{size} bytes from {from} to {to}");
        }
        let (source, mut ours, mut theirs) = (bytes(), bytes(), bytes());
        theirs[3..3 + size].fill(0x5a);
        theirs[1500..1500 + size.min(500)].copy_from_slice(&source[9..9 + size.min(500)]);
        // SAFETY: within 2048 bytes.
        unsafe {
            sigtop_own_memset(ours.as_mut_ptr().add(3), 0x95a, size);
            sigtop_own_memcpy(ours.as_mut_ptr().add(1500), source.as_ptr().add(9), size.min(500));
        }
        assert!(ours == theirs, "{size} bytes");
    }
}

#[test]
fn strings_are_measured() {
    for text in ["\0", "a\0b\0", "a longer one\0"] {
        // SAFETY: they end with a NUL.
        assert_eq!(unsafe { sigtop_own_strlen(text.as_ptr()) }, text.find('\0').expect("ends"));
    }
}

proptest! {
    #![proptest_config(crate::property::property(256))]
    #[test]
    fn bytes_are_compared_as_unsigned(
        mut a in proptest::collection::vec(any::<u8>(), 0..40), at: usize, other: u8, cut: usize,
    ) {
        let b = a.clone();
        if !a.is_empty() {
            let at = at % a.len();
            a[at] = other;
        }
        let size = cut % (a.len() + 1);
        // SAFETY: both have as many bytes.
        let (ours, equal) = unsafe {
            (sigtop_own_memcmp(a.as_ptr(), b.as_ptr(), size), sigtop_own_bcmp(a.as_ptr(), b.as_ptr(), size))
        };
        prop_assert_eq!(ours.cmp(&0), a[..size].cmp(&b[..size]));
        prop_assert_eq!(equal == 0, a[..size] == b[..size]);
    }
}
