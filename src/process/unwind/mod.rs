//! The step from a frame to its caller, as unwind tables describe it.
//!
//! A [`FrameRule`] says where the values of the caller are, and [`table_row`] makes one of a row of
//! the tables. [`FrameRule::step`] follows it in a [`FrameSource`]. Handlers of the agent know the stack
//! pointer and the frame pointer of callers and follow a part of each rule, the sampler all of it.

#[cfg(feature = "viewer")]
pub(crate) mod code_path;
mod frame_rule;
mod leaf_address;
mod step;
pub(crate) mod table_row;
#[cfg(feature = "viewer")]
mod thread_registers;

pub(crate) use frame_rule::CallerValue;
#[cfg(feature = "agent")]
pub(crate) use frame_rule::{PackedRule, plus};
pub(crate) use step::{FrameSource, StepByRule};
#[cfg(feature = "viewer")]
pub(crate) use {frame_rule::FrameRule, thread_registers::ThreadRegisters};
