//! Everyday programs beside sigtop: each writes the same files, prints the same and ends the same
//! as alone, with the agent, by events and by stops.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::checked_calls::{assert_exact, parse};
use super::guest::Shown;
use crate::harness::outside::engines_outside;
use crate::harness::run::{Batch, Ran, run, text};
use crate::harness::skips::{are_installed, skip};
use crate::harness::targets;

/// Reported where no file system in user space can be mounted.
const NO_MOUNT: &str = "file systems in user space are not permitted here";

/// Programs of the PATH, a script for them, and its status. The script works in a directory of its
/// own; `$FROM` is that of the inputs.
struct Script {
    programs: &'static [&'static str],
    text: &'static str,
    status: i32,
}

const fn script(programs: &'static [&'static str], text: &'static str, status: i32) -> Script {
    Script { programs, text, status }
}

const SCRIPTS: [Script; 8] = [
    script(&["cat"], "cat $FROM/large $FROM/large > twice; cat $FROM/large | cat > piped; exit 7", 7),
    script(
        &["dd"],
        "dd if=$FROM/large of=copy bs=1M status=none; dd if=/dev/urandom bs=1M count=16 status=none | wc -c
         dd if=$FROM/large bs=1M status=none | dd bs=64k iflag=fullblock of=piped status=none
         exec dd if=/dev/zero of=zeros bs=4M count=16 status=none",
        0,
    ),
    script(
        &["tar", "gzip"],
        "tar -cf tree.tar -C $FROM tree && tar -xf tree.tar
         tar -cf - -C $FROM tree large | gzip -1 -n | gzip -d | (mkdir piped && tar -xf - -C piped); ls -R; exit 5",
        5,
    ),
    script(&["rsync"], "rsync -a $FROM/tree . && rsync -a --checksum --itemize-changes $FROM/ .", 0),
    script(
        &["sqlite3"],
        "sqlite3 data 'create table t(n integer primary key, s text);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
             insert into t select i, hex(i * 7919 % 60013) from n; create index by_s on t(s);
             update t set s = s || n where n % 3 = 0; delete from t where n % 7 = 0; vacuum;'
         sqlite3 data 'pragma integrity_check; select count(*), sum(length(s)), max(s) from t;'",
        0,
    ),
    script(&["gcc"], "gcc -O2 -c $FROM/big.c -o big.o && gcc -O2 -S $FROM/big.c -o big.s", 0),
    script(
        &["bindfs"],
        "mkdir view; bindfs -f $FROM view &
         until mountpoint -q view; do kill -0 $! || exit; sleep 0.02; done
         tar -cf tree.tar -C view tree; cat view/large > large; cp -r view/tree/deep .; ls -lR view/tree
         umount view 2> umount || fusermount -u view; wait; exit 5",
        5,
    ),
    script(
        &["sort", "awk"],
        "seq 150000 | awk '{ print ($1 * 7919) % 60013 }' | sort -n --parallel=2 | uniq -c | sort -rn > counts
         wc counts; sort missing",
        2,
    ),
];

/// The visible results of a script: its status and output, and mode, length and hash of
/// each of its files.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    shown: Shown,
    files: BTreeMap<PathBuf, (u32, u64, u64)>,
}

/// Makes the inputs of all scripts.
fn inputs() -> PathBuf {
    let directory = targets::scratch("inputs");
    let mut random = 88_172_645_463_325_252_u64;
    let mut bytes = |length: usize| -> Vec<u8> {
        let mut draw = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8 & 63
        };
        (0..length).map(|_| draw()).collect()
    };
    let write = |path: &str, bytes: &[u8]| fs::write(directory.join(path), bytes).expect("writable");
    fs::create_dir_all(directory.join("tree/deep/empty")).expect("writable");
    write("large", &bytes(12 << 20));
    for i in 0..200 {
        write(&format!("tree/{}file {i}", if i % 2 == 0 { "deep/" } else { "" }), &bytes(i * 331));
    }
    symlink("deep/file 0", directory.join("tree/link")).expect("writable");
    let function = |i| {
        format!("int f{i}(int *a, int n) {{ int s = {i}; while (n--) s += a[n] * s ^ s >> {}; return s; }}\n", i % 31)
    };
    write("big.c", (0..60).map(function).collect::<String>().as_bytes());
    directory
}

/// Returns mode, length and hash of each file of a directory, by its path.
fn files(directory: &Path) -> BTreeMap<PathBuf, (u32, u64, u64)> {
    let (mut all, mut directories) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(next) = directories.pop() {
        for path in fs::read_dir(&next).expect("a directory").flatten().map(|entry| entry.path()) {
            let metadata = fs::symlink_metadata(&path).expect("it is there");
            let mut hasher = DefaultHasher::new();
            if metadata.is_dir() {
                directories.push(path.clone());
            } else if metadata.is_symlink() {
                fs::read_link(&path).expect("a link").hash(&mut hasher);
            } else {
                fs::read(&path).expect("readable").hash(&mut hasher);
            }
            let length = if metadata.is_file() { metadata.len() } else { 0 };
            let name = path.strip_prefix(directory).expect("below").to_owned();
            all.insert(name, (metadata.permissions().mode(), length, hasher.finish()));
        }
    }
    all
}

/// The engines and rates that programs are watched with.
fn ways() -> impl Iterator<Item = String> {
    let engines = ["threads"].into_iter().chain(engines_outside());
    engines.flat_map(|engine| [99, 1000].map(|hz| format!("--engine {engine} --hz {hz} --budget 100%")))
}

/// Runs a script by a function that runs a command.
fn outcome(from: &Path, script: &Script, run: impl Fn(&[&str]) -> Ran) -> Outcome {
    let directory = targets::scratch("outcome");
    let lines = format!("cd {} && FROM={}\n{}", text(&directory), text(from), script.text);
    let ran = run(&["sh", "-c", &lines]);
    let files = files(&directory);
    fs::remove_dir_all(&directory).expect("it is ours");
    Outcome { shown: ran.into(), files }
}

#[test]
fn programs_have_the_same_results_beside_sigtop() {
    let from = inputs();
    let alone = |script| {
        let outcome = outcome(&from, script, |command| run(Command::new(command[0]).args(&command[1..])));
        if script.programs[0] == "bindfs" && outcome.shown.code != script.status {
            skip(NO_MOUNT);
            return None;
        }
        assert_eq!(outcome.shown.code, script.status, "{:?}: {outcome:?}", script.programs);
        Some((script, outcome))
    };
    let can_run = |script: &&Script| are_installed(script.programs);
    let scripts: Vec<(&Script, Outcome)> = SCRIPTS.iter().filter(can_run).filter_map(alone).collect();
    for way in ways() {
        let samples = Cell::new(0);
        for (script, alone) in &scripts {
            let seen = outcome(&from, script, |command| {
                let watched = Batch::new(&way).run(command);
                samples.set(samples.get() + watched.raw.samples("prof"));
                watched.ran
            });
            assert_eq!(seen, *alone, "{:?}: {way}", script.programs);
        }
        assert!(samples.get() > 20, "{way}: {} samples", samples.get());
    }
    // On a busy machine, few of its stops meet a call.
    let careless = targets::c("bad_tracer");
    let is_harmed = |(script, alone): &(&Script, Outcome)| {
        outcome(&from, script, |command| run(Command::new(&careless).args(command))) != *alone
    };
    let objects = (0..30).any(|_| scripts.iter().any(is_harmed));
    assert!(objects, "the test does not object to a careless sampler");
    fs::remove_dir_all(&from).expect("it is ours");
}

/// A daemon of a file system in user space may answer EINTR as soon as a signal has come for the
/// thread that waits for it.
#[test]
fn a_file_system_in_user_space_sees_no_signal() {
    const NOT_ALLOWED: i32 = 77;
    let program = targets::c("fuse_calls");
    let command = [text(&program), "1500"];
    let alone = run(Command::new(&program).arg(command[1]));
    if alone.code() == NOT_ALLOWED {
        return skip(NO_MOUNT);
    }
    let exact = |what: &str, ran: &Ran| {
        assert_eq!(ran.code(), 0, "{what}: {}", ran.err());
        assert_exact(what, &parse(&ran.out()));
    };
    exact("alone", &alone);
    for way in ways() {
        exact(&way, &Batch::new(&way).run(&command).ran);
    }
    let is_interrupted = |_| {
        let careless = run(Command::new(targets::c("bad_tracer")).args(command));
        parse(&careless.out()).iter().any(|call| call.eintr > 0)
    };
    assert!((0..30).any(is_interrupted), "the test does not object to a careless sampler");
}
