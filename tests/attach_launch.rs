//! Tests of launching: a target's view under sigtop is compared with its view alone, and the end of
//! the viewer with what the target notices. The viewer is this test program in another process
//! ([`viewer::the_viewer`]), so that it can get any descriptors and any terminal, and can be killed.

#[path = "harness/children.rs"]
mod children;
#[path = "harness/skips.rs"]
mod skips;
#[path = "attach_launch/viewer.rs"]
mod viewer;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use children::with_default_signals;
use crossbeam_channel::unbounded;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::{Pid, mkfifo};
use sigtop::attach::find::ExitWatcher;
use sigtop::attach::launch::{self, ExitReason, TargetEvent, launch};
use sigtop::attach::library::AgentDirectories;
use sigtop::attach::proc::ProcStat;
use sigtop::attach::program::{Program, ProgramKind, resolve_command};
use skips::are_installed;
use viewer::{Scratch, Terminal};

/// A time limit longer than any step takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);
const LINK: &str = "1:2:/nowhere";

#[test]
fn a_target_sees_what_it_would_see_alone() {
    if !are_installed(&["grep", "sed"]) {
        return;
    }
    let scratch = Scratch::new("alone");
    let look = "ls -l /proc/self/fd | sed 's/.* \\([0-9]* -> \\)/\\1/; s/[0-9]*.fd$/PID/; /pipe:/d'
        grep -E '^(Sig|Shd)[A-Z]*[a-z]*:|^NoNew|^Seccomp:|^Umask' /proc/self/status | grep -Ev 'SigCgt|SigQ'
        pwd; nice; umask; ulimit -a; echo \"$@\"; env | grep -v ^_= | sort; exit 3";
    let words = ["sh", "-c", look, "sh", "two words", ""];
    for through in [
        &["sh", "-c", "umask 031; exec nice \"$@\" 9>/dev/null 7</dev/zero", "sh"][..],
        &["sh", "-c", "trap '' PIPE CHLD USR1; exec \"$@\"", "sh"],
    ] {
        let stdout = scratch.0.join("alone");
        let status = with_default_signals(&mut Command::new(through[0]))
            .args(&through[1..])
            .args(words)
            .stdin(Stdio::null())
            .stdout(File::create(&stdout).unwrap())
            .stderr(Stdio::null())
            .status();
        assert_eq!(status.unwrap().code(), Some(3));
        let alone = scratch.read("alone");
        assert!(alone.contains("SigIgn") && alone.contains("two words"), "{alone}");
        for way in ["inherit", "terminal"] {
            let (status, watched) = scratch.redirected(through, way, &words);
            assert_eq!(status, 3, "{way}");
            let ours = |line: &&str| !line.starts_with("LD_PRELOAD=") && *line != "SIGTOP_LINK=1:2:/nowhere";
            let same: Vec<String> = watched.lines().filter(ours).map(without_libc_signals).collect();
            assert_eq!(same, alone.lines().map(without_libc_signals).collect::<Vec<_>>(), "{way}");
            assert_eq!(watched.lines().count(), same.len() + 2, "{way}");
        }
    }
}

/// Removes signal 33, which libc uses for threads: here the viewer runs on a thread, while the real
/// one launches before it has a second thread.
fn without_libc_signals(line: &str) -> String {
    match line.strip_prefix("SigIgn:\t") {
        Some(mask) => format!("SigIgn:\t{:x}", u64::from_str_radix(mask, 16).unwrap() & !(3 << 31)),
        None => line.to_owned(),
    }
}

#[test]
fn blocked_signals_and_closed_descriptors_are_handed_on() {
    if !are_installed(&["grep"]) {
        return;
    }
    let scratch = Scratch::new("blocked");
    let through = ["env", "--block-signal=USR1"];
    let closed = ["sh", "-c", "exec \"$@\" <&-", "sh"];
    for way in ["inherit", "terminal"] {
        let seen = scratch.redirected(&through, way, &["grep", "SigBlk", "/proc/self/status"]);
        assert_eq!(seen, (0, "SigBlk:\t0000000000000200\n".to_owned()), "{way}");
        let look = ["sh", "-c", "[ -e /proc/$$/fd/0 ] && echo open || echo closed"];
        assert_eq!(scratch.redirected(&[], way, &look), (0, "open\n".to_owned()), "{way}");
        assert_eq!(scratch.redirected(&closed, way, &look), (0, "closed\n".to_owned()), "{way}");
    }
}

#[test]
fn endings_become_exit_statuses() {
    let scratch = Scratch::new("endings");
    for way in ["inherit", "terminal"] {
        for (words, status) in [
            (&["true"][..], 0),
            (&["sh", "-c", "exit 200"], 200),
            (&["sh", "-c", "kill -TERM $$"], 143),
            (&["sh", "-c", "kill -KILL $$"], 137),
        ] {
            assert_eq!(scratch.redirected(&[], way, words).0, status, "{way} {words:?}");
        }
    }
}

#[test]
fn the_shell_runs_text_without_a_first_line() {
    let scratch = Scratch::new("text");
    let path = scratch.0.join("text");
    fs::write(&path, "echo $0 $1\n").unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = path.to_str().unwrap();
    for way in ["inherit", "terminal"] {
        assert_eq!(scratch.redirected(&[], way, &[path, "one"]), (0, format!("{path} one\n")), "{way}");
    }
}

#[test]
fn exec_failure_exits_with_126_or_127() {
    let library = AgentDirectories::of_user().library().unwrap();
    let words = [OsString::from("x")];
    for (path, status, cause) in [
        ("/nonexistent/x", 127, "No such file"),
        ("/etc/passwd", 126, "Permission denied"),
        ("/proc", 126, "Permission denied"),
    ] {
        let form = ProgramKind::Binary;
        let program = Program { path: path.into(), form, warnings: Vec::new(), obstacle: None, weakness: None };
        let command = launch::LaunchCommand {
            program: &program,
            words: &words,
            preload: Some(launch::Preload { library: &library, link: Some(LINK.as_ref()) }),
            variables: &[],
            gate: None,
        };
        for stdio in [launch::Stdio::Inherit, launch::Stdio::Terminal { rows: 24, columns: 80 }] {
            let error = launch(&command, stdio).unwrap_err();
            assert_eq!(error.exit_status(), status, "{path} {stdio:?}");
            let said = error.to_string();
            assert!(said.starts_with(&format!("cannot execute {path}: ")) && said.contains(cause), "{said}");
        }
    }
}

#[test]
fn a_target_has_a_terminal_of_its_own() {
    let scratch = Scratch::new("terminal");
    let look = "test -t 0 && test -t 1 && test -t 2 && stty size && tty && tty </dev/tty && cat /proc/$$/stat";
    assert_eq!(scratch.on_terminal(&["sh", "-c", look], ""), 0);
    let output = scratch.read("output");
    let lines: Vec<&str> = output.split("\r\n").collect();
    assert_eq!(lines[0], "33 77");
    assert!(lines[1].starts_with("/dev/pts/") && lines[2] == "/dev/tty", "{output}");
    // The shell's own line: after its name state, parent, group, session, terminal and the
    // foreground group.
    let pid = lines[3].split(' ').next().unwrap();
    let fields: Vec<&str> = lines[3].rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!((fields[2], fields[5]), (pid, pid), "leads the foreground group: {output}");
}

#[test]
fn only_streams_that_were_terminals_become_terminals() {
    let scratch = Scratch::new("mixed");
    let terminal = Terminal::new();
    fs::write(scratch.0.join("stdout"), b"").unwrap();
    let words = ["sh", "-c", "test -t 0 && ! test -t 1 && test -t 2 && echo out && echo error >&2"];
    let mut viewer = terminal.attach(&mut scratch.viewer(&[], "terminal", &words, ""));
    assert!(viewer.wait().unwrap().success());
    assert_eq!((scratch.read("stdout").as_str(), scratch.read("output").as_str()), ("out\n", "error\r\n"));
}

#[test]
fn typing_reaches_the_target_and_comes_back() {
    let scratch = Scratch::new("cat");
    assert_eq!(scratch.on_terminal(&["cat"], "type hello^M\nawait hello\r\nawait hello\r\ntype ^D"), 0);
    assert_eq!(scratch.read("output"), "hello\r\nhello\r\n");
}

#[test]
fn control_c_is_an_interrupt() {
    let scratch = Scratch::new("interrupt");
    let words = ["sh", "-c", "trap 'echo interrupted; exit 7' INT; echo ready; read line"];
    assert_eq!(scratch.on_terminal(&words, "await ready\ntype ^C"), 7);
    assert!(scratch.read("output").ends_with("interrupted\r\n"));
}

#[test]
fn a_resize_reaches_the_target() {
    let scratch = Scratch::new("resize");
    let words = ["sh", "-c", "trap 'stty size; kill $!; exit 0' WINCH; sleep 60 & echo ready; wait"];
    assert_eq!(scratch.on_terminal(&words, "await ready\nresize 12 34"), 0);
    assert_eq!(scratch.read("output"), "ready\r\n12 34\r\n");
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let scratch = Scratch::new("signal");
    let words = ["sh", "-c", "sh -c 'trap \"echo inner; exit\" TERM; echo ready; read line'; echo unreachable"];
    assert_eq!(scratch.on_terminal(&words, "await ready\nsignal 15"), 143);
    assert_eq!(scratch.read("output"), "ready\r\ninner\r\n");
}

#[test]
fn a_stopped_target_is_reported_and_continues() {
    let scratch = Scratch::new("stopped");
    let words = ["sh", "-c", "echo ready; read line; echo $line"];
    let script = "await ready\ntype ^Z\nawait-event stopped-20\nsignal 18\nawait-event continued\ntype yes^M";
    assert_eq!(scratch.on_terminal(&words, script), 0);
    assert!(scratch.read("output").ends_with("yes\r\n"), "{:?}", scratch.read("output"));
}

#[test]
fn ten_megabytes_arrive_byte_for_byte() {
    let scratch = Scratch::new("bytes");
    assert_eq!(scratch.on_terminal(&["seq", "1", "1400000"], ""), 0);
    let expected: String = (1..=1_400_000).map(|number| format!("{number}\r\n")).collect();
    assert!(expected.len() > 10_000_000);
    assert!(scratch.read("output") == expected);
    assert_eq!(scratch.read("events"), format!("ended after-{}-bytes", expected.len()));
}

#[test]
fn background_processes_keep_the_terminal_after_the_target_ends() {
    let scratch = Scratch::new("orphan");
    let words = ["sh", "-c", "echo early; (trap 'echo hung up; exit' HUP; read line <fifo; echo late) &"];
    mkfifo(&scratch.0.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let terminal = Terminal::new();
    let mut command = scratch.viewer(&[], "terminal", &words, "await-event ended");
    let mut viewer = terminal.attach(command.current_dir(&scratch.0));
    fs::write(scratch.0.join("fifo"), "go\n").unwrap();
    assert!(viewer.wait().unwrap().success());
    assert_eq!(scratch.read("output"), "early\r\nlate\r\n");
}

/// A target that reports through a FIFO who keeps it and how its loop of writes to the terminal
/// ended. It runs until `go` comes through another FIFO, and then a second more.
const WRITER: &str = "exec 9>report; echo $PPID >&9
    (while read word <go; do break; done; echo gone >here) &
    failed=0; left=100
    while [ $left -gt 0 ]; do echo line || failed=1; [ -e here ] && left=$((left - 1)); sleep 0.01; done
    echo ended with $failed >&9";

/// Ends the viewer in some way while its target writes. The target must not notice, and nothing may
/// stay behind.
fn survives(name: &str, way: &str, through: &[&str], go: impl FnOnce(&mut Child, Terminal)) {
    let scratch = Scratch::new(name);
    let report = scratch.0.join("report");
    mkfifo(&report, nix::sys::stat::Mode::S_IRWXU).unwrap();
    mkfifo(&scratch.0.join("go"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let terminal = Terminal::new();
    if way == "inherit" {
        fs::write(scratch.0.join("stdout"), b"").unwrap();
    }
    let mut command = scratch.viewer(through, way, &["sh", "-c", WRITER], "");
    let mut viewer = terminal.attach(command.current_dir(&scratch.0));
    let mut report = File::open(&report).unwrap();
    let mut text = String::new();
    while !text.ends_with('\n') {
        let mut byte = [0];
        report.read_exact(&mut byte).unwrap();
        text.push(byte[0].into());
    }
    let parent: u32 = text.trim().parse().unwrap();
    let watch = ExitWatcher::new(parent, ProcStat::of(parent).unwrap().start_ticks);
    go(&mut viewer, terminal);
    viewer.wait().unwrap();
    fs::write(scratch.0.join("go"), "go\n").unwrap();
    report.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("ended with 0\n"), "{text}");
    assert!(watch.wait(LONG), "the keeper stays");
}

#[test]
fn a_target_with_a_terminal_survives_a_killed_viewer() {
    survives("killed", "terminal", &[], |viewer, _| viewer.kill().unwrap());
}

#[test]
fn a_target_with_a_terminal_survives_its_users_terminal() {
    if !are_installed(&["setsid"]) {
        return;
    }
    survives("closed", "terminal", &["setsid", "-c"], |_, terminal| drop(terminal));
}

#[test]
fn a_target_without_a_terminal_survives_a_killed_viewer() {
    survives("batch", "inherit", &[], |viewer, _| viewer.kill().unwrap());
}

#[test]
fn batch_mode_leaves_interrupts_to_the_target() {
    if !are_installed(&["setsid"]) {
        return;
    }
    let scratch = Scratch::new("batch-interrupt");
    let terminal = Terminal::new();
    let words = ["sh", "-c", "trap 'exit 7' INT; echo ready >report; read line"];
    let report = scratch.0.join("report");
    mkfifo(&report, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let prefix = ["setsid", "-c", "-w"];
    let mut command = scratch.viewer(&prefix, "inherit", &words, "");
    let mut viewer = terminal.attach(command.current_dir(&scratch.0));
    fs::read(&report).unwrap();
    File::from(terminal.master.try_clone().unwrap()).write_all(b"\x03").unwrap();
    assert_eq!(viewer.wait().unwrap().code(), Some(7));
    assert!(scratch.read("events").starts_with("ended"));
}

#[test]
fn killing_the_keeper_hangs_up_the_target_with_an_unknown_reason() {
    let (program, library) =
        (resolve_command(&["sleep".into()]).unwrap(), AgentDirectories::of_user().library().unwrap());
    let words = ["sleep", "600"].map(OsString::from);
    let command = launch::LaunchCommand {
        program: &program,
        words: &words,
        preload: Some(launch::Preload { library: &library, link: Some(LINK.as_ref()) }),
        variables: &[],
        gate: None,
    };
    // The target inherits the disposition, and nohup ignores the signal.
    // SAFETY: the default action is no handler.
    unsafe { signal(Signal::SIGHUP, SigHandler::SigDfl) }.unwrap();
    let target = launch(&command, launch::Stdio::Terminal { rows: 24, columns: 80 }).unwrap();
    let watcher = ExitWatcher::new(target.pid, ProcStat::of(target.pid).unwrap().start_ticks);
    let keeper = ProcStat::of(target.pid).unwrap().parent;
    assert_eq!(ProcStat::of(keeper).unwrap().comm, "sigtop-keeper");
    let (sender, events) = unbounded();
    let thread = target.follow(sender, unbounded().0).unwrap();
    kill(Pid::from_raw(keeper as i32), Signal::SIGKILL).unwrap();
    let TargetEvent::Ended(ended) = events.recv_timeout(LONG).unwrap() else { panic!("no end") };
    assert_eq!(ended.how, ExitReason::Unknown);
    thread.join().unwrap();
    let has_ended = watcher.wait(LONG);
    if !has_ended {
        kill(Pid::from_raw(target.pid as i32), Signal::SIGKILL).unwrap();
    }
    assert!(has_ended, "its terminal hung up");
}

#[test]
fn the_keeper_holds_only_what_it_needs() {
    let (program, library) =
        (resolve_command(&["sleep".into()]).unwrap(), AgentDirectories::of_user().library().unwrap());
    let words = ["sleep", "60"].map(OsString::from);
    let command = launch::LaunchCommand {
        program: &program,
        words: &words,
        preload: Some(launch::Preload { library: &library, link: Some(LINK.as_ref()) }),
        variables: &[],
        gate: None,
    };
    let extra = File::open("/dev/zero").unwrap();
    let target = launch(&command, launch::Stdio::Terminal { rows: 24, columns: 80 }).unwrap();
    drop(extra);
    let keeper = ProcStat::of(target.pid).unwrap().parent;
    let held =
        |descriptor: fs::DirEntry| fs::read_link(descriptor.path()).map(|path| path.to_string_lossy().into_owned());
    let held: Vec<String> =
        fs::read_dir(format!("/proc/{keeper}/fd")).unwrap().flatten().filter_map(|entry| held(entry).ok()).collect();
    let count = |part: &str| held.iter().filter(|path| path.starts_with(part)).count();
    assert_eq!((count("/dev/null"), count("socket:"), count("anon_inode:[signalfd]")), (3, 1, 1), "{held:?}");
    assert_eq!(count("/dev/pt"), 2, "{held:?}");
    assert_eq!(held.len(), 7, "{held:?}");
    assert_eq!(fs::read_link(format!("/proc/{keeper}/cwd")).unwrap(), Path::new("/"));
    target.signal(15).unwrap();
    let (sender, events) = unbounded();
    target.follow(sender, unbounded().0).unwrap().join().unwrap();
    assert!(events.iter().any(|event| matches!(event, TargetEvent::Ended(ended) if ended.how.exit_status() == 143)));
}
