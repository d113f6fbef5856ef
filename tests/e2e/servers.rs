//! Regression tests for programs that broke when they were watched: PostgreSQL, which uses SIGURG
//! itself and blocks signals by name, chromium, which counts its threads, and CPython's own tests
//! of signals. Each works as without sigtop, and the servers' functions are sampled and named.
//! `SIGTOP_LONG=1` runs them with every clock at 10, 99 and 1 000 Hz, and runs more of CPython's
//! tests.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Command;

use super::guest::{Guest, host};
use crate::harness::run::{Batch, LIMIT, run, text, tool};
use crate::harness::skips::skip;

/// Clocks and rates of the runs.
fn ways() -> Vec<String> {
    let rates = if std::env::var_os("SIGTOP_LONG").is_some() { &[10, 99, 1000][..] } else { &[1000][..] };
    rates.iter().flat_map(|hz| [format!("--clock prof --hz {hz}"), format!("--clock real --hz {hz}")]).collect()
}

/// A directory that only its owner uses, and that every user can reach.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("sigtop-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory for temporary files");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The directory of PostgreSQL's own programs. It contains the version and is not on the PATH.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).find(|bin| bin.join("postgres").is_file())
}

#[test]
fn postgresql_serves_pgbench_and_its_backends_are_sampled() {
    const NOBODY: u32 = 65_534;
    let Some(bin) = postgres_programs() else {
        assert!(std::env::var_os("CI").is_none(), "postgres is not installed");
        return skip("PostgreSQL is not installed");
    };
    let directory = Directory::new("postgres");
    // PostgreSQL refuses to run as root.
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        chown(&directory.0, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    let script = directory.0.join("serve");
    let lines = "set -e\n\
        cd \"$1\"; bin=$2\n\
        [ -d data ] || \"$bin/initdb\" -D data -A trust -U tester > /dev/null\n\
        \"$bin/postgres\" -D data -k \"$1\" -h '' > log 2>&1 &\n\
        server=$!\n\
        until \"$bin/pg_isready\" -q -h \"$1\"; do sleep 0.05; done\n\
        \"$bin/pgbench\" -h \"$1\" -U tester -q -i -s 1 postgres > /dev/null 2>&1\n\
        \"$bin/pgbench\" -h \"$1\" -U tester -S -c 2 -t 4000 postgres 2>&1 | grep processed\n\
        kill -INT $server; wait $server\n";
    fs::write(&script, lines).expect("a file of ours");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let serve = ["sh", text(&script), text(&directory.0), text(&bin)];
    let as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let command: Vec<&str> = as_nobody.iter().filter(|_| is_root).chain(&serve).copied().collect();
    let alone = host(Guest::Nobody, &command);
    assert_eq!((alone.code, alone.stdout.contains("8000/8000")), (0, true), "{alone:?}");
    for way in ways() {
        let watched = Batch::new(&way).run(&command);
        assert_eq!(watched.ran.code(), 0, "{way}: {}", watched.ran.err());
        assert_eq!(watched.ran.out(), alone.stdout, "{way}: {}", watched.ran.err());
        let clock = if way.contains("real") { "real" } else { "prof" };
        let served = watched.raw.cum_ns(clock, |name| name == "PostgresMain");
        // Each of the 8 000 transactions takes about 50 µs of a backend's CPU time.
        assert!(served >= 100_000_000, "{way}: {served} ns in backends; lost {:?}", watched.raw.lost);
    }
}

#[test]
fn chromium_loads_a_page() {
    let Some(chromium) = tool("chromium") else { return };
    let directory = Directory::new("chromium");
    let page = directory.0.join("page.html");
    let script = "let s=0;for(let i=0;i<3e7;i++)s+=Math.sqrt(i);document.body.append('sum '+Math.round(s))";
    fs::write(&page, format!("<html><body><script>{script}</script></body></html>")).expect("a file of ours");
    let load = |guest: Option<&str>| {
        let (data, address) =
            (format!("--user-data-dir={}/data", text(&directory.0)), format!("file://{}", text(&page)));
        let _ = fs::remove_dir_all(directory.0.join("data"));
        let options = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
                       --disable-background-networking --disable-component-update --disable-sync --dump-dom";
        let mut command = vec![text(&chromium)];
        command.extend(options.split_whitespace());
        command.extend([data.as_str(), address.as_str()]);
        match guest {
            None => (host(Guest::Nobody, &command).stdout, None),
            Some(options) => {
                let watched = Batch::new(options).run(&command);
                (watched.ran.out(), Some(watched))
            }
        }
    };
    let (alone, _) = load(None);
    assert!(alone.contains("sum "), "{alone}");
    for way in ways() {
        let (out, watched) = load(Some(&way));
        let watched = watched.expect("watched");
        assert_eq!(out, alone, "{way}: {}", watched.ran.err());
        let clock = if way.contains("real") { "real" } else { "prof" };
        let named = watched.raw.cum_ns(clock, |name| name.contains("ChromeMain") || name.contains("main"));
        assert!(named > 0 && watched.raw.images.len() >= 3, "{way}: {named} ns; {:?}", watched.raw.images);
    }
}

/// The same tests pass as without sigtop. Those of interrupted system calls used to fail with the
/// wall clock.
#[test]
fn cpythons_tests_of_signals_pass() {
    let Some(python) = tool("python3") else { return };
    let has_tests = run(Command::new(&python).args(["-c", "import test.test_signal"]));
    if has_tests.code() != 0 {
        return skip("CPython's own tests are not installed");
    }
    let all = ["PendingSignalsTests", "ItimerTest", "SiginterruptTest", "WakeupSignalTests", "StressTest"];
    // The later ones take half a minute each.
    let is_long = std::env::var_os("SIGTOP_LONG").is_some();
    let modules = all[..if is_long { all.len() } else { 2 }].iter().map(|name| format!("test.test_signal.{name}"));
    let modules: Vec<String> = modules.collect();
    // The last line but one contains the number of tests and their duration.
    let outcome = |guest| {
        let words = [text(&python), "-m", "unittest"].into_iter();
        let command: Vec<&str> = words.chain(modules.iter().map(String::as_str)).collect();
        let shown = host(guest, &command);
        let count =
            shown.stderr.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next().map(str::to_owned));
        (shown.code, count, shown.stderr.lines().last().map(str::to_owned))
    };
    let alone = outcome(Guest::Nobody);
    assert_eq!(alone.0, 0, "{alone:?}");
    for way in ["--hz 1000", "--clock real --hz 1000"] {
        assert_eq!(outcome(Guest::Batch(way)), alone, "{way}, within {LIMIT:?}");
    }
}
