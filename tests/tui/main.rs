//! Tests of the screen with fake keys, recorded answers and no real clock.

mod arbitrary;
#[path = "../harness/children.rs"]
mod children;
mod colon;
mod driven;
#[path = "../harness/escapes.rs"]
mod escapes;
mod figures;
mod goldens;
mod hostile;
mod keys;
mod listings;
mod names;
mod order;
mod own_code;
mod panes;
mod picker;
#[path = "../../src/property.rs"]
mod property;
mod quitting;
mod recorded;
mod saving;
mod session;
#[path = "../harness/skips.rs"]
mod skips;
mod stage;
mod tasks;
mod terminal;
mod threads;
mod waits;
