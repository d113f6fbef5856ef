//! Pushes profiles to receivers: one of our own that does what no server should, and those of the
//! stores' makers, as far as they can be installed.
#![cfg(feature = "viewer")]

mod clients;
mod collector;
mod command;
mod faults;
mod metrics;
mod python;
mod receiver;
mod recording;
#[path = "../harness/skips.rs"]
mod skips;
mod stores;
