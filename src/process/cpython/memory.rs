//! The memory of a process with an interpreter, as its reader sees it.

/// Maximum number of addresses that [`TargetMemory::gather`] reads.
pub(crate) const MAX_GATHERED: usize = 16;

/// Reads the memory of a process. Addresses may be wrong: then a read fails, and nothing faults.
pub(crate) trait TargetMemory {
    /// Fills the buffer from an address on, if all of it can be read.
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()>;

    /// Fills the buffer with the same number of bytes from each of some addresses, of which there
    /// are at most [`MAX_GATHERED`].
    fn gather(&self, addresses: &[u64], buffer: &mut [u8]) -> Option<()> {
        let each = buffer.len().checked_div(addresses.len()).filter(|&each| each > 0)?;
        addresses.iter().zip(buffer.chunks_exact_mut(each)).try_for_each(|(&address, part)| self.read(address, part))
    }

    /// Reads a word.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Reads half a word.
    fn half(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Some(u32::from_le_bytes(bytes))
    }
}

/// Returns the word at an offset.
pub(super) fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset.checked_add(8)?)?.try_into().ok()?))
}

/// Returns the half word at an offset.
pub(super) fn half(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}
