//! The answers against oracles that share nothing with them: stacks are plain lists of names, and every rule is one loop
//! over all samples, as pprof's manual and its `graph.New` put it. Stacks, filters, order and spans are random.

mod callers;
mod diff;
mod flame;
mod lines;
mod running;
mod stacks;
mod table;
mod threads;
mod trend;
