//! The clients of stores' makers send their profiles here, and what sigtop sends is compared with
//! theirs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use sigtop::pprof::format;
use sigtop::pprof::profile::SavedProfile;

use crate::python::python;
use crate::receiver::{PATIENCE, Received, accept_all, gunzip, profile, push, sigtop};
use crate::skips::{are_installed, skip};

/// A client of Pyroscope for Python that profiles itself until it is killed.
const PYTHON_CLIENT: &str = "
import sys, pyroscope
pyroscope.configure(application_name='check.out', server_address=sys.argv[1], sample_rate=100, tags={'zone': 'b'},
                    upload_interval=1)
while True:
    sum(range(1000))
";

/// A client that runs.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Time in ns since 1970.
fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64
}

fn read(pprof: &[u8]) -> SavedProfile {
    format::read(std::io::Cursor::new(pprof.to_vec())).expect("a profile")
}

/// The sample types with their units, and the type of the period.
fn types(profile: &SavedProfile) -> (Vec<(String, String)>, (String, String)) {
    let pair = |of: &sigtop::pprof::profile::ValueType| (of.kind.to_string(), of.unit.to_string());
    (profile.sample_types.iter().map(pair).collect(), pair(&profile.period_type))
}

/// The fields of a protobuf message that are messages, strings or bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    fn number(message: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = message.split_first().expect("a byte");
            *message = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }
    let mut all = Vec::new();
    while !message.is_empty() {
        let key = number(&mut message);
        let value = number(&mut message);
        if key & 7 == 2 {
            let (bytes, rest) = message.split_at(value as usize);
            all.push((key >> 3, bytes));
            message = rest;
        }
    }
    all
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The parameters of a URL's query.
fn parameters(request: &Received) -> BTreeMap<String, String> {
    let url = request.line.split(' ').nth(1).expect("a URL");
    let (path, query) = url.split_once('?').expect("a query");
    assert_eq!(path, "/ingest");
    let decode = |encoded: &str| {
        let mut bytes = Vec::new();
        let mut rest = encoded.as_bytes();
        while let [first, after @ ..] = rest {
            rest = after;
            if *first == b'%' {
                let digits = text(&rest[..2]);
                bytes.push(u8::from_str_radix(&digits, 16).expect("digits"));
                rest = &rest[2..];
            } else {
                bytes.push(*first);
            }
        }
        text(&bytes)
    };
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), decode(value)))
        .collect()
}

/// The series to which Pyroscope's /ingest adds a profile, by its sample types.
fn series(profile: &SavedProfile) -> &'static str {
    let has = |kind: &str| profile.sample_types.iter().any(|of| of.kind.contains(kind));
    match () {
        () if profile.sample_types.iter().any(|of| &*of.kind == "wall") => "wall",
        // The default configuration of sample types calls samples those of the CPU.
        () if has("cpu") || has("samples") => "process_cpu",
        () if has("alloc_") || has("inuse_") => "memory",
        () => "unknown",
    }
}

/// Records a shell that computes for a second, and returns the requests.
fn record(kind: &str) -> Vec<Received> {
    let (url, received) = accept_all();
    let busy = "timeout 1 sh -c 'while :; do :; done'; true";
    let options = ["record", "--no-config", "--quiet", "--push-format", kind, "--label", "service.name=check.out"];
    let more = ["--label", "zone=b", "--push", &url, "--", "sh", "-c", busy];
    let output = sigtop(&[&options[..], &more].concat()).output().expect("sigtop runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    received.try_iter().collect()
}

/// Pyroscope's client for Python uses another endpoint, but a store shows both profiles in one
/// series: with equal names, types, units and times.
#[test]
fn the_python_client_of_pyroscope_names_profiles_and_units_as_sigtop_does() {
    if !are_installed(&["curl"]) {
        return;
    }
    let Some(python) = python("pyroscope-python", "pyroscope-io==1.4.*", "import pyroscope") else {
        return skip("pyroscope-io of PyPI cannot be installed");
    };
    let (url, received) = accept_all();
    let before = now_ns();
    let mut command = Command::new(python);
    command.args(["-c", PYTHON_CLIENT, &url]).stdin(Stdio::null()).stderr(Stdio::null());
    let client = Client(command.spawn().expect("python runs"));
    let request = received.recv_timeout(PATIENCE).expect("a request");
    drop(client);
    let ours = record("pyroscope");
    let after = now_ns();
    assert_eq!(request.line, "POST /push.v1.PusherService/Push HTTP/1.1");
    let body = if request.header("Content-Encoding") == Some("gzip") { gunzip(&request.body) } else { request.body };
    let (_, of_series) = fields(&body).into_iter().find(|(field, _)| *field == 1).expect("a series");
    let labels = fields(of_series).into_iter().filter(|(field, _)| *field == 1).map(|(_, label)| {
        let pair = fields(label);
        (text(pair[0].1), text(pair[1].1))
    });
    let labels: BTreeMap<String, String> = labels.collect();
    let (_, sample) = fields(of_series).into_iter().find(|(field, _)| *field == 2).expect("a sample");
    let (_, pprof) = fields(sample).into_iter().find(|(field, _)| *field == 1).expect("a profile");
    let theirs = read(pprof);

    let own = read(&ours[0].body);
    assert_eq!(labels["__name__"], series(&own));
    let name = &parameters(&ours[0])["name"];
    assert_eq!(*name, format!("{}{{zone={}}}", labels["service_name"], labels["zone"]));
    let ((their_types, their_period), (own_types, own_period)) = (types(&theirs), types(&own));
    assert_eq!(their_types.last(), own_types.last());
    assert_eq!((their_period, theirs.period), (own_period, 1_000_000_000 / 100));
    for profile in [&theirs, &own] {
        let until = profile.time_ns + profile.duration_ns;
        assert!(before < profile.time_ns && profile.duration_ns > 0 && until < after, "{before} {after}");
        assert!(profile.period > 0 && profile.samples.values(profile.sample_types.len() - 1).all(|ns| ns > 0));
    }
}

/// Builds Pyroscope's client for Go, once for all tests.
fn go_client() -> Option<&'static Path> {
    static CLIENT: OnceLock<Option<PathBuf>> = OnceLock::new();
    CLIENT.get_or_init(build_go_client).as_deref()
}

fn build_go_client() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/push/pyroscope-go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pyroscope-go");
    let mut build = Command::new("go");
    build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").current_dir(source);
    let built = build.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !built.is_ok_and(|status| status.success()) {
        skip("go cannot build Pyroscope's client");
        return None;
    }
    Some(program)
}

/// The profile in the form that the client for Go sends.
fn form_profile(request: &Received) -> SavedProfile {
    let boundary = request.header("Content-Type").and_then(|kind| kind.split("boundary=").nth(1)).expect("a form");
    let head = memchr::memmem::find(&request.body, b"name=\"profile\"; filename=\"profile.pprof\"").expect("a part");
    let start = head + memchr::memmem::find(&request.body[head..], b"\r\n\r\n").expect("a head") + 4;
    let end = memchr::memmem::find(&request.body[start..], format!("\r\n--{boundary}").as_bytes()).expect("an end");
    read(&request.body[start..start + end])
}

#[test]
fn the_go_client_of_pyroscope_sends_the_parameters_and_types_that_sigtop_sends() {
    if !are_installed(&["curl", "go"]) {
        return;
    }
    let Some(program) = go_client() else { return };
    let (url, received) = accept_all();
    let mut command = Command::new(program);
    command.arg(&url).stdin(Stdio::piped()).stderr(Stdio::null());
    let client = Client(command.spawn().expect("the client runs"));
    let (mut cpu, mut heap) = (None, None);
    while cpu.is_none() || heap.is_none() {
        let request = received.recv_timeout(PATIENCE).expect("a request");
        let profile = form_profile(&request);
        let into = if series(&profile) == "memory" { &mut heap } else { &mut cpu };
        *into = Some((parameters(&request), profile));
    }
    drop(client);
    let ((their_query, their_cpu), (their_heap_query, their_heap)) = (cpu.expect("CPU"), heap.expect("heap"));
    let is_time = |text: &String| text.len() == 19 && text.bytes().all(|byte| byte.is_ascii_digit());

    let ours = record("pyroscope");
    let (own_query, own_cpu) = (parameters(&ours[0]), read(&ours[0].body));
    assert_eq!(types(&own_cpu), types(&their_cpu));
    // The server's defaults are these: the sum of samples.
    assert_eq!((their_query["units"].as_str(), their_query["aggregationType"].as_str()), ("samples", "sum"));
    for key in their_query.keys().filter(|key| !["units", "aggregationType"].contains(&key.as_str())) {
        assert!(own_query.contains_key(key), "{key}: {own_query:?}");
    }
    for query in [&their_query, &own_query, &their_heap_query] {
        assert!(["from", "until"].iter().all(|key| is_time(&query[*key])), "nanoseconds: {query:?}");
        assert!(query["from"] < query["until"], "{query:?}");
        let (name, tags) = query["name"].split_once('{').expect("tags");
        let tags = tags.strip_suffix('}').expect("an end").split(',').filter(|tag| !tag.starts_with("__"));
        assert_eq!((name, tags.collect::<Vec<_>>()), ("check.out", vec!["zone=b"]));
    }
    let rate = |query: &BTreeMap<String, String>| query["sampleRate"].parse::<i64>().expect("a number");
    assert_eq!(rate(&their_query), 1_000_000_000 / their_cpu.period);
    assert_eq!(rate(&own_query), 1_000_000_000 / own_cpu.period);
    assert_eq!(own_query["from"], own_cpu.time_ns.to_string());
    assert_eq!(own_query["until"], (own_cpu.time_ns + own_cpu.duration_ns).to_string());

    // One request has all quantities of memory, which are two with us.
    let (url, received) = accept_all();
    let (status, said) = push(&profile("go-heap.pb.gz"), &url, &["--push-format", "pyroscope"]);
    assert_eq!(status, 0, "{said}");
    let parts: Vec<SavedProfile> = received.try_iter().map(|request| read(&request.body)).collect();
    let (their_types, their_period) = types(&their_heap);
    assert_eq!(parts.iter().flat_map(|part| types(part).0).collect::<Vec<_>>(), their_types);
    assert!(parts.iter().all(|part| types(part).1 == their_period && part.period > 1 && their_heap.period > 1));
}

/// The client refuses names that the server would refuse. It takes each that sigtop makes.
#[test]
fn the_go_client_of_pyroscope_accepts_the_names_that_sigtop_sends() {
    if !are_installed(&["curl", "go"]) {
        return;
    }
    let Some(program) = go_client() else { return };
    let accepts = |names: &[&str]| -> Vec<bool> {
        let output = Command::new(program).arg("check").args(names).output().expect("the client runs");
        let lines = String::from_utf8(output.stdout).expect("text");
        lines.lines().map(|line| line == "true").collect()
    };
    let services = ["check out", "g++", "ca:fé", "a/b.c-d_e"];
    assert_eq!(accepts(&services), [false, false, false, true]);
    let sent = services.map(|service| {
        let (url, received) = accept_all();
        let label = format!("service.name={service}");
        let options = ["--push-format=pyroscope", "--label", &label, "--label=zone.a=x y", "--label=b=c=d{,}"];
        let (status, said) = push(&profile("go-cpu.pb.gz"), &url, &options);
        assert_eq!(status, 0, "{said}");
        parameters(&received.try_recv().expect("a request"))["name"].clone()
    });
    assert_eq!(sent[3], "a/b.c-d_e{zone_a=x y,b=c=d{__}");
    assert_eq!(accepts(&sent.each_ref().map(String::as_str)), [true; 4], "{sent:?}");
}
