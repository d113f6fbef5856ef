//! x86-64 with the System V ABI.
//!
//! * [`syscall`](mod@syscall): raw system calls, `clone`, thread-local storage.
//! * [`context`]: DWARF register numbers, the layout of `ucontext` and of the kernel's signal frame.
//! * [`signal`]: the entry of a signal handler, and ways to leave and enter handlers.
//! * [`stack`]: switching to another stack and back.
//! * [`function`]: naked functions that run code of the agent before they jump to libc's function.
//! * [`allocator`]: naked functions that stand in for those of an allocator.
//! * [`probe`]: what the program runs on: Valgrind, a shadow stack, the time-stamp counter.
//! * [`prologue`]: the size of a function's frame, by its first instructions.
//! * [`builtins`]: `memcpy` and the other functions that the compiler calls by itself.

mod allocator;
mod builtins;
mod context;
mod function;
mod probe;
mod prologue;
mod signal;
mod stack;
mod syscall;

pub(crate) use allocator::*;
pub(crate) use context::*;
pub(crate) use function::*;
pub(crate) use probe::*;
pub(crate) use prologue::*;
pub(crate) use signal::*;
pub(crate) use stack::*;
pub(crate) use syscall::*;
