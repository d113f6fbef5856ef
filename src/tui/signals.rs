//! Signals to sigtop itself, as words for the loop.
//!
//! They are caught by handlers, not blocked: a blocked signal would stay blocked in the target, which inherits the mask.
//! Once the screen is left every signal does again what it does by default. A signal that was ignored when sigtop was
//! started (`nohup`) stays ignored.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgrp, getpid};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::{flag, low_level};

use super::terminal::{self, TuiError};

/// Signals waiting to be heard, at most; one that finds no room is one of many of its kind.
const MAX_WAITING: usize = 64;
/// Processes between this one and its shell, at most.
const MAX_ANCESTORS: usize = 64;

/// What a signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Go: SIGTERM, SIGHUP, SIGINT or SIGQUIT.
    Leave(i32),
    /// Stop, as the shell's job does.
    Suspend,
    /// Go on.
    Continue,
    /// The terminal has another size.
    Resize,
}

/// Whether signals do what they do by default. Set while no screen is there.
static BY_DEFAULT: OnceLock<ByDefault> = OnceLock::new();

#[derive(Clone)]
struct ByDefault {
    hangup: Arc<AtomicBool>,
    others: Arc<AtomicBool>,
}

/// Whether [`ignore_hangups`] was called.
static HANGUPS_IGNORED: AtomicBool = AtomicBool::new(false);

impl ByDefault {
    fn set(&self, by_default: bool) {
        // A handler of a hangup that is under way must not end what is done after it.
        let hangup = by_default && !HANGUPS_IGNORED.load(Ordering::SeqCst);
        self.hangup.store(hangup, Ordering::SeqCst);
        self.others.store(by_default, Ordering::SeqCst);
    }
}

/// Listens until it is dropped.
pub struct Listener {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    by_default: ByDefault,
}

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system refused a handler or a thread.
    pub fn start() -> Result<(Listener, Receiver<Heard>), TuiError> {
        let cannot = |cause| TuiError::Signals { cause };
        let ignored = ignored();
        let leaving = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];
        let caught = leaving.into_iter().chain([Signal::SIGTSTP]).map(|signal| signal as c_int);
        let caught: Vec<c_int> = caught.filter(|signal| !ignored(*signal)).collect();
        let by_default = match BY_DEFAULT.get() {
            Some(flags) => flags.clone(),
            None => {
                let flag = || Arc::new(AtomicBool::new(true));
                let by_default = ByDefault { hangup: flag(), others: flag() };
                for &signal in &caught {
                    let is_hangup = signal == Signal::SIGHUP as c_int;
                    let flag = if is_hangup { &by_default.hangup } else { &by_default.others };
                    flag::register_conditional_default(signal, Arc::clone(flag)).map_err(cannot)?;
                }
                BY_DEFAULT.get_or_init(|| by_default).clone()
            }
        };
        let more = [Signal::SIGCONT as c_int, Signal::SIGWINCH as c_int];
        let mut signals = Signals::new(caught.iter().chain(&more)).map_err(cannot)?;
        let handle = signals.handle();
        let (sender, receiver) = crossbeam_channel::bounded(MAX_WAITING);
        by_default.set(false);
        let mut listener = Listener { handle, thread: None, by_default };
        let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || listen(&mut signals, &sender));
        listener.thread = Some(thread.map_err(cannot)?);
        Ok((listener, receiver))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.by_default.set(true);
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // Its panic, if it had one, was told by the hook.
            let _ = thread.join();
        }
    }
}

fn listen(signals: &mut Signals, heard: &Sender<Heard>) {
    let mut told = false;
    for signal in signals.forever() {
        if signal == Signal::SIGHUP as c_int {
            ignore_hangups();
        }
        let word = match Signal::try_from(signal) {
            Ok(Signal::SIGTSTP) => Heard::Suspend,
            Ok(Signal::SIGCONT) => Heard::Continue,
            Ok(Signal::SIGWINCH) => Heard::Resize,
            // The kernel's and the shell's: the terminal is gone once.
            Ok(Signal::SIGHUP) if told => continue,
            _ if told => {
                // Told twice: the loop does not get to it, perhaps because the terminal takes no more text.
                terminal::restore_if_free();
                die_of(signal);
            }
            _ => {
                told = true;
                Heard::Leave(signal)
            }
        };
        // A full queue has words enough in it for the loop to look at everything anew.
        let _ = heard.try_send(word);
    }
}

/// Ignores SIGHUP from now on: one is enough to know that the terminal is gone, and a shell repeats
/// the kernel's. What is left to do after it, to hang up on the target and to finish a recording,
/// is not to be cut short.
pub fn ignore_hangups() {
    HANGUPS_IGNORED.store(true, Ordering::SeqCst);
    crate::attach::ignore_hangups();
}

/// Ends this process as a signal would have ended it, so that its parent sees the truth.
pub fn die_of(signal: i32) -> ! {
    // What cannot be done by the signal itself is done by its usual status.
    let _ = low_level::emulate_default_handler(signal);
    std::process::exit(128 + signal)
}

/// Stops this process until somebody continues it.
pub fn stop() {
    // Nothing but an unknown signal can fail here.
    let _ = low_level::raise(Signal::SIGSTOP as c_int);
}

/// Sends SIGTSTP to the whole job, this process included, as a terminal does for Ctrl-Z; whether there is a shell that
/// could continue it.
pub fn suspend_job() -> bool {
    has_shell() && nix::sys::signal::kill(Pid::from_raw(0), Signal::SIGTSTP).is_ok()
}

/// Whether an ancestor in this session is outside of this job. Without one, nobody continues what stops.
fn has_shell() -> bool {
    let (job, mut pid) = (getpgrp().as_raw(), getpid().as_raw());
    let Some((_, _, session)) = parent_job_session(pid) else { return false };
    for _ in 0..MAX_ANCESTORS {
        match parent_job_session(pid) {
            Some((_, _, other)) if other != session => return false,
            Some((_, other, _)) if other != job => return true,
            Some((parent, _, _)) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

/// Fields 4 to 6 of `/proc/PID/stat`.
fn parent_job_session(pid: i32) -> Option<(i32, i32, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything, brackets too.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(1).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?))
}

/// Which signals are ignored now.
fn ignored() -> impl Fn(c_int) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| (1..=64).contains(&signal) && mask & (1 << (signal - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_known() {
        // Rust's runtime ignores SIGPIPE for every program.
        assert!(ignored()(Signal::SIGPIPE as c_int));
        assert!(!ignored()(Signal::SIGSEGV as c_int));
        assert!(!ignored()(0) && !ignored()(99));
    }

    #[test]
    fn processes_have_parents() {
        let (parent, job, session) = parent_job_session(getpid().as_raw()).expect("this process");
        assert_eq!(parent, nix::unistd::getppid().as_raw());
        assert_eq!(job, getpgrp().as_raw());
        assert_eq!(session, nix::unistd::getsid(None).expect("a session").as_raw());
    }
}
