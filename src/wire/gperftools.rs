//! The constants of gperftools' CPU profile format that both of its writers share, the agent and
//! the viewer. A profile is a header of five words, a record for each stack (count, depth, and the
//! addresses, leaf first), a trailer of three words, and the memory map as text. Words have the
//! size of the machine's, here 64 bits.
//!
//! Readers take every address but the leaf's for a return address. They also remove up to two
//! frames after the leaf, which they take for the signal handler's, if nearly all stacks have them
//! in common; a small profile easily does. So every record has two addresses there that belong to
//! nothing. Go's pprof removes these two and stops. The older perl pprof goes on and removes what
//! else all stacks have in common, which may be `main`; its option `--no-auto-signal-frm` prevents
//! that.

/// The addresses for readers to remove. They lie outside every mapping.
pub const HANDLER_FRAMES: [u64; 2] = [0xdead_0001, 0xdead_0011];
/// The trailer after the last record.
pub const TRAILER: [u64; 3] = [0, 1, 0];

/// The header of a profile whose records count ticks with a period in microseconds.
pub fn header(period_us: u64) -> [u64; 5] {
    [0, 3, 0, period_us, 0]
}
