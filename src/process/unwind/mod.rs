//! The step from a frame to its caller, as unwind tables describe it.
//!
//! A [`FrameRule`] says where the values of the caller are, and [`table_row`] makes one of a row of
//! the tables. The agent follows a part of it in handlers, the sampler all of it.

mod frame_rule;
pub(crate) mod table_row;
#[cfg(feature = "viewer")]
mod thread_registers;

pub(crate) use frame_rule::{CallerValue, FrameRule, cfa_by_record, is_frame_pointer_restored, plus};
#[cfg(feature = "viewer")]
pub(crate) use thread_registers::ThreadRegisters;
