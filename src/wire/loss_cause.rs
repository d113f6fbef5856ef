//! The causes of lost ticks and their words. Everything that shows losses reads this table.
//!
//! A new cause needs a variant and a row of the table here, and a call of `counters::lose` in the
//! agent.

/// The reason why a tick did not become a sample. Each cause has a counter in
/// [`AgentCounters`](super::AgentCounters), at the index of its discriminant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LossCause {
    /// The ring buffer between handlers and agent thread was full.
    RingFull = 0,
    /// More handlers ran simultaneously than there are slots.
    NoSlot = 1,
    /// The tick came before the agent could store it.
    NotReady = 2,
    /// The viewer did not read fast enough, and the socket was full.
    SocketFull = 3,
    /// A thread could not be given a timer.
    NoTimer = 4,
    /// CPU time of the process for which no tick came, in periods: of threads that ended before
    /// their first tick, or that block the signal.
    Unaccounted = 5,
}

/// The words for a cause.
struct Words {
    id: &'static str,
    short: &'static str,
    long: &'static str,
}

/// All causes in wire order.
const TABLE: [(LossCause, Words); 6] = [
    (LossCause::RingFull, Words { id: "ring-full", short: "ring full", long: "ring buffer full" }),
    (LossCause::NoSlot, Words { id: "no-slot", short: "no slot", long: "too many concurrent handlers" }),
    (LossCause::NotReady, Words { id: "not-ready", short: "not ready", long: "agent not ready" }),
    (LossCause::SocketFull, Words { id: "socket-full", short: "socket full", long: "sigtop read too slowly" }),
    (LossCause::NoTimer, Words { id: "no-timer", short: "no timer", long: "thread without timer" }),
    (LossCause::Unaccounted, Words { id: "unaccounted", short: "unaccounted", long: "CPU time without a tick" }),
];

impl LossCause {
    /// All causes in wire order.
    pub const ALL: [LossCause; TABLE.len()] = {
        let mut all = [LossCause::RingFull; TABLE.len()];
        let mut index = 0;
        while index < TABLE.len() {
            assert!(TABLE[index].0 as usize == index);
            all[index] = TABLE[index].0;
            index += 1;
        }
        all
    };

    fn words(self) -> &'static Words {
        &TABLE[self as usize].1
    }

    /// The word in the raw dump, such as `ring-full`.
    pub fn id(self) -> &'static str {
        self.words().id
    }

    /// The words after a number in a line of text, such as `ring full`.
    pub fn short(self) -> &'static str {
        self.words().short
    }

    /// The words on a line of its own.
    pub fn long(self) -> &'static str {
        self.words().long
    }
}
