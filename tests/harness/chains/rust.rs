//! Writes the chains in Rust.

use std::fmt::Write;

use super::{Function, Kind};

const HEAD: &str = r#"#![allow(non_camel_case_types, unused_mut, unused_assignments, unused_imports)]
use std::collections::HashMap;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};
#[inline(always)]
fn next(mut x: u64) -> u64 { x ^= x << 13; x ^= x >> 7; x ^= x << 17; x }
trait Run { fn run(&self, x: u64) -> u64; }
"#;

const TAIL: &str = r#"
#[inline(never)]
fn work(mut x: u64, duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        for _ in 0..200 { x = next(f0_entry_from_r(x) | 1); }
    }
    black_box(x);
}
#[inline(never)]
fn worker(duration: Duration) { work(987654321, duration); black_box(duration); }
fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("seconds");
    let duration = Duration::from_secs_f64(seconds);
    let thread = std::env::args().nth(2).map(|_| std::thread::spawn(move || worker(duration)));
    work(123456789, duration);
    if let Some(thread) = thread { thread.join().expect("no panic"); }
}
"#;

/// The whole program; its argument is how many seconds of wall time it works; with a second
/// argument a thread works besides.
pub(super) fn source(functions: &[Function]) -> String {
    let mut text = String::from(HEAD);
    for function in functions {
        write(&mut text, functions, function).expect("a string");
    }
    text + TAIL
}

fn write(text: &mut String, functions: &[Function], function: &Function) -> std::fmt::Result {
    let (name, number) = (function.name(), function.number);
    let call_on = call_on(functions, function);
    let calls = match function.kind {
        Kind::Catch => format!(
            "x = match catch_unwind(AssertUnwindSafe(|| {{ {call_on} x }})) {{ Ok(y) => y, Err(thrown) => x ^ \
             thrown.downcast_ref::<u64>().copied().unwrap_or(0) }};"
        ),
        Kind::Throw => format!("if x >> 20 & 15 == 0 {{ resume_unwind(Box::new(x)); }}\n    {call_on}"),
        Kind::Sort => format!(
            "let mut v = [0u64; 24]; for place in &mut v {{ x = next(x); *place = x; }}\n    \
             let mut count = 0; v.sort_by(|a, b| {{ count += 1; if count % 32 == 0 {{ {call_on} }} a.cmp(b) }}); x ^= v[0];"
        ),
        _ => call_on,
    };
    let body = format!(
        "let mut x = next(x);\n    {}\n    {calls}\n    x = next(x);\n    {}\n    black_box(x ^ {number})",
        busy(function.kind, number),
        arithmetic(60, number)
    );
    match function.kind {
        Kind::Virtual => writeln!(
            text,
            "struct {name}(u64);\nimpl Run for {name} {{\n    #[inline(never)]\n    fn run(&self, x: u64) -> u64 {{\n    let x = x ^ self.0; {body}\n    \
             }}\n}}"
        ),
        _ => writeln!(text, "#[inline(never)]\nfn {name}(x: u64) -> u64 {{\n    {body}\n}}"),
    }
}

fn call_on(functions: &[Function], function: &Function) -> String {
    let calls = function.callees.iter().enumerate().map(|(place, &callee)| {
        let callee = &functions[callee];
        match callee.kind {
            Kind::Virtual => format!("{place} => black_box(&{}({place}) as &dyn Run).run(x),", callee.name()),
            _ => format!("{place} => {}(x),", callee.name()),
        }
    });
    let calls: Vec<String> = calls.collect();
    if calls.is_empty() {
        String::new()
    } else {
        format!("x = match (x >> 33) % {} {{ {} _ => x }};", calls.len(), calls.join(" "))
    }
}

fn arithmetic(times: usize, number: usize) -> String {
    format!(
        "for _ in 0..{times} {{ x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add({})); }}",
        2 * number + 1
    )
}

fn busy(kind: Kind, number: usize) -> String {
    match kind {
        Kind::Memcpy => "let from = [7u8; 4096]; let mut to = [0u8; 4096]; let n = 1024 + (x as usize & 2047);\n    \
                         black_box(&mut to)[..n].copy_from_slice(&black_box(&from)[..n]); black_box(&to);"
            .to_owned(),
        Kind::Malloc => "let mut v: Vec<Box<u64>> = Vec::new(); for i in 0..6 { v.push(black_box(Box::new(x ^ i))); } black_box(&v); drop(v);".to_owned(),
        Kind::Libm => "let mut d = (x & 65535) as f64; for _ in 0..8 { d = black_box(d.sin() + (d / 70000.0).exp() + d.abs().powf(0.3)); }".to_owned(),
        Kind::Clock => "for _ in 0..8 { black_box(Instant::now()); }".to_owned(),
        Kind::Text => "let text = format!(\"{x} of {} at {:?}\", \"something\", Some(x & 1023)); x ^= text.len() as u64; black_box(&text);".to_owned(),
        Kind::Map => "let mut map = HashMap::new(); for i in 0..8u64 { map.insert(x ^ i, i); } x ^= map.len() as u64; black_box(&map);".to_owned(),
        _ => arithmetic(120, number),
    }
}
