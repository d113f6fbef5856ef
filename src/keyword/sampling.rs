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

impl Clock {
    /// The pprof sample type of this clock.
    pub fn sample_type(self) -> &'static str {
        match self {
            Clock::Prof => "cpu",
            Clock::Real => "wall",
            Clock::Virtual => "user",
            Clock::Alloc => "alloc_space",
            Clock::Live => "inuse_space",
        }
    }

    /// The pprof type of the number that belongs to it, where it has a name of its own.
    pub fn count_type(self) -> Option<&'static str> {
        match self {
            Clock::Prof | Clock::Real | Clock::Virtual => None,
            Clock::Alloc => Some("alloc_objects"),
            Clock::Live => Some("inuse_objects"),
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
