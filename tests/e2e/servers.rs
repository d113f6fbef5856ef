//! Servers and a browser: PostgreSQL, which uses SIGURG itself and blocks signals by name, redis,
//! and chromium, which counts its threads. Each works as without sigtop, and its functions are
//! sampled and named. `SIGTOP_LONG=1` runs them with more clocks, at 10, 99 and 1 000 Hz.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;

use super::guest::{Guest, host};
use crate::harness::run::{Batch, installed, text, tool};
use crate::harness::skips::skip;

/// A way to watch a program: sigtop's options, and the clock of the samples.
type Way = (String, &'static str);

/// The ways to watch a program by time, and by allocations.
fn ways(with_allocations: bool) -> Vec<Way> {
    let is_long = std::env::var_os("SIGTOP_LONG").is_some();
    let (rates, clocks) = if is_long { (&[10, 99, 1000][..], 3) } else { (&[1000][..], 2) };
    let clocks = &[("--clock prof", "prof"), ("--clock real", "real"), ("--engine itimer", "prof")][..clocks];
    let at_rates = |(options, clock): &(&str, &'static str)| -> Vec<Way> {
        rates.iter().map(|hz| (format!("{options} --hz {hz}"), *clock)).collect()
    };
    let allocations = ("--clock alloc --bytes 16k".to_owned(), "alloc");
    clocks.iter().flat_map(at_rates).chain(with_allocations.then_some(allocations)).collect()
}

/// The words before a command that run it as an ordinary user.
pub(super) fn as_nobody() -> &'static [&'static str] {
    let words = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if nix::unistd::geteuid().is_root() { words } else { &[] }
}

/// A directory that only its owner uses, and that every user can reach.
pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("sigtop-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory for temporary files");
        Directory(path)
    }

    /// A directory that belongs to the user of [`as_nobody`].
    pub(super) fn of_nobody(name: &str) -> Directory {
        const NOBODY: u32 = 65_534;
        let directory = Directory::new(name);
        if nix::unistd::geteuid().is_root() {
            chown(&directory.0, Some(NOBODY), Some(NOBODY)).expect("root may");
        }
        directory
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
    let Some(bin) = postgres_programs() else {
        assert!(std::env::var_os("CI").is_none(), "postgres is not installed");
        return skip("PostgreSQL is not installed");
    };
    // PostgreSQL refuses to run as root.
    let directory = Directory::of_nobody("postgres");
    let script = directory.0.join("serve");
    let lines = "set -e\n\
        cd \"$1\"; bin=$2\n\
        [ -d data ] || \"$bin/initdb\" -N -D data --locale=C -A trust -U tester > /dev/null\n\
        \"$bin/postgres\" -F -D data -k \"$1\" -h '' > log 2>&1 &\n\
        server=$!\n\
        until \"$bin/pg_isready\" -q -h \"$1\"; do sleep 0.05; done\n\
        \"$bin/pgbench\" -h \"$1\" -U tester -q -i -s 1 postgres > /dev/null 2>&1\n\
        \"$bin/pgbench\" -h \"$1\" -U tester -S -c 2 -t 4000 postgres 2>&1 |\n\
        while read -r line; do case $line in *processed*) echo \"$line\" ;; esac; done\n\
        kill -INT $server; wait $server\n";
    fs::write(&script, lines).expect("a file of ours");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let serve = ["sh", text(&script), text(&directory.0), text(&bin)];
    let command: Vec<&str> = as_nobody().iter().chain(&serve).copied().collect();
    let alone = host(Guest::Nobody, &command);
    assert_eq!((alone.code, alone.stdout.contains("8000/8000")), (0, true), "{alone:?}");
    for (way, clock) in ways(std::env::var_os("SIGTOP_LONG").is_some()) {
        let watched = Batch::new(&way).run(&command);
        assert_eq!(watched.ran.code(), 0, "{way}: {}", watched.ran.err());
        assert_eq!(watched.ran.out(), alone.stdout, "{way}: {}", watched.ran.err());
        let served = watched.raw.cum_ns(clock, |name| name == "PostgresMain");
        // Each of the 8 000 transactions takes about 50 µs of a backend's CPU time, and allocates.
        let least = if clock == "alloc" { 1_000_000 } else { 100_000_000 };
        assert!(served >= least, "{way}: {served} in backends; lost {:?}", watched.raw.lost);
    }
}

/// Requests of redis-benchmark are answered, and the server's functions are named.
#[test]
fn redis_serves_its_benchmark() {
    let (Some(server), Some(client)) = (installed("redis-server"), installed("redis-benchmark")) else {
        return skip("redis is not installed");
    };
    let directory = Directory::new("redis");
    let lines = "cd \"$1\"; \"$2\" --port 0 --unixsocket \"$1/socket\" --save '' > log &\n\
        server=$!\n\
        until [ -S socket ]; do sleep 0.05; done\n\
        \"$3\" -s \"$1/socket\" -n 8000 -c 20 -t set,get,lpush,sadd,zadd -d 300 --csv | cut -d, -f1\n\
        redis-cli -s \"$1/socket\" dbsize; kill $server; wait $server; echo $?\n";
    let command = ["sh", "-c", lines, "sh", text(&directory.0), text(&server), text(&client)];
    let alone = host(Guest::Nobody, &command);
    assert!(alone.code == 0 && alone.stdout.contains("ZADD") && alone.stdout.ends_with("\n0\n"), "{alone:?}");
    for (way, clock) in ways(true) {
        let watched = Batch::new(&way).run(&command);
        assert_eq!(watched.ran.out(), alone.stdout, "{way}: {}", watched.ran.err());
        let served = watched.raw.cum_ns(clock, |name| name.contains("main"));
        assert!(served >= 10_000_000, "{way}: {served} in main; lost {:?}", watched.raw.lost);
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
    for (way, clock) in ways(false) {
        let (out, watched) = load(Some(&way));
        let watched = watched.expect("watched");
        assert_eq!(out, alone, "{way}: {}", watched.ran.err());
        let named = watched.raw.cum_ns(clock, |name| name.contains("ChromeMain") || name.contains("main"));
        assert!(named > 0 && watched.raw.images.len() >= 3, "{way}: {named} ns; {:?}", watched.raw.images);
    }
}
