//! Whether the kernel lets this process trace another one, and if not, why and what helps.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::unistd::geteuid;

use super::proc::{ProcStat, ProcStatus, thread_with_memory};
use super::program::elf;

/// The setting of the security module that restricts ptrace.
const PTRACE_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// The clause about a 32-bit program. Its system calls have other numbers, so that those which a
/// stop interrupts would not be repaired.
pub const NOT_64_BIT: &str = "is a 32-bit program, and sigtop samples 64-bit ones";

/// The facts that decide about tracing a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TracingFacts {
    pid: u32,
    /// The tracer that the process has already; 0 for none.
    tracer: u32,
    /// Whether the process executes a 32-bit program.
    is_32_bit: bool,
    /// The real, effective, saved and file-system user of the process.
    users: [u32; 4],
    /// The user of this process.
    own_user: u32,
    /// The value of `ptrace_scope`.
    ptrace_scope: u32,
    /// Whether the process has capabilities that this one lacks.
    has_more_capabilities: bool,
    /// Whether the process allows to be dumped, as far as its files tell.
    is_dumpable: bool,
    /// Whether sigtop has started the process, or one of its ancestors.
    is_launched: bool,
}

/// Checks that a process may be traced.
///
/// # Errors
/// The reason and the remedy, as a clause about the process.
pub fn check(pid: u32) -> Result<(), String> {
    // Opening the memory takes the same right as tracing.
    match memory(pid) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => Err(explain(&TracingFacts::read(pid))),
    }
}

/// Opens the memory of a process, by another thread if the first one has ended.
fn memory(pid: u32) -> io::Result<File> {
    let open = |tid: u32| File::open(format!("/proc/{tid}/mem"));
    open(pid).or_else(|error| match thread_with_memory(pid) {
        first if first == pid => Err(error),
        other => open(other),
    })
}

/// Explains why the kernel did not let threads of a process be stopped, as a clause about the
/// process. `tracer` is the one that it had then. `is_launched` says that this program has started
/// it, or one of its ancestors. Returns `None` if the process has ended, and had no tracer.
pub fn explain_refusal(pid: u32, tracer: Option<u32>, is_launched: bool) -> Option<String> {
    let facts = TracingFacts::read(pid);
    let tracer = tracer.unwrap_or(0);
    // One that is just ending has no memory any more.
    let has_no_memory = || memory(pid).is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH));
    let has_ended = || ProcStat::of(pid).map_or(true, |stat| stat.is_dead()) || has_no_memory();
    (tracer != 0 || !has_ended()).then(|| explain(&TracingFacts { tracer, is_launched, ..facts }))
}

/// Returns the tracer that a process has already, such as a debugger.
pub fn tracer(pid: u32) -> Option<u32> {
    Some(TracingFacts::read(pid).tracer).filter(|&tracer| tracer != 0)
}

impl TracingFacts {
    fn read(pid: u32) -> TracingFacts {
        let status = ProcStatus::of(pid).unwrap_or_default();
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |text: &str, name: &str| {
            text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
        };
        let capabilities = |text: &str| field(text, "CapPrm").and_then(|value| u64::from_str_radix(&value, 16).ok());
        let (theirs, ours) = (capabilities(&text).unwrap_or(0), capabilities(&own).unwrap_or(0));
        let owner = fs::metadata(format!("/proc/{pid}")).map_or(status.users[1], |metadata| metadata.uid());
        TracingFacts {
            pid,
            tracer: status.tracer,
            is_32_bit: elf::is_32_bit(pid),
            users: status.users,
            own_user: geteuid().as_raw(),
            ptrace_scope: fs::read_to_string(PTRACE_SCOPE).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            has_more_capabilities: theirs & !ours != 0,
            is_dumpable: owner == status.users[1],
            is_launched: false,
        }
    }
}

/// One clause about the process: the first reason that applies, and what helps.
fn explain(facts: &TracingFacts) -> String {
    let pid = facts.pid;
    let is_root = facts.own_user == 0;
    match facts {
        TracingFacts { tracer, .. } if *tracer != 0 => format!(
            "is traced by process {tracer}, a debugger for example, so its running threads cannot be sampled; end that first"
        ),
        TracingFacts { is_32_bit: true, .. } => NOT_64_BIT.to_owned(),
        TracingFacts { users, own_user, .. } if !is_root && *users != [*own_user; 4] => {
            format!("belongs to user {}; run: sudo sigtop --pid {pid}", users[1])
        }
        TracingFacts { ptrace_scope: 3.., is_launched: true, .. } => {
            "cannot be traced: kernel.yama.ptrace_scope is 3, which forbids tracing until the next boot".to_owned()
        }
        TracingFacts { ptrace_scope: scope @ 1..=2, is_launched: true, .. } if !is_root => format!(
            "cannot be traced: kernel.yama.ptrace_scope is {scope}; run: sudo sysctl kernel.yama.ptrace_scope=0"
        ),
        TracingFacts { ptrace_scope: 3.., .. } => {
            "cannot be traced: kernel.yama.ptrace_scope is 3, which forbids tracing until the next boot; \
             start it with: sigtop -- COMMAND"
                .to_owned()
        }
        TracingFacts { ptrace_scope: 2, .. } if !is_root => format!(
            "cannot be traced: kernel.yama.ptrace_scope is 2, which leaves tracing to root; run: sudo sigtop --pid {pid}"
        ),
        TracingFacts { ptrace_scope: 1, .. } if !is_root => format!(
            "cannot be traced: kernel.yama.ptrace_scope is 1, which allows only a program's parents; \
             start it with sigtop -- COMMAND, or run: sudo sigtop --pid {pid}"
        ),
        TracingFacts { has_more_capabilities: true, .. } if is_root => {
            "has capabilities that root lacks here; in a container, start that with: --cap-add SYS_PTRACE".to_owned()
        }
        TracingFacts { has_more_capabilities: true, .. } => {
            format!("has capabilities that user {} lacks; run: sudo sigtop --pid {pid}", facts.own_user)
        }
        TracingFacts { is_dumpable: false, .. } if !is_root => {
            format!("does not let itself be inspected (it is not dumpable); run: sudo sigtop --pid {pid}")
        }
        _ if is_root => "cannot be traced here: in a container, start that with --cap-add SYS_PTRACE; \
                         otherwise a security module guards it"
            .to_owned(),
        _ => format!("cannot be traced; run: sudo sigtop --pid {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_that_applies_is_given_with_its_remedy() {
        let mut facts = TracingFacts {
            pid: 41,
            tracer: 7,
            is_32_bit: true,
            users: [1; 4],
            own_user: 1000,
            ptrace_scope: 3,
            has_more_capabilities: true,
            is_dumpable: false,
            is_launched: false,
        };
        assert!(explain(&facts).starts_with("is traced by process 7"));
        facts.tracer = 0;
        assert_eq!(explain(&facts), NOT_64_BIT);
        facts.is_32_bit = false;
        assert_eq!(explain(&facts), "belongs to user 1; run: sudo sigtop --pid 41");
        facts.users = [1000; 4];
        assert!(explain(&facts).contains("ptrace_scope is 3"));
        facts.ptrace_scope = 2;
        assert!(explain(&facts).contains("ptrace_scope is 2") && explain(&facts).ends_with("sudo sigtop --pid 41"));
        facts.ptrace_scope = 1;
        assert!(explain(&facts).contains("start it with sigtop -- COMMAND"));
        for scope in 1..=3 {
            let launched = explain(&TracingFacts { is_launched: true, ptrace_scope: scope, ..facts.clone() });
            assert!(
                launched.contains(&format!("ptrace_scope is {scope}")) && !launched.contains("COMMAND"),
                "{launched}"
            );
            assert_eq!(launched.ends_with("sudo sysctl kernel.yama.ptrace_scope=0"), scope < 3);
        }
        facts.ptrace_scope = 0;
        assert!(explain(&facts).contains("capabilities that user 1000 lacks"));
        facts.has_more_capabilities = false;
        assert!(explain(&facts).contains("not dumpable"));
        facts.is_dumpable = true;
        assert_eq!(explain(&facts), "cannot be traced; run: sudo sigtop --pid 41");
        (facts.own_user, facts.users, facts.ptrace_scope) = (0, [5; 4], 3);
        assert!(explain(&facts).contains("ptrace_scope is 3"), "root too");
        (facts.ptrace_scope, facts.has_more_capabilities) = (1, true);
        assert!(explain(&facts).contains("--cap-add SYS_PTRACE"));
    }

    #[test]
    fn a_child_may_be_traced() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!((check(child.id()), tracer(child.id())), (Ok(()), None));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
