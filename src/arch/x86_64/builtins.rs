//! The functions that the compiler calls by itself: `memcpy` and its kin, as hidden symbols of this
//! library's own.
//!
//! libc's are not used. A sanitizer's runtime stands before those, and it expects a thread that it
//! knows: on the agent thread, and on the stack of a slot, it reports errors that are none or ends
//! the program. These here take no lock, use no thread-local storage and run anywhere. Up to 64
//! bytes are copied by loads that all come before the first store, which is what most copies in a
//! handler are; more goes by 64 bytes a step, in the direction that an overlap allows.
//!
//! They are written in assembly, because the compiler turns such loops into calls of these
//! functions.

#[cfg(any(sigtop_agent, test))]
macro_rules! builtins {
    ($prefix:literal) => {
        core::arch::global_asm!(
            ".text",
            ".macro sigtop_function name:req",
            ".balign 32",
            ".globl \\name",
            ".hidden \\name",
            ".type \\name, @function",
            "\\name:",
            ".endm",
            // memcpy, memmove: rdi = to, rsi = from, rdx = bytes; returns to.
            concat!("sigtop_function ", $prefix, "memcpy"),
            concat!("sigtop_function ", $prefix, "memmove"),
            ".cfi_startproc",
            "mov rax, rdi",
            "cmp rdx, 16",
            "jb 20f",
            "cmp rdx, 32",
            "ja 10f",
            "movups xmm0, [rsi]",
            "movups xmm1, [rsi + rdx - 16]",
            "movups [rdi], xmm0",
            "movups [rdi + rdx - 16], xmm1",
            "ret",
            "10: cmp rdx, 64",
            "movups xmm4, [rsi]",
            "movups xmm5, [rsi + 16]",
            "movups xmm6, [rsi + rdx - 32]",
            "movups xmm7, [rsi + rdx - 16]",
            "ja 11f",
            "movups [rdi], xmm4",
            "movups [rdi + 16], xmm5",
            "movups [rdi + rdx - 32], xmm6",
            "movups [rdi + rdx - 16], xmm7",
            "ret",
            "11: mov rcx, rdi",
            "sub rcx, rsi",
            "cmp rcx, rdx",
            "jb 15f",
            // Forwards. The last 64 bytes are loaded first: a step may store where they lie.
            "movups xmm4, [rsi + rdx - 64]",
            "movups xmm5, [rsi + rdx - 48]",
            "lea r8, [rdi + rdx - 64]",
            "12: movups xmm0, [rsi]",
            "movups xmm1, [rsi + 16]",
            "movups xmm2, [rsi + 32]",
            "movups xmm3, [rsi + 48]",
            "movups [rdi], xmm0",
            "movups [rdi + 16], xmm1",
            "movups [rdi + 32], xmm2",
            "movups [rdi + 48], xmm3",
            "add rsi, 64",
            "add rdi, 64",
            "cmp rdi, r8",
            "jb 12b",
            "movups [r8], xmm4",
            "movups [r8 + 16], xmm5",
            "movups [r8 + 32], xmm6",
            "movups [r8 + 48], xmm7",
            "ret",
            // Backwards, with the first 64 bytes loaded first.
            "15: movups xmm6, [rsi + 32]",
            "movups xmm7, [rsi + 48]",
            "lea r8, [rdi + 64]",
            "add rsi, rdx",
            "add rdi, rdx",
            "16: movups xmm0, [rsi - 16]",
            "movups xmm1, [rsi - 32]",
            "movups xmm2, [rsi - 48]",
            "movups xmm3, [rsi - 64]",
            "movups [rdi - 16], xmm0",
            "movups [rdi - 32], xmm1",
            "movups [rdi - 48], xmm2",
            "movups [rdi - 64], xmm3",
            "sub rsi, 64",
            "sub rdi, 64",
            "cmp rdi, r8",
            "ja 16b",
            "movups [rax], xmm4",
            "movups [rax + 16], xmm5",
            "movups [rax + 32], xmm6",
            "movups [rax + 48], xmm7",
            "ret",
            "20: cmp edx, 8",
            "jb 21f",
            "mov rcx, [rsi]",
            "mov r8, [rsi + rdx - 8]",
            "mov [rdi], rcx",
            "mov [rdi + rdx - 8], r8",
            "ret",
            "21: cmp edx, 4",
            "jb 22f",
            "mov ecx, [rsi]",
            "mov r8d, [rsi + rdx - 4]",
            "mov [rdi], ecx",
            "mov [rdi + rdx - 4], r8d",
            "ret",
            "22: cmp edx, 1",
            "jb 24f",
            "movzx ecx, byte ptr [rsi]",
            "je 23f",
            "movzx r8d, word ptr [rsi + rdx - 2]",
            "mov [rdi + rdx - 2], r8w",
            "23: mov [rdi], cl",
            "24: ret",
            ".cfi_endproc",
            // memset: rdi = to, sil = byte, rdx = bytes; returns to.
            concat!("sigtop_function ", $prefix, "memset"),
            ".cfi_startproc",
            "mov rax, rdi",
            "movzx esi, sil",
            "movabs rcx, 0x0101010101010101",
            "imul rcx, rsi",
            "cmp rdx, 16",
            "jb 40f",
            "movq xmm0, rcx",
            "punpcklqdq xmm0, xmm0",
            "cmp rdx, 64",
            "jae 32f",
            "lea r8, [rdi + rdx - 16]",
            "31: movups [rdi], xmm0",
            "add rdi, 16",
            "cmp rdi, r8",
            "jb 31b",
            "movups [r8], xmm0",
            "ret",
            "32: lea r8, [rdi + rdx - 64]",
            "33: movups [rdi], xmm0",
            "movups [rdi + 16], xmm0",
            "movups [rdi + 32], xmm0",
            "movups [rdi + 48], xmm0",
            "add rdi, 64",
            "cmp rdi, r8",
            "jb 33b",
            "movups [r8], xmm0",
            "movups [r8 + 16], xmm0",
            "movups [r8 + 32], xmm0",
            "movups [r8 + 48], xmm0",
            "ret",
            "40: cmp edx, 8",
            "jb 41f",
            "mov [rdi], rcx",
            "mov [rdi + rdx - 8], rcx",
            "ret",
            "41: cmp edx, 4",
            "jb 42f",
            "mov [rdi], ecx",
            "mov [rdi + rdx - 4], ecx",
            "ret",
            "42: test edx, edx",
            "jz 43f",
            "mov [rdi], cl",
            "mov [rdi + rdx - 1], cl",
            "shr edx, 1",
            "mov [rdi + rdx], cl",
            "43: ret",
            ".cfi_endproc",
            // memcmp, bcmp: rdi, rsi, rdx = bytes; returns less than, equal to or more than 0.
            concat!("sigtop_function ", $prefix, "memcmp"),
            concat!("sigtop_function ", $prefix, "bcmp"),
            ".cfi_startproc",
            "50: cmp rdx, 8",
            "jb 52f",
            "mov rax, [rdi]",
            "mov rcx, [rsi]",
            "cmp rax, rcx",
            "jne 51f",
            "add rdi, 8",
            "add rsi, 8",
            "sub rdx, 8",
            "jmp 50b",
            "51: bswap rax",
            "bswap rcx",
            "cmp rax, rcx",
            "sbb eax, eax",
            "or eax, 1",
            "ret",
            "52: xor eax, eax",
            "test rdx, rdx",
            "jz 54f",
            "53: movzx eax, byte ptr [rdi]",
            "movzx ecx, byte ptr [rsi]",
            "sub eax, ecx",
            "jne 54f",
            "inc rdi",
            "inc rsi",
            "dec rdx",
            "jnz 53b",
            "54: ret",
            ".cfi_endproc",
            // strlen: rdi; returns the bytes before the NUL.
            concat!("sigtop_function ", $prefix, "strlen"),
            ".cfi_startproc",
            "xor eax, eax",
            "cmp byte ptr [rdi], 0",
            "je 61f",
            "60: inc rax",
            "cmp byte ptr [rdi + rax], 0",
            "jne 60b",
            "61: ret",
            ".cfi_endproc",
            ".purgem sigtop_function",
        );
    };
}

#[cfg(sigtop_agent)]
builtins!("");
#[cfg(test)]
builtins!("sigtop_own_");

#[cfg(test)]
mod tests {
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
}
