//! aarch64 with the procedure call standard of Linux.
//!
//! Unwinders use:
//!
//! * [`machine_code`]: calls before return addresses.
//! * [`code`]: instructions that change the stack.
//! * [`leaf_caller`](mod@leaf_caller): the callers of functions that sleep and have saved nothing.
//! * [`registers`]: DWARF register numbers, their places in a `ucontext`, signed addresses.
//!
//! The sampler alone uses:
//!
//! * [`ptrace`]: the registers of stopped threads, and of the kernel's samples.
//! * [`signal_context`]: the kernel's signal frame on the stack of another process.
//!
//! The agent alone uses:
//!
//! * [`syscall`](mod@syscall): raw system calls, `clone`, thread-local storage.
//! * [`context`]: the layout of `ucontext` and of the kernel's signal frame.
//! * [`signal`]: the entry of a signal handler, and ways to leave and enter handlers.
//! * [`stack`]: switching to another stack and back.
//! * [`function`]: naked functions that run code of the agent before they jump to libc's function.
//! * [`allocator`]: naked functions that stand in for those of an allocator.
//! * [`probe`]: what the program runs on: Valgrind, a shadow stack, the counter of ticks.
//! * [`builtins`]: `memcpy` and the other functions that the compiler calls by itself.
//!
//! Everybody uses [`calls`], numbers of system calls, and [`page`], the size of a page.

mod calls;
mod code;
mod leaf_caller;
mod machine_code;
mod page;
mod registers;
pub(crate) use {calls::*, code::*, leaf_caller::*, machine_code::*, page::*, registers::*};

#[cfg(feature = "viewer")]
mod ptrace;
#[cfg(feature = "viewer")]
mod signal_context;
#[cfg(feature = "viewer")]
pub(crate) use {ptrace::*, signal_context::*};

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
mod signal;
#[cfg(feature = "agent")]
mod stack;
#[cfg(feature = "agent")]
mod syscall;

#[cfg(feature = "agent")]
pub(crate) use {allocator::*, context::*, function::*, probe::*, signal::*, stack::*, syscall::*};
