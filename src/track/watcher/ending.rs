//! The end of the target, and of the watch with it.

use crossbeam_channel::Receiver;

use super::{Feed, Watcher, monotonic_ns};
use crate::attach::launch;
use crate::track::Notice;
use crate::track::facts::Ending;
use crate::track::pace::Due;

/// After the target's end, how long the last messages of its agents may take, ns.
const LAST_WORDS_NS: u64 = 1_000_000_000;

impl Watcher {
    /// Takes in news of the target. At its end the agents are asked for everything that they sent
    /// before: the answer comes on the channel returned.
    pub(super) fn hear(&mut self, event: launch::Event) -> Option<Receiver<()>> {
        match event {
            launch::Event::OutputLost(bytes) => {
                self.tell_banner(format!("{bytes} bytes of the target's output are missing here"))
            }
            launch::Event::InputLost(bytes) => {
                self.tell_banner(format!("the target does not read: {bytes} bytes of input were dropped"))
            }
            launch::Event::Stopped { signal } => self.tell_banner(format!("the target was stopped by signal {signal}")),
            launch::Event::Continued => {}
            launch::Event::Ended(ended) => {
                let ending = match ended.how {
                    launch::Ending::Exited(status) => Ending::Exited(status.into()),
                    launch::Ending::Killed { signal, .. } => Ending::Killed(signal),
                    launch::Ending::Unknown => Ending::Gone,
                };
                self.ended = Some((ending, monotonic_ns()));
                self.tape.ended(monotonic_ns(), ending);
                if let Feed::Live(live) = &mut self.feed {
                    live.ended(ended.user_ns + ended.system_ns, ended.own_ns);
                    return Some(live.agents.flush());
                }
            }
        }
        None
    }

    /// Tells of the end when the agents' last words have come too, so that the tables are whole.
    /// Processes that outlive the target get [`LAST_WORDS_NS`] to follow it.
    pub(super) fn tell_end(&mut self, now_ns: u64) {
        let Some((ending, at_ns)) = self.ended else { return };
        if self.told_end {
            return;
        }
        let quiet = !self.desk.profile.processes().iter().any(|process| process.connected);
        let is_whole = matches!(&self.feed, Feed::Recording(player) if player.is_over);
        let since_ns = now_ns.saturating_sub(at_ns);
        if since_ns < LAST_WORDS_NS && !(quiet && self.is_flushed) && !is_whole {
            return;
        }
        if let Feed::Live(live) = &mut self.feed {
            live.close_ledger(&self.desk.profile, &self.settings, monotonic_ns());
        }
        self.answer(Due::News, monotonic_ns());
        self.tell(Notice::Ended(ending));
        self.told_end = true;
    }
}
