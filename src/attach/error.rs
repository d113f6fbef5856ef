//! Errors of attaching: one sentence each with its remedy, and the exit status.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Maximum number of pids in one message.
const MAX_PIDS: usize = 20;

/// Any reason why a watch cannot begin.
#[derive(Debug)]
pub enum AttachError {
    /// The PATH has no such command, or there is no such file.
    NotFound {
        /// The name as typed, escaped for display.
        name: String,
    },
    /// The file exists but cannot be executed: no permission, a directory, not a program.
    NotExecutable {
        /// The path, escaped for display.
        name: String,
        /// The description of what the file is.
        cause: String,
    },
    /// The program would run, but nothing can be preloaded into it.
    NotPreloadable {
        /// The path, escaped for display.
        name: String,
        /// The description of the program, why a preload cannot work, and the remedy.
        obstacle: String,
    },
    /// The command, such as sudo, starts another one without its environment.
    DropsPreload {
        /// The name of the command.
        wrapper: String,
        /// The command line that works, or another remedy.
        instead: String,
    },
    /// This build has no agent in it, as documentation builds do.
    NoAgent,
    /// No directory can hold the agent's library or the socket.
    NoDirectory {
        /// The purpose of the directory.
        what: &'static str,
        /// Each directory that was tried, and why it cannot be used.
        tried: Vec<(PathBuf, String)>,
    },
    /// The kernel refused to execute the program.
    Exec {
        /// The path, escaped for display.
        name: String,
        /// The cause.
        cause: io::Error,
    },
    /// A system call of sigtop itself failed.
    System {
        /// The failure, as `cannot …`.
        what: &'static str,
        /// The cause.
        cause: io::Error,
    },
    /// No process has this pid.
    NoProcess {
        /// The process's pid.
        pid: u32,
    },
    /// The process cannot be watched, even with an agent in it.
    NotWatchable {
        /// The process's pid.
        pid: u32,
        /// The kind of reason.
        refusal: Refusal,
        /// The description of the process, and the remedy.
        cause: String,
    },
    /// No process has this name.
    NoName {
        /// The name as typed.
        name: String,
    },
    /// Several processes have this name.
    ManyNames {
        /// The name as typed.
        name: String,
        /// Their pids.
        pids: Vec<u32>,
        /// Whether these processes can be watched.
        watchable: bool,
    },
}

/// The reason why a running process cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel does not let the process be traced.
    NotTraceable,
    /// The process belongs to another user.
    OtherUser,
    /// The files of the process in `/proc` may not be read.
    NotReadable,
    /// The agent cannot receive a wake signal.
    CannotWake,
    /// The process executes a 32-bit program.
    Bits32,
    /// The process is a kernel thread.
    Kernel,
    /// The pid is the tid of a thread of another process.
    Thread,
    /// The process has ended.
    Ended,
}

impl Refusal {
    /// A label of one or two words.
    pub fn label(self) -> &'static str {
        match self {
            Refusal::NotTraceable => "not traceable",
            Refusal::OtherUser => "other user",
            Refusal::NotReadable => "not readable",
            Refusal::CannotWake => "cannot be woken",
            Refusal::Bits32 => "32-bit program",
            Refusal::Kernel => "kernel thread",
            Refusal::Thread => "a thread",
            Refusal::Ended => "has ended",
        }
    }
}

impl AttachError {
    pub(crate) fn system(what: &'static str, cause: impl Into<io::Error>) -> AttachError {
        AttachError::System { what, cause: cause.into() }
    }

    /// The exit status: 127 for not found, 126 for what cannot be run or watched, 125 for a failure
    /// of sigtop itself.
    pub fn exit_status(&self) -> u8 {
        match self {
            AttachError::NotFound { .. } | AttachError::NoProcess { .. } | AttachError::NoName { .. } => 127,
            AttachError::Exec { cause, .. } if cause.kind() == io::ErrorKind::NotFound => 127,
            AttachError::NoAgent | AttachError::NoDirectory { .. } | AttachError::System { .. } => 125,
            _ => 126,
        }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::NotFound { name } if name.contains('/') => write!(f, "{name}: no such file"),
            AttachError::NotFound { name } => write!(f, "{name}: command not found (is it on the PATH?)"),
            AttachError::NotExecutable { name, cause } => write!(f, "{name} {cause}"),
            AttachError::NotPreloadable { name, obstacle } => write!(f, "{name} {obstacle}"),
            AttachError::DropsPreload { wrapper, instead } => write!(f, "{wrapper} drops LD_PRELOAD; {instead}"),
            AttachError::NoAgent => {
                write!(f, "this sigtop was built without its agent: install it with cargo install sigtop")
            }
            AttachError::NoDirectory { what, tried } => {
                write!(f, "no directory can hold {what}; set XDG_RUNTIME_DIR to a private one. Tried:")?;
                tried.iter().try_for_each(|(place, why)| write!(f, "\n  {}: {why}", super::quote::name(place)))
            }
            AttachError::Exec { name, cause } => write!(f, "cannot execute {name}: {cause}"),
            AttachError::System { what, cause } => write!(f, "{what}: {cause}"),
            AttachError::NoProcess { pid } => write!(f, "there is no process {pid}"),
            AttachError::NotWatchable { pid, cause, .. } => write!(f, "process {pid} {cause}"),
            AttachError::NoName { name } => {
                write!(f, "no process is called {}; sigtop alone lists what can be watched", super::quote::name(name))
            }
            AttachError::ManyNames { name, pids, watchable } => {
                let (count, name) = (pids.len(), super::quote::name(name));
                let pids = pids.iter().take(MAX_PIDS).map(u32::to_string).collect::<Vec<_>>().join(",");
                match watchable {
                    true => write!(f, "{count} processes are called {name}; name one, or several: sigtop --pid {pids}"),
                    false => write!(
                        f,
                        "none of the {count} processes called {name} can be watched ({pids}); sigtop --pid with one of them says why"
                    ),
                }
            }
        }
    }
}

impl std::error::Error for AttachError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AttachError::Exec { cause, .. } | AttachError::System { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
