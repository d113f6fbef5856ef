//! The clock of allocated bytes: functions of the allocator are replaced in the global offset
//! tables of the loaded modules while the clock is on, and nothing is while it is off.
//!
//! [`got`] replaces them, on the agent thread, and puts them back. [`functions`] has the replacements:
//! one subtracts the bytes of a call from a countdown of its thread and jumps to the real function.
//! A call at which the countdown ends is sampled ([`record`]): the stack of its caller is walked as
//! in a handler, into the same ring. Countdowns are drawn from an exponential distribution
//! ([`poisson`]), so that the chance to be sampled depends on an allocation's size alone, and its
//! weight is unbiased; a thread that allocates very quickly has fewer samples ([`countdown`]). The
//! countdowns also know how many bytes were allocated, to which weights are corrected
//! ([`exact_total`]). A set keeps a sampled address until it is freed ([`tables`]); a filter of
//! a few KiB tells a call that frees another address without a look at the set. Of a
//! sampled mapping the pages that are left are known ([`mappings`]), because a part of it may be
//! unmapped.
//!
//! The replacements run on the target's threads, between any two of its instructions and also in
//! its signal handlers. They take no lock, allocate nothing, and use no thread-local storage: a
//! thread finds its countdown by its thread pointer. A sampled call makes a few system calls (it
//! blocks signals while it walks), and none where the thread may be under seccomp. There a handler
//! of the target that leaves by siglongjmp(3) in the microsecond of a walk makes the slot of that
//! walk unusable.
//!
//! A program that has stored the address of such a function while it was replaced calls the
//! replacement for ever, so replacements work without the clock too: they jump on. A program that
//! compares such a stored address with one of before finds them different.
//!
//! A part of the program that is linked with an allocator of its own has no word for it in its
//! offset table, and its allocations are not seen.

pub(crate) mod countdown;
pub(crate) mod exact_total;
pub(crate) mod fork_child;
pub(crate) mod functions;
pub(crate) mod got;
pub(crate) mod last_ends;
pub(crate) mod mappings;
pub(crate) mod poisson;
pub(crate) mod record;
pub(crate) mod sampler;
pub(crate) mod tables;
