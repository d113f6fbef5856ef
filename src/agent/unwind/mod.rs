//! Walks stacks by the unwind tables of the loaded modules.

mod debug_frame;
mod deep;
mod eh_index;
mod eh_return;
pub(crate) mod frame_size;
mod gaps;
mod generated;
pub(crate) mod last_walk;
mod leaf_caller;
pub(crate) mod modules;
#[cfg(test)]
mod oracle;
pub(crate) mod registers;
pub(crate) mod restorers;
mod roots;
mod rule_cache;
mod rule_table;
mod rules;
pub(crate) mod stack;
pub(crate) mod step;
pub(crate) mod tables;
pub(crate) mod walk;
