//! Everything received from agents: processes, threads, modules, stacks, and the weights of the
//! stacks. Messages enter through [`Profile::apply_all`]. The profile holds addresses, not names
//! (see `symbols`), and answers no queries (see `tally`).

mod apply;
mod by_clock;
pub mod change_log;
mod compaction;
mod connections;
mod deepest_stack;
pub(crate) mod hash;
mod history;
mod ids;
pub mod interpreter_view;
pub mod kernel_frames;
mod live_allocations;
pub mod loss;
mod memory;
pub mod module;
mod present_waits;
pub mod process;
mod read;
pub mod running_time;
mod sample_cache;
mod sample_times;
mod sampling_interval;
pub mod script;
pub mod stack;
#[cfg(test)]
mod tests;
pub mod thread;
pub mod titles;
pub mod totals;
pub mod waits;
mod weight;

pub use crate::wire::Clock;
pub use apply::{Profile, StackQuality};
pub use memory::{DEFAULT_MEMORY_BYTES, MIN_MEMORY_BYTES};
pub use read::Generation;
pub use sample_times::TimedSample;
