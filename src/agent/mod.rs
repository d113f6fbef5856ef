//! In the target: a tick becomes a record, and goes out over a socket. The most careful guest there is.
//!
//! The agent is a library without std that is preloaded. It has three states. *Unwatched*: a handler for SIGURG, and
//! nothing else — no thread, no descriptor, no timer. *Waiting*: launched by a viewer, with one timer of the process's CPU
//! time, whose first tick gives birth to the agent thread. *Watched*: the agent thread is there, connected to a viewer,
//! with the timers that the viewer wants. A viewer's knock (a queued SIGURG with a cookie) leads from the first to the last;
//! when the viewer goes, the process is unwatched again. Where a profile is to be written into a file (`CPUPROFILE`, `ProfilerStart`) the
//! agent thread is there for that too, with a viewer or without.
//!
//! The contract of the signal handler is at the head of [`handler`]; that of the thread at the head of [`sender`]. The agent
//! never prints, never aborts, never unwinds into the target. On doubt it disables itself.
//!
//! Its life is steered by `cfg(sigtop_agent)`, set by build.rs in its own nested build: only then is there a constructor,
//! are symbols exported, is the allocator in force. Without it the code is compiled for its tests.
#![cfg_attr(not(sigtop_agent), allow(dead_code, reason = "live only in its own build; here for its tests"))]

mod aside;
mod asleep;
mod book;
mod bug;
mod builtins;
mod collector;
mod credentials;
mod delivery;
mod engine;
mod exports;
mod filter;
mod groups;
mod guard;
mod handler;
mod hook;
mod index;
mod later;
mod learned;
mod loader;
mod maps;
mod mask;
mod memory;
mod modules;
#[cfg(test)]
mod oracle;
mod order;
mod phase;
mod pthread;
mod ring;
mod rules;
mod sender;
mod setuid;
mod sigaltstack;
mod signal_frame;
mod signals;
mod sigstack_pool;
mod slot;
mod socket;
mod start;
mod state;
mod status;
mod sys;
mod tables;
mod threads;
mod timer;
#[cfg(sigtop_timed)]
mod timing;
mod trail;
mod unseen;
mod unwind;
mod user_dispatch;
mod variables;
mod young;

#[cfg(sigtop_agent)]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = start::constructor;

#[cfg(sigtop_agent)]
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = start::destructor;

#[cfg(sigtop_agent)]
#[global_allocator]
static ARENA: memory::Arena = memory::Arena::new();

#[cfg(sigtop_agent)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    bug::give_up()
}
