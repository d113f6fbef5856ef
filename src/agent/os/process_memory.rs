//! The memory of this process, read through the kernel.

use core::cell::Cell;

use crate::agent::os::syscall::{self, File};
use crate::process::cpython::memory::TargetMemory;

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

    /// The same for writing, if the kernel allows it.
    pub(crate) fn open_for_writing() -> Option<ProcessMemory> {
        File::open(b"/proc/thread-self/mem\0", libc::O_RDWR).map(|file| ProcessMemory(Some(file)))
    }

    /// Writes bytes at an address, also to pages that are mapped read-only. What is not mapped
    /// fails instead of faulting.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|file| file.write_at(bytes, address).is_ok())
    }

    /// Fills the buffer from an address on, if all of it is mapped.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        match &self.0 {
            Some(file) => file.read_exact_at(buffer, address).then_some(()),
            None => syscall::read_own_memory(address, buffer).then_some(()),
        }
    }

    /// Fills the start of the buffer from an address on, as far as memory is mapped. Returns the
    /// number of bytes.
    pub(crate) fn read_some(&self, address: u64, buffer: &mut [u8]) -> usize {
        const PAGE: u64 = 4096;
        if let Some(file) = &self.0 {
            return file.read_at(buffer, address);
        }
        let mut done = 0;
        while done < buffer.len() {
            let start = address + done as u64;
            let end = buffer.len().min(done + (PAGE - start % PAGE) as usize);
            if !syscall::read_own_memory(start, &mut buffer[done..end]) {
                break;
            }
            done = end;
        }
        done
    }
}

impl TargetMemory for ProcessMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        ProcessMemory::read(self, address, buffer)
    }
}

/// The memory of this process, read by process_vm_readv(2).
#[derive(Default)]
pub(crate) struct OwnMemory {
    /// Number of system calls, and of addresses that they have read from.
    pub(crate) calls: Cell<u64>,
    pub(crate) addresses: Cell<u64>,
}

impl TargetMemory for OwnMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.count(1);
        syscall::read_own_memory(address, buffer).then_some(())
    }

    fn gather(&self, addresses: &[u64], buffer: &mut [u8]) -> Option<()> {
        self.count(addresses.len());
        syscall::gather_own_memory(addresses, buffer).then_some(())
    }
}

impl OwnMemory {
    fn count(&self, addresses: usize) {
        self.calls.set(self.calls.get() + 1);
        self.addresses.set(self.addresses.get() + addresses as u64);
    }
}
