//! Duration of the agent's signal handler, from its first instruction to its last, in real
//! programs, with the depth of their stacks and the sources of their unwind rules.
//!
//! ```text
//! cargo bench --bench handler -- --samples 50000 --hz 1999 [--only sqlite3]
//! ```
//!
//! The released agent does not time itself. The bench builds one that does, in `target/timed`. That
//! agent also walks each stack a second time: with everything in the caches, this is the cost of
//! the instructions; the rest is the cost of memory that the program has evicted since the last
//! tick. Ticks come from the wall clock, because CPU clocks tick at most 250 times a second. The
//! handler is the same. At such a high frequency, it finds more of its own data in the caches than
//! at 99 Hz.

#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[expect(dead_code, reason = "it takes no rounds")]
#[path = "measure.rs"]
mod measure;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::run::text;
use harness::targets;
use measure::argument;
use sigtop::wire::ring::{BUCKETS, HEADER_WORDS, RING_MAGIC, WARM_BUCKETS, bucket_start, word};

/// The header of one process's ring.
type Header = [u64; HEADER_WORDS];

/// Builds sigtop with an agent that times itself, and returns its path.
fn build_timed() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = root.join("target/timed");
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["build", "--release", "--locked", "--quiet", "--target-dir"])
        .arg(&directory)
        .env("SIGTOP_TIMED_AGENT", "1")
        .status();
    assert!(built.is_ok_and(|status| status.success()), "sigtop with a timed agent does not build");
    directory.join("release/sigtop")
}

/// Watches a command with the sigtop at `path` until it has this many samples. Returns the sum of
/// the last headers of all rings.
fn watch(path: &Path, options: &[&str], command: &[&str], samples: u64) -> Header {
    let mut sigtop = Command::new(path)
        .args(options)
        .args(["--on-quit", "end", "--table", "/dev/null", "--"])
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("sigtop starts");
    let group = nix::unistd::Pid::from_raw(sigtop.id() as i32);
    let mut headers: HashMap<u64, Header> = HashMap::new();
    let directory = format!("/proc/{}/fd", sigtop.id());
    let sum = |headers: &HashMap<u64, Header>| {
        let mut sum = [0; HEADER_WORDS];
        headers.values().for_each(|header| {
            sum.iter_mut().zip(header).for_each(|(sum, word): (&mut u64, _)| *sum = sum.wrapping_add(*word))
        });
        sum
    };
    while sigtop.try_wait().expect("a child").is_none() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            read_ring(&entry.path(), &mut headers);
        }
        if sum(&headers)[word::DEPTHS..word::DEPTHS + 64].iter().sum::<u64>() >= samples {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // The program is ended too, since it would slow down the next one.
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    let _ = sigtop.wait();
    sum(&headers)
}

fn read_ring(path: &Path, headers: &mut HashMap<u64, Header>) {
    let is_ring = fs::read_link(path).is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:sigtop"));
    let Some(file) = is_ring.then(|| fs::File::open(path).ok()).flatten() else { return };
    let mut bytes = [0; 8 * HEADER_WORDS];
    let (Ok(metadata), Ok(())) = (file.metadata(), file.read_exact_at(&mut bytes, 0)) else { return };
    let mut header: Header = [0; HEADER_WORDS];
    for (word, bytes) in header.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight"));
    }
    if header[word::MAGIC] == RING_MAGIC {
        headers.insert(metadata.ino(), header);
    }
}

/// The value below which this share of a histogram lies.
fn quantile(counts: &[u64], part: f64, value: impl Fn(usize) -> f64) -> f64 {
    let wanted = (counts.iter().sum::<u64>() as f64 * part).ceil() as u64;
    let mut sum = 0;
    let at = counts.iter().position(|count| {
        sum += count;
        sum >= wanted
    });
    value(at.unwrap_or(0))
}

/// Cycles of the time-stamp counter per nanosecond.
fn cycles_per_ns() -> f64 {
    let counter = || {
        // SAFETY: the instruction exists on every x86-64.
        unsafe { core::arch::x86_64::_rdtsc() }
    };
    let (time, cycles) = (Instant::now(), counter());
    std::thread::sleep(Duration::from_millis(500));
    (counter() - cycles) as f64 / time.elapsed().as_nanos() as f64
}

/// A source file that keeps a compiler busy: this many functions that use the standard library.
fn source(directory: &Path) -> String {
    let path = directory.join("busy.cpp");
    let mut code =
        String::from("#include <algorithm>\n#include <map>\n#include <regex>\n#include <string>\n#include <vector>\n");
    for index in 0..400 {
        code.push_str(&format!(
            "int f{index}(std::map<std::string, std::vector<int>> &m, const std::string &s) {{ std::regex r(s); \
             auto &v = m[s]; std::sort(v.begin(), v.end(), [](int a, int b) {{ return a % {} < b; }}); \
             return std::regex_search(s, r) ? int(v.size()) : {index}; }}\n",
            index + 2
        ));
    }
    fs::write(&path, code).expect("room for a source");
    text(&path).to_owned()
}

fn main() {
    let (samples, hz) = (argument("samples", 50_000), argument("hz", 1999));
    let sigtop = build_timed();
    let per_ns = cycles_per_ns();
    let directory = targets::scratch("handler");
    let (work, source) = (targets::cpp("work"), source(&directory));
    let sql = "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<100000000) \
               SELECT sum(x), count(DISTINCT x % 1000), max(hex(x)) FROM c;";
    let python = "import json\nd={str(i): [i]*5 for i in range(2000)}\nwhile True: json.loads(json.dumps(d)); sorted(d, key=len)";
    let programs: [(&str, Vec<&str>); 4] = [
        ("sqlite3", vec!["sqlite3", ":memory:", sql]),
        ("g++ -O2", vec!["g++", "-O2", "-c", "-o", "/dev/null", &source]),
        ("python3", vec!["python3", "-c", python]),
        ("C++", vec![text(&work), "100000000"]),
    ];
    let hz = hz.to_string();
    println!("the handler, first to last instruction, ns; wall ticks at {hz} Hz");
    println!(
        "{:<10} {:>8} {:>7} {:>7} {:>7} {:>7}   {:>15}   {:>16}   {:>28}",
        "",
        "samples",
        "median",
        "p90",
        "p99",
        "max",
        "walk again 50 90",
        "frames 50 90 99%",
        "rules: slot, table, looked up"
    );
    let only = std::env::args().skip_while(|word| word != "--only").nth(1);
    for (name, command) in programs.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let header = watch(&sigtop, &["--clock", "real", "--hz", &hz, "--budget", "100%"], command, samples);
        let (cycles, depths) =
            (&header[word::CYCLES..word::CYCLES + BUCKETS], &header[word::DEPTHS..word::DEPTHS + 64]);
        let taken: u64 = depths.iter().sum();
        if taken == 0 {
            eprintln!("{name}: no sample");
            std::process::exit(1);
        }
        let ns = |part: f64| quantile(cycles, part, |at| bucket_start(at + 1) as f64 / per_ns);
        let warm = &header[word::WARM..word::WARM + WARM_BUCKETS];
        let again = |part: f64| quantile(warm, part, |at| bucket_start(at + 1) as f64 / per_ns);
        let frames = |part: f64| quantile(depths, part, |at| 4.0 * at as f64);
        let rules = &header[word::RULES..word::RULES + 3];
        let all = rules.iter().sum::<u64>().max(1) as f64;
        let share = |at: usize| 100.0 * rules[at] as f64 / all;
        println!(
            "{name:<10} {taken:>8} {:>7.0} {:>7.0} {:>7.0} {:>7.0}      {:>6.0} {:>6.0}   {:>4} {:>4} {:>4}     {:>8.2}% {:>7.2}% {:>7.2}%",
            ns(0.5),
            ns(0.9),
            ns(0.99),
            ns(1.0),
            again(0.5),
            again(0.9),
            frames(0.5),
            frames(0.9),
            frames(0.99),
            share(0),
            share(1),
            share(2)
        );
    }
}
