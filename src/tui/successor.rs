//! The search for a new process with the name of a target that has ended, in a thread of its own.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::attach::proc;
use crate::attach::survey::{Survey, SurveyedProcess, first_of_name};

/// Time between two surveys.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time before the search in which a successor may have started: the end of a target is known only
/// once its last samples have arrived, and a supervisor may be faster.
const HEAD_START: Duration = Duration::from_secs(2);

/// A search. It ends when this is dropped.
pub struct SuccessorSearch {
    /// Receives the pid of the process, once.
    pub found: Receiver<u32>,
    _running: Sender<()>,
}

impl SuccessorSearch {
    /// Searches for a process of this name that has just started. Without a thread for the search,
    /// none is found.
    pub(super) fn start(name: String) -> SuccessorSearch {
        let (sender, found) = bounded(1);
        let (running, stopped) = bounded(0);
        let search = thread::Builder::new().name("successor".to_owned());
        let _ = search.spawn(move || run(&name, &sender, &stopped));
        SuccessorSearch { found, _running: running }
    }
}

fn run(name: &str, sender: &Sender<u32>, stopped: &Receiver<()>) {
    let (mut survey, started) = (Survey::default(), Instant::now());
    // Nothing is ever sent on this channel: it is closed, or the timeout expires.
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let candidates = survey.look();
        let oldest = started.elapsed() + HEAD_START;
        let is_new = |one: &&SurveyedProcess| proc::time_since(one.start_ticks).is_some_and(|age| age < oldest);
        let mut watchable = candidates.iter().filter(|one| one.obstacle.is_none() && one.is_called(name));
        if let Some(found) = watchable.find(is_new) {
            // The search may have been dropped.
            let _ = sender.send(first_of_name(found.pid, &candidates));
            return;
        }
    }
}
