//! Finding processes that carry the agent, among real ones.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crossbeam_channel::unbounded;
use nix::unistd::mkfifo;
use sigtop::attach::AttachError;
use sigtop::attach::find::{Watch, carriers, check};
use sigtop::attach::launch::{self, Ending, Event, launch};
use sigtop::attach::library::Places;
use sigtop::attach::proc::{command_line, cpu_ns, descendants};
use sigtop::attach::program::of_command;

const LONG: Duration = Duration::from_secs(60);

/// A FIFO of its own for a test, gone with it.
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
    let (program, library) = (of_command(&words).unwrap(), Places::of_user().library().unwrap());
    let command = launch::Command { program: &program, words: &words, library: &library, link: "1:2:".as_ref() };
    let target = launch(&command, launch::Stdio::Inherit).unwrap();
    let child: u32 = fs::read_to_string(&fifo.0).unwrap().trim().parse().unwrap();

    let carrier = check(target.pid).unwrap();
    assert_eq!((carrier.pid, carrier.comm.as_str()), (target.pid, "sh"));
    assert_eq!((carrier.uid, carrier.confined), (nix::unistd::geteuid().as_raw(), false));
    assert_eq!(carrier.command_line, words);
    assert!(carriers().contains(&carrier));
    assert_eq!(descendants(target.pid), [child]);
    assert!(cpu_ns(target.pid).unwrap() > 0);

    let watch = Watch::new(target.pid, carrier.start_ticks);
    assert!(!watch.wait(Duration::ZERO));
    let (sender, events) = unbounded();
    let thread = target.follow(sender, unbounded().0).unwrap();
    target.signal(9).unwrap();
    let Event::Ended(ended) = events.recv_timeout(LONG).unwrap() else { panic!("no end") };
    assert_eq!(ended.how, Ending::Killed { signal: 9, core: false });
    assert!(watch.wait(LONG));
    thread.join().unwrap();
    target.signal(9).unwrap();
    assert!(matches!(check(target.pid), Err(AttachError::NoProcess { .. })));

    let child_watch = Watch::new(child, check(child).map_or(0, |child| child.start_ticks));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child as i32), nix::sys::signal::Signal::SIGKILL).unwrap();
    assert!(child_watch.wait(LONG));
}

#[test]
fn a_process_without_the_agent_is_told_how_to_start_again() {
    let mut child = Command::new("sleep").args(["60", "0.5e0"]).spawn().unwrap();
    let pid = child.id();
    while command_line(pid).is_empty() {
        std::thread::yield_now(); // it is still being loaded
    }
    let said = check(pid).unwrap_err().to_string();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        said,
        format!("process {pid} was started without the agent; start it again with: sigtop -- sleep 60 0.5e0")
    );
}
