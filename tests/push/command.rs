//! The command `sigtop push`: its requests and its messages.

use std::fs;
use std::io::Read;

use crate::receiver::{PATIENCE, accept_all, answer, profile, push, serve, sigtop};
use crate::skips::are_installed;

#[test]
fn a_pushed_profile_is_one_request_with_the_headers_of_the_environment_and_a_file() {
    if !are_installed(&["curl"]) {
        return;
    }
    let (url, received) = accept_all();
    let file = std::env::temp_dir().join(format!("sigtop-headers-{}", std::process::id()));
    fs::write(&file, "# A comment.\nX-Scope-OrgID: team\n\nAuthorization: Bearer of-the-file\n").expect("written");
    let profiled = profile("go-cpu.pb.gz");
    let arguments = ["push", profiled.to_str().expect("UTF-8"), &url, "--no-config", "--header-file"];
    let mut command = sigtop(&arguments);
    command.arg(&file).env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20of-the-environment,x=1");
    let output = command.output().expect("sigtop runs");
    fs::remove_file(&file).expect("removed");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success() && said.starts_with("sigtop: pushed "), "{said}");
    assert!(said.ends_with(&format!(" samples to {url} in 1 request\n")), "{said}");
    let request = received.recv_timeout(PATIENCE).expect("a request");
    assert_eq!(request.line, "POST /v1development/profiles HTTP/1.1");
    for (name, value) in [
        ("Content-Type", Some("application/x-protobuf")),
        ("Content-Encoding", Some("gzip")),
        ("X-Scope-OrgID", Some("team")),
        ("x", Some("1")),
        ("Authorization", Some("Bearer of-the-file")),
        ("Expect", None),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    assert!(received.try_recv().is_err(), "one request");
}

/// Credentials are hidden from other users: they are neither in the arguments nor in the
/// environment of `curl`.
#[test]
fn no_process_has_credentials_in_its_arguments() {
    if !are_installed(&["curl"]) {
        return;
    }
    let (url, received) = serve(|_, _, stream| {
        let mut seen = Vec::new();
        for process in fs::read_dir("/proc").expect("/proc").flatten() {
            let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
            let (arguments, environment) = (read("cmdline"), read("environ"));
            if arguments.starts_with(b"curl\0") {
                seen.extend([arguments, environment].concat());
            }
        }
        let has = |text: &str| seen.windows(text.len()).any(|window| window == text.as_bytes());
        let result = format!("curl {} secret {}", has("--config"), has("of-the-environment"));
        let _ = std::io::Write::write_all(stream, answer("400 No", &result).as_bytes());
    });
    let profiled = profile("go-cpu.pb.gz");
    let arguments = ["push", profiled.to_str().expect("UTF-8"), &url, "--no-config", "--push-format", "otlp"];
    let mut command = sigtop(&arguments);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=of-the-environment");
    let output = command.output().expect("sigtop runs");
    assert_eq!(output.status.code(), Some(125));
    let request = received.recv_timeout(PATIENCE).expect("a request");
    assert_eq!(request.header("authorization"), Some("of-the-environment"));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(!said.contains("of-the-environment"), "{said}");

    // The kind of store whose messages are shown has no use for that variable.
    let parca = ["push", profiled.to_str().expect("UTF-8"), &url, "--no-config", "--push-format", "parca"];
    let header = std::env::temp_dir().join(format!("sigtop-secret-{}", std::process::id()));
    fs::write(&header, "Authorization: of-the-environment").expect("written");
    let mut command = sigtop(&parca);
    command.arg("--header-file").arg(&header);
    let output = command.output().expect("sigtop runs");
    fs::remove_file(&header).expect("removed");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains("HTTP status 400: curl true secret false"), "{said}");
}

#[test]
fn mistakes_are_named_with_their_remedy() {
    let profiled = profile("go-cpu.pb.gz");
    for (url, options, status, words) in [
        ("localhost:4318", &[][..], 2, "starts with http:// or https://"),
        ("http://me:secret@localhost", &[], 2, "--header-file"),
        ("http://localhost", &["--header-file", "/nonexistent"], 2, "cannot read /nonexistent"),
        ("http://localhost", &["--push-ca", "/nonexistent"], 2, "--push-ca: /nonexistent is not a file"),
        ("http://localhost", &["--label", "x"], 2, "expected NAME=VALUE"),
        ("http://localhost", &["--push-format", "otpl"], 2, "otlp"),
    ] {
        let (code, said) = push(&profiled, url, options);
        assert!(code == status && said.contains(words), "{url} {options:?}: {code} {said}");
        assert!(!said.contains("secret"), "{said}");
    }
    let (code, said) = push("/nonexistent".as_ref(), "http://localhost", &[]);
    assert!(code == 125 && said.starts_with("sigtop: /nonexistent: "), "{said}");
}

#[test]
fn without_curl_the_message_says_so() {
    let profiled = profile("go-cpu.pb.gz");
    let mut command = sigtop(&["push", profiled.to_str().expect("UTF-8"), "http://127.0.0.1:1", "--no-config"]);
    let mut child = command.env("PATH", "/nonexistent").stderr(std::process::Stdio::piped()).spawn().expect("runs");
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("a child").code(), Some(125));
    assert!(said.contains("curl is not installed"), "{said}");
}
