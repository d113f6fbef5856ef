//! Why the agent cannot get in: one sentence each, with what to do instead, and the exit status that goes with it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Pids that are named in a sentence, at most.
const MAX_PIDS: usize = 20;

/// Everything that stops a watch before it begins.
#[derive(Debug)]
pub enum AttachError {
    /// No such command on the PATH, or no such file.
    NotFound {
        /// As typed, escaped.
        name: String,
    },
    /// Found, but cannot be executed: no permission, a directory, not a program.
    NotExecutable {
        /// Its path, escaped.
        name: String,
        /// What it is instead.
        cause: String,
    },
    /// It would run, but nothing can be preloaded into it.
    NotPreloadable {
        /// Its path, escaped.
        name: String,
        /// What it is, why a preload cannot work, what to do instead.
        obstacle: String,
    },
    /// A command such as sudo, that starts another without its environment.
    DropsPreload {
        /// Its name.
        wrapper: String,
        /// The command line that works, or what to do.
        instead: String,
    },
    /// This build has no agent in it (documentation builds).
    NoAgent,
    /// No directory can hold the agent or the socket.
    NoPlace {
        /// What was to be kept there.
        what: &'static str,
        /// Each place tried, and why not.
        tried: Vec<(PathBuf, String)>,
    },
    /// The kernel refused to execute it.
    Exec {
        /// Its path, escaped.
        name: String,
        /// Why.
        cause: io::Error,
    },
    /// A system call of sigtop's own failed.
    System {
        /// What was being done: "cannot …".
        what: &'static str,
        /// Why.
        cause: io::Error,
    },
    /// No process has this pid.
    NoProcess {
        /// The pid.
        pid: u32,
    },
    /// A process that cannot be watched, whatever it carries.
    NotWatchable {
        /// The pid.
        pid: u32,
        /// Which kind of reason.
        refusal: Refusal,
        /// What it is, and what to do instead.
        cause: String,
    },
    /// A process that was started without the agent.
    WithoutAgent {
        /// The pid.
        pid: u32,
        /// The command that would have preloaded it.
        command: String,
    },
    /// No process is called so.
    NoName {
        /// As typed.
        name: String,
    },
    /// Several processes are.
    ManyNames {
        /// As typed.
        name: String,
        /// Which.
        pids: Vec<u32>,
        /// Whether these can be watched.
        watchable: bool,
    },
}

/// Why a running process cannot be watched, in a word or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was started without the agent.
    WithoutAgent,
    /// It belongs to another user.
    OtherUser,
    /// It may not be looked into.
    Closed,
    /// Its agent cannot be woken.
    Deaf,
    /// It is one of the kernel's threads.
    Kernel,
    /// It is a thread of a process.
    Thread,
    /// It has ended.
    Ended,
}

impl Refusal {
    /// In a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Refusal::WithoutAgent => "without agent",
            Refusal::OtherUser => "other user",
            Refusal::Closed => "not readable",
            Refusal::Deaf => "does not listen",
            Refusal::Kernel => "kernel thread",
            Refusal::Thread => "a thread",
            Refusal::Ended => "has ended",
        }
    }
}

impl AttachError {
    pub(super) fn system(what: &'static str, cause: impl Into<io::Error>) -> AttachError {
        AttachError::System { what, cause: cause.into() }
    }

    /// 127 not found, 126 cannot be run or watched, 125 sigtop's own failure.
    pub fn exit_status(&self) -> u8 {
        match self {
            AttachError::NotFound { .. } | AttachError::NoProcess { .. } | AttachError::NoName { .. } => 127,
            AttachError::Exec { cause, .. } if cause.kind() == io::ErrorKind::NotFound => 127,
            AttachError::NoAgent | AttachError::NoPlace { .. } | AttachError::System { .. } => 125,
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
            AttachError::NoPlace { what, tried } => {
                write!(f, "no directory can hold {what}; set XDG_RUNTIME_DIR to a private one. Tried:")?;
                tried.iter().try_for_each(|(place, why)| write!(f, "\n  {}: {why}", super::quote::name(place)))
            }
            AttachError::Exec { name, cause } => write!(f, "cannot execute {name}: {cause}"),
            AttachError::System { what, cause } => write!(f, "{what}: {cause}"),
            AttachError::NoProcess { pid } => write!(f, "there is no process {pid}"),
            AttachError::NotWatchable { pid, cause, .. } => write!(f, "process {pid} {cause}"),
            AttachError::WithoutAgent { pid, command } => {
                write!(f, "process {pid} was started without the agent; start it again with: sigtop -- {command}")
            }
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
