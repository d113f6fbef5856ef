//! Names, lines and inlined calls of addresses: sigtop's symbol worker against the `blazesym` crate
//! and `addr2line -fie` of binutils, interleaved, on the same addresses. Each starts anew, with the
//! files in the page cache, and ends with the last answer. Also the time until the rows of a screen
//! have their lines, and the memory for a debug file of a gigabyte.
//!
//! `cargo build && cargo bench --bench symbols -- --addresses 50000 --rounds 7`. The binaries are
//! sigtop's debug build and libc with its debug package; `SIGTOP_BINARY` names another one.
//! `--large 0` leaves out the gigabyte, and `--addr2line 0` binutils, which is slow.

#[path = "measure.rs"]
mod measure;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use measure::{argument, bootstrap, median, order};
use sigtop::profile::module::{ModuleFile, ModuleId};
use sigtop::profile::stack::FrameId;
use sigtop::symbols::worker::{self, SymbolReply, SymbolRequest, SymbolState};

/// Number of rows of a screen, each a function with the functions around it.
const ROWS: usize = 60;
/// Number of copies of the object file in the large program, and of its functions.
const COPIES: usize = 250;
const FUNCTIONS: usize = 9_000;
/// Time after which large debug information is freed at the latest.
const FREED_AFTER: Duration = Duration::from_secs(75);

/// Returns start and end of a file's code.
fn code(path: &Path) -> (u64, u64) {
    let output = Command::new("readelf").arg("-SW").arg(path).output().expect("readelf runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split_once("] .text ")).expect("code").1;
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    (hex(fields[1]), hex(fields[1]) + hex(fields[3]))
}

/// Returns addresses that are spread over a file's code at random.
fn addresses(path: &Path, count: usize) -> Vec<u64> {
    let (start, end) = code(path);
    let mut random = 88_172_645_463_325_252u64;
    let mut draw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        start + random % (end - start)
    };
    (0..count).map(|_| draw()).collect()
}

/// A running worker that has answered about some addresses.
struct Worker {
    requests: crossbeam_channel::Sender<SymbolRequest>,
    replies: crossbeam_channel::Receiver<SymbolReply>,
    path: PathBuf,
}

impl Worker {
    fn start(path: &Path) -> Worker {
        let (requests, received) = crossbeam_channel::unbounded();
        let (answers, replies) = crossbeam_channel::unbounded();
        worker::spawn(received, answers).expect("a thread");
        Worker { requests, replies, path: path.to_owned() }
    }

    /// Asks, waits for the last answer, and returns the number of addresses with a line.
    fn ask(&self, addresses: &[u64]) -> usize {
        let file = ModuleFile { path: self.path.clone(), build_id: Box::default(), device: 0, inode: 0 };
        let addresses: Vec<(FrameId, u64)> = (0..).map(FrameId).zip(addresses.iter().copied()).collect();
        let (mut left, mut lines) = (addresses.len(), 0);
        self.requests
            .send(SymbolRequest { module: ModuleId(1), file, pid: 0, addresses, recorded_at: None })
            .expect("it runs");
        while left > 0 {
            let reply = self.replies.recv().expect("it answers");
            if reply.state != SymbolState::Reading {
                left -= reply.frames.len();
                lines += reply.frames.iter().filter(|(_, names)| names.iter().any(|name| name.line > 0)).count();
            }
        }
        lines
    }
}

fn blazesym(path: &Path, addresses: &[u64]) -> usize {
    let symbolizer = Symbolizer::new();
    let found = symbolizer.symbolize(&Source::Elf(Elf::new(path)), Input::VirtOffset(addresses)).expect("it answers");
    let has_line = |name: &&blazesym::symbolize::Symbolized<'_>| {
        name.as_sym().is_some_and(|name| name.code_info.as_ref().is_some_and(|place| place.line.is_some()))
    };
    found.iter().filter(has_line).count()
}

fn addr2line(path: &Path, addresses: &[u64]) -> usize {
    let mut child = Command::new("addr2line")
        .args(["-afiCe"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("addr2line runs");
    let text = addresses.iter().fold(String::new(), |mut text, address| {
        let _ = writeln!(text, "{address:#x}");
        text
    });
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads");
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with("0x")).count()
}

fn time(work: impl FnOnce() -> usize) -> (f64, usize) {
    let started = Instant::now();
    let count = work();
    (started.elapsed().as_secs_f64(), count)
}

/// Compares the three on one file.
fn compare(path: &Path, rounds: u64, count: usize, addr2line_rounds: u64) {
    let addresses = addresses(path, count);
    let mut all: Vec<[f64; 3]> = Vec::new();
    let (mut lines, mut slow) = ([0; 2], Vec::new());
    for round in 0..rounds {
        let mut seconds = [f64::NAN; 3];
        for index in order(3, round) {
            match index {
                0 => (seconds[0], lines[0]) = time(|| Worker::start(path).ask(&addresses)),
                1 => (seconds[1], lines[1]) = time(|| blazesym(path, &addresses)),
                _ if round < addr2line_rounds => {
                    seconds[2] = time(|| addr2line(path, &addresses)).0;
                    slow.push(seconds[2]);
                }
                _ => {}
            }
        }
        all.push(seconds);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let seconds = |index: usize| median(all.iter().map(|round| round[index]));
    println!(
        "{name}: {count} addresses: ours {:.3} s ({} with a line), blazesym {:.3} s ({})",
        seconds(0),
        lines[0],
        seconds(1),
        lines[1]
    );
    let (ratio, low, high) = bootstrap(&all, |rounds| median(rounds.iter().map(|round| round[1] / round[0])));
    println!("  ours is {ratio:.2} times as fast as blazesym [{low:.2}, {high:.2}]");
    if !slow.is_empty() {
        let measured: Vec<[f64; 3]> = all.iter().filter(|round| !round[2].is_nan()).copied().collect();
        let (ratio, low, high) = bootstrap(&measured, |rounds| median(rounds.iter().map(|round| round[2] / round[0])));
        println!("  ours is {ratio:.1} times as fast as addr2line [{low:.1}, {high:.1}] ({:.1} s)", median(slow));
    }
    let rows: Vec<f64> = (0..rounds).map(|_| time(|| Worker::start(path).ask(&addresses[..ROWS])).0).collect();
    println!("  {ROWS} rows have their lines after {:.0} ms", median(rows) * 1e3);
}

/// Builds a program with about a gigabyte of debug information: many copies of one object file
/// whose functions are all local.
fn large_program() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("large-symbols");
    let path = directory.join("large");
    if path.exists() {
        return path;
    }
    fs::create_dir_all(&directory).expect("a directory");
    let mut text =
        String::from("static inline __attribute__((always_inline)) int step(int x) { return x * 31 + 7; }\n");
    for index in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "struct record_with_a_long_name_{index} {{ int first_member_{index}; long second_member_{index}; \
             struct record_with_a_long_name_{index} *next_member_{index}; }};\n\
             static __attribute__((used, noinline)) int function_with_a_long_name_{index}\
             (struct record_with_a_long_name_{index} *record, int argument) {{\n\
             int local_of_{index} = step(argument);\n\
             for (int i = 0; i < record->first_member_{index}; i++) local_of_{index} += step(i);\n\
             return local_of_{index};\n}}"
        );
    }
    fs::write(directory.join("part.c"), text).expect("writable");
    fs::write(directory.join("main.c"), "int main(void) { return 0; }\n").expect("writable");
    let run = |arguments: &[&str]| {
        let status = Command::new("gcc").args(arguments).current_dir(&directory).status().expect("gcc runs");
        assert!(status.success(), "gcc {arguments:?}");
    };
    run(&["-g", "-O1", "-c", "part.c", "-o", "part.o"]);
    run(&["-g", "-c", "main.c", "-o", "main.o"]);
    let copies = vec!["part.o"; COPIES];
    // A file that is named twice is linked twice.
    run(&[&["main.o"], &copies[..], &["-o", "large"]].concat());
    path
}

/// Returns the resident memory of this process in MB, now and at its peak since the last reset.
fn resident_mb() -> (f64, f64) {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
    };
    (number("VmRSS:"), number("VmHWM:"))
}

fn measure_large() {
    let path = large_program();
    let size = fs::metadata(&path).expect("it was built").len();
    let addresses = addresses(&path, ROWS);
    let before = resident_mb().0;
    // Writing 5 resets the peak.
    fs::write("/proc/self/clear_refs", "5").expect("procfs");
    let worker = Worker::start(&path);
    let (seconds, lines) = time(|| worker.ask(&addresses));
    let (after, peak) = resident_mb();
    println!("large: {} MB: {ROWS} rows have their lines ({lines}) after {:.0} ms", size >> 20, seconds * 1e3);
    let (again, _) = time(|| worker.ask(&addresses));
    println!("  again, from memory, after {:.0} ms", again * 1e3);
    let started = Instant::now();
    let mut now = after;
    while now > after / 2.0 && started.elapsed() < FREED_AFTER {
        sleep(Duration::from_millis(100));
        now = resident_mb().0;
    }
    println!(
        "  resident: {:.0} MB at the peak, {:.0} MB while in use, {:.0} MB after {:.0} s without a question",
        peak - before,
        after - before,
        now - before,
        started.elapsed().as_secs_f64()
    );
    let (anew, _) = time(|| worker.ask(&addresses[..1]));
    println!("  the next name, which is read anew, after {:.0} ms", anew * 1e3);
}

fn main() {
    let (rounds, count) = (argument("rounds", 7), argument("addresses", 50_000) as usize);
    if argument("large", 1) > 0 {
        measure_large();
    }
    let debug_build = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debug").join("sigtop");
    let binaries = match std::env::var_os("SIGTOP_BINARY") {
        Some(path) => vec![PathBuf::from(path)],
        None => vec![debug_build, PathBuf::from("/usr/lib/x86_64-linux-gnu/libc.so.6")],
    };
    for path in binaries {
        match path.exists() {
            true => compare(&path, rounds, count, argument("addr2line", 2)),
            false => println!("SKIPPED: there is no {}", path.display()),
        }
    }
}
