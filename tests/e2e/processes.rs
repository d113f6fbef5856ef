//! Tests of kinds of processes: daemons, prefork servers, children in their parent's memory, other
//! users, sandboxes. Each ends as it does without sigtop.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::guest::{Guest, WAYS, agent, eventually, host, prove, same, watch_unharmed};
use super::shares::accounts;
use crate::harness::raw::Raw;
use crate::harness::run::{Batch, LIMIT, SIGTOP, Watched, run, text, tool};
use crate::harness::skips::skip;
use crate::harness::targets;

/// Runs a mode of the target alone, and with each guest. Returns the run by CPU time.
fn unharmed(words: &[&str]) -> Watched {
    let binary = targets::c("processes");
    let command = [&[text(&binary)], words].concat();
    let alone = host(Guest::Nobody, &command);
    watch_unharmed(&WAYS, &command, &alone)
}

/// The agent leaves a daemon's output alone, although the daemon closed every descriptor first.
#[test]
fn a_daemon_writes_what_it_writes_alone() {
    let binary = targets::c("processes");
    let written = |guest| {
        let file = targets::scratch("daemon").join("file");
        let shown = host(guest, &[text(&binary), "daemon", text(&file)]);
        assert!(eventually(LIMIT, || file.exists()), "{guest:?}: {shown:?}");
        (shown.code, fs::read(&file).expect("it exists"))
    };
    let alone = written(Guest::Nobody);
    assert_eq!(alone.0, 3);
    assert!(alone.1.len() > 50_000);
    prove(&WAYS, &[], |guest| same(written(guest), alone.clone()));
}

/// Each worker of a server appears once, with the CPU time that it reports.
#[test]
fn workers_of_a_server_have_their_own_time() {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("processes")), "prefork", "12"]);
    accounts(&watched.raw);
    let out = watched.ran.out();
    let mut said: BTreeMap<u32, f64> = BTreeMap::new();
    for line in out.lines().filter_map(|line| line.strip_prefix("worker ")) {
        let (pid, ns) = line.split_once(' ').expect("pid and ns");
        said.insert(pid.parse().expect("a pid"), ns.parse().expect("ns"));
    }
    assert!(said.len() >= 8, "{out}");
    let (mut all_seen, mut all_said) = (watched.raw.lost_all().1 as f64, 0.0);
    for (pid, ns) in &said {
        let seen: u64 = watched.raw.of("prof").filter(|entry| entry.pid == *pid).map(|entry| entry.weight_ns).sum();
        assert!((0.5..1.3).contains(&(seen as f64 / ns)), "worker {pid}: {seen} ns of {ns}");
        assert_eq!(watched.raw.images.iter().filter(|image| image.pid == *pid).count(), 1);
        (all_seen, all_said) = (all_seen + seen as f64, all_said + ns);
    }
    assert!(all_seen >= 0.85 * all_said, "{all_seen} ns of {all_said}");
}

#[test]
fn a_process_ends_with_its_last_thread() {
    unharmed(&["last-thread"]);
}

/// The actions of a child in its parent's memory do not stop the sampling of the parent.
#[test]
fn children_in_the_parents_memory_change_nothing() {
    let watched = unharmed(&["vfork", "60"]);
    let ms = watched.raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
    assert!(ms >= 350, "{ms} ms of 400; lost {:?}", watched.raw.lost);
}

/// No thread of the process keeps privileges that the process dropped.
#[test]
fn rights_are_dropped_with_the_process() {
    unharmed(&["setuid"]);
}

/// The agent thread drops them before the target's call returns, and it never had privileges that
/// it does not need. Sampling continues.
#[test]
fn the_agent_thread_has_no_right_that_the_target_gave_away() {
    let binary = targets::c("rights");
    for mode in ["nobody", "no-new-privileges", "real-time"] {
        // Where samples are not judged, less CPU time shows the same.
        let short = [text(&binary), mode, "50"];
        let alone = host(Guest::Nobody, &short);
        if alone.code == 3 || alone.stdout == "no real time here\n" {
            skip(&format!("{mode}: this user has no such right"));
            continue;
        }
        assert_eq!(alone.stdout, "kept 0\n", "{mode}: {alone:?}");
        prove(&WAYS[1..], &[], |guest| same(host(guest, &short), alone.clone()));
        let watched = watch_unharmed(&WAYS[..1], &short[..2], &alone);
        let ms = watched.raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
        // On a busy machine the agent thread starts after the first half; that time is counted.
        // What the thread uses is time of the process, too.
        let counted_ms = ms + (watched.raw.lost_all().1 + watched.raw.number("agent-cpu")) / 1_000_000;
        assert!(ms >= 150 && counted_ms >= 340, "{mode}: {ms} ms of 400; lost {:?}", watched.raw.lost);
    }
}

/// Programs that root starts as another user find the agent's library, and their agents reach the
/// viewer.
#[test]
fn programs_under_another_user_are_sampled() {
    if !nix::unistd::geteuid().is_root() {
        return skip("programs under another user: only root can start them");
    }
    let script = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; id -u";
    let setpriv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script];
    let su = ["su", "-s", "/bin/sh", "nobody", "-c", script];
    for command in [&setpriv[..], &su] {
        if tool(command[0]).is_none() {
            continue;
        }
        let watched = Batch::new("--hz 250").run(command);
        let ran = &watched.ran;
        assert_eq!((ran.code(), ran.out().as_str(), ran.err().as_str()), (0, "65534\n", ""), "{command:?}");
        // The loop takes some hundred milliseconds.
        let ms = watched.raw.weight_ns("prof") / 1_000_000;
        assert!(ms >= 100, "{command:?}: {ms} ms sampled");
    }
}

#[test]
fn the_strict_sandbox_is_survived() {
    let watched = unharmed(&["strict"]);
    let before = watched.raw.cum_ns("prof", |name| name == "work");
    assert!(before > 80_000_000, "{before} ns");
}

#[test]
fn a_static_program_is_become() {
    let program = targets::static_c("ends");
    unharmed(&["exec", text(&program), "100", "exit", "3"]);
}

/// A limited address space has room for the target and the agent, or for the target alone.
#[test]
fn little_memory_is_the_targets() {
    let binary = targets::c("processes");
    for kib in ["8000", "12000", "20000", "40000"] {
        let limited = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
        let command = ["sh", "-c", &limited, text(&binary), "room"];
        let alone = host(Guest::Nobody, &command);
        prove(&[WAYS[0], WAYS[2]], &[], |guest| {
            let shown = host(guest, &command);
            // The target may get less of the remaining memory, but must do the same work.
            same((shown.code, shown.stdout.len(), shown.stderr), (alone.code, alone.stdout.len(), alone.stderr.clone()))
        });
    }
}

/// A control group with a memory limit.
struct Limited(PathBuf);

impl Limited {
    /// Returns `None` if this user may not create one.
    fn new(bytes: u64) -> Option<Limited> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (parent, limit) = match v1.is_dir() {
            true => (v1, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let directory = parent.join(format!("sigtop-test-{}", std::process::id()));
        fs::create_dir(&directory).ok()?;
        let group = Limited(directory);
        fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // The last process of the group may not have exited yet.
        eventually(LIMIT, || fs::remove_dir(&self.0).is_ok());
    }
}

/// A program that needs 18 MB runs in a control group of 24 MB.
#[test]
fn a_small_group_has_room_for_the_agent() {
    let Some(group) = Limited::new(24 << 20) else {
        return skip("no group of limited memory can be made here");
    };
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
    let (binary, room) = (targets::c("fills"), ["18"]);
    let command = [&["sh", "-c", &script, text(&binary)], &room[..]].concat();
    let alone = host(Guest::Nobody, &command);
    assert_eq!((alone.code, alone.stdout.as_str()), (0, "filled 18\n"), "{alone:?}");
    prove(&WAYS, &["bad_memory"], |guest| same(host(guest, &command), alone.clone()));
}

/// A reused pid is another process: no sample of the first is attributed to it.
#[test]
fn a_pid_that_is_used_again_is_another_process() {
    if !nix::unistd::geteuid().is_root() {
        return skip("choosing a pid takes root");
    }
    // The test uses its own pid namespace, where the next pid can be chosen.
    let script = format!(
        "{} 150 exit 0 & first=$!; wait; echo $((first - 1)) > /proc/sys/kernel/ns_last_pid; {} 60 30 10 0.3 & echo pids $first $!; wait",
        text(&targets::c("ends")),
        text(&targets::c("shares"))
    );
    let directory = targets::scratch("pids");
    let (table, file) = (directory.join("table"), directory.join("raw"));
    let ran = run(Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", SIGTOP, "--hz", "250", "--table", text(&table), "--raw", text(&file)])
        .args(["--", "sh", "-c", &script]));
    let out = ran.out();
    let pids: Vec<&str> = out.lines().find_map(|line| line.strip_prefix("pids ")).unwrap_or("").split(' ').collect();
    if pids.len() != 2 || pids[0] != pids[1] {
        return skip(&format!("no pid is given twice here: {out} {}", ran.err()));
    }
    let raw =
        Raw::parse(&fs::read_to_string(&file).expect("sigtop wrote it")).unwrap_or_else(|error| panic!("{error}"));
    accounts(&raw);
    let own = |name: &str| raw.images.iter().filter(|image| image.executable.ends_with(name)).count();
    assert_eq!((own("/ends"), own("/shares")), (1, 1), "{:?}", raw.images);
    for entry in raw.of("prof") {
        let of = |module: &str| entry.frames.iter().any(|frame| frame.module == module);
        assert!(!(of("ends") && of("shares")), "{entry:?}");
    }
    let ms = |name: &str| raw.cum_ns("prof", |frame| frame.starts_with(name)) / 1_000_000;
    assert!(ms("burn_") >= 250 && ms("burn") - ms("burn_") >= 110, "{} and {} ms", ms("burn"), ms("burn_"));
}

/// The agent's library has no thread-local storage, which the loader would have to allocate.
#[test]
fn the_agent_has_no_thread_local_storage() {
    let Some(readelf) = crate::harness::run::tool("readelf") else { return };
    let agent = agent();
    let relocations = run(Command::new(&readelf).args(["-rW", text(&agent)])).out();
    assert!(relocations.contains("R_X86_64_RELATIVE"), "{relocations}");
    assert!(!["DTPMOD", "DTPOFF", "TPOFF", "TLSDESC"].iter().any(|kind| relocations.contains(kind)), "{relocations}");
    let dynamic = run(Command::new(&readelf).args(["-dW", text(&agent)])).out();
    assert!(dynamic.contains("BIND_NOW") || dynamic.contains("NOW"), "{dynamic}");
    // The check can fail: libc has thread-local storage.
    let libc = run(Command::new(&readelf).args(["-rW", "/lib/x86_64-linux-gnu/libc.so.6"])).out();
    assert!(libc.is_empty() || libc.contains("TPOFF"), "libc has thread-local storage");
}
