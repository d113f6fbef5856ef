//! The target cannot tell that it is watched: its output, inherited state, files and exit are the
//! same as without sigtop. Each check is also run against a bad preload that makes the mistakes of
//! a careless profiler, and must fail there.

mod host;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use object::endian::Endianness;
use object::read::elf::ElfFile64;

use crate::harness::inspect::{self, Seen};
use crate::harness::run::{LIMIT, SIGTOP, run, text, tool};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;
pub(crate) use host::{Guest, Shown, WAYS, agent, eventually, host, prove, same, watch_unharmed};

/// A loader does not start a program if a preloaded library asks for a version that its libc lacks.
#[test]
fn the_agent_loads_beside_a_libc_of_2012() {
    let bytes = fs::read(agent()).expect("the agent's file");
    let file = ElfFile64::<Endianness>::parse(&*bytes).expect("a library");
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let (mut libraries, names) = sections.gnu_verneed(endian, &*bytes).expect("versions").expect("versions");
    let names = sections.strings(endian, &*bytes, names).expect("names");
    let mut versions = Vec::new();
    while let Some((_, mut needed)) = libraries.next().expect("a version") {
        while let Some(version) = needed.next().expect("a version") {
            versions.push(String::from_utf8_lossy(version.name(endian, names).expect("a name")).into_owned());
        }
    }
    let minor = |version: &String| version.strip_prefix("GLIBC_2.")?.split('.').next()?.parse::<u32>().ok();
    let is_old = |version: &String| minor(version).is_some_and(|minor| minor <= 17);
    assert!(!versions.is_empty() && versions.iter().all(is_old), "{versions:?}");
}

/// While a timer of the process's CPU clock is armed, the kernel updates that clock only at
/// scheduler ticks: at most 200 times a second. setitimer(2) creates such a timer.
#[test]
fn process_cpu_clock_keeps_its_resolution() {
    let target = targets::c("process_clock");
    let per_thread = ["--clock prof", "--clock real"].map(Guest::Batch);
    let keeps_it = |guest| {
        let shown = host(guest, &[text(&target)]);
        let counts: Vec<(&str, u64)> = shown
            .stdout
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(phase, changes)| (phase, changes.parse().expect("a count")))
            .collect();
        same(counts.iter().map(|(phase, _)| *phase).collect::<Vec<_>>(), vec!["one-thread", "two-threads", "child"])?;
        match counts.iter().find(|(_, changes)| *changes < 2_000) {
            None => Ok(()),
            Some((phase, changes)) => Err(format!("the clock changed {changes} times in the phase {phase}")),
        }
    };
    prove(&[&[Guest::Nobody], &per_thread[..]].concat(), &["bad_timer"], keeps_it);
    let interval_timer = keeps_it(Guest::Batch("--engine itimer"));
    assert!(interval_timer.is_err(), "SECURITY.md says that setitimer(2) makes this clock coarse");
}

/// The agent passes through calls that its thread or a system call of its handler would break, and
/// sampling continues. After a seccomp filter for all threads, or one that forbids handlers to
/// return, nothing is sampled.
#[test]
fn the_agent_steps_aside() {
    let (aside, wrapper) = (targets::c("aside"), targets::c("rusage"));
    let both: &[&str] = &["burn_before", "burn_after"];
    let modes = [
        ("user-namespace", both),
        ("filter", both),
        ("fork", both),
        ("seccomp", both),
        ("probed", both),
        ("early", &both[1..]),
        ("inline", both),
        ("tsync", &both[..1]),
        ("no-return", &both[..1]),
        ("count", both),
    ];
    for (call, burnt) in modes {
        let command = [text(&aside), call];
        let alone = host(Guest::Nobody, &[text(&aside), call, "10"]);
        assert!(alone.code == 7 && !alone.stdout.contains("child 1"), "{alone:?}");
        let clocks = ["--hz 1000", "--hz 250", "--clock real --hz 250", "--engine itimer --hz 250"];
        // An interval timer belongs to the process: it ticks until the agent thread has noticed the
        // filter.
        let clocks = if call == "inline" { &clocks[..3] } else { &clocks[..] };
        // A wrapper measures the first run. It prints nothing and ends as the program does.
        let times = targets::scratch("times").join("times");
        let measured = [&[text(&wrapper), text(&times)], &command[..]].concat();
        let watched = watch_unharmed(&[Guest::Batch(clocks[0])], &measured, &alone);
        let guests: Vec<Guest> = clocks[1..].iter().map(|options| Guest::Batch(options)).collect();
        // The agent thread looks around ten times a second, also before and after a shorter time.
        let short = [text(&aside), call, "120"];
        prove(&guests, &[], |guest| same(host(guest, &short), alone.clone()));
        // On a busy machine, the agent thread needs some periods to leave and to come back. The
        // next sample then has the time that was not sampled meanwhile, or it is counted as lost.
        let in_burn = |burn: &&str| watched.raw.cum_ns("prof", |name| name == *burn) / 1_000_000;
        let ms: Vec<u64> = burnt.iter().map(in_burn).collect();
        let (sum_ms, lost_ms) = (ms.iter().sum::<u64>(), watched.raw.lost_all().1 / 1_000_000);
        // The kernel's own figures: user and system time of the program, ns.
        let line = fs::read_to_string(&times).expect("the wrapper wrote it");
        let all_ms = line.split(' ').take(2).map(|ns| ns.parse::<u64>().expect("ns")).sum::<u64>() / 1_000_000;
        let count = ms.len() as u64;
        let is_whole = sum_ms + lost_ms >= 240 * count && sum_ms <= (all_ms + 4).min(300 * count + 60);
        assert!(
            is_whole && ms.iter().all(|ms| *ms >= 150),
            "{call}: {ms:?} ms of 300 each in {burnt:?}, {all_ms} ms of CPU time; lost {:?}",
            watched.raw.lost
        );
    }
    // If user namespaces are permitted at all, only a remaining thread makes their creation fail.
    let namespace = [text(&aside), "user-namespace", "10"];
    if host(Guest::Nobody, &namespace).stdout == "done\n" {
        let spoiled = host(Guest::Bad("bad_pthread"), &namespace);
        assert!(spoiled.stdout.starts_with("refused"), "{spoiled:?}");
    }
    let counted = host(Guest::Bad("bad_pthread"), &[text(&aside), "count", "10"]);
    assert!(counted.stdout.starts_with("refused"), "{counted:?}");
}

/// A library that is initialized before the agent calls functions that the agent interposes.
#[test]
fn constructors_that_run_before_the_agents_find_every_function() {
    let library = targets::preload("early_calls");
    let script = "LD_PRELOAD=\"$LD_PRELOAD:$0\" exec true";
    let command = ["sh", "-c", script, text(&library)];
    let alone = host(Guest::Nobody, &command);
    assert_eq!((alone.code, alone.stdout.as_str()), (0, "mask 0, name 0, stat 0, directory 1, pid 1\n"));
    prove(&WAYS, &[], |guest| same(host(guest, &command), alone.clone()));
}

#[test]
fn status_and_output_are_the_targets_own() {
    let ends = targets::c("ends");
    for way in [["exit", "3"], ["_exit", "4"], ["signal", "15"], ["signal", "9"], ["signal", "6"], ["thread", "9"]] {
        for time in ["0", "100"] {
            let command = [text(&ends), time, way[0], way[1]];
            let alone = host(Guest::Nobody, &command);
            prove(&[Guest::Batch("--hz 250"), Guest::Batch("--clock real --hz 250")], &[], |guest| {
                same(host(guest, &command), alone.clone())
            });
        }
    }
    let command = [text(&ends), "150", "exit", "3"];
    let alone = host(Guest::Nobody, &command);
    prove(&[Guest::Screen], &[], |guest| same(host(guest, &command), alone.clone()));
}

#[test]
fn descriptors_are_inherited_as_without_us() {
    let binary = targets::c("descriptors");
    // Pipes and files of a run have their own names.
    let shape = |guest| {
        let shown = host(guest, &[text(&binary)]);
        let line = |line: &str| {
            let words: Vec<&str> = line.splitn(3, ' ').collect();
            let standard = words[1].parse().is_ok_and(|number: u32| number <= 2);
            let target = if standard { "standard" } else { words[2].split('[').next().unwrap_or("") };
            format!("{} {} {target}", words[0], words[1])
        };
        shown.stdout.lines().map(line).collect::<Vec<String>>()
    };
    let alone = shape(Guest::Nobody);
    assert!(alone.len() >= 9, "{alone:?}");
    prove(&[Guest::Batch("--hz 250"), Guest::Screen], &["bad_fd"], |guest| same(shape(guest), alone.clone()));
}

#[test]
fn files_opened_after_closing_everything_are_untouched() {
    let binary = targets::c("fds");
    let files = |guest| {
        let directory = targets::scratch("fds");
        let shown = host(guest, &[text(&binary), text(&directory), "0.5"]);
        let contents: Vec<Vec<u8>> =
            (0..8).map(|i| fs::read(directory.join(format!("file{i}"))).unwrap_or_default()).collect();
        (shown, contents)
    };
    let alone = files(Guest::Nobody);
    assert!(alone.1.iter().all(|file| file.len() > 4000), "{:?}", alone.0);
    prove(&[Guest::Batch("--hz 1000"), Guest::Batch("--clock real --hz 1000")], &["bad_fd"], |guest| {
        same(files(guest), alone.clone())
    });
}

/// The agent thread starts without the target's files and working directory: a lock is released
/// with its descriptor, and a pipe is closed with its last writer.
#[test]
fn a_closed_file_is_closed_while_the_agent_is_born() {
    let (binary, directory) = (targets::c("holds"), targets::scratch("holds"));
    let command = [text(&binary), "files", text(&directory), "200"];
    let alone = host(Guest::Nobody, &[&command[..3], &["10"]].concat());
    assert_eq!(alone.stdout, "held 0\n", "{alone:?}");
    prove(&[Guest::Batch("--hz 1000"), Guest::Batch("--clock real --hz 250")], &[], |guest| {
        same(host(guest, &command), alone.clone())
    });
}

#[test]
fn a_file_system_that_the_target_left_can_be_unmounted() {
    let (binary, directory) = (targets::c("holds"), targets::scratch("mount"));
    let command = [text(&binary), "mount", text(&directory)];
    let alone = host(Guest::Nobody, &command);
    if alone.stdout == "no mounts here\n" {
        return skip("this user may not mount");
    }
    assert_eq!(alone.stdout, "unmounted\n", "{alone:?}");
    prove(&WAYS, &[], |guest| same(host(guest, &command), alone.clone()));
}

#[test]
fn fifteen_execs_survive_every_clock_and_engine() {
    let binary = targets::c("execs");
    let command = [text(&binary), "slow", "15"];
    let alone = host(Guest::Nobody, &command);
    assert_eq!((alone.code, alone.stdout.as_str()), (7, "executed 15\n"));
    prove(&WAYS, &["bad_itimer"], |guest| same(host(guest, &command), alone.clone()));
}

#[test]
fn two_thousand_execs_survive_the_wall_clock() {
    let binary = targets::c("execs");
    let command = [text(&binary), "fast", "2000"];
    let alone = host(Guest::Nobody, &command);
    assert_eq!((alone.code, alone.stdout.as_str()), (7, "executed 2000\n"));
    prove(&[Guest::Batch("--clock real --hz 1000")], &["bad_kill"], |guest| same(host(guest, &command), alone.clone()));
}

#[test]
fn programs_started_by_the_target_survive() {
    let binary = targets::c("spawns");
    let command = [text(&binary), "6"];
    let alone = host(Guest::Nobody, &command);
    prove(&WAYS, &["bad_itimer"], |guest| same(host(guest, &command), alone.clone()));
}

#[test]
fn fork_children_that_reset_every_handler_survive() {
    let binary = targets::c("forkers");
    let command = [text(&binary), "10"];
    let alone = host(Guest::Nobody, &command);
    assert_eq!(alone.stdout.matches("exited 0").count(), 10, "{alone:?}");
    prove(&[WAYS[0], WAYS[1], WAYS[2]], &["bad_itimer"], |guest| same(host(guest, &command), alone.clone()));
}

#[test]
fn libc_believes_in_one_thread() {
    let binary = targets::c("single");
    let check = |guest| same(host(guest, &[text(&binary)]).stdout, "single 1\n".to_owned());
    prove(&[Guest::Nobody, Guest::Batch("--hz 250"), Guest::Batch("--clock real --hz 250")], &["bad_pthread"], check);
}

#[test]
fn a_cpp_program_computes_the_same() {
    let Some(_) = tool("c++") else { return };
    let binary = targets::cpp("work");
    let alone = host(Guest::Nobody, &[text(&binary), "2000"]);
    prove(&[Guest::Batch("--hz 1000"), Guest::Batch("--clock real --hz 1000")], &[], |guest| {
        same(host(guest, &[text(&binary), "2000"]), alone.clone())
    });
}

#[test]
fn a_target_with_its_own_sigprof_keeps_it() {
    let binary = targets::c("sigprof_own");
    let check = |guest| {
        let shown = host(guest, &[text(&binary), "0.6"]);
        let ticks = shown.stdout.lines().find_map(|line| line.strip_prefix("ticks ")?.parse::<u32>().ok());
        match (ticks, shown.stdout.contains("handler mine"), shown.code) {
            // The kernel rounds to its own tick.
            (Some(45..=90), true, 0) => Ok(()),
            _ => Err(format!("{shown:?}, about 60 ticks expected")),
        }
    };
    prove(&[Guest::Nobody, Guest::Batch("--hz 250"), Guest::Batch("--clock real --hz 250")], &[], check);
}

/// Starts a preloaded target, inspects it once it is ready, and ends it.
fn unwatched(preload: Option<&Path>, command: &[&str], said: &str) -> Seen {
    let mut target = Command::new(command[0]);
    target.args(&command[1..]);
    if let Some(preload) = preload {
        target.env("LD_PRELOAD", preload);
    }
    let mut terminal = Terminal::start(80, 24, &target);
    terminal.see(said);
    inspect::look(terminal.pid())
}

#[test]
fn preloaded_and_unwatched_leaves_nothing_to_see() {
    // The target uses 300 ms of CPU time, prints its line and waits to be ended.
    let script = format!("{} && read never", text(&targets::c("single")));
    let busy = ["sh", "-c", &script];
    let sleeper = [text(&targets::c("longsleep")).to_owned(), "60".to_owned()];
    let sleeper: Vec<&str> = sleeper.iter().map(String::as_str).collect();
    let agent = agent();
    for (command, said) in [(&busy[..], "single 1"), (&sleeper[..], "asleep")] {
        let alone = unwatched(None, command, said);
        assert_eq!(unwatched(Some(&agent), command, said), alone, "{command:?}");
        for bad in ["bad_pthread", "bad_fd", "bad_timer"] {
            let seen = unwatched(Some(&targets::preload(bad)), &sleeper, "asleep");
            assert_ne!(seen, unwatched(None, &sleeper, "asleep"), "the check does not object to {bad}");
        }
    }
}

#[test]
fn attached_and_left_a_hundred_times_it_is_as_before() {
    let directory = targets::scratch("attach");
    // It computes for a fifth of the time.
    let mut target = Command::new(targets::rust("println"));
    target.arg("60000").arg(directory.join("done")).env("LD_PRELOAD", agent()).stdout(Stdio::null());
    let mut target = target.spawn().expect("a target");
    let pid = target.id().to_string();
    assert!(eventually(LIMIT, || inspect::is_at_work(target.id())));
    let before = inspect::look(target.id());
    let table = directory.join("table");
    for round in 0..100 {
        let ran = run(Command::new(SIGTOP)
            .args(["--pid", &pid, "--interval", "50ms", "--count", "1", "--hz", "250", "--table"])
            .arg(&table));
        assert_eq!(ran.code(), 0, "round {round}: {}", ran.err());
    }
    let gone = eventually(Duration::from_secs(2), || inspect::look(target.id()) == before);
    let after = inspect::look(target.id());
    // The target can be watched as usual afterwards.
    run(Command::new(SIGTOP)
        .args(["--pid", &pid, "--interval", "1s", "--count", "1", "--hz", "250", "--table"])
        .arg(&table));
    let last = fs::read_to_string(&table).unwrap_or_default();
    target.kill().expect("ours");
    target.wait().expect("ours");
    assert!(gone, "before {before:?}, after {after:?}");
    assert!(last.contains("println::burn"), "the last attach saw nothing:\n{last}");
}

/// A target that prints continuously under sigtop's screen, whose viewer disappears. The target's
/// exit is written to a file.
fn left_alone(options: &[&str], leave: impl FnOnce(Terminal)) -> Result<(), String> {
    let directory = targets::scratch("left");
    let (status, done) = (directory.join("status"), directory.join("done"));
    let mut sigtop = Command::new(SIGTOP);
    sigtop.args(options).arg(targets::c("rusage")).arg(&status).arg(targets::rust("println")).arg("300").arg(&done);
    let mut terminal = Terminal::start(120, 30, &sigtop);
    terminal.see("println::burn");
    leave(terminal);
    if !eventually(LIMIT, || status.exists()) {
        return Err("the target does not end".to_owned());
    }
    let status = fs::read_to_string(&status).expect("it exists");
    let done = fs::read_to_string(&done).unwrap_or_default();
    if status.ends_with("exited 0\n") && done == "done" { Ok(()) } else { Err(format!("{status} {done}")) }
}

#[test]
fn the_target_outlives_a_killed_viewer() {
    let kill_viewer = |mut terminal: Terminal| {
        terminal.signal(Signal::SIGKILL);
        terminal.finish();
    };
    left_alone(&["--"], kill_viewer).unwrap();
}

#[test]
fn a_target_that_ignores_sighup_outlives_a_closed_terminal() {
    let hang_up = |terminal: Terminal| {
        terminal.hang_up();
    };
    left_alone(&["--", "sh", "-c", "trap '' HUP; exec \"$@\"", "sh"], hang_up).unwrap();
}

#[test]
fn on_quit_leave_lets_the_target_outlive_a_closed_terminal() {
    let hang_up = |terminal: Terminal| {
        terminal.hang_up();
    };
    left_alone(&["--on-quit", "leave", "--"], hang_up).unwrap();
}

/// Returns whether a process has this argument.
fn is_alive_with(argument: &Path) -> bool {
    let argument = text(argument).as_bytes();
    let processes = fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        // Matches only the target: sigtop, its keeper and setsid have it among their arguments too.
        let is_target = line.starts_with(text(&targets::rust("println")).as_bytes());
        (is_target && line.split(|&byte| byte == 0).any(|word| word == argument)).then_some(())
    });
    processes.count() > 0
}

/// When the viewer's terminal disappears, the target ends by SIGHUP, as with any terminal, even if
/// it is stopped. A shell repeats the kernel's SIGHUP; that must not keep sigtop from forwarding
/// the first one.
#[test]
fn a_closed_terminal_hangs_up_on_the_target() {
    let hang_up = |terminal: Terminal| {
        terminal.hang_up();
    };
    let signal_twice = |mut terminal: Terminal| {
        for _ in 0..2 {
            // The first signal may have ended it.
            let _ = kill(Pid::from_raw(terminal.pid() as i32), Signal::SIGHUP);
        }
        terminal.finish();
    };
    let stop_first = |terminal: Terminal| {
        let pid = terminal.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("CONFIG_PROC_CHILDREN");
        let keeper = children.split_whitespace().next().expect("a keeper").to_owned();
        let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).expect("a keeper");
        let target = children.trim().parse().expect("a target");
        kill(Pid::from_raw(target), Signal::SIGSTOP).expect("ours");
        terminal.hang_up();
    };
    type Leave<'a> = &'a dyn Fn(Terminal);
    let ways: [(&str, &str, Leave); 4] = [
        ("hang up", "ask", &hang_up),
        ("hang up to end", "end", &hang_up),
        ("two signals", "end", &signal_twice),
        ("stopped", "ask", &stop_first),
    ];
    for (way, on_quit, leave) in ways {
        let done = targets::scratch("hung-up").join("done");
        let mut sigtop = Command::new(SIGTOP);
        sigtop.args(["--on-quit", on_quit, "--"]).arg(targets::rust("println")).arg("3000").arg(&done);
        let mut terminal = Terminal::start(120, 30, &sigtop);
        terminal.see("println::burn");
        assert!(is_alive_with(&done));
        leave(terminal);
        assert!(eventually(LIMIT, || !is_alive_with(&done)), "{way}: the target runs on");
        assert!(!done.exists(), "{way}");
    }
}

/// A target that sigtop is attached to has its own terminal and is independent of the viewer's.
#[test]
fn a_closed_terminal_is_nothing_to_an_attached_target() {
    let mut target = Command::new(targets::c("shares"));
    target.args(["60", "30", "10", "60"]).env("LD_PRELOAD", agent()).stdout(Stdio::null());
    let mut target = target.spawn().expect("a target");
    let pid = target.id().to_string();
    let mut viewer = Terminal::start(100, 30, Command::new(SIGTOP).args(["--on-quit", "end", "--pid", &pid]));
    viewer.see("burn_a");
    viewer.hang_up();
    let ended = target.try_wait().expect("ours");
    target.kill().expect("ours");
    target.wait().expect("ours");
    assert_eq!(ended, None);
}

/// A target without a keeper does not survive: this proves that the checks above can fail.
#[test]
fn a_target_on_a_closed_terminal_dies() {
    let done = targets::scratch("hangup").join("done");
    let mut terminal = Terminal::start(80, 24, Command::new(targets::rust("println")).arg("300").arg(&done));
    terminal.see("line 3");
    assert_ne!(terminal.hang_up().code(), Some(0));
    assert!(!done.exists());
}

/// Timers are disarmed within a second after the viewer disappears.
#[test]
fn timers_are_off_a_second_after_the_viewer() {
    let mut target = Command::new(targets::c("shares"));
    target.args(["60", "30", "10", "60"]).env("LD_PRELOAD", agent()).stdout(Stdio::null());
    let mut target = target.spawn().expect("a target");
    assert!(eventually(LIMIT, || inspect::is_at_work(target.id())));
    let before = inspect::look(target.id());
    let mut viewer = Terminal::start(100, 30, Command::new(SIGTOP).args(["--pid", &target.id().to_string()]));
    viewer.see("burn_a");
    let watched = inspect::look(target.id());
    viewer.signal(Signal::SIGKILL);
    viewer.finish();
    // One second, plus time to check.
    let off = eventually(Duration::from_millis(1200), || inspect::look(target.id()) == before);
    let after = inspect::look(target.id());
    target.kill().expect("ours");
    target.wait().expect("ours");
    assert!(watched != before, "nothing to see while watched");
    assert!(off, "before {before:?}, after {after:?}");
}
