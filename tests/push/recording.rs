//! `sigtop record --push`: everything that is sampled is pushed once, or counted.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sigtop::pprof::format;
use sigtop::pprof::profile::SavedProfile;

use crate::receiver::{Received, accept_all, answer, serve, sigtop};
use crate::skips::are_installed;

/// A shell that computes for three seconds, however fast the machine is.
const BUSY: &str = "timeout 3 sh -c 'while :; do :; done'; exit 7";

/// Records the busy shell into a file and a store. Returns the file's profile, what is printed, and
/// the time.
fn record(name: &str, url: &str, options: &[&str]) -> (SavedProfile, String, Duration) {
    let file: PathBuf = std::env::temp_dir().join(format!("sigtop-{name}-{}.pb.gz", std::process::id()));
    let path = file.to_str().expect("UTF-8");
    let fixed = ["record", "--no-config", "--hz", "499", "-o", path, "--push", url, "--push-every", "1s"];
    let began = Instant::now();
    let output = sigtop(&[&fixed, options, &["--", "sh", "-c", BUSY]].concat()).output().expect("sigtop runs");
    let took = began.elapsed();
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(7), "the program's own status: {said}");
    let profile = format::read(std::fs::File::open(&file).expect("a file")).expect("a profile");
    std::fs::remove_file(&file).expect("removed");
    (profile, said, took)
}

fn sums(profile: &SavedProfile) -> Vec<i64> {
    (0..profile.sample_types.len()).map(|index| profile.samples.values(index).sum()).collect()
}

fn pushed(requests: impl Iterator<Item = Received>) -> Vec<SavedProfile> {
    requests.map(|request| format::read(std::io::Cursor::new(request.body)).expect("a profile")).collect()
}

#[test]
fn the_pushed_profiles_add_up_to_the_recording() {
    if !are_installed(&["curl"]) {
        return;
    }
    let (url, received) = accept_all();
    let (recorded, said, _) = record("sums", &url, &["--push-format", "pyroscope"]);
    let profiles = pushed(received.try_iter());
    assert!(profiles.len() >= 2, "{} pushes: {said}", profiles.len());
    let all =
        profiles.iter().map(sums).reduce(|one, other| one.iter().zip(other).map(|(one, other)| one + other).collect());
    assert_eq!(all.expect("a push"), sums(&recorded), "{said}");
    for (earlier, later) in profiles.iter().zip(&profiles[1..]) {
        let gap = later.time_ns - (earlier.time_ns + earlier.duration_ns);
        assert!(gap.abs() < 1_000_000_000, "one ends where the next begins, but for steps of the clock: {gap} ns");
    }
    let samples = sums(&recorded)[0];
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let line = said.lines().find(|line| line.contains("pushed ")).expect("a summary");
    assert_eq!(digits(line.split(" samples").next().expect("a number")), samples.to_string(), "{said}");
}

#[test]
fn what_an_outage_costs_is_counted_and_the_end_has_a_limit() {
    if !are_installed(&["curl"]) {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let (recorded, said, took) = record("refused", &url, &[]);
    let samples = sums(&recorded)[0];
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let line = said.lines().find(|line| line.contains("pushed 0 samples")).expect("a summary");
    let lost = line.split("; ").nth(1).and_then(|rest| rest.split(" samples were lost").next()).expect("a number");
    assert_eq!(digits(lost), samples.to_string(), "{said}");
    assert!(line.contains("not in time") && took < Duration::from_secs(40), "{took:?} {said}");
}

#[test]
fn a_store_that_comes_back_gets_everything() {
    if !are_installed(&["curl"]) {
        return;
    }
    let (url, received) = serve(|number, _, stream| {
        let text = if number < 2 { answer("503 Later", "") } else { answer("200 OK", "") };
        let _ = std::io::Write::write_all(stream, text.as_bytes());
    });
    let (recorded, said, _) = record("outage", &url, &["--push-format", "pyroscope"]);
    let accepted = received.try_iter().skip(2);
    let all = pushed(accepted).iter().map(|profile| sums(profile)[0]).sum::<i64>();
    assert_eq!(all, sums(&recorded)[0], "{said}");
}

#[test]
fn a_recording_needs_a_file_or_a_store() {
    let run = |arguments: &[&str]| {
        let output = sigtop(&[&["record", "--no-config"], arguments, &["--", "true"]].concat()).output().expect("runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    for (arguments, words) in [
        (&[][..], "--output"),
        (&["--push", "localhost"], "http://"),
        (&["--push", "http://localhost", "--push-every", "1ms"], "at least 1s"),
        (&["--push", "http://localhost", "--keep", "1m"], "--output"),
    ] {
        let (status, said) = run(arguments);
        assert!(status == Some(2) && said.contains(words), "{arguments:?}: {status:?} {said}");
    }
}
