//! The memory limit, and when it is reached. `compaction` makes room.

/// The limit if none is set, in bytes.
pub const DEFAULT_MEMORY_BYTES: u64 = 512 << 20;
/// The lowest limit, in bytes: what every session needs, and some stacks.
pub const MIN_MEMORY_BYTES: u64 = 64 << 20;
/// Memory for everything that this module does not count, in bytes: the program, symbols of files
/// that are read, the recording, and messages on their way.
const BASE_BYTES: u64 = 32 << 20;
/// Memory of one stack in the profile and in the tables of `tally`, in bytes. The bench `memory`
/// measures 63 at most while vectors grow.
const NODE_BYTES: u64 = 96;
/// Memory of a frame and its names, in bytes.
pub(super) const FRAME_BYTES: u64 = 256;
/// Number of new stacks after which the memory of histories and totals is summed.
pub(super) const CHECK_EVERY: u32 = 4096;

/// The limit, and when to compare with it.
pub(super) struct MemoryLimit {
    pub(super) bytes: u64,
    /// Number of nodes that fit.
    pub(super) max_nodes: usize,
    /// Number of nodes at which stacks are cut next. It is more than `max_nodes` if less could not
    /// be reached.
    pub(super) cut_at: usize,
    /// Number of new stacks until the memory is summed again.
    pub(super) check_in: u32,
    /// Whether it was ever reached.
    pub(super) is_reached: bool,
}

impl Default for MemoryLimit {
    fn default() -> MemoryLimit {
        MemoryLimit::new(DEFAULT_MEMORY_BYTES)
    }
}

impl MemoryLimit {
    pub(super) fn new(bytes: u64) -> MemoryLimit {
        let bytes = bytes.max(MIN_MEMORY_BYTES);
        let max_nodes = nodes_in(bytes - BASE_BYTES);
        MemoryLimit { bytes, max_nodes, cut_at: max_nodes, check_in: CHECK_EVERY, is_reached: false }
    }

    /// Sets the number of nodes that fit beside other memory, at least a quarter of the limit.
    pub(super) fn reserve(&mut self, other_bytes: u64) {
        self.max_nodes = nodes_in((self.bytes - BASE_BYTES).saturating_sub(other_bytes).max(self.bytes / 4));
        self.cut_at = self.cut_at.min(self.max_nodes);
    }
}

/// The number of nodes that fit into some bytes. They take up to twice the memory while threads or
/// processes are shown at the root of stacks, or a baseline is set.
fn nodes_in(bytes: u64) -> usize {
    usize::try_from(bytes / (2 * NODE_BYTES)).unwrap_or(usize::MAX)
}
