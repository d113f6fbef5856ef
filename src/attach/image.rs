//! What is executed: path, arguments and environment, made ready before the fork, so that the child between fork and exec
//! allocates nothing; and the fork and exec themselves.

use std::env;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{ForkResult, Pid, fork, pipe2, read, write};

use super::inherit::{Held, closed_at_start};
use super::launch::Command;
use super::program::Form;
use super::{AttachError, library, proc, quote};
use crate::link::wire::LINK_VARIABLE;

/// Runs text that has no first line of its own, as execvp(3) does.
const SHELL: &CStr = c"/bin/sh";

/// A program with its arguments and environment, ready for execve(2).
pub(super) struct Image {
    path: CString,
    words: Vec<CString>,
    /// What execvp(3) would try where the kernel does not know the format.
    shell_words: Option<Vec<CString>>,
    environment: Vec<CString>,
}

/// Why nothing runs.
pub(super) struct Failure {
    pub(super) errno: Errno,
    /// It was not the execve(2) that failed.
    pub(super) ours: bool,
}

impl Image {
    pub(super) fn new(command: &Command<'_>) -> Result<Image, AttachError> {
        let path = terminated(command.program.path.as_os_str())?;
        let words = command.words.iter().map(|word| terminated(word)).collect::<Result<Vec<_>, _>>()?;
        let shell_words = [Form::Shell, Form::Unknown].contains(&command.program.form).then(|| {
            let rest = words.get(1..).unwrap_or_default().iter().cloned();
            [SHELL.to_owned(), path.clone()].into_iter().chain(rest).collect()
        });
        let preload = library::preload_value(env::var_os("LD_PRELOAD").as_deref(), command.library);
        let mut ours = vec![("LD_PRELOAD", preload), (LINK_VARIABLE, command.link.to_owned())];
        let mut environment = Vec::new();
        for (name, value) in env::vars_os() {
            // In its old place, and once: a second definition would be the one that some programs see.
            let value = match ours.iter().position(|(own, _)| name == *own) {
                Some(at) => ours.swap_remove(at).1,
                None if name == "LD_PRELOAD" || name == LINK_VARIABLE => continue,
                None => value,
            };
            environment.push(terminated(&definition(name, &value))?);
        }
        for (name, value) in ours {
            environment.push(terminated(&definition(name.into(), &value))?);
        }
        Ok(Image { path, words, shell_words, environment })
    }

    /// Forks and executes. The child runs `prepare` with all signals blocked, then gets back what `held` keeps. Returns when
    /// the program runs, or when it is known that it does not.
    pub(super) fn start(&self, held: &Held, prepare: impl FnOnce() -> nix::Result<()>) -> Result<Pid, Failure> {
        let ours = |errno| Failure { errno, ours: true };
        let words = pointers(&self.words);
        let shell_words = self.shell_words.as_deref().map(pointers);
        let environment = pointers(&self.environment);
        let (report, reported) = pipe2(OFlag::O_CLOEXEC).map(|(reader, writer)| (writer, reader)).map_err(ours)?;
        // SAFETY: the child makes system calls and touches memory that was made before, nothing else, until it executes or
        // ends: no lock that another thread may have held is needed.
        let child = match unsafe { fork() }.map_err(ours)? {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let ready = prepare().and_then(|()| held.hand_on());
                close_again(report.as_raw_fd());
                let failure = match ready {
                    Ok(()) => {
                        Failure { errno: self.execute(&words, shell_words.as_deref(), &environment), ours: false }
                    }
                    Err(errno) => ours(errno),
                };
                let [a, b, c, d] = (failure.errno as i32).to_ne_bytes();
                let _ = write(&report, &[a, b, c, d, u8::from(failure.ours)]);
                // SAFETY: ends the process at once; no destructor or buffer of the parent's runs here.
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
        Err(Failure { errno: Errno::from_raw(i32::from_ne_bytes([a, b, c, d])), ours: flag == 1 })
    }

    fn execute(&self, words: &[*const i8], shell_words: Option<&[*const i8]>, environment: &[*const i8]) -> Errno {
        // SAFETY: the arrays end with a null and point to strings that end with a NUL and are borrowed from `self`.
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

impl Failure {
    pub(super) fn into_error(self, image: &Image) -> AttachError {
        let cause = io::Error::from(self.errno);
        if self.ours {
            return AttachError::system("cannot start the target", cause);
        }
        AttachError::Exec { name: quote::name(OsStr::from_bytes(image.path.as_bytes())), cause }
    }
}

/// What wait4(2) tells of a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reaped {
    /// Its wait status.
    pub(super) status: i32,
    /// User CPU time of it and the children that it waited for, ns.
    pub(super) user_ns: u64,
    /// System CPU time, likewise.
    pub(super) system_ns: u64,
    /// CPU time of the process alone, ns, if it has ended.
    pub(super) own_ns: u64,
}

/// Waits for a child; `None` if `options` say not to wait and there is nothing to tell.
pub(super) fn reap(child: Pid, options: i32) -> nix::Result<Option<Reaped>> {
    let own_ns = own_cpu_at_end(child, options);
    let mut status = 0;
    // SAFETY: rusage is plain data, all zeros is a value of it, and both out-pointers live through the call.
    let (found, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.as_raw(), &mut status, options, &mut usage), usage)
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    match Errno::result(found)? {
        0 => Ok(None),
        _ => {
            let (user_ns, system_ns) = (ns(usage.ru_utime), ns(usage.ru_stime));
            Ok(Some(Reaped { status, user_ns, system_ns, own_ns }))
        }
    }
}

/// CPU time of a child that has ended and was not waited for, ns; 0 while it has not ended. Its
/// clock goes with it.
fn own_cpu_at_end(child: Pid, options: i32) -> u64 {
    let flags = libc::WEXITED | libc::WNOWAIT | options & libc::WNOHANG;
    // SAFETY: siginfo is plain data, all zeros is a value of it, and it lives through the call.
    let has_ended = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, child.as_raw() as u32, &mut info, flags) == 0 && info.si_pid() != 0
    };
    if has_ended { proc::cpu_ns(child.as_raw() as u32).unwrap_or(0) } else { 0 }
}

/// Closes the standard descriptors that Rust's runtime found closed and opened.
fn close_again(spare: RawFd) {
    for descriptor in closed_at_start().filter(|&descriptor| descriptor != spare) {
        // SAFETY: closes a descriptor that nothing in this process, about to become another program, owns or will use.
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

fn pointers(strings: &[CString]) -> Vec<*const i8> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}
