//! Signals sent to sigtop, as events for the event loop.
//!
//! They are caught by handlers, not blocked: the target inherits the signal mask, so a blocked
//! signal would be blocked there too. After the screen closes, every signal has its default action
//! again. A signal that was ignored when sigtop started (`nohup`) stays ignored.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgrp, getpid};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::{flag, low_level};

use super::error::TuiError;
use super::tty;

/// Capacity of the channel to the event loop. When it is full, further signals are dropped.
const MAX_QUEUED: usize = 64;
/// Maximum number of processes between this one and its shell.
const MAX_ANCESTORS: usize = 64;

/// An event caused by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalEvent {
    /// SIGTERM, SIGHUP, SIGINT or SIGQUIT: leave the screen.
    Leave(i32),
    /// SIGTSTP: stop this process.
    Suspend,
    /// SIGCONT: this process was continued.
    Continue,
    /// SIGWINCH: the size of the terminal changed.
    Resize,
}

/// Whether signals have their default action. Set while no screen is shown.
static DEFAULT_ACTIONS: OnceLock<DefaultActions> = OnceLock::new();

#[derive(Clone)]
struct DefaultActions {
    hangup: Arc<AtomicBool>,
    others: Arc<AtomicBool>,
}

/// Whether [`ignore_hangups`] was called.
static HANGUPS_IGNORED: AtomicBool = AtomicBool::new(false);

impl DefaultActions {
    fn set(&self, enabled: bool) {
        // While a hangup is being handled, another one must not terminate the process.
        let hangup = enabled && !HANGUPS_IGNORED.load(Ordering::SeqCst);
        self.hangup.store(hangup, Ordering::SeqCst);
        self.others.store(enabled, Ordering::SeqCst);
    }
}

/// Receives signals until it is dropped.
pub struct SignalListener {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    default_actions: DefaultActions,
}

impl SignalListener {
    /// Installs the handlers and starts the thread.
    ///
    /// # Errors
    /// A handler or the thread could not be created.
    pub fn start() -> Result<(SignalListener, Receiver<SignalEvent>), TuiError> {
        let failure = |cause| TuiError::Signals { cause };
        let is_ignored = ignored_signals();
        let leaving = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];
        let caught = leaving.into_iter().chain([Signal::SIGTSTP]).map(|signal| signal as c_int);
        let caught: Vec<c_int> = caught.filter(|signal| !is_ignored(*signal)).collect();
        let default_actions = match DEFAULT_ACTIONS.get() {
            Some(flags) => flags.clone(),
            None => {
                let flag = || Arc::new(AtomicBool::new(true));
                let default_actions = DefaultActions { hangup: flag(), others: flag() };
                for &signal in &caught {
                    let is_hangup = signal == Signal::SIGHUP as c_int;
                    let flag = if is_hangup { &default_actions.hangup } else { &default_actions.others };
                    flag::register_conditional_default(signal, Arc::clone(flag)).map_err(failure)?;
                }
                DEFAULT_ACTIONS.get_or_init(|| default_actions).clone()
            }
        };
        let more = [Signal::SIGCONT as c_int, Signal::SIGWINCH as c_int];
        let mut signals = Signals::new(caught.iter().chain(&more)).map_err(failure)?;
        let handle = signals.handle();
        let (sender, receiver) = crossbeam_channel::bounded(MAX_QUEUED);
        default_actions.set(false);
        let mut listener = SignalListener { handle, thread: None, default_actions };
        let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || listen(&mut signals, &sender));
        listener.thread = Some(thread.map_err(failure)?);
        Ok((listener, receiver))
    }
}

impl Drop for SignalListener {
    fn drop(&mut self) {
        self.default_actions.set(true);
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

fn listen(signals: &mut Signals, events: &Sender<SignalEvent>) {
    let mut is_leaving = false;
    for signal in signals.forever() {
        if signal == Signal::SIGHUP as c_int {
            ignore_hangups();
        }
        let event = match Signal::try_from(signal) {
            Ok(Signal::SIGTSTP) => SignalEvent::Suspend,
            Ok(Signal::SIGCONT) => SignalEvent::Continue,
            Ok(Signal::SIGWINCH) => SignalEvent::Resize,
            // The kernel and the shell both send it when the terminal is gone.
            Ok(Signal::SIGHUP) if is_leaving => continue,
            _ if is_leaving => {
                // A second one: the event loop does not respond, perhaps because the terminal
                // blocks.
                tty::restore_if_free();
                die_by_signal(signal);
            }
            _ => {
                is_leaving = true;
                SignalEvent::Leave(signal)
            }
        };
        // A full channel contains enough events to make the loop check everything again.
        let _ = events.try_send(event);
    }
}

/// Ignores SIGHUP from now on. After the first one, sigtop still hangs up on the target and
/// completes the recording, and the SIGHUP of the shell, which follows that of the kernel, must not
/// interrupt it.
pub fn ignore_hangups() {
    HANGUPS_IGNORED.store(true, Ordering::SeqCst);
    crate::attach::ignore_hangups();
}

/// Terminates this process as by the signal, so that its parent sees the cause.
pub fn die_by_signal(signal: i32) -> ! {
    // If the signal does not terminate the process, the equivalent exit status does.
    let _ = low_level::emulate_default_handler(signal);
    std::process::exit(128 + signal)
}

/// Stops this process until it is continued.
pub fn stop() {
    // This fails only for unknown signals.
    let _ = low_level::raise(Signal::SIGSTOP as c_int);
}

/// Sends SIGTSTP to the whole job, as a terminal does for Ctrl-Z. Returns false, and does nothing,
/// if no shell could continue it.
pub fn suspend_job() -> bool {
    has_shell() && nix::sys::signal::kill(Pid::from_raw(0), Signal::SIGTSTP).is_ok()
}

/// Whether an ancestor in this session is outside of this job: a shell that can continue the job.
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

/// The parent, the process group and the session of a process: fields 4 to 6 of `/proc/PID/stat`.
fn parent_job_session(pid: i32) -> Option<(i32, i32, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself contain parentheses.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(1).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?))
}

/// Returns a predicate for the signals that this process ignores.
fn ignored_signals() -> impl Fn(c_int) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| (1..=64).contains(&signal) && mask & (1 << (signal - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_proc() {
        // Rust's runtime ignores SIGPIPE for every program.
        assert!(ignored_signals()(Signal::SIGPIPE as c_int));
        assert!(!ignored_signals()(Signal::SIGSEGV as c_int));
        assert!(!ignored_signals()(0) && !ignored_signals()(99));
    }

    #[test]
    fn parent_job_and_session_are_read_from_proc() {
        let (parent, job, session) = parent_job_session(getpid().as_raw()).expect("this process");
        assert_eq!(parent, nix::unistd::getppid().as_raw());
        assert_eq!(job, getpgrp().as_raw());
        assert_eq!(session, nix::unistd::getsid(None).expect("a session").as_raw());
    }
}
