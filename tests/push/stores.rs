//! The requests that Pyroscope, Parca and Datadog's agent receive.

use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use data_encoding::BASE64;
use serde_json::Value;
use sigtop::pprof::format;
use sigtop::pprof::profile::{LabelValue, SavedProfile};

use crate::python::python;
use crate::receiver::{PATIENCE, Received, accept_all, profile, push};
use crate::skips::{are_installed, skip};

/// The requests of a push with two attributes.
fn requests(name: &str, kind: &str) -> Vec<Received> {
    let (url, received) = accept_all();
    let (status, said) =
        push(&profile(name), &url, &["--push-format", kind, "--label=service.name=check out", "--label=zone.a=b"]);
    assert_eq!(status, 0, "{said}");
    received.try_iter().collect()
}

fn read(pprof: &[u8]) -> SavedProfile {
    format::read(std::io::Cursor::new(pprof.to_vec())).expect("a profile")
}

fn sum(profile: &SavedProfile) -> i64 {
    profile.samples.values(profile.sample_types.len() - 1).sum()
}

fn kinds(profile: &SavedProfile) -> Vec<&str> {
    profile.sample_types.iter().map(|of| of.kind.as_str()).collect()
}

/// The sum of the samples that a server of Pyroscope keeps: it drops numeric labels, values that
/// are not positive, and samples with a location that has neither a line nor an address in a file.
fn kept_by_pyroscope(profile: &SavedProfile) -> i64 {
    let mut kept = 0;
    profile.samples.for_each(|sample| {
        let is_known = |&location: &u32| {
            let location = &profile.locations[location as usize];
            !location.lines.is_empty() || location.address != 0 && location.mapping.is_some()
        };
        let value = sample.values[profile.sample_types.len() - 1];
        if value > 0 && sample.stack.iter().all(is_known) {
            kept += value;
        }
    });
    kept
}

#[test]
fn pyroscope_gets_names_and_times_in_the_url_and_drops_nothing() {
    if !are_installed(&["curl"]) {
        return;
    }
    for name in ["ours.pb.gz", "go-heap.pb.gz", "libprofiler.prof"] {
        let original = read(&std::fs::read(profile(name)).expect("a file"));
        let all = requests(name, "pyroscope");
        let sent: Vec<SavedProfile> = all.iter().map(|request| read(&request.body)).collect();
        let last = sent.last().expect("a request");
        assert_eq!((kept_by_pyroscope(last), sum(last)), (sum(&original), sum(&original)), "{name}");
        assert!(last.labels.iter().flatten().all(|label| matches!(label.value, LabelValue::Text(_))), "{name}");
        for request in &all {
            let line = &request.line;
            assert!(line.starts_with("POST /ingest?name=check_out%7Bzone_a%3Db%7D&from="), "{line}");
            assert!(line.contains("&format=pprof&"), "{line}");
            let number = |key: &str| -> u64 {
                let value = line.split(key).nth(1).and_then(|rest| rest.split('&').next()).expect("a value");
                value.parse().expect("a number")
            };
            assert!(number("from=") > 0 && number("until=") > number("from="), "{line}");
        }
    }
}

#[test]
fn parca_gets_json_with_labels_and_the_same_sums() {
    if !are_installed(&["curl"]) {
        return;
    }
    for (name, metrics) in [("ours.pb.gz", &["process_cpu", "wall"][..]), ("go-heap.pb.gz", &["memory", "memory"])] {
        let original = read(&std::fs::read(profile(name)).expect("a file"));
        let all = requests(name, "parca");
        assert_eq!(all.len(), metrics.len(), "{name}");
        for (request, metric) in all.iter().zip(metrics) {
            assert_eq!(request.line, "POST /profiles/writeraw HTTP/1.1");
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            let series = &body["series"][0];
            let labels: Vec<(&str, &str)> = series["labels"]["labels"]
                .as_array()
                .expect("labels")
                .iter()
                .map(|label| (label["name"].as_str().expect("a name"), label["value"].as_str().expect("a value")))
                .collect();
            assert_eq!(labels, [("__name__", *metric), ("service_name", "check out"), ("zone_a", "b")]);
            let pprof = series["samples"][0]["rawProfile"].as_str().expect("base64");
            let sent = read(&BASE64.decode(pprof.as_bytes()).expect("base64"));
            if request.body == all.last().expect("a request").body {
                assert_eq!(sum(&sent), sum(&original), "{name}");
            }
        }
    }
}

/// The count of an event was added to that of its samples, and each was a series of its own.
#[test]
fn an_event_of_perf_is_one_quantity_with_its_samples() {
    if !are_installed(&["curl"]) {
        return;
    }
    let text = "a 7/7 1.5: 1000 page-faults:\n\t401000 leaf+0x1 (/bin/a)\n\t402000 main+0x2 (/bin/a)\n\n";
    let file = std::env::temp_dir().join(format!("sigtop-events-{}.perf", std::process::id()));
    std::fs::write(&file, text).expect("written");
    let (url, received) = accept_all();
    let (status, said) = push(&file, &url, &["--push-format", "parca"]);
    std::fs::remove_file(&file).expect("removed");
    assert!(status == 0 && said.contains("pushed 1 samples"), "{said}");
    let all: Vec<Received> = received.try_iter().collect();
    let body = String::from_utf8(all[0].body.clone()).expect("text");
    assert!(all.len() == 1 && body.contains("\"value\":\"page_faults\""), "{body}");
}

/// Go's pprof reads each file that is sent, with the values that the samples have.
#[test]
fn go_pprof_reads_every_pushed_file() {
    if !are_installed(&["curl", "go"]) {
        return;
    }
    for (name, kind) in [("ours.pb.gz", "pyroscope"), ("go-heap.pb.gz", "pyroscope"), ("libprofiler.prof", "pyroscope")]
    {
        for (number, request) in requests(name, kind).into_iter().enumerate() {
            let file = std::env::temp_dir().join(format!("sigtop-pushed-{}-{number}.pb.gz", std::process::id()));
            std::fs::write(&file, &request.body).expect("written");
            let mut go = Command::new("go");
            go.args(["tool", "pprof", "-symbolize=none", "-raw"]).arg(&file).env("PPROF_BINARY_PATH", "/nowhere");
            let output = go.output().expect("go runs");
            std::fs::remove_file(&file).expect("removed");
            let text = String::from_utf8(output.stdout).expect("text");
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            let samples = text.lines().skip_while(|line| *line != "Samples:").skip(2);
            let values = samples.take_while(|line| *line != "Locations").filter_map(|line| line.split_once(": "));
            let values = values.filter_map(|(values, _)| values.split_whitespace().last()?.parse::<i64>().ok());
            assert_eq!(values.sum::<i64>(), sum(&read(&request.body)), "{name}: {text}");
        }
    }
}

/// Datadog's own test server takes the form apart.
#[test]
fn datadogs_test_agent_accepts_the_form() {
    if !are_installed(&["curl"]) {
        return;
    }
    let Some(python) = python("ddapm-test-agent", "ddapm-test-agent==1.69.*", "import ddapm_test_agent") else {
        return skip("ddapm-test-agent of PyPI cannot be installed");
    };
    let ports: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let port = |index: usize| ports[index].local_addr().expect("bound").port().to_string();
    let [own, http, grpc] = [port(0), port(1), port(2)];
    drop(ports);
    let mut agent = Command::new(python.with_file_name("ddapm-test-agent"));
    agent.args(["--port", &own, "--otlp-http-port", &http, "--otlp-grpc-port", &grpc]);
    let mut agent = agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the agent runs");
    let began = Instant::now();
    while TcpStream::connect(format!("127.0.0.1:{own}")).is_err() && began.elapsed() < PATIENCE {}
    let pushed = push(&profile("ours.pb.gz"), &format!("http://127.0.0.1:{own}/profiling/v1/input"), &[]);
    let kept = Command::new("curl").args(["-s", &format!("http://127.0.0.1:{own}/test/session/requests")]).output();
    agent.kill().expect("a child");
    agent.wait().expect("a child");
    assert_eq!(pushed.0, 0, "{}", pushed.1);
    let kept: Value = serde_json::from_slice(&kept.expect("curl runs").stdout).expect("JSON");
    let bodies: Vec<&str> = kept.as_array().expect("a list").iter().filter_map(|one| one["body"].as_str()).collect();
    let has_event = |body: &&&str| {
        let body = BASE64.decode(body.as_bytes()).expect("base64");
        memchr::memmem::find(&body, b"\"attachments\":[\"auto.pprof\"]").is_some()
    };
    assert_eq!(bodies.iter().filter(has_event).count(), 2, "{kept}");
}

#[test]
fn datadog_gets_a_form_with_its_names_of_quantities() {
    if !are_installed(&["curl"]) {
        return;
    }
    for (name, names) in [
        ("ours.pb.gz", ["wall-samples", "wall-time"]),
        ("go-cpu.pb.gz", ["cpu-samples", "cpu-time"]),
        ("go-heap.pb.gz", ["inuse-objects", "inuse-space"]),
    ] {
        let original = read(&std::fs::read(profile(name)).expect("a file"));
        let all = requests(name, "datadog");
        let request = all.last().expect("a request");
        assert_eq!(request.line, "POST /profiling/v1/input HTTP/1.1");
        let boundary = request.header("Content-Type").and_then(|kind| kind.split("boundary=").nth(1)).expect("a form");
        let finder = format!("--{boundary}");
        let at: Vec<usize> = memchr::memmem::find_iter(&request.body, finder.as_bytes()).collect();
        assert_eq!(at.len(), 3, "two parts and an end");
        let part = |index: usize| {
            let part = &request.body[at[index]..at[index + 1]];
            let head = memchr::memmem::find(part, b"\r\n\r\n").expect("a head") + 4;
            &part[head..part.len() - 2]
        };
        let event: Value = serde_json::from_slice(part(0)).expect("JSON");
        assert_eq!(event["attachments"][0], "auto.pprof");
        assert_eq!(event["tags_profiler"], "service:check out,runtime:native,language:native,zone.a:b");
        assert_eq!((&event["version"], &event["family"]), (&"4".into(), &"native".into()));
        let sent = read(part(1));
        assert_eq!(kinds(&sent), names);
        assert_eq!(sum(&sent), sum(&original), "{name}");
    }
}
