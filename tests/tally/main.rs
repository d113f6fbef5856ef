//! Compares answers with oracles that share no code with them: stacks are plain lists of names, and
//! every rule is one loop over all samples, as described by pprof's manual and its `graph.New`.
//! Stacks, filters, order and spans are random.

mod callers;
mod details;
mod diff;
mod flame;
mod idle;
mod incremental;
mod kernel;
mod lines;
mod memory;
mod own_code;
#[path = "../../src/property.rs"]
mod property;
mod significance;
mod stacks;
mod threads;
mod titles;
mod top;
mod trend;
