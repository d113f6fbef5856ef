//! Samples processes from outside, without an agent in them: any running process that the kernel
//! lets this user trace, and launched programs that cannot carry the agent.
//!
//! # Processes and threads
//!
//! ```text
//!  viewer                         sampler (a process of its own)              targets
//! ┌─────────────────┐  commands  ┌──────────────────────────────────┐       ┌─────────┐
//! │ supervisor ─────┼───────────►│ program ──► tracer ──────────────┼──────►│ threads │
//! │   ▲  heartbeat  │            │               │ copies of stacks │ ptrace│         │
//! │   └─────────────┼────────────│               ▼                  │       └─────────┘
//! │ link  ◄─────────┼────────────│ walker: unwinds, speaks the wire │
//! └─────────────────┘ unix socket└──────────────────────────────────┘
//! ```
//!
//! There are two ways to sample a thread that runs. Where the kernel lets this user, it takes the
//! samples itself and stops nothing ([`perf`]). Elsewhere the [`tracer`] looks at threads once in
//! each period, at a random instant. It reads from `/proc` whether a thread runs or sleeps. Only a
//! thread that runs is stopped, for some ten microseconds: to read its registers and to copy its
//! stack. A sleeping one is sampled where it is, both ways, because a stop may end a sleep early.
//! The [`walker`] unwinds afterwards and speaks for the process as an agent would, on a connection
//! per process; nothing behind the socket knows the difference.
//!
//! In a Python process the tracer also reads the thread's list of frames ([`interpreter`]) during
//! the stop, or while it sleeps. The walker merges them into the stack as the agent does. A stop
//! takes about 10 µs longer for it: at 499 Hz on a busy machine the median went from 11 to 19 µs,
//! and the 99th percentile from 45 to 59 µs (CPython 3.11, stacks of up to 25 functions).
//!
//! A process that carries the agent but has not used a period of CPU time has no agent thread yet.
//! On the wall clock the tracer samples its threads while they sleep, and stops none, until its
//! agent connects. A signal that wakes the agent would end some waits early.
//!
//! # What the target could notice of stops
//!
//! * A stop that meets a system call makes some calls fail with EINTR, and some go on by another
//!   call, which a seccomp filter may forbid: [`restart`] repairs them.
//! * A stopped thread stays stopped if its tracer hangs: the [`supervisor`] then ends the sampler,
//!   and the kernel lets all threads run on. The sampler has a session of its own, so that job
//!   control never stops it. It ends with its viewer, after the stops that are under way.
//! * A traced thread stops at each of its signals: threads are traced for the time of one stop.
//!
//! # What the numbers are
//!
//! The weight of a CPU sample of the kernel is its period, more or less by what keeps the sum equal
//! to the CPU time of the process. That of a stop is the thread's CPU time since its last sample,
//! as the kernel counts it (`schedstat`); [`correction`] removes a bias towards system calls. CPU
//! time of the process that is in no sample is counted as unaccounted. The weight of a wall-clock
//! sample is the time since the thread's last sample.
//!
//! [`engines`] says which of the two ways the kernel allows.

mod children;
pub(crate) mod clock;
mod connection;
mod correction;
mod cut_short;
pub mod engines;
mod events;
mod heartbeat;
mod interpreter;
pub(crate) mod maps;
mod perf;
mod process;
pub mod program;
mod ptrace;
mod restart;
mod scope;
pub(crate) mod stack_copy;
mod stack_extent;
mod supervision;
pub mod supervisor;
mod thread_names;
mod threads;
mod tracer;
pub(crate) mod unwind;
mod waits;
mod walker;
mod watchdog;
