//! Scheduler states of threads, read from `/proc` twice per second while the threads pane is shown,
//! and titles of processes. Reading them costs the target nothing.

use crate::attach::proc::{self, ProcStat};
use crate::profile::Profile;
use crate::profile::process::ProcessId;
use crate::profile::thread::{ThreadId, ThreadState};

/// Time between two readings, ns.
pub(super) const READ_NS: u64 = 500_000_000;
/// Maximum number of threads to read, at some 8 µs each. A longer list is of no use on a screen.
const MAX_THREADS: usize = 512;

/// Maximum number of processes whose titles are read.
const MAX_PROCESSES: usize = 64;

/// Reads the states of running threads in the viewer's pid namespace.
pub(super) fn update(profile: &mut Profile) {
    let is_here = |id: &ThreadId| {
        let thread = profile.thread(*id);
        let process = profile.process(thread.process);
        !thread.ended && process.connected && process.pid == process.own_pid && thread.tid != 0
    };
    let ids = (0..profile.threads().len() as u32).map(ThreadId);
    let living: Vec<ThreadId> = ids.filter(is_here).take(MAX_THREADS).collect();
    for id in living {
        let thread = profile.thread(id);
        let stat = ProcStat::of_thread(profile.process(thread.process).pid, thread.tid);
        profile.set_thread_state(id, stat.map_or(ThreadState::Unknown, |stat| state(&stat)));
    }
}

/// Reads the arguments of processes again: servers write over them what they do, as
/// `postgres: app shop [local] UPDATE waiting`.
pub(super) fn update_titles(profile: &mut Profile) {
    let connected = profile.processes().iter().enumerate().filter(|(_, process)| process.connected);
    let living: Vec<(usize, u32)> =
        connected.map(|(index, process)| (index, process.pid)).take(MAX_PROCESSES).collect();
    for (index, pid) in living {
        let words: Vec<String> =
            proc::command_line(pid).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        if !words.is_empty() {
            profile.set_title(ProcessId(index as u32), words);
        }
    }
}

fn state(stat: &ProcStat) -> ThreadState {
    match stat.state {
        b'Z' | b'X' | b'x' => ThreadState::Ended,
        _ if stat.is_io_worker() => ThreadState::IoUring,
        b'R' => ThreadState::Running,
        b'S' | b'I' => ThreadState::Sleeping,
        b'D' => ThreadState::Waiting,
        b'T' | b't' => ThreadState::Stopped,
        _ => ThreadState::Unknown,
    }
}
