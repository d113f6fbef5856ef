//! The words of the sampling clocks and of the timer sources.

use super::{Keyword, Word};
use crate::wire::{Clock, Engine};

impl Keyword for Clock {
    const ALL: &'static [Clock] = &Clock::ALL;

    fn word(self) -> Word {
        match self {
            Clock::Prof => {
                Word::new("cpu", "CPU time, user and system (ITIMER_PROF)").with_label("PROF").with_alias("prof")
            }
            Clock::Real => Word::new("wall", "wall-clock time, sleeping threads included (ITIMER_REAL)")
                .with_label("REAL")
                .with_alias("real"),
            Clock::Virtual => Word::new("user", "user CPU time, only with setitimer(2) (ITIMER_VIRTUAL)")
                .with_label("VIRTUAL")
                .with_alias("virtual"),
            Clock::Alloc => Word::new("alloc", "allocated bytes, sampled by the agent").with_label("ALLOC"),
            Clock::Live => Word::new("live", "allocated bytes that are not freed yet").with_label("LIVE"),
        }
    }
}

/// The names of a clock in all places that name it.
pub struct ClockNames {
    /// The action of its key in the config file.
    pub action: &'static str,
    /// The header of the screen.
    pub header: &'static str,
    /// The noun for the measured quantity, in a sentence.
    pub measured: &'static str,
    /// The words behind an amount of it.
    pub amount: &'static str,
    /// The column of a thread's share.
    pub share: &'static str,
    /// The interval timer, as setitimer(2) names it, and its signal, which terminates a process
    /// that does not handle it. Clocks of memory have none.
    pub timer: (&'static str, &'static str),
    /// The pprof sample type.
    pub sample_type: &'static str,
    /// The pprof type of the number that belongs to it, where it has a name of its own.
    pub count_type: Option<&'static str>,
}

impl Clock {
    /// The names of the clock in all places.
    pub fn names(self) -> ClockNames {
        match self {
            Clock::Prof => ClockNames {
                action: "prof",
                header: "CPU time",
                measured: "CPU time",
                amount: "of CPU time",
                share: "cpu%",
                timer: ("ITIMER_PROF", "SIGPROF"),
                sample_type: "cpu",
                count_type: None,
            },
            Clock::Real => ClockNames {
                action: "real",
                header: "wall time",
                measured: "wall-clock time of threads",
                amount: "of wall-clock time",
                share: "wall%",
                timer: ("ITIMER_REAL", "SIGALRM"),
                sample_type: "wall",
                count_type: None,
            },
            Clock::Virtual => ClockNames {
                action: "virtual",
                header: "user time",
                measured: "user CPU time",
                amount: "of user CPU time",
                share: "user%",
                timer: ("ITIMER_VIRTUAL", "SIGVTALRM"),
                sample_type: "user",
                count_type: None,
            },
            Clock::Alloc => ClockNames {
                action: "alloc",
                header: "ALLOC",
                measured: "allocated memory",
                amount: "allocated",
                share: "bytes%",
                timer: ("no timer", "SIGPROF"),
                sample_type: "alloc_space",
                count_type: Some("alloc_objects"),
            },
            Clock::Live => ClockNames {
                action: "live",
                header: "LIVE",
                measured: "memory in use",
                amount: "in use",
                share: "bytes%",
                timer: ("no timer", "SIGPROF"),
                sample_type: "inuse_space",
                count_type: Some("inuse_objects"),
            },
        }
    }

    /// The unit of its values, as pprof names it.
    pub fn unit(self) -> &'static str {
        if self.is_memory() { "bytes" } else { "nanoseconds" }
    }
}

impl Keyword for Engine {
    const ALL: &'static [Engine] = &Engine::ALL;

    fn word(self) -> Word {
        match self {
            Engine::Threads => Word::new("threads", "one POSIX timer per thread, timer_create(2)"),
            Engine::Itimer => Word::new(
                "itimer",
                "one setitimer(2) per process: interrupts system calls, and kills a target that resets the signal",
            ),
            Engine::External => {
                Word::new("external", "no agent: from outside, by perf events if allowed, else by ptrace")
            }
            Engine::Events => Word::new("events", "no agent: the kernel takes the samples, perf_event_open(2)"),
            Engine::Ptrace => Word::new(
                "ptrace",
                "no agent: threads are stopped for an instant by ptrace(2), which ends some large reads and writes early",
            ),
        }
    }
}
