//! Why a process uses CPU time and sends no samples, as far as `/proc` tells.

use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::Signal;

use super::find;
use super::proc::{Stat, Status, maps_hold, threads};
use super::quote;

/// Threads of a process that are looked at.
const MAX_THREADS: usize = 256;
/// Set-user-ID and set-group-ID, as bits of a mode.
const SET_ID: u32 = 0o6000;

/// Whether a process has the agent's library mapped; `None` if it cannot be looked into.
pub fn carries_agent(pid: u32) -> Option<bool> {
    maps_hold(pid, find::is_agent).ok()
}

/// Why the signal of the agent's ticks does not reach its handler in a process; `None` if nothing
/// stands in its way, or the process is gone.
pub fn why(pid: u32, signal: u32) -> Option<String> {
    let name = quote::name(&Stat::of(pid).ok()?.comm);
    if !carries_agent(pid)? {
        let has_set_id = fs::metadata(format!("/proc/{pid}/exe")).is_ok_and(|file| file.mode() & SET_ID != 0);
        let cause =
            if has_set_id { "setuid programs load no" } else { "static, or started without the environment: no" };
        return Some(format!("{name} does not carry the agent ({cause} preloaded library)"));
    }
    let bit = 1 << signal.checked_sub(1).filter(|&bit| bit < 64)?;
    let statuses: Vec<Status> =
        threads(pid).into_iter().take(MAX_THREADS).filter_map(|tid| Status::of_thread(pid, tid).ok()).collect();
    let signal = name_of(signal);
    if statuses.iter().any(|status| status.caught & bit == 0) {
        return Some(format!("{name} has no handler for {signal} any more"));
    }
    match statuses.iter().filter(|status| status.blocked & bit != 0).count() {
        0 => None,
        all if all == statuses.len() => Some(format!("{signal} is blocked in {name}")),
        some => Some(format!("{signal} is blocked in {some} of {} threads of {name}", statuses.len())),
    }
}

fn name_of(signal: u32) -> String {
    let known = Signal::try_from(signal as i32);
    known.map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}
