//! The parts of a process that a reader of waits asks for.

use alloc::vec::Vec;

/// The memory of a process, and the files in `/proc` about its threads.
pub(crate) trait WaitSource {
    /// Fills the start of the buffer with memory from an address on. Returns the number of bytes.
    fn memory(&self, address: u64, buffer: &mut [u8]) -> usize;
    /// Fills the start of the buffer with the function of the kernel in which a thread waits.
    /// Returns the number of bytes. /proc/PID/wchan
    fn kernel_function(&self, tid: u32, buffer: &mut [u8]) -> usize;
    /// Fills the start of the buffer with the text about a descriptor of a thread. Returns the
    /// number of bytes. /proc/PID/fdinfo
    fn description(&self, tid: u32, descriptor: u32, buffer: &mut [u8]) -> usize;
    /// Returns the file behind a descriptor of a thread, and whether it is a regular one. The file
    /// system, which may hang, is not asked. /proc/PID/fd
    fn file(&self, tid: u32, descriptor: u32) -> (Vec<u8>, bool);
    /// Returns whether the process has a thread with that id.
    fn is_thread(&self, tid: u32) -> bool;
}
