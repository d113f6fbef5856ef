//! libc calls that the agent interposes: it must not break what the target does with signals,
//! threads, alternate stacks, credentials, namespaces and seccomp, and must survive it.

pub(crate) mod exec;
pub(crate) mod exit;
pub(crate) mod gperftools;
pub(crate) mod hook;
pub(crate) mod namespaces;
pub(crate) mod prctl;
pub(crate) mod pthread;
pub(crate) mod seccomp;
pub(crate) mod setuid;
pub(crate) mod sigaltstack;
pub(crate) mod sigmask;
pub(crate) mod signals;
pub(crate) mod suspend;
