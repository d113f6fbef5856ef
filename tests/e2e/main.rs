//! End-to-end tests: the real binary around real programs, judged from outside. They share one test
//! binary, so that common code is compiled once. Run a single subject by its name: `cargo test
//! --test e2e shares`.

#[path = "../harness/mod.rs"]
mod harness;

mod alloc;
mod allocations;
mod black_box;
mod checked_calls;
mod confined;
mod containers;
mod crowds;
mod debuggers;
mod ending;
mod exceptions;
mod explain;
mod external;
mod external_changes;
mod external_events;
mod external_setuid;
mod external_stacks;
mod external_supervised;
mod fibers;
mod frame_sizes;
mod generated;
mod gperftools;
mod guest;
mod idle;
mod instruments;
mod kernel;
mod latency;
mod mcp;
mod merged;
mod moving;
mod names;
mod output;
mod own_frames;
mod picker;
mod processes;
mod programs;
mod python;
mod recording;
mod refusals;
mod safe_texts;
mod sanitizers;
mod screen;
mod servers;
mod shares;
mod signals;
mod small_stacks;
mod source;
mod stacks;
mod suites;
mod switches;
mod taking;
mod threads;
mod traced;
mod trends;
mod unharmed;
mod unprotected;
mod unsampled;
mod unwinding;
mod user_dispatch;
mod viewer;
mod waits;
mod walk;
