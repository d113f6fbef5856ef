//! Stacks of programs that are sampled from outside are complete and right, whatever built the
//! program.

use std::path::{Path, PathBuf};

use crate::harness::chains::judge::{Judge, Judgement, Verdict};
use crate::harness::chains::{self, Language};
use crate::harness::outside::engines_outside;
use crate::harness::raw::{Entry, Raw};
use crate::harness::run::{Batch, Watched, installed, text, tool};
use crate::harness::skips::skip;
use crate::harness::statistics::lower_bound;
use crate::harness::targets;

/// Options of each engine.
fn outside() -> Vec<String> {
    engines_outside().into_iter().map(|engine| format!("--engine {engine} --hz 990")).collect()
}

fn watch(options: &str, command: &[&str]) -> Watched {
    let watched = Batch::new(options).run(command);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    watched
}

/// Judges a program of functions whose names encode their only legal callers.
fn check(language: Language, program: &Path) {
    outside().iter().for_each(|options| check_with(options, language, program));
}

fn check_with(options: &str, language: Language, program: &Path) {
    let judge = Judge::new(language);
    let mut judgement = Judgement::default();
    while judgement.all() < 1500 {
        let raw = watch(options, &[text(program), "2.5"]).raw;
        let is_static = raw.of("prof").all(|entry| entry.frames.iter().all(|frame| !frame.module.starts_with("libc.")));
        let entries: Vec<Entry> = raw.of("prof").cloned().collect();
        let entries = entries.into_iter().map(|entry| if is_static { judge.with_libraries(entry) } else { entry });
        judgement.add(judge.all(entries.collect::<Vec<Entry>>().iter()));
    }
    let bound = lower_bound(judgement.count(Verdict::Exact), judgement.all(), 0.01);
    assert!(bound >= 0.985, "{options}: {language:?}: exact {bound:.5} at least (99 %): {judgement}");
    for wrong in [Verdict::Step, Verdict::Between, Verdict::Leaf, Verdict::Root] {
        assert_eq!(judgement.count(wrong), 0, "{options}: {language:?}: {wrong:?}: {judgement}");
    }
}

#[test]
fn c_stacks_are_exact() {
    check(Language::C, &chains::program(Language::C));
}

#[test]
fn cpp_stacks_with_exceptions_are_exact() {
    let Some(_) = tool("c++") else { return };
    check(Language::Cpp, &chains::program(Language::Cpp));
}

#[test]
fn rust_stacks_are_exact() {
    check(Language::Rust, &chains::program(Language::Rust));
}

#[test]
fn static_cpp_stacks_are_exact() {
    let Some(_) = tool("c++") else { return };
    check(Language::Cpp, &chains::static_program(Language::Cpp));
}

#[test]
fn static_rust_stacks_are_exact() {
    check(Language::Rust, &chains::static_program(Language::Rust));
}

/// A chain of functions through a callback of libc, a copy in libc, and a frame of unknown size.
const CHAIN: &str = "#include <alloca.h>\n#include <stdlib.h>\n#include <string.h>\n\
    volatile unsigned long sink; static char from[1 << 16], to[1 << 16];\n\
    __attribute__((noinline)) void leaf(void) { unsigned long x = sink; for (int i = 0; i < 2000; i++) x = x * 3 + i; sink = x; }\n\
    __attribute__((noinline)) void copy(int n) { memcpy(to, from, 1000 + (n & 0x7fff)); sink += to[5]; }\n\
    __attribute__((noinline)) int compare(const void *a, const void *b) { leaf(); copy(sink); return *(int *)a - *(int *)b; }\n\
    __attribute__((noinline)) void middle(int n) { char *room = alloca(n); room[1] = n; int v[16]; for (int i = 0; i < 16; i++) v[i] = (i * 7) % 16 + room[1];\n\
    qsort(v, 16, sizeof *v, compare); sink += v[3] + room[1]; }\n\
    __attribute__((noinline)) void outer(int n) { middle(100 + (n & 63)); sink += 1; }\n\
    int main(void) { for (int i = 0; i < 5000; i++) outer(i); return 0; }\n";

const TO_CALLBACK: [&str; 4] = ["main", "outer", "middle", "compare"];

fn holds(entry: &Entry, chain: &[&str]) -> bool {
    let mut names = entry.frames.iter().map(|frame| frame.name());
    chain.iter().all(|wanted| names.any(|name| name == *wanted))
}

/// Asserts that almost all CPU time is in stacks that contain `chain` (callers first, others may
/// stand between them), and that almost no stack is truncated.
fn assert_chain(what: &str, raw: &Raw, chain: &[&str], least: f64) {
    let weight = |is_counted: &dyn Fn(&Entry) -> bool| -> u64 {
        raw.of("prof").filter(|entry| is_counted(entry)).map(|entry| entry.weight_ns).sum()
    };
    // The loader's start is not the program's, and takes long where a hypervisor answers `cpuid`.
    // While the kernel executes a program, that has no stack.
    let is_execution = |entry: &Entry| !entry.kernel.is_empty() && entry.frames.len() <= 1;
    let all = weight(&|entry| !holds(entry, &["_dl_start"]) && !is_execution(entry));
    let right = weight(&|entry| holds(entry, chain) && !entry.truncated);
    let example = raw.of("prof").find(|entry| !holds(entry, chain) || entry.truncated);
    let example: Vec<&str> = example.iter().flat_map(|entry| &entry.frames).map(|frame| frame.name()).collect();
    assert!(all > 100_000_000, "{what}: {all} ns");
    assert!(right as f64 >= least * all as f64, "{what}: {right} ns of {all}, for example {example:?}");
}

fn check_chain(what: &str, program: &Path, chain: &[&str]) {
    for options in outside() {
        let raw = watch(&options, &[text(program)]).raw;
        assert_chain(&format!("{what}, {options}"), &raw, chain, 0.97);
    }
}

fn build(compiler: &str, flags: &[&str]) -> PathBuf {
    targets::generated("outside", CHAIN, "c", compiler, &[&["-O2", "-fomit-frame-pointer"], flags].concat())
}

#[test]
fn static_programs_are_unwound() {
    check_chain("static", &build("cc", &["-static"]), &TO_CALLBACK);
    check_chain("static-pie", &build("cc", &["-static-pie"]), &TO_CALLBACK);
}

/// musl has no unwind tables, and needs no frame pointer.
#[test]
fn programs_with_musl_are_unwound_by_their_code() {
    let Some(compiler) = tool("musl-gcc") else { return };
    // Its sort takes up to a twentieth of the time itself.
    check_chain("musl", &build(text(&compiler), &["-static"]), &["main", "outer", "middle"]);
}

#[test]
fn code_without_tables_is_unwound() {
    let none = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    check_chain("without tables", &build("cc", &none), &TO_CALLBACK);
    check_chain("with frame pointers", &build("cc", &[&none[..], &["-fno-omit-frame-pointer"]].concat()), &TO_CALLBACK);
    check_chain("without an index of the tables", &build("cc", &["-Wl,--no-eh-frame-hdr"]), &TO_CALLBACK);
}

/// A frame that is aligned keeps its address in memory, and its caller's in another register.
#[test]
fn aligned_frames_are_unwound() {
    let source = "#include <alloca.h>\nvolatile double sink;\n\
        __attribute__((noinline)) void leaf(double *p) { double x = sink; for (long n = 0; n < 30000; n++) x = x * 1.0000001 + n; sink = x + p[0]; }\n\
        __attribute__((noinline)) void aligned(int n, long a, long b, long c, long d, long e, long f, long g) {\n\
        __attribute__((aligned(64))) volatile double v[8]; char *q = alloca(n); q[0] = f + g; v[3] = q[0];\n\
        leaf((double *)v); sink += v[3] + g + f; for (int i = 0; i < 20000; i++) sink += v[i & 7]; }\n\
        __attribute__((noinline)) void outer(int n) { long a[8] = {n, n}; aligned(n + 16, 1, 2, 3, 4, 5, a[n & 3], n); sink += 1; }\n\
        int main(void) { for (int i = 0; i < 6000; i++) outer(100 + (i & 7)); return 0; }\n";
    let program = targets::generated("drap", source, "c", "cc", &["-O2", "-fomit-frame-pointer"]);
    for options in outside() {
        let raw = watch(&options, &[text(&program)]).raw;
        assert_chain(&format!("aligned, {options}"), &raw, &["main", "outer", "aligned"], 0.97);
    }
}

/// A handler of signals, on the same stack and on one of its own. Regression test: by events,
/// stacks ended at a handler on a stack of its own, because the kernel copies that one alone.
#[test]
fn code_that_a_signal_interrupted_is_below_its_handler() {
    let source = "#include <signal.h>\n#include <stdlib.h>\n#include <sys/time.h>\nvolatile double sink;\n\
        __attribute__((noinline)) void work(void) { double x = sink; for (long n = 0; n < 300000; n++) x = x * 1.0000001 + n; sink = x; }\n\
        void handler(int s) { work(); sink += s; }\n\
        __attribute__((noinline)) void outer(void) { work(); sink += 1; }\n\
        int main(int count, char **words) { if (count > 1) { stack_t s = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}; sigaltstack(&s, 0); }\n\
        struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART | (count > 1 ? SA_ONSTACK : 0)}; sigaction(SIGALRM, &a, 0);\n\
        struct itimerval t = {{0, 2000}, {0, 2000}}; setitimer(ITIMER_REAL, &t, 0); for (int i = 0; i < 1500; i++) outer(); return 0; }\n";
    let flags = ["-O2", "-fomit-frame-pointer"];
    let program = targets::generated("handled", source, "c", "cc", &flags);
    let (same, other) = (&[text(&program)][..], &[text(&program), "alternate"][..]);
    let both = outside().into_iter().flat_map(|options| [(options.clone(), same), (options, other)]);
    for (options, command) in both {
        let raw = watch(&options, command).raw;
        assert_chain(&format!("interrupted, {options}"), &raw, &["main", "outer"], 0.95);
        let in_handler = raw.of("prof").filter(|entry| holds(entry, &["main", "outer", "handler", "work"]));
        assert!(in_handler.map(|entry| entry.weight_ns).sum::<u64>() > 50_000_000, "{options}, {command:?}");
    }
}

/// Go has its tables in a compressed section of debug information, or none at all.
#[test]
fn go_programs_are_unwound() {
    let Some(go) = installed("go") else {
        return skip("go is not installed");
    };
    let source = "package main\nimport \"fmt\"\nvar sink int\n//go:noinline\n\
        func leaf(n int) int { s := n; for i := 0; i < 300000; i++ { s = s*3 + i }; return s }\n//go:noinline\n\
        func middle(n int) int { return leaf(n) + len(fmt.Sprintf(\"%d %v\", n, []int{n, n})) }\n//go:noinline\n\
        func outer(n int) int { return middle(n) + 1 }\n\
        func main() { for i := 0; i < 2500; i++ { sink += outer(i) } }\n";
    let program = targets::generated("gotree", source, "go", text(&go), &["build"]);
    for options in outside() {
        let raw = watch(&options, &[text(&program)]).raw;
        assert_chain("go", &raw, &["runtime.main", "main.main", "main.outer", "main.middle"], 0.9);
        let stripped = targets::generated("gotree", source, "go", text(&go), &["build", "-ldflags=-s -w"]);
        let raw = watch(&options, &[text(&stripped)]).raw;
        let whole = raw.of("prof").filter(|entry| !entry.truncated && entry.frames.len() >= 5);
        let (whole, all): (u64, u64) = (whole.map(|entry| entry.weight_ns).sum(), raw.weight_ns("prof"));
        assert!(whole as f64 >= 0.9 * all as f64, "{whole} ns of {all} reach the first function");
    }
}

/// Compilers that make code at run time keep frame pointers. The code calls `leaf`, and then counts
/// down by itself.
#[test]
fn code_made_at_run_time_is_unwound() {
    let source = "#include <string.h>\n#include <sys/mman.h>\nvolatile unsigned long sink;\n\
        void leaf(void) { unsigned long x = sink; for (int i = 0; i < 100000; i++) x = x * 3 + i; sink = x; }\n\
        static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0xb9, 0xa0, 0x86, 0x01, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};\n\
        __attribute__((noinline)) void outer(void (*made)(void (*)(void))) { made(leaf); sink += 1; }\n\
        int main(void) { void *room = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
        memcpy(room, code, sizeof code); for (int i = 0; i < 5000; i++) outer(room); return 0; }\n";
    let program = targets::generated("made", source, "c", "cc", &["-O2", "-fomit-frame-pointer"]);
    for options in outside() {
        let raw = watch(&options, &[text(&program)]).raw;
        assert_chain("made at run time", &raw, &["main", "outer"], 0.97);
        let is_made = |entry: &&Entry| entry.frames.last().is_some_and(|frame| frame.name.is_none());
        assert!(
            raw.of("prof").any(|entry| is_made(&entry)) && raw.of("prof").any(|entry| holds(entry, &["outer", "leaf"]))
        );
    }
}
