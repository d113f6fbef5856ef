//! The terminal: setting it up and restoring it, its input, its signals, and the emulator that
//! shows the target's output.

pub mod background;
pub mod bounded;
pub mod clipboard;
pub mod emulator;
pub mod error;
pub mod input;
pub mod key_bytes;
pub mod output_queue;
pub mod signals;
pub mod terminal;
pub mod tty;
