//! `sigtop record --metrics`, read by a client of our own and by Prometheus' own checker.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::receiver::{PATIENCE, sigtop};
use crate::skips::are_installed;

/// Gets a page. Returns the head and the body.
fn get(port: u16, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).ok()?;
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

#[test]
fn counters_rise_and_have_the_form_that_prometheus_reads() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|of| of.local_addr()).expect("a port").port();
    let (number, file) =
        (port.to_string(), std::env::temp_dir().join(format!("sigtop-metrics-{}.sigtop", std::process::id())));
    let name = file.to_str().expect("UTF-8");
    let arguments =
        ["record", "--no-config", "--quiet", "-o", name, "--on-quit", "end", "-d", "60s", "--metrics", &number];
    let mut recorder =
        sigtop(&[&arguments[..], &["--", "sh", "-c", "while :; do :; done"]].concat()).spawn().expect("runs");
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
    // The recorder ends its program.
    let interrupt = Command::new("kill").args(["-INT", &recorder.id().to_string()]).status().expect("kill runs");
    recorder.wait().expect("a child");
    std::fs::remove_file(&file).expect("removed");
    assert!(interrupt.success() && missing.starts_with("HTTP/1.1 404"), "{missing}");
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
