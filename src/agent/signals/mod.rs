//! The signals of the agent: which they are, what the kernel and the target believe about them, and
//! the stacks that their handlers run on.

pub(crate) mod actions;
pub(crate) mod frame;
pub(crate) mod interrupted;
pub(crate) mod mask;
pub(crate) mod stacks;
pub(crate) mod tick_signal;
