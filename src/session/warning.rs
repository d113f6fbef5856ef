//! Warnings for the user about messages of agents.

use crate::wire::{Arrival, ConnectionEvent, EngineState, Message};

/// Returns a warning of one sentence, if the message calls for one.
pub(super) fn warning(arrival: &Arrival) -> Option<String> {
    let sentence = match &arrival.event {
        ConnectionEvent::Received(Message::Engaged(engaged)) => match engaged.state {
            EngineState::SignalTaken => {
                Some("the target has a handler of its own for this timer's signal; E (--engine threads) goes back to timers per thread")
            }
            EngineState::TimerTaken => {
                Some("the target uses this interval timer itself; E (--engine threads) goes back to timers per thread")
            }
            EngineState::TimerRefused => {
                Some("the kernel refuses timers (ulimit -i, or seccomp), and nothing is sampled; --engine external needs none")
            }
            EngineState::Unsupported => Some("this clock needs the engine setitimer (E, or --engine itimer)"),
            EngineState::ClockTaken => {
                Some("a profile is being written into a file by another clock (CPUPROFILE, ProfilerStart); r takes that clock")
            }
            EngineState::Running | EngineState::Off => None,
        }?
        .to_owned(),
        ConnectionEvent::Aborted(fault) => return Some(format!("process {} sent {fault}; its stream was cut", arrival.pid)),
        _ => return None,
    };
    Some(format!("process {}: {sentence}", arrival.pid))
}
