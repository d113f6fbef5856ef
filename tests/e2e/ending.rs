//! The end of a watch: sigtop exits when its target has exited, without a delay of its own;
//! and what becomes of a target that it does not wait for.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::guest::{Guest, WAYS, eventually, host, prove, same};
use crate::harness::run::{Batch, SIGTOP, run, text};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Number of rounds of a measurement. The fastest one counts, since load only ever slows a round
/// down.
const ROUNDS: u32 = 15;
/// Time by which a run may be longer under sigtop in a debug build. It is less than the interval
/// between two answers (100 ms).
const LATE: Duration = Duration::from_millis(80);
/// Maximum time to wait for a program to do something.
const LIMIT: Duration = Duration::from_secs(20);

fn shortest(measure: impl Fn() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| measure()).min().expect("there are rounds")
}

fn took(command: &mut Command) -> Duration {
    let start = Instant::now();
    let ran = run(command);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    start.elapsed()
}

#[test]
fn a_batch_ends_with_its_target() {
    let alone = shortest(|| took(&mut Command::new("true")));
    let watched = shortest(|| took(Command::new(SIGTOP).args(["--quiet", "--", "true"])));
    assert!(watched < alone + LATE, "{watched:?}, and {alone:?} alone");
}

#[test]
fn a_recording_ends_with_its_target() {
    let directory = targets::scratch("ending");
    let alone = shortest(|| took(&mut Command::new("true")));
    for file in ["plain.sigtop", "profile.pb.gz"] {
        let file = directory.join(file);
        let watched = shortest(|| took(Command::new(SIGTOP).args(["record", "-o"]).arg(&file).args(["--", "true"])));
        assert!(watched < alone + LATE, "{}: {watched:?}, and {alone:?} alone", file.display());
    }
}

/// The table contains the samples of the last moments, even if sigtop exits right after its target.
/// Samples that are not sent at the end would be missing from most rounds: the agent sends them
/// every 100 ms, and the bounds allow 15. A few rounds may lack CPU time for which the kernel made
/// no tick, because other programs run beside this one.
#[test]
fn the_last_samples_of_a_target_are_reported() {
    let binary = targets::c("single");
    let rounds = (0..10).map(|_| {
        let watched = Batch::new("--hz 1000").run(&[text(&binary)]);
        (watched.raw.cum_ns("prof", |name| name == "main") / 1_000_000, watched.raw.lost["unaccounted"].1 / 1_000_000)
    });
    let rounds: Vec<(u64, u64)> = rounds.collect();
    let complete = rounds.iter().filter(|(ms, _)| (285..=315).contains(ms)).count();
    assert!(complete >= 7, "{complete} of 10 rounds are complete: (ms of 300, ms lost) {rounds:?}");
}

#[test]
fn a_screen_ends_with_the_target_that_it_ends() {
    let mut sigtop = Command::new(SIGTOP);
    sigtop.args(["--quiet", "--on-quit", "end", "--", "sleep", "60"]);
    let watched = shortest(|| {
        let mut terminal = Terminal::start(80, 24, &sigtop);
        terminal.see("sleep 60");
        terminal.keys("q");
        let start = Instant::now();
        terminal.finish();
        start.elapsed()
    });
    assert!(watched < LATE, "{watched:?}");
}

/// A process has the exit code of the thread that ends last (since Linux 5.17), which must be one
/// of the program's. The agent leaves at the end of the first thread, so that it is not the last.
#[test]
fn the_status_is_that_of_the_programs_last_thread() {
    let program = targets::c("ends_first");
    let ends = [
        ["syscall", "13", "-1", "-", "0"],
        ["syscall", "13", "0", "syscall", "7"],
        ["syscall", "0", "0", "syscall", "13"],
        ["syscall", "0", "100", "inline", "13"],
        ["syscall", "13", "0", "pthread", "0"],
        ["inline", "13", "-1", "-", "0"],
        // The agent thread finds the end of the first thread in its next iteration.
        ["inline", "0", "1000", "inline", "13"],
        ["pthread", "0", "-1", "-", "0"],
        ["pthread", "0", "100", "pthread", "0"],
        ["pthread", "0", "0", "syscall", "13"],
    ];
    for end in ends {
        let command = [&[text(&program)], &end[..]].concat();
        let alone = host(Guest::Nobody, &command);
        let ways = if end[0] == "syscall" { &WAYS[..] } else { &WAYS[..1] };
        prove(ways, &[], |guest| same(host(guest, &command), alone.clone()));
    }
}

/// After the first thread has ended, and the agent's thread with it, the others are sampled from
/// outside, as far as the sampler's start and its budget let it.
#[test]
fn threads_that_outlive_the_first_one_are_sampled() {
    let program = targets::c("ends_first");
    let ways = [("syscall", ""), ("inline", ""), ("pthread", ""), ("syscall", " --no-follow")];
    for (way, options) in ways {
        let watched =
            Batch::new(&format!("--hz 250{options}")).run(&[text(&program), way, "13", "2000", "inline", "13"]);
        let after = watched.raw.cum_ns("prof", |name| name == "burn_after");
        // The sampler looks every 50 ms for what has no agent, and a busy machine delays it.
        assert!((1_500_000_000..=2_100_000_000).contains(&after), "{way}: {after} ns of 2 s; {:?}", watched.raw.lost);
    }
}

/// A process that has lost its first thread already can be attached to.
#[test]
fn a_process_without_its_first_thread_can_be_attached_to() {
    let program = targets::c("ends_first");
    let file = targets::scratch("ends-first").join("a.sigtop");
    let mut target = Command::new(&program).args(["syscall", "0", "60000", "syscall", "0"]).spawn().expect("target");
    let stat = format!("/proc/{}/stat", target.id());
    let has_lost_first = || fs::read_to_string(&stat).is_ok_and(|line| line.contains(") Z "));
    assert!(eventually(Duration::from_secs(30), has_lost_first));
    let mut sigtop = Command::new(SIGTOP);
    sigtop.args(["record", "--duration", "1s", "-o"]).arg(&file).args(["--pid", &target.id().to_string()]);
    let ran = run(&mut sigtop);
    target.kill().and_then(|()| target.wait()).expect("a child");
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let report = run(Command::new(SIGTOP).args(["report", "--text"]).arg(&file)).out();
    assert!(report.contains("burn_after") && report.contains("start_thread"), "{report}");
}

/// A signal that ends a watch without a screen, as `timeout` sends it to sigtop and its target,
/// leaves the table of what was measured.
#[test]
fn a_signal_loses_no_table() {
    let program = targets::c("shares");
    for signal in ["TERM", "HUP"] {
        let mut command = Command::new("timeout");
        command
            .args(["--signal", signal, "2", SIGTOP, "--no-config", "--"])
            .arg(&program)
            .args(["60", "30", "10", "60"]);
        let ran = run(command.stdin(Stdio::null()));
        assert_eq!(ran.code(), 124, "{signal}: {}", ran.err());
        assert!(ran.err().contains("Total samples = ") && ran.err().contains(" flat%"), "{signal}: {}", ran.err());
        assert!(!ran.err().contains("still runs"), "{signal}: {}", ran.err());
    }
    // `timeout` sends the signal twice: the second one must not cut the wait for the program short.
    let path = targets::scratch("timeout").join("saved.folded");
    for _ in 0..5 {
        let mut command = Command::new("timeout");
        command.args(["0.5", SIGTOP, "record", "-o"]).arg(&path).arg("--").arg(&program).args(["60", "30", "10", "60"]);
        let ran = run(command.stdin(Stdio::null()));
        assert!(!ran.err().contains("still runs") && path.exists(), "{}", ran.err());
    }
}

/// The same signal, sent to sigtop alone: it dies of it, and says that the program goes on. One
/// that sigtop was started to ignore, as by nohup, changes nothing.
#[test]
fn a_signal_to_sigtop_alone_leaves_the_program() {
    let directory = targets::scratch("signalled");
    let (table, pid) = (directory.join("table"), directory.join("pid"));
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", SIGTOP, "--no-config", "--table"]);
    command.arg(&table).args(["--", "sh", "-c", "echo $$ > \"$0\"; exec \"$@\""]);
    command.arg(&pid).arg(targets::c("shares")).args(["60", "30", "10", "60"]);
    let mut sigtop = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("sigtop");
    let read_pid = || fs::read_to_string(&pid).ok()?.trim().parse().ok();
    assert!(eventually(LIMIT, || read_pid().is_some()));
    let pid: i32 = read_pid().expect("a pid");
    let has_used =
        |limit_ns| eventually(LIMIT, || sigtop::attach::proc::cpu_ns(pid as u32).is_some_and(|ns| ns > limit_ns));
    // It has used CPU time for many samples.
    assert!(has_used(500_000_000));
    kill(Pid::from_raw(sigtop.id() as i32), Signal::SIGHUP).expect("it runs");
    // More than sigtop waits for a program that gets the same signal.
    assert!(has_used(2_000_000_000));
    assert_eq!(sigtop.try_wait().expect("a child"), None, "it ignores hangups");
    kill(Pid::from_raw(sigtop.id() as i32), Signal::SIGTERM).expect("it runs");
    let status = sigtop.wait().expect("a child");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it still runs");
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32), "{status}");
    let table = fs::read_to_string(table).expect("a table");
    assert!(table.contains("Total samples = ") && table.contains("still runs"), "{table}");
}

/// Whether a program that was watched as this user is still there.
fn is_left(user: u32) -> bool {
    let is_sleep = |path: PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| name == "sleep\n");
    let mut processes = fs::read_dir("/proc").expect("processes").flatten();
    processes.any(|process| process.metadata().is_ok_and(|of| of.uid() == user) && is_sleep(process.path()))
}

/// Where the user may start no further thread, a sentence says so and no program stays behind,
/// whichever thread it is that cannot be started.
#[test]
fn without_threads_there_is_a_sentence_and_no_program_left() {
    if !nix::unistd::geteuid().is_root() {
        return skip("a limit of processes: only root can start programs as a user without any");
    }
    // A user of no other process.
    const USER: u32 = 54_321;
    let as_user = |script: &str| {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".to_owned()]);
        command.args(["sh", "-c", script, SIGTOP]).current_dir("/").env("HOME", "/").stdin(Stdio::null());
        run(&mut command)
    };
    if as_user("test -x \"$0\"").code() != 0 {
        return skip("a limit of processes: other users cannot reach this directory");
    }
    let (mut refused, mut watched) = (0, 0);
    for threads in 2..=16 {
        for watch in ["", "record -o /dev/null --format folded"] {
            let ran = as_user(&format!("exec prlimit --nproc={threads} \"$0\" {watch} --no-config -- sleep 0.2"));
            let said = ran.err();
            match ran.code() {
                0 => watched += 1,
                _ => {
                    assert!(ran.code() == 125 && said.contains("sigtop: "), "{threads} {watch}: {said}");
                    refused += 1;
                }
            }
            assert!(!said.contains("panicked"), "{threads} {watch}: {said}");
            // The program dies of the signal, and the process that waits for it ends with it.
            assert!(eventually(Duration::from_millis(150), || !is_left(USER)), "{threads} {watch}: {said}");
        }
    }
    assert!(refused >= 10 && watched >= 2, "{refused} refused, {watched} watched");
}

/// Without a screen, the demo shows what sigtop does, and ends.
#[test]
fn a_demo_without_a_terminal_prints_a_table() {
    let ran = run(Command::new(SIGTOP).args(["demo", "--no-config"]).stdin(Stdio::null()));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.err().contains("Total samples = ") && ran.err().contains("json::parse"), "{}", ran.err());
}

/// Runs sigtop around a program that would run for a minute. Returns what was said, and whether the
/// program had ended. A program that has not is ended here.
fn end_before_the_program(words: &[&str]) -> (String, bool) {
    let file = targets::scratch("still-runs").join("pid");
    let script = "echo $$ > \"$0\"; exec \"$@\"";
    let program = targets::c("shares");
    let mut command = Command::new(SIGTOP);
    command.args(words).args(["--", "sh", "-c", script]).arg(&file).arg(&program).args(["60", "30", "10", "60"]);
    // The program would keep the pipes of sigtop open.
    let said = file.with_extension("said");
    let status = command.stdout(Stdio::null()).stderr(File::create(&said).expect("ours")).status().expect("sigtop");
    assert!(status.success(), "{words:?}: {status}");
    let pid: i32 = fs::read_to_string(&file).expect("a pid").trim().parse().expect("a pid");
    let has_ended = kill(Pid::from_raw(pid), Signal::SIGKILL).is_err();
    (fs::read_to_string(&said).expect("ours").replace(&pid.to_string(), "PID"), has_ended)
}

/// A program that is launched for a limited number of tables or a limited time is left running
/// unless the user wants it to end, and sigtop says so.
#[test]
fn a_watch_that_ends_before_its_program_says_so_or_ends_it() {
    let recording = targets::scratch("still-runs").join("a.sigtop");
    let ways: [&[&str]; 2] = [
        &["--batch", "--interval", "300ms", "--count", "1"],
        &["record", "--duration", "300ms", "-o", text(&recording)],
    ];
    let still_runs = "sigtop: the program still runs as process PID";
    for way in ways {
        for (on_quit, sentence) in [
            (&[][..], Some("; with --on-quit end, sigtop terminates it\n")),
            (&["--on-quit", "leave"], Some("\n")),
            (&["--on-quit", "end"], None),
        ] {
            let (said, has_ended) = end_before_the_program(&[way, on_quit].concat());
            assert_eq!(has_ended, sentence.is_none(), "{way:?} {on_quit:?}: {said}");
            match sentence {
                Some(rest) => assert!(said.contains(&format!("{still_runs}{rest}")), "{way:?} {on_quit:?}: {said}"),
                None => assert!(!said.contains(still_runs), "{way:?} {on_quit:?}: {said}"),
            }
        }
    }
}
