//! Writes the chains in C or C++.

use std::fmt::Write;

use super::{Function, Kind};

const HEAD: &str = r#"
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <alloca.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noipa))
#define KEEP(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")
static __thread char area[2][16384];
static __thread volatile double sink;
static inline uint64_t next(uint64_t x) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; return x; }
"#;

const CPP_HEAD: &str = r#"
struct Error { uint64_t value; };
struct Guard { uint64_t value; ~Guard() { sink = sink + (double)value; } };
struct Base { virtual uint64_t run(uint64_t x) = 0; };
"#;

const TAIL: &str = r#"
static double seconds;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
NOINLINE static void work(uint64_t x) {
    double end = now() + seconds;
    while (now() < end)
        for (int i = 0; i < 200; i++) x = next(f0_entry_from_r(x) | 1);
    sink = (double)x;
}
NOINLINE void *worker(void *argument) { work(987654321); KEEP(argument); return argument; }
int main(int count, char **arguments) {
    pthread_t thread;
    if (count < 2) return 2;
    seconds = atof(arguments[1]);
    if (count > 2) pthread_create(&thread, 0, worker, 0);
    work(123456789);
    if (count > 2) pthread_join(thread, 0);
    return 0;
}
"#;

/// The whole program; its argument is how many seconds of wall time it works; with a second
/// argument a thread works besides.
pub(super) fn source(functions: &[Function], cpp: bool) -> String {
    let mut text = String::from(HEAD);
    if cpp {
        text.push_str(CPP_HEAD);
    }
    for function in functions {
        let name = function.name();
        match function.kind {
            Kind::Compare => writeln!(text, "int {name}(const void *, const void *);"),
            Kind::Virtual => writeln!(
                text,
                "struct {name} final : Base {{ uint64_t run(uint64_t x) override; }};\nstatic {name} object{0};\n\
                 static Base *volatile pointer{0} = &object{0};",
                function.number
            ),
            _ => writeln!(text, "uint64_t {name}(uint64_t x);"),
        }
        .expect("a string");
    }
    for function in functions {
        write(&mut text, functions, function, cpp);
    }
    text + TAIL
}

fn write(text: &mut String, functions: &[Function], function: &Function, cpp: bool) {
    let (name, number) = (function.name(), function.number);
    let call_on = call_on(functions, function);
    let guard = if cpp { format!("Guard guard = {{{number}}};") } else { String::new() };
    let calls = match function.kind {
        Kind::Catch => format!("try {{ {call_on} }} catch (const Error &error) {{ x ^= error.value; }}"),
        Kind::Throw => format!("if ((x >> 20 & 15) == 0) throw Error{{x}};\n    {call_on}"),
        Kind::Sort => {
            let compare = functions[function.callees[0]].name();
            format!(
                "uint64_t v[6]; for (int i = 0; i < 6; i++) v[i] = x = next(x);\n    qsort(v, 6, 8, {compare}); x ^= v[0];"
            )
        }
        _ => call_on,
    };
    let body =
        format!("{}\n    {calls}\n    x = next(x);\n    {}", busy(function.kind, number, cpp), arithmetic(60, number));
    match function.kind {
        Kind::Compare => writeln!(
            text,
            "NOINLINE int {name}(const void *a, const void *b) {{\n    {guard}\n    uint64_t x = *(const uint64_t *)a ^ *(const uint64_t *)b;\n    \
             if (x >> 30 & 3) x = next(x); else {{\n    {body}\n    }}\n    sink = (double)x;\n    \
             return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : *(const uint64_t *)a > *(const uint64_t *)b;\n}}"
        ),
        Kind::Virtual => {
            writeln!(text, "NOINLINE uint64_t {name}::run(uint64_t x) {{\n    {guard}\n    {body}\n    return x ^ {number};\n}}")
        }
        _ => writeln!(text, "NOINLINE uint64_t {name}(uint64_t x) {{\n    {guard}\n    {body}\n    return x ^ {number};\n}}"),
    }
    .expect("a string");
}

/// One of the callees, by chance.
fn call_on(functions: &[Function], function: &Function) -> String {
    let calls = function.callees.iter().enumerate().map(|(place, &callee)| {
        let callee = &functions[callee];
        match callee.kind {
            Kind::Virtual => format!("case {place}: x = pointer{}->run(x); break;", callee.number),
            _ => format!("case {place}: x = {}(x); break;", callee.name()),
        }
    });
    let calls: Vec<String> = calls.collect();
    if calls.is_empty() {
        String::new()
    } else {
        format!("switch ((x >> 33) % {}) {{ {} }}", calls.len(), calls.join(" "))
    }
}

fn arithmetic(times: usize, number: usize) -> String {
    format!("for (int i = 0; i < {times}; i++) {{ x = x * 6364136223846793005ULL + {}; KEEP(x); }}", 2 * number + 1)
}

fn busy(kind: Kind, number: usize, cpp: bool) -> String {
    match kind {
        Kind::Memcpy => "memcpy(area[0], area[1], 2048 + (x & 8191)); KEEP(area);".to_owned(),
        Kind::Malloc if cpp => {
            "char *p[4]; for (int i = 0; i < 4; i++) { p[i] = new char[16 + (x >> 8 * i & 1023)]; KEEP(p[i]); }\n    \
             for (int i = 0; i < 4; i++) delete[] p[i];"
                .to_owned()
        }
        Kind::Malloc => "void *p[4]; for (int i = 0; i < 4; i++) { p[i] = malloc(16 + (x >> 8 * i & 1023)); KEEP(p[i]); }\n    \
                         for (int i = 0; i < 4; i++) free(p[i]);"
            .to_owned(),
        Kind::Libm => "double d = (double)(x & 65535); for (int i = 0; i < 8; i++) d = sin(d) + exp(d / 70000) + pow(d, 0.3);\n    \
                       sink = d;"
            .to_owned(),
        Kind::Syscall => "x += (uint64_t)syscall(SYS_getppid) & 1;".to_owned(),
        Kind::Clock => "struct timespec t; for (int i = 0; i < 8; i++) { clock_gettime(CLOCK_MONOTONIC, &t); KEEP(&t); }".to_owned(),
        Kind::Alloca => {
            "uint64_t n = 8 + (x & 127); volatile uint64_t *p = (volatile uint64_t *)alloca(8 * n); \
                         for (uint64_t i = 0; i < n; i++) p[i] = x;\n    KEEP(p);"
                .to_owned()
        }
        Kind::Aligned => "uint64_t v[16] __attribute__((aligned(64))); uint64_t n = 1 + (x & 63);\n    \
                          volatile uint64_t *p = (volatile uint64_t *)alloca(8 * n); for (uint64_t i = 0; i < n; i++) p[i] = v[i & 15] = x + i;\n    \
                          KEEP(v); KEEP(p);"
            .to_owned(),
        Kind::Text => "char s[128]; snprintf(s, sizeof s, \"%lu of %s at %d\", (unsigned long)x, \"something\", (int)(x & 1023)); KEEP(s);\n    \
                       x += strtoul(s, 0, 10) + strlen(s);"
            .to_owned(),
        _ => arithmetic(120, number),
    }
}
