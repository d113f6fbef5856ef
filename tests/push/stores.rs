//! The requests that Pyroscope, Parca and Datadog's agent receive.

use data_encoding::BASE64;
use serde_json::Value;
use sigtop::pprof::format;
use sigtop::pprof::profile::{LabelValue, SavedProfile};

use crate::receiver::{Received, accept_all, profile, push};
use crate::skips::are_installed;

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
            assert!(line.starts_with("POST /ingest?name=check%20out%7Bzone_a%3Db%7D&from="), "{line}");
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
