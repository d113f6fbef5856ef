//! What a person should know of what came from an agent, in one sentence.

use crate::link::wire::{Arrival, EngineState, Event, Message};

/// What there is to say about it, if anything.
pub(super) fn remark(arrival: &Arrival) -> Option<String> {
    let sentence = match &arrival.event {
        Event::Said(Message::Engaged(engaged)) => match engaged.state {
            EngineState::SignalTaken => {
                Some("the target has a handler of its own for this timer's signal; E (--engine threads) goes back to timers per thread")
            }
            EngineState::TimerTaken => {
                Some("the target uses this interval timer itself; E (--engine threads) goes back to timers per thread")
            }
            EngineState::TimerRefused => {
                Some("the kernel gives no timer (ulimit -i, or a sandbox): nothing is sampled")
            }
            EngineState::Unsupported => Some("this clock needs the engine setitimer (E, or --engine itimer)"),
            EngineState::ClockTaken => {
                Some("a profile is being written into a file by another clock (CPUPROFILE, ProfilerStart); r takes that clock")
            }
            EngineState::Running | EngineState::Off => None,
        }?
        .to_owned(),
        Event::Cut(fault) => return Some(format!("process {} sent {fault}; its stream was cut", arrival.pid)),
        _ => return None,
    };
    Some(format!("process {}: {sentence}", arrival.pid))
}
