//! The part of a process that is sampled.

use std::fmt;

/// The part of a process that is sampled. Written behind its pid in the commands to the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchScope {
    /// The process and its children, from now on.
    FromNow,
    /// The process and its children, with all CPU time that they have used: the viewer has just
    /// started it.
    FromStart,
    /// The process from now on, until it executes another program, and no children: those that can
    /// carry an agent are sampled by that.
    Alone,
    /// The threads that sleep, on the wall clock, and no children. The process carries an agent
    /// that has not started; it will sample the CPU time of the process, also that of before.
    Asleep {
        /// Time on `CLOCK_MONOTONIC` from which on time without samples is lost, ns; 0 if none is.
        missed_since_ns: u64,
    },
}

impl WatchScope {
    /// Parses the words of a command.
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<WatchScope> {
        match words.next()? {
            "running" => Some(WatchScope::FromNow),
            "new" => Some(WatchScope::FromStart),
            "alone" => Some(WatchScope::Alone),
            "asleep" => Some(WatchScope::Asleep { missed_since_ns: words.next()?.parse().ok()? }),
            _ => None,
        }
    }

    /// Whether children are sampled, too.
    pub(super) fn has_children(self) -> bool {
        matches!(self, WatchScope::FromNow | WatchScope::FromStart)
    }

    /// Whether only sleeping threads are sampled.
    pub(super) fn is_asleep(self) -> bool {
        matches!(self, WatchScope::Asleep { .. })
    }

    /// Returns what is sampled of the process once more: after it has executed another program, or
    /// by another sampler.
    pub(super) fn again(self) -> Option<WatchScope> {
        match self {
            WatchScope::FromNow | WatchScope::FromStart => Some(WatchScope::FromNow),
            WatchScope::Alone => None,
            WatchScope::Asleep { .. } => Some(WatchScope::Asleep { missed_since_ns: 0 }),
        }
    }
}

impl fmt::Display for WatchScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchScope::FromNow => f.write_str("running"),
            WatchScope::FromStart => f.write_str("new"),
            WatchScope::Alone => f.write_str("alone"),
            WatchScope::Asleep { missed_since_ns } => write!(f, "asleep {missed_since_ns}"),
        }
    }
}
