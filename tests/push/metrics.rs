//! `sigtop record --metrics`, read by a client of our own, by Prometheus' own checker and by
//! Prometheus.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::receiver::{PATIENCE, sigtop};
use crate::skips::are_installed;

/// Gets a page. Returns the head and the body.
fn get(port: u16, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
}

fn values(page: &str) -> HashMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
        .collect()
}

/// A port that was free just now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|of| of.local_addr()).expect("a port").port()
}

/// A recorder that serves its counters, and its file.
struct Recorder {
    child: Child,
    file: PathBuf,
}

impl Recorder {
    fn start(name: &str, port: u16) -> Recorder {
        let file = std::env::temp_dir().join(format!("sigtop-{name}-{}.sigtop", std::process::id()));
        let (number, path) = (port.to_string(), file.to_str().expect("UTF-8"));
        let arguments =
            ["record", "--no-config", "--quiet", "-o", path, "--on-quit", "end", "-d", "60s", "--metrics", &number];
        let busy = ["--", "sh", "-c", "while :; do :; done"];
        let child = sigtop(&[&arguments[..], &busy].concat()).spawn().expect("sigtop runs");
        Recorder { child, file }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The recorder ends its program.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

#[test]
fn counters_rise_and_have_the_form_that_prometheus_reads() {
    let port = free_port();
    let recorder = Recorder::start("metrics", port);
    let began = Instant::now();
    let mut pages = Vec::new();
    let time = |page: &str| -> f64 {
        values(page)
            .iter()
            .filter(|(name, _)| name.starts_with("sigtop_function_cpu_seconds_total"))
            .map(|(_, value)| value)
            .sum()
    };
    while pages.len() < 3 {
        assert!(began.elapsed() < PATIENCE, "{pages:?}");
        let page = get(port, "/metrics").map(|(_, body)| body).unwrap_or_default();
        let is_new = pages.last().is_none_or(|last: &String| time(&page) > time(last));
        if time(&page) > 0.0 && is_new {
            pages.push(page);
        }
    }
    let (missing, _) = get(port, "/").expect("an answer");
    drop(recorder);
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    for pair in pages.windows(2) {
        let (earlier, later) = (values(&pair[0]), values(&pair[1]));
        for (name, before) in earlier.iter().filter(|(name, _)| name.contains("_total")) {
            assert!(later[name] >= *before, "{name} falls: {pages:?}");
        }
        // Each sample is one tick of 1/99 s or several.
        let samples = later["sigtop_samples_total"];
        assert!(time(&pair[1]) >= samples * 0.9 / 99.0, "{}", pair[1]);
    }
    if are_installed(&["promtool"]) {
        let mut check = Command::new("promtool");
        let mut check =
            check.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("promtool");
        check.stdin.take().expect("a pipe").write_all(pages[2].as_bytes()).expect("written");
        let output = check.wait_with_output().expect("promtool ends");
        assert!(output.status.success(), "{}: {}", String::from_utf8_lossy(&output.stderr), pages[2]);
    }
}

/// A running Prometheus, with its directory.
struct Prometheus {
    child: Child,
    directory: PathBuf,
    port: u16,
}

impl Prometheus {
    /// Starts one that scrapes a port every second.
    fn start(scraped: u16) -> Prometheus {
        let directory = std::env::temp_dir().join(format!("sigtop-prometheus-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let settings = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: sigtop\n    static_configs: [{{targets: \
             ['127.0.0.1:{scraped}']}}]\n"
        );
        std::fs::write(directory.join("settings.yml"), settings).expect("written");
        let port = free_port();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", directory.join("settings.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}")).stderr(Stdio::null());
        Prometheus { child: command.spawn().expect("Prometheus runs"), directory, port }
    }

    /// The value of a query, or nothing as long as it has none.
    fn value(&self, query: &str) -> Option<f64> {
        let (_, body) = get(self.port, &format!("/api/v1/query?query={query}"))?;
        // A chunked answer has its length around the body.
        let json = body.get(body.find('{')?..=body.rfind('}')?)?;
        let answer: serde_json::Value = serde_json::from_str(json).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn prometheus_scrapes_the_counters() {
    if !are_installed(&["prometheus"]) {
        return;
    }
    let port = free_port();
    let _recorder = Recorder::start("scraped", port);
    let prometheus = Prometheus::start(port);
    let began = Instant::now();
    let seconds = "sum(sigtop_function_cpu_seconds_total)";
    let first = loop {
        assert!(began.elapsed() < PATIENCE, "nothing is scraped");
        if let Some(value) = prometheus.value(seconds).filter(|value| *value > 0.0) {
            break value;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    while prometheus.value(seconds).is_none_or(|value| value <= first) {
        assert!(began.elapsed() < PATIENCE, "it stays at {first}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(prometheus.value("up"), Some(1.0));
    let samples = prometheus.value("sigtop_samples_total").expect("a counter");
    assert!(samples >= first * 99.0 * 0.5, "{samples} samples of {first} s");
}

#[test]
fn an_address_that_is_taken_is_an_error_before_anything_runs() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let output =
        sigtop(&["record", "--no-config", "--push", "http://127.0.0.1:1", "--metrics", &address, "--", "true"])
            .output();
    let output = output.expect("sigtop runs");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        output.status.code() == Some(125) && said.contains(&format!("cannot serve metrics at {address}")),
        "{said}"
    );
}
