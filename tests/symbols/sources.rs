//! Sources of the programs that the tests compile.

/// C with inlined calls, two deep, and functions that are not inlined.
pub(crate) const C: (&str, &str) = (
    "inlined.c",
    r#"#include <stdio.h>
#include <stdlib.h>

static inline __attribute__((always_inline)) int innermost(int x) {
    return x * rand();
}

static inline __attribute__((always_inline)) int middle(int x) {
    int y = innermost(x + 1);
    return y ^ (x << 3);
}

__attribute__((noinline)) int outer(int x) {
    int sum = 0;
    for (int i = 0; i < x; i++)
        sum += middle(i);
    return sum;
}

static __attribute__((noinline)) int hidden(int x) {
    return outer(x) + rand();
}

int main(int argc, char **argv) {
    printf("%d %d\n", hidden(argc), outer(argc));
    return 0;
}
"#,
);

/// C++ with templates, lambdas and an unnamed namespace.
pub(crate) const CPP: (&str, &str) = (
    "shapes.cc",
    r#"#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace geometry {
template <class T> struct Grid {
    __attribute__((noinline)) T at(T x, int y) { return x + y + rand(); }
    inline __attribute__((always_inline)) T inlined(T x) { return x * 3 + rand(); }
    __attribute__((noinline)) bool operator<(const Grid &) const { return rand() > 3; }
};
}

namespace {
__attribute__((noinline)) int unnamed(int x) { return x * 3 + rand(); }
struct Private {
    inline __attribute__((always_inline)) int method(int x) const { return x * 5 + rand(); }
    __attribute__((noinline)) int other(int x) const { return x * 7 + rand(); }
};
}

extern "C" __attribute__((noinline)) int plain_c(int x) { return x + rand(); }

int main(int argc, char **) {
    geometry::Grid<int> grid, second;
    std::map<int, std::string> names;
    names[argc] = "a";
    auto twice = [&](int x) __attribute__((noinline)) { return x * 2 + argc + rand(); };
    int sum = grid.at(argc, 2) + grid.inlined(argc) + unnamed(argc) + Private().method(argc) + Private().other(argc);
    printf("%d\n", sum + twice(argc) + (grid < second) + plain_c(argc) + (int)names.size());
}
"#,
);

/// Rust with generics, traits and closures.
pub(crate) const RUST: (&str, &str) = (
    "beasts.rs",
    r#"trait Speak {
    fn speak(&self, times: u64) -> u64;
}

struct Beast<T> {
    voice: T,
}

impl<T: Copy + Into<u64>> Speak for Beast<T> {
    #[inline(never)]
    fn speak(&self, times: u64) -> u64 {
        (0..times).map(|time| inlined(time, self.voice.into())).sum()
    }
}

#[inline(always)]
fn inlined(time: u64, voice: u64) -> u64 {
    std::hint::black_box(time ^ voice)
}

#[inline(never)]
fn generic<S: Speak>(speaker: &S) -> u64 {
    speaker.speak(std::hint::black_box(3))
}

fn main() {
    println!("{}", generic(&Beast { voice: 7u8 }));
}
"#,
);

/// A library with exported functions and others.
pub(crate) const LIBRARY: (&str, &str) = (
    "library.c",
    r#"#include <stdlib.h>

static __attribute__((noinline)) int internal(int x) {
    return x * rand();
}

int exported(int x) {
    return internal(x) + 1;
}

static __attribute__((noinline)) int another(int x) {
    return x ^ rand();
}

__attribute__((weak)) int alias_weak(int x) {
    return another(x);
}
extern int alias_global(int x) __attribute__((alias("alias_weak")));
extern int __alias_global(int x) __attribute__((alias("alias_weak")));
"#,
);

/// Assembly that declares the size of only one of its functions.
pub(crate) const ASSEMBLY: (&str, &str) = (
    "hand.s",
    r#"    .text
    .globl sized
    .type sized, @function
sized:
    nop
    nop
    ret
    .size sized, . - sized

    .byte 0xcc, 0xcc, 0xcc, 0xcc

    .globl unsized
    .type unsized, @function
unsized:
    nop
    nop
    ret

    .globl label
label:
    nop
    ret

    .section .text.more, "ax", @progbits
    .globl last
    .type last, @function
last:
    nop
    ret
    .section .note.GNU-stack, "", @progbits
"#,
);

/// Debug information that is valid but expensive to read. Every unit describes `work`. The tests
/// replace `UNIT`, `ABBREVIATIONS` and `LINES` by the expensive parts.
pub(crate) const BOMB: &str = r#"
    .text
    .globl work
    .type work, @function
work:
    nop
    ret
    .size work, . - work
.Lend:
    .section .debug_abbrev, "", @progbits
.Labbreviations:
    # 1: a unit with address range, directory and line table.
    .uleb128 1, 0x11
    .byte 1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0x1b, 0x08, 0x10, 0x17, 0, 0
    # 2: a function with name and address range.
    .uleb128 2, 0x2e
    .byte 1
    .uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0
    # 3: a call that was inlined at the same addresses.
    .uleb128 3, 0x1d
    .byte 1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
ABBREVIATIONS
    .byte 0
    .section .debug_info, "", @progbits
    .macro unit abbreviations
    .long 9f - 8f
8:  .short 4
    .long \abbreviations
    .byte 8
    .uleb128 1
    .quad work, .Lend - work
    .endm
    .macro named_unit abbreviations
    unit \abbreviations
    .asciz "/src"
    .long 0
    .endm
    .macro function
    .uleb128 2
    .asciz "work"
    .quad work, .Lend - work
    .endm
UNIT
    .section .debug_line, "", @progbits
    .long 7f - 6f
6:  .short 4
    .long 5f - 4f
4:  .byte 1, 1, 1, 1, 1, 1
    .byte 0
LINES
    .byte 0
5:  .byte 0, 9, 2
    .quad work
    .byte 1, 2, 2, 0, 1, 1
7:
    .section .note.GNU-stack, "", @progbits
"#;

/// Debug information that has its strings in another file.
pub(crate) const SHARING: (&str, &str) = (
    "sharing.s",
    r#"    .text
    .globl work
    .type work, @function
work:
    nop
    ret
    .size work, . - work
.Lend:
    .section .debug_abbrev, "", @progbits
    .uleb128 1, 0x11
    .byte 1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
    .uleb128 2, 0x2e
    .byte 0
    .uleb128 0x03, 0x1f21, 0x11, 0x01, 0x12, 0x07, 0, 0
    .byte 0
    .section .debug_info, "", @progbits
    .long 9f - 8f
8:  .short 4
    .long 0
    .byte 8
    .uleb128 1
    .quad work, .Lend - work
    .uleb128 2
    .long 1
    .quad work, .Lend - work
    .byte 0
9:
    .section .note.GNU-stack, "", @progbits
"#,
);

/// The file with the strings of [`SHARING`].
pub(crate) const SHARED: (&str, &str) = (
    "shared.s",
    r#"    .section .debug_str, "", @progbits
    .byte 0
    .asciz "said_elsewhere"
    .section .note.GNU-stack, "", @progbits
"#,
);
