//! The agent: a `no_std` library that is preloaded into the target. A tick of a timer becomes a
//! record in a ring, and one thread sends the records over a socket.
//!
//! It has three states. *Unwatched*: there is a handler for SIGURG, and no thread, descriptor or
//! timer. *Waiting*: a viewer has launched the process, and a timer of the first thread's CPU clock
//! is armed, whose first tick spawns the agent thread. *Watched*: the agent thread is connected to
//! a viewer and has armed the timers that the viewer asked for. A viewer's wake signal (the knock:
//! a queued SIGURG with a cookie) leads from the first state to the last. When the viewer leaves,
//! the process is unwatched again. The agent thread also runs while a profile is written into a
//! file (`CPUPROFILE`, `ProfilerStart`), with or without a viewer.
//!
//! The rooms, lowest first: `os` (the kernel's and the loader's interface),
//! `state` (flags), `unwind`, `interpreter`, `signals`, `sampling`, `allocations`, `timers`, `cpuprofile`,
//! `launch` and `requests`, `thread`, `spawn`, `handler`, `start`, `interpose`. Each imports only
//! rooms before it.
//!
//! The head of [`handler`] has the contract of the signal handler, that of [`thread`] the contract
//! of the agent thread. The agent never prints, never aborts and never unwinds into the target. It
//! disables itself when in doubt.
//!
//! build.rs sets `cfg(sigtop_agent)` in its nested build. Only then are there a constructor,
//! exported symbols and the allocator. Otherwise the code is compiled for its tests.
//!
//! Many processes live for half a millisecond, so the constructor and the fork hook touch few
//! pages: tables are in the section `.bss.tables`, where each starts at a page of its own, and
//! nearly everything else that starts as zero is on the page behind it.
#![cfg_attr(not(sigtop_agent), allow(dead_code, reason = "live only in its own build; here for its tests"))]

mod allocations;
mod cpuprofile;
mod handler;
mod interpose;
mod interpreter;
mod launch;
mod os;
mod panic;
mod requests;
mod sampling;
mod signals;
mod spawn;
mod start;
mod state;
mod thread;
mod timers;
mod unwind;

#[cfg(sigtop_agent)]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = start::constructor;

#[cfg(sigtop_agent)]
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = start::destructor;

#[cfg(sigtop_agent)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    panic::give_up()
}
