//! The thread that sends parts to a store. Whoever adds profiles never waits for it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::curl::Curl;
use super::delivery::{Delivery, PushCounts};
use super::parts::divide;
use super::store::Store;
use crate::pprof::profile::SavedProfile;

/// Sends profiles in the background.
pub struct Sender {
    shared: Arc<Shared>,
    max_entries: usize,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<SenderState>,
    /// Wakes both sides when the state has changed.
    changed: Condvar,
    started: Instant,
    curl: Curl,
}

#[derive(Default)]
struct SenderState {
    delivery: Delivery,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SenderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn run(&self, store: &Store) {
        let mut state = self.lock();
        while !state.is_over {
            if let Some(part) = state.delivery.start(self.now()) {
                drop(state);
                let outcome = self.curl.send(store, &part);
                state = self.lock();
                let jitter = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
                state.delivery.finish(outcome, self.now(), jitter);
                self.changed.notify_all();
                continue;
            }
            state = match state.delivery.due() {
                Some(due) => {
                    let wait = due.saturating_sub(self.now());
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Sender {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot start it.
    pub fn start(store: Store) -> io::Result<Sender> {
        let max_entries = store.kind.max_entries();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            started: Instant::now(),
            curl: Curl::default(),
        });
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("push".to_owned()).spawn(move || own.run(&store))?;
        Ok(Sender { shared, max_entries, thread: Some(thread) })
    }

    /// Adds a profile.
    pub fn add(&self, profile: SavedProfile) {
        let entries = profile.samples.len() as u64;
        let divided = divide(profile);
        let mut state = self.shared.lock();
        match divided {
            Ok(parts) => parts.into_iter().for_each(|part| state.delivery.add(part, self.max_entries)),
            Err(why) => state.delivery.refuse(entries, why),
        }
        self.shared.changed.notify_all();
    }

    /// The counts so far.
    pub fn counts(&self) -> PushCounts {
        self.shared.lock().delivery.counts()
    }

    /// Sends what waits, for at most `patience`, and ends. What is not sent by then is counted.
    pub fn finish(mut self, patience: Duration) -> PushCounts {
        let deadline = self.shared.now() + patience;
        let mut state = self.shared.lock();
        state.delivery.hurry(self.shared.now());
        self.shared.changed.notify_all();
        while !state.delivery.is_done() {
            let left = deadline.saturating_sub(self.shared.now());
            if left.is_zero() {
                break;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_over = true;
        state.delivery.give_up();
        let counts = state.delivery.counts();
        drop(state);
        self.shared.changed.notify_all();
        self.shared.curl.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        counts
    }
}
