//! `sigtop record --push`: everything that is sampled is pushed once, or counted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sigtop::pprof::format;
use sigtop::pprof::profile::{Label, LabelValue, SavedProfile};

use crate::receiver::{Received, accept_all, answer, serve, sigtop};
use crate::skips::are_installed;

/// A shell that computes for three seconds, however fast the machine is.
const BUSY: &str = "timeout 3 sh -c 'while :; do :; done'; exit 7";

/// Records the busy shell into a file and a store. Returns the file's profile, what is printed, and
/// the time.
fn record(name: &str, url: &str, options: &[&str]) -> (SavedProfile, String, Duration) {
    let recorder = PushRecorder { name, url, options: &[&["--hz", "499"], options].concat(), preload: None };
    recorder.run(&["--", "sh", "-c", BUSY], 7)
}

/// Records something into a file and a store.
struct PushRecorder<'a> {
    /// The name of the file.
    name: &'a str,
    url: &'a str,
    options: &'a [&'a str],
    /// A library to preload into sigtop, and the values of its variables.
    preload: Option<(&'a Path, [(&'a str, &'a str); 2])>,
}

impl PushRecorder<'_> {
    /// Records a target, which are arguments of sigtop. `status` is the expected one.
    fn run(&self, target: &[&str], status: i32) -> (SavedProfile, String, Duration) {
        let file: PathBuf = std::env::temp_dir().join(format!("sigtop-{}-{}.pb.gz", self.name, std::process::id()));
        let path = file.to_str().expect("UTF-8");
        let fixed = ["record", "--no-config", "-o", path, "--push", self.url, "--push-every", "1s"];
        let mut command = sigtop(&[&fixed, self.options, target].concat());
        if let Some((library, variables)) = self.preload {
            command.env("LD_PRELOAD", library).envs(variables);
        }
        let began = Instant::now();
        let output = command.output().expect("sigtop runs");
        let took = began.elapsed();
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(status), "{said}");
        let profile = format::read(std::fs::File::open(&file).expect("a file")).expect("a profile");
        std::fs::remove_file(&file).expect("removed");
        (profile, said, took)
    }
}

/// Compiles a program or a library in C into a directory of this name.
fn compile(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("push-{name}"));
    std::fs::create_dir_all(&directory).expect("a directory");
    let (code, program) = (directory.join("source.c"), directory.join(name));
    std::fs::write(&code, source).expect("written");
    let mut compiler = Command::new("cc");
    let output = compiler.args(flags).arg("-o").arg(&program).arg(&code).output().expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Adds up the values of profiles with equal types.
fn add_up(profiles: &[SavedProfile]) -> Vec<i64> {
    let add = |one: Vec<i64>, other: Vec<i64>| one.iter().zip(other).map(|(one, other)| one + other).collect();
    profiles.iter().map(sums).reduce(add).expect("a push")
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
    assert_eq!(add_up(&profiles), sums(&recorded), "{said}");
    for (earlier, later) in profiles.iter().zip(&profiles[1..]) {
        let gap = later.time_ns - (earlier.time_ns + earlier.duration_ns);
        assert!((0..1_000_000_000).contains(&gap), "one ends where the next begins, but for steps of the clock: {gap}");
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

/// Sets the clock of the system by some seconds as soon as a file is there.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, clock, now);
    const char *file = getenv("CLOCK_FILE"), *by = getenv("CLOCK_IS_SET_BY");
    if (!result && clock == CLOCK_REALTIME && file && by && !access(file, F_OK)) now->tv_sec += atol(by);
    return result;
}
"#;

/// A store would show samples twice, or in the wrong order.
#[test]
fn a_clock_that_is_set_between_two_pushes_moves_no_profile_back() {
    if !are_installed(&["curl", "cc"]) {
        return;
    }
    let library = compile("clock.so", CLOCK, &["-shared", "-fPIC"]);
    for (name, by) in [("forward", "3600"), ("back", "-3600")] {
        let file = std::env::temp_dir().join(format!("sigtop-clock-{name}-{}", std::process::id()));
        let first = file.clone();
        let (url, received) = serve(move |number, _, stream| {
            if number == 0 {
                std::fs::write(&first, "").expect("written");
            }
            let _ = std::io::Write::write_all(stream, answer("200 OK", "").as_bytes());
        });
        let variables = [("CLOCK_FILE", file.to_str().expect("UTF-8")), ("CLOCK_IS_SET_BY", by)];
        let options = ["--push-format", "pyroscope", "--hz", "499"];
        let recorder = PushRecorder { name, url: &url, options: &options, preload: Some((&library, variables)) };
        let (recorded, said, _) = recorder.run(&["--", "sh", "-c", BUSY], 7);
        std::fs::remove_file(&file).expect("there was a push");
        let requests: Vec<Received> = received.try_iter().collect();
        let times: Vec<[u64; 2]> = requests.iter().map(|request| url_times(&request.line)).collect();
        let profiles = pushed(requests.into_iter());
        assert_eq!(add_up(&profiles), sums(&recorded), "{said}");
        for pair in times.windows(2) {
            assert!(pair[0][1] <= pair[1][0] && pair[1][0] < pair[1][1], "{name}: {times:?}");
        }
        let (first, last) = (profiles.first().expect("a push"), profiles.last().expect("a push"));
        let apart = (last.time_ns - first.time_ns) / 1_000_000_000;
        let expected = if name == "forward" { 3600..3630 } else { 1..30 };
        assert!(profiles.len() >= 2 && expected.contains(&apart), "{name}: {apart} s");
        let measured = profiles.iter().map(|profile| profile.duration_ns).sum::<i64>() / 1_000_000;
        assert!((2_000..30_000).contains(&measured), "{name}: {measured} ms");
    }
}

/// The times of a profile in a URL for Pyroscope, ns.
fn url_times(line: &str) -> [u64; 2] {
    ["&from=", "&until="].map(|key| {
        let value = line.split(key).nth(1).and_then(|rest| rest.split('&').next()).expect("a value");
        value.parse().expect("a number")
    })
}

/// Allocates for four seconds: `grow` keeps everything, and `churn` frees it.
const ALLOCATIONS: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <time.h>
char *volatile last;
__attribute__((noinline)) void churn(size_t size) { last = malloc(size); memset(last, 1, size); free(last); }
__attribute__((noinline)) void grow(size_t size) { last = malloc(size); memset(last, 1, size); }
int main(void) {
    struct timespec pause = {0, 2000000}, begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (int i = 0; i < 30; i++) churn(100000);
        grow(100000);
        nanosleep(&pause, 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < 4);
    return 3;
}
"#;

/// The sum of one quantity of a profile.
fn sum_of(profile: &SavedProfile, kind: &str) -> i64 {
    let index = profile.sample_types.iter().position(|of| &*of.kind == kind);
    index.map_or(0, |index| profile.samples.values(index).sum())
}

#[test]
fn allocated_bytes_add_up_and_live_bytes_are_those_of_the_end() {
    if !are_installed(&["curl", "cc"]) {
        return;
    }
    let program = compile("allocations", ALLOCATIONS, &["-O1", "-g"]);
    let (url, received) = accept_all();
    let options = ["--push-format", "pyroscope", "--clock", "alloc"];
    let recorder = PushRecorder { name: "memory", url: &url, options: &options, preload: None };
    let (recorded, said, _) = recorder.run(&["--", program.to_str().expect("UTF-8")], 3);
    let profiles = pushed(received.try_iter());
    let of = |kind: &str| -> Vec<SavedProfile> {
        profiles.iter().filter(|profile| &*profile.default_sample_type == kind).cloned().collect()
    };
    let (allocated, live) = (of("alloc_space"), of("inuse_space"));
    assert!(allocated.len() >= 2 && live.len() >= 2 && allocated.len() + live.len() == profiles.len(), "{said}");
    for (profiles, kinds) in [(&allocated, ["alloc_objects", "alloc_space"]), (&live, ["inuse_objects", "inuse_space"])]
    {
        for profile in profiles {
            let types = profile.sample_types.iter().zip(["count", "bytes"]);
            assert!(types.zip(kinds).all(|((of, unit), kind)| &*of.kind == kind && &*of.unit == unit));
            let period = &profile.period_type;
            assert_eq!((period.kind.as_str(), period.unit.as_str()), ("space", "bytes"));
            assert!(profile.period > 1, "the mean interval of samples: {}", profile.period);
        }
    }
    let recorded_sums = |kinds: [&str; 2]| kinds.map(|kind| sum_of(&recorded, kind)).to_vec();
    assert_eq!(add_up(&allocated), recorded_sums(["alloc_objects", "alloc_space"]), "{said}");
    assert_eq!(sums(live.last().expect("a push")), recorded_sums(["inuse_objects", "inuse_space"]), "{said}");
    // Three MB a turn are freed, and 100 kB are kept.
    let of_kind = |kind| sum_of(&recorded, kind);
    assert!(of_kind("alloc_space") > 5 * of_kind("inuse_space") && of_kind("inuse_space") > 0, "{said}");
}

#[test]
fn an_attached_process_is_pushed_under_its_name() {
    if !are_installed(&["curl"]) {
        return;
    }
    let mut shell = Command::new("sh");
    let mut shell = shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().expect("sh runs");
    let (url, received) = accept_all();
    let (pid, options) = (shell.id().to_string(), ["--push-format", "pyroscope", "--hz", "499", "-d", "4s"]);
    let recorder = PushRecorder { name: "attached", url: &url, options: &options, preload: None };
    let run = std::panic::AssertUnwindSafe(|| recorder.run(&["--pid", &pid], 0));
    let result = std::panic::catch_unwind(run);
    shell.kill().expect("a child");
    shell.wait().expect("a child");
    let (recorded, said, _) = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let requests: Vec<Received> = received.try_iter().collect();
    assert!(requests.len() >= 2, "{said}");
    assert!(requests.iter().all(|request| request.line.starts_with("POST /ingest?name=sh%7B%7D&")), "{requests:?}");
    let profiles = pushed(requests.into_iter());
    assert_eq!(add_up(&profiles), sums(&recorded), "{said}");
    assert!(sums(&recorded)[1] > 100_000_000, "{said}");
    for profile in &profiles {
        let types: Vec<(&str, &str)> =
            profile.sample_types.iter().map(|of| (of.kind.as_str(), of.unit.as_str())).collect();
        assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
        let pids = profile.labels.iter().flatten().filter(|label| &*label.key == "pid");
        let is_own = |label: &Label| label.value == LabelValue::Text(pid.as_str().into());
        assert!(pids.clone().count() > 0 && pids.clone().all(is_own), "{:?}", profile.labels);
    }
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
