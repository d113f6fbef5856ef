//! Programs whose layout or unwind tables are unusual are unwound to `main` and named.

use std::path::Path;

use crate::harness::outside::engines_outside;
use crate::harness::raw::{Entry, Raw};
use crate::harness::run::{Batch, in_parallel, text, tool};
use crate::harness::targets;

/// Three functions that call each other, and `main`.
const CHAIN: &str = "volatile double sink;\n\
    __attribute__((noinline)) double leaf(long n) { double x = sink; while (n--) x = x * 1.0000001 + n; return sink = x; }\n\
    __attribute__((noinline)) double middle(long n) { return leaf(n) + 1; }\n\
    int main(void) { double x = 0; for (int i = 0; i < 100; i++) x += middle(3000000); return x == 0; }\n";

/// Asserts that almost all CPU time is in stacks that contain `chain` (callers first) and are not
/// truncated.
fn assert_chain(raw: &Raw, chain: &[&str]) {
    let all = raw.weight_ns("prof");
    let holds = |entry: &&Entry| {
        entry
            .frames
            .windows(chain.len())
            .any(|frames| frames.iter().map(|frame| frame.name()).eq(chain.iter().copied()))
    };
    let whole: u64 = raw.of("prof").filter(holds).filter(|entry| !entry.truncated).map(|entry| entry.weight_ns).sum();
    assert!(all > 100_000_000 && whole * 100 >= all * 97, "{chain:?}: {whole} ns of {all}");
}

/// `lld` does not pad the segments of a small program to pages: all of them are mapped from offset
/// 0 of the file.
#[test]
fn small_program_linked_by_lld_has_names_and_whole_stacks() {
    let (Some(clang), Some(_)) = (tool("clang"), tool("ld.lld")) else { return };
    let program = targets::generated("small", CHAIN, "c", text(&clang), &["-O1", "-fuse-ld=lld"]);
    check_chain(&program, &["main", "middle", "leaf"]);
}

/// Runs a program and asserts that almost all CPU time is in complete stacks that contain `chain`.
fn check_chain(program: &Path, chain: &[&str]) {
    let watched = Batch::new("--hz 250").run(&[text(program)]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    assert_chain(&watched.raw, chain);
}

/// Functions with frames of several kinds in which a thread sleeps.
const SLEEPERS: &str = r"
#include <poll.h>
#include <time.h>
#include <unistd.h>
#define SLOW __attribute__((noinline))
volatile long sink;
SLOW long small(long n) { poll(0, 0, 60); return n + sink; }
SLOW long array(long n) {
    char a[200]; a[n] = n; nanosleep(&(struct timespec){0, 60000000}, 0); return a[n] + small(n);
}
SLOW long large(long n) { char a[200000]; a[n * 99] = n; usleep(60000); return a[n * 99] + array(n); }
SLOW long aligned(long n) {
    _Alignas(128) volatile long a[16]; a[n] = n; usleep(60000); return a[n] + large(n);
}
SLOW long busy(long a, long b, long c, long d, long e, long f, long g, long h) {
    long x = a * b + c, y = d * e + f, z = g * h + a, v = large(a);
    poll(0, 0, 60); return x + y * v + z + aligned(b);
}
int main(void) {
    for (long i = 0; i < 150000000; i++) sink = i;
    sink = 1;
    for (long i = 0; i < 10; i++) sink += busy(i, 2, 3, 4, 5, 6, 7, 8);
    return 0;
}
";

/// The kernel tells the stack pointer of a sleeping thread and no base pointer, which the system's
/// functions may leave where it is.
#[test]
fn sleeping_threads_are_unwound_in_code_with_base_pointers() {
    let with_base = ["-O2", "-fno-omit-frame-pointer"];
    let guarded = ["-O2", "-fno-omit-frame-pointer", "-fstack-protector-all", "-fstack-clash-protection"];
    for (compiler, flags) in [("gcc", &["-O0"][..]), ("gcc", &with_base), ("gcc", &guarded), ("clang", &with_base)] {
        let Some(compiler) = tool(compiler) else { continue };
        let program = targets::generated("sleepers", SLEEPERS, "c", text(&compiler), flags);
        in_parallel(&[&["threads"][..], &engines_outside()].concat(), |engine| {
            let watched = Batch::new(&format!("--hz 250 --clock real --engine {engine}")).run(&[text(&program)]);
            assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
            let of_busy = |entry: &&Entry| entry.frames.iter().any(|frame| frame.name() == "busy");
            let all: u64 = watched.raw.of("real").filter(of_busy).map(|entry| entry.weight_ns).sum();
            let lost: Vec<_> = watched.raw.of("real").filter(|entry| entry.truncated).collect();
            let lost_ns: u64 = lost.iter().map(|entry| entry.weight_ns).sum();
            let lost = format!("{compiler:?} {flags:?} {engine}: {lost_ns} of {all} ns: {lost:?}");
            // A large frame is known once it was seen before and after a sleep: the first are cut.
            println!("{compiler:?} {flags:?} {engine}: {lost_ns} of {all} ns are truncated");
            assert!(all > 4_000_000_000 && lost_ns * 20 <= all, "{lost}");
        });
    }
}

/// A thread of Ruby has a frame of 1 MiB near its root. It computes and sleeps here, and starts
/// when the process's memory map was read already.
#[test]
fn threads_with_a_frame_larger_than_a_copy_of_their_stack_are_whole() {
    const PROGRAM: &str = r"
        #include <pthread.h>
        #include <time.h>
        #include <unistd.h>
        volatile long sink;
        __attribute__((noipa)) static long works(long n) {
            struct timespec now;
            do {
                for (long i = 0; i < 100000; i++) sink = i;
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
            } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < 600);
            usleep(600000);
            return n + sink;
        }
        __attribute__((noipa)) static void *starts(void *n) {
            volatile char room[1 << 20];
            room[0] = 1;
            return (void *)(works((long)n) + room[0]);
        }
        int main(void) {
            pthread_t thread;
            usleep(400000);
            return pthread_create(&thread, 0, starts, 0) || pthread_join(thread, 0);
        }
    ";
    let program = targets::generated("room", PROGRAM, "c", "gcc", &["-O1", "-pthread"]);
    for engine in [&["threads"][..], &engines_outside()].concat() {
        let watched = Batch::new(&format!("--hz 250 --clock real --engine {engine}")).run(&[text(&program)]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        let ns = |is_whole: bool| {
            let found = |entry: &&Entry| {
                let has = |name: &str| entry.frames.iter().any(|frame| frame.name() == name);
                has("works") && is_whole != entry.truncated && has("starts")
            };
            watched.raw.of("real").filter(found).map(|entry| entry.weight_ns).sum::<u64>()
        };
        let [whole, truncated] = [true, false].map(ns);
        assert!(whole > 900_000_000 && truncated * 20 <= whole, "{engine}: {whole} ns whole, {truncated} truncated");
    }
}

/// The maps are read again when a thread sleeps in a library that was not known, and its stack is
/// walked once more, although it sleeps on.
#[test]
fn threads_that_sleep_in_a_library_since_it_was_loaded_are_unwound() {
    let library = "#include <unistd.h>\nint waits_in_a_library(void) { return usleep(1500000) + 1; }\n";
    let library = targets::generated("waits_in_a_library", library, "c", "gcc", &["-O1", "-shared", "-fPIC"]);
    let program = "#include <dlfcn.h>\nvolatile long sink;\n\
        int main(int argc, char **argv) { for (long i = 0; i < 400000000; i++) sink = i; (void)argc;\n\
        int (*waits)(void) = (int (*)(void))dlsym(dlopen(argv[1], RTLD_NOW), \"waits_in_a_library\"); return waits() - 1; }\n";
    let program = targets::generated("loads", program, "c", "gcc", &["-O1", "-ldl"]);
    let watched = Batch::new("--hz 250 --clock real").run(&[text(&program), text(&library)]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let asleep = || watched.raw.of("real").filter(|entry| entry.frames.iter().any(|frame| frame.name() == "usleep"));
    let all: u64 = asleep().map(|entry| entry.weight_ns).sum();
    let whole = asleep().filter(|entry| !entry.truncated && entry.frames.iter().any(|frame| frame.name() == "main"));
    let whole: u64 = whole.map(|entry| entry.weight_ns).sum();
    assert!(all > 1_300_000_000 && whole * 10 >= all * 9, "{whole} of {all} ns");
}

/// Code without unwind tables of its own is unwound by its debug information, or by the calls in it
/// where the agent does not read any.
#[test]
fn code_that_only_debug_information_describes_is_unwound() {
    const FLAGS: [&str; 5] =
        ["-O2", "-g", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let chain = ["main", "middle", "leaf"];
    // They write common entries of the versions 1 and 4.
    for compiler in ["cc", "clang"].into_iter().filter_map(tool) {
        check_chain(&targets::generated("described", CHAIN, "c", text(&compiler), &FLAGS), &chain);
    }
    for undescribed in ["-Wl,--strip-debug", "-Wl,--compress-debug-sections=zlib"] {
        let flags = [&FLAGS[..], &[undescribed]].concat();
        check_chain(&targets::generated("undescribed", CHAIN, "c", "cc", &flags), &chain);
    }
}

/// Assembly that keeps its old stack pointer on the aligned stack, described by a DWARF expression:
/// `*(rsp + 24) + 8`.
#[test]
fn caller_of_assembly_that_saves_its_stack_pointer_is_found() {
    let source = "void aligned(void);\nvolatile double sink;\n\
        __attribute__((noinline)) void leaf(void) { double x = sink; for (long n = 0; n < 3000000; n++) x = x * 1.0000001 + n; sink = x; }\n\
        __asm__(\".text\\n.type aligned,@function\\naligned: .cfi_startproc\\nmov %rsp, %rax\\n.cfi_def_cfa_register rax\\n\"\n\
        \"sub $128, %rsp\\nand $-64, %rsp\\nmov %rax, 24(%rsp)\\n.cfi_escape 0x0f,5,0x77,24,0x06,0x23,8\\n\"\n\
        \"call leaf\\nmov $1000000, %ecx\\n1: dec %ecx\\njnz 1b\\nmov 24(%rsp), %rsi\\n.cfi_def_cfa rsi,8\\n\"\n\
        \"mov %rsi, %rsp\\n.cfi_def_cfa rsp,8\\nret\\n.cfi_endproc\\n.size aligned,.-aligned\");\n\
        int main(void) { for (int i = 0; i < 100; i++) aligned(); return 0; }\n";
    let program = targets::generated("aligned", source, "c", "cc", &["-O2", "-fomit-frame-pointer"]);
    check_chain(&program, &["main", "aligned"]);
}

/// The same above an array whose length is in a register: `*(rsp + 8 + r9 * 8) + 8`.
#[test]
fn caller_of_assembly_with_an_array_on_its_stack_is_found() {
    let source = "void indexed(void);\n\
        __asm__(\".text\\n.type indexed,@function\\nindexed: .cfi_startproc\\nmov %rsp, %rax\\n.cfi_def_cfa_register rax\\n\"\n\
        \"mov $10, %r9\\nsub $128, %rsp\\nand $-64, %rsp\\nmov %rax, 8(%rsp,%r9,8)\\n\"\n\
        \".cfi_escape 0x0f,10,0x77,8,0x79,0,0x38,0x1e,0x22,0x06,0x23,8\\n\"\n\
        \"mov $5000000, %ecx\\n1: dec %ecx\\njnz 1b\\nmov 8(%rsp,%r9,8), %rsi\\n.cfi_def_cfa rsi,8\\n\"\n\
        \"mov %rsi, %rsp\\n.cfi_def_cfa rsp,8\\nret\\n.cfi_endproc\\n.size indexed,.-indexed\");\n\
        int main(void) { for (int i = 0; i < 200; i++) indexed(); return 0; }\n";
    let program = targets::generated("indexed", source, "c", "cc", &["-O2", "-fomit-frame-pointer"]);
    check_chain(&program, &["main", "indexed"]);
}

/// The C `main` that rustc generates has no unwind tables if panics abort.
#[test]
fn rust_program_whose_panics_abort_is_unwound_to_the_start() {
    let source = "use std::hint::black_box;\n\
        #[inline(never)] fn leaf(n: u64) -> u64 { (0..n).fold(0u64, |s, i| black_box(s.wrapping_mul(3) + i)) }\n\
        fn main() { let s: u64 = (0..100).map(|_| leaf(black_box(4_000_000)) & 1).sum(); println!(\"{s}\"); }\n";
    for level in ["-Copt-level=0", "-Copt-level=3"] {
        let program = targets::generated("aborting", source, "rs", "rustc", &["-Cpanic=abort", level]);
        check_chain(&program, &["main"]);
    }
}

/// The first frame of the stack is a function that nothing called: it has its own name, and not
/// that of the code before it.
#[test]
fn stack_made_by_makecontext_ends_with_its_first_function() {
    let source = "#include <stdlib.h>\n#include <ucontext.h>\nstatic ucontext_t back, context;\nvolatile double sink;\n\
        __attribute__((noinline)) void leaf(void) { double x = sink; for (long n = 0; n < 3000000; n++) x = x * 1.0000001 + n; sink = x; }\n\
        void fiber(void) { for (int i = 0; i < 100; i++) { leaf(); sink += 1; } }\n\
        int main(void) { getcontext(&context); context.uc_stack.ss_sp = malloc(65536); context.uc_stack.ss_size = 65536;\n\
        context.uc_link = &back; makecontext(&context, fiber, 0); swapcontext(&back, &context); return 0; }\n";
    let program = targets::generated("context", source, "c", "cc", &["-O2", "-fomit-frame-pointer"]);
    check_chain(&program, &["fiber", "leaf"]);
}

/// Both ends of a recursion that is deeper than a record are kept.
#[test]
fn deep_recursion_keeps_its_root() {
    let source = "volatile double sink;\n\
        __attribute__((noinline)) void leaf(void) { double x = sink; for (long n = 0; n < 3000000; n++) x = x * 1.0000001 + n; sink = x; }\n\
        __attribute__((noinline)) void recurse(int depth) { if (depth == 0) leaf(); else recurse(depth - 1); sink += 1; }\n\
        int main(void) { for (int i = 0; i < 100; i++) recurse(1400 + i % 7); return 0; }\n";
    let program = targets::generated("deep", source, "c", "cc", &["-O1", "-fno-optimize-sibling-calls"]);
    let watched = Batch::new("--hz 250").run(&[text(&program)]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    assert_chain(&watched.raw, &["main", "recurse", "recurse"]);
    assert_chain(&watched.raw, &["recurse", "[frames left out]", "recurse"]);
    assert_chain(&watched.raw, &["recurse", "leaf"]);
    let of_leaf = || watched.raw.of("prof").filter(|entry| entry.frames.iter().any(|frame| frame.name() == "leaf"));
    assert!(of_leaf().all(|entry| entry.frames.len() == 320 + 1 + 128), "{:?}", watched.raw.entries);
}

/// Regression test: code without tables that keeps no frame pointer, but a zero in its register,
/// was taken for the first of its stack, which was then said to be whole.
#[test]
fn a_zero_in_place_of_the_frame_pointer_does_not_make_a_stack_whole() {
    let Some(_) = tool("cc") else { return };
    let source = CHAIN.replace(
        "return leaf(n) + 1;",
        "__asm__ volatile(\"xor %%ebp, %%ebp\" ::: \"rbp\"); double x = leaf(n); \
         __asm__ volatile(\"\" ::: \"rbp\"); return x + 1;",
    );
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let program = targets::generated("zero", &source, "c", "cc", &flags);
    let watched = Batch::new("--hz 250").run(&[text(&program)]);
    let names = |entry: &Entry| entry.frames.iter().map(|frame| frame.name().to_owned()).collect::<Vec<_>>();
    let leaves = || watched.raw.of("prof").filter(|entry| names(entry).iter().any(|name| name == "leaf"));
    let is_right = |entry: &&Entry| entry.truncated || names(entry).iter().any(|name| name == "main");
    let wrong: Vec<_> = leaves().filter(|entry| !is_right(entry)).map(names).collect();
    assert!(leaves().map(|entry| entry.weight_ns).sum::<u64>() > 100_000_000, "{}", watched.tables);
    assert!(wrong.is_empty(), "without main, and not truncated: {wrong:?}");
}
