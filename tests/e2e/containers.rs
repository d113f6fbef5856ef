//! Targets in other namespaces and roots, set up as container runtimes do: they are launched and
//! attached to, and sigtop explains where the agent cannot work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sigtop::attach::find::{self, WatchMethod};

use super::guest::eventually;
use crate::harness::quiet::alone;
use crate::harness::run::{Batch, Ran, SIGTOP, run, text, tool};
use crate::harness::skips::skip;
use crate::harness::table::Table;
use crate::harness::terminal::Terminal;
use crate::harness::{inspect, targets};

/// CPU time that a program uses, in ms; enough for at least 100 samples.
const BURN: &str = "600";

/// Returns an `unshare` command for these namespaces, inside a user namespace if they would
/// otherwise require root; `None` if the kernel does not permit it.
fn unshare(namespaces: &str) -> Option<Vec<String>> {
    let user = if nix::unistd::geteuid().is_root() { "" } else { "Ur" };
    let words = ["unshare".to_owned(), format!("-{user}{namespaces}")];
    let probe = Command::new(&words[0]).args(&words[1..]).arg("true").stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        skip("unshare is not permitted");
        return None;
    }
    Some(words.to_vec())
}

/// A root directory with a program as `/program`, its libraries, and empty directories.
fn make_root(program: &Path) -> PathBuf {
    let root = targets::scratch("root");
    for directory in ["proc", "tmp", "agent"] {
        fs::create_dir_all(root.join(directory)).expect("writable");
    }
    fs::copy(program, root.join("program")).expect("writable");
    let libraries = run(Command::new("ldd").arg(program)).out();
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = root.join(&library[1..]);
        fs::create_dir_all(copy.parent().expect("it has one")).expect("writable");
        fs::copy(library, copy).expect("writable");
    }
    root
}

/// The path at which sigtop installs the agent's library.
fn library() -> PathBuf {
    run(Command::new(SIGTOP).args(["env", "--path"])).out().trim().into()
}

fn batch(command: &[String], script: &str) -> Ran {
    run(Command::new(SIGTOP).args(["--batch", "--hz", "250", "--"]).args(command).args(["sh", "-c", script]))
}

/// Asserts that nearly all samples are in the program's function. On a busy machine, some are in
/// its start.
fn assert_burn_is_seen(err: &str) {
    let share = Table::last(err).and_then(|table| table.row("burn").map(|row| row.cum_percent));
    assert!(share.is_some_and(|percent| percent >= 90.0), "{share:?} percent in burn: {err}");
}

fn assert_sampled(ran: &Ran) {
    let err = ran.err();
    assert!(!err.contains("not sampled"), "no table: {err}");
    assert_burn_is_seen(&err);
}

/// A process that is killed at the end of its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it is ours");
    }
}

/// Starts a program that carries the agent and runs for long, and waits until it uses CPU time.
fn start_with_agent(command: &[String], library: &Path) -> Running {
    let mut carrier = Command::new(&command[0]);
    carrier.args(&command[1..]).env("AGENT", library).stdout(Stdio::null());
    let running = Running(carrier.spawn().expect("it starts"));
    assert!(eventually(Duration::from_secs(30), || inspect::is_at_work(running.0.id())), "it does not compute");
    running
}

fn attach(running: &Running) -> Ran {
    let pid = running.0.id().to_string();
    run(Command::new(SIGTOP).args(["--pid", &pid, "--batch", "--interval", "500ms", "--count", "2"]))
}

/// The words of a command whose program, `ends`, uses CPU time for a minute with the agent
/// preloaded.
fn preloaded(mut command: Vec<String>, script: &str) -> Vec<String> {
    command.extend(["sh".to_owned(), "-c".to_owned(), script.to_owned()]);
    command
}

#[test]
fn a_new_network_namespace_is_launched_into() {
    alone();
    let Some(network) = unshare("n") else { return };
    let program = targets::c("ends");
    assert_sampled(&batch(&network, &format!("{} {BURN} exit 0", text(&program))));
    let Some(both) = unshare("mn") else { return };
    let hidden = format!("mount -t tmpfs tmpfs /tmp && {} {BURN} exit 0", text(&program));
    let library = library();
    if library.starts_with("/tmp") || program.starts_with("/tmp") {
        return skip("the library or the program is in /tmp");
    }
    assert_sampled(&batch(&both, &hidden));
}

/// The abstract socket exists only in the viewer's network namespace.
#[test]
fn a_process_in_another_network_namespace_is_attached_to() {
    alone();
    let program = targets::c("ends");
    let script = format!("LD_PRELOAD=$AGENT exec {} 60000 exit 0", text(&program));
    for namespaces in ["n", "mn"] {
        let Some(command) = unshare(namespaces) else { return };
        let running = start_with_agent(&preloaded(command, &script), &library());
        let ran = attach(&running);
        assert!(ran.code() == 0 && ran.out().contains("burn"), "{namespaces}: {} {}", ran.out(), ran.err());
    }
    let left = fs::read_dir("/tmp").expect("/tmp").flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let viewer = |name: &str| name.strip_prefix("sigtop-")?.strip_suffix(".sock")?.parse::<u32>().ok();
    let stale = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
    let left: Vec<String> = left.filter(|name| viewer(name).is_some_and(stale)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A container image with a copy of the agent: its own root, mounts and network.
#[test]
fn a_process_in_a_container_is_attached_to() {
    alone();
    let Some(command) = unshare("mn") else { return };
    let root = make_root(&targets::c("ends"));
    fs::copy(library(), root.join("agent/libsigtop-agent-0.so")).expect("writable");
    let root = text(&root);
    // The loader of `chroot` itself does not find the library, and reports it.
    let script = format!(
        "mount --rbind /proc {root}/proc && mount -t tmpfs tmpfs {root}/tmp && \
         LD_PRELOAD=/agent/libsigtop-agent-0.so exec chroot {root} /program 60000 exit 0 2> /dev/null"
    );
    let running = start_with_agent(&preloaded(command, &script), &library());
    let ran = attach(&running);
    assert!(ran.code() == 0 && ran.out().contains("burn"), "{} {}", ran.out(), ran.err());
}

#[test]
fn a_sandbox_by_bubblewrap_is_launched_into_and_attached_to() {
    alone();
    let Some(bwrap) = tool("bwrap") else { return };
    let words = ["--dev-bind", "/", "/", "--unshare-net"];
    let command: Vec<String> = [text(&bwrap)].iter().chain(&words).map(|&word| word.to_owned()).collect();
    let probe = Command::new(&bwrap).args(words).arg("true").stderr(Stdio::null()).status().expect("it is there");
    if !probe.success() {
        return skip("bubblewrap may make no network namespace");
    }
    let program = targets::c("ends");
    assert_sampled(&batch(&command, &format!("{} {BURN} exit 0", text(&program))));
    let script = format!("LD_PRELOAD=$AGENT exec {} 60000 exit 0", text(&program));
    let mut carrier = Command::new(&command[0]);
    carrier.args(&command[1..]).arg("--die-with-parent").args(["sh", "-c", &script]).env("AGENT", library());
    let outer = Running(carrier.stdout(Stdio::null()).spawn().expect("it starts"));
    let inner = || worker_below(outer.0.id());
    assert!(eventually(Duration::from_secs(30), || inner().is_some()), "it does not compute");
    let pid = inner().expect("it computes").to_string();
    let ran = run(Command::new(SIGTOP).args(["--pid", &pid, "--batch", "--interval", "500ms", "--count", "2"]));
    assert!(ran.code() == 0 && ran.out().contains("burn"), "{} {}", ran.out(), ran.err());
}

/// Returns the descendant of a process that uses CPU time.
fn worker_below(pid: u32) -> Option<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let mut children = list.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
    children.find_map(worker_below).or_else(|| inspect::is_at_work(pid).then_some(pid))
}

/// Asserts that a process below this one, which carries no agent, is sampled with names.
fn assert_sampled_from_outside(outer: &Running) {
    let inner = || worker_below(outer.0.id());
    assert!(eventually(Duration::from_secs(30), || inner().is_some()), "it does not compute");
    let pid = inner().expect("it computes").to_string();
    let ran = run(Command::new(SIGTOP).args(["--pid", &pid, "--batch", "--interval", "500ms", "--count", "3"]));
    assert!(ran.code() == 0 && ran.out().contains("burn"), "{} {}", ran.out(), ran.err());
}

/// A container with namespaces of its own of all kinds, and a file system that nothing else sees.
#[test]
fn a_process_in_a_container_is_sampled_from_outside() {
    alone();
    let probe = Command::new("unshare").args(["-Urmnpf", "true"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip("unshare is not permitted");
    }
    let root = make_root(&targets::c("ends"));
    let root = text(&root);
    let script = format!(
        "cd {root} && mount -t tmpfs tmpfs tmp && cp -r $(ls | grep -v tmp) tmp && exec chroot tmp /program 60000 exit 0"
    );
    let mut command = Command::new("unshare");
    command.args(["-Urmnpf", "--kill-child", "sh", "-c", &script]).stdout(Stdio::null());
    assert_sampled_from_outside(&Running(command.spawn().expect("it starts")));
}

/// Docker leaves a container without CAP_SYS_PTRACE: what sigtop starts there is sampled, and other
/// processes are refused with the option that helps.
#[test]
fn without_the_capability_to_trace_own_children_are_sampled() {
    alone();
    let words = ["unshare", "-Ur", "setpriv", "--bounding-set", "-sys_ptrace", SIGTOP, "--batch"];
    let sigtop = |options: &[&str]| run(Command::new(words[0]).args(&words[1..]).args(options));
    let probe = Command::new(words[0]).args(&words[1..5]).arg("true").stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip("unshare is not permitted");
    }
    let program = targets::c("ends");
    let ran = sigtop(&["--engine", "external", "--hz", "250", "--", text(&program), BURN, "exit", "0"]);
    assert!(ran.code() == 0 && ran.err().contains("burn"), "{} {}", ran.out(), ran.err());
    let mut outside = Command::new(&program);
    let outside = Running(outside.args(["60000", "exit", "0"]).stdout(Stdio::null()).spawn().expect("it starts"));
    assert!(eventually(Duration::from_secs(30), || inspect::is_at_work(outside.0.id())), "it does not compute");
    let ran = sigtop(&["--pid", &outside.0.id().to_string()]);
    assert!(ran.code() != 0 && ran.err().contains("--cap-add SYS_PTRACE"), "{} {}", ran.code(), ran.err());
    // Regression test: threads of a child that cannot be traced were said to have ended too early,
    // and later the reason was given twice.
    let ran = sigtop(&["--engine", "ptrace", "--", text(&targets::c("undumpable")), "500"]);
    let is_unsampled = [99, 100].iter().any(|share| ran.err().contains(&format!("{share} % of CPU time not sampled)")));
    assert!(is_unsampled, "{} {}", ran.out(), ran.err());
    assert_eq!(ran.err().matches("cannot be traced here").count(), 1, "{}", ran.err());
}

#[test]
fn a_process_in_a_sandbox_is_sampled_from_outside() {
    alone();
    let Some(bwrap) = tool("bwrap") else { return };
    let words = ["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--tmpfs", "/tmp"];
    let probe = Command::new(&bwrap).args(words).arg("true").stderr(Stdio::null()).status().expect("it is there");
    if !probe.success() {
        return skip("bubblewrap may make no namespaces");
    }
    let program = targets::c("ends");
    if program.starts_with("/tmp") {
        return skip("the program is in /tmp");
    }
    let mut command = Command::new(&bwrap);
    command.args(words).arg(&program).args(["60000", "exit", "0"]).stdout(Stdio::null());
    assert_sampled_from_outside(&Running(command.spawn().expect("it starts")));
}

/// The program is sampled from outside; if the library's directory is mounted, by its agent.
#[test]
fn a_root_without_the_library_is_sampled_from_outside() {
    alone();
    let Some(command) = unshare("mn") else { return };
    let root = make_root(&targets::c("ends"));
    let root = text(&root);
    let chroot = format!("mount --rbind /proc {root}/proc && exec chroot {root} /program {BURN} exit 0");
    let err = batch(&command, &chroot).err();
    assert_burn_is_seen(&err);
    let library = library();
    let directory = text(library.parent().expect("it has one"));
    let remedy = format!("mkdir -p {root}{directory} && mount --bind {directory} {root}{directory} && {chroot}");
    assert_sampled(&batch(&command, &remedy));
    // The agent cannot list threads without /proc. Regression test: where a sleep before that was
    // sampled from outside by the wall clock, nothing was said.
    let no_proc = remedy.replace(&format!("mount --rbind /proc {root}/proc && "), "sleep 0.3 && ");
    for clock in ["cpu", "wall"] {
        let mut sigtop = Command::new(SIGTOP);
        sigtop.args(["--batch", "--hz", "250", "--clock", clock, "--"]).args(&command).args(["sh", "-c", &no_proc]);
        let err = run(&mut sigtop).err();
        assert!(err.contains("not sampled: program sees no /proc"), "{clock}: {err}");
    }
}

/// An agent without /proc is of no use. With the kernel's /proc in another pid namespace, it is.
#[test]
fn an_agent_without_proc_is_replaced_by_the_sampler_from_outside() {
    alone();
    let Some(command) = unshare("m") else { return };
    let root = make_root(&targets::c("ends"));
    fs::copy(library(), root.join("agent/libsigtop-agent-0.so")).expect("writable");
    let run_program = format!("exec chroot {} /program 60000 exit 0 2> /dev/null", text(&root));
    let without_proc = format!("LD_PRELOAD=/agent/libsigtop-agent-0.so {run_program}");
    let running = start_with_agent(&preloaded(command, &without_proc), &library());
    for clock in ["cpu", "wall"] {
        let pid = running.0.id().to_string();
        let options = ["--batch", "--interval", "500ms", "--count", "2", "--clock", clock];
        let ran = run(Command::new(SIGTOP).args(["--pid", &pid]).args(options));
        assert!(ran.code() == 0 && ran.out().contains("burn"), "{clock}: {} {}", ran.out(), ran.err());
    }

    let Some(command) = unshare("mpf") else { return };
    let with_proc = format!("mount -t proc proc {}/proc && {without_proc}", text(&root));
    let mut outer = Command::new(&command[0]);
    outer.args(&command[1..]).args(["--kill-child", "sh", "-c", &with_proc]).stdout(Stdio::null());
    let outer = Running(outer.spawn().expect("it starts"));
    let inner = || worker_below(outer.0.id());
    assert!(eventually(Duration::from_secs(30), || inner().is_some()), "it does not compute");
    let process = find::check(inner().expect("it computes")).expect("it can be watched");
    assert_eq!(process.method, WatchMethod::Agent);
}

/// A program that cannot carry the agent is sampled from outside, also below others: one that is
/// linked statically, and one that is started without the agent's variables.
#[test]
fn programs_without_an_agent_are_sampled_from_outside() {
    alone();
    let (fixed, dynamic) = (targets::static_c("ends"), targets::c("ends"));
    for (clock, script) in [
        ("prof", format!("{} 1500 exit 0 && true", text(&fixed))),
        ("real", format!("exec {} 1500 exit 0", text(&fixed))),
        ("prof", format!("env -i {} 1500 exit 0 && true", text(&dynamic))),
    ] {
        let watched = Batch::new(&format!("--hz 250 --clock {clock}")).run(&["sh", "-c", &script]);
        let ms = watched.raw.cum_ns(clock, |name| name == "burn") / 1_000_000;
        // The second look finds it, and no CPU time is sampled twice.
        assert!(ms >= 750 && (clock == "real" || ms <= 1600), "{script}: {ms} ms of 1500");
    }
}

/// Tables, recordings and the screen print the same sentence. A recording without samples is a
/// failure.
#[test]
fn processes_that_cannot_be_sampled_are_explained_everywhere() {
    alone();
    let directory = targets::scratch("valgrind").join("valgrind");
    std::fs::create_dir_all(&directory).expect("a directory");
    let program = directory.join("none-amd64-linux");
    std::fs::copy(targets::static_c("ends"), &program).expect("a copy");
    // The shell rarely has a sample of its own at this rate.
    let rate = ["--hz", "10"];
    let script = format!("{} {BURN} exit 0 && true", text(&program));
    let sentence = "CPU time not sampled: no agent reported from none-amd64-linu: it runs under Valgrind";
    let err = run(Command::new(SIGTOP).arg("--batch").args(rate).args(["--", "sh", "-c", &script])).err();
    assert!(err.contains("sh ended with status 0 after") && err.contains(": no samples (") && err.contains(sentence));
    let directory = targets::scratch("nothing");
    for name in ["a.sigtop", "a.folded", "a.pb.gz"] {
        let file = directory.join(name);
        let ran =
            run(Command::new(SIGTOP).args(["record", "-o", text(&file)]).args(rate).args(["--", "sh", "-c", &script]));
        assert!(ran.code() == 125 && ran.err().contains(sentence), "{name}: {} {}", ran.code(), ran.err());
        let failing = script.replace("&& true", "&& exit 3");
        let ran =
            run(Command::new(SIGTOP).args(["record", "-o", text(&file)]).args(rate).args(["--", "sh", "-c", &failing]));
        assert!(ran.err().contains(sentence), "{name}: {}", ran.err());
    }
    let mut terminal = Terminal::start(140, 30, Command::new(SIGTOP).args(rate).args(["--", "sh", "-c", &script]));
    // The sentence is wrapped where the duration in front of it ends.
    terminal.see("it runs under Valgrind");
    // While the program runs, `q` asks what becomes of it.
    terminal.see("sh exited with status 0");
    terminal.keys("q");
    assert_eq!(terminal.finish().code(), Some(0));
}

#[test]
fn a_program_under_valgrind_is_explained() {
    alone();
    let Some(valgrind) = tool("valgrind") else { return };
    for clock in ["prof", "real"] {
        let mut command = Command::new(SIGTOP);
        command.args(["--batch", "--clock", clock, "--"]).arg(&valgrind).arg("-q").arg(targets::c("ends"));
        let err = run(command.args([BURN, "exit", "0"])).err();
        assert!(err.contains("CPU time not sampled: no agent reported from memcheck"), "{clock}: {err}");
        assert!(err.contains("it runs under Valgrind"), "{clock}: {err}");
    }
}

/// sigtop works if every directory that could hold the library or the socket is read-only.
#[test]
fn no_writable_directory_is_needed() {
    alone();
    let Some(command) = unshare("m") else { return };
    let program = targets::c("ends");
    if [Path::new(SIGTOP), &program].iter().any(|path| path.starts_with("/tmp")) {
        return skip("the programs are in /tmp");
    }
    let mounts = "for directory in /tmp /var/cache /dev/shm; do mount -t tmpfs -o ro tmpfs $directory || exit; done; \
                  unset XDG_RUNTIME_DIR XDG_CACHE_HOME; export HOME=/nonexistent; ";
    let sigtop = |arguments: &str| {
        let script = format!("{mounts} exec {SIGTOP} --batch {arguments}");
        run(Command::new(&command[0]).args(&command[1..]).args(["sh", "-c", &script]))
    };
    let launched = sigtop(&format!("--hz 250 -- sh -c '{} {BURN} exit 0'", text(&program)));
    assert_sampled(&launched);
    assert!(launched.err().contains("sigtop: no directory can hold the agent library"));

    let script = format!("LD_PRELOAD=$AGENT exec {} 60000 exit 0", text(&program));
    let running = start_with_agent(&["sh".to_owned(), "-c".to_owned(), script], &library());
    let attached = sigtop(&format!("--pid {} --interval 500ms --count 2", running.0.id()));
    if !nix::unistd::geteuid().is_root() && attached.err().contains("cannot be traced here") {
        return skip("a user namespace may not look into processes outside of it");
    }
    assert!(attached.out().contains("burn"), "{} {}", attached.out(), attached.err());
}
