//! Forks and executes a program. Path, arguments and environment are prepared before the fork, so
//! that the child allocates nothing between fork and exec.

use std::env;
use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{ForkResult, Pid, fork, pipe2, read, write};

use super::inherit::{SignalState, closed_at_start};
use crate::attach::error::AttachError;
use crate::attach::launch_gate::LaunchGate;
use crate::attach::program::{Program, ProgramKind};
use crate::attach::{library, proc, quote};
use crate::wire::LINK_VARIABLE;

/// The shell that executes text without a first line, as in execvp(3).
const SHELL: &CStr = c"/bin/sh";

/// The command to launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchCommand<'a> {
    /// The program that [`resolve_command`](crate::attach::program::resolve_command) has found.
    pub program: &'a Program,
    /// The command's words, with the name as typed.
    pub words: &'a [OsString],
    /// The agent to preload; `None` if the program is sampled from outside.
    pub preload: Option<Preload<'a>>,
    /// Further variables, with their values.
    pub variables: &'a [(&'static str, String)],
    /// The gate of the sampler, if the program is sampled by events from its first instant.
    pub gate: Option<LaunchGate>,
}

/// The agent that is preloaded into a program.
#[derive(Clone, Copy, Debug)]
pub struct Preload<'a> {
    /// The path of the agent's library.
    pub library: &'a Path,
    /// The value of [`LINK_VARIABLE`]; `None` if the agent is to wait until a viewer wakes it.
    pub link: Option<&'a OsStr>,
}

/// A program with its arguments and environment, ready for execve(2).
pub(super) struct ExecImage {
    path: CString,
    words: Vec<CString>,
    /// The arguments that execvp(3) would use where the kernel does not know the format.
    shell_words: Option<Vec<CString>>,
    environment: Vec<CString>,
    /// The process whose descendants may trace the program, where the kernel asks for consent.
    tracer: u32,
    gate: Option<LaunchGate>,
}

/// The error of a program that was not started.
pub(super) struct StartError {
    pub(super) errno: Errno,
    /// Whether something other than execve(2) failed.
    pub(super) ours: bool,
}

impl ExecImage {
    pub(super) fn new(command: &LaunchCommand<'_>) -> Result<ExecImage, AttachError> {
        let path = terminated(command.program.path.as_os_str())?;
        let words = command.words.iter().map(|word| terminated(word)).collect::<Result<Vec<_>, _>>()?;
        let shell_words = [ProgramKind::Shell, ProgramKind::Unknown].contains(&command.program.form).then(|| {
            let rest = words.get(1..).unwrap_or_default().iter().cloned();
            [SHELL.to_owned(), path.clone()].into_iter().chain(rest).collect()
        });
        let mut ours = match command.preload {
            Some(Preload { library, link }) => {
                let preload = library::preload_value(env::var_os("LD_PRELOAD").as_deref(), library);
                let link = link.map(|link| (LINK_VARIABLE, link.to_owned()));
                [("LD_PRELOAD", preload)].into_iter().chain(link).collect()
            }
            None => Vec::new(),
        };
        ours.extend(command.variables.iter().map(|(name, value)| (*name, value.into())));
        let mut environment = Vec::new();
        for (name, value) in env::vars_os() {
            // The variable keeps its position and is defined once: some programs would see a second
            // definition instead.
            let value = match ours.iter().position(|(own, _)| name == *own) {
                Some(at) => ours.swap_remove(at).1,
                None if command.preload.is_some() && name == "LD_PRELOAD" || name == LINK_VARIABLE => continue,
                None => value,
            };
            environment.push(terminated(&definition(name, &value))?);
        }
        for (name, value) in ours {
            environment.push(terminated(&definition(name.into(), &value))?);
        }
        Ok(ExecImage { path, words, shell_words, environment, tracer: std::process::id(), gate: command.gate })
    }

    /// Forks and executes. The child runs `prepare` with all signals blocked, then restores the
    /// signal state. Returns when the program runs, or cannot.
    pub(super) fn start(
        &self,
        signals: &SignalState,
        prepare: impl FnOnce() -> nix::Result<()>,
    ) -> Result<Pid, StartError> {
        let ours = |errno| StartError { errno, ours: true };
        let words = pointers(&self.words);
        let shell_words = self.shell_words.as_deref().map(pointers);
        let environment = pointers(&self.environment);
        let (report, reported) = pipe2(OFlag::O_CLOEXEC).map(|(reader, writer)| (writer, reader)).map_err(ours)?;
        // SAFETY: until it executes or ends, the child only makes system calls and touches memory
        // that was allocated before: it needs no lock that another thread may have signals.
        let child = match unsafe { fork() }.map_err(ours)? {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let ready = prepare().and_then(|()| signals.restore_in_child());
                // SAFETY: takes integers alone. It fails where no security module asks for consent,
                // which is none of the program's business.
                unsafe { libc::prctl(libc::PR_SET_PTRACER, u64::from(self.tracer), 0, 0, 0) };
                if let Some(gate) = self.gate {
                    gate.pass();
                }
                close_again(report.as_raw_fd());
                let failure = match ready {
                    Ok(()) => {
                        StartError { errno: self.execute(&words, shell_words.as_deref(), &environment), ours: false }
                    }
                    Err(errno) => ours(errno),
                };
                let [a, b, c, d] = (failure.errno as i32).to_ne_bytes();
                let _ = write(&report, &[a, b, c, d, u8::from(failure.ours)]);
                // SAFETY: ends the process immediately; no destructor or buffer of the parent runs
                // here.
                unsafe { libc::_exit(127) }
            }
        };
        drop(report);
        let mut answer = [0; 5];
        let count = loop {
            match read(&reported, &mut answer) {
                Err(Errno::EINTR) => {}
                count => break count.map_err(ours)?,
            }
        };
        let [a, b, c, d, flag] = answer;
        if count < answer.len() {
            return Ok(child); // closed by its exec (or by its death, which is an end like any other)
        }
        let _ = reap(child, 0);
        Err(StartError { errno: Errno::from_raw(i32::from_ne_bytes([a, b, c, d])), ours: flag == 1 })
    }

    fn execute(
        &self,
        words: &[*const c_char],
        shell_words: Option<&[*const c_char]>,
        environment: &[*const c_char],
    ) -> Errno {
        // SAFETY: the arrays end with a null and point to strings that end with a NUL and are
        // borrowed from `self`.
        unsafe { libc::execve(self.path.as_ptr(), words.as_ptr(), environment.as_ptr()) };
        let first = Errno::last();
        match shell_words {
            // SAFETY: as above; the string is static.
            Some(words) if first == Errno::ENOEXEC => unsafe {
                libc::execve(SHELL.as_ptr(), words.as_ptr(), environment.as_ptr());
                Errno::last()
            },
            _ => first,
        }
    }
}

impl StartError {
    pub(super) fn into_error(self, image: &ExecImage) -> AttachError {
        let cause = io::Error::from(self.errno);
        if self.ours {
            return AttachError::system("cannot start the target", cause);
        }
        AttachError::Exec { name: quote::name(OsStr::from_bytes(image.path.as_bytes())), cause }
    }
}

/// The result of wait4(2) for a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReapedChild {
    /// Its wait status.
    pub(super) status: i32,
    /// User CPU time of it and the children that it waited for, ns.
    pub(super) user_ns: u64,
    /// System CPU time of the same, ns.
    pub(super) system_ns: u64,
    /// CPU time of the process alone, ns, if it has ended.
    pub(super) own_ns: u64,
}

/// Waits for a child; returns `None` if `options` say not to wait and nothing has happened.
pub(super) fn reap(child: Pid, options: i32) -> nix::Result<Option<ReapedChild>> {
    let own_ns = own_cpu_at_end(child, options);
    let mut status = 0;
    // SAFETY: rusage is plain data, all zeros is a value of it, and both out-pointers live through
    // the call.
    let (found, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.as_raw(), &mut status, options, &mut usage), usage)
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    match Errno::result(found)? {
        0 => Ok(None),
        _ => {
            let (user_ns, system_ns) = (ns(usage.ru_utime), ns(usage.ru_stime));
            Ok(Some(ReapedChild { status, user_ns, system_ns, own_ns }))
        }
    }
}

/// Returns the CPU time in ns of a child that has ended and was not reaped, as its clock disappears
/// when it is reaped; 0 while it runs.
fn own_cpu_at_end(child: Pid, options: i32) -> u64 {
    let flags = libc::WEXITED | libc::WNOWAIT | options & libc::WNOHANG;
    // SAFETY: siginfo is plain data, all zeros is a value of it, and it lives through the call.
    let has_ended = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, child.as_raw() as u32, &mut info, flags) == 0 && info.si_pid() != 0
    };
    if has_ended { proc::cpu_ns(child.as_raw() as u32).unwrap_or(0) } else { 0 }
}

/// Closes the standard descriptors that were closed at the start and that Rust's runtime opened.
fn close_again(spare: RawFd) {
    for descriptor in closed_at_start().filter(|&descriptor| descriptor != spare) {
        // SAFETY: closes a descriptor that nothing in this process, which is about to execute
        // another program, owns or will use.
        unsafe { libc::close(descriptor) };
    }
}

fn definition(mut name: OsString, value: &OsStr) -> OsString {
    name.push("=");
    name.push(value);
    name
}

fn terminated(text: &OsStr) -> Result<CString, AttachError> {
    CString::new(text.to_owned().into_vec())
        .map_err(|error| AttachError::system("cannot pass a NUL to a program", error))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}
