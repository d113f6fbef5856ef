//! One process: how its interpreter is read. The agent and the sampler from outside share this
//! folder and read memory in their own ways, so it is `no_std` and makes no system calls.

pub(crate) mod cpython;
