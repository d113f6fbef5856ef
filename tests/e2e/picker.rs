//! Targets chosen from the list of live processes, by name, and several at a time.

use std::process::{Child, Command, Stdio};

use crate::harness::run::{SIGTOP, run};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// A target that carries the agent; it is killed at the end of its test.
struct Carrier(Child);

impl Carrier {
    fn start(program: &std::path::Path, arguments: &[&str]) -> Carrier {
        let agent = run(Command::new(SIGTOP).args(["env", "--path"])).out().trim().to_owned();
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", agent).stdout(Stdio::null()).stderr(Stdio::null());
        Carrier(command.spawn().expect("the target"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Copies the burner to a name that no other test's targets have.
fn burner(name: &str) -> std::path::PathBuf {
    let copy = targets::scratch("picker").join(name);
    std::fs::copy(targets::c("shares"), &copy).expect("a copy");
    copy
}

fn on_terminal(arguments: &[&str]) -> Terminal {
    Terminal::start(120, 30, Command::new(SIGTOP).arg("--no-config").args(arguments))
}

#[test]
fn the_list_is_filtered_and_enter_watches() {
    let name = format!("pick-{}", std::process::id());
    let target = Carrier::start(&burner(&name), &["60", "30", "10", "60"]);
    let mut plain = Command::new("sleep").arg("61.5").spawn().expect("sleep");
    let mut terminal = on_terminal(&[]);
    terminal.see("can be watched");
    terminal.keys("61.5");
    terminal.see("from outside");
    terminal.keys("\x15");
    terminal.keys(&name);
    terminal.wait("the burner alone, at work", |screen| {
        let text = screen.contents();
        text.contains("1 of 1 matching") && text.contains(&target.pid()) && text.contains("agent")
    });
    terminal.keys("\r");
    terminal.see("burn_a");
    terminal.see("CPU time");
    terminal.keys("q");
    assert_eq!(terminal.finish().code(), Some(0));
    plain.kill().and_then(|()| plain.wait()).expect("sleep");
}

#[test]
fn the_list_gives_the_terminal_back() {
    for keys in ["q", "\x1b", "\x03"] {
        let mut terminal = on_terminal(&[]);
        terminal.see("can be watched");
        assert!(!terminal.is_as_before());
        terminal.keys(keys);
        assert_eq!(terminal.finish().code(), Some(0), "{keys:?}");
        assert!(terminal.is_as_before() && !terminal.screen().alternate_screen(), "{keys:?}");
    }
    let mut terminal = on_terminal(&[]);
    terminal.see("can be watched");
    terminal.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(terminal.finish().code(), Some(128 + 15));
    assert!(terminal.is_as_before());
}

#[test]
fn a_name_is_a_process_or_a_question() {
    let name = format!("named-{}", std::process::id());
    let program = burner(&name);
    let one = Carrier::start(&program, &["60", "30", "10", "60"]);
    let mut terminal = on_terminal(&["--pid", &name]);
    terminal.see("burn_a");
    terminal.keys("q");
    terminal.finish();
    let two = Carrier::start(&program, &["60", "30", "10", "60"]);
    // Without a screen, a sentence names both of them.
    let ran = run(Command::new(SIGTOP).args(["--pid", &name]));
    assert_eq!(ran.code(), 126);
    let mut pids = [one.0.id(), two.0.id()];
    pids.sort_unstable();
    let sentence = format!("2 processes are called {name}; name one, or several: sigtop --pid {},{}", pids[0], pids[1]);
    assert!(ran.err().contains(&sentence), "{}", ran.err());
    // With a screen, both of them are listed.
    let mut terminal = on_terminal(&["--pid", &name]);
    terminal.see("2 of 2 matching");
    terminal.keys("\x1b[F\r");
    terminal.see("burn_a");
    terminal.keys("q");
    terminal.finish();
    let ran = run(Command::new(SIGTOP).args(["--pid", "no-such-name-here"]));
    assert_eq!(ran.code(), 127);
    assert!(ran.err().contains("no process is called no-such-name-here"), "{}", ran.err());
}

#[test]
fn several_processes_are_watched_together() {
    let (one, two) = (burner("several-a"), burner("several-b"));
    let one = Carrier::start(&one, &["60", "30", "10", "60"]);
    let two = Carrier::start(&two, &["60", "30", "10", "60"]);
    let both = format!("{},{}", one.pid(), two.pid());
    for arguments in [vec!["--pid", &both], vec!["--pid", &one.pid(), "--pid", &two.pid()]] {
        let mut terminal = on_terminal(&arguments);
        terminal.see("burn_a");
        terminal.keys("5");
        terminal.wait("a row for each of the two processes", |screen| {
            let text = screen.contents();
            [&one, &two].iter().all(|target| text.lines().skip(2).any(|row| row.contains(&target.pid())))
        });
        terminal.keys("q");
        assert_eq!(terminal.finish().code(), Some(0));
    }
}

/// A supervisor starts a server again after its end, and `r` watches the new one.
#[test]
fn a_new_process_of_the_name_is_watched_after_the_end() {
    let name = format!("again-{}", std::process::id());
    let program = burner(&name);
    let one = Carrier::start(&program, &["60", "30", "10", "60"]);
    let mut terminal = on_terminal(&["--pid", &one.pid()]);
    terminal.see("burn_a");
    drop(one);
    terminal.see("waiting for a new one");
    let two = Carrier::start(&program, &["60", "30", "10", "60"]);
    terminal.see(&format!("a new one runs ({}): r attaches", two.pid()));
    terminal.keys("r");
    terminal.wait("the new process", |screen| {
        let text = screen.contents();
        text.contains(&format!("pid {}", two.pid())) && text.contains("burn_a")
    });
    terminal.keys("q");
    assert_eq!(terminal.finish().code(), Some(0));
}

/// The header, and Threads where there are several, show what a server says that it does now.
#[test]
fn a_title_is_read_again() {
    let start = || Command::new(targets::c("titles")).stdout(Stdio::null()).spawn().expect("the target");
    let mut children = [start(), start()];
    let [one, two] = [0, 1].map(|index| children[index].id());
    for (pids, row) in [(one.to_string(), 0), (format!("{one},{two}"), 5)] {
        let mut terminal = on_terminal(&["--pid", &pids]);
        terminal.see("CPU time");
        terminal.keys("5");
        for title in ["titles: SELECT", "titles: UPDATE waiting", "titles: SELECT"] {
            terminal.wait(title, |screen| screen.contents().lines().skip(row).any(|line| line.contains(title)));
        }
        terminal.keys("q");
        assert_eq!(terminal.finish().code(), Some(0));
    }
    for child in &mut children {
        child.kill().and_then(|()| child.wait()).expect("the target");
    }
}

#[test]
fn a_name_is_waited_for() {
    let name = format!("await-{}", std::process::id());
    let program = burner(&name);
    let mut terminal = on_terminal(&["--pid", &name, "--wait"]);
    terminal.see(&format!("waiting for a process called {name}"));
    let _target = Carrier::start(&program, &["60", "30", "10", "60"]);
    terminal.see("burn_a");
    terminal.keys("q");
    assert_eq!(terminal.finish().code(), Some(0));
}

/// Where `/proc` hides processes, a list without them says so.
#[test]
fn a_list_says_that_proc_hides_the_processes_of_others() {
    let listed = |mount: &str| {
        let line = format!("{mount} && exec setpriv --reuid=65534 --regid=65534 --clear-groups {SIGTOP}");
        run(Command::new("unshare").args(["-m", "sh", "-c", &line]).stdin(Stdio::null()))
    };
    if listed("true").code() != 0 {
        return skip("hidden processes: no other user can list them here");
    }
    let sentence = "/proc hides the processes of other users (hidepid).";
    let (hidden, open) = (listed("mount -t proc -o hidepid=2 proc /proc"), listed("true"));
    assert!(hidden.out().contains(sentence) && !open.out().contains(sentence), "{} {}", hidden.out(), open.out());
}
