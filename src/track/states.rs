//! What threads do, read from outside: it costs the target nothing. For a reader of the threads pane alone, twice a second.

use crate::attach::proc::Stat;
use crate::profile::Profile;
use crate::profile::thread::{State, ThreadId};

/// Between two readings, ns.
pub(super) const READ_NS: u64 = 500_000_000;
/// Threads that are looked at: some 8 us each. Of more, nobody can read the list anyway.
const MAX_THREADS: usize = 512;

/// Looks at the threads that live, as far as their ids are ours too.
pub(super) fn read(profile: &mut Profile) {
    let is_here = |id: &ThreadId| {
        let thread = profile.thread(*id);
        let process = profile.process(thread.process);
        !thread.ended && process.connected && process.pid == process.own_pid && thread.tid != 0
    };
    let ids = (0..profile.threads().len() as u32).map(ThreadId);
    let living: Vec<ThreadId> = ids.filter(is_here).take(MAX_THREADS).collect();
    for id in living {
        let thread = profile.thread(id);
        let stat = Stat::of_thread(profile.process(thread.process).pid, thread.tid);
        profile.see_state(id, stat.map_or(State::Unknown, |stat| state(stat.state)));
    }
}

/// As proc(5) has the letters.
fn state(letter: u8) -> State {
    match letter {
        b'R' => State::Running,
        b'S' | b'I' => State::Sleeping,
        b'D' => State::Waiting,
        b'T' | b't' => State::Stopped,
        b'Z' | b'X' | b'x' => State::Ended,
        _ => State::Unknown,
    }
}
