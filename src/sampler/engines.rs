//! Says which of the two ways to sample from outside the kernel allows.

use std::fs;

use nix::unistd::geteuid;

use super::{interpreter, perf};
use crate::wire::Engine;

/// The setting that restricts perf events.
const PERF_PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Checks that the kernel samples a process for this user (`perf_event_open(2)`).
///
/// # Errors
/// The reason and the remedy, as a clause about the process.
pub fn check_events(pid: u32) -> Result<(), String> {
    let Err(error) = perf::check_access(pid) else { return Ok(()) };
    let setting = fs::read_to_string(PERF_PARANOID).ok().and_then(|text| text.trim().parse::<i32>().ok());
    let reason = match (error.raw_os_error(), setting) {
        (Some(libc::ESRCH), _) => return Ok(()),
        (_, Some(setting @ 3..)) if !geteuid().is_root() => format!("kernel.perf_event_paranoid is {setting}"),
        _ => error.to_string(),
    };
    Err(format!(
        "cannot be sampled by perf events ({reason}): run sigtop with sudo, a container with --cap-add PERFMON, \
         or leave out --engine"
    ))
}

/// Returns why a process would be sampled by stops, as a clause and the remedy; `None` if it is
/// not. `engine` is the one that the user wants.
pub fn why_stopped(pid: u32, engine: Engine) -> Option<&'static str> {
    match engine {
        Engine::Ptrace => Some("--engine external avoids it where the kernel allows that"),
        Engine::External if check_events(pid).is_err() => Some("sudo or --cap-add PERFMON avoids it"),
        Engine::External if interpreter::is_likely(pid) => {
            Some("--engine events avoids it, but does not read Python functions")
        }
        _ => None,
    }
}
