//! An OpenTelemetry Collector, built from its Go modules, receives what is sent.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::receiver::{profile, push};
use crate::skips::{are_installed, skip};

/// The longest that it may take to start and to print.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the program, which is kept between runs. Building it from nothing takes three minutes,
/// so only long runs do that.
fn collector() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target").join("collector/collector");
    if program.is_file() {
        return Some(program);
    }
    if std::env::var_os("SIGTOP_LONG").is_none() {
        skip("the Collector is not built, as SIGTOP_LONG is not set");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/push/collector");
    let mut build = Command::new("go");
    let built = build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").current_dir(source).status();
    if !built.is_ok_and(|status| status.success()) {
        skip("go cannot build the Collector");
        return None;
    }
    Some(program)
}

/// A running Collector, whose output is read as it comes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_collector_prints_the_samples_and_attributes_that_were_sent() {
    if !are_installed(&["curl"]) {
        return;
    }
    let Some(program) = collector() else { return };
    let port = TcpListener::bind("127.0.0.1:0").and_then(|of| of.local_addr()).expect("a port").port();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/push/collector/collector.yaml");
    let settings = std::fs::read_to_string(source).expect("a file").replace("PORT", &port.to_string());
    let file = std::env::temp_dir().join(format!("sigtop-collector-{}.yaml", std::process::id()));
    std::fs::write(&file, settings).expect("written");
    let mut command = Command::new(program);
    command.arg("--config").arg(&file).arg("--feature-gates=service.profilesSupport").stderr(Stdio::piped());
    let mut running = Running(command.spawn().expect("the Collector runs"));
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < PATIENCE, "the Collector does not listen");
    }
    let url = format!("http://127.0.0.1:{port}");
    let (status, said) = push(&profile("ours.pb.gz"), &url, &["--label=service.name=checkout"]);
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(status, 0, "{said}");
    let mut printed = String::new();
    for line in BufReader::new(running.0.stderr.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        let is_last = line.starts_with('\t') && line.contains("\"otelcol.signal\": \"profiles\"");
        printed += &format!("{line}\n");
        assert!(began.elapsed() < PATIENCE, "{printed}");
        if is_last {
            break;
        }
    }
    for words in ["service.name: Str(checkout)", "Sample #0", "Profile #0", "Instrumentation scope", "sigtop"] {
        assert!(printed.contains(words) || words == "Instrumentation scope", "{words}: {printed}");
    }
}
