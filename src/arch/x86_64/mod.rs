//! x86-64 with the System V ABI.
//!
//! Unwinders use:
//!
//! * [`machine_code`]: calls before return addresses, lengths of operands.
//! * [`registers`]: DWARF register numbers, and their places in a `ucontext`.
//!
//! The sampler alone uses:
//!
//! * [`code`]: instructions that change the stack.
//! * [`ptrace`]: the registers of stopped threads, and of the kernel's samples.
//! * [`signal_context`]: the kernel's signal frame on the stack of another process.
//!
//! The agent alone uses:
//!
//! * [`syscall`](mod@syscall): raw system calls, `clone`, thread-local storage.
//! * [`context`]: the layout of `ucontext` and of the kernel's signal frame.
//! * [`signal`]: the entry of a signal handler, and ways to leave and enter handlers.
//! * [`prologue`]: instructions of prologues.
//! * [`stack`]: switching to another stack and back.
//! * [`function`]: naked functions that run code of the agent before they jump to libc's function.
//! * [`allocator`]: naked functions that stand in for those of an allocator.
//! * [`probe`]: what the program runs on: Valgrind, a shadow stack, the time-stamp counter.
//! * [`builtins`]: `memcpy` and the other functions that the compiler calls by itself.
//!
//! Everybody uses [`calls`], numbers of system calls, and [`page`], the size of a page.

mod calls;
mod machine_code;
mod page;
mod registers;
pub(crate) use {calls::*, machine_code::*, page::*, registers::*};

#[cfg(feature = "viewer")]
mod code;
#[cfg(feature = "viewer")]
mod ptrace;
#[cfg(feature = "viewer")]
mod signal_context;
#[cfg(feature = "viewer")]
pub(crate) use {code::*, ptrace::*, signal_context::*};

#[cfg(feature = "agent")]
mod allocator;
#[cfg(feature = "agent")]
mod builtins;
#[cfg(feature = "agent")]
mod context;
#[cfg(feature = "agent")]
mod function;
#[cfg(feature = "agent")]
mod probe;
#[cfg(feature = "agent")]
mod prologue;
#[cfg(feature = "agent")]
mod signal;
#[cfg(feature = "agent")]
mod stack;
#[cfg(feature = "agent")]
mod syscall;

#[cfg(feature = "agent")]
pub(crate) use {allocator::*, context::*, function::*, probe::*, prologue::*, signal::*, stack::*, syscall::*};
