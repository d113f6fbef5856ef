//! Throughput of programs that people run: requests per second of redis and nginx, builds by make
//! and rustc, and processes that end immediately, each alone and watched at 99 Hz by the agent with
//! both clocks and from outside; and the latency of redis. Interleaved, as medians of each round's
//! ratio to the first. "alone again" is the first way once more: what it differs from 1 by is the
//! machine's noise. Clients, server and sigtop share the machine, so sigtop's own CPU time
//! counts where no processor is idle.
//!
//! `cargo bench --bench throughput -- --rounds 30 --seconds 1 --only redis`: each program takes
//! some four minutes. One that is not installed is left out by name. On a busy machine look at the
//! CPU time of each request.

#[expect(dead_code, reason = "a bench uses a part of what the tests share")]
#[path = "../harness/mod.rs"]
mod harness;
#[path = "measure.rs"]
mod measure;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::run::{Batch, Ran, installed, run, text};
use harness::targets;
use measure::{argument, bootstrap, median, order};

/// Ways to run a program: their names, and sigtop's options.
const WAYS: [(&str, Option<&str>); 5] = [
    ("alone", None),
    ("alone again", None),
    ("CPU clock", Some("--hz 99")),
    ("wall clock", Some("--hz 99 --clock real")),
    ("from outside", Some("--hz 99 --engine external")),
];

/// Returns a command that runs `command` in this way.
fn command(way: usize, command: &[&str]) -> Command {
    match WAYS[way].1 {
        Some(options) => Batch::new(options).command(command),
        None => {
            let mut plain = Command::new(command[0]);
            plain.args(&command[1..]);
            plain
        }
    }
}

/// Returns a port of the local host that nobody uses now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn start_server(way: usize, words: &[&str], port: u16) -> Child {
    let mut server = command(way, words);
    let mut server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect(words[0]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let ended = server.try_wait().expect("a child");
        assert!(ended.is_none() && Instant::now() < deadline, "{words:?} does not listen: {ended:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    server
}

fn succeed(ran: Ran) -> String {
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    ran.out()
}

/// A program to be measured.
trait Workload {
    /// The program, and what each figure of a run is.
    fn names(&self) -> &[&'static str];
    /// Runs it once in this way and returns its figures.
    fn run(&self, way: usize) -> Vec<f64>;
}

/// redis-server under redis-benchmark.
struct Redis {
    server: PathBuf,
    client: PathBuf,
    control: PathBuf,
    requests: u64,
}

impl Redis {
    /// `requests` is the number of requests of each kind.
    fn find(requests: u64) -> Result<Redis, &'static str> {
        let tool = |name| installed(name).ok_or("redis (redis-server, redis-benchmark, redis-cli)");
        Ok(Redis {
            server: tool("redis-server")?,
            client: tool("redis-benchmark")?,
            control: tool("redis-cli")?,
            requests,
        })
    }
}

impl Workload for Redis {
    fn names(&self) -> &[&'static str] {
        &["redis, requests/s", "redis, p50 ms", "redis, p99 ms", "redis, CPU µs each"]
    }

    fn run(&self, way: usize) -> Vec<f64> {
        let (port, requests) = (free_port().to_string(), self.requests.to_string());
        let words = [text(&self.server), "--port", &port, "--save", "", "--appendonly", "no"];
        let mut server = start_server(way, &words, port.parse().expect("a number"));
        let options = ["-p", &port, "-t", "set,get", "-n", &requests, "-c", "20", "--csv"];
        // The CPU time that the server has used, s: the machine's noise hardly reaches it.
        let cpu_s = || {
            let info = run(Command::new(&self.control).args(["-p", &port, "info", "cpu"])).out();
            let value = |line: &str| {
                line.strip_prefix("used_cpu_sys:").or(line.strip_prefix("used_cpu_user:"))?.parse::<f64>().ok()
            };
            info.lines().filter_map(value).sum::<f64>()
        };
        let before_s = cpu_s();
        let table = succeed(run(Command::new(&self.client).args(options)));
        let used_s = cpu_s() - before_s;
        run(Command::new(&self.control).args(["-p", &port, "shutdown", "nosave"]));
        server.wait().expect("a child");
        // Lines `"GET","requests per second","average","least","p50","p95","p99","most"`.
        let numbers = |line: &str| {
            let words: Vec<&str> = line.split('"').collect();
            [3, 9, 13].map(|at| words.get(at).and_then(|word| word.parse::<f64>().ok()))
        };
        let kinds: Vec<[Option<f64>; 3]> = table.lines().skip(1).map(numbers).collect();
        let both = |figure: usize| -> Vec<f64> { kinds.iter().filter_map(|kind| kind[figure]).collect() };
        let (rates, p50, p99) = (both(0), both(1), both(2));
        assert!([&rates, &p50, &p99].iter().all(|values| values.len() == 2), "{table}");
        // The mean of both kinds, that of the rates by time.
        let each_us = used_s / (2 * self.requests) as f64 * 1e6;
        vec![2.0 / (1.0 / rates[0] + 1.0 / rates[1]), (p50[0] + p50[1]) / 2.0, (p99[0] + p99[1]) / 2.0, each_us]
    }
}

/// nginx under wrk: one worker answers with 1 KiB.
struct Nginx {
    server: PathBuf,
    client: PathBuf,
    seconds: u64,
}

impl Nginx {
    fn find(seconds: u64) -> Result<Nginx, &'static str> {
        let server =
            installed("nginx").or_else(|| Some("/usr/sbin/nginx".into()).filter(|path: &PathBuf| path.is_file()));
        let missing = "nginx and wrk";
        Ok(Nginx { server: server.ok_or(missing)?, client: installed("wrk").ok_or(missing)?, seconds })
    }
}

impl Workload for Nginx {
    fn names(&self) -> &[&'static str] {
        &["nginx, requests/s"]
    }

    fn run(&self, way: usize) -> Vec<f64> {
        let (directory, port) = (targets::scratch("nginx"), free_port());
        let root = text(&directory);
        let settings = format!(
            "daemon off; worker_processes 1; pid {root}/pid; error_log {root}/error;\n\
             events {{ worker_connections 64; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {root}/body;\n\
             server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"{}\"; }} }} }}\n",
            "x".repeat(1024)
        );
        let file = directory.join("nginx.conf");
        fs::write(&file, settings).expect("a file of its own");
        let words = [text(&self.server), "-p", root, "-c", text(&file)];
        let mut server = start_server(way, &words, port);
        let (duration, address) = (format!("{}s", self.seconds), format!("http://127.0.0.1:{port}/"));
        let table = succeed(run(Command::new(&self.client).args(["-t", "1", "-c", "8", "-d", &duration, &address])));
        let stop = succeed(run(Command::new(&self.server).args(["-p", root, "-c", text(&file), "-s", "quit"])));
        server.wait().expect(&stop);
        let rate = table.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
        vec![rate.unwrap_or_else(|| panic!("no rate in {table}"))]
    }
}

/// A program that runs to its end. Its figures are runs per second, without and with the time that
/// sigtop itself takes to start and to end.
struct Program {
    names: [&'static str; 2],
    command: Vec<String>,
    /// The amount that one run does, in the unit of the first name.
    units: f64,
    wrapper: PathBuf,
    times: PathBuf,
}

impl Program {
    fn new(names: [&'static str; 2], units: f64, command: &[&str]) -> Program {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Program { names, command, units, wrapper: targets::c("rusage"), times: targets::scratch("times").join("times") }
    }

    /// make with C files of so many functions each. With short files, most of 100 processes are
    /// brief.
    fn make(names: [&'static str; 2], files: usize, functions: usize) -> Result<Program, &'static str> {
        let make = installed("make").ok_or("make")?;
        installed("cc").ok_or("cc")?;
        let sources = targets::scratch("make");
        for i in 0..files {
            let function = |j: usize| {
                format!(
                    "int f{i}_{j}(int *a, int n) {{ int s = 0; for (int k = 0; k < n; k++) s += a[k] * {j} ^ s; return s; }}\n"
                )
            };
            let code: String = (0..functions).map(function).collect();
            let headers = "#include <stdio.h>\n#include <stdlib.h>\n";
            fs::write(sources.join(format!("f{i}.c")), format!("{headers}{code}")).expect("a file of its own");
        }
        let rules = "all: $(patsubst %.c,%.o,$(wildcard *.c))\n%.o: %.c\n\t@cc -O2 -c -o $@ $<\n";
        fs::write(sources.join("Makefile"), rules).expect("a file of its own");
        let words = [text(&make), "-B", "-s", "-C", text(&sources)];
        Ok(Program::new(names, files as f64, &words))
    }

    /// rustc with a small crate.
    fn rustc() -> Result<Program, &'static str> {
        let rustc = installed("rustc").ok_or("rustc")?;
        let sources = targets::scratch("rustc");
        let code = "fn main() { println!(\"{}\", std::env::args().map(|word| word.len()).sum::<usize>()); }\n";
        fs::write(sources.join("main.rs"), code).expect("a file of its own");
        let words = [text(&rustc), "-o", &format!("{}/main", text(&sources)), &format!("{}/main.rs", text(&sources))];
        Ok(Program::new(["rustc, crates/s", "with sigtop's start"], 1.0, &words))
    }

    /// A shell that starts 400 processes which end immediately.
    fn short() -> Program {
        let script = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i + 1)); done";
        Program::new(["/bin/true, runs/s", "with sigtop's start"], 400.0, &["sh", "-c", script])
    }

    /// A process that ends immediately: the duration of a watch that has nothing to watch.
    fn nothing() -> Program {
        Program::new(["true, runs/s", "with sigtop's start"], 1.0, &["/bin/true"])
    }
}

impl Workload for Program {
    fn names(&self) -> &[&'static str] {
        &self.names
    }

    fn run(&self, way: usize) -> Vec<f64> {
        let wrapper = [text(&self.wrapper), text(&self.times)];
        let words: Vec<&str> = wrapper.into_iter().chain(self.command.iter().map(String::as_str)).collect();
        let start = Instant::now();
        succeed(run(&mut command(way, &words)));
        let whole_s = start.elapsed().as_secs_f64();
        // The wrapper writes user, system and wall-clock time, ns, of the program alone.
        let line = fs::read_to_string(&self.times).expect("the wrapper wrote it");
        let wall_ns: f64 = line.split(' ').nth(2).and_then(|word| word.parse().ok()).expect("a number");
        vec![self.units / wall_ns * 1e9, self.units / whole_s]
    }
}

fn main() {
    let (rounds, seconds) = (argument("rounds", 30), argument("seconds", 1));
    // redis answers about 100 000 requests per second.
    let with_start = "with sigtop's start";
    let workloads: [Result<Box<dyn Workload>, &str>; 7] = [
        Redis::find(seconds * 50_000).map(|redis| Box::new(redis) as _),
        Nginx::find(seconds).map(|nginx| Box::new(nginx) as _),
        Program::make(["make, files/s", with_start], 4, 150).map(|make| Box::new(make) as _),
        Program::make(["make, short files/s", with_start], 24, 1).map(|make| Box::new(make) as _),
        Program::rustc().map(|rustc| Box::new(rustc) as _),
        Ok(Box::new(Program::short())),
        Ok(Box::new(Program::nothing())),
    ];
    println!("throughput at 99 Hz, {rounds} interleaved rounds");
    println!("{:<18} {:<13} {:>12} {:>8}   95 % of bootstraps", "", "", "median", "ratio");
    let only = std::env::args().skip_while(|argument| argument != "--only").nth(1).unwrap_or_default();
    for workload in workloads {
        match workload {
            Ok(workload) if !workload.names()[0].starts_with(&only) => {}
            Ok(workload) => measure(workload.as_ref(), rounds),
            Err(missing) => println!("not installed: {missing}"),
        }
    }
}

fn measure(workload: &dyn Workload, rounds: u64) {
    let mut all: Vec<[Vec<f64>; WAYS.len()]> = Vec::new();
    // The first run fills caches.
    workload.run(0);
    for round in 0..rounds {
        let mut figures: [Vec<f64>; WAYS.len()] = Default::default();
        for way in order(WAYS.len(), round) {
            figures[way] = workload.run(way);
        }
        all.push(figures);
    }
    for (figure, name) in workload.names().iter().enumerate() {
        for (way, (way_name, _)) in WAYS.iter().enumerate() {
            let (ratio, low, high) = bootstrap(&all, |rounds| {
                median(rounds.iter().map(|figures| figures[way][figure] / figures[0][figure]))
            });
            let value = median(all.iter().map(|figures| figures[way][figure]));
            println!("{name:<18} {way_name:<13} {value:>12.3} {ratio:>8.4}   {low:.4} to {high:.4}");
        }
    }
}
