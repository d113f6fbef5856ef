//! End to end: the real binary around real programs, judged from outside. One test binary for all, so that what the themes share is
//! compiled once; a theme runs alone by its name: `cargo test --test e2e shares`.

#[path = "../harness/mod.rs"]
mod harness;

mod alloc;
mod crowds;
mod ending;
mod fibers;
mod gperftools;
mod guest;
mod idle;
mod instruments;
mod kernel;
mod moving;
mod output;
mod picker;
mod processes;
mod programs;
mod recording;
mod refusals;
mod sanitizers;
mod screen;
mod servers;
mod shares;
mod signals;
mod small_stacks;
mod source;
mod stacks;
mod stress;
mod taking;
mod threads;
mod trends;
mod unsampled;
mod unwinding;
mod user_dispatch;
mod viewer;
mod walk;
