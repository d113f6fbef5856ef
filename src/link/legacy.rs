//! gperftools' CPU profile, as far as its writers share it: a head of five words, a record for each stack (how often, how many addresses,
//! the addresses, leaf first), an end of three words, and then the memory map as text. Words are of the machine: here 64 bits.
//!
//! Readers take every address but the leaf's for one that a call returns to. They throw away up to two frames behind the leaf, which they
//! take for the signal handler's, if nearly all stacks share them; and a small profile easily does. So every record has two addresses there
//! that are nobody's: Go's pprof throws away these two and nothing else. The older perl pprof goes on, and throws away what else all
//! stacks share, which may be `main`; its option `--no-auto-signal-frm` stops it.

/// What is thrown away, outside of every mapping.
pub const NOBODY: [u64; 2] = [0xdead_0001, 0xdead_0011];
/// The end of the records.
pub const END: [u64; 3] = [0, 1, 0];

/// The head of a profile whose records count ticks of so many microseconds.
pub fn head(period_us: u64) -> [u64; 5] {
    [0, 3, 0, period_us, 0]
}
