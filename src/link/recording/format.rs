//! Constants of the recording format: magic, version, limits and kinds of entries.

use crate::wire::MAX_MESSAGE;
pub use crate::wire::{OLDEST_VERSION, VERSION};

/// First bytes of a recording. The first byte is not ASCII, and the last one shows whether a text
/// transfer has changed line ends.
pub const MAGIC: [u8; 8] = *b"\x89sigtop\n";
/// Length of the file header in bytes.
pub const HEADER_BYTES: usize = 12;
/// Maximum length of the entries of a block in bytes.
pub const MAX_PLAIN: usize = 1 << 20;
/// Length of entries in bytes from which on a block is closed.
pub const BLOCK_TARGET: usize = 1 << 16;
/// Maximum number of numbered stacks. When it is reached, numbers start again from 0.
pub const MAX_STACKS: usize = 1 << 18;
/// Maximum number of frames of all numbered stacks.
pub const MAX_STACK_FRAMES: usize = 1 << 24;
/// Maximum length of a text in bytes. Longer texts are truncated.
pub const MAX_TEXT: usize = 4096;
/// Maximum number of functions at one address: calls inlined into one another.
pub const MAX_FUNCTIONS: usize = 64;
/// Maximum number of addresses in one entry of symbols.
pub const MAX_ADDRESSES: usize = 4096;
/// Maximum number of simultaneously open sources: four times the connections of a viewer.
pub(super) const MAX_SOURCES: usize = 4096;
/// Length of an entry of symbols in bytes from which on the next one is started.
pub(super) const SYMBOLS_TARGET: usize = 1 << 15;

/// A block that is one byte short of being closed has room for the largest entry.
const _: () = assert!(BLOCK_TARGET + SYMBOLS_TARGET + MAX_FUNCTIONS * (3 * MAX_TEXT + 16) + MAX_MESSAGE <= MAX_PLAIN);

/// Kinds of entries.
pub(super) mod kind {
    pub(in super::super) const INFO: u8 = 1;
    pub(in super::super) const MESSAGE: u8 = 2;
    pub(in super::super) const CLOSED: u8 = 3;
    pub(in super::super) const ABORTED: u8 = 4;
    pub(in super::super) const TIME: u8 = 5;
    pub(in super::super) const SYMBOLS: u8 = 6;
    pub(in super::super) const CPU: u8 = 7;
    pub(in super::super) const EXIT: u8 = 8;
    pub(in super::super) const RESET_STACKS: u8 = 9;
    pub(in super::super) const END: u8 = 10;
    pub(in super::super) const UNSAMPLED: u8 = 11;
    pub(in super::super) const MERGED: u8 = 12;
}

/// The bit of a kind byte that marks a sample. The other bits say which fields differ from the
/// previous sample and follow, in the order of [`sample_field`]. After them come the thread id (as
/// a difference from the previous sample of the source), the stack's number unless the stack is
/// new, the target's time (difference), and the delay until the viewer received it (difference).
/// The two times are left out if they are those of the previous sample, as in all but the first of
/// the samples that an agent sends together.
pub const SAMPLE: u8 = 0x80;

/// Bits of a sample's kind byte for the fields that follow.
pub(super) mod sample_field {
    /// Source and pid.
    pub(in super::super) const SOURCE: u8 = 1;
    /// Clock, flags and module generation.
    pub(in super::super) const CONTEXT: u8 = 2;
    /// Weight.
    pub(in super::super) const WEIGHT: u8 = 4;
    /// A new stack: the number of outermost frames shared with the previous sample's stack, the
    /// number of new frames, and the new frames.
    pub(in super::super) const STACK: u8 = 8;
    /// The age, after everything else.
    pub(in super::super) const AGE: u8 = 16;
    /// No times follow: they are those of the previous sample. Excludes [`MICROSECONDS`].
    pub(in super::super) const SAME_TIMES: u8 = 32;
    /// The differences of times are in microseconds, not in nanoseconds.
    pub(in super::super) const MICROSECONDS: u8 = 64;
}
