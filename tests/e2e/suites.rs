//! Other people's test suites: each test case has the same result under sigtop as alone. CPython's
//! tests of signals always run; `SIGTOP_LONG=1` runs more of its tests with every clock and engine,
//! and stress-ng. `SIGTOP_SUITES` names a directory of sources that are built already, `git`,
//! `redis`, `sqlite` and `nginx-tests`; those that are there run, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::servers::{Directory, as_nobody};
use crate::harness::run::{Batch, in_parallel, installed, run, run_within, text};
use crate::harness::skips::skip;
use crate::harness::targets;

/// Clocks and engines, each at 99 and 1 000 Hz.
const LONG_WAYS: [&str; 7] = [
    "--hz 99",
    "--hz 1000",
    "--clock real --hz 99",
    "--clock real --hz 1000",
    "--engine itimer --hz 99",
    "--engine itimer --hz 1000",
    "--clock alloc --bytes 16k",
];
/// The ways of a short run. Interrupted system calls used to fail with the second.
const SHORT_WAYS: [&str; 2] = ["--hz 1000", "--clock real --hz 1000"];
/// Number of runs alone that a case may need to fail as it failed under sigtop.
const RUNS_ALONE: usize = 3;
/// Time limit of one run of a suite.
const LIMIT: Duration = Duration::from_secs(1800);

fn is_long() -> bool {
    std::env::var_os("SIGTOP_LONG").is_some()
}

/// The exit status, and how often each line of results was printed.
type Results = (i32, BTreeMap<String, usize>);

/// Returns what a line of a suite says about a test case, without its duration: of TAP (git and
/// nginx), redis, sqlite and `suite.py`.
fn result(line: &str) -> Option<&str> {
    let is_result =
        ["ok ", "not ok ", "failed ", "skipped ", "[ok]: ", "[err]: "].iter().any(|start| line.starts_with(start))
            || line.ends_with("... Ok");
    let without_time = line.rsplit_once(" (").filter(|(_, time)| time.ends_with(" ms)"));
    is_result.then_some(without_time.map_or(line, |(line, _)| line))
}

/// Runs a suite alone, or under sigtop with these options.
fn results(way: Option<&str>, directory: &Path, command: &[&str]) -> (Results, String) {
    let mut command = match way {
        Some(options) => Batch::new(options).command(command),
        None => {
            let mut alone = Command::new(command[0]);
            alone.args(&command[1..]);
            alone
        }
    };
    let ran = run_within(command.current_dir(directory), LIMIT);
    let (out, mut cases) = (ran.out(), BTreeMap::new());
    out.lines().filter_map(result).for_each(|line| *cases.entry(line.to_owned()).or_default() += 1);
    ((ran.code(), cases), ran.err())
}

/// Asserts that a suite has the same results in all of these ways as alone. A suite that disagrees
/// with itself is run again alone, as a flaky case proves nothing. Each run is in what `directory`
/// returns.
fn same_results(name: &str, ways: &[&str], directory: impl Fn() -> PathBuf + Sync, command: &[&str]) {
    // Tests of signals mostly wait.
    let all: Vec<Option<&str>> = std::iter::once(None).chain(ways.iter().copied().map(Some)).collect();
    let mut ran = in_parallel(&all, |way| results(*way, &directory(), command)).into_iter();
    let (alone, errors) = ran.next().expect("the run alone");
    assert!(!alone.1.is_empty(), "{name} has no results alone: {errors}");
    let mut known = vec![alone];
    for (way, (watched, errors)) in ways.iter().zip(ran) {
        while !known.contains(&watched) && known.len() < RUNS_ALONE {
            known.push(results(None, &directory(), command).0);
        }
        let alone = &known[0];
        let differs: Vec<_> = watched.1.iter().filter(|(case, count)| alone.1.get(*case) != Some(count)).collect();
        let missing: Vec<_> = alone.1.keys().filter(|case| !watched.1.contains_key(*case)).collect();
        let last = errors.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
        assert!(
            known.contains(&watched),
            "{name}, {way}: status {} for {}; only here: {differs:?}; not here: {missing:?}\n{}",
            watched.0,
            alone.0,
            &errors[last..]
        );
        eprintln!("{name}, {way}: {} results as alone ({} runs)", watched.1.len(), known.len());
    }
}

/// A Python that has its own tests: the system's, or the first on the PATH.
fn python_with_tests() -> Option<PathBuf> {
    let system = Some(PathBuf::from("/usr/bin/python3")).filter(|path| path.is_file());
    let has_tests = |python: &PathBuf| {
        let mut import = Command::new(python);
        let import = import.args(["-c", "import test.test_signal, test.test_asyncio"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    [system, installed("python3")].into_iter().flatten().find(has_tests)
}

#[test]
fn cpythons_own_tests_pass() {
    let Some(python) = python_with_tests() else {
        return skip("CPython's own tests are not installed");
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/suite.py");
    let short = ["test.test_signal.PendingSignalsTests test.test_signal.ItimerTest"];
    let long = ["signal", "subprocess", "threading", "faulthandler", "socket", "asyncio", "selectors", "os"]
        .map(|module| format!("test.test_{module}"));
    let (suites, ways): (Vec<&str>, &[&str]) =
        if is_long() { (long.iter().map(String::as_str).collect(), &LONG_WAYS) } else { (short.to_vec(), &SHORT_WAYS) };
    for suite in suites {
        let command: Vec<&str> = [text(&python), text(&script)].into_iter().chain(suite.split(' ')).collect();
        same_results(suite, ways, || targets::scratch("cpython"), &command);
    }
}

/// Suites of sources that are built already: the directory, and the command that runs a part of
/// them there, which takes about a minute alone.
const BUILT: [(&str, &str); 4] = [
    ("git", "cd t && for file in t000*.sh t3200*.sh; do echo \"ok $file\"; sh $file; done"),
    // Colors would be between the brackets of `[ok]`.
    (
        "redis",
        "TERM=dumb ./runtest --clients 2 --tags '-slow -needs:latency -large-memory' --single unit/auth \
         --single unit/expire --single unit/scan --single unit/type/string --single unit/type/zset --single unit/multi \
         --single unit/introspection --single unit/scripting --single integration/rdb \
         --single integration/replication-4",
    ),
    ("sqlite", "for file in test/select*.test test/wal[2-9]*.test test/lock*.test; do ./testfixture $file; done"),
    // A worker as another user cannot read the directories of these tests. They run the program of
    // TEST_NGINX_BINARY, or ../nginx/objs/nginx. The name server of `http_resolver*.t` is a loop in
    // Perl that ends when the wake signal of the wall clock ends its `select`, as SECURITY.md says.
    (
        "nginx-tests",
        "[ $(id -u) != 0 ] || export TEST_NGINX_GLOBALS='user root;'; prove -v $(ls http_*.t | grep -v resolver) \
         access_log*.t auth_*.t binary_upgrade.t proxy_keep*.t range*.t rewrite*.t upstream_k*.t",
    ),
];

#[test]
fn suites_of_built_sources_pass() {
    if !is_long() {
        return skip("suites of built sources, as SIGTOP_LONG is not set");
    }
    let Some(root) = std::env::var_os("SIGTOP_SUITES").map(PathBuf::from) else {
        return skip("suites of built sources, as SIGTOP_SUITES is not set");
    };
    let found: Vec<_> = BUILT.iter().filter(|(name, _)| root.join(name).is_dir()).collect();
    assert!(!found.is_empty(), "{} has none of {BUILT:?}", root.display());
    for (name, command) in found {
        same_results(name, &SHORT_WAYS, || root.join(name), &["sh", "-c", command]);
    }
}

/// Stressors that run as the user of the test.
const STRESSORS: &str = "signal sigrt sigq sigfd sigsuspend sigpending sigsegv signest sigabrt itimer timer timerfd fork vfork exec stack pthread \
                         clone dynlib daemon close chroot seccomp context bad-altstack longjmp zombie spawn prctl";
/// Classes of stressors that run as an ordinary user, who cannot harm the machine by most of them.
const CLASSES: [&str; 6] = ["os", "memory", "scheduler", "interrupt", "pipe", "vm"];
/// Stressors of these classes that take all memory or all processors.
const LEFT_OUT: [&str; 7] = ["bigheap", "brk", "oom-pipe", "resources", "softlockup", "forkheavy", "vforkmany"];

/// Returns the stressors of a class. stress-ng lists them after a question mark.
fn stressors_of(class: &str) -> Vec<String> {
    let list = run(Command::new("stress-ng").args(["--class", &format!("{class}?")])).out();
    let names = list.split_once("stressors:").unwrap_or_else(|| panic!("no stressors in {list:?}")).1;
    names.split_whitespace().filter(|name| !LEFT_OUT.contains(name)).map(str::to_owned).collect()
}

#[test]
fn stress_ng_passes_what_it_passes_alone() {
    if !is_long() {
        return skip("stress-ng, as SIGTOP_LONG is not set");
    }
    if installed("stress-ng").is_none() {
        return skip("stress-ng is not installed");
    }
    let directory = Directory::of_nobody("stress");
    let classes: BTreeSet<String> = CLASSES.iter().flat_map(|class| stressors_of(class)).collect();
    assert!(classes.len() >= 100, "{classes:?}");
    let own = STRESSORS.split_whitespace().map(|stressor| (&[][..], stressor.to_owned()));
    let all: Vec<_> = own.chain(classes.into_iter().map(|stressor| (as_nobody(), stressor))).collect();
    let mut different = Vec::new();
    for (user, stressor) in &all {
        let option = format!("--{stressor}");
        let words = ["stress-ng", &option, "1", "-t", "1", "--verify", "--temp-path", text(&directory.0)];
        let command: Vec<&str> = user.iter().copied().chain(words).collect();
        let mut alone = vec![run(Command::new(command[0]).args(&command[1..])).code()];
        for way in SHORT_WAYS {
            let watched = run(&mut Batch::new(way).command(&command)).code();
            while !alone.contains(&watched) && alone.len() < RUNS_ALONE {
                alone.push(run(Command::new(command[0]).args(&command[1..])).code());
            }
            if !alone.contains(&watched) {
                different.push(format!("{stressor}, {way}: {watched} for {alone:?}"));
            }
        }
    }
    assert!(different.is_empty(), "of {}: {different:#?}", all.len());
}
