//! sigtop: top for stacks. A sampling profiler for native Linux programs with a live screen.
//!
//! # Data flow
//!
//! ```text
//!  target process                                sigtop process
//! ┌──────────────────────────────────┐          ┌─────────────────────────────────────────────────────┐
//! │ CPU timer of each thread         │          │ link     listener, connections: messages of agents  │
//! │    │ SIGURG                      │  unix    │    │                                                │
//! │    ▼                             │  socket  │    ▼                                                │
//! │ agent::handler                   │ ───────► │ session  one watch ────► recording (a file)         │
//! │    │ walks the stack (unwind)    │  wire    │    │                                                │
//! │    ▼                             │  format  │    ├──► profile  samples, threads, modules, history │
//! │ ring buffer ──► agent::thread    │          │    ├──► symbols  names, lines, assembly of addresses│
//! └──────────────────────────────────┘          │    ▼                                                │
//!        ▲                                      │ tally    answers to queries: top, callers, flame …  │
//!        │ starts, preloads, finds, wakes       │    │                                                │
//!        └───────────────────────────────────── │    ├──► tui    the screen                           │
//!                     attach                    │    ├──► explain  sentences about an answer          │
//!                                               │    └──► pprof  reports, saved profiles, exports     │
//!                                               │           ├──► check  is a build slower than a base? │
//!                                               │           └──► push   requests to profile stores         │
//!                                               └─────────────────────────────────────────────────────┘
//! ```
//!
//! [`perf_data`] makes recordings of the files of `perf record`, which the session plays.
//!
//! Each folder may import those before it in this list, and none behind it: [`wire`],
//! `arch`, `process`, `agent` | [`attach`], [`sampler`], [`link`] | [`profile`], [`symbols`], [`tally`],
//! [`pprof`], [`perf_data`], [`check`], [`push`], [`session`], [`explain`], [`tui`], [`app`].
//! The test `house` checks this, and that no folder has an import cycle.
//!
//! # Threads
//!
//! Threads of the target: its own threads run the signal handler; the *agent thread* drains the
//! ring, notices new threads and modules, and writes to the socket.
//!
//! A process without the agent has a *sampler* instead ([`sampler`]), a helper process with
//! a thread that reads the kernel's samples, or stops the target's threads for an instant, and one
//! that walks the copied stacks.
//!
//! Threads of sigtop, with bounded channels between them:
//!
//! * `main` draws the screen, or prints tables: it sends `Command`s to the session and receives
//!   `Notice`s and `Answer`s from it. `keys` reads the keyboard, `signals` the signals.
//! * `profile` is the session thread. It owns the profile, the resolved names and the current query.
//! * `link` accepts connections and decodes messages. `target` waits for the launched program.
//! * `symbols` and `lines` read object files and debug information. `sources` reads source files.
//! * `debuginfod` downloads debug information, if the user allows that.
//! * `push` sends profiles to a store, by the program `curl`.
//! * `saver` writes a recording. `recording` reads one.
//!
//! # Glossary
//!
//! | word | meaning |
//! | --- | --- |
//! | agent | the library in the target, built from `agent/` of this same package |
//! | agent thread | the one thread that the agent adds to the target |
//! | tick | one expiry of a timer, delivered as a signal |
//! | sample | a stack with a weight: the time for which its tick stands, or bytes of memory |
//! | weight | nanoseconds of the clock in use; the period times the ticks that were merged |
//! | clock | what a sample measures: CPU (PROF), wall-clock (REAL) or user time (VIRTUAL), memory |
//! | memory | allocated bytes (ALLOC), and those of them that are not freed yet (LIVE) |
//! | interval | the mean number of allocated bytes between two samples; the period of ALLOC |
//! | engine | what makes ticks: a POSIX timer per thread, a `setitimer` per process, or a sampler outside |
//! | sampler | the helper process that samples from outside and speaks the wire as agents do |
//! | event | a timer of the kernel for one thread on one CPU that writes samples (perf events) |
//! | epoch | one configuration of clock, engine and period; ticks carry it |
//! | generation | one state of a process's memory map; addresses carry it |
//! | slot | the stack and scratch memory that a handler runs on |
//! | wait | what a sleeping thread waits for, and who holds it: the leaf frame of its stack |
//! | deepest stack | the largest stack that was seen of a thread, with the size of each frame |
//! | interpreted frame | a function of CPython, which stands for the interpreter's own frames |
//! | ring | the buffer between handlers and the agent thread; it outlives the process |
//! | deferred sample | registers and a copy of the stack, unwound later by the agent thread |
//! | wake signal | a queued signal with a cookie that makes an unwatched agent connect (`knock`) |
//! | loss cause | why a tick became no sample; each is counted, sent and shown |
//! | keeper | the small process that owns the pseudo-terminal of a launched target |
//! | total, window, span | since the start; the last seconds; a marked part of the history |
//! | query, answer | what the panes ask for, and the tables that answer it |
//! | own code | what the program's authors wrote, as opposed to runtimes, libraries and packages |
//! | fold | to give the time of foreign frames to the own function that called them |
//! | trunk | functions that nearly all stacks contain and that use no time themselves |
//! | row | functions, files, lines, addresses or modules of one name, added up |
//! | neighbors | callers and callees of the selected row |
//! | owner | the thread or process that is put at the root of stacks |
//! | baseline | the answer that a diff subtracts |
//!
//! # Rules
//!
//! The target cannot tell that it is watched; see the head of `agent`. Every loss has a counter, a
//! field of the wire format and a place on the screen. Every queue, loop and length has a limit.
//! Decoders treat their bytes as hostile. `unsafe` is for `agent`, `arch`, `attach` and `sampler` alone.
#![cfg_attr(sigtop_agent, no_std)]

extern crate alloc;

#[cfg(feature = "agent")]
pub mod agent;
mod arch;
mod process;
pub mod wire;

#[cfg(feature = "viewer")]
pub mod app;
#[cfg(feature = "viewer")]
pub mod attach;
#[cfg(feature = "viewer")]
pub mod check;
#[cfg(feature = "viewer")]
pub mod explain;
#[cfg(feature = "viewer")]
pub mod keyword;
#[cfg(feature = "viewer")]
pub mod link;
#[cfg(feature = "viewer")]
pub mod perf_data;
#[cfg(feature = "viewer")]
pub mod pprof;
#[cfg(feature = "viewer")]
pub mod profile;
#[cfg(feature = "viewer")]
pub mod push;
#[cfg(feature = "viewer")]
pub mod sampler;
#[cfg(feature = "viewer")]
pub mod session;
#[cfg(feature = "viewer")]
pub mod symbols;
#[cfg(feature = "viewer")]
pub mod tally;
#[cfg(feature = "viewer")]
pub mod tui;

#[cfg(test)]
mod property;
