//! The memory of this process, read through the kernel.

use crate::agent::os::syscall::{self, File};

/// The memory of this process, read through the kernel: what is not mapped fails instead of
/// faulting.
///
/// A process that has changed its user may not open its own `mem` any more; it may still read
/// itself by process_vm_readv(2), which some sandboxes forbid.
pub(crate) struct ProcessMemory(Option<File>);

impl ProcessMemory {
    /// The memory of this process.
    pub(crate) fn open() -> ProcessMemory {
        ProcessMemory(File::open(b"/proc/thread-self/mem\0", 0))
    }

    /// Fills the buffer from an address on, if all of it is mapped.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        match &self.0 {
            Some(file) => file.read_exact_at(buffer, address).then_some(()),
            None => syscall::read_own_memory(address, buffer).then_some(()),
        }
    }
}
