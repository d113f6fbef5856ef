//! One process: how its mappings, its frames, its interpreter and the waits of its threads are
//! read. The agent and the sampler from outside share this folder and read memory and files in
//! their own ways, so it is `no_std` and makes no system calls.

pub(crate) mod cpython;
pub(crate) mod mapped_images;
pub(crate) mod maps;
pub(crate) mod unwind;
pub(crate) mod waits;
