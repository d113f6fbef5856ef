//! The screen, driven by fake keys, recorded answers and no clock at all.

#[path = "../harness/children.rs"]
mod children;
mod colon;
mod driven;
#[path = "../harness/escapes.rs"]
mod escapes;
mod goldens;
mod hostile;
mod keys;
mod listings;
mod picker;
mod saving;
mod session;
mod stage;
mod terminal;
mod threads;
