//! Tests of finding processes that carry the agent, among real processes.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crossbeam_channel::unbounded;
use nix::unistd::mkfifo;
use sigtop::attach::AttachError;
use sigtop::attach::find::{ExitWatcher, WatchMethod, attachable_processes, check};
use sigtop::attach::launch::{self, ExitReason, TargetEvent, launch};
use sigtop::attach::library::AgentDirectories;
use sigtop::attach::proc::{command_line, cpu_ns, descendants};
use sigtop::attach::program::resolve_command;

const LONG: Duration = Duration::from_secs(60);

/// A FIFO that is removed at the end of its test.
struct Fifo(PathBuf);

impl Fifo {
    fn new(name: &str) -> Fifo {
        let path = std::env::temp_dir().join(format!("sigtop-find-{}-{name}", std::process::id()));
        mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        Fifo(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

#[test]
fn a_launched_process_and_its_child_are_found_until_they_end() {
    let fifo = Fifo::new("found");
    let words = ["sh", "-c", "sleep 60 & echo $! >$0; wait", fifo.name()].map(OsString::from);
    let (program, library) = (resolve_command(&words).unwrap(), AgentDirectories::of_user().library().unwrap());
    let command = launch::LaunchCommand {
        program: &program,
        words: &words,
        preload: Some(launch::Preload { library: &library, link: Some("1:2:".as_ref()) }),
        variables: &[],
        gate: None,
    };
    let target = launch(&command, launch::Stdio::Inherit).unwrap();
    let child: u32 = fs::read_to_string(&fifo.0).unwrap().trim().parse().unwrap();

    let carrier = check(target.pid).unwrap();
    assert_eq!((carrier.pid, carrier.comm.as_str()), (target.pid, "sh"));
    assert_eq!((carrier.uid, carrier.confined), (nix::unistd::geteuid().as_raw(), false));
    assert_eq!(carrier.command_line, words);
    assert!(attachable_processes().contains(&carrier));
    assert_eq!(descendants(target.pid), [child]);
    assert!(cpu_ns(target.pid).unwrap() > 0);

    let watch = ExitWatcher::new(target.pid, carrier.start_ticks);
    assert!(!watch.wait(Duration::ZERO));
    let (sender, events) = unbounded();
    let thread = target.follow(sender, unbounded().0).unwrap();
    target.signal(9).unwrap();
    let TargetEvent::Ended(ended) = events.recv_timeout(LONG).unwrap() else { panic!("no end") };
    assert_eq!(ended.how, ExitReason::Killed { signal: 9, core: false });
    assert!(watch.wait(LONG));
    thread.join().unwrap();
    target.signal(9).unwrap();
    assert!(matches!(check(target.pid), Err(AttachError::NoProcess { .. })));

    let child_watch = ExitWatcher::new(child, check(child).map_or(0, |child| child.start_ticks));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child as i32), nix::sys::signal::Signal::SIGKILL).unwrap();
    assert!(child_watch.wait(LONG));
}

#[test]
fn a_process_without_the_agent_is_sampled_from_outside() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id();
    while command_line(pid).is_empty() {
        std::thread::yield_now(); // it is still being loaded
    }
    let found = check(pid).map(|process| process.method);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found.unwrap(), WatchMethod::External);
}
