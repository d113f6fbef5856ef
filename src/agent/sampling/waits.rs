//! This process as its own source of waits. No libc is called.

use alloc::vec::Vec;

use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::os::status;
use crate::agent::os::syscall::{self, File, PathBuffer};
use crate::process::waits::{WaitReader, WaitSource};
use crate::wire::MAX_OBJECT;

/// Memory and files of this process.
pub(crate) struct OwnWaits {
    memory: ProcessMemory,
}

/// Makes a reader of the waits of this process.
pub(crate) fn reader() -> WaitReader<OwnWaits> {
    WaitReader::new(OwnWaits { memory: ProcessMemory::open() }, status::own_pid() == syscall::getpid())
}

/// Returns the path of a file about a thread.
fn path_of(tid: u32, name: &[u8]) -> PathBuffer<64> {
    PathBuffer::new().text(b"/proc/self/task/").number(tid.into()).text(name)
}

fn read_file(path: &PathBuffer<64>, buffer: &mut [u8]) -> usize {
    File::open(path.terminated(), 0).map_or(0, |file| file.read_at(buffer, 0))
}

impl WaitSource for OwnWaits {
    fn memory(&self, address: u64, buffer: &mut [u8]) -> usize {
        self.memory.read_some(address, buffer)
    }

    fn kernel_function(&self, tid: u32, buffer: &mut [u8]) -> usize {
        read_file(&path_of(tid, b"/wchan"), buffer)
    }

    fn description(&self, tid: u32, descriptor: u32, buffer: &mut [u8]) -> usize {
        read_file(&path_of(tid, b"/fdinfo/").number(descriptor.into()), buffer)
    }

    fn file(&self, tid: u32, descriptor: u32) -> (Vec<u8>, bool) {
        let path = path_of(tid, b"/fd/").number(descriptor.into());
        let mut object = alloc::vec![0; MAX_OBJECT];
        let length = syscall::read_link(path.terminated(), &mut object);
        object.truncate(length);
        let is_file = object.first() == Some(&b'/') && syscall::is_regular_file(path.terminated());
        (object, is_file)
    }

    fn is_thread(&self, tid: u32) -> bool {
        File::open(path_of(tid, b"").terminated(), libc::O_PATH).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn descriptors_are_described_by_their_files() {
        let (tid, waits) = (syscall::gettid(), OwnWaits { memory: ProcessMemory::open() });
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let executable = std::env::current_exe().unwrap();
        let expected = (executable.as_os_str().as_encoded_bytes().to_vec(), true);
        assert_eq!(waits.file(tid, file.as_raw_fd() as u32), expected);
        let (reader, _writer) = std::io::pipe().unwrap();
        let (object, is_file) = waits.file(tid, reader.as_raw_fd() as u32);
        assert!(object.starts_with(b"pipe:[") && !is_file);
        assert_eq!(waits.file(tid, 1_000_000), (Vec::new(), false));
        let mut text = [0; 64];
        let length = waits.description(tid, file.as_raw_fd() as u32, &mut text);
        assert!(text[..length].starts_with(b"pos:"));
        assert_eq!(waits.memory(8, &mut text), 0);
    }

    #[test]
    fn threads_of_this_process_are_known_while_they_live() {
        let waits = OwnWaits { memory: ProcessMemory::open() };
        let other = std::thread::spawn(syscall::gettid);
        assert!(waits.is_thread(syscall::gettid()));
        let ended = other.join().unwrap();
        while waits.is_thread(ended) {
            std::thread::yield_now();
        }
    }
}
